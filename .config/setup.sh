# Sourced by tests/run and samples/demo: finds what this machine lacks, installs it where it may, builds out of tree.
# Wants $top (the source tree). Honours BUBBLETOP_BUILD (where to build) and BUBBLETOP_INSTALL=no (no system packages).

build_root=${BUBBLETOP_BUILD:-$top/_build}
jobs=$(nproc 2>/dev/null || echo 2)

has() { command -v "$1" >/dev/null 2>&1; }
has_library() { has pkg-config && pkg-config --exists "$@" 2>/dev/null; }
compiles() { has gcc && echo "$1" | gcc -x c -fsyntax-only - 2>/dev/null; }
python_has() { "${1:-python3}" -c "import $2" 2>/dev/null; }

# The Debian packages without which there is no program.
missing_for_build() {
  has autoreconf || echo autoconf
  has automake || echo automake
  has libtoolize || echo libtool
  has pkg-config || echo pkg-config
  has make || echo make
  has gcc || echo gcc
  has g++ || echo g++
  compiles '#include <stdio.h>' || echo libc6-dev
  has_library ncursesw || echo libncurses-dev
  has_library msgpack-c || has_library msgpack || echo libmsgpack-dev
}

# Those without which some tests are skipped.
missing_for_tests() {
  has_library cmocka || echo libcmocka-dev
  has python3 || echo python3
  python_has python3 msgpack || python_has /usr/bin/python3 msgpack || echo python3-msgpack
  /usr/bin/python3 -c 'import torch' 2>/dev/null || echo python3-torch
  has tmux || echo tmux
  has ps || echo procps
  has clang-format || has clang-format-14 || echo clang-format
  has mandoc || echo mandoc
}

missing_for_clang() {
  has clang || echo clang
}

missing_for_frameworks() {
  python_has python3 ensurepip || echo python3-venv
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo $([ -t 0 ] || echo -n) "$@"; fi
}

may_install() {
  [ "${BUBBLETOP_INSTALL:-yes}" != no ] && has apt-get || return 1
  [ "$(id -u)" = 0 ] && return 0
  has sudo || return 1
  sudo -n true 2>/dev/null || [ -t 0 ]
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" </dev/null; }

# install PACKAGE...: tries; what is still missing afterwards is for the caller to find out.
install() {
  echo "installing: $*"
  mkdir -p "$build_root"
  local log=$build_root/install.log
  if apt install --no-install-recommends "$@" >"$log" 2>&1; then return 0; fi
  # The lists may be absent (a fresh image) or old.
  { apt update && apt install --no-install-recommends "$@"; } >>"$log" 2>&1 && return 0
  tail -n 5 "$log" >&2
  echo "apt-get failed; its whole output: $log" >&2
  return 1
}

# provide MISSING-FUNCTION...: installs what the functions name, where that is possible.
provide() {
  local what packages=''
  for what in "$@"; do packages="$packages $($what)"; done
  packages=$(echo $packages)
  [ -n "$packages" ] || return 0
  if may_install; then install $packages; else echo "not installed: $packages"; fi
}

# Ends the script when the program cannot be built here.
need_for_build() {
  local packages
  packages=$(echo $(missing_for_build))
  [ -z "$packages" ] && return 0
  echo "missing, and the build needs it: $packages" >&2
  echo "as root: apt-get install $packages" >&2
  return 1
}

# quietly LOG COMMAND...: the output goes to a file, of which a failure shows the end.
quietly() {
  local log=$1
  shift
  "$@" </dev/null >"$log" 2>&1 && return 0
  tail -n 40 "$log" >&2
  echo "failed: $*; the whole output: $log" >&2
  return 1
}

# build NAME CONFIGURE-ARGUMENT...: configures (when new, or the arguments or what is installed changed) and builds in
# $build_root/NAME.
build() {
  local folder=$build_root/$1 found
  shift
  found="$* without: $(echo $(missing_for_tests))"
  mkdir -p "$folder"
  if [ ! -x "$top/configure" ] || [ ! -e "$top/.config/aux/ltmain.sh" ]; then
    quietly "$folder/autoreconf.log" autoreconf -fi "$top" || return 1
  fi
  if [ ! -e "$folder/Makefile" ] || [ "$(cat "$folder/.found" 2>/dev/null)" != "$found" ]; then
    (cd "$folder" && quietly configure.log "$top/configure" "$@") || return 1
    echo "$found" >"$folder/.found"
  fi
  quietly "$folder/build.log" make -C "$folder" -s -j"$jobs"
}

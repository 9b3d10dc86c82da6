# Every header compiles alone in C11, the installed ones in strict C11 and in C++11 too; the version is the same everywhere.
set -u
cd "$top_srcdir" || exit 99
status=0
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
variable() { sed -n "s/^$1 = //p" "$top_builddir/Makefile"; }
CC=$(variable CC) CXX=$(variable CXX) flags="-Wall -Wextra -Werror -fsyntax-only -I. $(variable MSGPACK_CFLAGS)"

for header in capture/bubbletop*.h; do
  printf '#include "%s"\n' "$header" >"$work/alone.c"
  cp "$work/alone.c" "$work/alone.cc"
  $CC -std=c11 -pedantic-errors $flags "$work/alone.c" || { echo "$header: not C11"; status=1; }
  $CXX -std=c++11 -pedantic-errors $flags "$work/alone.cc" || { echo "$header: not C++11"; status=1; }
done

# Included twice, so that the guard is tried as well.
for header in $(find capture formats tui samples -name '*.h'); do
  printf '#include "%s"\n#include "%s"\n' "$header" "$header" >"$work/alone.c"
  $CC -std=gnu11 $flags $(variable NCURSES_CFLAGS) $(variable CUDA_CPPFLAGS) $(variable NCCL_CPPFLAGS) "$work/alone.c" ||
    { echo "$header does not compile alone"; status=1; }
done

# AC_INIT is the one place of the version; the header's macros follow it.
for part in MAJOR MINOR PATCH; do
  macros="${macros:+$macros.}$(sed -n "s/^#define BUBBLETOP_VERSION_$part \([0-9]*\)$/\1/p" capture/bubbletop.h)"
done
version=$(variable PACKAGE_VERSION)
[ "$macros" = "$version" ] || { echo "capture/bubbletop.h says $macros, configure.ac $version"; status=1; }
exit $status

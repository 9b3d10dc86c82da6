# `make install DESTDIR=` gives a program that runs and a library that a stranger can build against with pkg-config, as C
# and as C++, shared and static; `make uninstall` leaves nothing.
set -u
grep -q '^BT_CFLAGS.*-fsanitize' "$top_builddir/Makefile" && { echo 'the stranger would need the sanitizer too'; exit 77; }
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
variable() { sed -n "s/^$1 = //p" "$top_builddir/Makefile"; }
fail() { echo "$@"; exit 1; }
CC=$(variable CC) CXX=$(variable CXX) prefix=$(variable prefix)

# The outer make's job server and flags are not ours.
unset MAKEFLAGS MFLAGS MAKELEVEL
make -C "$top_builddir" -s install DESTDIR="$work/root" >"$work/log" 2>&1 || { cat "$work/log"; fail 'make install failed'; }
root=$work/root$prefix

export PKG_CONFIG_PATH=$root/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/root
# The example of the README, as a program that people would write.
{
  sed -n '/^```c$/,/^```$/{/^```/d;p}' "$top_srcdir/README.md"
  cat <<'END'
#include <string.h>
void receive(int from, long bytes) { (void)from, (void)bytes; }
void send_to(int to, long bytes) { (void)to, (void)bytes; }
void forward(int microbatch) { (void)microbatch; }
void backward(int microbatch) { (void)microbatch; }
int main(void) {
  train(0, 2, 4, 3, 1024);
  return strcmp(bubbletop_version(), EXPECTED) != 0;
}
END
} >"$work/example.c"
cp "$work/example.c" "$work/example.cc"
expected="-DEXPECTED=\"$(pkg-config --modversion bubbletop)\""
flags=$(pkg-config --cflags --libs bubbletop) || fail 'pkg-config does not know bubbletop'
compile_flags=$(pkg-config --cflags bubbletop)
$CC -std=c11 -Wall -Wextra -Werror "$expected" "$work/example.c" -o "$work/c" $flags || fail 'no C program builds against the installation'
$CXX -std=c++11 -Wall -Wextra -Werror "$expected" "$work/example.cc" -o "$work/cc" $flags || fail 'no C++ program builds against the installation'
for program in c cc; do
  LD_LIBRARY_PATH=$root/lib BUBBLETOP_DIR=$work/run-$program BUBBLETOP_RANK=0 "$work/$program" ||
    fail "the program built as $program does not run or sees another version"
  "$root/bin/bubbletop" info "$work/run-$program" >"$work/info" || fail "the capture of $program cannot be read"
  grep -qE '^spans +48,' "$work/info" || { cat "$work/info"; fail "$program: 3 steps of 4 microbatches are not there"; }
done
# The examples of the manual page for strangers, as they stand there.
example() { # example NAME: what stands between its marks
  sed -n "/^\.\\\\\" begin $1\$/,/^\.\\\\\" end $1\$/{/^\./d;p}" "$root/share/man/man7/bubbletop-instrument.7" >"$work/$1"
  [ -s "$work/$1" ] || fail "bubbletop-instrument(7) has no $1"
}
example train.c
example gpu.c
$CC -Wall -Wextra -Werror "$work/train.c" -o "$work/train" $flags || fail 'the example of bubbletop-instrument(7) does not build'
$CC -Wall -Wextra -Werror -c "$work/gpu.c" -o "$work/gpu.o" $compile_flags || fail 'the example for GPUs of bubbletop-instrument(7) does not compile'
LD_LIBRARY_PATH=$root/lib "$root/bin/bubbletop" record -o "$work/trained" -- "$work/train" >"$work/log" 2>&1 || { cat "$work/log"; fail 'the example does not run'; }
"$root/bin/bubbletop" info "$work/trained" >"$work/info" || { cat "$work/info"; fail 'the capture of the example has problems'; }
for line in '^ranks +2 of 2' '^spans +120,' '^steps +3 ' '^problems +none'; do
  grep -qE "$line" "$work/info" || { cat "$work/info"; fail "not in the example's capture: $line"; }
done
"$root/bin/bubbletop" report "$work/trained" --json >"$work/report" || fail 'the example has no report'
grep -q '"rate_window": 0\.' "$work/report" || fail 'the example has no bubble'

if [ -e "$root/lib/libbubbletop.a" ]; then
  $CC "$expected" "$work/example.c" -o "$work/static" $(pkg-config --cflags bubbletop) "$root/lib/libbubbletop.a" -lpthread || fail 'the static library does not link'
  "$work/static" || fail 'the statically linked program does not run'
fi

"$root/bin/bubbletop" --help >/dev/null || fail 'the installed program does not run'
if command -v mandoc >/dev/null; then
  find "$root" -path '*/man/*' -type f | while read -r page; do
    mandoc -T lint -W warning "$page" || fail "mandoc has complaints about $page"
  done || exit 1
fi

make -C "$top_builddir" -s uninstall DESTDIR="$work/root" >"$work/log" 2>&1 || { cat "$work/log"; fail 'make uninstall failed'; }
left=$(find "$work/root" ! -type d)
[ -z "$left" ] || fail "make uninstall leaves: $left"

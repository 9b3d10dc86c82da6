# What the objects themselves say: the library's exports and needs, and what library code must not do.
set -u
grep -q '^BT_CFLAGS.*-fsanitize' "$top_builddir/Makefile" && { echo 'sanitizers add symbols of their own'; exit 77; }
cd "$top_builddir" || exit 99
status=0
complain() { printf '%s\n' "$@"; status=1; }

# libbubbletop exports exactly what its installed headers declare, and needs libc alone.
library=.libs/libbubbletop.so
if [ -e $library ]; then
  declared=$(cat "$top_srcdir"/capture/bubbletop*.h | sed -n '/BUBBLETOP_API /{s/^.*BUBBLETOP_API [^(]*\b\(bubbletop_[a-z0-9_]*\)(.*/\1/p}' | sort)
  exported=$(nm -D --defined-only $library | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
  difference=$(diff <(echo "$declared") <(echo "$exported") | grep '^[<>]')
  [ -z "$difference" ] || complain "exports of $library (< declared, not exported; > exported, not declared):" "$difference"
  needs=$(readelf -d $library | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^libc\.so')
  [ -z "$needs" ] || complain "$library needs more than libc:" "$needs"
  readelf -d $library | grep -q 'FLAGS_1.*NODELETE' || complain "$library can be unloaded (-z nodelete)"
fi

# The injected libraries export what their loaders look for, and share the one libbubbletop.
injected() {
  [ -e "$1" ] || return
  exported=$(nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | sort | tr '\n' ' ')
  [ "$exported" = "$2 " ] || complain "$1 exports $exported"
  needs=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^lib(c|bubbletop)\.so')
  [ -z "$needs" ] || complain "$1 needs more than libbubbletop and libc:" "$needs"
  readelf -d "$1" | grep -q 'NEEDED.*libbubbletop\.so' || complain "$1 has a libbubbletop of its own"
  readelf -d "$1" | grep -q 'FLAGS_1.*NODELETE' || complain "$1 can be unloaded (-z nodelete)"
}
injected .libs/libbubbletop-nvtx.so 'InitializeInjectionNvtx2 InitializeInjectionNvtxExtension'
injected .libs/libnccl-profiler-bubbletop.so 'bubbletop_nccl_attach ncclProfiler_v4 ncclProfiler_v5 ncclProfiler_v6'

objects() { find "$@" -name '*.o' ! -path '*/.libs/*' 2>/dev/null; }

# Library code never ends the process and never speaks.
for object in $(objects capture formats tui/analysis tui/screen); do
  never='abort|exit|_exit|_Exit|quick_exit|__assert_fail|err|errx|warn|warnx|perror|puts|putchar|printf|vprintf|__printf_chk|__vprintf_chk|stdout|stderr'
  case $object in
    tui/screen/terminal*|tui/screen/libscreen_la-terminal*) never='abort|exit|_exit|_Exit|quick_exit|__assert_fail' ;; # the terminal is its business
  esac
  wrong=$(nm --undefined-only "$object" | awk '{ print $2 }' | grep -xE "$never" | tr '\n' ' ')
  [ -z "$wrong" ] || complain "$object calls $wrong"
done

# No global mutable state: variables are const (.rodata, .data.rel.ro) or live in structs of the caller.
for object in $(objects formats tui/analysis tui/screen tui/commands); do
  wrong=$(objdump -t "$object" | awk '/ O / && $(NF - 2) ~ /^(\.t?data|\.t?bss|\.data\.rel(\.local)?|\*COM\*)$/ { print $NF }' | tr '\n' ' ')
  [ -z "$wrong" ] || complain "$object has global mutable state: $wrong"
done

# Analysis is pure: no curses, no files.
for object in $(objects tui/analysis); do
  wrong=$(nm --undefined-only "$object" | awk '{ print $2 }' |
    grep -xE '(initscr|newterm|endwin|w?getch|w?addn?w?str|mvw?[a-z]+|wrefresh|doupdate|setupterm|stdscr|fopen|open|openat|read|write|mmap|getenv|clock_gettime|time)(64|_2)?' | tr '\n' ' ')
  [ -z "$wrong" ] || complain "$object is not pure: $wrong"
done
exit $status

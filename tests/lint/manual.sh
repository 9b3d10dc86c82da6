# The manual pages and the README say all that the command table, the header and the program have; completion completes.
set -u
status=0
complain() { echo "$@"; status=1; }
program=$top_builddir/bubbletop
page=$top_builddir/tui/man/bubbletop.1
api=$top_srcdir/capture/man/bubbletop.3
readme=$top_srcdir/README.md

if command -v mandoc >/dev/null; then
  for each in "$page" "$top_srcdir"/capture/man/*.[37]; do mandoc -T lint -W warning "$each" || complain "mandoc complains about $each"; done
fi

# The page has every command and option; completion knows the same.
commands=$("$program" help --man | sed -n 's/^\.It Ic \([a-z]*\) Ar .*/\1/p')
[ -n "$commands" ] || complain 'no commands in help --man'
. "$top_builddir/tui/man/bubbletop"
complete_line() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _bubbletop
  echo "${COMPREPLY[*]}"
}
for command in $commands; do
  grep -q "^\.It Ic $command Ar " "$page" || complain "bubbletop.1 lacks $command"
  case " $(complete_line bubbletop "${command:0:2}") " in *" $command "*) ;; *) complain "${command:0:2} does not complete to $command" ;; esac
  grep -qE "^  $command +[a-z]" "$readme" || complain "the README lacks $command"
  "$program" help "$command" >/dev/null || complain "help $command fails"
  cmp -s <("$program" help "$command") <("$program" "$command" --help) || complain "$command --help is not help $command"
  for option in $("$program" help "$command" | sed -n 's/^  \(-[-a-z]*\) .*/\1/p'); do
    grep -qF -- ".It Ic \"${option//-/\\-}\"" "$page" || complain "bubbletop.1 lacks $command $option"
    case " $(complete_line bubbletop "$command" "$option") " in *" $option "*) ;; *) complain "$command $option does not complete" ;; esac
  done
done

for header in bubbletop bubbletop_cuda bubbletop_tool; do
  names=$(sed -n 's/^BUBBLETOP_API [^(]*\b\(bubbletop_[a-z0-9_]*\)(.*/\1/p' "$top_srcdir/capture/$header.h")
  [ -n "$names" ] || complain "no functions in $header.h"
  for name in $names; do
    grep -q "^\.Fn $name " "$top_srcdir/capture/man/$header.3" || complain "$header.3 lacks $name"
  done
done
for name in $(grep -oE '\bBUBBLETOP_(DIR|RANK|[A-Z]*_(ID|MS|BYTES|DIR)|STEPS|EVERY)\b' "$top_srcdir/capture/bubbletop.h" | sort -u); do
  grep -q "$name" "$api" || complain "bubbletop.3 lacks $name"
done

# The README has every warning's code, and every variable that the library reads.
codes=$(cd "$top_srcdir" && {
  sed -n '/^const char \*bt_problem_code/,/^}/p' formats/problems.c | grep -oE '= "[a-z_]+"'
  cat tui/analysis/*.c tui/commands/*.c | grep -oE '(bt_account_warn|bt_plan_warn|add_warning)\([^"]*"[a-z_]+"'
} | sed 's/.*"\([a-z_]*\)"/\1/' | sort -u)
[ "$(echo "$codes" | wc -l)" -gt 20 ] || complain "found only these codes in the sources:" $codes
for code in $codes; do grep -q "^|.*\`$code\`.*|" "$readme" || complain "the README lacks the warning $code"; done
for name in $(grep -ohE '"BUBBLETOP_[A-Z_]+"' "$top_srcdir"/capture/*.c | tr -d '"' | sort -u); do
  grep -q "$name" "$readme" || complain "the README lacks $name"
  grep -q "$name" "$api" || complain "bubbletop.3 lacks $name"
done
exit $status

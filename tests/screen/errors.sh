# What `view` says when it cannot show: one line, and the exit status of the contract.
set -u
bubbletop=$top_builddir/bubbletop
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0
# expect STATUS PATTERN ARGUMENTS...
expect() {
  local wanted=$1 pattern=$2 status
  shift 2
  "$bubbletop" "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
  if [ $status -ne "$wanted" ] || ! grep -q -- "$pattern" "$work/err" || [ "$(wc -l <"$work/err")" -ne 1 ]; then
    echo "bubbletop $*: status $status instead of $wanted, said: $(cat "$work/err")"
    failed=1
  fi
}
"$bubbletop" simulate --schedule gpipe --stages 2 --microbatches 2 -o "$work/run" >/dev/null || exit 1
mkdir "$work/empty" "$work/other"
echo hello >"$work/other/notes.txt"
expect 2 'bubbletop report' "$work/run"
expect 3 'no command' "$work/no-such-run"
expect 3 . "$work/empty" --save-screen -
expect 3 . "$work/other" --save-screen -
expect 3 . "$work/other/notes.txt" --save-screen -
expect 2 'no key' "$work/run" --save-screen - --script Nonsense
expect 2 'size' "$work/run" --save-screen - --size 80
expect 2 'save-screen' "$work/run" --script w
expect 2 'option' "$work/run" --no-such-option
expect 2 'which run' view
expect 2 'speed' "$work/run" --replay=fast
cp -r "$work/run" "$work/second"
cp -r "$work/run" "$work/third"
expect 2 '3 runs.*two' "$work/run" "$work/second" "$work/third" --save-screen -
expect 2 '3 runs.*two' "$work/run" "$work/second" --with "$work/third" --save-screen -
expect 2 'two runs' "$work/run" --with "$work/second" --with "$work/third" --save-screen -
expect 2 'second run' "$work/run" "$work/second" "$work/third"/rank-00000.* --save-screen -
expect 2 'replay' "$work/run" "$work/second" --replay
expect 2 'no schedule' "$work/run" --plan nonsense --save-screen -
expect 3 'csv' "$work/run" --plan "$work/none.csv" --save-screen -
expect 2 'option' "$work/run" --plan
expect 3 . "$work/run" "$work/empty" --save-screen -
expect 3 . "$work/run" --with "$work/no-such-run" --save-screen -
expect 3 . "$work/run" --save-screen "$work/no/such/directory/file"
exit $failed

# The checks of tests/gpu/run, on what a double of the driver makes: they pass where they must, and fail where they must.
set -u
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
cd "$top_builddir" || exit 99
status=0
pretend=tests/gpu/pretend
check=tests/gpu/check_spans
expect() { # expect STATUS COMMAND...
  local wanted=$1 got
  shift
  "$@" >"$work/log" 2>&1
  got=$?
  [ $got -eq "$wanted" ] && return
  echo "$* exits with $got, not $wanted:"
  cat "$work/log"
  status=1
}
for rank in 0 1; do RANK=$rank BUBBLETOP_DIR=$work/pool expect 0 $pretend pool "$work/truth.$rank"; done
cat "$work"/truth.? >"$work/truth"
expect 0 $check times "$work/pool" "$work/truth" 1
expect 0 $check anchors "$work/pool" 5000
expect 1 $check anchors "$work/pool" 0.001
expect 0 $check ops "$work/pool" F 120
expect 1 $check ops "$work/pool" F 119
expect 1 $check ops "$work/pool" B 120
awk '{ $3 += ($1 == 1) * 1000000; print }' "$work/truth" >"$work/apart" # one rank's clock is off
expect 1 $check times "$work/pool" "$work/apart" 1
awk '{ $3 += ($2 == 7) * 1000000; print }' "$work/truth" >"$work/moved" # one span is elsewhere
expect 1 $check times "$work/pool" "$work/moved" 1
: >"$work/nothing"
expect 1 $check times "$work/pool" "$work/nothing" 1
BUBBLETOP_DIR=$work/long expect 0 $pretend pool "$work/wrong" 1.1
expect 1 $check times "$work/long" "$work/wrong" 1
BUBBLETOP_DIR=$work/drift expect 0 $pretend drift "$work/brackets"
expect 0 $check brackets "$work/drift" "$work/brackets"
BUBBLETOP_DIR=$work/far expect 0 $pretend drift "$work/brackets" 1.05 # the second look 50 ms too early
expect 1 $check brackets "$work/far" "$work/brackets"
BUBBLETOP_DIR=$work/messages RANK=0 WORLD_SIZE=1 expect 0 $pretend messages
expect 0 $check messages "$work/messages" 20 4194304
expect 1 $check messages "$work/messages" 21 4194304
expect 1 $check messages "$work/messages" 20 4

# The script itself, among programs that do nothing: without a GPU, with one, with one thing that does not hold.
mkdir -p "$work/path" "$work/build/samples" "$work/build/tests/gpu"
program() { # program FILE LINE: a script of that line
  printf '#!/bin/sh\n%s\n' "$2" >"$1"
  chmod +x "$1"
}
script() { PATH=$work/path:$PATH PYTHON=false bash "$top_srcdir/tests/gpu/run" "$work/build"; }
program "$work/path/nvidia-smi" 'exit 9'
expect 77 script
program "$work/path/nvidia-smi" 'echo "GPU 0: none"'
expect 77 script # nothing is built
program "$work/build/samples/nccl_pipeline" 'echo "100 steps of 2.000 ms"'
program "$work/build/tests/gpu/event_pool" 'echo >"$2"'
for each in self_send check_spans; do program "$work/build/tests/gpu/$each" 'exit 0'; done
program "$work/build/bubbletop" "echo '\"rate_window\": 0.25'"
expect 0 script
program "$work/build/tests/gpu/check_spans" '[ $1 != brackets ]'
expect 1 script
grep -q '^FAILED .*drift' "$work/log" || { echo 'the failure is not named'; status=1; }
program "$work/build/tests/gpu/check_spans" 'exit 0'
program "$work/build/samples/nccl_pipeline" 'if [ -n "$BUBBLETOP_DIR" ]; then echo "100 steps of 2.2 ms"; else echo "100 steps of 2.0 ms"; fi'
expect 1 script # capture costs 10 %
grep -q '^FAILED .*costs' "$work/log" || { echo 'the cost is not named'; status=1; }
exit $status

# What the sample trainer captures is what it did: every op in the schedule's order, every message on both sides.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset "${!BUBBLETOP_@}" RANK WORLD_SIZE
cd "$top_builddir"

captured() {
  rm -rf "$work/run"
  samples/pipeline_train "$@" --out "$work/run" >"$work/output" || { cat "$work/output"; exit 1; }
  tests/samples/check_capture "$work/run" "$@"
}

small='--hidden 16 --batch 8 --steps 10'
quick='--compute timed --forward 1ms --backward 1ms --weight 1ms --steps 3'
captured $small --schedule gpipe
captured $small --schedule interleaved --barrier
captured $small --schedule zb-h2
captured $small --schedule zb-v --stages 3
captured $small --schedule 1f1b --stages 3 --dp 2 --declare
captured $small --schedule 1f1b --stages 1 --split-backward
captured $quick --schedule zb-h1 --stages 8 --optimizer 1ms --jitter 10 --slow 2:1.5

# The check itself can fail: this run had fewer steps, and another order.
refused() {
  ! tests/samples/check_capture "$work/run" $quick --stages 8 --optimizer 1ms "$@" || { echo "not noticed: $*"; exit 1; }
}
refused --schedule zb-h1 --steps 4
refused --schedule 1f1b --split-backward

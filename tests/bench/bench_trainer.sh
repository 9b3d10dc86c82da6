# What capture costs a real training run: the sample trainer, two stages, in pairs with and without that take turns. Steps a
# second by the wall clock and by the processors' time; the middle of the pairs' ratios.
set -u
trainer=./samples/pipeline_train
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset BUBBLETOP_DIR
pairs=${PAIRS:-7} steps=60
# run DIRECTORY: wall and processor seconds of a run, nothing captured without a directory
run() {
  local TIMEFORMAT='%R %U %S'
  { time "$trainer" --stages 2 --schedule zb-h1 --steps $steps --hidden 128 --batch 32 ${1:+--out "$1"} >"$work/log" 2>&1; } 2>&1 |
    awk '{ print $1, $2 + $3 }'
}
run '' >/dev/null # the first one warms up
for pair in $(seq "$pairs"); do
  if [ $((pair % 2)) = 1 ]; then
    without=$(run '') with=$(run "$work/$pair")
  else
    with=$(run "$work/$pair") without=$(run '')
  fi
  rm -rf "$work/$pair"
  echo "$without $with"
done | sort -k1,1 | awk -v steps="$steps" '
  function middle(a, n,   i, k, t) {
    for (i = 2; i <= n; i++) for (k = i; k > 1 && a[k] < a[k - 1]; k--) { t = a[k]; a[k] = a[k - 1]; a[k - 1] = t }
    return a[int((n + 1) / 2)]
  }
  { rate[NR] = steps / $1; captured[NR] = steps / $3; wall[NR] = $1 / $3; cpu[NR] = $4 / $2 }
  END {
    printf "trainer: %.0f steps/s with capture, %.0f without: %.3f of the speed (target: > 0.98), %.3f times the processor time\n",
      middle(captured, NR), middle(rate, NR), middle(wall, NR), middle(cpu, NR)
  }'

# `report --plan` and `compare` as a person and a script see them: golden texts, JSON keys, exit statuses.
# BLESS=1 writes the golden files anew (look at the difference before committing it).
set -u
here=$top_srcdir/tests/plan
program=$top_builddir/bubbletop
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
status=0
complain() { echo "$@"; status=1; }

simulate() { "$program" simulate --ranks-per-host 64 --comm 1ms "$@" >/dev/null || status=1; }
simulate --schedule zb-h2 --stages 4 --microbatches 8 --steps 3 -o "$work/h2"
simulate --schedule 1f1b --stages 2 --microbatches 4 --steps 2 -o "$work/small"
simulate --schedule 1f1b --stages 8 --microbatches 16 --steps 3 --optimizer 5ms -o "$work/a"
simulate --schedule 1f1b --stages 8 --microbatches 16 --steps 4 --optimizer 5ms --slow 1:1.3 --slow-link 5-6:4 -o "$work/b"
simulate --schedule 1f1b --stages 2 --microbatches 4 --steps 2 --slow 1:1.5 -o "$work/slow"
simulate --schedule interleaved --stages 4 --chunks 2 --microbatches 8 -o "$work/chunks"
cd "$work" || exit 99 # names in the golden texts are short
cp "$here"/*.csv .
: >empty.csv

# golden NAME ARGUMENTS...: the whole text, or the plan's section of a report
golden() {
  local name=$1
  shift
  "$program" "$@" >"$work/all" 2>"$work/err" || complain "bubbletop $*: exit status $?: $(cat "$work/err")"
  if [ "$1" = report ]; then sed -n '/^plan /,$p' "$work/all" >"$work/out"; else cp "$work/all" "$work/out"; fi
  awk 'length > 80 { print "too wide: " $0; wide = 1 } END { exit wide }' "$work/out" || status=1
  if [ -n "${BLESS:-}" ]; then cp "$work/out" "$here/golden/$name.txt"; fi
  diff -u "$here/golden/$name.txt" "$work/out" || complain "$name differs"
}
golden plan-own report h2 --plan zb-h2
golden plan-other report h2 --plan ZB-H1
golden plan-csv report small --plan order.csv
golden plan-slow report slow --plan=1f1b
golden plan-interleaved report chunks --plan looped-bfs
golden compare compare a b
golden compare-same compare a a
golden compare-shapes compare h2 small
golden compare-chunks compare chunks h2

# expect STATUS PATTERN ARGUMENT...: the program's exit status, and a line that matches.
expect() {
  local wanted=$1 pattern=$2 got
  shift 2
  "$program" "$@" >out 2>err
  got=$?
  [ "$got" = "$wanted" ] || complain "bubbletop $*: exit status $got, not $wanted: $(cat err)"
  grep -q -- "$pattern" out err || complain "bubbletop $*: nothing about '$pattern': $(cat out err)"
}
expect 2 'there are gpipe, 1f1b, ' report small --plan nonsense
expect 2 'needs a value' report small --plan
expect 2 'no place for --plan' report small --plan 1f1b --csv
expect 2 'does not fit the run: zb-h2 has 1 chunk a stage, not 2' report chunks --plan zb-h2
expect 2 'does not fit the run: it is for 2 stages, 1 chunks a stage and 4 microbatches' report a --plan order.csv
expect 2 'does not fit the run' report small --plan ragged.csv
expect 3 'No such file' report small --plan none.csv
expect 3 'row 1, column 2: .0Q1.: unknown action' report small --plan bad.csv
[ "$(wc -l <err)" = 3 ] || complain "bad.csv: not three errors: $(cat err)"
grep -q 'row 1, column 3: .F2.' err && grep -q 'row 1, column 4: .0F.: no microbatch' err || complain "bad.csv: $(cat err)"
[ ! -s out ] || complain 'a report though the plan cannot be read'
expect 3 'no cells' report small --plan empty.csv
expect 4 'late.total_ns>1000000 holds' report slow --plan 1f1b --fail-if 'plan.late.total_ns>1ms'
expect 0 'all 32 ops' report small --plan 1f1b --fail-if 'plan.late.total_ns>0' --fail-if 'plan.displaced_ops>0'

expect 2 'which runs' compare
expect 2 'with which other run' compare small
expect 2 'not more' compare small small small
expect 2 "no option '--sideways'" compare small small --sideways
expect 3 'No such file' compare small nothing
expect 3 'No such file' compare nothing small
rm small/rank-00001.*
expect 1 '! B: ' compare slow small
expect 1 '"rate_window": {"a": [0-9.]*, "b": null, "change": null}' compare slow small --json

"$program" report slow --plan 1f1b --json >plan.json && "$program" compare a b --json >compare.json || complain 'no JSON'
if [ -n "${PYTHON3:-}" ]; then
  "$PYTHON3" - <<'PYTHON' || status=1
import json
plan = json.load(open('plan.json'))['plan']
assert plan['source'] == 'schedule' and plan['name'] == '1f1b' and plan['ops'] == 32 == plan['in_order'], plan
assert plan['displaced'] == plan['missing'] == plan['extra'] == [], plan
late = plan['late']
assert late['total_ns'] == sum(step['late_ns'] for step in plan['steps']) > 0
assert late['worst']['by_ns'] == max(step['worst']['by_ns'] for step in plan['steps'])
stages = {stage['stage']: stage for stage in plan['by_stage']}
assert stages[0]['longer_ns'] == 0 and stages[1]['longer_ns'] == stages[1]['planned_ns'] // 2, stages
c = json.load(open('compare.json'))
step = c['step_ns']
assert step['change'] == step['b'] - step['a'] > 0
assert abs(step['ratio'] - step['change'] / step['a']) < 1e-12
for of in [c] + c['stages']:
    for side in 'a', 'b', 'change':
        assert sum(v[side] for v in of['classes'].values()) == of['step_ns'][side]
assert c['a']['steps'] == 3 and c['b']['steps'] == 4
link = [l for l in c['links'] if (l['from'], l['to']) == (5, 6)][0]
assert link['message_ns'] == {'a': 1000000, 'b': 4000000, 'change': 3000000, 'ratio': 3}, link
PYTHON
fi
exit $status

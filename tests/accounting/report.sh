# bubbletop report as a command: forms, conditions, exit statuses, what it says to bad input.
set -u
program=$top_builddir/bubbletop
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
status=0
unset NO_COLOR

# expect STATUS ARGUMENT...: runs report; output in $work/out, errors in $work/err.
expect() {
  local wanted=$1 got
  shift
  "$program" report "$@" >"$work/out" 2>"$work/err"
  got=$?
  [ $got -eq "$wanted" ] && return
  echo "report $*: status $got instead of $wanted"
  cat "$work/err"
  status=1
}
says() { # says FILE PATTERN
  grep -qE -- "$2" "$work/$1" && return
  echo "no '$2' in what it printed:"
  cut -c 1-200 "$work/$1" | head -n 30
  status=1
}

"$program" simulate --schedule 1f1b --stages 4 --microbatches 8 --forward 10ms --backward 12ms --weight 8ms --comm 300us \
  --steps 3 --ranks-per-host 4 -o "$work/run" >/dev/null || exit 99

expect 0 "$work/run"
says out '^bubble 28\.3 % of stage time: fill 19\.8, drain 7\.6'
says out '^1f1b p=4 m=8 has 28\.3 % by itself; 0\.0 points are excess'
[ "$(wc -L <"$work/out")" -le 80 ] || { echo 'wider than 80 columns'; status=1; }
grep -q "$(printf '\033')" "$work/out" && { echo 'colours though it is no terminal'; status=1; }
expect 0 --json "$work/run"
says out '"rate_window": 0\.28315412186379'
[ -z "$PYTHON3" ] || [ "$PYTHON3" = no ] || "$PYTHON3" - "$work/out" <<'END' || status=1
import json, sys
report = json.load(open(sys.argv[1]))
keys = """schedule.name schedule.aliases schedule.stages schedule.chunks schedule.microbatches schedule.source bubble.rate_window
bubble.rate_span bubble.over_ideal bubble.ideal_rate_window bubble.ideal_rate_span clock.aligned clock.max_error_ns
clock.likely_error_ns clock.hosts.host clock.hosts.offset_ns clock.hosts.drift_ppm clock.hosts.error_ns
clock.hosts.likely_error_ns classes steps.step steps.step_ns steps.window_ns steps.rate_window steps.rate_span
steps.over_ideal causes links.from links.to links.messages links.bytes links.wait_ns links.transfer_ns stages.stage
stages.vstages stages.ranks stages.interval_ns stages.window_ns stages.step_ns stages.busy_ns stages.f_ns stages.b_ns
stages.w_ns stages.bw_ns stages.fb_ns stages.recompute_ns stages.other_ns stages.optimizer_ns stages.exposed_p2p_ns
stages.late_receiver_ns stages.collective_wait_ns stages.exposed_collective_ns stages.fill_ns stages.drain_ns
stages.steady_wait_ns stages.tail_sync_ns stages.host_gap_ns stages.between_steps_ns stages.unattributed_ns
stages.inner_idle_ns stages.hidden_in_bubble_ns stages.p2p_ns stages.p2p_wait_ns stages.p2p_transfer_ns stages.p2p_bytes
stages.bubble_rate stages.theoretical stages.excess warnings""".split()
for path in keys:
    at = report
    for key in path.split("."):
        at = at[0] if isinstance(at, list) else at
        assert key in at, path
        at = at[key]
for stage in report["stages"]:
    assert sum(stage[key] for key in report["classes"]) == stage["interval_ns"]
    assert all(stage["excess"][key] == stage[key] - stage["theoretical"][key] for key in report["classes"])
END
expect 0 --csv "$work/run"
[ "$(wc -l <"$work/out")" -eq 5 ] || { echo 'CSV is not a head and four lines'; status=1; }
[ "$(awk -F, '{ print NF }' "$work/out" | sort -u | wc -l)" -eq 1 ] || { echo 'CSV lines differ in length'; status=1; }
expect 0 --glossary
says out '^rate_window +1 - compute'
expect 0 "$work"/run/rank-0000[0-3].0.0.msgpack
expect 0 --steps 1..2 "$work/run"
says out 'steps 1-2'
expect 0 --steps=1 "$work/run"
says out 'step 1:'
expect 3 --steps 7..9 "$work/run"
says err 'no forward or backward op in the chosen steps'
expect 0 --watch --json "$work/run"
[ "$(wc -l <"$work/out")" -eq 1 ] || { echo '--watch --json is not one object a line'; status=1; }

expect 4 --fail-if 'rate_window>0.25' "$work/run"
expect 0 --fail-if 'rate_window>30%' "$work/run"
expect 4 --fail-if 'rate_window>30%' --fail-if 'stages[].fill_ns>60ms' --json "$work/run"
expect 2 --fail-if 'rate_windw>0.25' "$work/run"
says err "no number 'rate_windw'"
expect 2 --fail-if 'rate_window' "$work/run"
expect 2 --fail-if
expect 2 --steps 3..x "$work/run"
expect 2 --steps 3..1 "$work/run"
expect 2 --nonsense "$work/run"
expect 2

# a run that is not all there
cp -r "$work/run" "$work/less"
rm "$work/less/rank-00001.0.0.msgpack"
expect 1 "$work/less"
says out '^bubble not known'
expect 1 --fail-if 'rate_window>0.25' "$work/less"
says err 'rate_window is not known'
size=$(wc -c <"$work/run/rank-00002.0.0.msgpack")
cp -r "$work/run" "$work/cut"
head -c $((size - size / 4)) "$work/run/rank-00002.0.0.msgpack" >"$work/cut/rank-00002.0.0.msgpack"
expect 1 --json "$work/cut"
says out '"(torn_tail|no_end)"'

expect 3 "$work/nowhere"
mkdir "$work/empty"
expect 3 "$work/empty"
echo hello >"$work/hello"
expect 3 "$work/hello"
"$program" report "$work/run" >/dev/full 2>"$work/err" && { echo 'a full disk goes unnoticed'; status=1; }
exit $status

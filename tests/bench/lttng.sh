# lttng.sh PROGRAM: runs PROGRAM DIRECTORY while an LTTng session records its tracepoints. Uses the session daemon that
# runs, or starts one and ends it. Quiet where LTTng's tools are not there or do not work.
set -u
command -v lttng >/dev/null && command -v lttng-sessiond >/dev/null || exit 0
work=$(mktemp -d) || exit 1
export LTTNG_HOME=$work
session=bubbletop-bench-$$
daemon=
finish() {
  lttng destroy "$session" >/dev/null 2>&1
  [ -n "$daemon" ] && kill "$daemon" && wait "$daemon"
  rm -rf "$work"
}
trap finish EXIT
if ! lttng --no-sessiond list >/dev/null 2>&1; then
  lttng-sessiond --no-kernel >"$work/log" 2>&1 &
  daemon=$!
  for _ in $(seq 50); do
    lttng --no-sessiond list >/dev/null 2>&1 && break
    sleep 0.1
  done
fi
{
  lttng create "$session" --output="$work/trace" &&
    lttng enable-channel --session="$session" -u --num-subbuf=8 --subbuf-size=1M spans &&
    lttng enable-event --session="$session" -u --channel=spans 'bubbletop_bench:*' &&
    lttng start "$session"
} >"$work/log" 2>&1 || { echo 'span: LTTng is there, but makes no session'; exit 0; }
"$1" "$work/run"

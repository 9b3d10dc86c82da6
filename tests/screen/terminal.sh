# The view in a real terminal (tmux): UTF-8, LANG=C, resize, suspend, hang-up, a slow reader, terminals of other types.
set -u
command -v tmux >/dev/null || { echo 'no tmux'; exit 77; }
work=$(mktemp -d) || exit 99
socket=$work/socket
t() { tmux -S "$socket" -f /dev/null "$@"; }
trap 't kill-server 2>/dev/null; rm -rf "$work"' EXIT
builddir=$(cd "$top_builddir" && pwd)
bubbletop=$builddir/bubbletop
unset NO_COLOR COLORFGBG TMUX
export LC_ALL=C.UTF-8
# curses forgets one allocation of a terminal that it does not know
echo 'leak:new_prescr' >"$work/lsan"
export LSAN_OPTIONS="suppressions=$work/lsan:print_suppressions=0"

"$bubbletop" simulate --schedule 1f1b --stages 4 --microbatches 8 --steps 3 --comm 0.5ms -o "$work/run" >/dev/null || exit 1
t new-session -d -x 80 -y 24 -s x "exec env PS1='shell> ' bash --norc --noprofile -i" || exit 77
t set -g default-terminal tmux-256color

fail() { echo "FAIL: $*"; t capture-pane -p; exit 1; }
# wait_for WHAT COMMAND... : until it succeeds; the limit is generous because the machine may be busy
wait_for() {
  local what=$1 i
  shift
  for i in $(seq 200); do "$@" && return 0; sleep 0.1; done
  fail "$what"
}
pane_has() { t capture-pane -p | grep -qF -- "$1"; }
pane_lacks() { ! pane_has "$1"; }
type_line() { t send-keys -l -- "$1"; t send-keys Enter; }
start() { # arguments: environment and options
  type_line "clear; env TERM=tmux-256color $* '$bubbletop' '$work/run'; echo status=\$?"
  wait_for "the view starts ($*)" pane_has 'q quit'
}
leave() {
  t send-keys q
  wait_for "q quits" pane_has 'status=0'
}

# UTF-8: blocks, numbers, the verdict line; what the screen shows is what --save-screen writes
start
wait_for 'stages are shown' pane_has 'stage  bubble'
wait_for 'the run is read' pane_has ' ended '
pane_has '▸  0' || fail 'the cursor is on stage 0'
"$bubbletop" "$work/run" --save-screen "$work/saved" --utf8 || fail 'save-screen'
shows_what_was_saved() { t capture-pane -p | sed 's/ *$//' | cmp -s - "$work/saved"; }
wait_for 'the terminal shows what --save-screen writes, once the account is there' shows_what_was_saved

# moved sideways, each move a frame of its own: what was scrolled on the terminal is what would have been drawn
keys='+ + + Right Right L Left Left H Right Left'
same_as_saved() { t capture-pane -p | sed 's/ *$//' >"$work/shown"; diff "$work/saved" "$work/shown" >"$work/diff"; }
for key in $keys; do
  t send-keys "$key"
  sleep 0.15
done
"$bubbletop" "$work/run" --save-screen "$work/saved" --utf8 --script "$keys" || fail 'save-screen after moves'
wait_for 'moves end at the same screen' same_as_saved
t send-keys j w
wait_for 'w goes to a block' pane_has 'F mb'

# the mouse, once it is asked for: a click into row 8, column 40 of the screen, as X10 terminals send it
if infocmp tmux-256color 2>/dev/null | grep -qF 'kmous=\E[M'; then
  t send-keys x
  wait_for 'x asks for the mouse' pane_has 'mouse on'
  t send-keys -l "$(printf '\033[M H)')"
  wait_for 'a click selects the row' pane_has '▸  1'
  t send-keys x
  wait_for 'x gives it back' pane_has 'mouse off'
  t send-keys k
  wait_for 'the next key takes the message away' pane_lacks 'mouse off'
fi

# resize, down to too small and back
t resize-window -x 110 -y 30
wait_for 'it is redrawn at 110 columns' pane_has 'largest'
t resize-window -x 30 -y 8
wait_for 'too small is said' pane_has 'too small'
t resize-window -x 80 -y 24
wait_for 'it comes back' pane_has 'stage  bubble'

# suspend and continue
t send-keys C-z
wait_for 'C-z stops it' pane_has 'Stopped'
type_line fg
wait_for 'fg brings it back' pane_has 'q quit'
wait_for 'and it draws' pane_has 'stage  bubble'
t send-keys q
wait_for 'q quits' pane_lacks 'q quit'

# the letters of LANG=C, and types of terminals
start LC_ALL=C
wait_for 'ASCII has letters' pane_has '>  0'
wait_for 'the run is read' pane_has ' ended '
t capture-pane -p | LC_ALL=C grep -q '[^ -~]' && fail 'not ASCII'
leave
for type in xterm screen linux vt100; do
  type_line "clear; env TERM=$type '$bubbletop' '$work/run'; echo status=\$?"
  wait_for "the view starts on $type" pane_has 'q quit'
  leave
done
start NO_COLOR=1
t capture-pane -e -p | grep -q '\[[0-9;]*[34]8;5' && fail 'NO_COLOR has colours'
leave

# errors before the screen is touched
type_line "clear; env -u TERM '$bubbletop' '$work/run'; echo status=\$?"
wait_for 'TERM unset is an error' pane_has 'status=2'
pane_has 'TERM is not set' || fail 'it says so'
type_line "clear; env TERM=nonsense '$bubbletop' '$work/run'; echo status=\$?"
wait_for 'an unknown TERM is an error' pane_has 'status=2'

# hang-up: the process ends by itself, at once
start
pid=$(grep -lzxF "$work/run" /proc/[0-9]*/cmdline 2>/dev/null | cut -d / -f 3) # pgrep is not everywhere
[ -n "$pid" ] || fail 'no process'
t kill-server
for i in $(seq 100); do
  kill -0 "$pid" 2>/dev/null || exit 0
  sleep 0.1
done
echo "FAIL: the view lives on after its terminal is gone"
kill -9 "$pid"
exit 1

# Screens of simulated runs against golden files: trace and view state -> cells, without a terminal.
# BLESS=1 writes the golden files anew (look at the difference before committing it).
set -u
golden=$top_srcdir/tests/screen/golden
bubbletop=$top_builddir/bubbletop
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

"$bubbletop" simulate --schedule zb-h1 --stages 4 --microbatches 8 --steps 4 --comm 0.5ms --slow 2:1.2 \
  -o "$work/zb-h1" >/dev/null || exit 1
"$bubbletop" simulate --schedule interleaved --stages 4 --chunks 2 --microbatches 8 --steps 30 --dp 2 --tp 2 \
  --optimizer 8ms --sync --comm 0.5ms --jitter 5 -o "$work/interleaved" >/dev/null || exit 1

"$bubbletop" simulate --schedule 1f1b --stages 4 --microbatches 4 --steps 1 --dp 120 --jitter 4 --slow 2:1.15 \
  --ranks-per-host 16 -o "$work/many" >/dev/null || exit 1

failed=0
# screen NAME RUN ARGUMENTS... : the exit status 1 says that the run has problems, which simulated ones do not
screen() {
  local name=$1 run=$2 status
  shift 2
  "$bubbletop" view "$work/$run" ${second:+"$work/$second"} --save-screen "$work/$name.txt" "$@" 2>"$work/$name.err"
  status=$?
  if [ $status -ne 0 ]; then
    echo "$name: exit status $status: $(cat "$work/$name.err")"
    failed=1
  elif [ -n "${BLESS:-}" ]; then
    cp "$work/$name.txt" "$golden/$name.txt"
  elif ! diff -u "$golden/$name.txt" "$work/$name.txt"; then
    echo "$name differs"
    failed=1
  fi
}

screen step-80x24 zb-h1 --utf8 --attributes
screen step-120x36 zb-h1 --utf8 --attributes --size 120x36 --script 'w w w'
screen bubble-80x24 zb-h1 --utf8 --script 'j ] +'
screen ascii-80x24 zb-h1 --ascii --script 'w'
screen small-40x10 zb-h1 --utf8 --size 40x10
screen too-small-30x8 zb-h1 --utf8 --size 30x8 --script 'w'
screen producer-100x24 zb-h1 --utf8 --size 100x24 --script 'j w w w w p'
screen search-80x24 zb-h1 --utf8 --script '/ W Space m b 5 Enter n'
screen no-hit-80x24 zb-h1 --ascii --script '/ > 5 s Enter'
screen go-step-80x24 interleaved --utf8 --script ': 1 2 Enter'
screen go-time-80x24 interleaved --ascii --script ': 1 . 5 s Enter t'
screen go-nowhere-40x10 zb-h1 --ascii --script ': 9 9 Enter'
screen back-and-forth-80x24 interleaved --utf8 --script ': 1 2 Enter : 1 5 Enter u u U'
screen largest-80x24 zb-h1 --utf8 --script 'a B s'
screen replay-80x24 zb-h1 --utf8 --replay --script '. .'
screen lanes-120x36 interleaved --utf8 --size 120x36 --script 'j Enter + + w'
screen whole-run-200x50 interleaved --utf8 --attributes --size 200x50 --script 'a'
screen replica-80x24 interleaved --ascii --script 'r 3 {'
screen visible-80x24 interleaved --utf8 --script 'c c + + t'
screen why-80x24 zb-h1 --utf8 --attributes --script 'i'
screen why-ascii-100x30 interleaved --ascii --size 100x30 --script 'i'
screen stages-100x30 zb-h1 --utf8 --attributes --size 100x30 --script 'v j'
screen stages-ascii-80x24 interleaved --ascii --script 'v'
screen steps-80x24 interleaved --utf8 --script 'v v k k'
screen step-opened-80x24 interleaved --utf8 --script 'v v 3 k Enter'
screen matrix-100x24 many --utf8 --attributes --size 100x24 --script 'v v v j l'
screen matrix-bubble-40x12 many --ascii --size 40x12 --script 'V c'
screen matrix-delay-100x24 many --utf8 --size 100x24 --script 'V c c'
screen matrix-opened-80x24 many --utf8 --script 'V j j 4 l Enter'
screen page-nonsense-80x24 zb-h1 --ascii --script 'v w'
screen words-100x40 zb-h1 --utf8 --size 100x40 --script '? PageDown'
screen mark-80x24 zb-h1 --utf8 --script "w w M ] ] '"
screen nonsense-80x24 zb-h1 --ascii --script 'r'
# two runs on one scale
"$bubbletop" simulate --schedule 1f1b --stages 4 --microbatches 8 --steps 4 --comm 0.5ms -o "$work/1f1b" >/dev/null || exit 1
"$bubbletop" simulate --schedule gpipe --stages 2 --microbatches 4 --steps 1 -o "$work/small" >/dev/null || exit 1
second=1f1b
screen pair-80x24 zb-h1 --utf8 --attributes --script 'w w w'
screen pair-120x36 zb-h1 --utf8 --size 120x36 --script 'j j j j w + W'
screen pair-stages-120x36 zb-h1 --utf8 --attributes --size 120x36 --script 'S j w w }'
screen pair-stages-ascii-80x24 zb-h1 --ascii --script 'S j { w'
screen pair-40x10 zb-h1 --utf8 --size 40x10 --script 'j w'
screen pair-40x10-runs zb-h1 --ascii --size 40x10 --script 'S j j j j'
NO_COLOR=1 screen pair-no-colour-100x20 zb-h1 --utf8 --attributes --size 100x20 --script 'w w M w'
screen pair-why-100x30 zb-h1 --utf8 --attributes --size 100x30 --script 'i c c'
screen pair-page-80x24 zb-h1 --utf8 --script 'W v v'
second=small
screen pair-unlike-80x24 zb-h1 --utf8 --script 'a w'
second=
screen pair-nonsense-80x24 zb-h1 --ascii --script 'S'
# a range of time
screen range-80x24 zb-h1 --utf8 --attributes --script 'w w M j ] ] w'
screen range-120x36 interleaved --utf8 --attributes --size 120x36 --script 'w w M w w w w i'
screen range-ascii-40x12 zb-h1 --ascii --size 40x12 --script 'w w M w w'
NO_COLOR=1 screen range-no-colour-80x24 zb-h1 --utf8 --attributes --script 'w w M w w'
screen range-zoomed-80x24 zb-h1 --utf8 --script 'w w M w w w w Enter'
screen range-none-80x24 zb-h1 --ascii --script 'Z'
screen save-80x24 zb-h1 --utf8 --script 'e'
screen save-nothing-40x10 zb-h1 --ascii --size 40x10 --script 'e q'
second=1f1b
screen range-pair-80x24 zb-h1 --utf8 --script 'w w M w w w w'
second=
# the plan under the rows
screen plan-80x24 zb-h1 --utf8 --attributes --plan zb-h1 --script 'j j w w w'
screen plan-120x36 zb-h1 --utf8 --attributes --size 120x36 --script 'P j w w + +'
screen plan-ascii-80x24 zb-h1 --ascii --plan "$top_srcdir/tests/screen/swapped.csv" --script 'j j j w w w w w'
screen plan-swapped-80x24 zb-h1 --utf8 --attributes --plan "$top_srcdir/tests/screen/swapped.csv" --script 'j j j w w w w w'
screen plan-40x10 zb-h1 --utf8 --size 40x10 --plan zb-h1 --script 'j w'
NO_COLOR=1 screen plan-no-colour-80x24 zb-h1 --utf8 --attributes --plan zb-h1
screen plan-off-80x24 zb-h1 --utf8 --plan zb-h1 --script 'P P'
screen plan-misfit-80x24 zb-h1 --utf8 --plan dualpipe
screen plan-withheld-80x24 zb-h1 --ascii --plan 1f1b
screen plan-far-80x24 interleaved --ascii --script 'P a'
screen plan-lanes-80x24 interleaved --utf8 --plan interleaved --script 'j Enter w w'
second=1f1b
screen plan-pair-120x36 zb-h1 --utf8 --size 120x36 --script 'P j w w'
screen plan-pair-stages-80x24 zb-h1 --utf8 --script 'S P j w w'
second=
screen help-100x40 zb-h1 --ascii --size 100x40 --script '?'
# what e and y write: files of their own, never over another
cd "$work" || exit 99
bubbletop=$(cd "$OLDPWD" && cd "$(dirname "$bubbletop")" && pwd)/bubbletop
for i in 1 2; do
  "$bubbletop" view zb-h1 --utf8 --save-screen "saved-$i" --script 'y e e e j' || failed=1
done
for file in zb-h1.txt zb-h1-2.txt zb-h1.svg zb-h1-2.svg zb-h1.json zb-h1-2.json; do
  [ -s "$file" ] || { echo "$file is not there"; failed=1; }
done
grep -q 'wrote zb-h1-2.json' saved-2 || { echo 'the message names no file'; failed=1; }
[ "$(head -22 zb-h1.txt)" = "$(head -22 saved-1)" ] || { echo 'y wrote another screen'; failed=1; }
[ "$(tail -1 zb-h1.svg)" = '</svg>' ] || { echo 'the picture is cut'; failed=1; }
exit $failed

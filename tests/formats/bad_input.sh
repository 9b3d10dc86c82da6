# Bad input gives one clear line and the exit status of the contract: 0 fine, 1 partly, 2 usage, 3 nothing readable.
set -u
status=0
work=$(mktemp -d)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT
program=$top_builddir/bubbletop
unset BUBBLETOP_DIR

# expect STATUS PATTERN ARGUMENT...: the program's exit status, and a line (exactly one if it fails) that matches.
expect() {
  local wanted=$1 pattern=$2 got lines
  shift 2
  "$program" "$@" >"$work/out" 2>"$work/err"
  got=$?
  lines=$(wc -l <"$work/err")
  [ "$got" = "$wanted" ] || { echo "bubbletop $*: exit status $got, not $wanted"; cat "$work/out" "$work/err"; status=1; }
  grep -q -- "$pattern" "$work/out" "$work/err" || { echo "bubbletop $*: nothing about '$pattern'"; cat "$work/out" "$work/err"; status=1; }
  if [ "$wanted" -ge 2 ] && [ "$lines" != 1 ]; then
    echo "bubbletop $*: $lines lines of errors"
    cat "$work/err"
    status=1
  fi
}

simulate() { "$program" simulate --schedule 1f1b --stages 2 --microbatches 4 "$@" >/dev/null || status=1; }
simulate -o "$work/good"
expect 0 'problems *none' info "$work/good"
expect 0 '"warnings": \[\]' info --json "$work/good"
expect 0 'files *2,' info "$work/good" "$work/good/rank-00000.0.0.msgpack"

mkdir "$work/empty" "$work/other"
echo hello >"$work/other/readme.txt"
expect 3 'No such file' info "$work/nothing"
expect 3 'empty' info "$work/empty"
expect 3 'no capture in it' info "$work/other"
expect 3 'not a bubbletop stream' info "$work/other/readme.txt"
printf '\x93\x01\x02\x03' >"$work/msgpack"
expect 3 'not a bubbletop stream' info "$work/msgpack"
: >"$work/nought"
expect 3 'empty' info "$work/nought"
head -c 40 "$work/good/rank-00000.0.0.msgpack" >"$work/cut"
expect 3 'inside its header' info "$work/cut"
printf '\x95\xa9bubbletop\x07\xc0\xc0\xc0' >"$work/newer"
expect 3 'newer' info "$work/newer"
expect 3 'not a regular file' info /dev/null
expect 2 'name a run' info
expect 2 'no option' info --frobnicate "$work/good"
expect 2 'one run' recover a b
expect 3 'No such file' recover "$work/nothing"

# Some of it is readable: status 1, and what is not is named.
cp -r "$work/good" "$work/partly"
cp "$work/newer" "$work/partly/rank-00002.0.0.msgpack"
cp "$work/other/readme.txt" "$work/partly/rank-00003.0.0.msgpack"
cp "$work/other/readme.txt" "$work/partly/rank-9999999999.0.0.msgpack"
expect 1 'rank-00002.*newer' info "$work/partly"
expect 1 'rank-00003.*not a bubbletop stream' info "$work/partly"
expect 1 'out of range' info "$work/partly"
expect 1 '"code": "version"' info --json "$work/partly"

cp -r "$work/good" "$work/torn"
truncate -s -10 "$work/torn/rank-00001.0.0.msgpack"
expect 1 'rank-00001.*ends inside a block' info "$work/torn"
expect 1 '"code": "no_end"' info --json "$work/torn"

rm -rf "$work/torn"
cp -r "$work/good" "$work/damaged"
printf 'XXXX' | dd of="$work/damaged/rank-00001.0.0.msgpack" bs=1 seek=700 conv=notrunc 2>/dev/null
expect 1 'bytes are damaged' info "$work/damaged"

rm "$work/partly"/*
cp "$work/good/rank-00000.0.0.msgpack" "$work/partly"
expect 1 '1 of 2 ranks has no file: 1' info "$work/partly"

simulate --seed 7 -o "$work/another"
cp "$work/another/rank-00001.0.0.msgpack" "$work/partly"
expect 1 '1 files of other runs' info "$work/partly"
expect 1 '"code": "mixed_runs"' info --json "$work/partly"

if [ "$(id -u)" != 0 ]; then
  chmod 0 "$work/good/rank-00001.0.0.msgpack"
  expect 1 'Permission denied' info "$work/good"
  chmod 0 "$work/good"
  expect 3 'Permission denied' info "$work/good"
fi
exit $status

# The saved captures hold what their options say, op for op and message for message.
set -eu
cd "$top_builddir"
captures=$top_srcdir/samples/captures
count=0
while read -r name options; do
  tests/samples/check_capture "$captures/$name" $options
  count=$((count + 1))
done < <(grep -v '^#' "$captures/list")
[ "$count" -ge 4 ] || { echo "only $count captures"; exit 1; }

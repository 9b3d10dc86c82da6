# The shape of the source tree: the top level is fixed, nothing is left open, files stay readable.
set -u
cd "$top_srcdir" || exit 99
status=0
complain() { printf '%s\n' "$@"; status=1; }

# In a release archive and in a checkout alike; what autotools and builds leave is ignored by git.
if git rev-parse --is-inside-work-tree >/dev/null 2>&1 && [ -e .git ]; then
  files=$(git ls-files)
  extra=$(echo "$files" | cut -d / -f 1 | sort -u | grep -vxE 'capture|tui|formats|samples|tests|configure\.ac|Makefile\.am|README\.md|LICENSE|CHANGELOG\.md|\..*')
  [ -z "$extra" ] || complain 'does not belong on the top level:' "$extra"
  large=$(echo "$files" | xargs -d '\n' ls -l 2>/dev/null | awk '$5 > 1048576 { print $NF, $5 }')
  [ -z "$large" ] || complain 'larger than 1 MiB:' "$large"
fi

sources() { find capture formats tui samples tests -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.py' -o -name '*.sh' \) "$@"; }
open=$(sources ! -path tests/lint/tree.sh -exec grep -nE '\b(TODO|FIXME|XXX|HACK)\b' {} +)
[ -z "$open" ] || complain 'left open:' "$open"

long=$(sources -exec wc -l {} + | awk '$2 != "total" && $1 > 600 { print $2 " (" $1 " lines)" }')
[ -z "$long" ] || printf 'warning, over 600 lines, does it hold one thing? %s\n' "$long"
twins=$(find . -name 'util*.[ch]' -o -name 'misc.[ch]' -o -name 'common.[ch]' -o -name 'helpers.[ch]' | grep -v _build)
[ -z "$twins" ] || complain 'a name that says nothing:' "$twins"
exit $status

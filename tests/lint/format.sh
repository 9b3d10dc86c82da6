# Every C file is as clang-format 14 writes it.
set -u
format=$(command -v clang-format-14 || command -v clang-format) || { echo 'no clang-format'; exit 77; }
case $($format --version) in *' 14.'*) ;; *) echo "not version 14: $($format --version)"; exit 77 ;; esac
cd "$top_srcdir" || exit 99
find capture formats tui samples tests -name '*.[ch]' -print0 | xargs -0 "$format" --dry-run -Werror ||
  { echo 'mend with: clang-format -i FILE'; exit 1; }

# Dependencies point one way: tui -> formats -> formats/wire <- capture; inside tui: commands -> screen -> analysis.
set -u
cd "$top_srcdir" || exit 99
status=0

# only FOLDER ALLOWED [BUT]: files of FOLDER (without those of BUT) include no other file of ours than ALLOWED, a pattern.
only() {
  local wrong
  wrong=$(find "$1" -name '*.[ch]' ! -path "${3:-none}/*" -exec grep -HnE '^ *# *include *"' {} + |
    grep -vE "include *\"(config\.h\"|$2)")
  [ -z "$wrong" ] && return
  printf '%s may include %s only:\n%s\n' "$1" "$2" "$wrong"
  status=1
}

only formats/wire 'formats/wire/'
only formats 'formats/' formats/wire
only capture '((capture|formats/wire)/|bubbletop\.h)' # installed headers lie side by side
only tui/analysis '(tui/analysis|formats)/'
only tui/screen '(tui/(screen|analysis)|formats)/'
only tui/commands '(tui|formats)/'

curses=$(grep -rlE '^ *# *include *[<"](n?curses|ncursesw/|term\.h)' --include='*.[ch]' capture formats tui samples)
case $(echo "$curses" | grep -c .) in
  0) ;;
  1) case $curses in tui/screen/*.c) ;; *) echo "curses belongs in tui/screen: $curses"; status=1 ;; esac ;;
  *) printf 'one file alone may include curses:\n%s\n' "$curses"; status=1 ;;
esac
exit $status

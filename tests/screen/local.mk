# The view: golden screens, errors, a real terminal.
TESTS += tests/screen/golden.sh tests/screen/errors.sh tests/screen/terminal.sh tests/screen/lost.py \
  tests/screen/background.py tests/screen/matrix.py tests/screen/monkey.py tests/screen/drag.py
EXTRA_DIST += tests/screen/drag.py tests/screen/monkey.py tests/screen/matrix.py tests/screen/pty_view.py \
  tests/screen/background.py tests/screen/lost.py tests/screen/golden.sh tests/screen/errors.sh \
  tests/screen/terminal.sh tests/screen/swapped.csv tests/screen/golden

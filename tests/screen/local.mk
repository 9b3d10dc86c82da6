# The view: golden screens, errors, a real terminal.
TESTS += tests/screen/golden.sh tests/screen/errors.sh tests/screen/terminal.sh
EXTRA_DIST += tests/screen/golden.sh tests/screen/errors.sh tests/screen/terminal.sh tests/screen/golden

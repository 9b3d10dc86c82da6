# Checks of the tree itself: format, layers, symbols, headers, installation, documents.
lint_tests = tests/lint/format.sh tests/lint/layers.sh tests/lint/symbols.sh tests/lint/headers.sh tests/lint/tree.sh tests/lint/manual.sh \
	tests/lint/install.sh
TESTS += $(lint_tests)
EXTRA_DIST += tests/lint/format.sh tests/lint/layers.sh tests/lint/symbols.sh tests/lint/headers.sh tests/lint/tree.sh tests/lint/install.sh tests/lint/manual.sh

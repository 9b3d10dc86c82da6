# Tests of the run reader with the real program.
formats_tests = tests/formats/bad_input.sh
TESTS += $(formats_tests)
EXTRA_DIST += $(formats_tests)

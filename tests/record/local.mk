# Tests of `bubbletop record` and of the Python module.
record_tests = tests/record/record.py
TESTS += $(record_tests)
EXTRA_DIST += $(record_tests) tests/record/harness.py

# The accounting against a second one, by brute force, and the report as a command.
TESTS += tests/accounting/compare.py tests/accounting/report.sh
EXTRA_DIST += tests/accounting/compare.py tests/accounting/brute.py tests/accounting/random_run.py tests/accounting/report.sh

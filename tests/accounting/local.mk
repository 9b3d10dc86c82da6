# The accounting against a second one, by brute force, and the report as a command.
TESTS += tests/accounting/compare.py tests/accounting/report.sh tests/accounting/golden.py tests/accounting/contract.py \
	tests/accounting/grid.py tests/accounting/broken.py
EXTRA_DIST += tests/accounting/grid.py tests/accounting/broken.py tests/accounting/golden.py tests/accounting/contract.py \
	tests/accounting/compare.py tests/accounting/brute.py tests/accounting/random_run.py tests/accounting/report.sh

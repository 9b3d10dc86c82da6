# Simulated captures, read by others than ourselves.
TESTS += tests/simulate/captures.py
EXTRA_DIST += tests/simulate/captures.py

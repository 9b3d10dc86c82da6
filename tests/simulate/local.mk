# Simulated captures, read by others than ourselves; and what the report makes of their clocks.
simulate_tests = tests/simulate/captures.py tests/simulate/clocks.py
TESTS += $(simulate_tests)
EXTRA_DIST += $(simulate_tests)

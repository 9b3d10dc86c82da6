# Plans laid over runs, and runs compared.
TESTS += tests/plan/plan.sh
EXTRA_DIST += tests/plan/plan.sh tests/plan/golden tests/plan/ragged.csv tests/plan/bad.csv tests/plan/order.csv

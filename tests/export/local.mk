# What `export` writes, read back.
TESTS += tests/export/export.py
EXTRA_DIST += tests/export/export.py

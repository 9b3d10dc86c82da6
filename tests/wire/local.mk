# The stream format as others see it: a reader in Python that knows FORMAT.md alone.
EXTRA_DIST += formats/FORMAT.md tests/wire/test_format.py
check_PROGRAMS += tests/wire/write_sample
tests_wire_write_sample_SOURCES = tests/wire/write_sample.c tests/wire/sample.c tests/wire/sample.h
tests_wire_write_sample_LDADD = libwire.la
TESTS += tests/wire/test_format.py

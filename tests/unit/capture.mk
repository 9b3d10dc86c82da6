# Tests of the capture library, through its shared library; streams are read back with formats/wire alone.
capture_test_cppflags = $(AM_CPPFLAGS) -D_GNU_SOURCE
capture_test_support = tests/capture/support.c tests/capture/support.h tests/wire/sample.c tests/wire/sample.h
capture_test_ldadd = libbubbletop.la libwire.la $(CMOCKA_LIBS)

unit_programs += tests/capture/test_records
tests_capture_test_records_SOURCES = tests/capture/test_records.c $(capture_test_support)
tests_capture_test_records_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_records_CFLAGS = $(unit_cflags)
tests_capture_test_records_LDADD = $(capture_test_ldadd)

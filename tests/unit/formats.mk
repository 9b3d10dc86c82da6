# Unit tests of formats.
formats_test_ldadd = libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS)
unit_programs += tests/unit/test_trace
tests_unit_test_trace_SOURCES = tests/unit/test_trace.c
tests_unit_test_trace_CFLAGS = $(unit_cflags)
tests_unit_test_trace_LDADD = $(formats_test_ldadd)
unit_programs += tests/unit/test_run
tests_unit_test_run_SOURCES = tests/unit/test_run.c tests/formats/maker.c tests/formats/maker.h
tests_unit_test_run_CFLAGS = $(unit_cflags)
tests_unit_test_run_LDADD = $(formats_test_ldadd)

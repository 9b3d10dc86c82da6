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
unit_programs += tests/formats/test_live
tests_formats_test_live_SOURCES = tests/formats/test_live.c tests/formats/maker.c tests/formats/maker.h
tests_formats_test_live_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_formats_test_live_CFLAGS = $(unit_cflags)
tests_formats_test_live_LDADD = libbubbletop.la $(formats_test_ldadd)

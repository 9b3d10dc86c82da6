# Unit tests of wire.
wire_test_ldadd = libwire.la $(CMOCKA_LIBS)

unit_programs += tests/unit/test_wire_records
tests_unit_test_wire_records_SOURCES = tests/unit/test_wire_records.c tests/wire/sample.c tests/wire/sample.h
tests_unit_test_wire_records_CFLAGS = $(unit_cflags)
tests_unit_test_wire_records_LDADD = $(wire_test_ldadd)

unit_programs += tests/unit/test_wire_frames
tests_unit_test_wire_frames_SOURCES = tests/unit/test_wire_frames.c tests/wire/sample.c tests/wire/sample.h
tests_unit_test_wire_frames_CFLAGS = $(unit_cflags)
tests_unit_test_wire_frames_LDADD = $(wire_test_ldadd)

unit_programs += tests/unit/test_wire_ring
tests_unit_test_wire_ring_SOURCES = tests/unit/test_wire_ring.c tests/wire/sample.c tests/wire/sample.h
tests_unit_test_wire_ring_CFLAGS = $(unit_cflags)
tests_unit_test_wire_ring_LDADD = $(wire_test_ldadd)

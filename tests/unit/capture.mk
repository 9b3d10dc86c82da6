# Tests of the capture library, through its shared library; streams are read back with formats/wire alone.
capture_test_cppflags = $(AM_CPPFLAGS) -D_GNU_SOURCE
capture_test_support = tests/capture/support.c tests/capture/support.h tests/wire/sample.c tests/wire/sample.h
capture_test_sessions = $(capture_test_support) tests/capture/sessions.c
capture_test_ldadd = libbubbletop.la libwire.la $(CMOCKA_LIBS)

unit_programs += tests/capture/test_records
tests_capture_test_records_SOURCES = tests/capture/test_records.c $(capture_test_sessions)
tests_capture_test_records_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_records_CFLAGS = $(unit_cflags)
tests_capture_test_records_LDADD = $(capture_test_ldadd)

unit_programs += tests/capture/test_threads
tests_capture_test_threads_SOURCES = tests/capture/test_threads.c $(capture_test_sessions)
tests_capture_test_threads_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_threads_CFLAGS = $(unit_cflags)
tests_capture_test_threads_LDADD = $(capture_test_ldadd)

unit_programs += tests/capture/test_files
tests_capture_test_files_SOURCES = tests/capture/test_files.c $(capture_test_sessions)
tests_capture_test_files_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_files_CFLAGS = $(unit_cflags)
tests_capture_test_files_LDADD = $(capture_test_ldadd)

unit_programs += tests/capture/test_rings
tests_capture_test_rings_SOURCES = tests/capture/test_rings.c $(capture_test_sessions)
tests_capture_test_rings_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_rings_CFLAGS = $(unit_cflags)
tests_capture_test_rings_LDADD = $(capture_test_ldadd)

unit_programs += tests/capture/test_disk
tests_capture_test_disk_SOURCES = tests/capture/test_disk.c $(capture_test_sessions)
tests_capture_test_disk_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_disk_CFLAGS = $(unit_cflags)
tests_capture_test_disk_LDADD = $(capture_test_ldadd)

unit_programs += tests/capture/test_process
tests_capture_test_process_SOURCES = tests/capture/test_process.c $(capture_test_sessions)
tests_capture_test_process_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_process_CFLAGS = $(unit_cflags)
tests_capture_test_process_LDADD = $(capture_test_ldadd)

unit_programs += tests/capture/test_segments
tests_capture_test_segments_SOURCES = tests/capture/test_segments.c $(capture_test_sessions)
tests_capture_test_segments_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_segments_CFLAGS = $(unit_cflags)
tests_capture_test_segments_LDADD = $(capture_test_ldadd)

# does not link the library: it is the one that loads it
unit_programs += tests/capture/test_dlopen
tests_capture_test_dlopen_SOURCES = tests/capture/test_dlopen.c $(capture_test_support)
tests_capture_test_dlopen_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_dlopen_CFLAGS = $(unit_cflags)
tests_capture_test_dlopen_LDADD = libwire.la $(CMOCKA_LIBS)

# writer, reader and recover together
unit_programs += tests/capture/test_kill
tests_capture_test_kill_SOURCES = tests/capture/test_kill.c $(capture_test_support)
tests_capture_test_kill_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_kill_CFLAGS = $(unit_cflags)
tests_capture_test_kill_LDADD = libbubbletop.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS)

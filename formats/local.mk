# Bytes <-> trace. Depends on formats/wire alone.
noinst_LTLIBRARIES += libformats.la
libformats_la_SOURCES = \
	formats/array.h \
	formats/trace.h formats/trace.c formats/trace_add.c formats/track.h formats/track.c formats/track_details.c \
	formats/join.h formats/join.c \
	formats/seen.h formats/seen.c formats/stream.h formats/stream.c formats/ring_file.h formats/ring_file.c \
	formats/run.h formats/run.c formats/run_private.h formats/run_scan.c formats/run_merge.c formats/run_ring.c \
	formats/problems.c \
	formats/recover.h formats/recover.c
libformats_la_SOURCES += formats/export.h formats/export.c formats/export_lines.c formats/export_chrome.c formats/export_svg.c
libformats_la_SOURCES += formats/import_schedule_csv.h formats/import_schedule_csv.c
libformats_la_LIBADD = libwire.la $(MSGPACK_LIBS)

# Bytes <-> trace. Depends on formats/wire alone.
noinst_LTLIBRARIES += libformats.la
libformats_la_SOURCES = \
	formats/array.h \
	formats/trace.h formats/trace.c formats/trace_add.c formats/track.h formats/track.c \
	formats/run.h formats/recover.h
libformats_la_LIBADD = libwire.la $(MSGPACK_LIBS)

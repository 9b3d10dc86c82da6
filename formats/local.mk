# Bytes <-> trace. Depends on formats/wire alone.
noinst_LTLIBRARIES += libformats.la
libformats_la_SOURCES = \
	formats/trace.h formats/run.h formats/recover.h
libformats_la_LIBADD = libwire.la $(MSGPACK_LIBS)

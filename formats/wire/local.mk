# Constants, ring records, block encoder and decoder. Depends on nothing of ours.
noinst_LTLIBRARIES += libwire.la
libwire_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libwire_la_SOURCES = \
	formats/wire/status.c formats/wire/status.h \
	formats/wire/event.h formats/wire/ring.h \
	formats/wire/crc32c.h formats/wire/encode.h formats/wire/decode.h

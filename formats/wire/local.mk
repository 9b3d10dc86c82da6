# Constants, ring records, block encoder and decoder. Depends on nothing of ours, and on msgpack-c's headers alone.
noinst_LTLIBRARIES += libwire.la
libwire_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libwire_la_SOURCES = \
	formats/wire/status.c formats/wire/status.h \
	formats/wire/event.c formats/wire/event.h \
	formats/wire/crc32c.c formats/wire/crc32c.h \
	formats/wire/ring.c formats/wire/ring.h \
	formats/wire/encode.c formats/wire/encode.h formats/wire/context.h formats/wire/out.h \
	formats/wire/records.c formats/wire/decode.h \
	formats/wire/block.c formats/wire/frame.h \
	formats/wire/header.c formats/wire/layout.c \
	formats/wire/value.c formats/wire/value.h

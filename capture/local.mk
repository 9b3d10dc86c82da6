# What training processes load. Links formats/wire and nothing else of ours.
lib_LTLIBRARIES += libbubbletop.la
include_HEADERS += capture/bubbletop.h
dist_man_MANS += capture/man/bubbletop.3
pkgconfig_DATA += capture/bubbletop.pc
EXTRA_DIST += capture/bubbletop.map
libbubbletop_la_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
libbubbletop_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libbubbletop_la_SOURCES = \
	capture/bubbletop.h capture/version.c \
	capture/session.c capture/session.h capture/process.c capture/process.h \
	capture/threads.c capture/threads.h capture/producer.c capture/producer.h \
	capture/span.c capture/mark.c capture/clock.h \
	capture/writer.c capture/writer.h capture/sink.c capture/sink.h \
	capture/definitions.c capture/definitions.h capture/config.c capture/config.h \
	capture/identity.c capture/identity.h capture/signals.c capture/signals.h capture/ring_file.c capture/ring_file.h
libbubbletop_la_LIBADD = libwire.la
libbubbletop_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/capture/bubbletop.map

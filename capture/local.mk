# What training processes load. Links formats/wire and nothing else of ours.
lib_LTLIBRARIES += libbubbletop.la
include_HEADERS += capture/bubbletop.h
dist_man_MANS += capture/man/bubbletop.3
pkgconfig_DATA += capture/bubbletop.pc
EXTRA_DIST += capture/bubbletop.map
libbubbletop_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libbubbletop_la_SOURCES = capture/bubbletop.h capture/version.c
libbubbletop_la_LIBADD = libwire.la
libbubbletop_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/capture/bubbletop.map

# The whole program `bubbletop`: commands, analysis (no curses), screen (one file includes curses).
include tui/analysis/local.mk
include tui/screen/local.mk
include tui/commands/local.mk

bin_PROGRAMS += bubbletop
bubbletop_SOURCES = tui/main.c
bubbletop_LDADD = libcommands.la libscreen.la libanalysis.la libformats.la libwire.la $(NCURSES_LIBS) $(MSGPACK_LIBS)

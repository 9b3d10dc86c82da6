# Trace and view state -> cell grid (pure); terminal.c alone knows curses.
noinst_LTLIBRARIES += libscreen.la
libscreen_la_CFLAGS = $(AM_CFLAGS) $(NCURSES_CFLAGS)
libscreen_la_SOURCES =

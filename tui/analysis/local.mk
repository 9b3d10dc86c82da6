# Accounting, level of detail, schedules, clocks: pure functions of a trace. No curses, no I/O.
noinst_LTLIBRARIES += libanalysis.la
libanalysis_la_SOURCES = tui/analysis/replay.c tui/analysis/replay.h

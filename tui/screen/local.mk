# Trace and view state -> cell grid (pure); terminal.c alone knows curses.
noinst_LTLIBRARIES += libscreen.la
libscreen_la_CFLAGS = $(AM_CFLAGS) $(NCURSES_CFLAGS)
libscreen_la_SOURCES = \
	tui/screen/grid.c tui/screen/grid.h tui/screen/theme.c tui/screen/theme.h \
	tui/screen/text.c tui/screen/text.h tui/screen/keys.c tui/screen/keys.h \
	tui/screen/rows.c tui/screen/rows.h tui/screen/steps.c tui/screen/steps.h \
	tui/screen/view.c tui/screen/view.h tui/screen/gantt.c tui/screen/gantt.h tui/screen/gantt_cells.c tui/screen/gantt_cells.h tui/screen/gantt_plan.c tui/screen/answer.c tui/screen/answer.h tui/screen/range.c tui/screen/range.h \
	tui/screen/pair.c tui/screen/pair.h tui/screen/pair_draw.c tui/screen/pair_private.h tui/screen/pair_rows.c tui/screen/pair_twin.c tui/screen/detail.c tui/screen/detail.h tui/screen/chrome.c tui/screen/chrome.h \
	tui/screen/bottom.c tui/screen/help.c tui/screen/jump.c tui/screen/input.c \
	tui/screen/navigate.c tui/screen/navigate_change.c tui/screen/navigate.h tui/screen/page.h tui/screen/page.c tui/screen/page_stages.c tui/screen/page_steps.c \
	tui/screen/page_matrix.c tui/screen/matrix.c tui/screen/matrix.h tui/screen/search.c tui/screen/search.h \
	tui/screen/screen.c tui/screen/screen.h \
	tui/screen/hang.c tui/screen/hang.h tui/screen/ages.c tui/screen/ages.h \
	tui/screen/paint.c tui/screen/paint.h tui/screen/terminal.c tui/screen/terminal.h

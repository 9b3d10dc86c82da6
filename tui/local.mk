# The whole program `bubbletop`: commands, analysis (no curses), screen (one file includes curses).
include tui/analysis/local.mk
include tui/screen/local.mk
include tui/commands/local.mk

bin_PROGRAMS += bubbletop
bubbletop_SOURCES = tui/main.c
bubbletop_LDADD = libcommands.la libscreen.la libanalysis.la libformats.la libwire.la $(NCURSES_LIBS) $(MSGPACK_LIBS) -lm

# The command table is in the program, so it prints the manual's list of commands and the completion.
man_MANS += tui/man/bubbletop.1
EXTRA_DIST += tui/man/bubbletop.1.in
bashcompletiondir = $(datadir)/bash-completion/completions
bashcompletion_DATA = tui/man/bubbletop
CLEANFILES += tui/man/bubbletop.1 tui/man/bubbletop

tui/man/bubbletop.1: tui/man/bubbletop.1.in bubbletop$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) tui/man && ./bubbletop$(EXEEXT) help --man >$@.commands && \
	sed -e '/^@COMMANDS@$$/{' -e 'r $@.commands' -e 'd' -e '}' $(srcdir)/tui/man/bubbletop.1.in >$@.new && \
	rm $@.commands && mv $@.new $@

tui/man/bubbletop: bubbletop$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) tui/man && ./bubbletop$(EXEEXT) help --completion >$@.new && mv $@.new $@

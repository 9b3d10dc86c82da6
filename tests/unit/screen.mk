# Unit tests of screen.
unit_programs += tests/unit/test_lod
tests_unit_test_lod_SOURCES = tests/unit/test_lod.c
tests_unit_test_lod_CFLAGS = $(unit_cflags)
tests_unit_test_lod_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS)

unit_programs += tests/unit/test_terminal
tests_unit_test_terminal_SOURCES = tests/unit/test_terminal.c
tests_unit_test_terminal_CFLAGS = $(unit_cflags)
tests_unit_test_terminal_LDADD = libscreen.la libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(NCURSES_LIBS) \
	$(MSGPACK_LIBS)

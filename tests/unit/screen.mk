# Unit tests of screen.
unit_programs += tests/unit/test_lod
tests_unit_test_lod_SOURCES = tests/unit/test_lod.c
tests_unit_test_lod_CFLAGS = $(unit_cflags)
tests_unit_test_lod_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS)
unit_programs += tests/unit/test_lod_cut
tests_unit_test_lod_cut_SOURCES = tests/unit/test_lod_cut.c
tests_unit_test_lod_cut_CFLAGS = $(unit_cflags)
tests_unit_test_lod_cut_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS)

unit_programs += tests/unit/test_terminal
tests_unit_test_terminal_SOURCES = tests/unit/test_terminal.c tests/screen/watch.c tests/screen/watch.h
tests_unit_test_terminal_CFLAGS = $(unit_cflags)
tests_unit_test_terminal_LDADD = libscreen.la libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(NCURSES_LIBS) \
	$(MSGPACK_LIBS) -lm

unit_programs += tests/unit/test_view_edges
tests_unit_test_view_edges_SOURCES = tests/unit/test_view_edges.c
tests_unit_test_view_edges_CFLAGS = $(unit_cflags)
tests_unit_test_view_edges_LDADD = libscreen.la libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(NCURSES_LIBS) \
	$(MSGPACK_LIBS) -lm

unit_programs += tests/unit/test_paint
tests_unit_test_paint_SOURCES = tests/unit/test_paint.c
tests_unit_test_paint_CFLAGS = $(unit_cflags)
tests_unit_test_paint_LDADD = libscreen.la libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(NCURSES_LIBS) \
	$(MSGPACK_LIBS) -lm

unit_programs += tests/unit/test_gaps
tests_unit_test_gaps_SOURCES = tests/unit/test_gaps.c tests/unit/account_trace.h tests/unit/account_simulated.h
tests_unit_test_gaps_CFLAGS = $(unit_cflags)
tests_unit_test_gaps_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS) -lm

unit_programs += tests/unit/test_hang
tests_unit_test_hang_SOURCES = tests/unit/test_hang.c
tests_unit_test_hang_CFLAGS = $(unit_cflags)
tests_unit_test_hang_LDADD = libscreen.la libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(NCURSES_LIBS) \
	$(MSGPACK_LIBS) -lm

unit_programs += tests/unit/test_steps
tests_unit_test_steps_SOURCES = tests/unit/test_steps.c
tests_unit_test_steps_CFLAGS = $(unit_cflags)
tests_unit_test_steps_LDADD = libscreen.la libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(NCURSES_LIBS) \
	$(MSGPACK_LIBS) -lm

unit_programs += tests/unit/test_pair
tests_unit_test_pair_SOURCES = tests/unit/test_pair.c tests/unit/simulated_trace.h
tests_unit_test_pair_CFLAGS = $(unit_cflags)
tests_unit_test_pair_LDADD = libscreen.la libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(NCURSES_LIBS) \
	$(MSGPACK_LIBS) -lm

unit_programs += tests/unit/test_range
tests_unit_test_range_SOURCES = tests/unit/test_range.c tests/unit/simulated_trace.h
tests_unit_test_range_CFLAGS = $(unit_cflags)
tests_unit_test_range_LDADD = libscreen.la libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(NCURSES_LIBS) \
	$(MSGPACK_LIBS) -lm

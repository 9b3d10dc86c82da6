# Unit tests of analysis.
unit_programs += tests/unit/test_replay
tests_unit_test_replay_SOURCES = tests/unit/test_replay.c
tests_unit_test_replay_CFLAGS = $(unit_cflags)
tests_unit_test_replay_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS)

unit_programs += tests/unit/test_accounting
tests_unit_test_accounting_SOURCES = tests/unit/test_accounting.c tests/unit/account_trace.h
tests_unit_test_accounting_CFLAGS = $(unit_cflags)
tests_unit_test_accounting_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS) -lm
unit_programs += tests/unit/test_schedule
tests_unit_test_schedule_SOURCES = tests/unit/test_schedule.c
tests_unit_test_schedule_CFLAGS = $(unit_cflags)
tests_unit_test_schedule_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS)
unit_programs += tests/unit/test_recognise
tests_unit_test_recognise_SOURCES = tests/unit/test_recognise.c
tests_unit_test_recognise_CFLAGS = $(unit_cflags)
tests_unit_test_recognise_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS)
unit_programs += tests/unit/test_accounting_simulated
tests_unit_test_accounting_simulated_SOURCES = tests/unit/test_accounting_simulated.c tests/unit/account_trace.h tests/unit/account_simulated.h
tests_unit_test_accounting_simulated_CFLAGS = $(unit_cflags)
tests_unit_test_accounting_simulated_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS) -lm
unit_programs += tests/unit/test_json
tests_unit_test_json_SOURCES = tests/unit/test_json.c
tests_unit_test_json_CFLAGS = $(unit_cflags)
tests_unit_test_json_LDADD = libcommands.la libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS) -lm
unit_programs += tests/unit/test_clocks
tests_unit_test_clocks_SOURCES = tests/unit/test_clocks.c
tests_unit_test_clocks_CFLAGS = $(unit_cflags)
tests_unit_test_clocks_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS) -lm
unit_programs += tests/unit/test_causes
tests_unit_test_causes_SOURCES = tests/unit/test_causes.c tests/unit/account_trace.h tests/unit/account_simulated.h
tests_unit_test_causes_CFLAGS = $(unit_cflags)
tests_unit_test_causes_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS) -lm
unit_programs += tests/unit/test_plan
tests_unit_test_plan_SOURCES = tests/unit/test_plan.c tests/unit/account_trace.h tests/unit/account_simulated.h \
	tests/unit/simulated_trace.h
tests_unit_test_plan_CFLAGS = $(unit_cflags)
tests_unit_test_plan_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS) -lm
unit_programs += tests/unit/test_accounting_withheld
tests_unit_test_accounting_withheld_SOURCES = tests/unit/test_accounting_withheld.c tests/unit/account_trace.h tests/unit/account_simulated.h
tests_unit_test_accounting_withheld_CFLAGS = $(unit_cflags)
tests_unit_test_accounting_withheld_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS) -lm
unit_programs += tests/unit/test_compare
tests_unit_test_compare_SOURCES = tests/unit/test_compare.c tests/unit/account_trace.h tests/unit/account_simulated.h \
	tests/unit/simulated_trace.h
tests_unit_test_compare_CFLAGS = $(unit_cflags)
tests_unit_test_compare_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS) -lm
unit_programs += tests/unit/test_join tests/unit/test_join_runs
tests_unit_test_join_SOURCES = tests/unit/test_join.c tests/unit/account_trace.h
tests_unit_test_join_CFLAGS = $(unit_cflags)
tests_unit_test_join_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS) -lm
tests_unit_test_join_runs_SOURCES = tests/unit/test_join_runs.c tests/unit/account_trace.h tests/unit/account_simulated.h \
	tests/unit/simulated_trace.h tests/wire/sample.c tests/wire/sample.h
tests_unit_test_join_runs_CFLAGS = $(unit_cflags)
tests_unit_test_join_runs_LDADD = libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS) -lm

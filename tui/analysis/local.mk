# Accounting, level of detail, schedules, clocks: pure functions of a trace. No curses, no I/O.
noinst_LTLIBRARIES += libanalysis.la
libanalysis_la_SOURCES = \
	tui/analysis/replay.c tui/analysis/replay.h \
	tui/analysis/recognise.c tui/analysis/recognise.h tui/analysis/recognise_build.c \
	tui/analysis/recognise_build.h \
	tui/analysis/schedule.c tui/analysis/schedule.h tui/analysis/schedule_basic.c \
	tui/analysis/schedule_zb.c tui/analysis/schedule_zb_auto.c tui/analysis/schedule_zb_v_auto.c \
	tui/analysis/schedule_v_greedy.c tui/analysis/schedule_zeropp.c tui/analysis/schedule_dualpipe.c \
	tui/analysis/simulate.c tui/analysis/simulate.h \
	tui/analysis/simulate_plan.c tui/analysis/simulate_plan.h tui/analysis/simulate_events.c
libanalysis_la_SOURCES += \
	tui/analysis/accounting.h tui/analysis/accounting_model.h tui/analysis/accounting.c \
	tui/analysis/accounting_index.c tui/analysis/accounting_index.h \
	tui/analysis/accounting_ops.c tui/analysis/accounting_steps.c tui/analysis/accounting_match.c tui/analysis/accounting_derive.c \
	tui/analysis/accounting_waits.c tui/analysis/accounting_segments.c tui/analysis/accounting_classify.c \
	tui/analysis/accounting_totals.c tui/analysis/accounting_links.c \
	tui/analysis/accounting_theory.h tui/analysis/accounting_theory.c tui/analysis/accounting_means.c \
	tui/analysis/accounting_schedule.c tui/analysis/accounting_choose.c \
	tui/analysis/accounting_causes.c tui/analysis/accounting_medians.c \
	tui/analysis/accounting_medians.h tui/analysis/accounting_lanes.c \
	tui/analysis/gaps.h tui/analysis/gaps.c
libanalysis_la_SOURCES += tui/analysis/lod.c tui/analysis/lod.h tui/analysis/lod_build.c tui/analysis/lod_gaps.c \
	tui/analysis/lod_set.c tui/analysis/lod_sweep.c tui/analysis/lod_sweep.h tui/analysis/lod_memo.c \
	tui/analysis/lod_memo.h tui/analysis/lod_cut.c tui/analysis/lod_cut.h
libanalysis_la_SOURCES += \
	tui/analysis/clocks.h tui/analysis/clocks_private.h tui/analysis/clocks.c tui/analysis/clocks_points.c \
	tui/analysis/clocks_line.c
libanalysis_la_SOURCES += tui/analysis/plan.h tui/analysis/plan_private.h tui/analysis/plan.c tui/analysis/plan_run.c \
	tui/analysis/plan_make.c tui/analysis/plan_places.c tui/analysis/plan_order.c tui/analysis/plan_late.c
libanalysis_la_SOURCES += tui/analysis/compare.h tui/analysis/compare.c tui/analysis/compare_verdict.c

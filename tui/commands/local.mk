# One file a command; table.c lists them.
noinst_LTLIBRARIES += libcommands.la
libcommands_la_SOURCES = tui/commands/command.h tui/commands/table.c tui/commands/help.c \
	tui/commands/open_run.h tui/commands/open_run.c tui/commands/info.c tui/commands/info_groups.h tui/commands/info_groups.c tui/commands/recover.c \
	tui/commands/manual.h tui/commands/manual.c \
	tui/commands/simulate.h tui/commands/simulate.c tui/commands/simulate_write.c \
	tui/commands/json.h tui/commands/json.c tui/commands/report.h tui/commands/report.c \
	tui/commands/report_document.c tui/commands/report_text.c tui/commands/report_verdict.c \
	tui/commands/report_csv.c \
	tui/commands/report_condition.c tui/commands/plan_request.h tui/commands/plan_request.c \
	tui/commands/report_plan.h tui/commands/report_plan.c tui/commands/report_glossary.c
libcommands_la_SOURCES += tui/commands/export.c tui/commands/view.h tui/commands/view.c tui/commands/view_feeder.c tui/commands/view_gaps.c tui/commands/view_save.c tui/commands/range_json.c tui/commands/range_json.h tui/commands/view_loop.c tui/commands/view_runs.c
libcommands_la_SOURCES += tui/commands/record.h tui/commands/record.c tui/commands/record_run.c \
	tui/commands/record_environment.c tui/commands/record_command.c tui/commands/record_summary.c
# Where record looks for what processes load, beside the places that are relative to the program.
libcommands_la_CPPFLAGS = $(AM_CPPFLAGS) -DBT_LIBDIR='"$(libdir)"' -DBT_DATADIR='"$(pkgdatadir)"'
libcommands_la_SOURCES += tui/commands/compare.h tui/commands/compare.c tui/commands/compare_text.c \
	tui/commands/compare_document.c

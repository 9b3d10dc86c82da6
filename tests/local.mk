# Tests, one fragment an area. A cmocka program is added with:  unit_programs += tests/unit/test_x
include tests/unit/local.mk
include tests/bench/local.mk
include tests/capture/local.mk
include tests/samples/local.mk
include tests/lint/local.mk
include tests/formats/local.mk
include tests/wire/local.mk
include tests/fuzz/local.mk
include tests/simulate/local.mk
include tests/accounting/local.mk
include tests/screen/local.mk
include tests/export/local.mk
include tests/record/local.mk
include tests/plan/local.mk
include tests/gpu/local.mk

# What tests/run --quick runs.
quick_tests = $(unit_programs) $(lint_tests)
dist_noinst_SCRIPTS += tests/run
EXTRA_DIST += tests/count.awk

TEST_EXTENSIONS = .sh .py
AM_TESTS_ENVIRONMENT = top_srcdir='$(abs_top_srcdir)' top_builddir='$(abs_top_builddir)' PYTHON3='$(PYTHON3)'; \
	export top_srcdir top_builddir PYTHON3;
if HAVE_PYTHON
PY_LOG_COMPILER = $(PYTHON3)
else
PY_LOG_COMPILER = $(SHELL) -c 'echo no Python; exit 77'
endif
SH_LOG_COMPILER = bash

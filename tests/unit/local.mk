unit_programs =
unit_cflags = $(AM_CFLAGS) $(CMOCKA_CFLAGS)

include tests/unit/wire.mk
include tests/unit/capture.mk
include tests/unit/inject.mk
include tests/unit/formats.mk
include tests/unit/analysis.mk
include tests/unit/screen.mk

if HAVE_CMOCKA
check_PROGRAMS += $(unit_programs)
TESTS += $(unit_programs)
endif
EXTRA_PROGRAMS += $(unit_programs)

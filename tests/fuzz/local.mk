# Fuzz targets, replayed over a small corpus with fixed mutations in make check. A target is added with
#   fuzz_programs += tests/fuzz/fuzz_x      (sources: fuzz_x.c and replay.c, CPPFLAGS: -DFUZZ_CORPUS='"x"')
# and its corpus in tests/fuzz/corpus/x. With clang, link fuzz_x.c with -fsanitize=fuzzer instead of replay.c.
fuzz_programs = tests/fuzz/fuzz_wire
check_PROGRAMS += $(fuzz_programs)
TESTS += $(fuzz_programs)

tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.c tests/fuzz/replay.c tests/wire/sample.c tests/wire/sample.h
tests_fuzz_fuzz_wire_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_CORPUS='"wire"'
tests_fuzz_fuzz_wire_LDADD = libwire.la
EXTRA_DIST += tests/fuzz/corpus

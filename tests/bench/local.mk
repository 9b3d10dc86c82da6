# `make bench`: ratios measured within one run. Each area adds programs or scripts to bench_programs.
bench_programs =

bench_programs += tests/bench/bench_decode
tests_bench_bench_decode_SOURCES = tests/bench/bench_decode.c
tests_bench_bench_decode_LDADD = libformats.la libwire.la $(MSGPACK_LIBS)

EXTRA_PROGRAMS += $(bench_programs)

bench: $(bench_programs)
	@for program in $(bench_programs); do ./$$program || exit 1; done
.PHONY: bench

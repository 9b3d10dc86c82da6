# `make bench`: ratios measured within one run. Each area adds programs or scripts to bench_programs.
bench_programs =
EXTRA_PROGRAMS += $(bench_programs)

bench: $(bench_programs)
	@for program in $(bench_programs); do ./$$program || exit 1; done
.PHONY: bench

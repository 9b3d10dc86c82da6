# `make bench`: ratios measured within one run. Each area adds programs or scripts to bench_programs.
bench_programs =

bench_programs += tests/bench/bench_span
tests_bench_bench_span_SOURCES = tests/bench/bench_span.c
tests_bench_bench_span_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_bench_bench_span_LDADD = libbubbletop.la

bench_programs += tests/bench/bench_decode
tests_bench_bench_decode_SOURCES = tests/bench/bench_decode.c
tests_bench_bench_decode_LDADD = libformats.la libwire.la $(MSGPACK_LIBS)

bench_programs += tests/bench/bench_sample_bytes
tests_bench_bench_sample_bytes_SOURCES = tests/bench/bench_sample_bytes.c
tests_bench_bench_sample_bytes_LDADD = libwire.la $(MSGPACK_LIBS)

bench_programs += tests/bench/bench_follow
tests_bench_bench_follow_SOURCES = tests/bench/bench_follow.c tests/formats/maker.c tests/formats/maker.h
tests_bench_bench_follow_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_bench_bench_follow_LDADD = libformats.la libwire.la $(MSGPACK_LIBS)

bench_programs += tests/bench/bench_load
tests_bench_bench_load_SOURCES = tests/bench/bench_load.c tests/formats/maker.c tests/formats/maker.h
tests_bench_bench_load_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_bench_bench_load_LDADD = libformats.la libwire.la $(MSGPACK_LIBS)

bench_programs += tests/bench/bench_frame
tests_bench_bench_frame_SOURCES = tests/bench/bench_frame.c
tests_bench_bench_frame_LDADD = libscreen.la libanalysis.la libformats.la libwire.la $(NCURSES_LIBS) $(MSGPACK_LIBS) -lm -lm

bench_programs += tests/bench/bench_report
tests_bench_bench_report_SOURCES = tests/bench/bench_report.c
tests_bench_bench_report_LDADD = libanalysis.la libformats.la libwire.la $(MSGPACK_LIBS) -lm

bench_programs += tests/bench/bench_nvtx
tests_bench_bench_nvtx_SOURCES = tests/bench/bench_nvtx.c tests/capture/nvtx_client.c tests/capture/nvtx_client.h
tests_bench_bench_nvtx_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE

bench_programs += tests/bench/bench_bytes
tests_bench_bench_bytes_SOURCES = tests/bench/bench_bytes.c tests/screen/watch.c tests/screen/watch.h
tests_bench_bench_bytes_LDADD = libscreen.la libanalysis.la libformats.la libwire.la $(NCURSES_LIBS) $(MSGPACK_LIBS) -lm

bench_programs += tests/bench/bench_latency
tests_bench_bench_latency_SOURCES = tests/bench/bench_latency.c tests/bench/show.c tests/bench/show.h
tests_bench_bench_latency_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_bench_bench_latency_LDADD = libbubbletop.la

bench_programs += tests/bench/bench_view
tests_bench_bench_view_SOURCES = tests/bench/bench_view.c tests/bench/show.c tests/bench/show.h \
	tests/formats/maker.c tests/formats/maker.h
tests_bench_bench_view_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_bench_bench_view_LDADD = libformats.la libwire.la $(MSGPACK_LIBS)

bench_programs += tests/bench/bench_open
tests_bench_bench_open_SOURCES = tests/bench/bench_open.c tests/bench/show.c tests/bench/show.h
tests_bench_bench_open_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE

EXTRA_PROGRAMS += $(bench_programs)

# The peer of bench_span, where LTTng is there: lttng.sh runs it in a recording session.
EXTRA_DIST += tests/bench/lttng.sh tests/bench/lttng_pair.c tests/bench/lttng_events.h
if HAVE_LTTNG
bench_peer = tests/bench/lttng_pair
EXTRA_PROGRAMS += tests/bench/lttng_pair
tests_bench_lttng_pair_SOURCES = tests/bench/lttng_pair.c tests/bench/lttng_events.h
tests_bench_lttng_pair_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE $(LTTNG_UST_CFLAGS)
tests_bench_lttng_pair_LDADD = libbubbletop.la $(LTTNG_UST_LIBS)
endif

EXTRA_DIST += tests/bench/bench_python.py tests/bench/bench_trainer.sh

bench: $(bench_programs) bubbletop $(bench_peer) samples/pipeline_train
	@for program in $(bench_programs); do ./$$program || exit 1; done
	@bash $(srcdir)/tests/bench/bench_trainer.sh
	@if test '$(PYTHON3)' != no; then $(AM_TESTS_ENVIRONMENT) $(PYTHON3) $(srcdir)/tests/bench/bench_python.py; fi
	@if test -n '$(bench_peer)'; then bash $(srcdir)/tests/bench/lttng.sh ./$(bench_peer); fi
.PHONY: bench

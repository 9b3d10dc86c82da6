# What only a GPU can tell (tests/gpu/run), and a trial of its checks on the double of the driver.
dist_noinst_SCRIPTS += tests/gpu/run
EXTRA_DIST += tests/gpu/dry.sh tests/gpu/torch_pipeline.py
noinst_PROGRAMS += tests/gpu/check_spans
tests_gpu_check_spans_SOURCES = tests/gpu/check_spans.c
tests_gpu_check_spans_LDADD = libformats.la libwire.la $(MSGPACK_LIBS)

gpu_tests = tests/gpu/dry.sh
EXTRA_PROGRAMS += tests/gpu/pretend
tests_gpu_pretend_SOURCES = tests/gpu/pretend.c $(nccl_harness) $(capture_test_support)
tests_gpu_pretend_CPPFLAGS = $(capture_test_cppflags)
tests_gpu_pretend_CFLAGS = $(unit_cflags)
tests_gpu_pretend_LDADD = $(capture_test_ldadd)
if HAVE_CMOCKA
check_PROGRAMS += tests/gpu/pretend
TESTS += $(gpu_tests)
endif

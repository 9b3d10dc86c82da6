# Tests of the injection libraries.
unit_programs += tests/capture/test_nvtx
tests_capture_test_nvtx_SOURCES = tests/capture/test_nvtx.c tests/capture/nvtx_client.c tests/capture/nvtx_client.h \
	$(capture_test_sessions)
tests_capture_test_nvtx_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_nvtx_CFLAGS = $(unit_cflags)
tests_capture_test_nvtx_LDADD = $(capture_test_ldadd)

unit_programs += tests/capture/test_cuda
tests_capture_test_cuda_SOURCES = tests/capture/test_cuda.c tests/capture/cuda_double.h $(capture_test_sessions)
tests_capture_test_cuda_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_cuda_CFLAGS = $(unit_cflags)
tests_capture_test_cuda_LDADD = $(capture_test_ldadd)

unit_programs += tests/capture/test_nccl
nccl_harness = tests/capture/nccl_harness.c tests/capture/nccl_harness.h tests/capture/cuda_double.h
tests_capture_test_nccl_SOURCES = tests/capture/test_nccl.c $(nccl_harness) $(capture_test_sessions)
tests_capture_test_nccl_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_nccl_CFLAGS = $(unit_cflags)
tests_capture_test_nccl_LDADD = $(capture_test_ldadd)

# all of them in one process
unit_programs += tests/capture/test_sources
tests_capture_test_sources_SOURCES = tests/capture/test_sources.c tests/capture/nvtx_client.c \
	tests/capture/nvtx_client.h $(capture_test_sessions)
tests_capture_test_sources_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_sources_CFLAGS = $(unit_cflags)
tests_capture_test_sources_LDADD = $(capture_test_ldadd)

# four ranks, each a process, and what a report makes of their streams
unit_programs += tests/capture/test_nccl_ranks
tests_capture_test_nccl_ranks_SOURCES = tests/capture/test_nccl_ranks.c $(nccl_harness) $(capture_test_support)
tests_capture_test_nccl_ranks_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_nccl_ranks_CFLAGS = $(unit_cflags)
tests_capture_test_nccl_ranks_LDADD = libbubbletop.la libanalysis.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS) -lm

unit_programs += tests/capture/test_cuda_kill
tests_capture_test_cuda_kill_SOURCES = tests/capture/test_cuda_kill.c $(nccl_harness) $(capture_test_support)
tests_capture_test_cuda_kill_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_cuda_kill_CFLAGS = $(unit_cflags)
tests_capture_test_cuda_kill_LDADD = libbubbletop.la libformats.la libwire.la $(CMOCKA_LIBS) $(MSGPACK_LIBS)

unit_programs += tests/capture/test_nccl_channels
tests_capture_test_nccl_channels_SOURCES = tests/capture/test_nccl_channels.c $(nccl_harness) $(capture_test_sessions)
tests_capture_test_nccl_channels_CPPFLAGS = $(capture_test_cppflags)
tests_capture_test_nccl_channels_CFLAGS = $(unit_cflags)
tests_capture_test_nccl_channels_LDADD = $(capture_test_ldadd)

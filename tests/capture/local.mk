# Programs and libraries that tests of the injection libraries run.
check_PROGRAMS += tests/capture/nvtx_nccl
check_LTLIBRARIES += tests/capture/nvtx_probe.la
tests_capture_nvtx_nccl_SOURCES = tests/capture/nvtx_nccl.c
tests_capture_nvtx_nccl_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
EXTRA_DIST += tests/capture/check_nvtx_abi.c
if HAVE_CUDA
# CUDA brings NVTX's headers.
tests_capture_nvtx_nccl_SOURCES += tests/capture/check_nvtx_abi.c
tests_capture_nvtx_nccl_CPPFLAGS += -DHAVE_NVTX -isystem $(CUDA_INCLUDE)
endif
tests_capture_nvtx_probe_la_SOURCES = tests/capture/nvtx_probe.c
tests_capture_nvtx_probe_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

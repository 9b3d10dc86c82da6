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

# A library by the driver's name. Not by libtool, which insists on a soname of its own.
cuda_double = tests/capture/double/libcuda.so.1
check_DATA += $(cuda_double)
CLEANFILES += $(cuda_double)
EXTRA_DIST += tests/capture/cuda_double.c tests/capture/cuda_double.h
$(cuda_double): tests/capture/cuda_double.c tests/capture/cuda_double.h
	$(AM_V_CCLD)$(MKDIR_P) tests/capture/double && $(CC) $(AM_CPPFLAGS) -D_GNU_SOURCE $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) \
		-shared -fPIC -Wl,-soname,libcuda.so.1 $(AM_LDFLAGS) $(LDFLAGS) -o $@ $(srcdir)/tests/capture/cuda_double.c -lpthread

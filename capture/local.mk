# What training processes load. Links formats/wire and nothing else of ours.
lib_LTLIBRARIES += libbubbletop.la
include_HEADERS += capture/bubbletop.h capture/bubbletop_tool.h capture/bubbletop_cuda.h
dist_man_MANS += capture/man/bubbletop.3 capture/man/bubbletop_cuda.3 capture/man/bubbletop_tool.3 \
	capture/man/bubbletop-instrument.7
pkgconfig_DATA += capture/bubbletop.pc
EXTRA_DIST += capture/bubbletop.map
libbubbletop_la_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
libbubbletop_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libbubbletop_la_SOURCES = \
	capture/bubbletop.h capture/bubbletop_tool.h capture/bubbletop_cuda.h capture/version.c \
	capture/cuda.c capture/cuda.h capture/cuda_poll.c capture/cuda_clock.c capture/cuda_clock.h \
	capture/cuda_pending.c capture/cuda_pending.h \
	capture/cuda_driver.c capture/cuda_driver.h capture/span.h \
	capture/session.c capture/session.h capture/process.c capture/process.h \
	capture/threads.c capture/threads.h capture/producer.c capture/producer.h \
	capture/span.c capture/mark.c capture/clock.h \
	capture/writer.c capture/writer.h capture/sink.c capture/sink.h \
	capture/definitions.c capture/definitions.h capture/config.c capture/config.h \
	capture/identity.c capture/identity.h capture/signals.c capture/signals.h capture/ring_file.c capture/ring_file.h
libbubbletop_la_LIBADD = libwire.la
libbubbletop_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/capture/bubbletop.map

# Loaded by programs that know nothing of it: NVTX_INJECTION64_PATH names the file.
lib_LTLIBRARIES += libbubbletop-nvtx.la
EXTRA_DIST += capture/nvtx.map
libbubbletop_nvtx_la_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
libbubbletop_nvtx_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libbubbletop_nvtx_la_SOURCES = \
	capture/nvtx.c capture/nvtx_abi.h capture/nvtx_chain.c capture/nvtx_chain.h \
	capture/nvtx_domain.c capture/nvtx_domain.h capture/nvtx_range.c capture/nvtx_range.h \
	capture/nvtx_rules.c capture/nvtx_rules.h capture/nvtx_shipped.c capture/comm.c capture/comm.h
libbubbletop_nvtx_la_LIBADD = libbubbletop.la
libbubbletop_nvtx_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -no-undefined -Wl,-z,nodelete \
	-Wl,-rpath,'$$ORIGIN' \
	-Wl,--version-script=$(srcdir)/capture/nvtx.map

# The Python module: `record` puts its hook on PYTHONPATH, from here (the build tree has a link) or from its installation.
dist_pythonpackage_DATA = capture/python/bubbletop/__init__.py capture/python/bubbletop/_library.py \
	capture/python/bubbletop/_attach.py capture/python/bubbletop/_distributed.py capture/python/bubbletop/_calls.py \
	capture/python/bubbletop/torch.py \
	capture/python/bubbletop/megatron.py capture/python/bubbletop/_megatron_collectives.py \
	capture/python/bubbletop/deepspeed.py
pythonhookdir = $(pkgdatadir)/python/hook
dist_pythonhook_DATA = capture/python/hook/sitecustomize.py
pythonpackagedir = $(pkgdatadir)/python/bubbletop
EXTRA_DIST += capture/python/pyproject.toml
noinst_DATA = capture/python-tree
CLEANFILES += capture/python-tree
capture/python-tree:
	$(AM_V_GEN)$(MKDIR_P) capture && rm -f $@ && $(LN_S) $(abs_top_srcdir)/capture/python $@

# NCCL_PROFILER_PLUGIN names the file, or "bubbletop".
lib_LTLIBRARIES += libnccl-profiler-bubbletop.la
EXTRA_DIST += capture/nccl.map
libnccl_profiler_bubbletop_la_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
libnccl_profiler_bubbletop_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libnccl_profiler_bubbletop_la_SOURCES = capture/nccl.c capture/nccl_flight.c capture/nccl_flight.h capture/nccl_abi.h capture/comm.c capture/comm.h
libnccl_profiler_bubbletop_la_LIBADD = libbubbletop.la
libnccl_profiler_bubbletop_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -no-undefined -Wl,-z,nodelete \
	-Wl,-rpath,'$$ORIGIN' \
	-Wl,--version-script=$(srcdir)/capture/nccl.map

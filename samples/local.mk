# Generators and real trainers; saved captures small enough to ship.
noinst_LTLIBRARIES += libtrain.la
libtrain_la_SOURCES = \
	samples/train/failure.c samples/train/failure.h \
	samples/train/options.c samples/train/options.h \
	samples/train/schedule.c samples/train/schedule.h \
	samples/train/model.c samples/train/model.h \
	samples/train/data.c samples/train/data.h
libtrain_la_LIBADD = -lm

noinst_PROGRAMS += samples/pipeline_train
samples_pipeline_train_SOURCES = \
	samples/train/main.c \
	samples/train/trace.c samples/train/trace.h \
	samples/train/stage.c samples/train/stage.h \
	samples/train/transport.c samples/train/transport.h \
	samples/train/allreduce.c samples/train/allreduce.h \
	samples/train/connect.c samples/train/connect.h \
	samples/train/rank.c samples/train/rank.h \
	samples/train/launch.c samples/train/reference.c
samples_pipeline_train_LDADD = libtrain.la libbubbletop.la
EXTRA_DIST += samples/README.md samples/captures
dist_noinst_SCRIPTS += samples/demo

# A trainer over NCCL, and the programs of tests/gpu/run, where there are nvcc and NCCL.
gpu_programs = samples/nccl_pipeline tests/gpu/event_pool tests/gpu/self_send
EXTRA_DIST += $(gpu_programs:=.cu)
if HAVE_NVCC_AND_NCCL
noinst_DATA += $(gpu_programs)
CLEANFILES += $(gpu_programs)
endif
$(gpu_programs): libbubbletop.la capture/bubbletop.h capture/bubbletop_cuda.h
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(NVCC) -std=c++17 -O2 -I$(top_srcdir) $(CUDA_CPPFLAGS) $(NCCL_CPPFLAGS) -o $@ \
		$(srcdir)/$@.cu -L.libs -lbubbletop $(NCCL_LIBS) -Xlinker -rpath,'$(abs_builddir)/.libs'

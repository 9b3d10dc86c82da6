# Tests of `bubbletop record` and of the Python module.
record_tests = tests/record/record.py tests/record/python.py tests/record/gpu.py tests/record/by_hand.py
TESTS += $(record_tests)
EXTRA_DIST += $(record_tests) tests/record/harness.py tests/record/handmade.py tests/record/torch_1f1b.py tests/record/torch_calls.py

check_PROGRAMS += tests/record/spans
tests_record_spans_SOURCES = tests/record/spans.c
tests_record_spans_LDADD = libformats.la libwire.la $(MSGPACK_LIBS)

# Real frameworks, in an environment of their own: tests/run --frameworks. Not part of the default suite.
EXTRA_DIST += tests/frameworks/run tests/frameworks/common.py tests/frameworks/jobs.py tests/frameworks/double.py \
	tests/frameworks/torch_schedules.py tests/frameworks/torch_pipeline.py tests/frameworks/torch_overhead.py \
	tests/frameworks/megatron_schedules.py tests/frameworks/megatron_train.py \
	tests/frameworks/deepspeed_engine.py tests/frameworks/deepspeed_train.py

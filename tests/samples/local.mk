# Tests of the samples.
unit_programs += tests/unit/test_trainer
tests_unit_test_trainer_SOURCES = tests/unit/test_trainer.c
tests_unit_test_trainer_CFLAGS = $(unit_cflags)
tests_unit_test_trainer_LDADD = libtrain.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/samples/check_capture
tests_samples_check_capture_SOURCES = tests/samples/check_capture.c
tests_samples_check_capture_LDADD = libtrain.la libformats.la libwire.la $(MSGPACK_LIBS)

sample_tests = tests/samples/gradients.py tests/samples/failures.py tests/samples/capture.sh \
	tests/samples/saved.sh
TESTS += $(sample_tests)
EXTRA_DIST += $(sample_tests) tests/samples/trainer.py

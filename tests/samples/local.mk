# Tests of the samples.
unit_programs += tests/unit/test_trainer
tests_unit_test_trainer_SOURCES = tests/unit/test_trainer.c
tests_unit_test_trainer_CFLAGS = $(unit_cflags)
tests_unit_test_trainer_LDADD = libtrain.la $(CMOCKA_LIBS)

sample_tests = tests/samples/gradients.py tests/samples/failures.py
TESTS += $(sample_tests)
EXTRA_DIST += $(sample_tests) tests/samples/trainer.py

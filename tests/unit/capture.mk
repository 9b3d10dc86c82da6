# Unit tests of capture.

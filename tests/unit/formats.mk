# Unit tests of formats.

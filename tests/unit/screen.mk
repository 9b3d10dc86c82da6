# Unit tests of screen.

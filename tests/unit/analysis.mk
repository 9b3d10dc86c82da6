# Unit tests of analysis.

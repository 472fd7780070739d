"""Hostile inputs: cases with the expected outcome of each, see `python -m tests.hostile --help`."""

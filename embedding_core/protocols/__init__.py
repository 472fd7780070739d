"""Protocols of the papers' experiments: pure functions from a data set and a trial's number to numbers.

Every module here has `trial(data, arm, settings, preprocessing, number) -> list[Cell]`, one draw of the
experiment for one method under one preprocessing. What is drawn depends on the data set and the number alone,
so that all methods see the same draws. Labels of test rows are hidden from everything that is fitted, the
preprocessing and the choice of parameters included.
"""

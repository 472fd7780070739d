"""Protocols of the papers' experiments: pure functions from a data set and a trial number to measured values.

Every protocol module has a function `trial(data, arm, settings, preprocessing, number) -> list[Cell]`, which
runs one draw of the experiment for one method under one preprocessing. The draw depends only on the data set
and the number, so that all methods see the same draws. Labels of test rows are hidden from everything that is
fitted, including preprocessing and parameter selection. `trial.py` and `placement.py` have what they share.
"""

"""Kernel DLE: label scores of a regularised kernel expansion, their rotation, and a classifier on them."""

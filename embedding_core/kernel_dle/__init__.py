"""Kernel DLE: label scores of a regularized kernel expansion, their rotation, and a classifier on them."""

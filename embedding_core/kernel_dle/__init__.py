"""Kernel DLE: regularized kernel label scores, their rotation to an embedding, and a classifier on them."""

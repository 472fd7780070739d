"""The application layer: configuration, the pipeline, the command line.

`__version__` is the version of the whole distribution; `pyproject.toml` reads it from here.
"""

__version__ = "0.1.0"

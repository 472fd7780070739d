"""Data readers: from the data of a user to items with labels."""

from storage.sources.base import Collection, Note, Source, SourceOptions, SourceReader
from storage.sources.boundary import OpenedSource
from storage.sources.edges import read_edges
from storage.sources.registry import open_source

__all__ = [
    "Collection",
    "Note",
    "OpenedSource",
    "Source",
    "SourceOptions",
    "SourceReader",
    "open_source",
    "read_edges",
]

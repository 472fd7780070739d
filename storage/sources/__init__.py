"""Data readers: from what a user has to items with labels."""

from storage.sources.base import Collection, Note, Source, SourceOptions
from storage.sources.edges import read_edges
from storage.sources.recognize import open_source

__all__ = ["Collection", "Note", "Source", "SourceOptions", "open_source", "read_edges"]

"""The last run of a source: which artefact each stage had, so that changes can be named."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage.keys import ArtifactRef
from storage.store import Store
from tasks.settings import SourceSettings

_NOTE = "run-"


def _place(source: SourceSettings) -> str:
    path = Path(source.path)
    return str(path.resolve()) if path.exists() else source.path


def source_id(source: SourceSettings) -> str:
    """A short name for the place a source is read from."""
    return hashlib.blake2b(_place(source).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def remember_run(store: Store, source: SourceSettings, stages: Mapping[str, ArtifactRef]) -> None:
    """Keep the artefacts of a finished run; stages that it left out keep those they had."""
    known = {**load_last_run(store, source), **{name: ref.to_json() for name, ref in stages.items()}}
    # The source itself is for messages about a damaged note, whose name is a digest.
    store.remember(f"{_NOTE}{source_id(source)}", {"source": _place(source), "stages": known})


def load_last_run(store: Store, source: SourceSettings) -> dict[str, Any]:
    """References by stage label, empty before the first run."""
    return _stages(store.last(f"{_NOTE}{source_id(source)}") or {})


def load_last_runs(store: Store) -> list[ArtifactRef]:
    """What the last run of each source had, finished or not."""
    notes = [note for name, note in store.notes().items() if name.startswith(_NOTE)]
    return [ArtifactRef.from_json(ref) for note in notes for ref in _stages(note).values()]


def _stages(note: dict[str, Any]) -> dict[str, Any]:
    # At first a note held the references alone.
    return note.get("stages", note)

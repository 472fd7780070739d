"""The last run of a source: which artefact each stage had, so that changes can be named."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage.keys import ArtifactRef
from storage.store import Store
from tasks.settings import SourceSettings


def source_id(source: SourceSettings) -> str:
    """A short name for the place a source is read from."""
    path = Path(source.path)
    place = str(path.resolve()) if path.exists() else source.path
    return hashlib.blake2b(place.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def remember_run(store: Store, source: SourceSettings, stages: Mapping[str, ArtifactRef]) -> None:
    """Keep the artefacts of a finished run; stages that it left out keep those they had."""
    known = load_last_run(store, source)
    store.remember(
        f"run-{source_id(source)}", {**known, **{name: ref.to_json() for name, ref in stages.items()}}
    )


def load_last_run(store: Store, source: SourceSettings) -> dict[str, Any]:
    """References by stage label, empty before the first run."""
    return store.last(f"run-{source_id(source)}") or {}

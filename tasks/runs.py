"""The last run of a source: the artifact of each stage, so that changes can be reported.

The last annotation of a source is remembered separately, so that it does not replace the last run of the same
folder.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage.artifacts.keys import ArtifactRef
from storage.artifacts.store import ArtifactStore
from storage.paths import expand_path
from tasks.settings import SourceSettings

# Start of the pointer's name, for sources that are read with labels and for new items.
RUN_PREFIX, ANNOTATE_PREFIX = "run-", "annotate-"
# Start of the pointer to the versions of the map of a source.
MAP_PREFIX = "map-"
KEEPING = (RUN_PREFIX, ANNOTATE_PREFIX, MAP_PREFIX)
"""Pointers with these prefixes name artifacts that are kept."""


def source_place(source: SourceSettings) -> str:
    """The absolute path of a source, or its name or address: what identifies it."""
    path = Path(source.path)
    return str(path.resolve()) if path.exists() else source.path


def source_id(source: SourceSettings) -> str:
    """Return a short identifier of the path or name that a source is read from."""
    return hashlib.blake2b(source_place(source).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def chosen_places(source: SourceSettings) -> dict[str, str | None]:
    """Return the files chosen besides the data, by the stage that reads them.

    Paths are not part of a key, so a stage stays fresh when its file is moved.
    """
    data = Path(source.path)
    beside = data if data.is_dir() else data.parent
    return {"ingest": _find(source.labels, beside), "affinity": _find(source.edges, Path())}


def _find(given: str | None, beside: Path) -> str | None:
    """Return the absolute path of a file; anything else, such as a column name, is returned as it is."""
    places = (beside / given, expand_path(given, "source")) if given else ()
    return next((str(place.resolve()) for place in places if place.is_file()), given)


def remember_run(store: ArtifactStore, source: SourceSettings, stages: Mapping[str, ArtifactRef]) -> None:
    """Record the artifacts of a finished run; stages that were not run keep their previous ones."""
    known, places = _load(store, source), chosen_places(source)
    chosen = {name: {"key": stages[name].key, "place": places[name]} for name in places if name in stages}
    pointer = {
        # For messages about a damaged pointer, whose name is a digest.
        "source": source_place(source),
        "stages": {**_stages(known), **{name: ref.to_json() for name, ref in stages.items()}},
        "chosen": {**known.get("chosen", {}), **chosen},
    }
    store.write_pointer(_pointer_name(source), pointer)


def load_last_places(store: ArtifactStore, source: SourceSettings) -> dict[str, str | None]:
    """Return by key what `chosen_places` was when that artifact was the last of its stage."""
    return {one["key"]: one["place"] for one in _load(store, source).get("chosen", {}).values()}


def load_last_run(store: ArtifactStore, source: SourceSettings) -> dict[str, Any]:
    """Return the references by stage label; empty before the first run."""
    return _stages(_load(store, source))


def load_last_runs(store: ArtifactStore) -> list[ArtifactRef]:
    """Return the artifacts of the last run, annotation and map of each source, finished or not."""
    found = store.read_pointers(KEEPING).values()
    return [ArtifactRef.from_json(ref) for one in found for ref in _stages(one).values()]


def _stages(pointer: dict[str, Any]) -> dict[str, Any]:
    return dict(pointer.get("stages", {}))


def _load(store: ArtifactStore, source: SourceSettings) -> dict[str, Any]:
    return store.read_pointer(_pointer_name(source)) or {}


def _pointer_name(source: SourceSettings) -> str:
    return f"{ANNOTATE_PREFIX if source.annotated else RUN_PREFIX}{source_id(source)}"

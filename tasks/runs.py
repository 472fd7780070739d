"""The last run of a source: which artifact each stage had, so that changes can be named."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage.artifacts.keys import ArtifactRef
from storage.artifacts.store import Store
from tasks.settings import SourceSettings

_NOTE = "run-"


def _place(source: SourceSettings) -> str:
    path = Path(source.path)
    return str(path.resolve()) if path.exists() else source.path


def source_id(source: SourceSettings) -> str:
    """A short name for the place a source is read from."""
    return hashlib.blake2b(_place(source).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def chosen_places(source: SourceSettings) -> dict[str, str | None]:
    """What was chosen to be read beside the data, by the stage that reads it.

    A place says where, not what, so that it is in no key: whoever moves a file finds its stage fresh.
    """
    data = Path(source.path)
    beside = data if data.is_dir() else data.parent
    return {"ingest": _find(source.labels, beside), "affinity": _find(source.edges, Path())}


def _find(given: str | None, beside: Path) -> str | None:
    """A file from the root on; anything else, such as the name of a column, as it is."""
    places = (beside / given, Path(given).expanduser()) if given else ()
    return next((str(place.resolve()) for place in places if place.is_file()), given)


def remember_run(store: Store, source: SourceSettings, stages: Mapping[str, ArtifactRef]) -> None:
    """Keep the artifacts of a finished run; stages that it left out keep those they had."""
    known, places = _load(store, source), chosen_places(source)
    chosen = {name: {"key": stages[name].key, "place": places[name]} for name in places if name in stages}
    note = {
        # The source itself is for messages about a damaged note, whose name is a digest.
        "source": _place(source),
        "stages": {**_stages(known), **{name: ref.to_json() for name, ref in stages.items()}},
        "chosen": {**known.get("chosen", {}), **chosen},
    }
    store.remember(_note(source), note)


def load_last_places(store: Store, source: SourceSettings) -> dict[str, str | None]:
    """What `chosen_places` said when the artifact of a key was the last of its stage."""
    return {one["key"]: one["place"] for one in _load(store, source).get("chosen", {}).values()}


def load_last_run(store: Store, source: SourceSettings) -> dict[str, Any]:
    """References by stage label, empty before the first run."""
    return _stages(_load(store, source))


def load_last_runs(store: Store) -> list[ArtifactRef]:
    """What the last run of each source had, finished or not."""
    notes = [note for name, note in store.notes().items() if name.startswith(_NOTE)]
    return [ArtifactRef.from_json(ref) for note in notes for ref in _stages(note).values()]


def _stages(note: dict[str, Any]) -> dict[str, Any]:
    # At first a note held the references alone.
    return note.get("stages", note)


def _load(store: Store, source: SourceSettings) -> dict[str, Any]:
    return store.last(_note(source)) or {}


def _note(source: SourceSettings) -> str:
    return f"{_NOTE}{source_id(source)}"

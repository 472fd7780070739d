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
    """Keep the artefacts of a finished run; stages that it left out keep those they had."""
    places = chosen_places(source)
    chosen = {name: {"key": stages[name].key, "place": places[name]} for name in places if name in stages}
    # By key and first: whatever comes between the two notes, no choice is taken for that of another artefact.
    store.remember(_note("chosen", source), {**(store.last(_note("chosen", source)) or {}), **chosen})
    known = load_last_run(store, source)
    store.remember(_note("run", source), {**known, **{name: ref.to_json() for name, ref in stages.items()}})


def load_last_places(store: Store, source: SourceSettings) -> dict[str, str | None]:
    """What `chosen_places` said when the artefact of a key was the last of its stage."""
    known = store.last(_note("chosen", source)) or {}
    return {one["key"]: one["place"] for one in known.values()}


def _note(kind: str, source: SourceSettings) -> str:
    return f"{kind}-{source_id(source)}"


def load_last_run(store: Store, source: SourceSettings) -> dict[str, Any]:
    """References by stage label, empty before the first run."""
    return store.last(_note("run", source)) or {}

"""Names of experiments: each source has its own, also if another source has the same name."""

from collections.abc import Iterator
from pathlib import Path

from storage.artifacts.store import ArtifactStore
from tasks.runs import source_place
from tasks.settings import SourceSettings

# Start of the pointer that records which source an experiment belongs to.
_PREFIX = "experiment-"


def find_experiment(store: ArtifactStore, source: SourceSettings, name: str) -> str:
    """The experiment of a source: its name, preceded by folders while another source has that name."""
    place = source_place(source)
    for candidate in _candidates(name, place):
        holder = store.read_pointer(_PREFIX + candidate)
        if holder is None or holder.get("source") == place:
            return candidate
    return place


def claim_experiment(store: ArtifactStore, source: SourceSettings, experiment: str) -> None:
    """Record that an experiment belongs to a source."""
    if store.read_pointer(_PREFIX + experiment) is None:
        store.write_pointer(_PREFIX + experiment, {"source": source_place(source)})


def _candidates(name: str, place: str) -> Iterator[str]:
    """For instance photos, 2026/photos, archive/2026/photos."""
    yield name
    for folder in Path(place).parents:
        if not folder.name:
            return
        name = f"{folder.name}/{name}"
        yield name

"""Portions of features as jobs of a cluster: a worker reads the files and stores the result."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from embedding_core.errors import InvalidInput
from storage.artifacts.keys import ArtifactRef
from storage.errors import SourceChanged
from storage.sources.base import Part
from tasks.executor import WorkerKilled
from tasks.reporter import Advance
from tasks.stage import Workspace
from tasks.stages.chunks import split_items
from tasks.stages.features import Portions
from tasks.stages.known_rows import KnownRows
from tasks.store_handle import StoreHandle


class UnseenFile(InvalidInput):
    """A worker does not have a file of the collection."""

    def __init__(self, path: Path, machine: str) -> None:
        super().__init__(path, machine)
        self.path = path
        self.machine = machine

    def __str__(self) -> str:
        return (
            f"the worker on {self.machine} does not see {self.path}. Put the collection into a folder that "
            "every worker has at the same path, or run without a cluster (--set executor=auto)"
        )


@dataclass(frozen=True, eq=False)
class PortionJob:
    """One portion, by reference: the names and digests of its items and where their files are.

    Attributes
    ----------
    store : StoreHandle
        Where the worker writes the portion.
    ids : list of str
    part : Part
        What these items consist of.
    recipe, code : mapping
        How features are computed, and the fingerprint of that code.
    force : bool
        Whether to compute a portion that is stored.
    """

    store: StoreHandle
    ids: list[str]
    part: Part
    recipe: Mapping[str, Any]
    code: Mapping[str, str]
    force: bool

    @property
    def title(self) -> str:
        """The items in words, for messages."""
        return f"features of the {len(self.ids)} items from {self.ids[0]} to {self.ids[-1]}"


def compute_portion(job: PortionJob) -> ArtifactRef:
    """Compute and store a portion, in a worker."""
    _check_files(job.part)
    workspace = Workspace(job.store.store.root.parent, job.store.store)
    portions = Portions(job.ids, job.part, job.recipe, job.code, None, workspace)
    return portions.portion(range(len(job.ids)), lambda done: None, job.force)


def _check_files(part: Part) -> None:
    for row in range(len(part.digests)):
        for path, _ in part.files(row):
            if isinstance(path, Path) and not os.path.lexists(path):
                raise UnseenFile(path, platform.node())


def compute_on_workers(
    ids: Sequence[str],
    part: Part,
    recipe: Mapping[str, Any],
    code: Mapping[str, str],
    known: KnownRows | None,
    workspace: Workspace,
    advance: Advance,
) -> list[range]:
    """Let the workers store the portions of which no row is known; return their rows.

    A portion that kills its workers is left out: the caller computes it in smaller tasks.
    """
    rows = [one for one in split_items(ids) if not _is_known(part, one, known)]
    handle = StoreHandle(workspace.store)
    stored: list[range] = []
    done = len(ids) - sum(map(len, rows))
    while rows:
        found = 0
        jobs = (
            PortionJob(
                handle, list(ids[one.start : one.stop]), _slice_part(part, one), recipe, code, known is None
            )
            for one in rows
        )
        try:
            for _ in workspace.executor.map(compute_portion, jobs):
                stored.append(rows[found])
                found, done = found + 1, done + len(rows[found])
                advance(done)
            break
        except UnseenFile as error:
            if not error.path.exists():
                raise SourceChanged(f"{error.path} was removed while it was read", "run again") from error
            raise
        except WorkerKilled as error:
            if type(error) is not WorkerKilled:  # the cluster is gone
                raise
            workspace.reporter.say(f"  {error}. Trying its items in smaller tasks.")
            rows = rows[found + 1 :]
    return stored


def _is_known(part: Part, rows: range, known: KnownRows | None) -> bool:
    return known is not None and any(part.digests[row] in known.positions for row in rows)


def _slice_part(part: Part, rows: range) -> Part:
    bounds = slice(rows.start, rows.stop)
    return replace(
        part,
        digests=part.digests[bounds],
        paths=part.paths and list(part.paths[bounds]),
        pieces=part.pieces and list(part.pieces[bounds]),
        texts=part.texts and list(part.texts[bounds]),
    )

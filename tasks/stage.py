"""A stage: the recipe of an artifact, which gives its key before anything is computed, and its function."""

import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedding_core.errors import InvalidInput
from storage.artifacts.artifact import Artifact, Outcome
from storage.artifacts.fingerprint import code_fingerprint, module_fingerprint, module_imports
from storage.artifacts.keys import ArtifactRef, Recipe, stage_label
from storage.artifacts.schemas import SCHEMA_VERSION
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError, StageError
from tasks.executor import Executor, SerialExecutor, WorkerKilled
from tasks.reporter import Reporter

# Task modules whose code changes the results of other stages: rows, number of neighbors, folds.
_SHAPING = frozenset(
    f"tasks.{name}"
    for name in (
        "stages.chunks",
        "stages.graph",
        "dataset",
        "folds",
        "stages.neighbors",
        "training_rows",
        "reproduce.datasets",
    )
)
# Modules that a stage must list in `code` itself, because other stages of the same task do not use them.
_NAMED = frozenset(
    {
        "tasks.selection.copies",
        "tasks.selection.out_of_fold",
        "tasks.selection.rare_labels",
        "tasks.annotation.evidence",
        "tasks.annotation.findings",
        "tasks.annotation.judge",
        "tasks.annotation.recipes",
    }
)
_NO_RESULT = frozenset(
    {"embedding_core.registry", "embedding_core.registry.catalog", "embedding_core.errors", "storage.errors"}
)


@dataclass(frozen=True)
class Workspace:
    """The folders, the store and the resources that the stages of a run use."""

    home: Path
    store: ArtifactStore
    executor: Executor = field(default_factory=SerialExecutor)
    reporter: Reporter = field(default_factory=Reporter)

    @property
    def cache_dir(self) -> Path:
        """Folder for files that can be recreated at any time: listings, the demo collection."""
        return self.home / "cache"


@dataclass(frozen=True)
class Stage:
    """One artifact: what it depends on and how it is computed.

    Attributes
    ----------
    name, variant : str
        For instance `embedding` and `mlda`; together the stage's label.
    code : tuple of str
        Modules that compute it; their imports inside the project are included.
    params : mapping
        Settings that change the result.
    inputs : mapping of str to str or None
        Digest of each input; None if the input itself must be computed first.
    produce : callable
        Computes the artifact.
    produce_all : callable, optional
        Computes every part of the artifact, when recomputation is forced; `produce` may reuse stored parts.
    holds : callable, optional
        Whether a stored artifact is still valid, for artifacts that refer to something outside the store.
    """

    name: str
    code: tuple[str, ...]
    params: Mapping[str, Any]
    inputs: Mapping[str, str | None]
    produce: Callable[[], Artifact]
    variant: str = ""
    produce_all: Callable[[], Artifact] | None = None
    holds: Callable[[ArtifactRef], bool] = lambda ref: True

    @property
    def label(self) -> str:
        """Name that is shown: the stage with its variant."""
        return stage_label(self.name, self.variant)

    @property
    def ready(self) -> bool:
        """Whether the digest of every input is known."""
        return all(digest is not None for digest in self.inputs.values())

    @property
    def parents(self) -> dict[str, ArtifactRef]:
        """The artifacts that the stage is computed from, by role; the manifest records them."""
        return {role: one.parent for role, one in self.inputs.items() if isinstance(one, InputDigest)}

    def recipe(self) -> Recipe:
        """Everything that the key of the artifact is derived from."""
        try:
            return Recipe(
                stage=self.name,
                variant=self.variant,
                code=task_code(self.code, self.produce.__module__) if self.code else {},
                params=self.params,
                inputs={name: digest for name, digest in self.inputs.items() if digest is not None},
                schema=SCHEMA_VERSION,
            )
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{self.label}: a setting cannot be stored ({error}).") from error


def run_stage(stage: Stage, workspace: Workspace, force: bool = False) -> Outcome:
    """Take the artifact of a stage from the store, or compute and store it.

    Raises
    ------
    StageError
        The core refuses the data or the settings; the message names the stage.
    """
    recipe = stage.recipe()
    produce = stage.produce_all if force and stage.produce_all else stage.produce
    begun = time.perf_counter()
    found = None if force else workspace.store.find(recipe, verify=True)
    if found is not None:
        known = workspace.store.details(found)
        if workspace.store.links_hold(known, verify=True) and stage.holds(found):
            return Outcome(found, True, time.perf_counter() - begun)
        force = True
    try:
        with _report_warnings(workspace.reporter), workspace.reporter.working(stage.label):
            return workspace.store.compute(
                recipe, produce, force=force, on_wait=workspace.reporter.say, parents=stage.parents
            )
    except InvalidInput as error:
        refused = StageError(f"{stage.label}: {error}")
        refused.resumable = isinstance(error, WorkerKilled)
        raise refused from error


@contextmanager
def _report_warnings(reporter: Reporter) -> Iterator[None]:
    """Report each warning once per run, without its line of code; folds and methods repeat them.

    Folds also repeat a warning with other counts; of these the first is reported.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            texts = [str(one.message) for one in caught]
            first = {re.sub(r"\d+", "", text): text for text in reversed(texts)}
            for text in reversed(first.values()):
                reporter.say_once(f"  warning: {text}")


def fingerprint(modules: tuple[str, ...]) -> dict[str, str]:
    """Fingerprint of the code that computes a stage.

    Modules that change no result are left out: errors, and the registry of methods, where a new entry does
    not affect the others. The facts of a method's registry entry are part of the parameters instead.
    """
    return {
        module: digest for module, digest in code_fingerprint(modules).items() if module not in _NO_RESULT
    }


def task_code(modules: tuple[str, ...], task: str) -> dict[str, str]:
    """Fingerprint of the code that computes a stage, and of the task module that calls it.

    Of the task modules only those that change results are included, each without its imports; the other
    imports of a task only read and write.
    """
    found = fingerprint(tuple(module for module in modules if module not in _NAMED))
    pending = [task, *sorted(_NAMED.intersection(modules))]
    while pending:
        module = pending.pop()
        found[module] = module_fingerprint(module)
        pending += sorted((_SHAPING & module_imports(module)) - found.keys())
    return found


class InputDigest(str):
    """Digest of an artifact or of a part of it, with a reference to the artifact (`parent`).

    The key of a stage is made of digests alone; the parent is recorded for `lineage`.
    """

    parent: ArtifactRef

    def __new__(cls, digest: str, parent: ArtifactRef) -> "InputDigest":
        made = super().__new__(cls, digest)
        made.parent = parent
        return made


def digest_of(ref: ArtifactRef | None) -> str | None:
    """Return the digest of an artifact (an `InputDigest`), or None if it is not stored yet."""
    return None if ref is None else InputDigest(ref.digest, ref)

"""A stage: enough to name its artifact before anything is computed, and the function that computes it."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedding_core.errors import InvalidInput
from embedding_core.threads import count_cores
from storage.artifacts.fingerprint import code_fingerprint, module_fingerprint, module_imports
from storage.artifacts.keys import ArtifactRef, Recipe
from storage.artifacts.schemas import SCHEMA_VERSION
from storage.artifacts.store import Artifact, Outcome, Store
from storage.errors import ConfigError, StageError
from tasks.reporter import Reporter

# Task modules that shape what others compute: which rows there are, how many neighbors, what a fold does.
_SHAPING = frozenset(
    f"tasks.{name}"
    for name in ("stages.chunks", "dataset", "fold_pool", "stages.neighbors", "reproduce.datasets")
)
# Those that a stage names among its code, since its task serves stages that they do not shape as well.
_NAMED = frozenset({"tasks.selection.decisions"})
_NO_RESULT = frozenset({"embedding_core.registry", "embedding_core.errors", "storage.errors"})


@dataclass(frozen=True)
class Workspace:
    """Where a run keeps things, and what its stages may use."""

    home: Path
    store: Store
    workers: int = 0
    reporter: Reporter = field(default_factory=Reporter)

    @property
    def cache_dir(self) -> Path:
        """Folder for what can be made again at any time: listings, the demo collection."""
        return self.home / "cache"

    @property
    def n_threads(self) -> int:
        """Threads a stage may use."""
        return count_threads(self.workers)


@dataclass(frozen=True)
class Stage:
    """One artifact to be: what it depends on and how it is made.

    Attributes
    ----------
    name, variant : str
        For instance `embedding` and `mlda`; together the stage's label.
    code : tuple of str
        Modules that compute it; their imports inside the project count too.
    params : mapping
        Settings that change the result.
    inputs : mapping of str to str or None
        Digest of each input; None where the input itself must be computed first.
    produce : callable
        Computes the artifact.
    anew : callable, optional
        Computes it without the parts that are there, for stages that keep some; else `produce` does.
    holds : callable, optional
        Whether a found artifact still stands, for stages that point at something outside the store.
    """

    name: str
    code: tuple[str, ...]
    params: Mapping[str, Any]
    inputs: Mapping[str, str | None]
    produce: Callable[[], Artifact]
    variant: str = ""
    anew: Callable[[], Artifact] | None = None
    holds: Callable[[ArtifactRef], bool] = lambda ref: True

    @property
    def label(self) -> str:
        """Name a person reads."""
        return f"{self.name}[{self.variant}]" if self.variant else self.name

    @property
    def ready(self) -> bool:
        """Whether every input is known."""
        return all(digest is not None for digest in self.inputs.values())

    def recipe(self) -> Recipe:
        """Everything the artifact's key is made of."""
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
            raise ConfigError(f"{self.label}: a setting cannot be kept ({error}).") from error


def count_threads(workers: int) -> int:
    """As many threads as were asked for; 0: one a core this process may use."""
    return workers or count_cores()


def run_stage(stage: Stage, workspace: Workspace, force: bool = False) -> Outcome:
    """Take the stage's artifact from the store, or compute it and put it there.

    Raises
    ------
    StageError
        The mathematics refuses the data or the settings; the message names the stage.
    """
    recipe = stage.recipe()
    produce = stage.anew if force and stage.anew else stage.produce
    begun = time.perf_counter()
    found = None if force else workspace.store.find(recipe, verify=True)
    if found is not None:
        known = workspace.store.details(found)
        if workspace.store.links_hold(known, verify=True) and stage.holds(found):
            return Outcome(found, True, time.perf_counter() - begun)
        force = True
    try:
        with _warnings_as_news(workspace.reporter), workspace.reporter.working(stage.label):
            return workspace.store.compute(recipe, produce, force=force, on_wait=workspace.reporter.say)
    except InvalidInput as error:
        raise StageError(f"{stage.label}: {error}") from error


@contextmanager
def _warnings_as_news(reporter: Reporter) -> Iterator[None]:
    """Tell each warning once a run, without the line of code it came from: folds and methods repeat it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for one in caught:
                reporter.say_once(f"  warning: {one.message}")


def fingerprint(modules: tuple[str, ...]) -> dict[str, str]:
    """Fingerprint of the code that computes a stage.

    Left out is what changes no result: the names of errors, and the registry, a list of all methods, in
    which a new entry changes none of the others. What an entry says of its method goes into the parameters.
    """
    return {
        module: digest
        for module, digest in code_fingerprint(modules).items()
        if not (module in _NO_RESULT or module.startswith("embedding_core.registry.catalog"))
    }


def task_code(modules: tuple[str, ...], task: str) -> dict[str, str]:
    """Fingerprint of the code that computes a stage, and of the task that calls it.

    Of task modules those that shape the result count, each by itself, without its imports: the rest of what
    a task imports reads and writes.
    """
    found = fingerprint(tuple(module for module in modules if module not in _NAMED))
    pending = [task, *sorted(_NAMED.intersection(modules))]
    while pending:
        module = pending.pop()
        found[module] = module_fingerprint(module)
        pending += sorted((_SHAPING & module_imports(module)) - found.keys())
    return found


def digest_of(ref: ArtifactRef | None) -> str | None:
    """Digest of an artifact, None where it is not there yet."""
    return None if ref is None else ref.digest

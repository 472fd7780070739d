"""Lineage: from a result back to the bytes it came from."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from storage.errors import StoreError
from storage.keys import ArtifactRef
from storage.run_log import LoggedRun
from storage.sources.base import combine_digests
from storage.store import Store

_LEAST_PREFIX = 4


@dataclass(frozen=True)
class Node:
    """One artefact, or bytes from outside, and what it was made of.

    Attributes
    ----------
    label : str
        The stage, with its variant; of bytes from outside the name that the stage gives them.
    role : str
        What it is to the stage that used it, for instance "labels"; empty at the root.
    digest : str
        Of its content.
    manifest : mapping or None
        What the store knows of it: parameters, code, versions, seconds. None for bytes from outside.
    inputs : tuple of Node
    """

    label: str
    role: str
    digest: str
    manifest: Mapping[str, Any] | None
    inputs: tuple["Node", ...] = ()

    @property
    def code(self) -> str:
        """One digest of the code that computed it."""
        return combine_digests(f"{name}={digest}" for name, digest in self._recipe()["code"].items())

    @property
    def params(self) -> dict[str, Any]:
        """Its settings by dotted name."""
        return dict(_flatten(self._recipe()["params"]))

    def _recipe(self) -> Mapping[str, Any]:
        return self.manifest["recipe"] if self.manifest else {"code": {}, "params": {}}

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        known = self.manifest or {}
        record = {"label": self.label, "role": self.role, "digest": self.digest}
        if self.manifest:
            record |= {name: known[name] for name in ("key", "seconds", "created", "versions")}
            record |= {"params": known["recipe"]["params"], "code": known["recipe"]["code"]}
        return {**record, "inputs": [one.to_json() for one in self.inputs]}


class Genealogy:
    """Finds the artefact behind every digest of a store.

    Parameters
    ----------
    store : Store
    prefer : iterable of ArtifactRef
        Where several artefacts have the same content, these are meant: those of a run.
    """

    def __init__(self, store: Store, prefer: Iterable[ArtifactRef] = ()) -> None:
        entries = sorted(store.entries(), key=lambda one: str(one["created"]))
        names = {f"{ref.stage}/{ref.key}" for ref in prefer}
        entries.sort(key=lambda one: f"{one['stage']}/{one['key']}" in names)  # the last one wins
        self._by_digest = {digest: one for one in entries for digest in _digests(one)}
        self._entries = entries

    def of_run(self, run: LoggedRun) -> list[Node]:
        """The results of a run: its evaluations, or what its last stages gave."""
        ends = {label: ref for label, ref in run.stages.items() if label.startswith("evaluation")}
        return [self.trace(ref.digest, label) for label, ref in (ends or run.stages).items()]

    def of_artifact(self, name: str) -> Node:
        """The artefact whose key or digest begins with `name`."""
        near = {
            one["digest"]: one
            for one in self._entries
            if len(name) >= _LEAST_PREFIX and (one["key"].startswith(name) or one["digest"].startswith(name))
        }
        if len(near) != 1:
            found = "several begin" if near else "none begins"
            raise StoreError(
                f"{found} with {name!r} among the runs and artefacts of the store; "
                "`labelscape store ls` and `store ls --runs` list them."
            )
        return self.trace(next(iter(near)))

    def trace(self, digest: str, role: str = "") -> Node:
        """The artefact of a digest and all that it came from."""
        known = self._by_digest.get(digest)
        if known is None:
            return Node(role, role, digest, None)
        recipe = known["recipe"]
        label = f"{known['stage']}[{recipe['variant']}]" if recipe["variant"] else str(known["stage"])
        inputs = tuple(self.trace(given, name) for name, given in sorted(recipe["inputs"].items()))
        return Node(label, role if role != label else "", digest, known, inputs)


def _digests(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What other stages may know it by: its own digest, and those of parts of it."""
    yield manifest["digest"]
    yield from (manifest["metadata"][part] for part in ("items", "labels") if part in manifest["metadata"])


def _flatten(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value

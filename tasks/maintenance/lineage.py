"""Lineage: from a result back to the bytes it was computed from, as the manifests record it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from storage.artifacts.keys import ArtifactRef, stage_label
from storage.artifacts.run_log import MIN_PREFIX, TRACKING, LoggedRun
from storage.artifacts.store import ArtifactStore
from storage.errors import ArtifactDamaged, StoreError
from storage.sources.base import combine_digests
from tasks.report.tables import format_time

# Not settings: what the registry says about a method, and the code that features name beside their settings.
_FACTS = ("method.facts.", "method.inner.", "code")
GONE = "no longer in the store"


@dataclass(frozen=True)
class Node:
    """An artifact, or input bytes from outside the store, and what it was computed from.

    Attributes
    ----------
    label : str
        The stage with its variant; for bytes from outside, the role that the stage gives them.
    role : str
        Its role in the stage that used it, for instance "labels"; empty at the root.
    digest : str
        Digest of its content.
    manifest : mapping or None
        Its manifest: parameters, code, versions, seconds. None for bytes from outside and for artifacts that
        are no longer stored.
    inputs : tuple of Node
    gone : bool
        Whether it is an artifact that is no longer in the store.
    """

    label: str
    role: str
    digest: str
    manifest: Mapping[str, Any] | None
    inputs: tuple["Node", ...] = ()
    gone: bool = False

    @property
    def code(self) -> str:
        """One digest of all the code that computed it."""
        return combine_digests(f"{name}={digest}" for name, digest in self._recipe()["code"].items())

    @property
    def params(self) -> dict[str, Any]:
        """Its settings by dotted name."""
        return dict(_flatten(self._recipe()["params"]))

    @property
    def settings(self) -> dict[str, str]:
        """Its settings as text, without what the registry says about a method."""
        return {key: _text(value) for key, value in self.params.items() if not key.startswith(_FACTS)}

    def _recipe(self) -> Mapping[str, Any]:
        return self.manifest["recipe"] if self.manifest else {"code": {}, "params": {}}

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        known = self.manifest or {}
        record: dict[str, Any] = {"label": self.label, "role": self.role, "digest": self.digest}
        if self.manifest:
            record |= {name: known[name] for name in ("key", "seconds", "created", "versions")}
            record |= {"params": known["recipe"]["params"], "code": known["recipe"]["code"]}
        if self.gone:
            record["gone"] = True
        return {**record, "inputs": [one.to_json() for one in self.inputs]}


@dataclass(frozen=True)
class LineageEntry:
    """One artifact of a lineage, or input bytes from outside, in a flat list.

    Attributes
    ----------
    name : str
        Identifies it within the list.
    label, digest : str
    inputs : tuple of str
        Names of the entries it was computed from.
    code, created : str
        One digest of its code, and when it was computed; empty if `seconds` is None.
    settings, versions : mapping of str to str
    seconds : float or None
        Time to compute it; None for bytes from outside and for artifacts that are no longer stored.
    gone : bool
        Whether it is an artifact that is no longer in the store.
    """

    name: str
    label: str
    digest: str
    inputs: tuple[str, ...] = ()
    code: str = ""
    created: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    gone: bool = False


def flatten_lineage(nodes: Iterable[Node]) -> list[LineageEntry]:
    """List every artifact of some trees once, each after those it was computed from."""
    found: dict[str, LineageEntry] = {}

    def visit(node: Node) -> str:
        name = str(node.manifest["key"]) if node.manifest else node.digest
        if name not in found:
            inputs = tuple(dict.fromkeys(visit(one) for one in node.inputs))
            found[name] = _entry(name, node, inputs)
        return name

    for node in nodes:
        visit(node)
    return list(found.values())


def _entry(name: str, node: Node, inputs: tuple[str, ...]) -> LineageEntry:
    if node.manifest is None:
        return LineageEntry(name, node.label, node.digest, gone=node.gone)
    return LineageEntry(
        name=name,
        label=node.label,
        digest=str(node.manifest["digest"]),
        inputs=inputs,
        code=node.code,
        created=format_time(node.manifest["created"]),
        settings=node.settings,
        versions=node.manifest["versions"],
        seconds=float(node.manifest["seconds"]),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class LineageGraph:
    """Follows the parents that the manifests of a store record.

    Parameters
    ----------
    store : ArtifactStore
    stages : iterable of ArtifactRef
        The artifacts of a run. If a recorded parent is no longer stored, the artifact among these that has
        the same content is shown in its place.
    """

    def __init__(self, store: ArtifactStore, stages: Iterable[ArtifactRef] = ()) -> None:
        self._store = store
        self._own = {ref.key: store.details(ref) for ref in stages if store.has(ref)}
        self._manifests: dict[str, dict[str, Any] | None] = dict(self._own)

    @cached_property
    def _entries(self) -> list[dict[str, Any]]:
        """All artifacts, newest last."""
        return sorted(self._store.entries(), key=lambda one: str(one["created"]))

    def of_run(self, run: LoggedRun) -> list[Node]:
        """The results of a run: its evaluations, or else the stages that no other stage used."""
        ends = {label: ref for label, ref in run.stages.items() if ref.stage == "evaluation"}
        return [self._of_stage(label, ref) for label, ref in (ends or self._ends(run.stages)).items()]

    def _ends(self, stages: Mapping[str, ArtifactRef]) -> dict[str, ArtifactRef]:
        """Stages that no other stage used, except the record in the tracker."""
        results = {label: ref for label, ref in stages.items() if ref.stage != TRACKING}
        users = [self._own[ref.key] for ref in results.values() if ref.key in self._own]
        found = (self._find_parent(user, role) for user in users for role in user["parents"])
        used = {parent["key"] for parent in found if parent}
        return {label: ref for label, ref in results.items() if ref.key not in used}

    def of_results(self, stages: Mapping[str, ArtifactRef]) -> list[Node]:
        """All artifacts of a run and the inputs of its report, without the report and the tracking record."""
        nodes: list[Node] = []
        for label, ref in stages.items():
            if ref.stage == TRACKING:
                continue
            node = self._of_stage(label, ref)
            nodes += node.inputs if ref.stage == "report" else [node]
        return nodes

    def of_artifact(self, name: str) -> Node:
        """The artifact whose key or digest begins with `name`; of several with equal content, the newest."""
        near = {
            one["key"] if one["key"].startswith(name) else one["digest"]: one
            for one in self._entries
            if len(name) >= MIN_PREFIX and (one["key"].startswith(name) or one["digest"].startswith(name))
        }
        if len(near) != 1:
            found = "several runs or artifacts begin" if near else "no run or artifact begins"
            raise StoreError(f"{found} with {name!r}; `labelscape store ls` and `store ls --runs` list them.")
        (known,) = near.values()
        return self._node(known, known["digest"])

    def _of_stage(self, label: str, ref: ArtifactRef) -> Node:
        known = self._own.get(ref.key)
        return self._node(known, ref.digest, label) if known else _gone(label, ref.digest)

    def _node(self, known: dict[str, Any], digest: str, role: str = "") -> Node:
        """An artifact and everything that it was computed from."""
        label = stage_label(known["stage"], known["recipe"]["variant"])
        inputs = tuple(self._input(known, *one) for one in sorted(known["recipe"]["inputs"].items()))
        return Node(label, role if role != label else "", digest, known, inputs)

    def _input(self, user: dict[str, Any], role: str, digest: str) -> Node:
        if role not in user["parents"]:
            return Node(role, role, digest, None)  # bytes from outside the store
        found = self._find_parent(user, role)
        return self._node(found, digest, role) if found else _gone(role, digest)

    def _find_parent(self, user: Mapping[str, Any], role: str) -> dict[str, Any] | None:
        """The manifest of a recorded parent, or of an artifact of the run with the same content."""
        parent = user["parents"][role]
        found = self._load(parent["stage"], parent["key"])
        if found and found["digest"] == parent["digest"]:
            return found
        same = (one for one in self._own.values() if user["recipe"]["inputs"][role] in _digests(one))
        return next((one for one in same if one["key"] != user["key"]), None)

    def _load(self, stage: str, key: str) -> dict[str, Any] | None:
        if key not in self._manifests:
            try:
                self._manifests[key] = self._store.details(self._store.ref(stage, key))
            except ArtifactDamaged:  # missing, replaced or damaged
                self._manifests[key] = None
        return self._manifests[key]


def _gone(role: str, digest: str) -> Node:
    return Node(role, role, digest, None, gone=True)


def _digests(manifest: Mapping[str, Any]) -> Iterator[str]:
    """The digests by which other stages use an artifact: its own, and those of its parts."""
    yield manifest["digest"]
    facts = manifest["metadata"]
    yield from (digest for name, digest in facts.items() if name == "labels" or name.startswith("items:"))


def _flatten(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value

"""Lineage: from a result back to the bytes it came from."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import LEAST_PREFIX, TRACKING, LoggedRun
from storage.artifacts.store import Store
from storage.errors import StoreError
from storage.sources.base import combine_digests
from tasks.stages.chunks import PART_STAGE

# Inputs that are bytes from outside the store, by the names that stages give them.
OUTSIDE = frozenset({"source", "edges"})
# No settings: what the registry says of a method, and the code that features name beside their settings.
_FACTS = ("method.facts.", "code")
GONE = "no longer in the store"
# Manifests by what other stages may know them by.
_Index = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Node:
    """One artifact, or bytes from outside, and what it was made of.

    Attributes
    ----------
    label : str
        The stage, with its variant; of bytes from outside the name that the stage gives them.
    role : str
        What it is to the stage that used it, for instance "labels"; empty at the root.
    digest : str
        Of its content.
    manifest : mapping or None
        What the store knows of it: parameters, code, versions, seconds. None for bytes from outside, and for
        what is gone.
    inputs : tuple of Node
    gone : bool
        An artifact that is no longer in the store; of it nothing else is known.
    """

    label: str
    role: str
    digest: str
    manifest: Mapping[str, Any] | None
    inputs: tuple["Node", ...] = ()
    gone: bool = False

    @property
    def code(self) -> str:
        """One digest of the code that computed it."""
        return combine_digests(f"{name}={digest}" for name, digest in self._recipe()["code"].items())

    @property
    def params(self) -> dict[str, Any]:
        """Its settings by dotted name."""
        return dict(_flatten(self._recipe()["params"]))

    @property
    def settings(self) -> dict[str, str]:
        """The same for a reader, without what the registry says of a method."""
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
class Member:
    """One artifact of a family, or bytes from outside, by itself.

    Attributes
    ----------
    name : str
        Tells it apart within the family.
    label, digest : str
    inputs : tuple of str
        Names of those it was made of.
    code, created : str
        One digest of its code, and when it was made; empty where `seconds` is None.
    settings, versions : mapping of str to str
    seconds : float or None
        What it took; None for bytes from outside, and for what is gone.
    gone : bool
        An artifact that is no longer in the store.
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


def list_family(nodes: Iterable[Node]) -> list[Member]:
    """Every artifact of some trees once, each after those it was made of."""
    found: dict[str, Member] = {}

    def visit(node: Node) -> str:
        name = str(node.manifest["key"]) if node.manifest else node.digest
        if name not in found:
            inputs = tuple(dict.fromkeys(visit(one) for one in node.inputs))
            found[name] = _member(name, node, inputs)
        return name

    for node in nodes:
        visit(node)
    return list(found.values())


def _member(name: str, node: Node, inputs: tuple[str, ...]) -> Member:
    if node.manifest is None:
        return Member(name, node.label, node.digest, gone=node.gone)
    return Member(
        name=name,
        label=node.label,
        digest=str(node.manifest["digest"]),
        inputs=inputs,
        code=node.code,
        created=str(node.manifest["created"])[:19].replace("T", " "),
        settings=node.settings,
        versions=node.manifest["versions"],
        seconds=float(node.manifest["seconds"]),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class Genealogy:
    """Finds the artifact behind every digest of a store.

    Parameters
    ----------
    store : Store
    stages : iterable of ArtifactRef
        The artifacts of a run. They are looked at first, and where several have the same content, they are
        meant; all others of the store are listed when a digest leads to none of these.
    """

    def __init__(self, store: Store, stages: Iterable[ArtifactRef] = ()) -> None:
        self._store = store
        self._own = {ref.key: store.details(ref) for ref in stages if store.has(ref)}
        self._by_digest = _index(self._own.values())

    @cached_property
    def _entries(self) -> list[dict[str, Any]]:
        """All artifacts, the newest last."""
        return sorted(self._store.entries(), key=lambda one: str(one["created"]))

    @cached_property
    def _others(self) -> _Index:
        return _index(self._entries)

    def of_run(self, run: LoggedRun) -> list[Node]:
        """The results of a run: its evaluations, or what none of its other stages was made of."""
        ends = {label: ref for label, ref in run.stages.items() if ref.stage == "evaluation"}
        return [self._of_stage(label, ref) for label, ref in (ends or self._ends(run.stages)).items()]

    def _ends(self, stages: Mapping[str, ArtifactRef]) -> dict[str, ArtifactRef]:
        """Stages that no other one was made of, the record in the tracker aside."""
        made = {label: ref for label, ref in stages.items() if ref.stage != TRACKING}
        makers = [self._own[ref.key] for ref in made.values() if ref.key in self._own]
        used = {
            found["key"]
            for maker in makers
            for role, digest in maker["recipe"]["inputs"].items()
            if (found := _pick(self._by_digest, digest, role, maker, {maker["key"]}))
        }
        return {label: ref for label, ref in made.items() if ref.key not in used}

    def of_results(self, stages: Mapping[str, ArtifactRef]) -> list[Node]:
        """All artifacts of a run, with those its report was made of; not its report and its record."""
        nodes: list[Node] = []
        for label, ref in stages.items():
            if ref.stage == TRACKING:
                continue
            node = self._of_stage(label, ref)
            nodes += node.inputs if ref.stage == "report" else [node]
        return nodes

    def of_artifact(self, name: str) -> Node:
        """The artifact whose key or digest begins with `name`; of several with one content the newest."""
        near = {
            one["key"] if one["key"].startswith(name) else one["digest"]: one
            for one in self._entries
            if len(name) >= LEAST_PREFIX and (one["key"].startswith(name) or one["digest"].startswith(name))
        }
        if len(near) != 1:
            found = "several begin" if near else "none begins"
            raise StoreError(
                f"{found} with {name!r} among the runs and artifacts of the store; "
                "`labelscape store ls` and `store ls --runs` list them."
            )
        (known,) = near.values()
        return self._node(known, known["digest"])

    def _of_stage(self, label: str, ref: ArtifactRef) -> Node:
        """The artifact of a reference, not another of the same content."""
        known = self._own.get(ref.key)
        return self._node(known, ref.digest, label) if known else _gone(label, ref.digest)

    def _node(
        self, known: dict[str, Any], digest: str, role: str = "", trail: frozenset[str] = frozenset()
    ) -> Node:
        """An artifact and all that it came from; `trail` are the keys of what was made of it."""
        trail |= {known["key"]}
        label = _label(known)
        inputs = tuple(
            # Portions of the features name the items that they hold, which are no artifact.
            Node(name, name, given, None)
            if name in OUTSIDE or known["stage"] == PART_STAGE
            else self._input(known, name, given, trail)
            for name, given in sorted(known["recipe"]["inputs"].items())
        )
        return Node(label, role if role != label else "", digest, known, inputs)

    def _input(self, maker: dict[str, Any], role: str, digest: str, trail: frozenset[str]) -> Node:
        found = _pick(self._by_digest, digest, role, maker, trail)
        found = found or _pick(self._others, digest, role, maker, trail)
        return self._node(found, digest, role, trail) if found else _gone(role, digest)


def _gone(role: str, digest: str) -> Node:
    return Node(role, role, digest, None, gone=True)


def _index(manifests: Iterable[dict[str, Any]]) -> _Index:
    """Manifests by what other stages may know them by."""
    found: _Index = {}
    for one in manifests:
        for digest in _digests(one):
            found.setdefault(digest, []).append(one)
    return found


def _pick(
    index: _Index, digest: str, role: str, maker: Mapping[str, Any], trail: Collection[str]
) -> dict[str, Any] | None:
    """The artifact that a stage was given in a role, among all of one content.

    Nothing was made of itself (`trail`). Two methods may score alike, and a trial like the candidate that it
    becomes: then names tell, and of what was there before the stage the newest is meant.
    """
    return max(
        (one for one in index.get(digest, ()) if one["key"] not in trail),
        key=lambda one: (_likeness(one, role, maker), one["created"] <= maker["created"], one["created"]),
        default=None,
    )


def _likeness(manifest: Mapping[str, Any], role: str, maker: Mapping[str, Any]) -> int:
    """How well names say that an artifact plays a role: its stage's, its method's."""
    variant = manifest["recipe"]["variant"]
    of_method = bool(variant) and variant in (role, maker["recipe"]["variant"])
    return (_label(manifest) == role) + (manifest["stage"] == role) + of_method


def _label(manifest: Mapping[str, Any]) -> str:
    variant = manifest["recipe"]["variant"]
    return f"{manifest['stage']}[{variant}]" if variant else str(manifest["stage"])


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

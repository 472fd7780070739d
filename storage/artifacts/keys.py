"""The key of a recipe, and the small reference to an artifact that tasks pass to each other."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from storage.errors import StoreError

QUARANTINE = "quarantine"
RESERVED_FOLDERS = frozenset({"locks", "leases", QUARANTINE, "pointers", "runs"})
_STAGE = re.compile(r"[a-z][a-z0-9_]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_stage(stage: str) -> None:
    """Raise StoreError if a stage name cannot be a folder of the store."""
    if not isinstance(stage, str) or not _STAGE.fullmatch(stage) or stage in RESERVED_FOLDERS:
        raise StoreError(
            f"{stage!r} is not a stage name; expected lowercase letters, digits and '_', beginning with a "
            f"letter, and none of {', '.join(sorted(RESERVED_FOLDERS))}."
        )


def stage_label(stage: str, variant: str) -> str:
    """Return the name that is shown for a stage.

    >>> stage_label("embedding", "mlda"), stage_label("ingest", "")
    ('embedding[mlda]', 'ingest')
    """
    return f"{stage}[{variant}]" if variant else stage


def check_sha256(value: str, what: str) -> None:
    """Raise StoreError unless a value is 64 hexadecimal digits: keys name files, so `../` must not pass."""
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise StoreError(f"{value!r} is not a {what}; expected 64 hexadecimal digits.")


def _check_plain(value: Any, where: str) -> None:
    if value is None or isinstance(value, str | bool | int):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} is {value}; keys need finite numbers.")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if not isinstance(name, str):
                raise TypeError(f"{where} has the name {name!r}; names in keys are strings.")
            _check_plain(item, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            _check_plain(item, f"{where}[{position}]")
    else:
        raise TypeError(
            f"{where} is a {type(value).__name__}; a key contains only None, bool, int, float, str, lists "
            "and mappings (instead of a path give the digest of the file's content)."
        )


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value: names sorted, no spaces, ASCII, tuples as lists.

    Parameters
    ----------
    value : None, bool, int, float, str, or lists, tuples and mappings of them

    Raises
    ------
    TypeError
        For any other type, including `Path`: the content of a file can change.
    ValueError
        For NaN and infinities.

    Examples
    --------
    >>> canonical_json({"b": (1, 2.5), "a": None})
    '{"a":null,"b":[1,2.5]}'
    """
    _check_plain(value, "value")
    return _dump(value)


def _dump(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=dict)


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the content of an artifact; equal recipes have equal keys.

    The mappings are copied, so later changes to the caller's dictionaries do not change the key.

    Attributes
    ----------
    stage : str
        Name of the stage, which is also its folder in the store.
    variant : str
        Distinguishes artifacts of one stage with the same inputs (a method's name; may be empty).
    code : mapping of module to fingerprint
        From `storage.artifacts.fingerprint.code_fingerprint`.
    params : mapping
        Parameters as plain values.
    inputs : mapping of role to digest
        Digests of the artifacts or files that the stage reads.
    schema : int
        `storage.artifacts.schemas.SCHEMA_VERSION`.
    """

    stage: str
    variant: str
    code: Mapping[str, str]
    params: Mapping[str, Any]
    inputs: Mapping[str, str]
    schema: int

    def __post_init__(self) -> None:
        check_stage(self.stage)
        for name in ("code", "params", "inputs"):
            object.__setattr__(self, name, json.loads(canonical_json(dict(getattr(self, name)))))

    def ingredients(self) -> dict[str, Any]:
        """The recipe as a plain dictionary, as the manifest keeps it."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @cached_property
    def key(self) -> str:
        """SHA-256 of the canonical text of the ingredients."""
        # The values were checked in __post_init__.
        return hashlib.sha256(_dump(self.ingredients()).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """A small, immutable reference to one artifact with its exact content.

    Attributes
    ----------
    stage, key : str
        Its location in the store.
    digest : str
        SHA-256 of the whole Parquet file; later stages use it as their input digest.
    kind : str
        Its schema (see `storage.artifacts.schemas`).
    rows : int
        Number of rows.
    """

    stage: str
    key: str
    digest: str
    kind: str
    rows: int

    def to_json(self) -> dict[str, Any]:
        """As a plain dictionary."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> ArtifactRef:
        """Build a reference from the output of `to_json`; StoreError for anything else."""
        names = set(cls.__slots__)
        if set(content) != names:
            raise StoreError(f"A reference has the fields {sorted(names)}; found {sorted(content)}.")
        ref = cls(**content)
        check_stage(ref.stage)
        check_sha256(ref.key, "key")
        check_sha256(ref.digest, "digest")
        if not isinstance(ref.kind, str) or type(ref.rows) is not int:
            raise StoreError(
                f"In a reference `kind` is a string and `rows` an integer; found {dict(content)}."
            )
        return ref

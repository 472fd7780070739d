"""Fitted models as bytes that are safe to load and equal for equal models (skops, never pickle)."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from typing import Any

from storage.errors import LabelscapeError, StoreError
from storage.limits import MEGABYTE, check_memory
from storage.npz import inspect_npz, read_claim
from storage.quoting import list_names, shorten

FORMAT = "skops"
_SCHEMA = "schema.json"
# Bytes of the schema. Ours are stored; one that is compressed may be a bomb.
_LARGEST_SCHEMA, _LARGEST_COMPRESSED = 64 * MEGABYTE, 8 * MEGABYTE


def dump_model(estimator: object) -> bytes:
    """Serialize a fitted estimator as a skops archive.

    skops writes memory addresses and the time into its archive; both are replaced, so the same model gives
    the same bytes in every process.
    """
    from skops import io as skops

    try:
        payload = skops.dumps(estimator)
    except Exception as error:  # the exception depends on the unsupported attribute
        raise StoreError(
            f"A {type(estimator).__name__} cannot be saved as skops: {error}. Its attributes must be arrays, "
            "plain values or estimators."
        ) from error
    return _canonical(payload)


def _canonical(payload: bytes) -> bytes:
    """Return the archive with ids numbered in order of appearance and without times."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(payload)) as archive, zipfile.ZipFile(target, "w") as written:
        schema = json.loads(archive.read(_SCHEMA))
        files: dict[str, str] = {}
        _renumber(schema, {}, files)
        for old, new in files.items():
            written.writestr(zipfile.ZipInfo(new), archive.read(old))
        written.writestr(zipfile.ZipInfo(_SCHEMA), json.dumps(schema, indent=1).encode())
    return target.getvalue()


def _renumber(node: Any, ids: dict[object, int], files: dict[str, str]) -> None:
    if isinstance(node, list):
        for item in node:
            _renumber(item, ids, files)
        return
    if not isinstance(node, dict):
        return
    if "__loader__" in node and "__id__" in node:
        # Equal plain values get the same number, whether or not Python shared the object.
        same: object = node["content"] if node["__loader__"] == "JsonNode" else node["__id__"]
        node["__id__"] = ids.setdefault(same, len(ids) + 1)  # skops treats 0 as no id
    if "__loader__" in node and "file" in node:
        ending = node["file"].partition(".")[2]
        node["file"] = files.setdefault(node["file"], f"{len(files)}.{ending}")
    for item in node.values():
        _renumber(item, ids, files)


def load_model(payload: bytes, trusted: Sequence[str]) -> Any:
    """Load a model, allowing only the types that skops considers safe and the given ones.

    Parameters
    ----------
    payload : bytes
        Output of `dump_model`.
    trusted : sequence of str
        Full names of our own classes, a constant of the caller; a list inside the file could be forged.

    Raises
    ------
    StoreError
        If the bytes are not a model, or contain another type. Nothing is constructed in that case.
    """
    from skops import io as skops

    try:
        _check_size(payload)
        unknown = sorted(set(skops.get_untrusted_types(data=payload)))
    except LabelscapeError:
        raise
    except Exception as error:  # damaged or malicious bytes may raise anything
        raise StoreError(
            f"The {len(payload)} bytes are not a model: {_short(error)}. Train it again."
        ) from error
    refused = [name for name in unknown if name not in set(trusted)]
    if refused:
        raise StoreError(
            f"The model contains types that are not trusted: {list_names(refused)}. It was not loaded; use a "
            "model that this version of labelscape has trained."
        )
    try:
        return skops.loads(payload, trusted=unknown)
    except Exception as error:
        raise StoreError(f"The {FORMAT} model cannot be loaded: {_short(error)}. Train it again.") from error


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {shorten(str(error), 200)}"


def _check_size(payload: bytes) -> None:
    """Refuse an archive that needs too much memory, before anything but its directory is read."""
    needed = 0
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        for member in archive.infolist():
            if member.filename == _SCHEMA:
                stored = member.compress_type == zipfile.ZIP_STORED
                largest = _LARGEST_SCHEMA if stored else _LARGEST_COMPRESSED
                if member.file_size > largest:
                    raise StoreError(
                        f"The description of the model has {member.file_size:,} bytes; at most {largest:,} "
                        "are read. Use a model that this version of labelscape has trained."
                    )
                continue
            with archive.open(member) as stream:
                if member.filename.endswith(".npz"):
                    needed += sum(array.bytes for array in inspect_npz(stream).values())
                elif member.filename.endswith(".npy"):
                    needed += read_claim(stream, member.file_size).bytes
            needed += member.file_size
    check_memory(2 * needed, "The model", len(payload), StoreError)

"""Dense arrays: `.npy` and `.npz` files of features, with labels beside them or in the archive."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np

from storage.artifacts.regular_files import open_regular
from storage.errors import SourceError
from storage.limits import ITEM_BYTES, check_memory
from storage.npz import ClaimedArray, inspect_npz, read_claim
from storage.quoting import list_names, quote, shorten
from storage.sources.base import (
    Collection,
    FileReader,
    Match,
    Note,
    Part,
    PartName,
    SourceOptions,
    combine_digests,
    digest_rows,
    given_file,
)
from storage.sources.columns import TABLE_SUFFIXES, cell_text, unique_ids
from storage.sources.labeling import Labeling, label_classes, no_labels, settle_labels
from storage.sources.listing import digest_files, index_path
from storage.sources.table_features import GIVEN, check_vectors, zero_notes
from storage.sources.table_labels import LabelTable, check_classes, join_labels, read_label_table

SUFFIXES = (".npy", ".npz")
LABEL_ARRAYS = ("y", "Y", "labels", "label", "target", "targets", "classes")
ID_ARRAYS = ("ids", "id", "names", "filenames")
NAME_ARRAYS = ("label_names", "class_names", "target_names")
# Members of a sparse matrix of SciPy, which another reader opens.
_SPARSE = {"format", "indptr", "indices"}
_ENDS = ("_X", "_features", "_embeddings", "_vectors")
_DAMAGE = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, OverflowError, RuntimeError, NotImplementedError),
    *(MemoryError, SyntaxError, BadZipFile, zlib.error),
)


def inspect_arrays(path: Path) -> dict[str, ClaimedArray]:
    """Headers of the arrays in a file; the array of an .npy file has the name "X"."""
    try:
        with open_regular(path) as file:
            if path.suffix.lower() == ".npz":
                return inspect_npz(file)
            return {"X": read_claim(file, path.stat().st_size)}
    except _DAMAGE as error:
        raise SourceError(
            f"{path} contains no readable arrays ({type(error).__name__}: {shorten(str(error))}). "
            "Write it with numpy.save or numpy.savez; arrays of Python objects are not loaded."
        ) from error


def is_sparse(path: Path) -> bool:
    """Whether an .npz file contains a sparse matrix, or is no archive: the reader of those reports that."""
    try:
        with open_regular(path) as file, ZipFile(file) as archive:
            return any(name.removesuffix(".npy") in _SPARSE for name in archive.namelist())
    except _DAMAGE:
        return True


def feature_arrays(claims: Mapping[str, ClaimedArray], path: Path) -> list[str]:
    """Names of the arrays of features: all with two dimensions, except labels."""
    found = [name for name, one in claims.items() if len(one.shape) == 2 and name not in LABEL_ARRAYS]
    if found:
        return found
    shapes = list_names(f"{name} {one.shape}" for name, one in claims.items())
    raise SourceError(
        f"{path} has no array of shape (items, features), but {shapes}. Save one row per item; "
        "reshape arrays with more dimensions."
    )


def load_arrays(path: Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Load some arrays. Nothing is unpickled."""
    try:
        with open_regular(path) as file:
            if path.suffix.lower() == ".npy":
                return {"X": np.lib.format.read_array(file, allow_pickle=False)}
            with np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in names}
    except _DAMAGE as error:
        raise SourceError(
            f"{path} is damaged ({type(error).__name__}: {shorten(str(error))}). Write it again."
        ) from error


def _to_float32(array: np.ndarray, where: str, allow_missing: bool) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise SourceError(f"{where} contains {array.dtype} values; expected real numbers. Convert them.")
    with np.errstate(over="ignore"):
        X = np.ascontiguousarray(array, dtype=np.float32)
    check_vectors(X, np.ones(len(X), dtype=bool), where, allow_missing)
    return X


def _text_array(array: np.ndarray, where: str) -> list[str | None]:
    if array.dtype.kind not in "biufUS":
        raise SourceError(f"{where} contains {array.dtype} values; expected numbers or texts.")
    return [cell_text(value) for value in array.tolist()]


def label_array(array: np.ndarray, names: list[str] | None, where: str) -> Labeling:
    """Labels of an array: one class per item, or a matrix (n, K) of 0/1; rows of -1 are unlabeled."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 1:
        texts = _text_array(array, where)
        check_classes(texts, where)
        return label_classes(texts)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or not np.isin(array, (-1, 0, 1)).all():
        raise SourceError(
            f"{where} has the shape {array.shape} and type {array.dtype}; expected one class per item, or a "
            "matrix of 0 and 1 with one column per label."
        )
    Y = array.astype(np.int8)
    mixed = (Y < 0).any(axis=1) & ~(Y < 0).all(axis=1)
    if mixed.any():
        raise SourceError(
            f"{where}, row {int(np.argmax(mixed)) + 1}: -1 marks an unlabeled item; set the whole row to -1."
        )
    known = names if names is not None and len(names) == Y.shape[1] else list(map(str, range(Y.shape[1])))
    return Labeling(Y, known, single_label=False)


@dataclass(frozen=True)
class ArraySource:
    """Arrays of features; `labels_path` is a table or an array of labels beside them."""

    path: Path
    labels_path: Path | None
    options: SourceOptions
    kind: str = "arrays"

    @property
    def parts(self) -> tuple[PartName, ...]:
        """One block for each array of features."""
        names = feature_arrays(inspect_arrays(self.path), self.path)
        return tuple(PartName(GIVEN if len(names) == 1 else name, "features") for name in names)

    @property
    def name(self) -> str:
        return set_name(self.path)

    def digest(self, cache_dir: Path) -> str:
        files = [path for path in (self.path, self.labels_path) if path is not None]
        return combine_digests(["arrays", *digest_files(files, index_path(cache_dir, self.path))])

    def read(self, cache_dir: Path) -> Collection:
        """Read the arrays and their labels."""
        claims = inspect_arrays(self.path)
        features = feature_arrays(claims, self.path)
        n = _check_claims(claims, features, self.path)
        wanted = [name for name in (*LABEL_ARRAYS, *ID_ARRAYS, *NAME_ARRAYS) if name in claims]
        arrays = load_arrays(self.path, [*features, *wanted])
        ids = self._ids(arrays, n)
        labeled = self._labels(arrays, ids, n)
        parts, notes = self._parts(arrays, features)
        unused = [name for name in claims if name not in arrays]
        if unused:
            notes.append(
                Note(self.path.name, None, f"{len(unused)} arrays are not used: {list_names(unused)}")
            )
        labeling, more = settle_labels(labeled.labeling, self.options, labeled.path.name)
        known = {"id": f"array of {self.path.name}"} if ids is not None else {}
        return Collection(
            kind=self.kind,
            ids=ids or labeled.ids or [str(row) for row in range(n)],
            parts=parts,
            labels=labeling.Y,
            label_names=labeling.names,
            split=labeled.split,
            single_label=labeling.single_label,
            notes=[*more, *labeled.notes, *notes],
            recognized={**labeled.recognized, **known},
        )

    def _ids(self, arrays: Mapping[str, np.ndarray], n: int) -> list[str] | None:
        name = next((name for name in ID_ARRAYS if name in arrays and arrays[name].shape == (n,)), None)
        return (
            None
            if name is None
            else unique_ids(_text_array(arrays[name], f"{self.path}, array {name}"), self.path)
        )

    def _parts(
        self, arrays: Mapping[str, np.ndarray], features: list[str]
    ) -> tuple[tuple[Part, ...], list[Note]]:
        parts, notes = [], []
        for name, part in zip(features, self.parts, strict=True):
            where = str(self.path) if part.name == GIVEN else f"{self.path}, array {quote(name)}"
            X = _to_float32(arrays[name], where, self.options.allow_missing)
            missing = bool(np.isnan(X).any())
            parts.append(Part(part.name, "features", digest_rows(X), X=X, allows_missing=missing))
            notes += zero_notes(X, f"array {quote(name)}", self.path)
        return tuple(parts), notes

    def _labels(self, arrays: Mapping[str, np.ndarray], ids: list[str] | None, n: int) -> LabelTable:
        """Labels of the file beside the features, else those in the archive."""
        if not self.options.labeled:
            return LabelTable(self.path, no_labels(n), None, None, [], {})
        if self.labels_path is not None and self.labels_path.suffix.lower() in TABLE_SUFFIXES:
            found = read_label_table(self.labels_path, self.options)
            joined, notes = join_labels(found, ids, n, self.path, self.options)
            return LabelTable(
                found.path,
                joined.labeling,
                joined.ids,
                joined.split,
                [*found.notes, *notes],
                found.recognized,
            )
        place, name = self._label_array(arrays)
        labels = load_arrays(place, [name])[name] if place != self.path else arrays[name]
        named = next((arrays[one] for one in NAME_ARRAYS if one in arrays), None)
        names = None if named is None else [str(text) for text in _text_array(named.ravel(), str(self.path))]
        labeling = label_array(labels, names, f"{place}, array {name}" if name != "X" else str(place))
        found_in = f"array {name} of {place.name}" if name != "X" else place.name
        made = LabelTable(place, labeling, None, None, [], {"labels": found_in})
        return join_labels(made, None, n, self.path, self.options)[0]

    def _label_array(self, arrays: Mapping[str, np.ndarray]) -> tuple[Path, str]:
        if self.labels_path is not None:
            claims = inspect_arrays(self.labels_path)
            size = sum(one.bytes for one in claims.values())
            check_memory(
                size, f"{self.labels_path}: arrays of {size:,} bytes", self.labels_path.stat().st_size
            )
            return self.labels_path, next(iter(claims))
        name = next((name for name in LABEL_ARRAYS if name in arrays), None)
        if name is None:
            raise no_labels_beside(self.path)
        return self.path, name


def _check_claims(claims: Mapping[str, ClaimedArray], features: list[str], path: Path) -> int:
    """Refuse arrays that need too much memory or do not fit together; return the number of items."""
    rows = {name: claims[name].shape[0] for name in features}
    if len(set(rows.values())) > 1:
        listed = list_names(f"{name} {claims[name].shape}" for name in features)
        raise SourceError(
            f"{path} has arrays of different numbers of items: {listed}. Save one row per item."
        )
    n = next(iter(rows.values()))
    stored = sum(one.bytes for one in claims.values())
    numbers = sum(claims[name].shape[0] * claims[name].shape[1] for name in features)
    check_memory(stored + 8 * numbers + n * ITEM_BYTES, f"{path}: arrays of {n:,} rows", path.stat().st_size)
    return n


def set_name(path: Path) -> str:
    """Name of a set of arrays: that of the file, or of its folder if the file is only called X."""
    stem = path.stem
    for end in _ENDS:
        stem = stem.removesuffix(end)
    return path.absolute().parent.name or stem if stem.lower() in ("x", "features", "embeddings") else stem


def find_labels(path: Path) -> Path | None:
    """The labels beside an array: `X_labels.csv`, `labels.parquet`, `y.npy` and the like."""
    stem = path.stem
    for end in _ENDS:
        stem = stem.removesuffix(end)
    stems = [f"{path.stem}_labels", f"{stem}_labels", f"{stem}_y", f"{path.stem}_y", "labels", "y"]
    names = [f"{one}{suffix}" for one in dict.fromkeys(stems) for suffix in (*TABLE_SUFFIXES, ".npy")]
    return next((one for name in names if (one := path.with_name(name)).is_file() and one != path), None)


def is_label_array(path: Path) -> bool:
    """Whether an .npy file is named like labels."""
    return path.stem in LABEL_ARRAYS or path.stem.endswith(("_labels", "_y"))


def no_labels_beside(path: Path) -> SourceError:
    """The error of arrays without labels."""
    return SourceError(
        f"{path} has no labels: {path.stem}_labels.csv, labels.csv, labels.parquet or y.npy is expected "
        "beside it, or name the file: --set source.labels=FILE."
    )


class ArrayReader(FileReader):
    """Opens dense arrays."""

    kind = "arrays"
    supports = "a dense .npy or .npz array with labels.csv, labels.parquet or y.npy beside it"

    def recognize(self, path: Path, options: SourceOptions, cache_dir: Path) -> Match:
        """An .npy file that is not named like labels, or an .npz file without a sparse matrix."""
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES or not path.is_file():
            return Match.NO
        if (suffix == ".npy" and is_label_array(path)) or (suffix == ".npz" and is_sparse(path)):
            return Match.NO
        return Match.DATA_SET if find_labels(path) or suffix == ".npz" else Match.POSSIBLE

    def open(self, path: Path, options: SourceOptions) -> ArraySource:
        """Open an array with the labels beside it."""
        if path.suffix.lower() not in SUFFIXES:
            raise SourceError(f"{path} is neither an .npy nor an .npz file. Give the array.")
        if not options.labeled:
            return ArraySource(path, None, options)
        inside = path.suffix.lower() == ".npz" and bool(set(LABEL_ARRAYS) & set(inspect_arrays(path)))
        labels = given_file(options, path.parent) or (None if inside else find_labels(path))
        if labels is None and not inside:
            raise no_labels_beside(path)
        return ArraySource(path, labels, options)

"""Dense arrays: `.npy` and `.npz` files of features, with labels beside them or in the archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from storage.errors import SourceError
from storage.limits import ITEM_BYTES, check_memory
from storage.npz import ClaimedArray
from storage.quoting import list_names, quote
from storage.sources.array_files import (
    LABEL_ARRAYS,
    describe_arrays,
    feature_arrays,
    find_label_array,
    inspect_arrays,
    is_sparse,
    label_array,
    load_arrays,
    text_array,
    to_float32,
)
from storage.sources.base import (
    Collection,
    FileReader,
    Match,
    Note,
    Part,
    PartName,
    SourceOptions,
    choose_label_file,
    combine_digests,
    digest_rows,
)
from storage.sources.columns import TABLE_SUFFIXES, unique_ids
from storage.sources.labeling import no_labels, settle_labels
from storage.sources.listing import digest_files, index_path
from storage.sources.split_arrays import SplitArraySource, find_split_arrays
from storage.sources.table_features import GIVEN
from storage.sources.table_labels import LabelTable, join_labels, read_label_table
from storage.sources.vectors import zero_notes

SUFFIXES = (".npy", ".npz")
ID_ARRAYS = ("ids", "id", "names", "filenames")
NAME_ARRAYS = ("label_names", "class_names", "target_names")
EXPECTED_LABELS = "{}_labels.csv, labels.csv, labels.parquet or y.npy"
_ENDS = ("_X", "_features", "_embeddings", "_vectors")


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
        names = feature_arrays(inspect_arrays(self.path), self.path, self.options)
        return tuple(PartName(GIVEN if len(names) == 1 else name, "features") for name in names)

    @property
    def name(self) -> str:
        return set_name(self.path)

    def digest(self, cache_dir: Path) -> str:
        files = [path for path in (self.path, self.labels_path) if path is not None]
        # The bytes do not show which array has the labels; ingest has the other options among its parameters.
        chosen = [] if self.labels_path is not None else [self.options.labels or ""]
        return combine_digests(["arrays", *chosen, *digest_files(files, index_path(cache_dir, self.path))])

    def read(self, cache_dir: Path) -> Collection:
        """Read the arrays and their labels."""
        claims = inspect_arrays(self.path)
        features = feature_arrays(claims, self.path, self.options)
        n = _check_claims(claims, features, self.path)
        inside = find_label_array(claims, self.options) if self.labels_path is None else None
        known = [name for name in (*ID_ARRAYS, *NAME_ARRAYS) if name in claims]
        arrays = load_arrays(self.path, [*features, *known, *([inside] if inside is not None else [])])
        ids = self._ids(arrays, n)
        labeled = self._labels(arrays, ids, n)
        parts, notes = self._parts(arrays, features)
        unused = [name for name in claims if name not in arrays]
        if unused:
            notes.append(Note(self.path.name, None, f"arrays that are not used: {list_names(unused)}"))
        labeling, more = settle_labels(labeled.labeling, self.options, labeled.path.name)
        own_ids = {"id": f"array of {self.path.name}"} if ids is not None else {}
        return Collection(
            kind=self.kind,
            ids=ids or labeled.ids or [str(row) for row in range(n)],
            parts=parts,
            labels=labeling.Y,
            label_names=labeling.names,
            split=labeled.split,
            single_label=labeling.single_label,
            notes=[*more, *labeled.notes, *notes],
            recognized={**labeled.recognized, **own_ids},
        )

    def _ids(self, arrays: Mapping[str, np.ndarray], n: int) -> list[str] | None:
        name = next((name for name in ID_ARRAYS if name in arrays and arrays[name].shape == (n,)), None)
        return (
            None
            if name is None
            else unique_ids(text_array(arrays[name], f"{self.path}, array {name}"), self.path)
        )

    def _parts(
        self, arrays: Mapping[str, np.ndarray], features: list[str]
    ) -> tuple[tuple[Part, ...], list[Note]]:
        parts, notes = [], []
        for name, part in zip(features, self.parts, strict=True):
            where = str(self.path) if part.name == GIVEN else f"{self.path}, array {quote(name)}"
            X = to_float32(arrays[name], where, self.options.allow_missing)
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
        names = None if named is None else [str(text) for text in text_array(named.ravel(), str(self.path))]
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
        name = find_label_array(arrays, self.options)
        assert name is not None  # opening the file has checked it
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

    def open(self, path: Path, options: SourceOptions) -> ArraySource | SplitArraySource:
        """Open an array with the labels beside it, or an archive."""
        if path.suffix.lower() not in SUFFIXES:
            raise SourceError(f"{path} is neither an .npy nor an .npz file. Give the array.")
        claims = inspect_arrays(path) if path.suffix.lower() == ".npz" else {}
        if options.labels is None and not options.features and (splits := find_split_arrays(claims)):
            return SplitArraySource(path, options, splits)
        if not options.labeled or find_label_array(claims, options) is not None:
            return ArraySource(path, None, options)
        return ArraySource(path, _label_file(path, claims, options), options)


def _label_file(path: Path, claims: Mapping[str, ClaimedArray], options: SourceOptions) -> Path | None:
    """The file with the labels of arrays that do not contain them."""
    expected, beside = EXPECTED_LABELS.format(path.stem), find_labels(path)
    named = options.labels is not None and Path(options.labels).suffix.lower() in (*TABLE_SUFFIXES, ".npy")
    if claims and not named and (beside is None or options.labels is not None):
        missing = "no labels" if options.labels is None else f"no array {quote(options.labels)}"
        raise SourceError(
            f"{path} has {missing}, but the arrays {describe_arrays(claims)}. Name the array or the file "
            f"with the labels, --set source.labels=NAME, or put {expected} beside it."
        )
    return choose_label_file(options, path, beside, expected)

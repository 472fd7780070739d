"""Archives with arrays of features and of labels for each split: `x_train`, `y_train`, `x_test`, `y_test`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from storage.errors import SourceError
from storage.limits import ITEM_BYTES, check_memory
from storage.npz import ClaimedArray
from storage.quoting import list_names, quote
from storage.sources.array_files import (
    describe_arrays,
    inspect_arrays,
    label_array,
    load_arrays,
    to_float32,
)
from storage.sources.base import (
    FEATURE_PARTS,
    Collection,
    Note,
    Part,
    PartName,
    SourceOptions,
    combine_digests,
    digest_rows,
)
from storage.sources.labeling import Labeling, no_labels, settle_labels
from storage.sources.listing import digest_files, index_path

_SPLITS = "train|test|val|valid|validation"
_FEATURES = "x|features|images|data"
_LABELS = "y|labels?|targets?"


class SplitArrays(NamedTuple):
    """The arrays of one split; `labels` is "" if there is none."""

    split: str
    features: str
    labels: str


def find_split_arrays(names: Iterable[str]) -> tuple[SplitArrays, ...]:
    """The splits of an archive by the names of its arrays; empty if it has none with features.

    >>> find_split_arrays(["x_train", "y_train", "test_images"])
    (SplitArrays(split='train', features='x_train', labels='y_train'), \
SplitArrays(split='test', features='test_images', labels=''))
    """
    listed = list(names)
    features, labels = (_by_split(listed, words) for words in (_FEATURES, _LABELS))
    return tuple(SplitArrays(split, name, labels.get(split, "")) for split, name in features.items())


def _by_split(names: list[str], words: str) -> dict[str, str]:
    """The first array of each split that is named by one of the words, `x_train` or `train_x`."""
    pattern = re.compile(rf"(?:{words})_({_SPLITS})|({_SPLITS})_(?:{words})", re.IGNORECASE)
    found: dict[str, str] = {}
    for name in names:
        if match := pattern.fullmatch(name):
            found.setdefault((match[1] or match[2]).lower(), name)
    return found


@dataclass(frozen=True)
class SplitArraySource:
    """An archive of arrays by split, as those of Keras; the items of one split follow those of another."""

    path: Path
    options: SourceOptions
    splits: tuple[SplitArrays, ...]
    kind: str = "arrays"
    parts: tuple[PartName, ...] = FEATURE_PARTS

    @property
    def name(self) -> str:
        return self.path.stem

    def digest(self, cache_dir: Path) -> str:
        return combine_digests(["split arrays", *digest_files([self.path], index_path(cache_dir, self.path))])

    def read(self, cache_dir: Path) -> Collection:
        """Read the arrays; each value of an image is a feature."""
        claims = inspect_arrays(self.path)
        shape = self._check(claims)
        wanted = [name for one in self.splits for name in (one.features, one.labels) if name]
        arrays = load_arrays(self.path, wanted)
        X = np.concatenate([self._features(arrays, one) for one in self.splits])
        splits = [one.split for one in self.splits for _ in range(len(arrays[one.features]))]
        ids = [f"{one.split}/{row}" for one in self.splits for row in range(len(arrays[one.features]))]
        labeling, notes = settle_labels(self._labels(arrays), self.options, self.path.name)
        if len(shape) > 1:
            text = f"each item of {' x '.join(map(str, shape))} values is a row of {prod(shape)} features"
            notes.append(Note(self.path.name, None, text))
        if unused := [name for name in claims if name not in wanted]:
            notes.append(Note(self.path.name, None, f"arrays that are not used: {list_names(unused)}"))
        return Collection(
            kind=self.kind,
            ids=ids,
            parts=(Part("given", "features", digest_rows(X), X=X, allows_missing=bool(np.isnan(X).any())),),
            labels=labeling.Y,
            label_names=labeling.names,
            split=splits,
            single_label=labeling.single_label,
            notes=notes,
            recognized=self._recognized(),
        )

    def _check(self, claims: Mapping[str, ClaimedArray]) -> tuple[int, ...]:
        """Refuse arrays that do not fit together or into memory; return the shape of one item."""
        arrays = {name: claims[name] for one in self.splits for name in (one.features, one.labels) if name}
        found = f"{self.path} has the arrays {describe_arrays(arrays)}"
        shapes = {claims[one.features].shape[1:] for one in self.splits}
        if len(shapes) > 1 or () in shapes:
            raise SourceError(f"{found}; expected features of one shape, (items, ...), in every split.")
        for one in self.splits:
            if one.labels and claims[one.labels].shape[:1] != claims[one.features].shape[:1]:
                raise SourceError(
                    f"{found}: {one.features} and {one.labels} must have one row per item each."
                )
        if self.options.labeled and not any(one.labels for one in self.splits):
            raise SourceError(
                f"{found}, but no labels: name them {', '.join(f'y_{one.split}' for one in self.splits)}."
            )
        n = sum(claims[one.features].shape[0] for one in self.splits)
        numbers = sum(prod(claims[one.features].shape) for one in self.splits)
        stored = sum(one.bytes for one in arrays.values())
        size = self.path.stat().st_size
        check_memory(stored + 8 * numbers + n * ITEM_BYTES, f"{self.path}: arrays of {n:,} rows", size)
        return shapes.pop()

    def _features(self, arrays: Mapping[str, np.ndarray], one: SplitArrays) -> np.ndarray:
        X = arrays[one.features]
        where = f"{self.path}, array {quote(one.features)}"
        return to_float32(X.reshape(len(X), prod(X.shape[1:])), where, self.options.allow_missing)

    def _labels(self, arrays: Mapping[str, np.ndarray]) -> Labeling:
        """The labels of all splits; the items of a split without labels are unlabeled."""
        n = [len(arrays[one.features]) for one in self.splits]
        if not self.options.labeled:
            return no_labels(sum(n))
        given = [arrays[one.labels] for one in self.splits if one.labels]
        where = f"{self.path}, arrays {list_names(one.labels for one in self.splits if one.labels)}"
        if len({(one.shape[1:], one.dtype.kind in "US") for one in given}) > 1:
            raise SourceError(f"{where} have different shapes or types. Save the labels of all splits alike.")
        found = label_array(np.concatenate(given), None, where)
        Y = np.full((sum(n), len(found.names)), -1, dtype=np.int8)
        labeled = [bool(one.labels) for one, count in zip(self.splits, n, strict=True) for _ in range(count)]
        Y[np.array(labeled)] = found.Y
        return Labeling(Y, found.names, found.single_label)

    def _recognized(self) -> dict[str, str]:
        names = [one.labels for one in self.splits if one.labels] if self.options.labeled else []
        labels = {"labels": f"arrays {list_names(names)}"} if names else {}
        return {**labels, "id": "split and row", "split": "names of the arrays"}

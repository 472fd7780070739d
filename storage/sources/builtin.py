"""Built-in sets: the demo collection, digits, iris and wine from scikit-learn, and toy problems."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from storage.sources.base import (
    FEATURE_PARTS,
    IMAGE_PARTS,
    Collection,
    Match,
    PartName,
    SourceOptions,
    combine_digests,
    digest_rows,
    given_features,
    given_file,
)
from storage.sources.image_folder import ImageFolder, choose_label_parts
from storage.sources.label_places import LabelPart
from storage.sources.labeling import label_classes, settle_labels
from storage.sources.listing import digest_files, index_path
from storage.sources.media import Medium
from storage.sources.toy_sets import TOY_SETS

# Data files of scikit-learn: hashing them is faster than importing scikit-learn.
_DATA_FILES = {"digits": "digits.csv.gz", "iris": "iris.csv", "wine": "wine_data.csv"}


@dataclass(frozen=True)
class DemoSource:
    """The demo collection, drawn in the cache folder on first use; `source.labels` may name other labels."""

    options: SourceOptions
    kind: str = "images"
    parts: tuple[PartName, ...] = IMAGE_PARTS
    name: str = "demo"

    def digest(self, cache_dir: Path) -> str:
        return self._folder(cache_dir).digest(cache_dir)

    def read(self, cache_dir: Path) -> Collection:
        """Draw the collection if necessary, and read it."""
        return self._folder(cache_dir).read(cache_dir)

    def is_drawn(self, cache_dir: Path) -> bool:
        """Whether the collection exists already."""
        return _demo_folder(cache_dir).is_dir()

    def _folder(self, cache_dir: Path) -> ImageFolder:
        from storage.sources.demo import write_demo

        folder = _demo_folder(cache_dir)
        write_demo(folder)
        return ImageFolder(folder, choose_label_parts(folder, self.options), self.options)

    def with_given_labels(self) -> ImageFolder | None:
        """The labels of `source.labels`, which can be edited; None for those that were drawn."""
        file = given_file(self.options, Path())
        return None if file is None else ImageFolder(Path(), (LabelPart(file),), self.options)


def _demo_folder(cache_dir: Path) -> Path:
    return cache_dir / "demo"


@dataclass(frozen=True)
class BuiltinTable:
    """A set that scikit-learn includes."""

    name: str
    options: SourceOptions
    kind: str = "builtin"
    parts: tuple[PartName, ...] = FEATURE_PARTS

    def digest(self, cache_dir: Path) -> str:
        spec = importlib.util.find_spec("sklearn")
        folder = Path(spec.origin).parent / "datasets" / "data" if spec and spec.origin else None
        if folder is None or not (folder / _DATA_FILES[self.name]).is_file():
            return combine_digests(["builtin", self.name, version("scikit-learn")])
        path = folder / _DATA_FILES[self.name]
        return combine_digests(["builtin", self.name, *digest_files([path], index_path(cache_dir, path))])

    def read(self, cache_dir: Path) -> Collection:
        """Load the set."""
        from sklearn import datasets

        bunch = getattr(datasets, f"load_{self.name}")()
        names = [str(bunch.target_names[k]) for k in bunch.target]
        features = [str(name) for name in bunch.feature_names]
        return _collect(self.name, bunch.data, names, features, self.options)


@dataclass(frozen=True)
class ToySource:
    """A toy problem of a paper, generated whenever it is read."""

    name: str
    options: SourceOptions
    kind: str = "builtin"
    parts: tuple[PartName, ...] = FEATURE_PARTS

    def digest(self, cache_dir: Path) -> str:
        toy = TOY_SETS[self.name]()
        return combine_digests(["builtin", self.name, *digest_rows(toy.X), *toy.classes])

    def read(self, cache_dir: Path) -> Collection:
        """Generate the set."""
        toy = TOY_SETS[self.name]()
        return _collect(self.name, toy.X, toy.classes, toy.feature_names, self.options)


def _collect(
    name: str, rows: np.ndarray, classes: list[str], feature_names: list[str], options: SourceOptions
) -> Collection:
    X = np.ascontiguousarray(rows, dtype=np.float32)
    labeling, notes = settle_labels(label_classes(classes), options, name)
    return Collection(
        kind="builtin",
        ids=[str(row) for row in range(len(X))],
        parts=given_features(X, digest_rows(X), feature_names),
        labels=labeling.Y,
        label_names=labeling.names,
        split=None,
        single_label=True,
        notes=notes,
    )


class BuiltinReader:
    """Opens the built-in sets by name."""

    kind = "builtin"
    names = ("demo", *_DATA_FILES, *TOY_SETS)
    supports = "a built-in set: " + ", ".join(names)
    reads_folders = False
    medium: Medium | None = None

    def recognize(self, path: Path, options: SourceOptions, cache_dir: Path) -> Match:
        """Built-in sets have names, not paths."""
        return Match.NO

    def open(self, path: Path, options: SourceOptions) -> DemoSource | BuiltinTable | ToySource:
        """Open the set that the options name."""
        if options.path == "demo":
            return DemoSource(options)
        if options.path in TOY_SETS:
            return ToySource(options.path, options)
        return BuiltinTable(options.path, options)

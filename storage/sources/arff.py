"""Mulan data sets: an ARFF file, and an XML file that lists the label attributes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from storage.errors import SourceError
from storage.limits import check_memory
from storage.quoting import list_names, quote
from storage.sources.arff_text import ArffData, Attribute, parse_arff
from storage.sources.base import (
    FEATURE_PARTS,
    Collection,
    FileReader,
    Match,
    PartName,
    SourceOptions,
    combine_digests,
    digest_rows,
    given_features,
    given_file,
)
from storage.sources.labeling import Labeling, check_label_matrix, no_labels, settle_labels
from storage.sources.listing import digest_files, index_path
from storage.sources.numbers import parse_number
from storage.sources.sparse_text import digest_sparse_rows
from storage.sources.text_file import read_text

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_PARTS = ("-train", "-test")


def find_label_xml(path: Path) -> Path | None:
    """Find the XML file: the same name, the name without -train or -test, or the only one in the folder."""
    stems = [path.stem, *(path.stem.removesuffix(part) for part in _PARTS if path.stem.endswith(part))]
    for stem in stems:
        candidate = path.with_name(f"{stem}.xml")
        if candidate.is_file():
            return candidate
    others = sorted(path.parent.glob("*.xml"))
    return others[0] if len(others) == 1 else None


def read_label_xml(path: Path) -> list[str]:
    """Read label names from a Mulan XML file. A hierarchy is flattened, parents first."""
    from xml.parsers import expat

    names: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(":")[2] == "label" and "name" in attributes:
            names.append(attributes["name"])

    def refuse(*declaration: object) -> None:
        raise SourceError(f"{path} declares XML entities, which are not allowed. Remove them.")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(read_text(path), True)
    except expat.ExpatError as error:
        raise SourceError(
            f"{path}, line {error.lineno}: not well-formed XML ({error}). Write it again."
        ) from error
    if not names:
        raise SourceError(f'{path} lists no labels; expected elements <label name="...">.')
    return names


def feature_matrix(
    data: ArffData, positions: list[int], path: Path
) -> tuple[np.ndarray | csr_array, list[str]]:
    """Return the features as float32 and their names.

    A nominal attribute with numeric values becomes these numbers. One with two other values becomes a 0/1
    column for the second value; one with more becomes one 0/1 column per value.
    """
    width = sum(_encoded_width(data.attributes[k]) for k in positions)
    cells = len(data.lines) * width if isinstance(data.cells, np.ndarray) else _nominal_cells(data, positions)
    # float64, its copy as float32 and the stack of both
    check_memory(cells * 20, f"{path}: {len(data.lines):,} rows of {width:,} features", data.size)
    blocks, names = [], []
    for plain, group in groupby(positions, key=lambda k: _is_plain(data.attributes[k])):
        run = list(group)
        if plain:
            blocks.append(data.cells[:, run])
            names += [data.attributes[k].name for k in run]
            continue
        for k in run:
            block, columns = _encode(data.attributes[k], data.column(k))
            blocks.append(block)
            names += columns
    return _stack(blocks, names, data, path), names


def _is_plain(attribute: Attribute) -> bool:
    """Whether the cells are the values of the feature."""
    return attribute.values is None or attribute.values == tuple(map(str, range(len(attribute.values))))


def _encoded_width(attribute: Attribute) -> int:
    """Number of columns that an attribute becomes."""
    if _is_plain(attribute) or _numeric_values(attribute) is not None:
        return 1
    count = len(attribute.values or ())
    return 1 if count == 2 else count


def _nominal_cells(data: ArffData, positions: list[int]) -> int:
    """Number of cells of a sparse file that are encoded as dense columns."""
    nominal = [data.attributes[k] for k in positions if not _is_plain(data.attributes[k])]
    return len(data.lines) * sum(map(_encoded_width, nominal))


def _numeric_values(attribute: Attribute) -> np.ndarray | None:
    """The values of a nominal attribute as numbers; None if one is not a number."""
    try:
        return np.array([parse_number(value) for value in attribute.values or ()])
    except ValueError:
        return None


def _encode(attribute: Attribute, codes: np.ndarray) -> tuple[np.ndarray, list[str]]:
    values = attribute.values or ()
    missing = np.isnan(codes)
    whole = np.where(missing, 0, codes).astype(int)
    numeric = _numeric_values(attribute)
    if numeric is not None:
        block = numeric[whole][:, None]
        names = [attribute.name]
    else:
        kept = range(1, 2) if len(values) == 2 else range(len(values))
        block = np.stack([(whole == k).astype(float) for k in kept], axis=1)
        names = [f"{attribute.name}={values[k]}" for k in kept]
    block[missing] = np.nan
    return block, names


def _stack(
    blocks: list[np.ndarray | csr_array], names: list[str], data: ArffData, path: Path
) -> np.ndarray | csr_array:
    from scipy.sparse import csr_array, hstack

    if not blocks:
        raise SourceError(f"{path}: every attribute is a label and none is a feature. Check the XML file.")
    with np.errstate(over="ignore"):
        if isinstance(data.cells, np.ndarray):
            X = np.hstack(blocks).astype(np.float32)
        else:
            X = csr_array(hstack([csr_array(block) for block in blocks], format="csr"), dtype=np.float32)
            X.sum_duplicates()  # sorts: the order of the cells in the file does not matter
            X.eliminate_zeros()
    rows, columns = _bad_cells(X)
    if len(rows):
        raise SourceError(
            f"{path}, line {data.lines[rows[0]]}: feature {quote(names[columns[0]])} is missing or not "
            f"finite ({len(rows)} such cells). Fill the cells or drop the rows or the attribute."
        )
    return X


def _bad_cells(X: np.ndarray | csr_array) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(X, np.ndarray):
        rows, columns = np.nonzero(~np.isfinite(X))
        return rows, columns
    bad = np.flatnonzero(~np.isfinite(X.data))
    return np.searchsorted(X.indptr, bad, side="right") - 1, X.indices[bad]


def read_multi_labels(data: ArffData, names: list[str], path: Path, xml: Path) -> Labeling:
    """Read the label attributes that the XML file names, in the order of the ARFF file."""
    declared = {attribute.name for attribute in data.attributes}
    absent = [name for name in names if name not in declared]
    if absent:
        raise SourceError(
            f"{xml} names the label {quote(absent[0])}, which is not an attribute of {path} "
            f"({len(absent)} such labels). Give the XML file that belongs to the ARFF file."
        )
    chosen = set(names)
    positions = [k for k, attribute in enumerate(data.attributes) if attribute.name in chosen]
    check_label_matrix(len(data.lines), len(positions))
    Y = np.stack([_indicator(data, k, path) for k in positions], axis=1)
    missing = Y < 0
    mixed = missing.any(axis=1) & ~missing.all(axis=1)
    if mixed.any():
        row = int(np.argmax(mixed))
        name = data.attributes[positions[int(np.argmax(missing[row]))]].name
        raise SourceError(
            f"{path}, line {data.lines[row]}: label {quote(name)} is ? while other labels of the row are "
            f"given ({int(mixed.sum())} such rows). Give all labels of a row, or ? for all."
        )
    return Labeling(Y, [data.attributes[k].name for k in positions], single_label=False)


def _indicator(data: ArffData, position: int, path: Path) -> np.ndarray:
    attribute, cells = data.attributes[position], data.column(position)
    if attribute.values is not None and not set(attribute.values) <= {"0", "1"}:
        raise SourceError(
            f"{path}: the label {quote(attribute.name)} is declared {{{list_names(attribute.values, 6)}}}. "
            "Declare labels as {0,1}."
        )
    values = cells if attribute.values is None else _encode(attribute, cells)[0][:, 0]
    missing = np.isnan(values)
    bad = ~missing & ~np.isin(values, (0, 1))
    if bad.any():
        row = int(np.argmax(bad))
        raise SourceError(
            f"{path}, line {data.lines[row]}: the label {quote(attribute.name)} is {values[row]:g}; "
            "expected 0, 1 or ?."
        )
    return np.where(missing, -1, values).astype(np.int8)


def read_class(data: ArffData, position: int) -> Labeling:
    """Read one nominal attribute as the class; every declared value is a class."""
    codes, values = data.column(position), data.attributes[position].values or ()
    check_label_matrix(len(codes), len(values))
    missing = np.isnan(codes)
    Y = np.zeros((len(codes), len(values)), dtype=np.int8)
    Y[np.flatnonzero(~missing), codes[~missing].astype(int)] = 1
    Y[missing] = -1
    return Labeling(Y, list(values), single_label=True)


@dataclass(frozen=True)
class ArffSource:
    """An ARFF file. Its labels are the attributes that `xml` lists, or one class attribute."""

    path: Path
    xml: Path | None
    options: SourceOptions
    kind: str = "arff"
    parts: tuple[PartName, ...] = FEATURE_PARTS

    @property
    def name(self) -> str:
        return self.path.stem

    def digest(self, cache_dir: Path) -> str:
        files = [self.path] if self.xml is None else [self.path, self.xml]
        # Without an XML file the options choose the class attribute, which the bytes do not show.
        chosen = ["class", self._class_name.lower()] if self.xml is None else []
        return combine_digests(["arff", *chosen, *digest_files(files, index_path(cache_dir, self.path))])

    def read(self, cache_dir: Path) -> Collection:
        """Read attributes and labels."""
        data = parse_arff(self.path)
        if self._is_unlabeled(data.attributes):
            labels, labeling = [], no_labels(len(data.lines))
        elif self.xml is None:
            labels = [self._class_position(data.attributes)]
            labeling = read_class(data, labels[0])
        else:
            labeling = read_multi_labels(data, read_label_xml(self.xml), self.path, self.xml)
            known = set(labeling.names)
            labels = [k for k, attribute in enumerate(data.attributes) if attribute.name in known]
        labeling, notes = settle_labels(labeling, self.options, self.path.name)
        positions = sorted(set(range(len(data.attributes))) - set(labels))
        X, names = feature_matrix(data, positions, self.path)
        digests = digest_rows(X) if isinstance(X, np.ndarray) else digest_sparse_rows(X)
        return Collection(
            kind=self.kind,
            ids=[str(row) for row in range(len(data.lines))],
            parts=given_features(X, digests, names),
            labels=labeling.Y,
            label_names=labeling.names,
            split=None,
            single_label=labeling.single_label,
            notes=notes,
        )

    def _is_unlabeled(self, attributes: list[Attribute]) -> bool:
        """Whether no labels are wanted and no attribute is known to be a label."""
        named = {attribute.name.lower() for attribute in attributes}
        return not self.options.labeled and self.xml is None and self._class_name.lower() not in named

    @property
    def _class_name(self) -> str:
        return self.options.labels or "class"

    def _class_position(self, attributes: list[Attribute]) -> int:
        wanted = self._class_name
        found = [k for k, attribute in enumerate(attributes) if attribute.name.lower() == wanted.lower()]
        if not found:
            raise SourceError(
                f"{self.path}: there is no XML file with label names beside it, and it has no "
                f"attribute {quote(wanted)}. Add the Mulan XML file, or name the class attribute in `labels`."
            )
        if attributes[found[-1]].values is None:
            raise SourceError(
                f"{self.path}: the class attribute {quote(attributes[found[-1]].name)} is numeric. "
                "Declare it nominal, for instance {0,1,2}."
            )
        return found[-1]


class ArffReader(FileReader):
    """Opens Mulan data sets."""

    kind = "arff"
    supports = "a Mulan .arff file with its .xml, or with a class attribute"

    def recognize(self, path: Path, options: SourceOptions, cache_dir: Path) -> Match:
        """Any .arff file."""
        return Match.DATA_SET if path.is_file() and path.suffix.lower() == ".arff" else Match.NO

    def open(self, path: Path, options: SourceOptions) -> ArffSource:
        """Open an ARFF file with the XML file that belongs to it."""
        if options.labels is not None and not options.labels.lower().endswith(".xml"):
            return ArffSource(path, None, options)
        return ArffSource(path, given_file(options, path.parent) or find_label_xml(path), options)

"""Which column of a table is the id, a feature, a label or the split, and why the others are not used.

Only names and kinds of columns are known here; `table_features` and `table_labels` look at the values.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from storage.errors import SourceError
from storage.quoting import count_of, list_names, quote
from storage.sources.base import Note, SourceOptions
from storage.sources.column_kinds import LABEL_PREFIX, ColumnKind, is_feature_name

# Value of `source.id` for row numbers.
NO_ID = "none"
ONEHOT = "onehot"
# In lower case, the best first.
CLASS_NAMES = ("class", "label", "labels", "target", "y", "category")
LIST_NAMES = ("labels", "tags", "label", "classes", "categories")
SPLIT_NAMES = ("split", "partition", "fold", "subset")
_ID_NAMES = (
    *("id", "item_id", "sample_id", "image_id", "document_id", "doc_id", "uid", "uuid", "guid"),
    *("filename", "file_name", "file", "path", "image_path", "filepath", "image"),
)
_ID_END = re.compile(r".*(_id|[a-z]I[dD])")
_INDEX = re.compile(r"|unnamed: 0(\.\d+)?|index|idx|row|rownames?|row_?num(ber)?|nr|no|#|__index_level_\d+__")

NUMBERS: tuple[ColumnKind, ...] = ("number", "flag")
LEFT_OUT = "are left out by source.ignore"
OTHERS = "are neither features nor labels"
BESIDE = "contain numbers beside embeddings and are not used; name them in source.features to add them"
TEXTS = (
    "contain text and are not used; --set source.categorical=onehot encodes columns with few values, "
    "--set source.text=COLUMN reads one as texts"
)
BESIDE_TEXT = "contain numbers beside texts and are not used; --set source.features=COLUMNS uses them instead"
_REASONS: dict[ColumnKind, str] = {
    "date": "contain dates or times and are not used; convert them to numbers if they matter",
    "empty": "are empty",
    "text": TEXTS,
    "texts": "contain lists of texts and are not used",
    "vector": "contain lists of numbers and are not used; name them in source.features to add them",
    "other": "contain nested or binary values and are not used",
    "number": "contain numbers and are not used; name them in source.features to add them",
    "flag": "contain true and false and are not used; name them in source.features to add them",
}

# Reasons that read differently beside a column of texts.
_BESIDE_TEXT = {TEXTS: "contain other texts and are not used", OTHERS: "are neither texts nor labels"}
_BESIDE_TEXT |= {BESIDE: BESIDE_TEXT, _REASONS["vector"]: BESIDE_TEXT}


class Ignored(NamedTuple):
    """A column that is not used."""

    name: str
    reason: str


class FeatureRoles(NamedTuple):
    """The columns of features; see `Roles`."""

    numbers: tuple[str, ...]
    vectors: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    levels: Mapping[str, tuple[str, ...]] = {}
    chosen: bool = True


@dataclass(frozen=True)
class Roles:
    """The use of each column.

    Attributes
    ----------
    ids : tuple of str
        Columns that may be the id, the best first.
    id_given : bool
        Whether the user, or the name `id`, says that it is the id: then it must be unique.
    numbers, vectors, categories : tuple of str
        Feature columns: numbers, lists of numbers, and texts that are one-hot encoded.
    levels : mapping
        Values of a category that a model knows; the others are not encoded.
    labels : tuple of str
        One column of classes or lists, or several columns of 0/1.
    several : bool
        Whether each label column is a label of its own.
    split : str or None
    chosen : bool
        Whether the features were named, by the user, by a model or as f0, f1, ...; otherwise columns without
        information are left out.
    ignored : tuple of Ignored
    """

    ids: tuple[str, ...] = ()
    id_given: bool = False
    numbers: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    several: bool = False
    split: str | None = None
    chosen: bool = False
    ignored: tuple[Ignored, ...] = ()


def assign_roles(kinds: Mapping[str, ColumnKind], options: SourceOptions, path: Path) -> Roles:
    """Decide the use of each column by the options, and where they do not say, by name and kind."""
    left_out = set(match_names(options.ignore, list(kinds), path, "source.ignore", options.labeled))
    known = {name: kind for name, kind in kinds.items() if name not in left_out}
    ids, id_given = _find_ids(known, options, path)
    labels, several = find_labels(known, options, path)
    split = _find_split(known, options, path)
    taken = {*labels, *(ids if id_given else ()), *([split] if split else ())}
    features = _find_features(known, options, path, taken)
    used = {*taken, *ids, *features.numbers, *features.vectors, *features.categories}
    ignored = [Ignored(name, LEFT_OUT) for name in kinds if name in left_out]
    if not options.wanted:
        counted = counts_features(known, options)
        ignored += [
            Ignored(name, OTHERS if counted else _reason(kind, bool(features.vectors)))
            for name, kind in known.items()
            if name not in used
        ]
    return Roles(
        ids=ids,
        id_given=id_given,
        labels=labels,
        several=several,
        split=split,
        ignored=tuple(ignored),
        **features._asdict(),
    )


def assign_text_roles(
    kinds: Mapping[str, ColumnKind], text: str, options: SourceOptions, path: Path
) -> Roles:
    """Roles of a table whose features are one column of texts: no other column is a feature."""
    others = {name: kind for name, kind in kinds.items() if name != text}
    roles = assign_roles(others, replace(options, features=(), categorical="ignore", wanted=()), path)
    taken = {*roles.ids, *roles.labels, roles.split}
    numbers = [name for name in (*roles.numbers, *roles.vectors) if name not in taken]
    left = [one._replace(reason=_BESIDE_TEXT.get(one.reason, one.reason)) for one in roles.ignored]
    return replace(
        roles,
        numbers=(),
        vectors=(),
        ignored=(*left, *(Ignored(name, BESIDE_TEXT) for name in numbers)),
    )


def _reason(kind: ColumnKind, beside_vectors: bool) -> str:
    return BESIDE if beside_vectors and kind in NUMBERS else _REASONS[kind]


def counts_features(kinds: Iterable[str], options: SourceOptions) -> bool:
    """Whether a table has our own form, with the features f0, f1, ...; then only `id` is an id."""
    return not options.features and any(map(is_feature_name, kinds))


def split_list(text: str) -> list[str]:
    """Names separated by commas; a name with a comma is in double quotes. Raises ValueError."""
    try:
        return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    except csv.Error as error:
        raise ValueError("expected names on one line, separated by commas") from error


def match_names(
    patterns: Iterable[str],
    names: Sequence[str],
    path: Path,
    setting: str,
    strict: bool = True,
    what: str = "column",
) -> list[str]:
    """The columns that names or patterns (`label:*`) select, in the order of the patterns."""
    found: dict[str, None] = {}
    for pattern in patterns:
        matched = [pattern] if pattern in names else [name for name in names if fnmatchcase(name, pattern)]
        if not matched and strict:
            near = difflib.get_close_matches(pattern, names, n=3)
            hint = f"Did you mean {', '.join(map(quote, near))}?" if near else "Name one of these."
            raise SourceError(
                f"{path} has no {what} {quote(pattern)} for {setting}, but {shown(names)}. {hint}"
            )
        found.update(dict.fromkeys(matched))
    return list(found)


def shown(names: Iterable[str]) -> str:
    """Columns for a message: the first twelve, and how many there are."""
    listed = list(names)
    return list_names(listed, 12) + (f" ({len(listed)} columns)" if len(listed) > 12 else "")


def _find_ids(
    kinds: Mapping[str, ColumnKind], options: SourceOptions, path: Path
) -> tuple[tuple[str, ...], bool]:
    if options.id is not None:
        if options.id == NO_ID and NO_ID not in kinds:
            return (), False
        found = match_names([options.id], list(kinds), path, "source.id", options.labeled)
        return tuple(found[:1]), bool(found)
    if "id" in kinds:
        return ("id",), True
    if counts_features(kinds, options):
        return (), False
    usable = [name for name, kind in kinds.items() if kind in ("text", "number")]
    named = [name for known in _ID_NAMES for name in usable if name.lower() == known]
    ended = [name for name in usable if _ID_END.fullmatch(name)]
    return tuple(dict.fromkeys([*named, *ended])), False


def looks_like_index(name: str) -> bool:
    """Whether a column is named like row numbers or an id."""
    lower = name.lower()
    return lower in _ID_NAMES or bool(_ID_END.fullmatch(name) or _INDEX.fullmatch(lower))


def find_labels(
    kinds: Mapping[str, ColumnKind], options: SourceOptions, path: Path
) -> tuple[tuple[str, ...], bool]:
    """The label columns, and whether each is a label of its own."""
    names = list(kinds)
    if options.labels is not None:
        patterns = [options.labels] if options.labels in kinds else split_list(options.labels)
        found = match_names(patterns, names, path, "source.labels", options.labeled)
        return tuple(found), len(found) > 1 or any(name.startswith(LABEL_PREFIX) for name in found)
    columns = [name for name in names if name.startswith(LABEL_PREFIX)]
    if columns and "class" in kinds and options.labeled:
        raise SourceError(
            f"{path} has both 'class' and {count_of(len(columns), 'label:<name> column')}. "
            "Choose: --set source.labels=class, or --set 'source.labels=label:*'."
        )
    if columns:
        return tuple(columns), True
    lists = [name for known in LIST_NAMES for name in names if name.lower() == known]
    lists = [name for name in lists if kinds[name] in ("texts", "vector")]
    lists = lists or [name for name, kind in kinds.items() if kind == "texts"]
    if lists and not ("class" in kinds and counts_features(kinds, options)):
        return (lists[0],), False
    usable = [name for name, kind in kinds.items() if kind in ("text", *NUMBERS, "empty", "other")]
    classes = [name for known in CLASS_NAMES for name in usable if name.lower() == known]
    return tuple(classes[:1]), False


def no_labels_error(kinds: Mapping[str, ColumnKind], path: Path) -> SourceError:
    """The error of a table without recognized labels; it names a setting to add."""
    texts = [name for name, kind in kinds.items() if kind == "text" and not looks_like_index(name)]
    numbers = [name for name, kind in kinds.items() if kind in NUMBERS and not is_feature_name(name)]
    example = [*texts[-1:], *numbers[-1:], "COLUMN"][0]
    return SourceError(
        f"{path} has neither label:<name> columns nor a column {', '.join(CLASS_NAMES[:-1])} "
        f"or {CLASS_NAMES[-1]}, "
        f"but {shown(kinds)}. Name the column with the classes, or several columns of 0/1: "
        f"--set source.labels={quote_word(example)}."
    )


def quote_word(name: str) -> str:
    """A column name as a word of a shell command."""
    plain = re.fullmatch(r"[\w.:-]+", name, re.ASCII)
    return name if plain else quote(name)


def _find_split(kinds: Mapping[str, ColumnKind], options: SourceOptions, path: Path) -> str | None:
    if options.split is not None:
        found = match_names([options.split], list(kinds), path, "source.split", options.labeled)
        return found[0] if found else None
    usable = [name for name, kind in kinds.items() if kind == "text" or name == "split"]
    return next((name for known in SPLIT_NAMES for name in usable if name.lower() == known), None)


def _find_features(
    kinds: Mapping[str, ColumnKind], options: SourceOptions, path: Path, taken: set[str]
) -> FeatureRoles:
    if options.wanted and (found := _wanted_features(kinds, options.wanted)):
        return found
    if options.features:
        return _named_features(kinds, options, path, taken)
    counted = sorted(filter(is_feature_name, kinds), key=lambda name: int(name[1:]))
    if counted:
        return FeatureRoles(tuple(counted))
    free = {name: kind for name, kind in kinds.items() if name not in taken}
    vectors = tuple(name for name, kind in free.items() if kind == "vector")
    numbers = () if vectors else tuple(name for name, kind in free.items() if kind in NUMBERS)
    texts = tuple(name for name, kind in free.items() if kind == "text" and not looks_like_index(name))
    categories = texts if options.categorical == ONEHOT else ()
    return FeatureRoles(numbers, vectors, categories, chosen=False)


def _named_features(
    kinds: Mapping[str, ColumnKind], options: SourceOptions, path: Path, taken: set[str]
) -> FeatureRoles:
    named = match_names(options.features, list(kinds), path, "source.features", options.labeled)
    exact = set(options.features)
    names = [name for name in named if name not in taken or name in exact]
    texts = [name for name in names if kinds[name] == "text"]
    odd = [name for name in names if name in exact and kinds[name] in ("date", "texts", "other")]
    if odd:
        raise SourceError(
            f"{path}, column {quote(odd[0])} contains neither numbers nor vectors. Remove it from "
            "source.features, or convert it to numbers."
        )
    if options.categorical != ONEHOT and (asked := [name for name in texts if name in exact]):
        raise SourceError(
            f"{path}, column {quote(asked[0])} contains text, not numbers. Encode it with "
            "--set source.categorical=onehot, or remove it from source.features."
        )
    return FeatureRoles(
        tuple(name for name in names if kinds[name] in (*NUMBERS, "empty")),
        tuple(name for name in names if kinds[name] == "vector"),
        tuple(texts) if options.categorical == ONEHOT else (),
    )


def _wanted_features(kinds: Mapping[str, ColumnKind], wanted: Sequence[str]) -> FeatureRoles | None:
    """The columns behind the feature names of a model: `age`, `color=red` or `clip[0]`."""
    numbers: list[str] = []
    vectors: dict[str, None] = {}
    levels: dict[str, list[str]] = {}
    for name in wanted:
        if name in kinds:
            numbers.append(name)
        elif name.endswith("]") and name[: name.rindex("[")] in kinds:
            vectors[name[: name.rindex("[")]] = None
        elif column := next((one for one in _before_equals(name) if one in kinds), None):
            levels.setdefault(column, []).append(name[len(column) + 1 :])
    if not (numbers or vectors or levels):
        return None
    known = {name: tuple(values) for name, values in levels.items()}
    return FeatureRoles(tuple(numbers), tuple(vectors), tuple(levels), known)


def _before_equals(name: str) -> list[str]:
    return [name[: found.start()] for found in re.finditer("=", name)]


def ignored_notes(ignored: Sequence[Ignored], path: Path) -> list[Note]:
    """One note for each reason, with the columns."""
    reasons: dict[str, list[str]] = {}
    for one in ignored:
        reasons.setdefault(one.reason, []).append(one.name)
    return [
        Note(path.name, None, f"{_sentence(len(names), reason)}: {list_names(map(_visible, names))}")
        for reason, names in reasons.items()
    ]


def _sentence(count: int, reason: str) -> str:
    if count > 1:
        return f"{count} columns {reason}"
    verb, _, rest = reason.partition(" ")
    one = {"are": "is", "have": "has"}.get(verb, f"{verb}s")
    return f"1 column {one} {rest.replace(' and are not used', ' and is not used').replace('them', 'it')}"


def _visible(name: str) -> str:
    return name or "(no name)"

"""Corrections of labels: read the file of a page or of another tool, check it, merge it."""

import csv
import getpass
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from storage.csv_cells import unguard_cell
from storage.errors import ConfigError, SourceError
from storage.label_edits import (
    LabelPlace,
    add_to_log,
    find_label_place,
    log_path,
    read_log,
    replace_content,
    undone_on_error,
)
from storage.quoting import count_of, list_names, quote
from storage.sources import OpenedSource
from storage.sources.annotation_files import JSON, read_labels
from storage.sources.base import Collection, SourceOptions
from storage.sources.columns import CSV_SUFFIXES, guess_delimiter
from storage.sources.text_file import read_text
from tasks.annotation.files import LABEL_TABLES

COLUMNS = ("id", "before", "after", "checked", "who", "when", "why")
"""Columns of a corrections file; labels are joined by the separator of the source."""
EVERYTHING = "*"
"""In `checked`: all labels of the item were looked at."""
_SHOWN = 5
Labels = tuple[str, ...]


@dataclass(frozen=True)
class Correction:
    """The answer of a person about one item.

    Attributes
    ----------
    id : str
    before : tuple of str or None
        Its labels when the person looked; None if the file does not say.
    after : tuple of str
    checked : tuple of str
        Labels that the person decided on.
    who, when, why : str
    """

    id: str
    before: Labels | None
    after: Labels
    checked: Labels = ()
    who: str = ""
    when: str = ""
    why: str = ""


@dataclass(frozen=True)
class Merged:
    """What a corrections file changed.

    Attributes
    ----------
    place : Path
        The file that holds the labels now.
    is_new : bool
        Whether the file was made for `source.labels`.
    changed, answered, confirmed, repeated : int
        Items whose labels changed, items that had none before, items that stay as they were, and items whose
        answer was merged before.
    cells : int
        Labels that were added or removed.
    empty : tuple of str
        Items that were answered with no label, which the file cannot tell from unlabeled ones.
    log : Path
    """

    place: Path
    is_new: bool
    changed: int
    answered: int
    confirmed: int
    repeated: int
    cells: int
    empty: tuple[str, ...]
    log: Path


def read_corrections(path: Path, separator: str) -> list[Correction]:
    """Read a corrections file, or the export of Label Studio, Hugging Face, FiftyOne or COCO with labels."""
    if not path.is_file():
        raise SourceError(
            f"{path} does not exist. Give the file that the page saved, or an export with labels."
        )
    if path.suffix.lower() in CSV_SUFFIXES:
        text = read_text(path)
        reader = csv.DictReader(
            io.StringIO(text, newline=""), delimiter=guess_delimiter(text.partition("\n")[0])
        )
        header = [name.strip() for name in reader.fieldnames or ()]
        if {"id", "after"} <= set(header):
            return _rows(reader, path, separator)
    elif path.suffix.lower() not in (JSON, ".jsonl", ".parquet"):
        raise SourceError(f"{path} is no corrections file; expected .csv, .jsonl, .parquet or .json.")
    entries = read_labels(path, separator).entries
    return [Correction(one.name, None, one.labels) for one in entries if one.labels is not None]


def _rows(reader: "csv.DictReader[str]", path: Path, separator: str) -> list[Correction]:
    found: dict[str, Correction] = {}
    for row in reader:
        if None in row:
            raise SourceError(f"{path}, line {reader.line_num}: more cells than columns. Fix the line.")
        raw = {name.strip(): unguard_cell(value or "") for name, value in row.items()}
        cells = {name: value.strip() for name, value in raw.items()}
        one = Correction(
            raw["id"],  # a file name may begin or end with a space
            _split(cells["before"], separator) if "before" in cells else None,
            _split(cells["after"], separator),
            _split(cells.get("checked", ""), separator),
            *(cells.get(name, "") for name in ("who", "when", "why")),
        )
        if not cells["id"]:
            raise SourceError(f"{path}, line {reader.line_num}: the id is empty. Name the item.")
        if not (one.after or one.checked):
            continue  # not answered
        if one.id in found and found[one.id] != one:
            raise SourceError(
                f"{path}, line {reader.line_num}: {quote(one.id)} is answered twice. Keep one line per item."
            )
        found[one.id] = one
    return list(found.values())


def _split(cell: str, separator: str) -> Labels:
    return tuple(dict.fromkeys(part.strip() for part in cell.split(separator) if part.strip()))


def labels_by_id(found: Collection) -> dict[str, Labels | None]:
    """The labels of each item; None for unlabeled ones."""
    names = np.array(found.label_names, dtype=object)
    return {
        name: None if (row < 0).any() else tuple(names[row > 0])
        for name, row in zip(found.ids, found.labels, strict=True)
    }


def merge_corrections(
    corrections: Sequence[Correction],
    source: OpenedSource,
    cache_dir: Path,
    labels_file: Path,
    replace_labels: bool = False,
) -> Merged:
    """Merge corrections into the labels of a source, and log them beside the labels.

    Parameters
    ----------
    labels_file : Path
        File to write if the labels of the source cannot be edited in place.
    replace_labels : bool
        Accept answers that do not say which labels they replace, also for items that have labels.

    Raises
    ------
    ConfigError
        Items are unknown, or their labels changed since the corrections were made. Nothing is written then.
    """
    found = source.read(cache_dir)
    seen, now = labels_by_id(found), _all_labels(source, found, cache_dir)
    answers = _match_ids(corrections, found.ids)
    _check_labels(answers, source.options.label_separator, found.single_label)
    answers = [_keep_hidden(one, seen[one.id], now[one.id], found.single_label) for one in answers]
    _check_conflicts(answers, now, replace_labels, hidden={name for name in now if now[name] != seen[name]})
    new = {one.id: one.after for one in answers if set(one.after) != set(now[one.id] or ())}
    place = find_label_place(source, found.ids)
    target = place or _new_place(source, found, labels_file, now)
    log = log_path(target.path)
    logged = _logged_answers(log)
    fresh = [one for one in answers if one.id in new or not _is_merged(one, now[one.id], logged)]
    with undone_on_error(target.path, log):
        if new or place is None:
            _write(target, new, {**now, **new}, source, cache_dir, place is None)
        if fresh:
            add_to_log(log, [_log_entry(one, now[one.id]) for one in fresh])
    return Merged(
        place=target.path,
        is_new=place is None,
        changed=sum(bool(now[name]) for name in new),
        answered=sum(not now[name] for name in new),
        confirmed=len(fresh) - len(new),
        repeated=len(answers) - len(fresh),
        cells=sum(len(set(after) ^ set(now[name] or ())) for name, after in new.items()),
        empty=tuple(one.id for one in answers if not one.after),
        log=log,
    )


def load_checked(source: OpenedSource, ids: Sequence[str], labels_file: Path) -> set[tuple[str, str]]:
    """Decisions (id, label) that a person has confirmed or corrected; `EVERYTHING` stands for all labels."""
    place = find_label_place(source, ids)
    found = set()
    for record in read_log(log_path(place.path if place else labels_file)):
        checked = record.get("checked")
        if isinstance(checked, list):
            found |= {(str(record["id"]), str(label)) for label in checked}
    return found


def _unfiltered(options: SourceOptions) -> SourceOptions:
    """Options that hide no labels."""
    return replace(options, min_label_count=1, drop_labels=())


def _all_labels(source: OpenedSource, found: Collection, cache_dir: Path) -> dict[str, Labels | None]:
    """The labels of each item with those that the settings hide, which must not get lost."""
    from storage.sources import open_source

    options = _unfiltered(source.options)
    if options == source.options:
        return labels_by_id(found)
    whole = open_source(options, cache_dir).read(cache_dir)
    if list(whole.ids) != list(found.ids):
        raise SourceError(f"{source.options.path} changed while it was read. Try again.")
    return labels_by_id(whole)


def _keep_hidden(one: Correction, seen: Labels | None, now: Labels | None, single: bool) -> Correction:
    """The answer with the labels that the settings hid from the person, before and after.

    An item with one class has no place for a second: there the answer stays, and a hidden class conflicts.
    """
    hidden = [name for name in now or () if name not in {*(seen or ()), *(one.before or ())}]
    if single or not hidden:
        return one
    before = () if one.before is None and not seen else one.before
    return replace(
        one,
        before=None if before is None else (*before, *hidden),
        after=tuple(dict.fromkeys((*one.after, *hidden))),
    )


def _is_merged(one: Correction, now: Labels | None, logged: Mapping[str, Sequence[Correction]]) -> bool:
    """Whether an answer that changes nothing was merged before.

    Then the log has it, or the labels are those of the answer and not those that it replaces.
    """
    if one.before is not None and set(one.before) != set(now or ()):
        return True
    return any(
        (set(one.after), set(one.checked)) == (set(old.after), set(old.checked))
        and one.who in ("", old.who)
        and one.when in ("", old.when)
        for old in logged.get(one.id, ())
    )


def _logged_answers(log: Path) -> dict[str, list[Correction]]:
    found: dict[str, list[Correction]] = {}
    for record in read_log(log):
        after, checked = (
            tuple(map(str, value)) if isinstance(value := record.get(key), list) else ()
            for key in ("after", "checked")
        )
        who, when = (str(record.get(key, "")) for key in ("who", "when"))
        name = str(record["id"])
        found.setdefault(name, []).append(Correction(name, None, after, checked, who, when))
    return found


def _match_ids(corrections: Sequence[Correction], ids: Sequence[str]) -> list[Correction]:
    """The corrections with the ids of the collection, one per item."""
    known = set(ids)
    by_name: dict[str, list[str]] = {}
    for name in ids:
        by_name.setdefault(PurePosixPath(name).name, []).append(name)
    made: dict[str, Correction] = {}
    unknown = []
    for given in corrections:
        found = _find_item(given, known, by_name)
        if found is None:
            unknown.append(given.id)
            continue
        one = replace(given, id=found)
        if made.setdefault(found, one) != one:
            raise ConfigError(
                f"{quote(found)} is answered twice, the second time as {quote(given.id)}. Keep one answer "
                "per item. Nothing was changed."
            )
    if unknown:
        raise ConfigError(
            f"{len(unknown)} of {len(corrections)} corrections name items that the source does not have: "
            f"{list_names(map(quote, unknown), _SHOWN)}. Give the reviewed source. Nothing was changed."
        )
    if not made:
        raise ConfigError("the file has no answers. Answer some items first. Nothing was changed.")
    return list(made.values())


def _find_item(one: Correction, known: set[str], by_name: Mapping[str, Sequence[str]]) -> str | None:
    """The id of the item that an answer names; other tools may name files without their folder."""
    names = (one.id, one.id.strip())
    for name in names:
        if name in known:
            return name
    for name in names if one.before is None else ():
        same = by_name.get(PurePosixPath(name).name, ())
        if len(same) == 1:
            return same[0]
    return None


def _check_conflicts(
    answers: Sequence[Correction], now: Mapping[str, Labels | None], replace_labels: bool, hidden: set[str]
) -> None:
    clashes, unsaid = [], False
    for one in answers:
        present = set(now[one.id] or ())
        note = " (source.min_label_count or source.drop_labels hides labels)" if one.id in hidden else ""
        if set(one.after) == present:
            continue  # done already, or confirmed
        if one.before is None and present and not replace_labels:
            unsaid = True
            clashes.append(f"{quote(one.id)} has labels ({list_names(sorted(present))}){note}")
        elif one.before is not None and set(one.before) != present:
            was, has = (list_names(sorted(labels), empty="none") for labels in (one.before, present))
            clashes.append(f"{quote(one.id)} had {was} then and has {has} now{note}")
    if clashes:
        raise ConfigError(
            f"the labels of {count_of(len(clashes), 'item')} changed since the corrections were made: "
            f"{'; '.join(clashes[:_SHOWN])}{'; ...' if len(clashes) > _SHOWN else ''}. Review these again, "
            "or remove their lines. Nothing was changed."
            + (" To replace labels by answers without the column `before`, add --replace." if unsaid else "")
        )


def _check_labels(answers: Sequence[Correction], separator: str, single: bool) -> None:
    for one in answers:
        if single and len(one.after) > 1:
            raise ConfigError(
                f"{quote(one.id)} is given {len(one.after)} labels ({list_names(one.after)}), but items of "
                "this source have one class each. Choose one. Nothing was changed."
            )
        bad = next((name for name in one.after if separator in name), None)
        if bad is not None:
            raise ConfigError(
                f"the label {quote(bad)} contains {separator!r}, which separates labels. Choose another "
                "separator with --set source.label_separator=';', or rename the label. Nothing was changed."
            )


def _new_place(
    source: OpenedSource, found: Collection, path: Path, now: Mapping[str, Labels | None]
) -> LabelPlace:
    """A new label file for sources whose own labels are not edited: classes by folder, JSON, Parquet."""
    if found.kind not in LABEL_TABLES:
        raise ConfigError(
            f"labels of {source.options.path} ({found.kind}) cannot be written back: a run reads them from "
            "the data themselves. Convert the collection to a table or a folder with labels.csv first."
        )
    if path.exists():
        raise ConfigError(
            f"{path} exists already. If it holds the labels of this source, add --set "
            f"source.labels={path}; otherwise choose another file with --labels. Nothing was changed."
        )
    separator, column = source.options.label_separator, LABEL_TABLES[found.kind]
    title = "label" if found.single_label else "labels"

    def write(new: Mapping[str, Labels]) -> bytes:
        from storage.csv_cells import guard_cell

        target = io.StringIO(newline="")
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow([column, title])
        for name in found.ids:
            cells = (name, separator.join({**now, **new}[name] or ()))
            writer.writerow([guard_cell(cell) for cell in cells])
        return target.getvalue().encode()

    return LabelPlace(path, write, f"new label file {path}")


def _write(
    place: LabelPlace,
    new: Mapping[str, Labels],
    expected: Mapping[str, Labels | None],
    source: OpenedSource,
    cache_dir: Path,
    is_new: bool,
) -> None:
    """Write the labels and read all of them again; refused if they are others (the caller undoes it)."""
    from storage.sources import open_source

    replace_content(place.path, place.edit(new))
    options = _unfiltered(source.options)
    options = replace(options, labels=str(place.path)) if is_new else options
    try:
        read = labels_by_id(open_source(options, cache_dir).read(cache_dir))
        wrong = [name for name, labels in expected.items() if set(read.get(name) or ()) != set(labels or ())]
    except SourceError as error:
        raise ConfigError(f"the corrected labels cannot be read: {error} Nothing was changed.") from error
    if wrong:
        raise ConfigError(
            f"{place.words} would not give the corrected labels to {quote(wrong[0])}. Write them to a new "
            "file with --labels PATH. Nothing was changed."
        )


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return "unknown"


def _log_entry(one: Correction, before: Labels | None) -> dict[str, Any]:
    return {
        "id": one.id,
        "before": None if before is None else list(before),
        "after": list(one.after),
        "checked": list(one.checked),
        "who": one.who or _user_name(),
        "when": one.when or datetime.now(UTC).isoformat(timespec="seconds"),
        "why": one.why,
    }

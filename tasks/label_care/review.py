"""What `review` writes: ranked tables as CSV, and the page on which a person decides."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from storage.quoting import count_of
from storage.sources.base import Collection
from tasks.label_care.cards import Card
from tasks.label_care.corrections import EVERYTHING, labels_by_id
from tasks.label_care.page import PageTable, PageText, render_labeling
from tasks.label_care.suggestions import Checked, Findings, Labels, is_decided

PAGE = "review.html"
_ROWS = 30
# Items of a group of near-duplicates that are named.
_NAMED = 6
# Smaller differences of scores are not worth a word.
_LEVEL = 0.005


def without_checked(found: Findings, checked: Checked) -> dict[str, Any]:
    """The findings about single labels and items without what a person has decided already."""
    suspects, by_label = [], {name: list(counts) for name, counts in found["suspects_by_label"].items()}
    for one in found["suspects"]:
        if is_decided(one["id"], [one["label"]], checked):
            by_label[one["label"]][int(one["missing"])] -= 1
        else:
            suspects.append(one)
    gone = len(found["suspects"]) - len(suspects)
    return {
        **found,
        "suspects": suspects,
        "suspects_total": found["suspects_total"] - gone,
        "suspects_by_label": {name: counts for name, counts in by_label.items() if any(counts)},
        "suspects_checked": gone,
        "unlike": [one for one in found["unlike"] if not is_decided(one["id"], [EVERYTHING], checked)],
    }


def write_review(
    found: Findings,
    collection: Collection,
    out: Path,
    cards: Sequence[Card],
    merge: str,
    separator: str,
    most: int,
) -> list[Path]:
    """Write the tables and the page, with at most `most` items of each kind, into a folder."""
    import pyarrow as pa

    from storage.exports import write_bytes, write_csv

    labels = labels_by_id(collection)
    files = []
    for name, columns in _csv_tables(found, labels, separator).items():
        files.append(write_csv(pa.table(columns), out / name, "--out"))
    text = PageText(
        f"Review of {collection_title(collection, found)}",
        "What looks wrong with the labels. Decide by keyboard or touch, save the file, and merge it.",
        merge,
        [
            _tile(found["items"], "item"),
            _tile(found["labeled"], "labeled", "labeled"),
            _tile(found["suspects_total"], "probable error"),
            _tile(found["duplicates_total"], "group of near-duplicates", "groups of near-duplicates"),
            _tile(found["unlike_total"], "unlike all others", "unlike all others"),
        ],
        [*cut_lines(found, most), *flattery_lines(found)],
        page_tables(found, collection.single_label),
    )
    page = render_labeling(text, cards, collection, found["label_names"], separator)
    return [write_bytes(page, out / PAGE, "--out"), *files]


def _tile(count: int, one: str, many: str | None = None) -> tuple[str, str]:
    number, _, name = count_of(count, one, many).partition(" ")
    return number, name


def collection_title(collection: Collection, found: Findings) -> str:
    """A short name of the collection, for titles."""
    return str(found.get("name") or collection.kind)


def _csv_tables(
    found: Findings, labels: Mapping[str, Labels | None], separator: str
) -> dict[str, dict[str, Any]]:
    def column(rows: Sequence[Any], value: Callable[[Any], Any]) -> list[Any]:
        return [value(one) for one in rows]

    suspects, unlike, pairs = found["suspects"], found["unlike"], found["pairs"]
    groups = [
        (number, group, name) for number, group in enumerate(found["duplicates"], 1) for name in group["ids"]
    ]
    return {
        "suspects.csv": {
            "rank": list(range(1, len(suspects) + 1)),
            "id": column(suspects, lambda one: one["id"]),
            "label": column(suspects, lambda one: one["label"]),
            "problem": column(suspects, lambda one: "missing" if one["missing"] else "wrong"),
            "opposite": column(suspects, lambda one: one["opposite"]),
            "score": column(suspects, lambda one: one["score"]),
            "given": column(suspects, lambda one: separator.join(labels.get(one["id"]) or ())),
        },
        "duplicates.csv": {
            "group": [number for number, _, _ in groups],
            "id": [name for _, _, name in groups],
            "labels": [separator.join(labels.get(name) or ()) for _, _, name in groups],
            "labels_differ": [group["differ"] for _, group, _ in groups],
            "same_bytes": [group["exact"] for _, group, _ in groups],
        },
        "unlike.csv": {
            "rank": list(range(1, len(unlike) + 1)),
            "id": column(unlike, lambda one: one["id"]),
            "times_as_far": column(unlike, lambda one: one["times"]),
            "labels": column(unlike, lambda one: separator.join(labels.get(one["id"]) or ())),
        },
        "label_pairs.csv": {
            "kind": column(pairs, lambda one: one["kind"]),
            "first": column(pairs, lambda one: one["first"]),
            "second": column(pairs, lambda one: one["second"]),
            "items_with_both": column(pairs, lambda one: one["both"]),
            "expected_by_chance": column(pairs, lambda one: one["expected"]),
            "exceptions": column(pairs, lambda one: len(one["exceptions"])),
        },
    }


def cut_lines(found: Findings, most: int) -> list[str]:
    """How much of the ranking of probable errors the page and the table have, if not all."""
    items = len({one["id"] for one in found["suspects"]})
    listed, total = len(found["suspects"]), found["suspects_total"]
    if items <= most and listed == total:
        return []
    rows = f"{listed:,} of {total:,}" if listed < total else f"all {total:,}"
    return [
        f"The page has the {min(items, most):,} most suspect items, suspects.csv {rows} probable errors. "
        "What is decided leaves room for others in the next review."
    ]


def flattery_lines(found: Findings) -> list[str]:
    """How much near-duplicates in other folds flatter the scores, in a sentence."""
    known = found["flattery"]
    if not known:
        return []
    lead = f"{known['items']} labeled items have a near-duplicate in another fold"
    if known["macro_f1_without"] is None:
        return [f"{lead}: all of them, so the scores say nothing about new items."]
    gap = known["macro_f1"] - known["macro_f1_without"]
    what = "flatter the score" if gap >= _LEVEL else "hardly change the score"
    return [
        f"{lead}; they {what}: macro F1 {known['macro_f1']:.3f} on all items, "
        f"{known['macro_f1_without']:.3f} on the others."
    ]


def page_tables(found: Findings, single_label: bool = False) -> list[PageTable]:
    """Tables of everything that is not decided item by item; items of one class have no pairs of labels."""
    by_label = sorted(found["suspects_by_label"].items(), key=lambda one: -sum(one[1]))
    duplicates = found["duplicates"]
    return [
        PageTable(
            "Probable errors by label",
            ("label", "probably wrong", "probably missing"),
            tuple((name, f"{wrong:,}", f"{missing:,}") for name, (wrong, missing) in by_label[:_ROWS]),
            "Judged by models that had not seen the item; most are errors of the model, not of the label.",
            _more(len(by_label), "labels"),
        ),
        PageTable(
            "Near-duplicates",
            ("items", "labels"),
            tuple((_name_group(one), _compare_labels(one)) for one in duplicates[:_ROWS]),
            caption=_more(found["duplicates_total"], "groups", "duplicates.csv", len(duplicates)),
        ),
        *([] if single_label else [_pairs_table(found["pairs"])]),
        PageTable(
            "Names of labels that look alike",
            ("labels", "items", "why"),
            tuple(
                (" / ".join(one["names"]), " / ".join(map(str, one["counts"])), one["why"])
                for one in found["names"][:_ROWS]
            ),
            caption=_more(len(found["names"]), "groups of names"),
        ),
    ]


def _pairs_table(pairs: Sequence[Mapping[str, Any]]) -> PageTable:
    return PageTable(
        "Labels that always or never occur together",
        ("labels", "rule", "items with both", "expected by chance", "exceptions"),
        tuple(
            (
                f"{one['first']} → {one['second']}"
                if one["kind"] == "always"
                else f"{one['first']}, {one['second']}",
                one["kind"],
                str(one["both"]),
                f"{one['expected']:.1f}",
                str(len(one["exceptions"])),
            )
            for one in pairs[:_ROWS]
        ),
        "a → b: nearly all items with a also have b. a, b: almost no item has both.",
        _more(len(pairs), "pairs", "label_pairs.csv", len(pairs)),
    )


def _name_group(group: Mapping[str, Any]) -> str:
    """The first items of a group of near-duplicates."""
    rest = group["size"] - len(group["ids"][:_NAMED])
    return ", ".join(group["ids"][:_NAMED]) + (f" and {rest:,} more" if rest else "")


def _compare_labels(group: Mapping[str, Any]) -> str:
    """Whether the labeled items of a group of near-duplicates have the same labels."""
    if group["differ"]:
        return "differ"
    return {0: "none labeled", 1: "one labeled"}.get(group["labeled"], "equal")


def _more(total: int, what: str, file: str = "", listed: int = 0) -> str:
    """How many rows of a table are shown, if not all, and how many the CSV file has."""
    if total <= _ROWS:
        return ""
    rows = "all" if listed == total else f"{listed:,}"
    return f"The first {_ROWS} of {total:,} {what}{f'; {file} lists {rows}' if file else ''}."

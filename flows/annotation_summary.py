"""The summary of `annotate`: a record for scripts, tables and sentences for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.annotate import AnnotationResult, ChosenModel, is_baseline, name_model
from flows.runner import RunResult
from flows.summary import stage_states
from storage.artifacts.annotations import Annotations
from tasks.annotation.files import Margins, WrittenLabels
from tasks.annotation.findings import DOUBTFUL, NONE, VOID, finite
from tasks.report.tables import Table

_LISTED = 10
_DOUBTFUL = 5
# Labels with fewer carriers are expected to be worse than the others, and their expectations are uncertain.
_FEW_CARRIERS = 5


@dataclass(frozen=True, eq=False)
class AnnotationSummary:
    """What an annotation made, for both forms of the summary.

    `given` is the number of items with labels, if only the others were annotated; `notes` are problems that
    did not stop the reader.
    """

    result: RunResult[AnnotationResult]
    model: ChosenModel
    found: Annotations
    skipped: Mapping[str, str]
    files: Sequence[Path]
    labels: WrittenLabels | None = None
    given: int | None = None
    notes: Sequence[tuple[str, str]] = ()

    @property
    def findings(self) -> Mapping[str, Any]:
        """What is known about the labels as a whole."""
        return self.found.findings


def as_record(summary: AnnotationSummary) -> dict[str, Any]:
    """Return the summary as plain data."""
    model, found, result = summary.model, summary.found, summary.result
    champion, findings = model.champion, summary.findings
    return {
        "run_id": model.info.parent_id,
        "method": model.info.method,
        "champion": {
            "model": champion.name,
            "version": champion.version,
            "plain_baseline": is_baseline(champion),
        }
        if champion
        else None,
        "items": len(found.ids),
        "labels": found.counts(),
        "expected": findings["labels"],
        "expectations_missing": findings["expectations"],
        "labeled_items": findings["labeled_items"],
        "items_apart": findings.get("items_apart", 0),
        "promise": findings["promise"],
        "drift": findings["drift"],
        "links": findings.get("links"),
        "doubtful": _doubtful(found, _LISTED),
        "given": summary.given,
        "labels_file": _describe_file(summary.labels) if summary.labels else None,
        "skipped": [{"file": name, "reason": reason} for name, reason in summary.skipped.items()],
        "notes": [{"file": name, "message": text} for name, text in summary.notes],
        "files": [str(file) for file in summary.files],
        "run": result.run_id,
        "changes": dict(result.changes) if result.changes else None,
        "damaged": [one.to_json() for one in result.damaged],
        "prefect": {"problem": result.unrecorded},
        "stages": stage_states(result),
    }


def _describe_file(labels: WrittenLabels) -> dict[str, Any]:
    return {
        "file": str(labels.file),
        "given": labels.given,
        "predicted": labels.predicted,
        "without": labels.without,
    }


def _doubtful(found: Annotations, most: int) -> list[dict[str, Any]]:
    """The most doubtful items, each with the label closest to being decided otherwise."""
    margins = Margins(found)
    return [
        {
            "id": found.ids[row],
            "label": found.label_names[margins.doubts[row].label],
            "score": float(found.scores[row, margins.doubts[row].label]),
            "margin": finite(margins.doubts[row].margin),
            "given": bool(found.labels[row, margins.doubts[row].label]),
        }
        for row in margins.order[:most]
        if finite(margins.doubts[row].margin) is not None
    ]


def as_text(summary: AnnotationSummary) -> list[str | Table]:
    """Return the summary for a terminal."""
    found, findings = summary.found, summary.findings
    rest = (
        "" if summary.given is None else f" without labels (the labels of {summary.given} others were kept)"
    )
    head = f"{len(found.ids)} items{rest} annotated by {name_model(summary.model)}"
    lines: list[str | Table] = [head, "", *_label_table(findings["labels"], len(found.ids), findings), ""]
    if findings.get("links"):
        lines.append(f"links      {findings['links']['sentence']}")
    lines += _promise_lines(findings["promise"], findings["drift"])
    lines += _drift_lines(findings["drift"], findings["promise"])
    lines += [*_doubt_lines(found), *_skipped_lines(summary.skipped), *_note_lines(summary.notes)]
    if summary.labels:
        lines += _file_lines(summary.labels)
    return [*lines, *(f"written    {file}" for file in summary.files)]


def _label_table(
    labels: Sequence[Mapping[str, Any]], items: int, findings: Mapping[str, Any]
) -> list[str | Table]:
    """How often each label was given, what to expect of it, and which labels to check."""
    shown = [one for one in labels if one["given"]]
    expected = findings["expectations"] is None
    header = ("label", "given", *(("precision", "recall") if expected else ()), "")
    rows = tuple(
        (
            str(one["label"]),
            f"{one['given']} of {items}",
            *((_share(one["expected_precision"]), _share(one["expected_recall"])) if expected else ()),
            _remark(one),
        )
        for one in shown
    )
    last = len(header) - 1
    lines: list[str | Table] = []
    if rows:
        lines.append(Table(header, rows, texts=frozenset({last})))
    if expected and rows:
        lines.append(
            f"Precision and recall are expected, from scores of {findings['labeled_items']} labeled items by "
            f"models that had not seen them.{_apart(findings.get('items_apart', 0))}"
        )
    if not expected:
        lines.append(str(findings["expectations"]))
    unused = len(labels) - len(shown)
    if unused:
        verb = "was" if unused == 1 else "were"
        lines.append(f"{unused} of {len(labels)} labels {verb} given to no item.")
    return lines


def _apart(items: int) -> str:
    """Say that labeled items of classes that the model does not have count as wrong."""
    if not items:
        return ""
    count = "One more has a class" if items == 1 else f"{items} more have classes"
    return f" {count} that the model does not have; what it gives them counts as wrong."


def _remark(one: Mapping[str, Any]) -> str:
    """Why a label should be checked; empty if there is no reason."""
    reasons = []
    if one["implausible"]:
        reasons.append(f"{one['times_share']:.0f} times its share")
    if one["check"] and one["carriers"] is not None and one["carriers"] < _FEW_CARRIERS:
        reasons.append(f"only {one['carriers']} labeled items carry it")
    if not one["check"]:
        return ""
    return "check these" + (f": {', '.join(reasons)}" if reasons else "")


def _promise_lines(promise: Mapping[str, Any] | None, drift: Mapping[str, Any] | None) -> list[str]:
    if promise is None:
        return []
    percent = f"{100 * promise['precision']:.4g} %"
    if promise["state"] == VOID:
        assert drift is not None
        lines = [
            f"PROMISE VOID  {drift['sentence']} Check every label that was written. For items like the "
            f"labeled ones it would be: {promise['sentence']}"
        ]
    elif promise["state"] == NONE:
        lines = [f"NO PROMISE  No label was written. {promise['sentence']}"]
    elif promise["state"] == DOUBTFUL:
        lines = [f"promise    DOUBTFUL, see drift below. {promise['sentence']}"]
    else:
        lines = [f"promise    {promise['sentence']}"]
    abstained = promise["abstained"]
    if abstained:
        count = "1 label is" if len(abstained) == 1 else f"{len(abstained)} labels are"
        lines.append(
            f"abstained  {count} never written: no suggestion for a labeled item was sure enough. A promise "
            f"of {percent} on the label alone would need, if its precision stays as it is:"
        )
        lines += _needs(abstained)
    return lines


def _needs(abstained: Sequence[Mapping[str, Any]]) -> list[str]:
    """What labels without a promise lack; those that labeled items alone may not help share a line."""
    counted = [one for one in abstained if one["more_labeled_items"] is not None]
    lines = [
        f"  {one['label']}: about {_roughly(one['more_labeled_items'])} more labeled items" for one in counted
    ]
    lines = [*lines[:_LISTED], *_and_more(len(lines))]
    hopeless = [str(one["label"]) for one in abstained if one["more_labeled_items"] is None]
    if hopeless:
        more = f" and {len(hopeless) - _LISTED} more" if len(hopeless) > _LISTED else ""
        names = ", ".join(hopeless[:_LISTED]) + more
        lines.append(f"  {names}: too many suggestions are wrong, more labeled items alone may not help")
    return lines


def _roughly(count: int) -> str:
    """A guess with two digits: 13,043 is 13,000."""
    return f"{int(float(f'{count:.2g}')):,}"


def _and_more(count: int) -> list[str]:
    return [f"  and {count - _LISTED} more (--json lists all)"] if count > _LISTED else []


def _drift_lines(drift: Mapping[str, Any] | None, promise: Mapping[str, Any] | None) -> list[str]:
    if drift is None:
        return []
    # A void promise has said it.
    lines = [] if promise and promise["state"] == VOID else [f"drift      {drift['sentence']}"]
    for kind, unit in (("blocks", "AUC"), ("features", "standard deviations")):
        moved = [f"{one['name']} ({_size(one['size'], kind)})" for one in drift[kind]]
        if moved:
            lines.append(f"moved      {kind}, in {unit}: {', '.join(moved)}")
    return lines


def _size(size: float | None, kind: str) -> str:
    if size is None:
        return "constant before"
    return f"{size:.2f}" if kind == "blocks" else f"{size:+.1f}"


def _doubt_lines(found: Annotations) -> list[str]:
    doubtful = _doubtful(found, _DOUBTFUL)
    if not doubtful:
        return []
    lines = ["doubtful   the items closest to another decision (all: column doubt_rank):"]
    for one in doubtful:
        verb = "given" if one["given"] else "not given"
        lines.append(
            f"  {one['id']}: {one['label']} {verb}, score {one['score']:.3f}, margin {one['margin']:+.3f}"
        )
    return lines


def _skipped_lines(skipped: Mapping[str, str]) -> list[str]:
    if not skipped:
        return []
    listed = [f"  {name}: {reason}" for name, reason in list(skipped.items())[:_LISTED]]
    return [f"{len(skipped)} skipped:", *listed, *_and_more(len(skipped))]


def _note_lines(notes: Sequence[tuple[str, str]]) -> list[str]:
    listed = [f"  {name}: {text}" for name, text in notes[:_LISTED]]
    count = "1 note:" if len(notes) == 1 else f"{len(notes)} notes:"
    return [count, *listed, *_and_more(len(notes))] if notes else []


def _file_lines(labels: WrittenLabels) -> list[str]:
    counts = f"{labels.given} given, {labels.predicted} predicted, {labels.without} without labels"
    return [
        f"labels     {labels.file} ({counts}); use them with --set source.labels={labels.file}",
    ]


def _share(value: float | None) -> str:
    """A share with two decimals, as .92; an en dash if it is unknown."""
    if value is None:
        return "–"
    return f"{value:.2f}".removeprefix("0") if value < 1 else "1.00"

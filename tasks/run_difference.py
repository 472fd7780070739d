"""The difference of two tracked runs: settings, data, code and library versions, scores."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from embedding_core.model_selection.significance import Lead
from tasks.comparison import MethodRow, sort_rows
from tasks.report.ranking import LOWER_IS_BETTER, Entry, compare_entries, metric_arrow, metric_title
from tasks.report.tables import Table
from tasks.stages.tracking import DIGEST_TAG

_CODE_TAG, _VERSION_TAG = "labelscape.code.", "labelscape.version."
_DATA = "data."
_DIGEST, _SHOWN_DIGITS = re.compile(r"[0-9a-f]{32,}"), 12
# A setting that only runs of `auto` record.
_CANDIDATES = "auto.candidates"
# If these are equal, both runs have the same folds.
_FOLDS = ("evaluation.folds", "evaluation.seed")
_LABELS = (f"{DIGEST_TAG}labels", f"{DIGEST_TAG}manifest", f"{DIGEST_TAG}ingest")

FoldScores = Callable[[MethodRow, str], Mapping[int, float]]
"""Finds the scores of a row in a metric by fold."""


@dataclass(frozen=True)
class Change:
    """Something that differs: its name, and the value in the first and in the second run."""

    name: str
    first: str
    second: str

    @property
    def text(self) -> str:
        """For people: of digests, their beginning."""
        first, second = (
            one[:_SHOWN_DIGITS] if _DIGEST.fullmatch(one) else one for one in (self.first, self.second)
        )
        return f"{self.name}: {first} → {second}"


@dataclass(frozen=True)
class ScoreChange:
    """The scores of a method in both runs; `lead` of the second run, None if the folds differ."""

    title: str
    first: str
    second: str
    lead: Lead | None


@dataclass(frozen=True)
class RunDifference:
    """Everything that differs between two runs."""

    settings: list[Change]
    data: list[Change]
    code: list[Change]
    versions: list[Change]
    metric: str
    scores: list[ScoreChange]
    only_first: list[str]
    only_second: list[str]
    same_folds: bool


def pick_pair(
    newest_first: Sequence[list[MethodRow]],
) -> tuple[list[MethodRow], list[MethodRow]] | None:
    """The newest two runs of one kind, else of any; the older comes first.

    A refresh tracks a run and a model selection; their settings and scores are not meant to be compared.
    """
    for place, newer in enumerate(newest_first):
        for older in newest_first[place + 1 :]:
            if _is_selection(older) == _is_selection(newer):
                return older, newer
    return (newest_first[1], newest_first[0]) if len(newest_first) > 1 else None


def _is_selection(rows: Sequence[MethodRow]) -> bool:
    return _CANDIDATES in rows[0].run.run_params


def compare_runs(
    first: Sequence[MethodRow], second: Sequence[MethodRow], metric: str, fold_scores: FoldScores
) -> RunDifference:
    """Compare the rows of two runs."""
    ours, theirs = first[0].run, second[0].run
    settings = _changes(ours.run_params, theirs.run_params)
    same_folds = _have_same_folds(first[0], second[0])
    by_title = {row.title: row for row in second}
    ours_best_first = sort_rows([row for row in first if row.title in by_title], metric)
    shared = [(row, by_title[row.title]) for row in ours_best_first]
    return RunDifference(
        settings=[one for one in settings if not one.name.startswith((_DATA, "best_method"))],
        data=[
            *(one for one in settings if one.name.startswith(_DATA)),
            *_tag_changes(ours.run_tags, theirs.run_tags, DIGEST_TAG, ("manifest", "ingest", "labels")),
        ],
        code=_tag_changes(ours.run_tags, theirs.run_tags, _CODE_TAG),
        versions=_tag_changes(ours.run_tags, theirs.run_tags, _VERSION_TAG),
        metric=metric,
        scores=[_score_change(*pair, metric, fold_scores, same_folds) for pair in shared],
        only_first=[row.title for row in first if row.title not in by_title],
        only_second=[row.title for row in second if row.title not in {one.title for one in first}],
        same_folds=same_folds,
    )


def _have_same_folds(first: MethodRow, second: MethodRow) -> bool:
    """Whether both runs split the same labels in the same way."""
    ours, theirs = first.run, second.run
    labels = [name for name in _LABELS if name in ours.run_tags and name in theirs.run_tags]
    same_labels = bool(labels) and ours.run_tags[labels[0]] == theirs.run_tags[labels[0]]
    return same_labels and all(ours.run_params.get(name) == theirs.run_params.get(name) for name in _FOLDS)


def _changes(first: Mapping[str, str], second: Mapping[str, str]) -> list[Change]:
    names = sorted({*first, *second})
    pairs = ((name, first.get(name, "–"), second.get(name, "–")) for name in names)
    # An empty table beside its entries is no difference of its own.
    return [Change(*one) for one in pairs if one[1] != one[2] and "{}" not in one]


def _tag_changes(
    first: Mapping[str, str], second: Mapping[str, str], prefix: str, only: Sequence[str] = ()
) -> list[Change]:
    def own(tags: Mapping[str, str]) -> dict[str, str]:
        found = {name.removeprefix(prefix): value for name, value in tags.items() if name.startswith(prefix)}
        return {name: value for name, value in found.items() if not only or name in only}

    return [one for one in _changes(own(first), own(second)) if "–" not in (one.first, one.second)]


def _score_change(
    first: MethodRow, second: MethodRow, metric: str, fold_scores: FoldScores, paired: bool
) -> ScoreChange:
    lead = None
    if paired:
        before, after = (
            Entry(row.run.method, row.classifier, {metric: fold_scores(row, metric)})
            for row in (first, second)
        )
        found = compare_entries(after, before, metric)
        lead = found if found.folds > 1 else None
    return ScoreChange(first.title, first.text(metric), second.text(metric), lead)


def score_table(difference: RunDifference) -> Table:
    """The scores of both runs side by side, and whether they differ by more than noise."""
    title = f"{metric_title(difference.metric)} {metric_arrow(difference.metric)}"
    lower = difference.metric in LOWER_IS_BETTER
    rows = tuple((one.title, one.first, one.second, *_describe(one.lead, lower)) for one in difference.scores)
    compared = (
        "compared fold by fold; better or worse: by more than noise"
        if difference.same_folds
        else "the labels or the folds differ, so scores cannot be compared fold by fold"
    )
    header = ("method", "first", "second", "difference", "noise")
    return Table(header, rows, f"{title}; {compared}", texts=frozenset({3}))


def _describe(lead: Lead | None, lower_is_better: bool) -> tuple[str, str]:
    """The difference of the scores, marked if it is more than noise, and the noise."""
    if lead is None:
        return "–", "–"
    if lead.mean == 0 and lead.spread == 0:
        return "none", "–"
    beyond = abs(lead.mean) > lead.needed  # a lead is one-sided; here a loss counts as well
    verdict = (" better" if lead.mean > 0 else " worse") if beyond else ""
    difference = -lead.mean if lower_is_better else lead.mean
    return f"{difference:+.3f}{verdict}", f"{lead.needed:.3f}"

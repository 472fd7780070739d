"""What labels gained: forecasts, the scores of models over the number of labels, and both side by side.

A small file of the home folder keeps the last forecast and the last model of each collection; the curve over
the number of labels is a run of MLflow.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embedding_core.model_selection.significance import Lead
from storage.artifacts.disk import read_if_there, store_errors, write_atomically
from storage.artifacts.labeled_items import LabeledItems, load_labeled_items
from storage.tracking.client import Tracker
from storage.tracking.curve import LabelCurve
from tasks.report.ranking import metric_title
from tasks.runs import source_id
from tasks.settings import SourceSettings

if TYPE_CHECKING:
    from embedding_core.annotator import Annotator
    from embedding_core.label_care.forecast import GainForecast
    from embedding_core.label_care.gains import Judgment

MORE = 100
"""Labels that a forecast adds."""


@dataclass(frozen=True)
class Gain:
    """What changed labels gained.

    Attributes
    ----------
    labels_before, labels : int
        Labeled items of the model before and now.
    relabeled : int
        Items that both know, with other labels now.
    common : int
        Items that both know.
    old, new : float
        The metric of both models on these, judged by the labels as they are now, as means over the folds.
    score_before, score : float
        The metric of each model on its own labeled items.
    forecast : tuple of float or None
        Forecast gain and its interval for this many labels.
    lead : Lead or None
        Of the present model on the common items, fold by fold; None if there are fewer than two folds.
    metric, model : str
        The metric, and the name of the model if there are several.
    """

    labels_before: int
    labels: int
    relabeled: int
    common: int
    old: float
    new: float
    score_before: float
    score: float
    forecast: tuple[float, float, float] | None = None
    lead: Lead | None = None
    metric: str = "macro_f1"
    model: str = ""

    @property
    def happened(self) -> float:
        """The gain in the metric, each model on its own labeled items."""
        return self.score - self.score_before

    def lines(self, width: int) -> list[str]:
        """Sentences for the terminal after a first word of this width."""
        texts = self.sentences()
        return [f"{'' if place else 'gained':<{width}}{text}" for place, text in enumerate(texts)]

    def sentences(self) -> list[str]:
        """What was gained, and what was forecast."""
        added = self.labels - self.labels_before
        which = f"{self.model}, " if self.model else ""
        where = "" if self.model else " over all items together"  # not the mean over folds
        lines = [
            f"{added:+d} labeled items, {self.relabeled} relabeled: {which}{metric_title(self.metric)}"
            f"{where} {self.score_before:.3f} → {self.score:.3f} ({self.happened:+.3f})"
        ]
        if self.common:
            lines.append(
                f"on the {self.common} items that both models know, by the present labels: "
                f"{self.old:.3f} → {self.new:.3f} ({self.new - self.old:+.3f}{_noise(self.lead)})"
            )
        if self.forecast is not None and added > 0:
            gain, low, high = self.forecast
            inside = "inside" if low <= self.happened <= high else "outside"
            lines.append(
                f"forecast for {added} more labels: {gain:+.3f}, between {low:+.3f} and {high:+.3f}; "
                f"what happened is {inside}"
            )
        return lines


def _noise(lead: Lead | None) -> str:
    """Whether a difference, in either direction, is more than noise."""
    if lead is None:
        return ""
    return f", {'more than' if abs(lead.mean) > lead.needed else 'within'} noise ({lead.needed:.3f})"


def forecast_for(annotator: "Annotator", labeled: LabeledItems) -> "GainForecast":
    """Forecast what 100 more labels gain in macro F1; InvalidInput if too few items are labeled."""
    from embedding_core.label_care.forecast import forecast_gains

    X = annotator.prepare_features(labeled.X)
    return forecast_gains(X, labeled.labels[labeled.rows], MORE)["macro_f1"]


def forecast_sentence(made: "GainForecast", label_names: list[str]) -> str:
    """The forecast in words."""
    best = "" if made.best_label is None else f"; {label_names[made.best_label]} gains most"
    return (
        f"{made.more} more labels, drawn at random: macro F1 about {made.gain:+.3f}, between {made.low:+.3f} "
        f"and {made.high:+.3f}{best}"
    )


def keep_forecast(home: Path, source: SourceSettings, made: "GainForecast") -> None:
    """Keep a forecast until a model with more labels exists."""
    _save(home, source, {**_load(home, source), "forecast": asdict(made)})


def settle_gain(
    home: Path, source: SourceSettings, experiment: str, run_id: str, tracker: Tracker
) -> Gain | None:
    """Compare a new model with the last one of the collection, and add it to the curve.

    None if there is no earlier model, the labels are the same, or a model has no out-of-fold scores.
    """
    known = _load(home, source)
    if known.get("run_id") == run_id:
        return None
    items = _labeled(tracker, run_id)
    if items is None or items.scores is None:
        return None
    score = _macro_f1(items)
    gain = _compare(known, items, score, tracker)
    LabelCurve(tracker, experiment).add(
        items.total, {"macro_f1": score, **_forecast_points(known, items, gain)}
    )
    forecast = {} if gain else {"forecast": known.get("forecast")}
    _save(home, source, {"run_id": run_id, "labels": items.total, "macro_f1": score, **forecast})
    return gain


def _compare(known: Mapping[str, Any], items: LabeledItems, score: float, tracker: Tracker) -> Gain | None:
    before = _labeled(tracker, known["run_id"]) if "run_id" in known else None
    if before is None or before.scores is None:
        return None
    place = {name: row for row, name in enumerate(items.ids)}
    shared = [(place[name], row) for row, name in enumerate(before.ids) if name in place]
    now = [row for row, _ in shared]
    then = [row for _, row in shared]
    names = [name for name in before.label_names if name in items.label_names]
    new_columns = [items.label_names.index(name) for name in names]
    old_columns = [before.label_names.index(name) for name in names]
    changed = (items.labels[np.ix_(now, new_columns)] != before.labels[np.ix_(then, old_columns)]).any(axis=1)
    relabeled = int(changed.sum())
    if not relabeled and items.total == before.total and len(shared) == len(items.ids):
        return None
    truth = items.labels[np.ix_(now, new_columns)]
    made = known.get("forecast")
    gain = Gain(
        before.total,
        items.total,
        relabeled,
        *(0, 0.0, 0.0),
        float(known["macro_f1"]),
        score,
        _forecast_at(made, items.total) if made else None,
    )
    old, new = _judge(before, then, old_columns), _judge(items, now, new_columns)
    assert items.folds is not None  # an item with scores has a fold
    return judge_common(gain, truth, old, new, items.folds[now])


def judge_common(gain: Gain, truth: Any, old: "Judgment", new: "Judgment", folds: Any) -> Gain:
    """The gain with the comparison of both models on the items that both know."""
    from embedding_core.label_care.gains import paired_gain

    if not truth.size:
        return gain
    found = paired_gain(truth, old, new, folds, gain.metric)
    lead = found.lead if found.lead.folds > 1 else None
    return replace(gain, common=len(truth), old=found.old, new=found.new, lead=lead)


def _forecast_at(made: Mapping[str, Any], rows: int) -> tuple[float, float, float]:
    from embedding_core.label_care.forecast import GainForecast

    return GainForecast(**made).gain_at(rows)


def _forecast_points(known: Mapping[str, Any], items: LabeledItems, gain: Gain | None) -> dict[str, float]:
    """The forecast at this number of labels, as points of the curve."""
    if gain is None or gain.forecast is None or gain.labels <= gain.labels_before:
        return {}
    names = ("forecast_macro_f1", "forecast_low", "forecast_high")
    return {name: gain.score_before + value for name, value in zip(names, gain.forecast, strict=True)}


def _macro_f1(items: LabeledItems) -> float:
    """Macro F1 of the out-of-fold decisions on all items."""
    from embedding_core.metrics import multilabel_metrics

    found = _judge(items, range(len(items.ids)), range(len(items.label_names)))
    if not found.decided.size:
        return 0.0
    return multilabel_metrics(items.labels, found.decided, found.scores, skip_absent=True)["macro_f1"]


def _judge(items: LabeledItems, rows: Sequence[int], columns: Sequence[int]) -> "Judgment":
    """Out-of-fold decisions on some rows and labels."""
    from embedding_core.label_care.gains import Judgment
    from embedding_core.model_selection.threshold_tuning import decide_out_of_fold

    assert items.scores is not None
    assert items.folds is not None
    decided = decide_out_of_fold(items.scores, items.labels, items.folds, items.tune_for, items.single_label)
    chosen = np.ix_(rows, columns)
    return Judgment(decided[chosen], items.scores[chosen])


def _labeled(tracker: Tracker, run_id: str) -> LabeledItems | None:
    payload = tracker.labeled_items(run_id) if tracker.exists(run_id) else None
    return None if payload is None else load_labeled_items(payload)


def _file(home: Path, source: SourceSettings) -> Path:
    return home / "label_care" / f"{source_id(source)}.json"


def _load(home: Path, source: SourceSettings) -> dict[str, Any]:
    raw = read_if_there(_file(home, source))
    try:
        known = json.loads(raw) if raw else {}
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}


def _save(home: Path, source: SourceSettings, record: Mapping[str, Any]) -> None:
    with store_errors(home):
        write_atomically(_file(home, source), json.dumps(dict(record)).encode())

"""What labels gained: forecasts, the scores of models over the number of labels, and both side by side.

A small file of the home folder keeps the last forecast and the last model of each collection; the curve over
the number of labels is a run of MLflow.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from storage.artifacts.disk import read_if_there, store_errors, write_atomically
from storage.artifacts.labeled_items import LabeledItems, load_labeled_items
from storage.tracking.client import Tracker
from storage.tracking.curve import LabelCurve
from tasks.runs import source_id
from tasks.settings import SourceSettings

if TYPE_CHECKING:
    from embedding_core.annotator import Annotator
    from embedding_core.label_care.forecast import GainForecast

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
        Macro F1 of both models on these, judged by the labels as they are now.
    score_before, score : float
        Macro F1 of each model on its own labeled items.
    forecast : tuple of float or None
        Forecast gain and its interval for this many labels.
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

    @property
    def happened(self) -> float:
        """The gain in macro F1, each model on its own labeled items."""
        return self.score - self.score_before

    def lines(self) -> list[str]:
        """Sentences for the terminal."""
        added = self.labels - self.labels_before
        lines = [
            f"gained      {added:+d} labeled items, {self.relabeled} relabeled: macro F1 "
            f"{self.score_before:.3f} → {self.score:.3f} ({self.happened:+.3f})"
        ]
        if self.common:
            lines.append(
                f"            on the {self.common} items that both models know, by the present labels: "
                f"{self.old:.3f} → {self.new:.3f} ({self.new - self.old:+.3f})"
            )
        if self.forecast is not None and added > 0:
            gain, low, high = self.forecast
            inside = "inside" if low <= self.happened <= high else "outside"
            lines.append(
                f"            forecast for {added} more labels: {gain:+.3f}, between {low:+.3f} and "
                f"{high:+.3f}; what happened is {inside}"
            )
        return lines


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
    score = _macro_f1(items, items.labels)
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
    return Gain(
        before.total,
        items.total,
        relabeled,
        len(shared),
        _macro_f1(before, truth, then, old_columns),
        _macro_f1(items, truth, now, new_columns),
        float(known["macro_f1"]),
        score,
        _forecast_at(made, items.total) if made else None,
    )


def _forecast_at(made: Mapping[str, Any], rows: int) -> tuple[float, float, float]:
    from embedding_core.label_care.forecast import GainForecast

    return GainForecast(**made).gain_at(rows)


def _forecast_points(known: Mapping[str, Any], items: LabeledItems, gain: Gain | None) -> dict[str, float]:
    """The forecast at this number of labels, as points of the curve."""
    if gain is None or gain.forecast is None or gain.labels <= gain.labels_before:
        return {}
    names = ("forecast_macro_f1", "forecast_low", "forecast_high")
    return {name: gain.score_before + value for name, value in zip(names, gain.forecast, strict=True)}


def _macro_f1(
    items: LabeledItems, Y: Any, rows: list[int] | None = None, columns: list[int] | None = None
) -> float:
    """Macro F1 of out-of-fold decisions on some rows and labels, judged by labels Y."""
    from embedding_core.metrics import multilabel_metrics
    from embedding_core.model_selection.threshold_tuning import decide_out_of_fold

    assert items.scores is not None
    assert items.folds is not None
    decided = decide_out_of_fold(items.scores, items.labels, items.folds, items.tune_for, items.single_label)
    chosen = np.ix_(
        range(len(items.ids)) if rows is None else rows,
        range(len(items.label_names)) if columns is None else columns,
    )
    if not chosen[0].size or not chosen[1].size:
        return 0.0
    return multilabel_metrics(Y, decided[chosen], items.scores[chosen], skip_absent=True)["macro_f1"]


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

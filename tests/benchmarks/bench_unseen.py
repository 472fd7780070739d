"""What `auto` announces, and what is true on rows that it never saw, beside the plain baselines.

    python -m tests.benchmarks.bench_unseen [--sets A,B] [--draws N] [--seed S] [--training ROWS]

For each set, draw and metric: the announced score of auto's choice (mean over folds of the training rows) and
its true score on the test rows; the true score of the plain baseline with the best announced score, and the
best true score of any plain baseline. Every model is fitted and decides as `annotate` would use it. The
budget does not end, so that a busy machine gives the same table. Needs the data sets beside the project;
prints one Markdown table, and a line for every case where the choice is more than .005 behind.
"""

import argparse
import csv
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from embedding_core.annotator import SKOPS_TRUSTED_TYPES
from embedding_core.metrics import multilabel_metrics
from flows.config import load_config
from flows.pipeline import TrainingPlan
from flows.runner import Run
from flows.selection import SelectionPlan, SelectionResult
from flows.session import Session
from flows.stages import StageSelection
from flows.stores import open_store
from storage.artifacts.models import load_model
from tasks.dataset import Dataset, load_dataset
from tasks.report.ranking import LOWER_IS_BETTER
from tasks.reporter import Reporter
from tasks.selection.choice import CandidateResult
from tasks.selection.out_of_fold import Tuning, learn_thresholds
from tasks.stages.embedding import load_model_payload

DATA = Path(__file__).parents[3] / "shared" / "data"
METRICS = ("macro_f1", "micro_f1", "lrap", "hamming_loss")
TOLERANCE = 0.005
Rows = np.ndarray
Write = Callable[[str, Rows, Path], Path]
"""Writes some rows of a set to a folder and returns the source."""


@dataclass(frozen=True)
class RealSet:
    """Number of rows, of training and test rows, and how rows are written."""

    rows: Callable[[str], Rows]
    training: int
    test: int
    write: Write
    settings: tuple[str, ...] = ()


def all_rows(name: str) -> Rows:
    return np.arange(pq.read_metadata(DATA / name / f"{name}.parquet").num_rows)


def write_table(name: str, rows: Rows, folder: Path) -> Path:
    """Write features and labels of a table; corel5k with its 60 most frequent labels."""
    table = pq.read_table(DATA / name / f"{name}.parquet")
    labels = [column for column in table.column_names if column.startswith("label:")]
    if name == "corel5k":
        labels.sort(key=lambda column: -sum(table[column].to_pylist()))
        labels = labels[:60]
    features = [column for column in table.column_names if column[0] == "f" and column[1:].isdigit()]
    ids = pa.array([f"row{row}" for row in rows])
    chosen = table.select([*features, *labels]).take(pa.array(rows)).add_column(0, "id", ids)
    pq.write_table(chosen, folder / f"{name}.parquet")
    return folder / f"{name}.parquet"


def text_rows(name: str) -> Rows:
    """1,500 documents drawn at random among those of the papers."""
    table = pq.read_table(DATA / name / f"{name}_labels.parquet", columns=["paper_subset"])
    known = np.flatnonzero(table["paper_subset"].to_numpy())
    return np.sort(np.random.default_rng(0).permutation(known)[:1500])


def write_counts(name: str, rows: Rows, folder: Path) -> Path:
    """Write sparse counts with labels beside them; yahoo_science with its 22 frequent labels."""
    counts = sp.csr_array(sp.load_npz(DATA / name / f"{name}_X.npz"))
    table = pq.read_table(DATA / name / f"{name}_labels.parquet")
    labels = [column for column in table.column_names if column.startswith("label:")]
    labels = [column for column in labels if sum(table[column].to_pylist()) >= 100] or ["class"]
    ids = pa.array([f"row{row}" for row in rows])
    sp.save_npz(folder / f"{name}_X.npz", counts[rows])
    pq.write_table(
        table.select(labels).take(pa.array(rows)).add_column(0, "id", ids), folder / f"{name}_labels.parquet"
    )
    return folder / f"{name}_X.npz"


def picture_rows(name: str) -> Rows:
    return np.arange(len(_picture_labels(name)))


def _picture_labels(name: str) -> list[list[str]]:
    with (DATA / name / "labels.csv").open(encoding="utf-8", newline="") as file:
        return sorted(list(csv.reader(file))[1:])


def write_pictures(name: str, rows: Rows, folder: Path) -> Path:
    """Copy pictures with a labels.csv; `horse`, which three photos have, is left out."""
    known = _picture_labels(name)
    (folder / name).mkdir()
    with (folder / name / "labels.csv").open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["filename", "labels"])
        for row in rows:
            picture, labels = known[row]
            out.writerow([picture, "|".join(one for one in labels.split("|") if one != "horse")])
            shutil.copy(DATA / name / "images" / picture, folder / name / picture)
    return folder / name


SETS = {
    "emotions": RealSet(all_rows, 300, 293, write_table),
    "scene": RealSet(all_rows, 600, 1000, write_table),
    "yeast": RealSet(all_rows, 600, 1000, write_table),
    "mediamill_reduced": RealSet(all_rows, 600, 1000, write_table),
    "corel5k": RealSet(all_rows, 800, 1000, write_table),
    "msrc_v2": RealSet(
        picture_rows,
        400,
        191,
        write_pictures,
        ("features.extractors=color_moments", "features.color_moments.color_space=auto"),
    ),
    "yahoo_science": RealSet(text_rows, 750, 750, write_counts),
    "tdt2": RealSet(text_rows, 750, 750, write_counts),
}


@dataclass(frozen=True)
class Outcome:
    """One metric on one draw of a set."""

    name: str
    metric: str
    winner: str
    announced: float
    true: float
    plain: str
    plain_announced: float
    plain_true: float
    best_plain: str
    best_true: float

    @property
    def lead(self) -> float:
        """By how much the choice is ahead of the plain baseline picked on training rows."""
        sign = -1 if self.metric in LOWER_IS_BETTER else 1
        return sign * (self.true - self.plain_true)


def measure_set(name: str, seed: int, folder: Path, most: int | None = None) -> Iterator[Outcome]:
    """Select a model for each metric on training rows, and measure every plain baseline on test rows too.

    `most` limits the number of training rows.
    """
    wanted = SETS[name]
    order = np.random.default_rng([seed, len(name)]).permutation(wanted.rows(name))
    training = min(wanted.training, most or wanted.training)
    parts = np.sort(order[:training]), np.sort(order[wanted.training :][: wanted.test])
    sources = []
    for part, rows in zip(("train", "test"), parts, strict=True):
        (folder / part).mkdir(parents=True)
        sources.append(wanted.write(name, rows, folder / part))
    home = folder / "home"
    train, test = (_features(source, home, wanted.settings) for source in sources)
    scored: dict[str, UnseenScores] = {}
    for metric in METRICS:
        settings = (*wanted.settings, f"evaluation.sort_by={metric}")
        made = _select(sources[0], home, settings).choice
        announced = {one.name: _mean(one.rows, metric) for one in made.results if one.state == "scored"}
        true = {}
        for one in made.scored:
            if not (one.candidate.plain or one is made.winner):
                continue
            if one.name not in scored:
                scored[one.name] = _score_test(sources[0], home, wanted.settings, one.name, test)
            true[one.name] = scored[one.name].measure(one, made.tune_for, train, metric, home)
        plain = [one.name for one in made.scored if one.candidate.plain]
        sign = -1 if metric in LOWER_IS_BETTER else 1
        picked = max(plain, key=lambda one: sign * announced[one])
        best = max(plain, key=lambda one: sign * true[one])
        winner = made.winner.name
        yield Outcome(
            name,
            metric,
            winner,
            announced[winner],
            true[winner],
            picked,
            announced[picked],
            true[picked],
            best,
            true[best],
        )


@dataclass(frozen=True)
class UnseenScores:
    """Scores of the test rows by a model fitted on all training rows, which is the same for all metrics."""

    classes: Sequence[str]
    single_label: bool
    scores: np.ndarray
    labels: np.ndarray

    def measure(
        self, found: CandidateResult, tune_for: str, train: Dataset, metric: str, home: Path
    ) -> float:
        """Decide by the thresholds that the model of `auto` keeps, over the labels that it has."""
        from embedding_core.knn_classifier import decide_labels
        from embedding_core.model_selection.thresholds import exceed_thresholds

        decided = decide_labels(self.scores, self.single_label)
        if tune_for != "hamming":
            assert found.ref
            known = replace(train, Y=_columns(train, self.classes), label_names=list(self.classes))
            store = open_store(_config(home, home, ()))
            decided = exceed_thresholds(
                self.scores, learn_thresholds(Tuning(tune_for, found.ref), known, store)
            )
        return float(multilabel_metrics(self.labels, decided, self.scores)[metric])


def _score_test(source: Path, home: Path, settings: Sequence[str], name: str, test: Dataset) -> UnseenScores:
    found = _select(source, home, (*settings, "evaluation.sort_by=lrap"), name)
    payload = load_model_payload(found.models[name], open_store(_config(home, home, ())))
    assert payload
    model = load_model(payload, SKOPS_TRUSTED_TYPES)
    classes = [str(label) for label in model.classes_]
    return UnseenScores(classes, model.single_label, model.predict_scores(test.X), _columns(test, classes))


def _columns(data: Dataset, classes: Sequence[str]) -> np.ndarray:
    """Labels in the order of a model; 0 for labels that these rows do not have."""
    place = {label: column for column, label in enumerate(data.label_names)}
    Y = np.zeros((len(data.ids), len(classes)), dtype=np.int8)
    for column, label in enumerate(classes):
        if label in place:
            Y[:, column] = data.Y[:, place[label]]
    return Y


def _config(source: Path, home: Path, settings: Sequence[str]) -> Any:
    given = ["tracking.enabled=false", "auto.budget=24h", *settings]
    return load_config(None, given, home=str(home), source={"path": str(source)})


def _features(source: Path, home: Path, settings: Sequence[str]) -> Dataset:
    """Items of a source with their features."""
    config = _config(source, home, settings)
    plan, session = TrainingPlan(config), Session(Reporter())
    done = Run(plan, StageSelection(until="features"), session).run_stages().products
    return load_dataset(open_store(config), done.manifest, done.features)


def _select(source: Path, home: Path, settings: Sequence[str], only: str = "") -> SelectionResult:
    chosen = [f"auto.candidates={only}"] if only else []
    config = _config(source, home, [*settings, *chosen])
    return Run(SelectionPlan(config), session=Session(Reporter())).run_stages().products


def _mean(rows: Sequence[Any], metric: str) -> float:
    return float(np.mean([row.value for row in rows if row.metric == metric]))


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Print a row per set and metric: means over draws."""
    print(
        "\n| set | metric | choice | announced | true | plain, by training | true | plain, by test | true |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(one.name for one in outcomes):
        for metric in METRICS:
            draws = [one for one in outcomes if (one.name, one.metric) == (name, metric)]
            cells = [
                _names(one.winner for one in draws),
                *(f"{np.mean([getattr(one, part) for one in draws]):.3f}" for part in ("announced", "true")),
                _names(one.plain for one in draws),
                f"{np.mean([one.plain_true for one in draws]):.3f}",
                _names(one.best_plain for one in draws),
                f"{np.mean([one.best_true for one in draws]):.3f}",
            ]
            print(f"| {name} | {metric} | {' | '.join(cells)} |", flush=True)


def _names(found: Iterator[str]) -> str:
    return ", ".join(dict.fromkeys(found))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--training", type=int, metavar="ROWS", help="at most this many training rows")
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    for name in options.sets.split(","):
        for seed in range(options.seed, options.seed + options.draws):
            with tempfile.TemporaryDirectory() as folder:
                for one in measure_set(name, seed, Path(folder), options.training):
                    print(one, flush=True)
                    outcomes.append(one)
    print_table(outcomes)
    for one in outcomes:
        if one.lead < -TOLERANCE:
            print(
                f"behind: {one.name} {one.metric}, {one.winner} {one.true:.3f}, "
                f"{one.plain} {one.plain_true:.3f}"
            )


if __name__ == "__main__":
    main()

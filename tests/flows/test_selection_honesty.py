"""`auto` scores candidates as `annotate` uses them, and rare labels do not stop a collection."""

from pathlib import Path

import numpy as np
import pytest

from embedding_core.annotator import Annotator
from embedding_core.evaluation import open_rows, predict_fold
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.registry import get_method
from embedding_core.registry.candidates import CANDIDATES, Candidate
from storage.artifacts.predictions import unpack_predictions
from tests.flows.test_selection import Run, fitted_model, names

SEES_ALL = [one for one in CANDIDATES if get_method(one.method).sees_all_rows and not one.members]


def rows_and_labels(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    Y = (X[:, :3] + 0.5 * rng.normal(size=(n, 3)) > 0).astype(np.int8)
    Y[-10:] = -1
    return X, Y


def write(file: Path, X: np.ndarray, Y: np.ndarray) -> Path:
    """A table with label columns; unlabeled rows have empty cells."""
    labels = np.where(Y < 0, "", Y.astype(str))
    header = [*(f"f{k}" for k in range(X.shape[1])), *(f"label:l{k}" for k in range(Y.shape[1]))]
    lines = [",".join([*map(str, x), *y]) for x, y in zip(X.tolist(), labels, strict=True)]
    file.write_text("\n".join([",".join(header), *lines]) + "\n")
    return file


def fold_scores(run: Run, candidate: str) -> dict[int, np.ndarray]:
    (one,) = [one for one in run.found.choice.results if one.name == candidate]
    assert one.ref
    found = unpack_predictions(run.workspace.store.read(one.ref))
    return {fold: found.scores[found.folds == fold] for fold in np.unique(found.folds).tolist()}


def test_several_candidates_see_all_rows() -> None:
    assert {"kernel_dle", "kernel_dle_few", "projections_knn"} <= {one.name for one in SEES_ALL}


@pytest.mark.slow
@pytest.mark.parametrize("candidate", SEES_ALL, ids=lambda one: one.name)
def test_an_open_fit_does_not_depend_on_the_features_of_held_out_rows(candidate: Candidate) -> None:
    """Moving a test row changes its own scores and no others.

    In a closed fit it changes others, except for Kernel DLE without a graph, which uses labeled rows only.
    """
    X, Y = rows_and_labels()
    train, test = stratified_folds(Y, 4)[0]
    moved = X.copy()
    moved[test[0]] += 50

    def scores(rows: np.ndarray, closed: bool) -> np.ndarray:
        (found,) = predict_fold(candidate.method, candidate.params, rows, Y, train, test, closed=closed)
        return found.scores

    np.testing.assert_array_equal(scores(X, False)[1:], scores(moved, False)[1:])
    change = np.abs(scores(X, True)[1:] - scores(moved, True)[1:]).max()
    assert (change > 1e-6) == (candidate.name in ("kernel_dle_few", "projections_knn"))


@pytest.mark.parametrize("candidate", SEES_ALL, ids=lambda one: one.name)
def test_an_open_fit_is_the_model_that_annotates(candidate: Candidate) -> None:
    X, Y = rows_and_labels()
    train, test = stratified_folds(Y, 4)[0]
    seen = open_rows(len(Y), test)
    assert set(seen) == set(train) | set(range(len(Y) - 10, len(Y)))  # the unlabeled rows too
    model = Annotator(candidate.method, candidate.params).fit(X[seen], Y[seen])
    (found,) = predict_fold(candidate.method, candidate.params, X, Y, train, test, closed=False)
    np.testing.assert_allclose(found.scores, model.predict_scores(X[test]))


@pytest.mark.parametrize("method", ["svm", "mlda_knn", "mlda"])
def test_open_and_closed_are_the_same_for_methods_that_see_training_rows_only(method: str) -> None:
    X, Y = rows_and_labels()
    train, test = stratified_folds(Y, 4)[0]
    pairs = [predict_fold(method, {}, X, Y, train, test, closed=closed) for closed in (True, False)]
    for one, other in zip(*pairs, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)


@pytest.mark.slow
@pytest.mark.parametrize("graph", [(), ("affinity.graph=gaussian",)])
def test_the_graph_of_a_fold_is_built_without_the_held_out_rows(
    tmp_path: Path, graph: tuple[str, ...]
) -> None:
    """The whole command: scores of the fold of a moved item change for that item alone."""
    X, Y = rows_and_labels()
    given = (names("projections_knn", "1nn"), "features.scale=zscore", *graph)
    before = Run(write(tmp_path / "a.csv", X, Y), tmp_path / "a", *given)
    before()
    first = stratified_folds(Y, 4, before.config.evaluation.seed)[0][1]
    X[first[0]] += 20
    after = Run(write(tmp_path / "b.csv", X, Y), tmp_path / "b", *given)
    after()
    pairs = fold_scores(before, "projections_knn"), fold_scores(after, "projections_knn")
    np.testing.assert_array_equal(pairs[0][0][1:], pairs[1][0][1:])
    closed = [
        Run(one.config.source.path, one.workspace.home, *given, "auto.closed=true") for one in (before, after)
    ]
    for one in closed:
        one()
    seen = [fold_scores(one, "projections_knn")[0][1:] for one in closed]
    assert not np.array_equal(*seen)


@pytest.mark.slow
def test_given_edges_of_held_out_rows_are_left_out(tmp_path: Path) -> None:
    X, Y = rows_and_labels()
    table = write(tmp_path / "t.csv", X, Y)
    test = stratified_folds(Y, 4, 0)[0][1]
    links = [(i, (i + step) % len(Y)) for i in range(len(Y)) for step in (1, 2, 7)]
    kept = [(i, j) for i, j in links if not {i, j} & set(test.tolist())]
    scores = []
    for name, edges in (("all", links), ("kept", kept)):
        file = tmp_path / f"{name}.csv"
        file.write_text("\n".join(["source,target", *(f"{i},{j}" for i, j in edges)]) + "\n")
        given = (names("projections_knn", "1nn"), f"source.edges={file}", "evaluation.seed=0")
        run = Run(table, tmp_path / name, *given)
        run()
        scores.append(fold_scores(run, "projections_knn")[0])
    np.testing.assert_allclose(*scores)


@pytest.mark.slow
def test_a_closed_collection_shows_both_figures(tmp_path: Path) -> None:
    X, Y = rows_and_labels()
    table = write(tmp_path / "t.csv", X, Y)
    chosen = names("projections_knn")
    run = Run(table, tmp_path / "home", chosen, "auto.closed=true")
    found = run().choice
    assert found.closed
    assert found.open_result
    assert found.open_result.values("lrap") != found.winner.values("lrap")
    opened = Run(table, tmp_path / "home", chosen)
    assert opened().choice.winner.rows == found.open_result.rows
    assert opened.folds.done == []  # the scores of the closed run are used
    assert opened.found.choice.open_result is None


@pytest.mark.slow
def test_a_closed_collection_or_another_graph_makes_only_methods_stale_that_use_it(tmp_path: Path) -> None:
    X, Y = rows_and_labels()
    table = write(tmp_path / "t.csv", X, Y)
    given = (names("projections_knn", "1nn"), "features.scale=zscore")
    Run(table, tmp_path / "home", *given)()
    for changed in ("auto.closed=true", "affinity.n_neighbors=4", "affinity.sigma=3.0"):
        again = Run(table, tmp_path / "home", *given, changed)
        again()
        assert {method for method, _ in again.folds.done} == {"projections_knn"}, changed


def rare_table(file: Path, single_label: bool) -> Path:
    """Two frequent labels, one of a single item, one of two items."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(48, 4))
    first = X[:, 0] > 0
    Y = np.column_stack([first, ~first, np.arange(48) == 7, np.isin(np.arange(48), [3, 30])]).astype(np.int8)
    if single_label:
        Y[[7, 3, 30], :2] = 0
        classes = np.array(["frequent", "often", "seldom", "twice"])[Y.argmax(axis=1)]
        lines = [",".join([*map(str, x), name]) for x, name in zip(X.tolist(), classes, strict=True)]
        file.write_text("\n".join(["f0,f1,f2,f3,class", *lines]) + "\n")
        return file
    return write(file, X, Y)


ALL = names(*(one.name for one in CANDIDATES if one.name not in ("extra_trees", "rbf_svc")), "svm")


@pytest.mark.slow
@pytest.mark.parametrize("single_label", [True, False])
@pytest.mark.parametrize("rule", ["leave_out", "keep"])
def test_rare_labels_do_not_stop_any_candidate(tmp_path: Path, rule: str, single_label: bool) -> None:
    table = rare_table(tmp_path / "t.csv", single_label)
    run = Run(table, tmp_path / "home", ALL, f"auto.rare_labels={rule}")
    found = run()
    assert "failed" not in run.states.values()
    assert {name for name, _ in found.choice.rare.items} == (
        {"seldom", "twice"} if single_label else {"l2", "l3"}
    )
    model = fitted_model(run, found.choice.winner.name)
    assert len(model.classes_) == (2 if rule == "leave_out" else 4)
    assert model.predict(run.dataset.X).sum(axis=0)[:2].min() > 10
    assert model.predict(run.dataset.X).sum(axis=0)[2:].sum() <= 12


@pytest.mark.slow
@pytest.mark.parametrize("single_label", [True, False])
def test_left_out_labels_leave_the_scores_of_a_collection_without_them(
    tmp_path: Path, single_label: bool
) -> None:
    table = rare_table(tmp_path / "t.csv", single_label)
    given = (names("svm", "mlda_knn"), "source.min_label_count=3")
    without = Run(table, tmp_path / "a", *given)()
    left_out = Run(table, tmp_path / "b", given[0])()
    assert left_out.choice.rare.left_out
    assert not without.choice.rare.items
    for one, other in zip(without.choice.results, left_out.choice.results, strict=True):
        assert one.rows == other.rows


@pytest.mark.slow
def test_the_rule_for_rare_labels_makes_candidates_stale(tmp_path: Path) -> None:
    table = rare_table(tmp_path / "t.csv", single_label=False)
    for rule in ("leave_out", "keep"):
        run = Run(table, tmp_path / "home", names("svm"), f"auto.rare_labels={rule}")
        run()
        assert {"trial[svm]", "candidate[svm]", "choice", "model[svm]"} <= run.computed


def test_a_kept_label_is_in_the_model_and_not_in_the_scores(tmp_path: Path) -> None:
    table = rare_table(tmp_path / "t.csv", single_label=False)
    kept = Run(table, tmp_path / "home", names("svm"), "auto.rare_labels=keep", "evaluation.sort_by=lrap")
    found = kept().choice
    assert fold_scores(kept, "svm")[0].shape[1] == 4
    assert np.mean(found.winner.values("macro_f1")) > 0.7  # below .5 with two labels of F1 0
    assert found.rare.kept


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["macro_f1", "micro_f1"])
def test_shuffled_labels_fall_to_chance(tmp_path: Path, metric: str) -> None:
    """What the winner announces for labels without any relation to the features is what guessing reaches."""
    rng = np.random.default_rng(8)
    X, Y = rows_and_labels(160)
    Y = np.where(Y < 0, 0, Y)[rng.permutation(160)]
    chosen = names(
        "knn_zscore", "logistic_regression", "linear_svm", "mlda_knn", "kernel_dle", "rbf_svc", "svm"
    )
    run = Run(write(tmp_path / "t.csv", X, Y), tmp_path / "home", chosen, f"evaluation.sort_by={metric}")
    choice = run().choice
    everything = 2 * Y.mean(axis=0) / (1 + Y.mean(axis=0))  # F1 of giving a label to every row
    assert np.mean(choice.winner.values(metric)) < everything.mean() + 0.06
    assert choice.lead is None or not choice.lead.beyond_noise

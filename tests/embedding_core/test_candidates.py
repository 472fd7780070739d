"""The candidates of `auto`: data that the registry and the configuration complete."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.errors import InvalidInput
from embedding_core.registry import get_method
from embedding_core.registry.candidates import (
    CANDIDATES,
    KINDS,
    LINKED_CANDIDATES,
    MANY_ITEMS_CANDIDATES,
    MANY_ITEMS_LINKED_CANDIDATES,
    Candidate,
    data_kind,
    pick_candidates,
)
from flows.config import load_config
from flows.line_up import line_up
from storage.artifacts.keys import canonical_json
from tasks.selection.choice import Champion


def champion(candidate: Candidate) -> Champion:
    return Champion(candidate, {}, "1", "r")


def test_every_candidate_builds_and_can_annotate() -> None:
    linked = (*LINKED_CANDIDATES, *MANY_ITEMS_LINKED_CANDIDATES)
    for one in (*CANDIDATES, *MANY_ITEMS_CANDIDATES, *linked):
        method = get_method(one.method)
        assert method.role == "classifier"
        assert method.inductive
        method.build(**one.params)
        canonical_json(one.recipe())
    for several in (CANDIDATES, MANY_ITEMS_CANDIDATES, LINKED_CANDIDATES):
        names = [one.name for one in several]
        assert len(set(names)) == len(names)


def test_what_uses_links_comes_right_after_nearest_neighbors() -> None:
    offered = [one.name for one in pick_candidates(True, (), "occurrences", links=True)]
    assert offered[0] == "cosine_knn"
    assert offered[1:5] == [one.name for one in LINKED_CANDIDATES]
    assert offered[5] == "logistic_regression"


@pytest.mark.parametrize(
    ("params", "ignores"),
    [
        ({"few_labels": False}, True),
        ({}, False),
        ({"few_labels": True}, False),
        ({"few_labels": False, "graph_weight": 0.1}, False),
        ({"few_labels": False, "links": "loo"}, False),
        ({"few_labels": False, "links": "none"}, True),
    ],
)
def test_kernel_dle_uses_the_graph_with_few_labels_a_weight_or_as_links(params: dict, ignores: bool) -> None:
    assert Candidate("one", "kernel_dle", params).ignores_links is ignores


def test_a_name_means_one_candidate() -> None:
    exact = {one.name: one for one in CANDIDATES}
    for one in MANY_ITEMS_CANDIDATES:
        assert exact.get(one.name, one) is one


def test_many_items_have_candidates_that_scale() -> None:
    offered = {kind: pick_candidates(False, (), kind, many=True) for kind in KINDS}
    for several in offered.values():
        assert not {"rbf_svc", "projections_knn", "kernel_dle_few"} & {one.name for one in several}
        for one in several:
            if one.method == "kernel_dle":
                assert one.params["landmarks"] == 500
            assert one.ignores_links  # no graph of many items is built for them
        # two plain baselines and Kernel DLE come first
        kernel_dle = next(place for place, one in enumerate(several) if one.method == "kernel_dle")
        assert sum(one.plain for one in several[:kernel_dle]) == kernel_dle >= 2
    assert "nystrom_svm" in {one.name for one in offered["table"]}
    assert [one.name for one in pick_candidates(False, ("rbf_svc",), many=True)] == ["rbf_svc"]
    linked = {one.name for one in pick_candidates(True, (), "occurrences", links=True, many=True)}
    assert {"harmonic_functions", "kernel_dle_links_landmarks"} <= linked
    assert "kernel_dle_links" not in linked


def test_all_candidates_are_present_and_cheap_ones_come_first() -> None:
    assert [one.name for one in CANDIDATES] == [
        "knn_zscore",
        "cosine_knn",
        "logistic_regression",
        "linear_svm",
        "mlda_knn",
        "kernel_dle_linear",
        "kernel_dle",
        "kernel_dle_cosine",
        "projections_knn",
        "rbf_svc",
        "extra_trees",
        "random_forest",
        "kernel_dle_forest",
        "kernel_dle_few",
    ]
    plain = [one.name for one in CANDIDATES if one.plain]
    assert plain[4:] == ["rbf_svc", "extra_trees", "random_forest"]
    assert [one.name for one in CANDIDATES[:4]] == plain[:4]


def test_candidates_by_kind_of_items() -> None:
    words = np.random.default_rng(0).poisson(0.2, size=(20, 30)).astype(float)
    numbers = np.random.default_rng(0).normal(size=(20, 5))
    assert data_kind(words) == data_kind(sp.csr_array(words), pretrained=True) == "occurrences"
    assert (data_kind(numbers), data_kind(numbers, pretrained=True)) == ("table", "embedding")
    offered = {kind: {one.name for one in pick_candidates(False, (), kind)} for kind in KINDS}
    neighbors = {kind: names & {"cosine_knn", "knn_zscore"} for kind, names in offered.items()}
    assert neighbors == {
        "occurrences": {"cosine_knn"},
        "embedding": {"cosine_knn"},
        "table": {"cosine_knn", "knn_zscore"},
    }
    assert pick_candidates(False, (), "table")[0].name == "knn_zscore"
    assert {one.name for one in CANDIDATES} - offered["occurrences"] == {"knn_zscore", "extra_trees"}
    assert {one.name for one in CANDIDATES} - offered["embedding"] == {"knn_zscore", "kernel_dle_cosine"}
    assert {one.name for one in CANDIDATES} - offered["table"] == {"kernel_dle_cosine"}
    assert [one.name for one in pick_candidates(False, ("knn_zscore",), "occurrences")] == ["knn_zscore"]
    assert [one.name for one in pick_candidates(False, ("ecc",))] == ["ecc"]
    assert pick_candidates(True, ("ecc",)) == []


def test_a_method_of_another_version_is_called_by_its_name() -> None:
    assert Candidate("old", "a_method_of_old").label == "old"
    assert Candidate("random_forest", "random_forest").label == "Random forest"


def test_a_mean_comes_after_its_members_and_is_made_of_the_same() -> None:
    for several in (CANDIDATES, MANY_ITEMS_CANDIDATES):
        for place, one in enumerate(several):
            by_name = {other.name: other for other in several[:place]}
            for name in one.members:
                assert dict(by_name[name].params) == one.params["params"].get(by_name[name].method, {})


def test_names_pick_candidates_and_registered_classifiers() -> None:
    assert [one.name for one in pick_candidates(True)] == [one.name for one in CANDIDATES]
    picked = pick_candidates(True, ("svm", "kernel_dle_linear", "svm"))
    assert [(one.name, one.method) for one in picked] == [("svm", "svm"), ("kernel_dle_linear", "kernel_dle")]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("rbf_scv", "'rbf_scv' is not known. Did you mean rbf_svc"),
        ("mlda", "'mlda' cannot annotate new items by itself. Did you mean mlda_knn"),
        ("spectral_graph_transducer", "'spectral_graph_transducer' cannot annotate"),
    ],
)
def test_names_that_are_no_candidates(name: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        pick_candidates(True, (name,))


def test_parameters_of_the_configuration_reach_candidates_and_the_members_of_a_mean() -> None:
    config = load_config(
        None,
        ["embedding.params.random_forest.n_estimators=7", "embedding.params.kernel_dle.few_labels='auto'"],
    )
    found = {one.name: one for one in line_up(config, True, None)}
    assert found["random_forest"].params == {"n_estimators": 7, "calibrate": True}
    assert found["kernel_dle"].params == {"few_labels": False}
    assert found["kernel_dle_forest"].params["params"] == {
        "kernel_dle": {"few_labels": False},
        "random_forest": {"n_estimators": 7, "calibrate": True},
    }


def test_the_own_tuning_of_a_method_does_not_enter_candidates_or_means() -> None:
    config = load_config(
        None,
        ["embedding.params.kernel_dle.tune_for='macro_f1'", "embedding.params.kernel_dle.landmarks=300"],
    )
    found = {one.name: one for one in line_up(config, False, None)}
    assert found["kernel_dle"].params == {"few_labels": False, "landmarks": 300}
    assert found["kernel_dle_forest"].params["params"]["kernel_dle"] == found["kernel_dle"].params


def test_the_champion_enters_once_and_under_a_name_of_its_own() -> None:
    config = load_config(None, ["auto.candidates=random_forest, rbf_svc"])
    kept = line_up(config, True, champion(Candidate("random_forest", "random_forest", {"calibrate": True})))
    assert [one.name for one in kept] == ["random_forest", "rbf_svc"]
    other = line_up(config, True, champion(Candidate("svm", "svm")))
    assert [one.name for one in other] == ["svm", "random_forest", "rbf_svc"]
    older = Candidate("random_forest", "random_forest", {"n_estimators": 9})
    changed = line_up(config, True, champion(older))
    assert [one.name for one in changed] == ["random_forest_champion", "random_forest", "rbf_svc"]
    assert changed[0].recipe() == older.recipe()
    gone = line_up(config, True, champion(Candidate("x", "a_method_of_old")))
    assert [one.name for one in gone] == ["random_forest", "rbf_svc"]

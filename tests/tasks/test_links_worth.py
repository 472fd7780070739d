"""What the given links of a collection are worth, by the scores of the candidates."""

import pytest

from embedding_core.registry.candidates import CANDIDATES, LINKED_CANDIDATES, Candidate, pick_candidates
from storage.artifacts.schemas import Score
from tasks.selection.choice import CandidateResult, choose
from tasks.selection.links import worth_of_links
from tasks.selection.wording import links_lines

KNOWN = {one.name: one for one in (*CANDIDATES, *LINKED_CANDIDATES)}


def result(name: str, values: list[float], state: str = "scored") -> CandidateResult:
    rows = [
        Score(name, name, fold, metric, value)
        for fold, value in enumerate(values)
        for metric in ("macro_f1", "micro_f1")
    ]
    return CandidateResult(KNOWN[name], state, "", rows)  # type: ignore[arg-type]


def test_the_best_with_links_is_compared_with_the_best_without() -> None:
    results = [
        result("logistic_regression", [0.5, 0.6, 0.7]),
        result("harmonic_functions", [0.6, 0.6, 0.6]),
        result("kernel_dle_links", [0.8, 0.8, 0.8]),
        result("projections_knn", [0.75, 0.75, 0.75]),  # takes the links as its graph
    ]
    choice = choose(results, "macro_f1")
    assert choice is not None
    worth = worth_of_links(choice)
    assert worth is not None
    assert worth.gains == pytest.approx({"macro_f1": 0.2, "micro_f1": 0.2})
    assert (worth.with_links, worth.without) == ("Kernel DLE with links", "Logistic regression, tuned")
    assert links_lines(choice)[0].startswith(
        "links       +0.200 macro F1, +0.200 micro F1: Kernel DLE with links"
    )


def test_a_stopped_candidate_counts_on_its_folds() -> None:
    results = [
        result("logistic_regression", [0.5, 0.5, 0.5]),
        result("kernel_dle_links", [0.8, 0.8, 0.9]),
        result("rbf_svc", [0.7, 0.7], "stopped"),
    ]
    choice = choose(results, "macro_f1")
    assert choice is not None
    worth = worth_of_links(choice)
    assert worth is not None
    assert worth.without == "RBF-SVC, tuned"
    assert worth.gains["macro_f1"] == pytest.approx(0.1)


def test_nothing_is_said_without_links() -> None:
    choice = choose([result("logistic_regression", [0.5, 0.5])], "macro_f1")
    assert choice is not None
    assert worth_of_links(choice) is None
    assert links_lines(choice) == []


def test_candidates_with_links_are_offered_only_for_given_links() -> None:
    with_links, without = (pick_candidates(True, (), "occurrences", links) for links in (True, False))
    assert [one for one in with_links if not one.links] == without
    assert [one for one in with_links if one.links] == list(LINKED_CANDIDATES)
    # What takes less than a second per fold comes first, before linear models of thousands of words.
    names = [one.name for one in with_links]
    assert names[:4] == ["cosine_knn", "harmonic_functions", "local_global_consistency", "kernel_dle_links"]
    assert {one.name for one in with_links if one.links and one.plain} == {
        "harmonic_functions",
        "local_global_consistency",
        "smoothed_logistic_regression",
    }
    assert [one.name for one in pick_candidates(True, ("kernel_dle_links",))] == ["kernel_dle_links"]


@pytest.mark.parametrize(
    ("candidate", "ignores"),
    [
        (KNOWN["kernel_dle"], True),
        (KNOWN["kernel_dle_forest"], True),
        (KNOWN["kernel_dle_few"], False),
        (KNOWN["projections_knn"], False),
        (KNOWN["kernel_dle_links"], False),
        (Candidate("lapsvm", "lapsvm"), False),
        (KNOWN["rbf_svc"], True),
    ],
)
def test_which_candidates_ignore_links(candidate: Candidate, ignores: bool) -> None:
    assert candidate.ignores_links is ignores

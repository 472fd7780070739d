"""How scores moved: the best score decides about a drop, whichever method it belongs to."""

from flows.score_moves import ScoreMove, find_drop, moves_table


def move(method: str, before: float, now: float, metric: str = "macro_f1") -> ScoreMove:
    return ScoreMove("run", method, {metric: before}, {metric: now})


def test_a_weak_method_that_gains_does_not_hide_a_drop() -> None:
    moves = [move("mlda", 0.9, 0.8), move("pca", 0.3, 0.35)]
    assert find_drop(moves, "macro_f1", 0.02) == (
        "macro F1 went from 0.900 to 0.800, more than the tolerance of 0.02"
    )
    assert find_drop(moves, "macro_f1", 0.2) == ""


def test_another_method_may_take_the_place_of_the_best() -> None:
    assert find_drop([move("mlda", 0.9, 0.8), move("pca", 0.3, 0.9)], "macro_f1", 0.02) == ""


def test_of_a_loss_the_smallest_is_the_best() -> None:
    moves = [move("mlda", 0.1, 0.3, "hamming_loss"), move("pca", 0.4, 0.4, "hamming_loss")]
    assert find_drop(moves, "hamming_loss", 0.1) == (
        "Hamming loss went from 0.100 to 0.300, more than the tolerance of 0.1"
    )


def test_methods_that_were_scored_only_once_do_not_count() -> None:
    new, gone = (
        ScoreMove("run", "new", {}, {"macro_f1": 0.1}),
        ScoreMove("run", "gone", {"macro_f1": 0.9}, {}),
    )
    assert find_drop([new, gone], "macro_f1", 0.0) == ""


def test_a_score_that_did_not_move_has_no_sign() -> None:
    rows = moves_table([move("mlda", 0.9, 0.9), move("pca", 0.3, 0.35)], "macro_f1").rows
    assert [row[3] for row in rows] == ["same", "+0.050"]

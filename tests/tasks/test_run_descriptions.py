"""What MLflow's pages say of a run: the best result in words, and the metric that is drawn first."""

import pytest

from storage.tracking.models import MethodRecord
from tasks.stages.tracking import _describe_best, _first

MLDA = MethodRecord(
    "mlda",
    "MLDA",
    metrics={"macro_f1": 0.6, "hamming_loss": 0.1, "10nn/macro_f1": 0.8, "10nn/hamming_loss": 0.3},
    metrics_std={"10nn/macro_f1": 0.02},
    classifier="1nn",
)
SVM = MethodRecord("svm", "Scaled SVM", metrics={"macro_f1": 0.7, "hamming_loss": 0.2}, classifier="svm")


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("macro_f1", "best MLDA, 10NN, macro F1 0.800 ± 0.020"),
        ("hamming_loss", "best MLDA, 1NN, Hamming loss 0.100"),
        ("lrap", ""),
    ],
)
def test_the_best_result_is_that_of_every_classifier(metric: str, said: str) -> None:
    assert _describe_best([SVM, MLDA], metric) == said


def test_a_method_with_its_own_classifier_has_its_plain_title() -> None:
    assert _describe_best([SVM], "macro_f1") == "best Scaled SVM, macro F1 0.700"


def test_the_metric_that_ranks_comes_first() -> None:
    assert list(_first({"a": 1.0, "b": 2.0, "c": 3.0}, "b")) == ["b", "a", "c"]
    assert list(_first({"a": 1.0}, "b")) == ["a"]

"""Classifiers composed of other methods of the registry."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from embedding_core.annotator import Annotator
from embedding_core.checks import check_choice, check_count
from embedding_core.classifiers.baselines import calibrate_votes
from embedding_core.errors import InvalidInput
from embedding_core.evaluation import predict_fold
from embedding_core.knn_classifier import as_labeled_features, decide_labels
from embedding_core.labels import one_label_each
from embedding_core.model_selection.folds import smallest_training_part
from embedding_core.model_selection.inner_choice import choose_scored
from embedding_core.registry import get_method


class ProjectedNeighbors(BaseEstimator):
    """Nearest neighbors in the embedding of a projection; their number is chosen on the training labels.

    Parameters
    ----------
    projection : str
        A projection of the registry that can transform new rows.
    params : mapping, optional
        Its parameters.
    candidates : sequence of int
        Candidate numbers of neighbors; those larger than an inner training fold are skipped.
    scale : {"none", "zscore", "unit"}
        Scaling before the projection, see `Scaler`.
    inner_folds : int
        Number of inner folds. The projection is refitted in each, because neighbors among its own training
        rows agree too well.
    random_state : int
        Seed of the folds.
    calibrate : bool
        Whether scores are calibrated on the votes of the inner folds, see
        `embedding_core.model_selection.calibration`. Rows with exactly one label each are not calibrated.

    Attributes
    ----------
    n_neighbors_ : int
        Chosen number of neighbors.
    annotator_ : Annotator
    calibration_ : Calibration or None
    n_features_in_ : int
    """

    def __init__(
        self,
        projection: str = "mlda",
        params: Mapping[str, Any] | None = None,
        candidates: Sequence[int] = (1, 3, 5, 10, 15, 20, 30, 50),
        scale: str = "zscore",
        inner_folds: int = 3,
        random_state: int = 0,
        calibrate: bool = False,
    ) -> None:
        self.projection = projection
        self.params = params
        self.candidates = candidates
        self.scale = scale
        self.inner_folds = inner_folds
        self.random_state = random_state
        self.calibrate = calibrate

    def fit(self, X: Any, Y: ArrayLike, affinity: Any = None) -> Self:
        """Choose and fit on X (n, p), Y (n, K) with rows of -1 unlabeled; affinity for graph methods."""
        X, indicator = as_labeled_features(X, Y)
        labels, single = indicator.Y, one_label_each(indicator.Y)
        possible = self._possible(int(indicator.labeled.sum()))

        def score(train: NDArray[np.intp], test: NDArray[np.intp]) -> list[NDArray[np.float64]]:
            found = predict_fold(
                self.projection, self.params, X, labels, train, test, affinity, self.scale, possible, single
            )
            return [one.scores for one in found]

        best, votes = 0, None
        if len(possible) > 1 or self.calibrate:
            best, votes = choose_scored(labels, len(possible), score, self.inner_folds, self.random_state)
        self.n_neighbors_ = possible[best]
        self.calibration_ = None
        if self.calibrate and votes is not None and not single:
            self.calibration_ = calibrate_votes(votes[indicator.labeled], labels[indicator.labeled])
        chosen = Annotator(self.projection, self.params, self.scale, self.n_neighbors_, single_label=single)
        self.annotator_ = chosen.fit(X, labels, affinity)
        self.n_features_in_ = X.shape[1]
        return self

    def _possible(self, n_labeled: int) -> list[int]:
        """Return the candidates that fit into the smallest inner training fold."""
        for one in self.candidates:
            check_count("candidates", one)
        smallest = smallest_training_part(n_labeled, self.inner_folds)
        possible = [int(one) for one in self.candidates if one <= smallest]
        if not possible:
            raise InvalidInput(
                f"candidates={tuple(self.candidates)}: an inner training fold has only {smallest} rows."
            )
        return possible

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Return the fraction (m, K) of the neighbors that have each label, calibrated if set."""
        votes = self.annotator_.predict_scores(X)
        return votes if self.calibration_ is None else self.calibration_.apply(votes)

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Return the labels (m, K) with a score above one half."""
        return decide_labels(self.predict_scores(X))


class ScoreMean(BaseEstimator):
    """Mean of the scores of several classifiers.

    Parameters
    ----------
    members : sequence of str
        Classifiers of the registry that are inductive and scale the features themselves.
    params : mapping of str to mapping, optional
        Parameters by member.
    input_scale : {"own", "none"}
        "none" tells the members that the features are prepared and must not be scaled again.

    Attributes
    ----------
    annotators_ : list of Annotator
    n_features_in_ : int
    """

    def __init__(
        self,
        members: Sequence[str] = ("kernel_dle", "random_forest"),
        params: Mapping[str, Mapping[str, Any]] | None = None,
        input_scale: str = "own",
    ) -> None:
        self.members = members
        self.params = params
        self.input_scale = input_scale

    def fit(self, X: Any, Y: ArrayLike, affinity: Any = None) -> Self:
        """Fit every member on X (n, p), Y (n, K) with rows of -1 unlabeled; affinity for graph methods."""
        if not len(self.members):
            raise InvalidInput("members is empty; name one or more classifiers.")
        X, indicator = as_labeled_features(X, Y)
        single = one_label_each(indicator.Y)
        self.annotators_ = [
            Annotator(name, self._member_params(name), single_label=single).fit(X, indicator.Y, affinity)
            for name in self.members
        ]
        self.n_features_in_ = X.shape[1]
        return self

    def _member_params(self, name: str) -> dict[str, Any]:
        check_choice("input_scale", self.input_scale, ("own", "none"))
        unscaled = get_method(name).unscaled() if self.input_scale == "none" else {}
        return {**unscaled, **(self.params or {}).get(name, {})}

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Return the mean (m, K) of the members' scores."""
        return mean_of_scores([member.predict_scores(X) for member in self.annotators_])

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Return the labels (m, K) with a mean score above one half."""
        return decide_labels(self.predict_scores(X))


def mean_of_scores(scores: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the mean (m, K) of score arrays of the same shape."""
    mean: NDArray[np.float64] = np.mean(np.stack(scores), axis=0)
    return mean

"""Two ensembles that use the dependence of labels: chains of classifiers, and calibrated label ranking.

Both choose C (and the kernel width) once, by the inner folds of the base classifier on the plain labels, and
share it among all members. Linear members are solved together, kernel members share one matrix of distances.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import combinations
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import SVC

from embedding_core.checks import check_choice, check_count
from embedding_core.classifiers.baselines import TunedSVM
from embedding_core.classifiers.linear import LinearFit, TunedLinear, fit_linear, principal_rows, signs
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import as_labeled_features, decide_labels
from embedding_core.model_selection.calibration import choose_calibrated
from embedding_core.scaling import Features, as_features, make_scaler

BASES = {"logistic": "logistic", "linear_svm": "squared_hinge"}
"""Linear base classifiers and their losses."""
MOST_PAIRS = 20_000
"""Largest number of pairs of labels; 200 labels have 19,900."""


def fit_machine(
    K: NDArray[np.float64], t: NDArray[np.float64], C: float
) -> tuple[NDArray[np.float64], float]:
    """Return coefficients (n,) of the rows and the intercept of a kernel machine.

    Rows with t = 0 are left out. Rows of one sign give an infinite intercept, no rows give 0.
    """
    rows, dual = np.flatnonzero(t), np.zeros(len(t))
    if not len(rows):
        return dual, 0.0
    if (t[rows] == t[rows[0]]).all():
        return dual, float(np.inf * t[rows[0]])
    machine = SVC(C=C, kernel="precomputed").fit(K[np.ix_(rows, rows)], t[rows])
    dual[rows[machine.support_]] = machine.dual_coef_[0]
    return dual, float(machine.intercept_[0])


class LabelEnsemble(BaseEstimator, ABC):
    """Base of the ensembles: choice of the base classifier's parameters, calibration, decisions.

    Subclasses implement `_train` and `_combine`.
    """

    base: str
    inner_folds: int
    random_state: int
    scale: str

    def fit(self, X: Any, Y: ArrayLike) -> Self:
        """Choose and fit on the labeled rows of X (n, p), Y (n, K)."""
        check_choice("base", self.base, (*BASES, "rbf_svm"))
        check_count("inner_folds", self.inner_folds)
        X, indicator = as_labeled_features(X, Y)
        X, labels = X[indicator.labeled], indicator.Y[indicator.labeled]
        self._check_labels(labels.shape[1])
        self._choose_base(X, labels)

        def score(train: NDArray[np.intp], test: NDArray[np.intp]) -> Iterator[NDArray[np.float64]]:
            yield self._refit(X[train], labels[train])._values(X[test])

        chosen = choose_calibrated(labels, 1, score, self.inner_folds, self.random_state)
        self.calibration_, self.left_out_scores_ = chosen.calibration, chosen.left_out
        self._refit(X, labels)
        self.n_features_in_ = X.shape[1]
        return self

    def _check_labels(self, n_labels: int) -> None:
        """Raise InvalidInput for parameters that do not fit the number of labels."""

    def _choose_base(self, X: Features, Y: NDArray[np.int8]) -> None:
        if self.base == "rbf_svm":
            machine = TunedSVM(
                inner_folds=self.inner_folds, random_state=self.random_state, scale=self.scale
            ).fit(X, Y)
            self.scale_, self.C_, self.gamma_ = machine.scale_, machine.C_, machine.gamma_
        else:
            plain = TunedLinear(
                BASES[self.base],
                scale=self.scale,
                inner_folds=self.inner_folds,
                random_state=self.random_state,
            ).fit(X, Y)
            self.scale_, self.C_, self.gamma_ = plain.scale_, plain.C_, 0.0

    def _refit(self, X: Features, Y: NDArray[np.int8]) -> Self:
        self.scaler_ = make_scaler(self.scale_).fit(X)
        self.labels_ = Y
        self.rows_: Features = self.scaler_.transform(X)
        self._train(self.rows_, Y)
        if self.base != "rbf_svm":
            self.rows_ = None  # linear members do not need them
        return self

    def _kernel(self, rows: Features, others: Features) -> NDArray[np.float64]:
        kernel: NDArray[np.float64] = np.exp(-self.gamma_ * euclidean_distances(rows, others, squared=True))
        return kernel

    def _values(self, X: Features) -> NDArray[np.float64]:
        return self._combine(self.scaler_.transform(X))

    @abstractmethod
    def _train(self, rows: Features, Y: NDArray[np.int8]) -> None:
        """Fit the members on scaled rows."""

    @abstractmethod
    def _combine(self, rows: Features) -> NDArray[np.float64]:
        """Return the combined values (m, K) of scaled rows, above 0 for yes."""

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Return calibrated scores (m, K) in [0, 1]."""
        return self.calibration_.apply(self._values(as_features(X, self.n_features_in_)))

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Return the labels (m, K) that the ensemble decides for by itself, before calibration."""
        return decide_labels(expit(self._values(as_features(X, self.n_features_in_))))


class ClassifierChains(LabelEnsemble):
    """Ensemble of classifier chains (ECC) [1]_: every label is predicted from the items and earlier labels.

    Parameters
    ----------
    base : {"logistic", "linear_svm", "rbf_svm"}
        Classifier of a label, see `TunedLinear` and `TunedSVM`.
    n_chains : int
        Number of chains, each with its own random order of the labels.
    inner_folds : int
        Number of folds for the parameters of the base classifier and for the calibration.
    random_state : int
        Seed of the orders and folds.
    scale : {"auto", "zscore", "unit", "tfidf", "none"}
        Scaling of the features, see `TunedLinear`; for "rbf_svm" "auto" is "zscore".

    Attributes
    ----------
    orders_ : (n_chains, K) array
        Labels in the order of each chain.
    C_, gamma_, scale_
        Chosen parameters of the base classifier; gamma_ is 0 for linear ones.
    coef_ : (n_chains, p + K, K) array
        Coefficients of features and earlier labels, for linear bases.
    duals_ : (n_chains, n, K) array
        Coefficients of the training rows, for kernels.
    intercepts_ : (n_chains, K) array
    scaler_, rows_, labels_
        Scaling, and the training items and labels that kernels need.
    calibration_ : Calibration
    left_out_scores_ : (l, K) array or None
    n_features_in_ : int

    Notes
    -----
    Chains are trained on the true labels and pass 0/1 predictions on, as in scikit-learn's ClassifierChain.
    The value of a label is the mean over the chains of logistic functions of the decision values, minus one
    half. Unlike [1]_, every chain sees all rows. The ensemble is fitted `inner_folds` + 1 times, because the
    calibration needs out-of-fold values.

    References
    ----------
    .. [1] J. Read, B. Pfahringer, G. Holmes, E. Frank, "Classifier Chains for Multi-label Classification",
       Machine Learning 85, 2011.
    """

    def __init__(
        self,
        base: str = "logistic",
        n_chains: int = 10,
        inner_folds: int = 3,
        random_state: int = 0,
        scale: str = "auto",
    ) -> None:
        self.base = base
        self.n_chains = n_chains
        self.inner_folds = inner_folds
        self.random_state = random_state
        self.scale = scale

    def _check_labels(self, n_labels: int) -> None:
        check_count("n_chains", self.n_chains)
        rng = np.random.default_rng(self.random_state)
        self.orders_ = np.array([rng.permutation(n_labels) for _ in range(self.n_chains)])

    def _train(self, rows: Features, Y: NDArray[np.int8]) -> None:
        train = self._train_kernel if self.base == "rbf_svm" else self._train_linear
        fits = train(rows, Y)
        self.intercepts_ = np.array([b for _, b in fits])
        name = "duals_" if self.base == "rbf_svm" else "coef_"
        setattr(self, name, np.array([W for W, _ in fits]))

    def _train_linear(
        self, rows: Features, Y: NDArray[np.int8]
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        rotated, K = principal_rows(rows), Y.shape[1]
        r = rotated.Z.shape[1]
        parts = [rotated.Z, Y.astype(np.float64)]
        joined = sp.hstack(parts, format="csr") if sp.issparse(rotated.Z) else np.hstack(parts)
        fits, start = [], None
        for order in self.orders_:
            allowed = np.ones((r + K, K))
            allowed[r:] = _earlier(order)
            start = fit_linear(joined, signs(Y), self.C_, BASES[self.base], start, allowed)
            part = rotated.lift(LinearFit(start.W[:r], start.b))
            fits.append((np.vstack([part.W, start.W[r:]]), part.b))
        return fits

    def _train_kernel(
        self, rows: Features, Y: NDArray[np.int8]
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        plain, fits = self._kernel(rows, rows), []
        for order in self.orders_:
            K, W, b = plain.copy(), np.zeros(Y.shape), np.zeros(Y.shape[1])
            for k in order:
                W[:, k], b[k] = fit_machine(K, signs(Y[:, k]), self.C_)
                K *= np.exp(-self.gamma_ * (Y[:, [k]] != Y[:, k]))
            fits.append((W, b))
        return fits

    def _combine(self, rows: Features) -> NDArray[np.float64]:
        total = np.zeros((rows.shape[0], self.labels_.shape[1]))
        kernel = self._kernel(rows, self.rows_) if self.base == "rbf_svm" else None
        for number in range(len(self.orders_)):
            total += expit(self._follow(number, rows, kernel))
        return total / len(self.orders_) - 0.5

    def _follow(self, number: int, rows: Features, kernel: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Return decision values (m, K) along one chain."""
        b, values = self.intercepts_[number], np.zeros((rows.shape[0], self.labels_.shape[1]))
        if kernel is None:
            W = self.coef_[number]
            p = rows.shape[1]
            values += np.asarray(rows @ W[:p]) + b
            for k in self.orders_[number]:
                values += np.outer(values[:, k] > 0, W[p + k])  # W is 0 for labels that come earlier
            return values
        K = kernel.copy()
        for k in self.orders_[number]:
            values[:, k] = K @ self.duals_[number][:, k] + b[k]
            K *= np.exp(-self.gamma_ * ((values[:, [k]] > 0) != self.labels_[:, k]))
        return values


def _earlier(order: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return (K, K) with 1 in row j, column k if label j comes before label k."""
    place = np.argsort(order)
    return (place[:, None] < place).astype(np.float64)


class CalibratedLabelRanking(LabelEnsemble):
    """Calibrated label ranking (CLR) [1]_: labels are ranked by pairwise votes against a virtual label.

    Parameters
    ----------
    base : {"logistic", "linear_svm", "rbf_svm"}
        Classifier of a pair, see `TunedLinear` and `TunedSVM`.
    inner_folds : int
        Number of folds for the parameters of the base classifier and for the calibration.
    random_state : int
        Seed of the folds.
    scale : {"auto", "zscore", "unit", "tfidf", "none"}
        Scaling of the features, see `TunedLinear`; for "rbf_svm" "auto" is "zscore".

    Attributes
    ----------
    pairs_ : (P, 2) array
        Pairs of labels, then each label with the virtual label K.
    C_, gamma_, scale_
        Chosen parameters of the base classifier; gamma_ is 0 for linear ones.
    coef_ : (p, P) or (n, P) array
        Coefficients of the features, or of the training rows for kernels.
    intercepts_ : (P,) array
    scaler_, rows_, labels_
        Scaling, and the training items and labels that kernels need.
    calibration_ : Calibration
    left_out_scores_ : (l, K) array or None
    n_features_in_ : int

    Notes
    -----
    The machine of labels i and j is trained on the rows that have exactly one of them, that of label k and
    the virtual label on all rows. Votes are logistic functions of the decision values, not 0/1, because 0/1
    votes leave many ties. The value of a label is its number of votes minus that of the virtual label,
    divided by K: a label is given if it is ranked before the virtual label. There are K (K + 1) / 2
    machines, fitted `inner_folds` + 1 times for the calibration.

    References
    ----------
    .. [1] J. Fürnkranz, E. Hüllermeier, E. Loza Mencía, K. Brinker, "Multilabel Classification via Calibrated
       Label Ranking", Machine Learning 73, 2008.
    """

    def __init__(
        self, base: str = "logistic", inner_folds: int = 3, random_state: int = 0, scale: str = "auto"
    ) -> None:
        self.base = base
        self.inner_folds = inner_folds
        self.random_state = random_state
        self.scale = scale

    def _check_labels(self, n_labels: int) -> None:
        n_pairs = n_labels * (n_labels - 1) // 2
        if n_pairs > MOST_PAIRS:
            raise InvalidInput(
                f"{n_labels} labels have {n_pairs} pairs, and calibrated label ranking trains a machine for "
                f"each; it takes at most {MOST_PAIRS} pairs. Drop rare labels or choose another method."
            )
        pairs = [*combinations(range(n_labels), 2), *((k, n_labels) for k in range(n_labels))]
        self.pairs_ = np.array(pairs, dtype=np.intp)

    def _train(self, rows: Features, Y: NDArray[np.int8]) -> None:
        K = Y.shape[1]
        first, second = self.pairs_.T
        # the virtual label is ranked after the labels of a row and before all others
        padded = np.hstack([Y, np.zeros((len(Y), 1), dtype=np.int8)]).astype(np.float64)
        T = padded[:, first] - padded[:, second]
        T[:, second == K] = signs(Y)
        if self.base == "rbf_svm":
            kernel = self._kernel(rows, rows)
            fits = [fit_machine(kernel, t, self.C_) for t in T.T]
            self.coef_ = np.column_stack([dual for dual, _ in fits])
            self.intercepts_ = np.array([b for _, b in fits])
            return
        rotated = principal_rows(rows)
        solved = rotated.lift(fit_linear(rotated.Z, T, self.C_, BASES[self.base]))
        self.coef_, self.intercepts_ = solved.W, solved.b

    def _combine(self, rows: Features) -> NDArray[np.float64]:
        K = self.labels_.shape[1]
        inputs = self._kernel(rows, self.rows_) if self.base == "rbf_svm" else rows
        votes = expit(np.asarray(inputs @ self.coef_) + self.intercepts_)
        total = np.zeros((K + 1, len(votes)))
        np.add.at(total, self.pairs_[:, 0], votes.T)
        np.add.at(total, self.pairs_[:, 1], 1 - votes.T)
        ahead: NDArray[np.float64] = (total[:K] - total[K]).T / K
        return ahead

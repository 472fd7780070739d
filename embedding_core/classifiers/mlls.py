"""MLLS: multi-label least squares with a subspace shared by all labels."""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from embedding_core.checks import check_count, check_not_negative, check_positive
from embedding_core.classifiers.label_classifier import LabelClassifier
from embedding_core.classifiers.ridge import Ridge, RidgePath
from embedding_core.errors import InvalidInput, TooManyComponents
from embedding_core.linalg.eigen import thin_svd
from embedding_core.linalg.row_blocks import project_rows
from embedding_core.model_selection.thresholds import f1_thresholds, shift_scores
from embedding_core.scaling import Features

PENALTIES = 10.0 ** np.arange(1, -7, -1)
"""Values tried by "cv" for beta and alpha + beta, in units of the mean variance of the components of X."""


def shared_labels(low: Ridge, high: Ridge, n_components: int) -> NDArray[np.float64]:
    """Return W (K, q), the leading eigenvectors of N = R_low^T R_high; see `MLLS`."""
    N = low.coef.T @ high.coef
    _, W = scipy.linalg.eigh((N + N.T) / 2)
    leading: NDArray[np.float64] = W[:, ::-1][:, :n_components]
    return leading


def penalty_pairs(alpha: float | str, beta: float | str, unit: float) -> list[tuple[float, float]]:
    """Return the candidate pairs (beta, alpha + beta), the strongest penalties first."""
    grid = [float(penalty) for penalty in PENALTIES * unit]
    pairs = []
    for b in grid if beta == "cv" else [float(beta)]:
        totals = [*(total for total in grid if total > b), b] if alpha == "cv" else [b + float(alpha)]
        pairs += [(b, total) for total in totals]
    return pairs


class MLLS(LabelClassifier):
    """Multi-label least squares with a shared subspace (MLLS) [1]_.

    Fits one linear function per label, u_k = w_k + Theta^T v_k. Its component in a subspace Theta shared by
    all labels is penalized less than its own component w_k. Fitted on the labeled items only.

    Parameters
    ----------
    alpha : float or "cv", default="cv"
        Penalty >= 0 of the label's own component w.
    beta : float or "cv", default="cv"
        Penalty > 0 of the whole function u.
    n_components : int or None, default=None
        Dimensions q of the shared subspace, at most K. None takes K-1, as [2]_ does.

    Attributes
    ----------
    coef_ : ndarray of shape (p, K)
        U.
    intercept_ : ndarray of shape (K,)
    subspace_ : ndarray of shape (p, q)
        Theta^T, with orthonormal columns; fewer than q if the labels differ in fewer directions.
    thresholds_ : ndarray of shape (K,)
        Decision thresholds of x^T coef_ + intercept_; inf if no labeled item has the label, -inf if all have
        it.
    alpha_, beta_ : float
        Penalties used.
    classes_ : ndarray of shape (K,)
    multi_label_ : bool
        Whether `fit` was given label columns.
    n_features_in_ : int

    Notes
    -----
    With centered X (n, p) and Y (an unpenalized intercept; our reading, [2]_ speaks of properly centered
    data), the objective is

        min 1/n |X U - Y|^2 + alpha |U - Theta^T V|^2 + beta |U|^2   over U, V and Theta Theta^T = I.

    For given Theta, V = Theta U and U = (M - alpha Theta^T Theta)^-1 X^T Y / n with
    M = X^T X / n + (alpha + beta) I; so Theta maximizes

        tr((Theta S_1 Theta^T)^-1 Theta S_2 Theta^T),  S_1 = I - alpha M^-1,  S_2 = M^-1 X^T Y Y^T X M^-1,

    by the leading eigenvectors of S_1^-1 S_2. This is Eq. 24 of [2]_, in which (I - alpha M)^-1 is a
    misprint. Here it is solved in the space of labels. With the ridge regression R_lambda = (X^T X / n +
    lambda I)^-1 X^T Y / n and the q leading eigenvectors W of the K x K matrix N = R_beta^T R_(alpha+beta),

        Theta spans R_beta W,   U = R_(alpha+beta) (I - W W^T) + R_beta W W^T,

    because R_beta - R_(alpha+beta) = alpha M^-1 R_beta turns the eigenproblem into that of N. So MLLS is
    ridge regression with penalty beta for q combinations of labels and alpha + beta for the rest; alpha = 0,
    or q = K, is plain ridge regression. All R come from one decomposition of X_c^T X_c, for p > n in the row
    space of X.

    Thresholds maximize the F1 score of each label on leave-one-out predictions, which ridge regression gives
    in closed form (W is computed from all items). Predictions for the training items would not do: for p > n
    they are close to the labels, and thresholds set on them are too high for new items. "cv" chooses the
    penalties by the mean of these F1 scores, as the code used by [2]_ does: beta and alpha + beta are 10, 1,
    ..., 1e-6 times the mean variance of the components of X; the strongest wins ties. Both choices use the
    same predictions, so F1 on them is slightly optimistic.

    Scores are 1 / (1 + exp(-4 (f - threshold))), where f = x^T u_k + intercept estimates the label 0 or 1.
    They exceed one half above the threshold and are comparable between labels as distances from it, but are
    not probabilities.

    On the music data, the row printed in [2]_ is that of a classifier that assigns every label to every item.

    References
    ----------
    .. [1] S. Ji, L. Tang, S. Yu, J. Ye, "Extracting shared subspace for multi-label classification", KDD
       2008, 381-389.
    .. [2] H. Wang, C. Ding, H. Huang, "Multi-label Linear Discriminant Analysis", ECCV 2010, LNCS 6316,
       126-139.

    Examples
    --------
    >>> import numpy as np
    >>> from embedding_core import MLLS
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5))
    >>> Y = (X[:, :3] + X[:, 1:4] > 0.5).astype(int)
    >>> model = MLLS().fit(X[:40], Y[:40])
    >>> model.subspace_.shape
    (5, 2)
    >>> round(float((model.predict(X[40:]) == Y[40:]).mean()), 1)
    0.9
    """

    def __init__(
        self, *, alpha: float | str = "cv", beta: float | str = "cv", n_components: int | None = None
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.n_components = n_components

    def _check_parameters(self) -> None:
        check_not_negative("alpha", self.alpha, ("cv",))
        check_positive("beta", self.beta, ("cv",))
        check_count("n_components", self.n_components, (None,))

    def _learn(self, X: Features, Y: NDArray[np.int8]) -> None:
        q = self._subspace_dimensions(*Y.shape)
        path = RidgePath(X, Y)
        pairs = penalty_pairs(self.alpha, self.beta, path.mean_variance)
        fits = path.fit({penalty for pair in pairs for penalty in pair})
        best = -1.0
        for low, high in pairs:
            W = shared_labels(fits[low], fits[high], q)
            fitted = fits[high].replace_part(fits[low], W @ W.T)
            thresholds, f1 = f1_thresholds(fitted.left_out, Y)
            if f1.mean() > best:
                best, self.alpha_, self.beta_, self.thresholds_ = f1.mean(), high - low, low, thresholds
                coef, subspace = fitted.coef, fits[low].coef @ W
        self.coef_ = path.lift(coef)
        self.intercept_ = Y.mean(axis=0) - project_rows(X, self.coef_).mean(axis=0)
        self.subspace_ = path.lift(thin_svd(subspace)[0])

    def _subspace_dimensions(self, n: int, K: int) -> int:
        if n < 2:
            raise InvalidInput("MLLS got n_samples=1 labeled row and needs two or more; label more rows.")
        if self.n_components is None:
            return K - 1
        if self.n_components > K:
            raise TooManyComponents(
                f"n_components={self.n_components} exceeds the {K} labels that can share the subspace; "
                "lower it or leave it at None.",
                K,
            )
        return self.n_components

    def _score(self, X: Features) -> NDArray[np.float64]:
        return shift_scores(project_rows(X, self.coef_) + self.intercept_, self.thresholds_)

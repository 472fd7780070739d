"""Laplacian regularized least squares."""

import numpy as np
import scipy.linalg

from embedding_core.margin.manifold import Array, ManifoldClassifier, Signs, Weights


class LapRLS(ManifoldClassifier):
    """Laplacian regularized least squares (LapRLS) [1]_.

    Fits the labels -1 and 1 by functions of a kernel that are also smooth along the graph of all items,
    labeled or not. Classifies new items.

    Parameters
    ----------
    kernel, theta, input_scale, landmarks, graph, n_neighbors, sigma, random_state
        As for `LPSSVM`.
    gamma_A : float, "auto" or "cv", default="auto"
        Weight > 0 of the norm |f|². "auto" is 0.05 / l, l labeled items; "cv" picks 0.05, 0.5, 0.005 or 5
        over l.
    gamma_I : float, "auto" or "cv", default="auto"
        Weight >= 0 of the smoothness f^T L f / n². 0 gives regularized least squares (kernel ridge regression
        with penalty gamma_A l). "auto" is gamma_A n² over the mean degree of the graph, so that the two terms
        weigh alike whatever the scale of W; "cv" picks 0, 0.1, 1, 10 or 100 times that.

    Attributes
    ----------
    coef_, intercept_, basis_items_, classes_, multi_label_, gamma_A_, gamma_I_, theta_, sigma_, scaler_
        As for `LapSVM`, as is `n_features_in_`.

    Notes
    -----
    For each label the minimum of Eq. 4 of [2]_, with n = l + u items,

        1/l sum_(i <= l) (y_i - f(x_i))² + gamma_A |f|² + gamma_I / n² f^T L f,

    is f = sum_i alpha_i k(x_i, .) with (Section 4 of [1]_)

        (J K + gamma_A l I + gamma_I l / n² L K) alpha = J y,    J = diag(1, ..., 1, 0, ..., 0).

    There is no bias: `intercept_` is 0, but for labels on which all labeled items agree.

    Cost, readings of [2]_ and cross-validation are those of `LapSVM`.

    References
    ----------
    .. [1] M. Belkin, P. Niyogi, V. Sindhwani, "Manifold Regularization: A Geometric Framework for Learning
       from Labeled and Unlabeled Examples", JMLR 7, 2399-2434, 2006.
    .. [2] W. Jiang, S.-F. Chang, T. Jebara, A. C. Loui, "Semantic Concept Classification by Joint
       Semi-supervised Learning of Feature Subspaces and Support Vector Machines", ECCV 2008, LNCS 5305,
       270-283.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from embedding_core import LapRLS
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> hidden = np.full(200, -1)
    >>> hidden[:10] = y[:10]
    >>> model = LapRLS(theta=5.0, gamma_I=500.0).fit(X, hidden)
    >>> round(model.score(X, y), 2)
    1.0
    """

    def _solve(self, rows: Array, signs: Signs, weight: Array, ridge: float) -> Weights:
        """Ridge regression on the deformed rows, by the smaller of the two Gram matrices."""
        root = np.sqrt(weight)[:, None]
        Z, Y = root * rows, root * signs
        wide = Z.shape[1] > Z.shape[0]
        M = Z @ Z.T if wide else Z.T @ Z
        M[np.diag_indices(len(M))] += ridge
        solution = scipy.linalg.solve(M, Y if wide else Z.T @ Y, assume_a="pos", check_finite=False)
        return (Z.T @ solution if wide else solution), np.zeros(Y.shape[1])

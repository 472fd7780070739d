"""Laplacian support vector machines."""

import numpy as np

from embedding_core.margin.machines import svm_trainer
from embedding_core.margin.manifold import Array, ManifoldClassifier, Signs, Weights


class LapSVM(ManifoldClassifier):
    """Laplacian support vector machine (LapSVM) [1]_.

    A support vector machine whose decisions are also smooth along the graph of all items, labeled or not.
    Classifies new items.

    Parameters
    ----------
    kernel, theta, input_scale, landmarks, graph, n_neighbors, sigma, random_state
        As for `LPSSVM`.
    gamma_A : float, "auto" or "cv", default="auto"
        Weight > 0 of the norm |f|². "auto" is 0.05 / l, l labeled items (a penalty C of 10); "cv" picks
        0.05, 0.5, 0.005 or 5 over l.
    gamma_I : float, "auto" or "cv", default="auto"
        Weight >= 0 of the smoothness f^T L f / n². 0 gives a support vector machine with
        C = 1 / (2 gamma_A l). "auto" is gamma_A n² over the mean degree of the graph, so that the two terms
        weigh alike whatever the scale of W; "cv" picks 0, 0.1, 1, 10 or 100 times that.

    Attributes
    ----------
    coef_, intercept_ : ndarrays of shape (h, J) and (J,)
        Decisions: x^T coef_ + intercept_ for "linear", k(x, basis items) coef_ + intercept_ else. J is 1 for
        two classes, else K.
    basis_items_ : array, CSR matrix or None
        Items (their row numbers if precomputed) that coef_ belongs to; None for "linear".
    classes_ : ndarray of shape (K,)
    multi_label_ : bool
        `fit` was given label columns.
    gamma_A_, gamma_I_, theta_ : float
        Values used.
    sigma_ : float or None
        Value used; None where an affinity was given or `graph` is "kernel".
    scaler_ : Scaler
        The input scaling.
    n_features_in_ : int

    Notes
    -----
    For each label the minimum of Eq. 4 of [2]_, with n = l + u items,

        1/l sum_(i <= l) max(0, 1 - y_i (f(x_i) + b)) + gamma_A |f|² + gamma_I / n² f^T L f,

    is f = sum_i alpha_i k(x_i, .) with alpha = (2 gamma_A I + 2 gamma_I / n² L K)^(-1) J^T Y beta, beta in
    [0, 1/l] the multipliers of a quadratic program (Section 4 of [1]_). beta / (2 gamma_A) are those of a
    support vector machine with C = 1 / (2 gamma_A l) on the deformed kernel (module `deformation`). With up
    to 500 labeled items, or dimensions of the kernel's space, it is solved to working precision (module
    `dual`): in few dimensions LibSVM takes hundreds of thousands of steps. Beyond, LibSVM gets the deformed
    kernel as a matrix, and its multipliers are then brought to the same precision (module `active_set`).

    One decision a label against the rest, one in all for two classes. The graph part, I + c R^T L R in
    coordinates R whose inner products are the kernel, c = gamma_I / (gamma_A n²), is factored once for all of
    them. Items that add less than 1e-8 to the span of the others are left out of R. With landmarks, or a
    linear kernel and p <= n, no n x n matrix is made.

    Readings. [2]_ prints Eq. 4 without 1 / n² and with |f|_2 for the norm of the kernel's space; here both
    are as in [1]_. L is D - W, as in [2]_; [1]_ also takes the normalized L and its powers.

    Cross-validation ([2]_ chooses gamma_A and gamma_I so) takes 5 folds of the labeled items, hidden from
    the loss but not from the graph, and compares micro-F1 (the accuracy, for classes) over all pairs.

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
    >>> from embedding_core import LapSVM
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> hidden = np.full(200, -1)
    >>> hidden[:10] = y[:10]
    >>> model = LapSVM(theta=5.0, gamma_I=500.0).fit(X, hidden)
    >>> round(model.score(X, y), 2)
    1.0
    """

    def _solve(self, rows: Array, signs: Signs, weight: Array, ridge: float) -> Weights:
        """One machine a column on the same rows."""
        train, C = svm_trainer(rows), 1 / (2 * ridge)
        found = [train(np.ascontiguousarray(sign), C, weight) for sign in signs.T]
        F = np.column_stack([multipliers for multipliers, _ in found])
        return rows.T @ F, np.array([bias for _, bias in found])

"""LPSSVM solves Eq. 9 and 11 on odd data: residuals in matrices written out item by item."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from embedding_core.margin.lpssvm import LPSSVM
from tests.literal_margin import literal_svm
from tests.literal_projections import eigenvalues_in_range
from tests.odd_data import FORMS, mostly_slowly_over_all_data, odd_data
from tests.synthetic import literal_laplacian

R = 3


@mostly_slowly_over_all_data
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.filterwarnings("ignore:The graph has 2 components")
def test_lpssvm(kind, shape, dtype, form, kernel):
    X, Y, W = odd_data(kind, shape, dtype)
    settings = {"kernel": kernel, "theta": 0.05, "n_components": R, "max_iter": 1, "scaling": "constraint"}
    model = LPSSVM(**settings).fit(FORMS[form](X), Y, FORMS[form](W))
    X, labeled = X.astype(float), Y[:, 0] >= 0
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.05)
    D, L = np.diag(W.sum(axis=1)), literal_laplacian(W)
    told_apart = np.ptp(Y[labeled], axis=0) > 0
    assert model.n_components_.tolist() == np.where(told_apart, R, 0).tolist()
    for j, k in enumerate(np.flatnonzero(told_apart)):
        F, _ = literal_svm(K[np.ix_(labeled, labeled)], np.where(Y[labeled, k] == 1, 1, -1))
        z = K[:, labeled] @ F  # the first machine's decisions, but for the bias
        E, values = (part[..., j * R : (j + 1) * R] for part in (model.embedding_, model.eigenvalues_))
        # E = K v solves Eq. 11 where K L E + z (F^T E) / 2 = K D E diag(lambda)
        residual = K @ L @ E + np.outer(z, F @ E[labeled]) / 2 - K @ D @ E * values
        assert np.abs(residual).max() < 1e-5 * np.abs(K @ D @ E).max()
        np.testing.assert_allclose(E.T @ D @ E, np.eye(R), atol=1e-6)
        least = eigenvalues_in_range(K @ L @ K + np.outer(z, z) / 2, K @ D @ K, cut=1e-12)[:R]
        np.testing.assert_allclose(values, least, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.transform(FORMS[form](X)), model.embedding_, atol=1e-6)

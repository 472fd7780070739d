"""SLE-ML solves its problem on odd data: residuals in matrices written out pair by pair; rotations."""

import numpy as np
import pytest

from embedding_core.eigenmaps.sle_ml import SLEML
from tests.literal_eigenmaps import MAPS, check_laplacian_pairs, literal_weights, overlapping
from tests.odd_data import FORMS, mostly_slowly_over_all_data, odd_data


def literal_ridge(X, Z, alpha):
    """Where the linear map puts the items: ridge regression of Z on X, both around their means."""
    X_c, Z_c = X - X.mean(axis=0), Z - Z.mean(axis=0)
    G = X_c.T @ X_c
    G_inverse = np.linalg.pinv(G + alpha * np.trace(G) / len(X) * np.eye(len(G)), rcond=1e-10, hermitian=True)
    return X_c @ G_inverse @ X_c.T @ Z_c + Z.mean(axis=0)


@mostly_slowly_over_all_data
@pytest.mark.parametrize("balance", [0.6, 1.0])
@pytest.mark.filterwarnings("ignore:The graph .*has 2 components")
def test_sle_ml(kind, shape, dtype, form, balance):
    X, Y, W = odd_data(kind, shape, dtype)
    model = SLEML(balance=balance, alpha=1e-3).fit(FORMS[form](X), Y, FORMS[form](W))
    by_labels = literal_weights(X.astype(float), Y, 1, 0.0)
    check_laplacian_pairs(model.embedding_, model.eigenvalues_, balance * W + (1 - balance) * by_labels)
    places = literal_ridge(X.astype(float), model.embedding_, 1e-3)
    np.testing.assert_allclose(model.transform(FORMS[form](X)), places, atol=1e-6)


@pytest.mark.parametrize("out_of_sample", MAPS)
@pytest.mark.parametrize("shape", [(60, 7), (60, 80)])
def test_a_rotation_of_the_features_moves_nothing(out_of_sample, shape):
    X, y = overlapping(*shape)
    y[1::3] = -1
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(shape[1], shape[1])))[0]
    model = SLEML(out_of_sample=out_of_sample).fit(X, y)
    turned = SLEML(out_of_sample=out_of_sample).fit(X @ Q, y)
    np.testing.assert_allclose(turned.eigenvalues_, model.eigenvalues_, atol=1e-10)
    np.testing.assert_allclose(turned.embedding_, model.embedding_, atol=1e-8)
    new = X[:20] + 0.1
    np.testing.assert_allclose(turned.transform(new @ Q), model.transform(new), atol=1e-7)

"""Items far from 0, dense and sparse: every shift-invariant method gives the same result as near 0."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.core_estimators import ALL_NAMES, fresh, outputs

OFFSET = 1e7
MOVED_ALONG = ("embedding", "transform")
BY_ORIGIN = ("LPSSVM-linear", "MLSI")
"""Not shift-invariant: X D X^T of LPSSVM and the singular vectors of MLSI are not centered in the papers."""


def far_items(p):
    """Return items near 0 and exactly the same items far from 0; three classes, every third unlabeled."""
    y = np.repeat([0, 1, 2], 20)
    far = np.random.default_rng(1).normal(size=(60, p)) + 3 * np.eye(3, p)[y] + OFFSET
    y[::3] = -1
    return far - OFFSET, far, y


@pytest.mark.slow
@pytest.mark.parametrize("p", [6, 150])
@pytest.mark.parametrize("name", [name for name in ALL_NAMES if name not in BY_ORIGIN])
def test_items_far_from_0_are_solved_like_those_near_it(name, p):
    near, far, y = far_items(p)
    expected = outputs(fresh(name).fit(near, y), near[:30])
    for form in (np.asarray, sp.csr_array):
        found = outputs(fresh(name).fit(form(far), y), form(far[:30]))
        for part in set(expected) - {"projection"}:  # may differ along directions that do not matter
            a, b = expected[part], found[part]
            if part in MOVED_ALONG:
                a, b = a - a.mean(axis=0), b - b.mean(axis=0)
            np.testing.assert_allclose(b, a, atol=1e-6 * np.abs(a).max(), err_msg=part)

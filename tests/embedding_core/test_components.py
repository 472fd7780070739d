"""Connected components: finding them, joining them through groups of items, describing them."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.graph.components import Components, graph_components, join_components
from embedding_core.graph.laplacian import GraphLaplacian, label_affinity
from tests.synthetic import literal_laplacian


def blocks(*sizes):
    return sp.block_diag([sp.coo_array(np.ones((size, size))) for size in sizes], format="csr")


def test_description_lists_the_largest_components_first_and_at_most_five():
    assert graph_components(blocks(2, 5, 1)).describe() == "3 components (sizes 5, 2, 1)"
    many = Components(np.arange(7, dtype=np.int32), np.ones(7, dtype=np.intp))
    assert many.describe() == "7 components (sizes 1, 1, 1, 1, 1, ...)"


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_groups_join_the_components_of_their_items(form):
    parts = graph_components(blocks(2, 2, 1, 1))
    member = np.zeros((6, 3), dtype=int)
    member[0, 0] = member[2, 1] = member[4, 2] = 1
    apart = join_components(parts, form(member), form(np.eye(3)))
    assert apart.labels.tolist() == [0, 0, 1, 1, 2, 3]
    linked = np.eye(3)
    linked[0, 2] = linked[2, 0] = 0.1
    joined = join_components(parts, form(member), form(linked))
    assert joined.labels.tolist() == [0, 0, 1, 1, 0, 2]
    assert sorted(joined.sizes.tolist()) == [1, 2, 3]


@pytest.mark.parametrize("seed", range(6))
def test_a_laplacian_has_as_many_zero_eigenvalues_as_components_with_its_label_links(seed):
    rng = np.random.default_rng(seed)
    W = np.triu(rng.random((14, 14)) < 0.08, 1).astype(float)
    W = W + W.T
    Y = np.zeros((14, 4), dtype=np.int8)
    labeled = rng.random(14) < 0.5
    Y[labeled, rng.integers(0, 4, labeled.sum())] = 1
    C = np.eye(4)
    C[0, 1] = C[1, 0] = 0.3
    unit = Y.astype(float)
    for beta in (0.0, 0.7):
        L = GraphLaplacian(sp.csr_array(W), label_affinity(Y, C), beta)
        values = np.linalg.eigvalsh(literal_laplacian(W + beta * unit @ C @ unit.T))
        assert len(L.components().sizes) == (np.abs(values) < 1e-9).sum()

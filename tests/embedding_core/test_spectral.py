"""Smallest eigenpairs of Laplacian operators: theorems, pitfalls of Lanczos, agreement with dense algebra."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from embedding_core.eigenmaps.combined_graph import CombinedGraph, find_label_sets
from embedding_core.errors import InvalidInput
from embedding_core.graph import spectral
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.graph.spectral import smallest_eigenpairs


def ring(m, weight=1.0):
    i = np.arange(m)
    W = sp.coo_array((np.full(m, weight), (i, (i + 1) % m)), shape=(m, m))
    return sp.csr_array(W + W.T)


def torus(m):
    """m x m torus: almost every eigenvalue has multiplicity four."""
    return sp.csr_array(sp.kron(ring(m), sp.eye_array(m)) + sp.kron(sp.eye_array(m), ring(m)))


def torus_eigenvalues(m, r):
    single = 1 - np.cos(2 * np.pi * np.arange(m) / m)
    return np.sort((single[:, None] + single).ravel() / 2)[1 : r + 1]


def cloud(n, p=3, seed=0, k=8):
    return build_knn_graph(np.random.default_rng(seed).normal(size=(n, p)), k)


def dense_pairs(W):
    """All eigenpairs of L z = μ D z."""
    D = np.diag(W.sum(axis=1))
    return scipy.linalg.eigh(D - W, D)


def check_pairs(graph, r, atol=1e-7):
    solution = smallest_eigenpairs(graph, r)
    Z, mu, d = solution.coordinates, solution.eigenvalues, graph.degree[:, None]
    np.testing.assert_allclose(Z.T @ (d * Z), np.eye(r), atol=1e-9)
    np.testing.assert_allclose(graph.degree @ Z, 0, atol=1e-8 * np.sqrt(graph.degree.sum()))
    np.testing.assert_allclose((d * Z - graph.apply(Z) - d * Z * mu) / np.sqrt(d), 0, atol=atol)
    assert (np.diff(mu) >= -1e-12).all()
    return solution


@pytest.fixture
def lanczos_only(monkeypatch):
    monkeypatch.setattr(spectral, "DENSE_SIZE", 0)


@pytest.mark.parametrize("r", [1, 5, 12])
@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_lanczos_gives_the_dense_eigenpairs(lanczos_only, r, form):
    W = cloud(300)
    mu, Z = dense_pairs(W.toarray())
    solution = check_pairs(CombinedGraph(W if form == "sparse" else W.toarray()), r)
    np.testing.assert_allclose(solution.eigenvalues, mu[1 : r + 1], atol=1e-12)
    D = np.diag(W.sum(axis=1))
    overlap = np.linalg.svd(solution.coordinates.T @ D @ Z[:, 1 : r + 1], compute_uv=False)
    np.testing.assert_allclose(overlap, 1, atol=1e-9)


@pytest.mark.parametrize("dense_size", [0, 400])
@pytest.mark.parametrize("weight", [1e-10, 1e-33])
def test_a_weakly_linked_node_satisfies_its_equation(monkeypatch, dense_size, weight):
    # with a small degree, u = D^(1/2) z of the node is dominated by rounding errors
    monkeypatch.setattr(spectral, "DENSE_SIZE", dense_size)
    W = cloud(300).toarray()
    W[7] *= weight
    W[:, 7] = W[7]
    found = check_pairs(CombinedGraph(sp.csr_array(W)), 5)
    Z, degree = found.coordinates, W.sum(axis=1)
    expected = W[7] @ Z / degree[7] / (1 - found.eigenvalues)
    np.testing.assert_allclose(Z[7], expected, rtol=1e-6, atol=1e-9 * np.abs(Z).max())


@pytest.mark.parametrize("degree", [1, 2, 8])
def test_the_filter_does_not_change_the_result(lanczos_only, monkeypatch, degree):
    monkeypatch.setattr(spectral, "_MAX_DEGREE", degree)
    W = cloud(500)
    np.testing.assert_allclose(
        check_pairs(CombinedGraph(W), 6).eigenvalues, dense_pairs(W.toarray())[0][1:7], atol=1e-12
    )


def test_repeated_eigenvalues_are_all_found(lanczos_only):
    solution = check_pairs(CombinedGraph(torus(30)), 20)
    np.testing.assert_allclose(solution.eigenvalues, torus_eigenvalues(30, 20), atol=1e-12)


def test_eigenvectors_missed_by_lanczos_are_found_by_the_check(lanczos_only, monkeypatch):
    """A first run that misses three leading eigenvectors is detected and completed."""
    honest = spectral._arpack
    calls = []

    def forgetful(apply, n, r, n_basis, rng):
        calls.append(r)
        values, vectors = honest(apply, n, r + 3, n_basis, rng)
        return (values[:r], vectors[:, :r]) if len(calls) == 1 else (values[3:], vectors[:, 3:])

    monkeypatch.setattr(spectral, "_arpack", forgetful)
    W = cloud(400)
    solution = check_pairs(CombinedGraph(W), 5)
    assert len(calls) == 2
    np.testing.assert_allclose(solution.eigenvalues, dense_pairs(W.toarray())[0][1:6], atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("r", [20, 40, 45])
def test_forty_one_components(lanczos_only, r):
    """Plain eigsh fails here: 41 zeros, then eigenpairs of single components, some of them equal."""
    parts = [cloud(60 + c, seed=c % 39) for c in range(39)]
    parts += [parts[3], parts[3]]
    W = sp.csr_array(sp.block_diag(parts))
    expected = np.sort(np.concatenate([dense_pairs(part.toarray())[0] for part in parts]))[1 : r + 1]
    order = np.random.default_rng(0).permutation(W.shape[0])
    W = sp.csr_array(W[order][:, order])
    solution = check_pairs(CombinedGraph(W), r)
    np.testing.assert_allclose(solution.eigenvalues, expected, atol=1e-10)
    np.testing.assert_array_equal(solution.eigenvalues[:40], 0)


def test_contrasts_separate_the_largest_components_first():
    W = sp.block_diag([ring(4), ring(9), ring(6)])
    Z = smallest_eigenpairs(CombinedGraph(sp.csr_array(W)), 2).coordinates
    small, large, middle = Z[0], Z[4], Z[13]
    assert [np.ptp(Z[rows], axis=0).max() for rows in (slice(4), slice(4, 13), slice(13, 19))] == [0, 0, 0]
    assert middle[0] < small[0] == 0 < large[0]
    assert small[1] < 0 < large[1] == middle[1]


def test_labels_join_components():
    W = sp.csr_array(sp.block_diag([ring(5), ring(6), ring(7), sp.csr_array((1, 1))]))
    Y = np.full((19, 2), -1, dtype=np.int8)
    Y[[0, 5]] = [1, 0]
    Y[[6, 11, 18]] = [0, 1]
    assert sorted(CombinedGraph(W).components().sizes) == [1, 5, 6, 7]
    Y_split = Y.copy()
    Y_split[6] = -1
    assert sorted(CombinedGraph(W, find_label_sets(Y_split)).components().sizes) == [8, 11]
    assert CombinedGraph(W, find_label_sets(Y)).components().sizes.tolist() == [19]
    Y_overlap = Y_split.copy()
    Y_overlap[1] = 1  # has both labels: similar to both sets
    graph = CombinedGraph(W, find_label_sets(Y_overlap), 0.3)
    assert graph.components().sizes.tolist() == [19]
    check_pairs(graph, 4)


def test_small_components_are_solved_by_dense_algebra():
    solution = check_pairs(CombinedGraph(np.ones((6, 6)) - np.eye(6)), 5)
    np.testing.assert_allclose(solution.eigenvalues, 1.2, atol=1e-12)
    pair = sp.csr_array(np.array([[0.0, 2.0], [2.0, 0.0]]))
    np.testing.assert_allclose(check_pairs(CombinedGraph(pair), 1).eigenvalues, [2.0])


def test_complete_graph_by_lanczos(lanczos_only):
    """One eigenvalue with multiplicity 89: every Lanczos run ends at once."""
    solution = check_pairs(CombinedGraph(np.ones((90, 90)) - np.eye(90)), 4)
    np.testing.assert_allclose(solution.eigenvalues, 90 / 89, atol=1e-10)


def test_ritz_values_are_lower_bounds():
    S = np.diag(np.linspace(-1, 1, 50) ** 3)
    ritz = spectral._ritz_values(lambda v: S @ v, np.random.default_rng(0).normal(size=50), 12)
    assert len(ritz) == 12
    assert (ritz <= np.sort(np.diag(S))[::-1][:12] + 1e-12).all()
    assert len(spectral._ritz_values(lambda v: v, np.ones(50), 12)) == 1


def test_same_input_same_bytes_and_threads_agree(lanczos_only):
    graph = CombinedGraph(cloud(1500))
    with threadpool_limits(1):
        one, again = smallest_eigenpairs(graph, 6), smallest_eigenpairs(graph, 6)
    with threadpool_limits(2):
        two = smallest_eigenpairs(graph, 6)
    assert one.coordinates.tobytes() == again.coordinates.tobytes()
    np.testing.assert_allclose(two.eigenvalues, one.eigenvalues, atol=1e-12)
    signs = np.sign((one.coordinates * two.coordinates).sum(axis=0))
    np.testing.assert_allclose(two.coordinates * signs, one.coordinates, atol=1e-10)


def test_bad_requests_raise_clear_errors(lanczos_only, monkeypatch):
    with pytest.raises(InvalidInput, match="5 eigenvectors requested; a graph of 5 nodes has 4 besides"):
        smallest_eigenpairs(CombinedGraph(ring(5)), 5)
    with pytest.raises(InvalidInput, match="Node 1 has degree 0"):
        smallest_eigenpairs(CombinedGraph(sp.csr_array(np.diag([1.0, 0.0, 1.0]))), 1)
    monkeypatch.setattr(spectral, "_MAX_RESTARTS", 2)
    chain = sp.csr_array(sp.diags_array([np.ones(2999), np.ones(2999)], offsets=[1, -1]))
    with pytest.raises(InvalidInput, match="did not converge"):
        smallest_eigenpairs(CombinedGraph(chain), 3)

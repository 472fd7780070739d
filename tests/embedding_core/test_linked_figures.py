"""Figures of Kernel DLE with links on citation networks: bars over ten random splits."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from embedding_core.graph.supplied import graph_from_edges
from embedding_core.protocols import linked as protocol
from embedding_core.protocols.linked import PUBLIC, SHUFFLE_LINKS
from embedding_core.protocols.trial import Arm, TrialData

pytestmark = pytest.mark.slow
SETTINGS = {"labeled": 20, "test": 1000, "seed": 0}


def load(folder: Path, name: str) -> TrialData:
    place = folder / name
    if not place.is_dir():
        pytest.skip(f"{name} is not in {folder}")
    X = sp.csr_array(sp.load_npz(place / f"{name}_X.npz")).astype(np.float32)
    known = pq.read_table(place / f"{name}_labels.parquet").to_pydict()
    edges = pq.read_table(place / f"{name}_edges.parquet").to_pydict()
    y, split = np.array(known["class"]), np.array(known["planetoid_split"])
    links = graph_from_edges(edges["i"], edges["j"], edges["w"], len(y))
    Y = (y[:, None] == np.unique(y)).astype(np.int8)
    return TrialData(X, Y, (), True, split == "train", test=split == "test", links=links)


@pytest.mark.parametrize(("name", "bar", "public"), [("cora", 0.81, 0.82), ("citeseer", 0.67, 0.69)])
def test_kernel_dle_with_links(shared_data: Path, name: str, bar: float, public: float) -> None:
    data = load(shared_data, name)
    arm = Arm("links", "kernel_dle", {"links": "loo"})
    cells = [cell for k in range(10) for cell in protocol.trial(data, arm, SETTINGS, "unit", k)]
    random = [cell.value for cell in cells if cell.condition != PUBLIC]
    assert len(random) == 10
    assert np.mean(random) >= bar
    assert next(cell.value for cell in cells if cell.condition == PUBLIC) >= public


def test_shuffled_links_change_nothing(shared_data: Path) -> None:
    data = load(shared_data, "cora")
    arms = [Arm("one", "kernel_dle", params) for params in ({"links": "loo", SHUFFLE_LINKS: True}, {})]
    found = [[protocol.trial(data, arm, SETTINGS, "unit", k)[0].value for k in range(3)] for arm in arms]
    np.testing.assert_allclose(*found, atol=0.01)

"""The feature block `links:ppr`: what it contains, and what makes it stale."""

from pathlib import Path

import numpy as np
import pytest

from embedding_core.graph.propagation import LinkPropagation
from flows.status import inspect_stages
from storage.errors import ConfigError, SourceError
from tasks.dataset import load_features
from tests.conftest import local_config, run_training

N = 40


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table with ids and the links of its items; every third link has a weight of 2."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % 2
    X = rng.normal(size=(N, 3)) + y[:, None]
    rows = [f"n{k},{','.join(map(str, X[k].round(3)))},{'ab'[y[k]]}" for k in range(N)]
    (tmp_path / "t.csv").write_text("id,f0,f1,f2,class\n" + "\n".join(rows) + "\n")
    write_links(tmp_path, [(k, (k + 2) % N, 1 + (k % 3 == 0)) for k in range(N - 2)])
    return tmp_path


def write_links(place: Path, links: list[tuple[int, int, int]]) -> None:
    lines = [f"n{a},n{b},{w}" for a, b, w in links]
    (place / "links.csv").write_text("source,target,w\n" + "\n".join(lines) + "\n")


def config(place: Path, extractors: str, *more: str):
    edges = f'source.edges="{place / "links.csv"}"'
    return local_config(place / "t.csv", place / "home", edges, f"features.extractors={extractors}", *more)


@pytest.mark.parametrize(("kind", "direction"), [("ppr", "symmetric"), ("ppr-both", "both")])
def test_rows_are_those_of_the_core(place: Path, kind: str, direction: str) -> None:
    done = run_training(config(place, f"links:{kind}"), until="features")
    assert done.products.features is not None
    found = load_features(done.store, done.products.features)
    base = load_features(done.store, done.products.refs["features"]["given"])  # type: ignore[arg-type]
    A = np.zeros((N, N))
    for k in range(N - 2):
        A[k, (k + 2) % N] = 1 + (k % 3 == 0)
    expected = LinkPropagation(direction=direction).fit_transform(base.X, A)
    np.testing.assert_allclose(found.X, expected, atol=1e-6)


@pytest.mark.slow
def test_beside_the_features_themselves(place: Path) -> None:
    for order in ("given,links:ppr", "links:ppr,given"):
        done = run_training(config(place, order), until="evaluation")
        assert done.products.features is not None
        found = load_features(done.store, done.products.features)
        assert [block["name"] for block in found.recipe["blocks"]] == order.split(",")
        assert found.X.shape == (N, 3 + 9)


@pytest.mark.slow
def test_a_changed_link_recomputes_only_what_depends_on_it(place: Path) -> None:
    chosen = config(place, "given,links:ppr", "embedding.methods=multilabel_dle")
    run_training(chosen)
    write_links(place, [(k, (k + 2) % N, 1) for k in range(N - 2)])
    status = {one.label: one for one in inspect_stages(chosen)}
    assert status["ingest"].state == status["features[given]"].state == "fresh"
    for label in ("features[links:ppr]", "affinity"):
        assert status[label].state == "stale"
        assert any("edge list" in reason for reason in status[label].reasons), status[label].reasons
    again = {one.label: one for one in run_training(chosen).stages}
    assert again["features[given]"].cached and again["correlation"].cached
    assert not again["features[links:ppr]"].cached


def test_without_links_it_is_refused(place: Path) -> None:
    with pytest.raises(ConfigError, match=r"source\.edges is not set"):
        run_training(local_config(place / "t.csv", place / "home", "features.extractors=links:ppr"))
    with pytest.raises(ConfigError, match=r"links:up is not known; choose from links:ppr, links:ppr-both"):
        run_training(config(place, "links:up"))


def test_a_file_without_a_link_is_refused(place: Path) -> None:
    (place / "links.csv").write_text("source,target\nn1,n1\n")
    with pytest.raises(SourceError, match=r"no link between two items \(1 links are listed\)"):
        run_training(config(place, "auto"), until="affinity")

"""Toy problems: sizes as in the papers, shapes as documented, reproducible rows."""

from pathlib import Path

import numpy as np
import pytest

from storage.sources.base import SourceOptions
from storage.sources.registry import open_source
from storage.sources.toy_sets import GARBAGE_WIDTH, TOY_SETS, draw_clusdat, draw_three_suns, draw_torus


@pytest.mark.parametrize(
    ("name", "shape", "sizes"),
    [
        ("torus", (1000, 10), [500, 500]),
        ("clusdat", (1600, 10), [800, 800]),
        ("three_suns", (170, 2), [60, 50, 60]),
    ],
)
def test_sizes_are_the_papers_and_rows_repeat(name, shape, sizes):
    toy, again = TOY_SETS[name](), TOY_SETS[name]()
    assert toy.X.shape == shape
    assert np.unique(toy.classes, return_counts=True)[1].tolist() == sizes
    assert len(toy.feature_names) == shape[1]
    np.testing.assert_array_equal(toy.X, again.X)


def test_torus_is_two_linked_rings():
    toy = draw_torus()
    shape = toy.X[:, :3]
    first, second = shape[:500], shape[500:]
    to_first = np.hypot(np.hypot(first[:, 0], first[:, 1]) - 1, first[:, 2])
    to_second = np.hypot(np.hypot(second[:, 0] - 1, second[:, 2]) - 1, second[:, 1])
    np.testing.assert_allclose([*to_first, *to_second], 0.2)
    # Linked: the second ring passes the plane of the first inside of it, and once more outside.
    crossing = second[np.abs(second[:, 2]) < 0.1]
    inside = np.hypot(crossing[:, 0], crossing[:, 1]) < 0.5
    assert 0 < inside.sum() < len(crossing)


def test_clusdat_alternates_on_a_grid():
    toy = draw_clusdat()
    cell = np.round(toy.X[:, :2]).astype(int)
    odd = cell.sum(axis=1) % 2 == 1
    assert np.mean(odd == (np.array(toy.classes) == "odd cells")) > 0.99
    assert len(np.unique(cell[np.abs(toy.X[:, :2] - cell).max(axis=1) < 0.3], axis=0)) == 16


@pytest.mark.parametrize(("draw", "count", "shape"), [(draw_torus, 7, 3), (draw_clusdat, 8, 2)])
def test_garbage_is_independent_of_the_class(draw, count, shape):
    toy = draw()
    garbage = toy.X[:, shape:]
    assert garbage.shape[1] == count
    second = np.array(toy.classes) == toy.classes[-1]
    apart = np.abs(garbage[second].mean(axis=0) - garbage[~second].mean(axis=0)) / garbage.std(axis=0)
    assert apart.max() < 4 * np.sqrt(4 / len(toy.X))
    assert garbage.std() == pytest.approx(GARBAGE_WIDTH * toy.X[:, :shape].std(axis=0).mean(), rel=0.05)


def test_only_the_middle_sun_touches_the_others():
    toy = draw_three_suns()
    suns = {name: toy.X[np.array(toy.classes) == name] for name in ("red", "cyan", "blue")}

    def gap(a, b):
        return np.linalg.norm(suns[a][:, None] - suns[b], axis=2).min()

    assert max(gap("red", "cyan"), gap("blue", "cyan")) < 0.5
    assert gap("red", "blue") > 3


@pytest.mark.parametrize("name", TOY_SETS)
def test_toys_are_built_in_sets(name, tmp_path: Path):
    source = open_source(SourceOptions(path=name), tmp_path)
    found = source.read(tmp_path)
    toy = TOY_SETS[name]()
    np.testing.assert_array_equal(found.X, toy.X.astype(np.float32))
    assert [found.label_names[k] for k in found.labels.argmax(axis=1)] == toy.classes
    assert found.single_label
    assert source.digest(tmp_path) == open_source(SourceOptions(path=name), tmp_path).digest(tmp_path)

"""Changed items: how they are reported, how few chunks they affect, what a run records."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.artifacts.keys import ArtifactRef
from storage.artifacts.store import ArtifactStore
from tasks.changes import compare_items
from tasks.reporter import Reporter
from tasks.runs import load_last_run, load_last_runs, remember_run, source_id
from tasks.settings import SourceSettings
from tasks.stages import chunks
from tasks.stages.chunks import split_items
from tasks.stages.neighbors import limit_neighbors
from tests.store_helpers import artifact, recipe

collections = st.lists(st.text(max_size=6), unique=True, max_size=60)


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a few items, so that small examples have many."""
    monkeypatch.setattr(chunks, "MEAN_ITEMS", 4)
    monkeypatch.setattr(chunks, "MAX_ITEMS", 1000)


def content(ids: list[str]) -> list[tuple[str, ...]]:
    return [tuple(ids[rows.start : rows.stop]) for rows in split_items(ids)]


class TestChunks:
    @given(collections)
    def test_cover_every_item_in_order(self, ids: list[str]) -> None:
        assert [name for chunk in content(ids) for name in chunk] == ids
        assert all(content(ids))

    @given(collections, st.text(max_size=6), st.data())
    def test_one_item_more_or_less_changes_at_most_two(
        self, ids: list[str], name: str, data: st.DataObject
    ) -> None:
        ids = [other for other in ids if other != name]
        place = data.draw(st.integers(0, len(ids)))
        without, with_it = content(ids), content([*ids[:place], name, *ids[place:]])
        assert len(set(with_it) - set(without)) <= 2
        assert len(set(without) - set(with_it)) <= 2

    def test_none_is_longer_than_the_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(chunks, "MAX_ITEMS", 5)
        monkeypatch.setattr(chunks, "_ends_chunk", lambda name: False)
        assert [len(rows) for rows in split_items([str(i) for i in range(12)])] == [5, 5, 2]

    def test_bounds_depend_on_names_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(chunks, "MEAN_ITEMS", 256)
        sizes = [len(rows) for rows in split_items([f"{i:05d}.jpg" for i in range(20_000)])]
        assert 40 <= len(sizes) <= 130
        assert sizes == [len(rows) for rows in split_items([f"{i:05d}.jpg" for i in range(20_000)])]

    def test_a_name_that_is_not_utf8(self) -> None:
        assert content(["caf\udce9"]) == [("caf\udce9",)]


class TestChanges:
    def test_each_kind_is_named(self) -> None:
        before = (["a", "b", "c", "d"], ["1", "2", "3", "4"])
        now = (["a", "b", "e", "f"], ["1", "9", "3", "5"])
        found = compare_items(before, now)
        assert found.changed == ["b"]
        assert found.renamed == {"e": "c"}
        assert found.added == ["f"]
        assert found.removed == ["d"]
        assert found.describe() == "1 changed (b), 1 added (f), 1 removed (d), 1 renamed (c → e)"

    def test_a_long_list_is_cut(self) -> None:
        found = compare_items(([], []), (["a", "b", "c", "d"], ["1", "2", "3", "4"]))
        assert found.describe() == "4 added (a, b, c, …)"

    def test_a_copy_is_added_not_renamed(self) -> None:
        found = compare_items((["a"], ["1"]), (["a", "b"], ["1", "1"]))
        assert (found.added, found.renamed) == (["b"], {})

    @pytest.mark.slow
    @given(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("123")))
    def test_no_changes(self, items: dict[str, str]) -> None:
        same = (list(items), list(items.values()))
        assert compare_items(same, same).describe() == ""

    @pytest.mark.slow
    @settings(max_examples=200)
    @given(
        st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("1234567")),
        st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("1234567")),
    )
    def test_every_difference_is_reported_once(self, old: dict[str, str], new: dict[str, str]) -> None:
        found = compare_items((list(old), list(old.values())), (list(new), list(new.values())))
        told = [*found.added, *found.renamed, *found.changed]
        assert len(told) == len(set(told))
        assert set(told) == {name for name in new if old.get(name) != new[name]}
        assert set(found.removed) <= set(old) - set(new)


class TestRuns:
    def make(self, store: ArtifactStore, seed: int) -> ArtifactRef:
        return store.compute(recipe(seed), lambda: artifact(seed)).ref

    def test_a_shorter_run_keeps_the_artifacts_of_later_stages(self, tmp_path: Path) -> None:
        store, source = ArtifactStore.local(tmp_path / "store"), SourceSettings(path=str(tmp_path))
        assert load_last_run(store, source) == {}
        first, second = self.make(store, 0), self.make(store, 1)
        remember_run(store, source, {"features": first, "affinity": first})
        remember_run(store, source, {"features": second})
        known = {name: ArtifactRef.from_json(ref) for name, ref in load_last_run(store, source).items()}
        assert known == {"features": second, "affinity": first}

    def test_the_pointer_names_its_source(self, tmp_path: Path) -> None:
        store, source = ArtifactStore.local(tmp_path / "store"), SourceSettings(path=str(tmp_path))
        first = self.make(store, 0)
        name = f"run-{source_id(source)}"
        remember_run(store, source, {"features": first})
        assert load_last_run(store, source) == {"features": first.to_json()}
        assert load_last_runs(store) == [first]
        remember_run(store, source, {"affinity": first})
        assert load_last_runs(store) == [first, first]
        assert (store.read_pointer(name) or {})["source"] == str(tmp_path)

    def test_sources_are_distinguished_by_their_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a").mkdir()
        monkeypatch.chdir(tmp_path)
        same = {source_id(SourceSettings(path=path)) for path in ("a", "./a", str(tmp_path / "a"))}
        assert len(same) == 1
        assert source_id(SourceSettings(path="iris")) not in same
        assert source_id(SourceSettings(path="a", strict=True)) in same


class TestNeighbors:
    @given(st.integers(1, 20), st.integers(1, 20))
    def test_as_many_as_there_are(self, asked: int, available: int) -> None:
        assert limit_neighbors("x", asked, available, Reporter()) == min(asked, available)

    def test_a_reduction_is_reported_once(self) -> None:
        said: list[str] = []
        reporter = Reporter()
        reporter.say = said.append  # type: ignore[method-assign]
        for asked in (10, 10, 3):
            limit_neighbors("affinity.n_neighbors", asked, 5, reporter)
        assert said == ["  affinity.n_neighbors is 10, but only 5 neighbors are available: using 5."]

"""Texts, sound and clips from files to scores: what is recomputed, what is missing, what both parts tell."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedding_core.annotator import Annotator
from flows.annotate import annotation_config
from flows.source_summary import summarize_source
from flows.status import inspect_stages
from storage.artifacts.keys import ArtifactRef
from storage.errors import ConfigError, SourceError
from tasks import annotation
from tasks.dataset import load_dataset, load_features
from tasks.settings import NewItems
from tasks.stages import evaluation, ingest
from tasks.stages.feature_blocks import block_stages
from tests.clips import tone, write_clip, write_wav
from tests.conftest import local_config
from tests.tasks.test_feature_blocks import Walk

Loudness = Callable[[str], None]
COLORS = {"warm": (220, 90, 30), "cold": (30, 90, 220)}
TONES = {"low": 200.0, "high": 2000.0}


def scores_of(made: Walk, method: str) -> float:
    """Mean macro F1 over folds."""
    stage = evaluation.stage(method, {}, made.config.evaluation, made.state.data, made.workspace)
    found = evaluation.load_scores(made.workspace.store, made.execute(stage))
    return float(np.mean([one.value for one in found if one.metric == "macro_f1"]))


def annotate(made: Walk, model: annotation.FittedModel, path: Path) -> annotation.Annotations:
    """Annotate a source as the command does."""
    place = NewItems(path=str(path))
    source = ingest.open_collection(place, made.workspace)
    manifest = made.execute(ingest.stage(place, source, made.workspace))
    new: dict[str, ArtifactRef | None] = {}
    for stage in block_stages(model.blocks, place, source, manifest, new, made.workspace):
        new[stage.variant] = made.execute(stage)
    labels = made.execute(annotation.stage(model, place.path, new[""], made.workspace))
    return annotation.load_annotations(made.workspace.store, labels)


def fit(made: Walk, method: str) -> annotation.FittedModel:
    dataset = load_dataset(made.workspace.store, made.refs["ingest"], made.refs["features"])
    model = Annotator(
        method,
        blocks=dataset.blocks,
        recipe=dataset.recipe,
        label_names=dataset.label_names,
        single_label=dataset.single_label,
    ).fit(dataset.X, dataset.Y)
    return annotation.FittedModel(model, "digest", "run", method)


class TestText:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        rng = np.random.default_rng(5)
        words = {"sport": ["ball", "goal", "team"], "music": ["song", "choir", "tune"]}
        for name, own in words.items():
            (tmp_path / "texts" / name).mkdir(parents=True)
            for k in range(12):
                text = " ".join(rng.choice([*own, "the", "a_word", "and", f"rare{k}"], 15))
                (tmp_path / "texts" / name / f"{k:02}.txt").write_text(text)
        return tmp_path / "texts"

    def walk(self, folder: Path, **features: Any) -> Walk:
        return Walk(folder, folder.parent / "home", **{"extractors": ("auto",), **features})

    @pytest.mark.slow
    def test_a_run_scores_and_annotates_texts(self, folder: Path) -> None:
        made = self.walk(folder)
        assert list(made.refs)[:3] == ["ingest", "features[tfidf]", "features"]
        dataset = load_dataset(made.workspace.store, made.refs["ingest"], made.refs["features"])
        assert dataset.blocks is not None
        assert (dataset.blocks[0]["terms"], dataset.X.shape) == ("tfidf", (24, 2**20))
        assert scores_of(made, "svm") > 0.9
        model = fit(made, "svm")
        assert model.annotator.model_.n_features_in_ < 50, "only terms that occur are kept"
        new = folder.parent / "new"
        new.mkdir()
        (new / "a.txt").write_text("our team scored a goal, unheard of")
        (new / "b.txt").write_text("the choir sings a song")
        found = annotate(made, model, new)
        assert [found.label_names[int(row.argmax())] for row in found.scores] == ["sport", "music"]

    @pytest.mark.slow
    def test_one_changed_text_is_extracted_alone(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from embedding_core.features.tfidf import Tfidf

        first = self.walk(folder)
        (folder / "sport" / "03.txt").write_text("an entirely new text about a ball")
        status = {one.label: one for one in inspect_stages(first.config)}
        assert status["features[tfidf]"].reasons[0] == "1 of 24 items to extract"
        seen: list[bytes] = []
        plain = Tfidf.extract_bytes
        monkeypatch.setattr(
            Tfidf, "extract_bytes", lambda own, data: (seen.append(data), plain(own, data))[1]
        )
        again = self.walk(folder)
        assert seen == [b"an entirely new text about a ball"]
        monkeypatch.undo()
        before, after = (
            load_features(made.workspace.store, made.refs["features"]).X.toarray() for made in (first, again)
        )
        changed = np.flatnonzero((before != after).any(axis=1))
        assert changed.tolist() == [again_row(again, "sport/03.txt")]

    def test_texts_without_words_are_listed(self, folder: Path) -> None:
        (folder / "sport" / "empty.txt").write_text("")
        (folder / "sport" / "latin.txt").write_bytes("Grüße".encode("latin-1"))
        made = self.walk(folder)
        dataset = load_dataset(made.workspace.store, made.refs["ingest"], made.refs["features"])
        assert set(dataset.errors) == {"sport/empty.txt", "sport/latin.txt"}
        assert len(dataset.ids) == 24

    @pytest.mark.slow
    def test_parameters_of_terms_make_their_block_stale(self, folder: Path) -> None:
        self.walk(folder)
        again = self.walk(folder, tfidf={"ngrams": 2})
        assert "features[tfidf]" in again.computed
        again = self.walk(folder, tfidf={"hash_bits": 12})
        assert load_features(again.workspace.store, again.refs["features"]).X.shape == (24, 4096)

    def test_a_table_of_texts(self, tmp_path: Path) -> None:
        rows = [{"text": f"more{k % 2} and word{k % 3} more{k % 2}", "label": "ab"[k % 2]} for k in range(20)]
        rows.append({"text": None, "label": "a"})
        path = tmp_path / "posts.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        made = Walk(path, tmp_path / "home", extractors=("auto",))
        dataset = load_dataset(made.workspace.store, made.refs["ingest"], made.refs["features"])
        assert dataset.errors == {"20": "the item has no text"}
        assert scores_of(made, "1nn") == 1.0

    def test_extractors_of_images_are_refused(self, folder: Path) -> None:
        with pytest.raises(ConfigError, match=r"color_moments reads images, but .* contains text"):
            self.walk(folder, extractors=("color_moments",))


def test_new_items_are_read_like_the_collection(tmp_path: Path) -> None:
    here = local_config("old", tmp_path, "source.text=message", "source.every_seconds=2.5")
    new = annotation_config("new", here).source
    assert (new.path, new.text, new.every_seconds, new.labeled) == ("new", "message", 2.5, False)


def test_new_items_are_read_like_the_collection_of_the_model(tmp_path: Path) -> None:
    recorded = {"path": "old", "text": "message", "every_seconds": 4.0, "kind": "video", "labels": "l.csv"}
    here = local_config("old", tmp_path)
    new = annotation_config("new", here, recorded).source
    assert (new.text, new.every_seconds, new.kind, new.labels) == ("message", 4.0, "auto", None)
    stated = local_config("old", tmp_path, "source.every_seconds=2.5")
    new = annotation_config("new", stated, recorded).source
    assert (new.text, new.every_seconds) == ("message", 2.5), "what the configuration states comes first"
    given = local_config("x", tmp_path, "source.every_seconds=1", "source.kind=video").source
    new = annotation_config("new", stated, recorded, given).source
    assert (new.path, new.every_seconds, new.kind) == ("new", 1, "video")
    same = annotation_config("old", here, recorded, unlabeled=True).source
    assert (same.labeled, same.annotated, same.kind, same.labels) == (True, True, "video", "l.csv")


def again_row(made: Walk, name: str) -> int:
    return load_features(made.workspace.store, made.refs["features"]).ids.index(name)


class TestSound:
    @pytest.mark.slow
    def test_unreadable_sounds_are_listed(self, tmp_path: Path, write_loudness: Loudness) -> None:
        write_loudness("np.mean")
        for name, frequency in TONES.items():
            for k in range(5):
                write_wav(tmp_path / "sounds" / name / f"{k}.wav", tone(frequency, 0.1) // (k + 1))
        write_wav(tmp_path / "sounds" / "low" / "silent.wav", np.zeros(1000))
        (tmp_path / "sounds" / "low" / "cut.wav").write_bytes(b"RIFF")
        made = Walk(tmp_path / "sounds", tmp_path / "home", extractors=("auto",))
        dataset = load_dataset(made.workspace.store, made.refs["ingest"], made.refs["features"])
        assert dataset.errors["low/silent.wav"] == "the sound is silent"
        assert set(dataset.errors) == {"low/silent.wav", "low/cut.wav"}
        assert made.state.scale == "zscore"
        assert scores_of(made, "1nn_zscore") == 1.0


def write_clips(folder: Path, each: int = 4) -> Path:
    """Clips of two colors and two tones; color and tone together are the class."""
    rng = np.random.default_rng(2)
    for color, rgb in COLORS.items():
        for name, frequency in TONES.items():
            for k in range(each):
                r, g, b = (int(np.clip(value + rng.normal(0, 20), 0, 255)) for value in rgb)
                pitch = frequency * rng.uniform(0.9, 1.1)
                write_clip(folder / f"{color}_{name}" / f"{k}.mp4", [(r, g, b)], 0.6, pitch)
    return folder


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clips(tmp_path_factory.mktemp("video") / "clips", 6)


class TestClips:
    @pytest.mark.slow
    def test_only_both_parts_together_tell_the_classes(
        self, clips: Path, tmp_path: Path, write_loudness: Loudness, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_loudness("np.mean")
        choices = {"pictures": ("color_moments",), "sound": ("mfcc",), "both": ("auto",)}
        found = {
            name: scores_of(Walk(clips, tmp_path / "home", extractors=names), "svm")
            for name, names in choices.items()
        }
        with capsys.disabled():
            figures = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
            sys.stdout.write(f"\nmacro F1 of the SVM on 24 clips of four classes: {figures}\n")
        assert found["both"] > 0.95
        assert max(found["pictures"], found["sound"]) < 0.7, "one part cannot tell two of the four classes"

    @pytest.mark.slow
    def test_each_block_is_scaled_on_its_own(
        self, clips: Path, tmp_path: Path, write_loudness: Loudness
    ) -> None:
        write_loudness("np.mean")
        made = Walk(clips, tmp_path / "home", extractors=("auto",))
        dataset = load_dataset(made.workspace.store, made.refs["ingest"], made.refs["features"])
        assert [(one["name"], one["scale"]) for one in dataset.blocks or []] == [
            ("color_moments", "zscore"),
            ("mfcc", "zscore"),
        ]
        prepared = fit(made, "1nn").annotator.scaler_.transform(dataset.X)
        wide, narrow = prepared[:, :384], prepared[:, 384:]
        assert np.isclose(wide.var(axis=0).sum(), narrow.var(axis=0).sum(), rtol=1e-3)

    def test_a_clip_is_the_mean_of_its_key_frames(self, tmp_path: Path) -> None:
        from embedding_core.features.color_moments import ColorMoments

        for name in "ab":
            write_clip(tmp_path / "clips" / name / "1.mp4", [(250, 0, 0), (0, 0, 250)], 1.0, None)
        every = "source.every_seconds=1"
        made = Walk(tmp_path / "clips", tmp_path / "home", extractors=("color_moments",), overrides=(every,))
        source = ingest.open_collection(made.config.source, made.workspace)
        part = source.read(made.workspace.cache_dir).part("images")
        assert part.pieces is not None
        rows = [ColorMoments().extract_bytes(piece.path.read_bytes()) for piece in part.pieces[0]]
        assert len(rows) == 2
        X = load_features(made.workspace.store, made.refs["features"]).X
        np.testing.assert_allclose(X[0], np.mean(rows, axis=0), rtol=1e-6)

    @pytest.mark.slow
    def test_a_changed_block_recomputes_that_block_alone(
        self, clips: Path, tmp_path: Path, write_loudness: Loudness
    ) -> None:
        write_loudness("np.mean")
        first = Walk(clips, tmp_path / "home", extractors=("auto",))
        write_loudness("np.max")
        states = {one.label: one.state for one in inspect_stages(first.config)}
        assert (states["features[color_moments]"], states["features[mfcc]"]) == ("fresh", "stale")
        computed = Walk(clips, tmp_path / "home", extractors=("auto",)).computed
        assert {one for one in computed if one.startswith("features")} == {"features[mfcc]", "features"}


class TestMissingSound:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = write_clips(tmp_path / "clips", 2)
        for k in range(7):
            write_clip(folder / "warm_low" / f"mute{k}.mp4", [COLORS["warm"]], 0.4, None)
        return folder

    @pytest.mark.slow
    def test_is_an_error_with_counts_and_the_first_five(
        self, folder: Path, tmp_path: Path, write_loudness: Loudness
    ) -> None:
        write_loudness("np.mean")
        listed = ", ".join(f"warm_low/mute{k}.mp4" for k in range(5))
        for extractors in (("auto",), ("mfcc",)):
            with pytest.raises(
                SourceError, match=rf"7 of 15 items have no sound \({listed}, \.\.\.\)"
            ) as error:
                Walk(folder, tmp_path / "home", extractors=extractors)
            assert "features.fill" in str(error.value)

    @pytest.mark.slow
    def test_is_refused_before_anything_is_extracted(
        self, folder: Path, tmp_path: Path, write_loudness: Loudness
    ) -> None:
        write_loudness("np.mean")
        with pytest.raises(SourceError, match="7 of 15 items have no sound"):
            Walk(folder, tmp_path / "home", extractors=("color_moments", "mfcc"))
        assert not (tmp_path / "home" / "store" / "features").exists(), "not even the pictures were read"

    @pytest.mark.slow
    def test_of_every_clip_is_left_out_by_the_automatic_choice(self, tmp_path: Path) -> None:
        for k in range(4):
            name = "warm" if k % 2 else "cold"
            write_clip(tmp_path / "mute" / name / f"{k}.mp4", [COLORS[name]], 0.4, None)
        made = Walk(tmp_path / "mute", tmp_path / "home", extractors=("auto",))
        assert "no item has sound: mfcc is left out" in made.said
        assert list(made.refs)[:2] == ["ingest", "features"]
        with pytest.raises(SourceError, match="none of the 4 items has sound, which mfcc needs"):
            Walk(tmp_path / "mute", tmp_path / "home", extractors=("color_moments", "mfcc"))
        found = summarize_source(made.config)
        assert (found.problem, found.notes[0]) == ("", "no item has sound: mfcc is left out")
        one = made.config.model_copy(
            update={"features": made.config.features.model_copy(update={"extractors": ("mfcc",)})}
        )
        assert "none of the 4 items has sound" in summarize_source(one).problem
        assert {one.state for one in inspect_stages(made.config) if one.label == "features"} == {"fresh"}

    @pytest.mark.slow
    def test_does_not_matter_to_pictures(self, folder: Path, tmp_path: Path) -> None:
        made = Walk(folder, tmp_path / "home", extractors=("color_moments",))
        assert len(load_features(made.workspace.store, made.refs["features"]).ids) == 15

    @pytest.mark.slow
    def test_is_filled_by_choice_from_the_training_rows(
        self, folder: Path, tmp_path: Path, write_loudness: Loudness
    ) -> None:
        write_loudness("np.mean")
        made = Walk(folder, tmp_path / "home", extractors=("auto",), fill="mean")
        dataset = load_dataset(made.workspace.store, made.refs["ingest"], made.refs["features"])
        missing = np.isnan(dataset.X[:, -1])
        assert (missing.sum(), len(dataset.ids), dataset.errors) == (7, 15, {})
        model = fit(made, "1nn").annotator
        prepared = model.scaler_.transform(dataset.X)
        # The mean of a standardized column is zero.
        np.testing.assert_allclose(prepared[missing][:, -2:], 0, atol=1e-3)
        assert np.isfinite(prepared).all()
        assert scores_of(made, "1nn") > 0
        assert "filled with the mean" in "\n".join(made.said)
        with pytest.raises(SourceError, match="7 of 15 items have no sound"):
            Walk(folder, tmp_path / "home", extractors=("auto",))

    @pytest.mark.slow
    def test_new_clips_without_sound_are_filled_too(
        self, folder: Path, tmp_path: Path, write_loudness: Loudness
    ) -> None:
        write_loudness("np.mean")
        made = Walk(folder, tmp_path / "home", extractors=("auto",), fill="median")
        write_clip(tmp_path / "new" / "mute.mp4", [COLORS["cold"]], 0.4, None)
        found = annotate(made, fit(made, "1nn"), tmp_path / "new")
        assert found.ids == ["mute.mp4"]
        assert found.label_names[int(found.scores[0].argmax())].startswith("cold")

"""Folders of sound files and of video clips."""

import os
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from storage.errors import SourceChanged, SourceError
from storage.sources import Collection, SourceOptions, open_source
from storage.sources.clips import SAMPLE_RATE, UnusableClip, read_clip
from storage.sources.listing import digest_files
from tests.clips import tone, write_clip, write_wav

RED, BLUE, GREEN = (250, 0, 0), (0, 0, 250), (0, 200, 0)


def read(path: Path, **options: Any) -> Collection:
    cache = path.parent / "cache"
    source = open_source(SourceOptions(path=str(path), **options), cache)
    source.digest(cache)
    return source.read(cache)


def write_sounds(folder: Path) -> Path:
    for name, frequency in (("low/1.wav", 200), ("low/2.WAV", 220), ("high/1.wav", 2000)):
        write_wav(folder / name, tone(frequency, 0.2))
    return folder


class TestSound:
    def test_sub_folders_are_classes(self, tmp_path: Path) -> None:
        found = read(write_sounds(tmp_path / "sounds"))
        assert (found.kind, found.ids) == ("sound", ["high/1.wav", "low/1.wav", "low/2.WAV"])
        assert [(part.name, part.content) for part in found.parts] == [("sound", "sound")]
        assert found.label_names == ["high", "low"]

    def test_a_label_file_names_the_sounds(self, tmp_path: Path) -> None:
        folder = write_sounds(tmp_path / "sounds")
        (folder / "labels.csv").write_text("low/1.wav,dark|calm\nhigh/1.wav,bright\n")
        found = read(folder)
        assert (found.kind, found.label_names) == ("sound", ["bright", "calm", "dark"])
        np.testing.assert_array_equal(found.labels, [[1, 0, 0], [0, 1, 1], [-1, -1, -1]])

    def test_sounds_with_covers_are_sounds(self, tmp_path: Path) -> None:
        folder = write_sounds(tmp_path / "sounds")
        Image.new("RGB", (4, 4)).save(folder / "low" / "cover.jpg")
        found = read(folder)
        assert (found.kind, len(found.ids)) == ("sound", 3)
        assert "low/cover.jpg" in [note.file for note in found.notes]


def clip_digest(path: Path, cache: Path) -> str:
    return digest_files([path], cache / "index.json")[0]


def pixels_of(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image)


def seconds_of(path: Path) -> float:
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels()) == (SAMPLE_RATE, 1)
        return file.getnframes() / file.getframerate()


class TestClips:
    @pytest.mark.slow
    def test_key_frames_and_the_sound_nearest_to_them(self, tmp_path: Path) -> None:
        path = write_clip(tmp_path / "a.mp4", [RED, GREEN, BLUE], 2.0)
        found = read_clip(path, clip_digest(path, tmp_path), 2.0, tmp_path / "cache")
        with_colors = [pixels_of(piece.path).mean(axis=(0, 1)) for piece in found.frames]
        np.testing.assert_allclose(with_colors, [RED, GREEN, BLUE], atol=12)
        # Key frames at 0, 2 and 4 s: the sound from 0 to 1, 1 to 3 and 3 to 6 s is nearest to them.
        np.testing.assert_allclose([seconds_of(piece.path) for piece in found.sounds], [1, 2, 3], atol=0.15)
        assert found.damaged == 0

    def test_a_clip_is_decoded_once(self, tmp_path: Path) -> None:
        path, cache = write_clip(tmp_path / "a.mp4", [RED, BLUE]), tmp_path / "cache"
        digest = clip_digest(path, tmp_path)
        first = read_clip(path, digest, 1.0, cache)
        times = [piece.path.stat().st_mtime_ns for piece in first.frames]
        assert read_clip(path, digest, 1.0, cache) == first
        assert [piece.path.stat().st_mtime_ns for piece in first.frames] == times
        first.frames[1].path.unlink()
        assert read_clip(path, digest, 1.0, cache) == first
        assert first.frames[1].path.is_file(), "an incomplete cache is made again"
        assert not [name for name in os.listdir(cache / "clips") if name.startswith(".")]

    def test_another_content_is_noticed(self, tmp_path: Path) -> None:
        path = write_clip(tmp_path / "a.mp4", [RED])
        digest = clip_digest(path, tmp_path)
        write_clip(path, [BLUE])
        with pytest.raises(SourceChanged, match="changed while it was being read"):
            read_clip(path, digest, 10.0, tmp_path / "cache")

    def test_large_frames_are_reduced(self, tmp_path: Path) -> None:
        path = write_clip(tmp_path / "a.mkv", [RED], 0.4, None, size=(1280, 720))
        found = read_clip(path, clip_digest(path, tmp_path), 10.0, tmp_path / "cache")
        assert pixels_of(found.frames[0].path).shape == (360, 640, 3)

    def test_sound_only_is_no_clip(self, tmp_path: Path) -> None:
        path = write_clip(tmp_path / "a.mkv", [RED])
        path.write_bytes(b"RIFF" + b"\0" * 100)
        with pytest.raises(UnusableClip, match="not a readable matroska file"):
            read_clip(path, clip_digest(path, tmp_path), 10.0, tmp_path / "cache")

    def test_a_playlist_is_not_followed(self, tmp_path: Path) -> None:
        real = write_clip(tmp_path / "real.ts", [RED])
        path = tmp_path / "a.mp4"
        path.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{real}\n#EXT-X-ENDLIST\n")
        with pytest.raises(UnusableClip):
            read_clip(path, clip_digest(path, tmp_path), 10.0, tmp_path / "cache")

    def test_the_suffix_names_the_format(self, tmp_path: Path) -> None:
        path = write_clip(tmp_path / "a.avi", [RED]).rename(tmp_path / "a.mp4")
        with pytest.raises(UnusableClip, match="not a readable mp4 file"):
            read_clip(path, clip_digest(path, tmp_path), 10.0, tmp_path / "cache")

    def test_damaged_packets_are_counted_and_the_rest_is_used(self, tmp_path: Path) -> None:
        path = write_clip(tmp_path / "a.avi", [RED, GREEN, BLUE], 2.0, None, codec="mjpeg")
        data = path.read_bytes()
        starts = [place for place in range(len(data)) if data[place : place + 3] == b"\xff\xd8\xff"]
        assert len(starts) == 30
        for number in (7, 8):
            data = data[: starts[number]] + b"\0" * 600 + data[starts[number] + 600 :]
        path.write_bytes(data)
        found = read_clip(path, clip_digest(path, tmp_path), 2.0, tmp_path / "cache")
        assert (found.damaged, len(found.frames)) == (2, 3)


class TestVideo:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        write_clip(tmp_path / "clips" / "warm" / "1.mp4", [RED, GREEN])
        write_clip(tmp_path / "clips" / "warm" / "2.mkv", [RED])
        write_clip(tmp_path / "clips" / "cold" / "1.mov", [BLUE], frequency=None)
        return tmp_path / "clips"

    def test_one_item_per_clip_with_pictures_and_sound(self, folder: Path) -> None:
        found = read(folder, every_seconds=1.0)
        assert (found.kind, found.ids) == ("video", ["cold/1.mov", "warm/1.mp4", "warm/2.mkv"])
        images, sound = found.parts
        assert (images.content, sound.content) == ("images", "sound")
        assert [len(own) for own in images.pieces or []] == [1, 2, 1]
        assert [bool(digest) for digest in sound.digests] == [False, True, True]
        assert sound.paths is not None
        assert sound.paths[0] is None
        assert found.label_names == ["cold", "warm"]

    def test_labels_name_clips(self, folder: Path) -> None:
        (folder / "labels.csv").write_text("filename,labels\nwarm/1.mp4,sun|park\ncold/1.mov,sea\n")
        found = read(folder)
        np.testing.assert_array_equal(found.labels, [[0, 1, 0], [1, 0, 1], [-1, -1, -1]])
        assert found.label_names == ["park", "sea", "sun"]

    def test_unreadable_clips_are_listed(self, folder: Path) -> None:
        (folder / "cold" / "empty.mp4").write_bytes(b"")
        data = (folder / "warm" / "1.mp4").read_bytes()
        (folder / "cold" / "cut.mp4").write_bytes(data[: len(data) // 2])
        found = read(folder)
        assert len(found.ids) == 3
        notes = {note.file: note.message for note in found.notes}
        assert notes["cold/empty.mp4"].startswith("skipped: it cannot be read (")
        assert "not a readable mp4 file" in notes["cold/cut.mp4"]
        with pytest.raises(SourceError, match=r"cold/cut\.mp4: skipped.*strict"):
            read(folder, strict=True)

    def test_no_readable_clip_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "clips" / "a").mkdir(parents=True)
        (tmp_path / "clips" / "a" / "1.mp4").write_bytes(b"no video")
        with pytest.raises(
            SourceError, match=r"contains 1 clips, but none can be read; the first is a/1\.mp4"
        ):
            read(tmp_path / "clips")

    def test_the_missing_extra_is_named(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "av", None)
        with pytest.raises(SourceError, match=r'needs PyAV.*pip install "labelscape\[video\]"'):
            read(folder)

    @pytest.mark.slow
    def test_another_interval_gives_other_pictures(self, folder: Path) -> None:
        coarse, fine = (read(folder, every_seconds=every) for every in (10.0, 0.5))
        assert coarse.part_digest("images") != fine.part_digest("images")

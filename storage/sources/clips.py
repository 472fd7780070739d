"""Key frames of a clip and the sound around them, as files that ordinary extractors read.

The files are written once per content of a clip, below the cache folder of the home. Decoding is a stream:
one frame and one block of sound are in memory at a time.
"""

from __future__ import annotations

import hashlib
import json
import os
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from storage.artifacts.regular_files import open_regular
from storage.errors import SourceChanged, SourceError
from storage.sources.base import Piece
from storage.sources.unpacked import unpack_once

if TYPE_CHECKING:
    from types import TracebackType

_VERSION = 1
_INDEX = "clip.json"
# The demuxer is chosen by suffix: one that FFmpeg guesses may be a playlist, which opens other files.
_DEMUXERS = {
    ".mp4": "mp4",
    ".m4v": "mp4",
    ".mov": "mov",
    ".mkv": "matroska",
    ".webm": "matroska",
    ".avi": "avi",
}
# Key frames are reduced to this many pixels on the longer side; features need no more.
LONGEST_SIDE = 640
# Sound is written with one channel and this many samples per second, so that clips are comparable.
SAMPLE_RATE = 22_050
# 8K video has 33 million pixels.
_MOST_PIXELS = 40_000_000
_MOST_KEY_FRAMES = 10_000


class UnusableClip(Exception):
    """A clip has no key frame that can be decoded; the text is the reason."""


@dataclass(frozen=True)
class ClipContent:
    """The files of one clip.

    Attributes
    ----------
    frames : tuple of Piece
        Key frames as PNG; at least one.
    sounds : tuple of Piece
        The sound around each key frame as WAV; empty for a clip without sound.
    damaged : int
        Number of packets and frames that could not be decoded.
    """

    frames: tuple[Piece, ...]
    sounds: tuple[Piece, ...]
    damaged: int


def require_av() -> Any:
    """Import PyAV; SourceError names the extra if it is missing."""
    try:
        import av
    except ImportError as error:
        raise SourceError(
            "reading video needs PyAV, which is not installed. Install it with: "
            'pip install "labelscape[video]"'
        ) from error
    return av


def read_clip(path: Path, digest: str, every_seconds: float, cache_dir: Path) -> ClipContent:
    """The key frames and the sound of a clip, decoded unless the cache folder has them.

    Parameters
    ----------
    path : Path
    digest : str
        Content digest of the file.
    every_seconds : float
        Time between two key frames. The sound of a key frame is that which is nearest to it in time, so half
        of this before it and half after it.
    cache_dir : Path

    Raises
    ------
    UnusableClip
        No key frame can be decoded.
    SourceChanged
        The file has another content by now.
    """
    folder = cache_dir / "clips" / f"{digest}-{float(every_seconds)!r}"
    return unpack_once(folder, _recall, lambda fresh: _decode(path, digest, every_seconds, fresh), path.name)


def _recall(folder: Path) -> ClipContent | None:
    """What the cache folder has of a clip; None if it is missing or incomplete."""
    try:
        stored = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
        if stored["version"] != _VERSION:
            return None
        frames, sounds = (
            tuple(Piece(folder / str(name), str(digest)) for name, digest in stored[what])
            for what in ("frames", "sounds")
        )
        complete = bool(frames) and all(piece.path.is_file() for piece in (*frames, *sounds))
        return ClipContent(frames, sounds, int(stored["damaged"])) if complete else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _decode(path: Path, digest: str, every_seconds: float, folder: Path) -> None:
    """Write the key frames, the sound and then the index of a clip."""
    demuxer = _DEMUXERS[path.suffix.lower()]
    with open_regular(path) as file:
        if hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest() != digest:
            raise SourceChanged(f"{path} changed while it was being read", "run again")
        before = os.fstat(file.fileno())
        reader = _ClipReader(file, demuxer, every_seconds, folder)
        frames, sounds = reader.write_frames(), reader.write_sounds()
        after = os.fstat(file.fileno())
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
        raise SourceChanged(f"{path} changed while it was being read", "run again")
    index = {
        "version": _VERSION,
        "frames": [(one.name, _digest(one)) for one in frames],
        "sounds": [(one.name, _digest(one)) for one in sounds],
        "damaged": reader.damaged,
    }
    (folder / _INDEX).write_text(json.dumps(index), encoding="utf-8")


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


class _ClipReader:
    """Decodes the streams of one open file."""

    def __init__(self, file: BinaryIO, demuxer: str, every_seconds: float, folder: Path) -> None:
        self._av = require_av()
        self._file = file
        self._demuxer = demuxer
        self._every = every_seconds
        self._folder = folder
        self._start = 0.0
        self._count = 0
        self.damaged = 0

    def write_frames(self) -> list[Path]:
        """Write the first frame, and the first one after each interval."""
        paths: list[Path] = []
        due = 0.0
        for number, frame in enumerate(self._frames("video")):
            seconds = self._seconds(frame, number)
            if not paths:
                self._start = seconds
            elif seconds - self._start < due:
                continue
            if len(paths) == _MOST_KEY_FRAMES:
                raise SourceError(
                    f"a clip has more than {_MOST_KEY_FRAMES:,} key frames. Raise source.every_seconds."
                )
            paths.append(self._folder / f"frame_{len(paths):05}.png")
            _save(frame, paths[-1])
            due = (int((seconds - self._start) / self._every) + 1) * self._every
        if not paths:
            raise UnusableClip("no frame can be decoded")
        self._count = len(paths)
        return paths

    def write_sounds(self) -> list[Path]:
        """Write the sound nearest to each key frame; an empty list if there is none, or only silence."""
        resampler = self._av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
        with _Windows(self._folder, round(self._every * SAMPLE_RATE), self._count) as windows:
            for frame in self._frames("audio"):
                try:
                    blocks = resampler.resample(frame)
                except (self._av.FFmpegError, ValueError):  # the format changed within the stream
                    self.damaged += 1
                    continue
                for block in blocks:
                    seconds = max((block.time or 0.0) - self._start, 0.0)
                    windows.write(block.to_ndarray().ravel(), round(seconds * SAMPLE_RATE))
            for block in resampler.resample(None) if windows.paths else ():
                windows.write(block.to_ndarray().ravel(), 0)
        return windows.audible

    def _frames(self, what: str) -> Iterator[Any]:
        """The decodable frames of the first stream of a type; damaged packets are counted."""
        self._file.seek(0)
        try:
            with self._av.open(self._file, format=self._demuxer, metadata_errors="replace") as container:
                stream = next((one for one in container.streams if one.type == what), None)
                if stream is None and what == "video":
                    raise UnusableClip("it has no pictures")
                if stream is not None:
                    yield from self._decoded(container, stream)
        except (self._av.FFmpegError, OSError, ValueError) as error:  # a damaged index leads outside the file
            if not self._count and what == "video":
                raise UnusableClip(f"it is not a readable {self._demuxer} file ({_reason(error)})") from error
            self.damaged += 1

    def _decoded(self, container: Any, stream: Any) -> Iterator[Any]:
        for packet in container.demux(stream):
            if _is_large(stream.codec_context):
                raise UnusableClip(f"its frames have more than {_MOST_PIXELS:,} pixels")
            try:
                frames = packet.decode()
            except (self._av.FFmpegError, ValueError):
                self.damaged += 1
                continue
            for frame in frames:
                if frame.is_corrupt:
                    self.damaged += 1
                else:
                    yield frame

    def _seconds(self, frame: Any, number: int) -> float:
        return float(frame.time) if frame.time is not None else number / 25


def _is_large(codec: Any) -> bool:
    """Whether the frames of a stream have more pixels than are decoded; sound has none."""
    return (getattr(codec, "width", 0) or 0) * (getattr(codec, "height", 0) or 0) > _MOST_PIXELS


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).splitlines()[0][:100]


def _save(frame: Any, path: Path) -> None:
    """Write a frame as PNG, upright and at most `LONGEST_SIDE` wide or high."""
    from PIL import Image

    shrink = min(1.0, LONGEST_SIDE / max(frame.width, frame.height))
    width, height = (max(1, round(side * shrink)) for side in (frame.width, frame.height))
    pixels = frame.reformat(width=width, height=height, format="rgb24").to_ndarray()
    image = Image.fromarray(pixels)
    if frame.rotation:
        image = image.rotate(frame.rotation, expand=True)
    image.save(path, "PNG", compress_level=1)


class _Windows:
    """Writes sound to one WAV file per key frame; one of them is open at a time."""

    def __init__(self, folder: Path, samples_between: int, count: int) -> None:
        self.paths: list[Path] = []
        self._folder = folder
        self._between = samples_between
        self._count = count
        self._number = -1
        self._file: wave.Wave_write | None = None
        self._position = 0
        self._audible: set[Path] = set()

    @property
    def audible(self) -> list[Path]:
        """The files that contain more than silence, which says nothing about a clip."""
        return [path for path in self.paths if path in self._audible]

    def __enter__(self) -> _Windows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, samples: np.ndarray, position: int) -> None:
        """Append samples; `position` is where they begin, but sound never goes back."""
        self._position = max(self._position, position) if not self.paths else self._position
        while len(samples):
            number = min((self._position + self._between // 2) // self._between, self._count - 1)
            end = (number + 1) * self._between - self._between // 2
            room = len(samples) if number == self._count - 1 else end - self._position
            self._open(number)
            assert self._file is not None
            self._file.writeframes(samples[:room].astype("<i2").tobytes())
            if samples[:room].any():
                self._audible.add(self.paths[-1])
            self._position += len(samples[:room])
            samples = samples[room:]

    def _open(self, number: int) -> None:
        if number == self._number:
            return
        if self._file is not None:
            self._file.close()
        path = self._folder / f"sound_{number:05}.wav"
        self._file = wave.open(str(path), "wb")  # noqa: SIM115, closed by the next one
        self._file.setparams((1, 2, SAMPLE_RATE, 0, "NONE", ""))
        self._number = number
        self.paths.append(path)

"""Decode sound files to samples: WAV with the standard library, other formats with soundfile."""

import io
import struct
import wave
from importlib.util import find_spec

import numpy as np

from embedding_core.errors import UnreadableItem

# Samples of all channels: 800 MB as float32, half an hour of stereo at 48 kHz.
MAX_SAMPLES = 200_000_000
_RATES = range(1000, 768_001)


class UnreadableSound(UnreadableItem):
    """The sound file cannot be decoded."""


def has_soundfile() -> bool:
    """Whether soundfile is installed."""
    return find_spec("soundfile") is not None


def read_sound(data: bytes) -> tuple[np.ndarray, int]:
    """Decode a sound file.

    Parameters
    ----------
    data : bytes
        The whole file. PCM WAV of 8 to 32 bits needs no further library; FLAC, Ogg, MP3, AIFF and other forms
        of WAV need soundfile (`labelscape[sound]`).

    Returns
    -------
    samples : float32 array (n,)
        The mean of the channels, in [-1, 1]. Silence is 0, also in 8-bit files.
    rate : int
        Samples per second.

    Raises
    ------
    UnreadableSound
        The file is empty, truncated, damaged, too long or in another format.
    """
    if not data:
        raise UnreadableSound("the file is empty (0 bytes)")
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        _check_riff(data)
    if has_soundfile():
        samples, rate = _read_with_soundfile(data)
    elif data[:4] == b"RIFF":
        samples, rate = _read_wave(data)
    else:
        raise UnreadableSound("reading it needs soundfile; run: pip install 'labelscape[sound]'")
    if rate not in _RATES:
        raise UnreadableSound(f"its sample rate is {rate} Hz; expected {_RATES.start} to {_RATES.stop - 1}")
    if not len(samples):
        raise UnreadableSound("it has no samples")
    if not np.isfinite(samples).all():
        raise UnreadableSound("it contains samples that are not finite numbers; export it again")
    mono: np.ndarray = samples.mean(axis=1, dtype=np.float32)
    return mono, rate


def _check_riff(data: bytes) -> None:
    """Refuse a WAV file that ends before its samples do: decoders return what is there, without an error."""
    at = 12
    while at + 8 <= len(data):
        name, (size,) = data[at : at + 4], struct.unpack_from("<I", data, at + 4)
        # Programs that write to a pipe do not know the size and put in the largest number, or 0.
        if name == b"data" and 0 < size < 2**32 - 2**16 and at + 8 + size > len(data):
            raise UnreadableSound(
                f"the file is truncated: {len(data) - at - 8} of {size} bytes of samples; copy it again"
            )
        at += 8 + size + size % 2
        if name == b"data":
            return
    raise UnreadableSound("the WAV file has no samples or is truncated in its header; copy it again")


def _check_length(n_frames: int, n_channels: int) -> None:
    if n_frames * n_channels > MAX_SAMPLES:
        raise UnreadableSound(
            f"{n_frames} samples of {n_channels} channels are too many (limit {MAX_SAMPLES} in total); "
            "cut it into pieces"
        )


def _read_with_soundfile(data: bytes) -> tuple[np.ndarray, int]:
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            _check_length(file.frames, file.channels)
            samples = file.read(dtype="float32", always_2d=True)
            if len(samples) < file.frames:
                raise UnreadableSound(
                    f"the file is truncated or damaged: {len(samples)} of {file.frames} samples; "
                    "copy it again"
                )
            return samples, int(file.samplerate)
    except (soundfile.SoundFileError, OSError, ValueError, TypeError, MemoryError) as error:
        if isinstance(error, UnreadableSound):
            raise
        raise UnreadableSound(f"not a sound file, truncated or damaged ({_first_line(error)})") from error


def _read_wave(data: bytes) -> tuple[np.ndarray, int]:
    try:
        with wave.open(io.BytesIO(data)) as file:
            _check_length(file.getnframes(), file.getnchannels())
            width, rate, n_channels = file.getsampwidth(), file.getframerate(), file.getnchannels()
            if width not in (1, 2, 3, 4):
                raise ValueError(f"samples of {width} bytes")
            raw = file.readframes(file.getnframes())
    except (wave.Error, EOFError, struct.error, ValueError, OSError) as error:
        raise UnreadableSound(
            f"the WAV file is damaged, or not plain PCM ({_first_line(error)}); for other forms run: "
            "pip install 'labelscape[sound]'"
        ) from error
    values = _scaled(raw[: len(raw) // (width * n_channels) * width * n_channels], width)
    return values.reshape(-1, n_channels), rate


def _scaled(raw: bytes, width: int) -> np.ndarray:
    """Samples of 1 to 4 bytes as float32 in [-1, 1); those of one byte are unsigned."""
    if width == 1:
        return (np.frombuffer(raw, np.uint8).astype(np.float32) - 128) / 128
    if width == 3:
        # in the high bytes of 32-bit numbers
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        raw, width = wide.tobytes(), 4
    values = np.frombuffer(raw, f"<i{width}")
    return (values / 2.0 ** (8 * width - 1)).astype(np.float32)


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:160] if lines else type(error).__name__

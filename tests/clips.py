"""Short video clips and sound files for tests, written by PyAV and by the standard library."""

import wave
from pathlib import Path

import numpy as np

RATE = 16_000


def tone(frequency: float, seconds: float, rate: int = RATE) -> np.ndarray:
    """A sine of half the largest amplitude, as 16-bit samples."""
    time = np.arange(round(seconds * rate)) / rate
    found: np.ndarray = (16_000 * np.sin(2 * np.pi * frequency * time)).astype(np.int16)
    return found


def write_wav(path: Path, samples: np.ndarray, rate: int = RATE) -> Path:
    """Write a WAV file with one channel."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(samples.astype("<i2").tobytes())
    return path


def write_clip(
    path: Path,
    colors: list[tuple[int, int, int]],
    seconds_each: float = 1.0,
    frequency: float | None = 440.0,
    size: tuple[int, int] = (64, 48),
    fps: int = 5,
    codec: str = "mpeg4",
) -> Path:
    """Write a clip that shows one color after the other, with a tone or without sound."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        video = container.add_stream(codec, rate=fps)
        video.width, video.height = size
        video.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        sound = None
        if frequency is not None:
            sound = container.add_stream("aac", rate=RATE, layout="mono")
        for color in colors:
            pixels = np.full((size[1], size[0], 3), color, dtype=np.uint8)
            for _ in range(round(seconds_each * fps)):
                container.mux(video.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(video.encode(None))
        if sound is not None:
            samples = tone(frequency or 0.0, seconds_each * len(colors))
            frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
            frame.sample_rate = RATE
            resampler = av.AudioResampler(format="fltp", layout="mono", rate=RATE, frame_size=1024)
            for block in [*resampler.resample(frame), *resampler.resample(None)]:
                container.mux(sound.encode(block))
            container.mux(sound.encode(None))
    return path

"""Mel-frequency cepstral coefficients: the spectral shape of a sound, and how it varies."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np

from embedding_core.errors import InvalidInput
from embedding_core.features.base import FeatureExtractor
from embedding_core.features.pixels import check_between

_PRE_EMPHASIS = 0.97
_DELTA_FRAMES = 2
# Energies below this, relative to full scale, count as silence; the logarithm stays finite.
_SILENCE = 1e-10
# Frames that are transformed at once.
_BLOCK_FRAMES = 4096


def mel(hertz: np.ndarray | float) -> np.ndarray:
    """Mel scale of frequencies: 2595 log10(1 + f / 700)."""
    return np.asarray(2595 * np.log10(1 + np.asarray(hertz) / 700))


@lru_cache(maxsize=16)
def mel_filters(n_filters: int, n_fft: int, rate: int, highest: float) -> np.ndarray:
    """Triangular filters (n_filters, n_fft / 2 + 1) over the frequencies of a spectrum.

    The corners are equally spaced on the mel scale between 0 and `highest`. Each triangle rises from the
    middle of the filter before to 1 at its own middle and falls to the middle of the next one, linearly in
    hertz.
    """
    corners = 700 * (10 ** (np.linspace(0, float(mel(highest)), n_filters + 2) / 2595) - 1)
    frequencies = np.arange(n_fft // 2 + 1) * rate / n_fft
    low, middle, high = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return np.maximum(0, np.minimum(rising, falling))


def deltas(rows: np.ndarray) -> np.ndarray:
    """Slope of each column over five frames: sum_n n (c[t+n] - c[t-n]) / (2 sum_n n²), n = 1, 2.

    The first and the last frame are repeated beyond the ends.
    """
    n, reach = len(rows), _DELTA_FRAMES
    padded = np.pad(rows, ((reach, reach), (0, 0)), mode="edge")
    steps = range(1, reach + 1)
    total = sum(k * (padded[reach + k : reach + k + n] - padded[reach - k : reach - k + n]) for k in steps)
    return np.asarray(total / (2 * sum(k * k for k in steps)))


@dataclass(frozen=True)
class Mfcc(FeatureExtractor):
    """Mean and covariance of mel-frequency cepstral coefficients and of their changes [1]_ [2]_.

    Parameters
    ----------
    n_coefficients : int, default 25
        Coefficients per frame, from the 0th (loudness) on.
    n_filters : int, default 40
        Triangular filters on the mel scale.
    window : float, default 0.025
        Length of a frame in seconds.
    step : float, default 0.01
        Distance between frames in seconds; 10 ms in [1]_.
    highest : float, default 8000
        Upper end of the filters in hertz, at most half the sample rate.

    Notes
    -----
    The LPSSVM paper says: "MFCCs from each audio frame (10ms) and delta MFCCs from neighboring frames. Over
    the video interval associated with each keyframe, the mean and covariance of the audio frame features are
    computed to generate a 2550-dimension audio feature vector". Our reading: 2550 = 50 + 50 · 50, the mean
    and the full covariance of 50 values per frame, 25 coefficients and their 25 deltas. (With the upper
    triangle of the covariance alone, d + d (d + 1) / 2 = 2550 has no whole solution.) A row is the mean of
    coefficients and deltas, then the rows of the covariance (divided by the number of frames).

    A frame is pre-emphasized (x[t] - .97 x[t-1]), multiplied by a Hamming window and transformed with the
    next power of two of points; |.|²/points through the filters, the natural logarithm, and the orthonormal
    DCT-II give the coefficients; there is no liftering. Energies below 1e-10 count as 1e-10, so silence has
    finite rows: a constant mean and no variance. The last frame is filled up with zeros.

    References
    ----------
    .. [1] W. Jiang, S.-F. Chang, T. Jebara, A. C. Loui, "Semantic Concept Classification by Joint
       Semi-supervised Learning of Feature Subspaces and Support Vector Machines", ECCV 2008, section 4.4.
    .. [2] S. B. Davis, P. Mermelstein, "Comparison of Parametric Representations for Monosyllabic Word
       Recognition", IEEE ASSP 28, 1980.
    """

    name: ClassVar[str] = "mfcc"
    reads: ClassVar[str] = "sound"

    n_coefficients: int = field(default=25, metadata={"description": "coefficients per frame, from 1 to 128"})
    n_filters: int = field(default=40, metadata={"description": "filters on the mel scale, from 1 to 128"})
    window: float = field(default=0.025, metadata={"description": "length of a frame in seconds"})
    step: float = field(default=0.01, metadata={"description": "seconds between neighboring frames"})
    highest: float = field(
        default=8000.0,
        metadata={"description": "upper end of the filters in hertz, at most half the sample rate"},
    )

    def __post_init__(self) -> None:
        check_between("n_filters", self.n_filters, 1, 128)
        check_between("n_coefficients", self.n_coefficients, 1, 128)
        check_between("window", self.window, 0.002, 1.0)
        check_between("step", self.step, 0.001, 1.0)
        check_between("highest", self.highest, 100.0, 96_000.0)
        if self.n_coefficients > self.n_filters:
            raise InvalidInput(
                f"n_coefficients={self.n_coefficients} exceeds n_filters={self.n_filters}; raise n_filters."
            )

    @property
    def n_features(self) -> int:
        """Length of a row: d + d² with d = 2 n_coefficients."""
        d = 2 * self.n_coefficients
        return d + d * d

    def feature_names(self) -> list[str]:
        """Names such as `mean_c3`, `mean_delta0` and `covariance_c3_delta0`."""
        values = [f"{kind}{k}" for kind in ("c", "delta") for k in range(self.n_coefficients)]
        pairs = [f"covariance_{a}_{b}" for a in values for b in values]
        return [f"mean_{one}" for one in values] + pairs

    def coefficients(self, samples: np.ndarray, rate: int) -> np.ndarray:
        """Return the coefficients of each frame, float64 (frames, n_coefficients).

        Parameters
        ----------
        samples : float array (n,)
            In [-1, 1], at least one.
        rate : int
            Samples per second.
        """
        import scipy.fft

        length, step = max(1, round(self.window * rate)), max(1, round(self.step * rate))
        n_frames = 1 + max(0, -(-(len(samples) - length) // step))
        emphasized = np.zeros((n_frames - 1) * step + length)
        n = min(len(samples), len(emphasized))
        emphasized[:n] = samples[:n]
        emphasized[1:n] -= _PRE_EMPHASIS * np.asarray(samples[: n - 1], dtype=np.float64)
        frames = np.lib.stride_tricks.sliding_window_view(emphasized, length)[::step]
        n_fft = 1 << (length - 1).bit_length()
        filters = mel_filters(self.n_filters, n_fft, rate, min(self.highest, rate / 2))
        hamming = np.hamming(length)
        found = np.empty((n_frames, self.n_coefficients))
        for start in range(0, n_frames, _BLOCK_FRAMES):
            block = slice(start, start + _BLOCK_FRAMES)
            power = np.abs(scipy.fft.rfft(frames[block] * hamming, n_fft)) ** 2 / n_fft
            energies = np.log(np.maximum(power @ filters.T, _SILENCE))
            found[block] = scipy.fft.dct(energies, norm="ortho")[:, : self.n_coefficients]
        return found

    def extract_samples(self, samples: np.ndarray, rate: int) -> np.ndarray:
        """Return the float32 row of samples (n,), see `coefficients`."""
        samples = np.asarray(samples)
        if samples.ndim != 1 or not len(samples) or samples.dtype.kind != "f":
            raise InvalidInput(
                f"found samples {samples.dtype} {samples.shape}; expected one channel of floats, not empty."
            )
        found = self.coefficients(samples, rate)
        rows = np.concatenate([found, deltas(found)], axis=1)
        mean = rows.mean(axis=0)
        centered = rows - mean
        covariance = centered.T @ centered / len(rows)
        return np.concatenate([mean, covariance.reshape(-1)]).astype(np.float32)

    def extract_bytes(self, data: bytes) -> np.ndarray:
        """Decode a sound file and extract its features; raises `UnreadableSound` with a reason.

        A file of silence is refused too: it says nothing about its item.
        """
        from embedding_core.features.sounds import UnreadableSound, read_sound

        samples, rate = read_sound(data)
        if not samples.any():
            raise UnreadableSound("the sound is silent")
        return self.extract_samples(samples, rate)

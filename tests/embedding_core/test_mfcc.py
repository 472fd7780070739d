"""MFCC against a literal version and an independent implementation; sound files, good and bad."""

import io
import struct
import wave
from importlib.util import find_spec

import numpy as np
import pytest

from embedding_core.errors import InvalidInput, UnreadableItem
from embedding_core.features import sounds
from embedding_core.features.mfcc import Mfcc, deltas, mel_filters
from embedding_core.features.sounds import UnreadableSound, read_sound

RATE = 16_000


def sound(seconds: float = 0.5, rate: int = RATE, seed: int = 0) -> np.ndarray:
    """Noise and a tone whose loudness rises."""
    t = np.arange(int(seconds * rate)) / rate
    noise = np.random.default_rng(seed).normal(scale=0.1, size=len(t))
    return (0.4 * t / t.max() * np.sin(2 * np.pi * 440 * t) + noise).clip(-1, 1).astype(np.float32)


def write_wav(samples: np.ndarray, width: int = 2, rate: int = RATE, channels: int = 1) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as target:
        target.setparams((channels, width, rate, 0, "NONE", ""))
        whole = np.rint(np.asarray(samples, np.float64) * (2 ** (8 * width - 1) - 1)).astype(np.int64)
        if width == 1:
            raw = (whole + 128).astype(np.uint8).tobytes()
        else:
            raw = b"".join(int(one).to_bytes(width, "little", signed=True) for one in whole.ravel())
        target.writeframes(raw)
    return file.getvalue()


def literal_coefficients(samples: np.ndarray, rate: int, n_coefficients: int, n_filters: int) -> np.ndarray:
    """Frame by frame, filter by filter, with sums instead of transforms."""
    length, step = round(0.025 * rate), round(0.01 * rate)
    n_fft = 2 ** int(np.ceil(np.log2(length)))
    emphasized = np.array([x - 0.97 * before for before, x in zip([0, *samples], samples, strict=False)])
    highest = 2595 * np.log10(1 + min(8000, rate / 2) / 700)
    corners = [700 * (10 ** (highest * k / (n_filters + 1) / 2595) - 1) for k in range(n_filters + 2)]
    angles = np.exp(-2j * np.pi * np.outer(np.arange(n_fft // 2 + 1), np.arange(length)) / n_fft)
    window = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(length) / (length - 1))
    rows, start = [], 0
    while start == 0 or start - step + length < len(samples):
        frame = np.zeros(length)
        part = emphasized[start : start + length]
        frame[: len(part)] = part
        power = np.abs(angles @ (frame * window)) ** 2 / n_fft
        energies = []
        for low, middle, high in zip(corners, corners[1:], corners[2:], strict=False):
            total = 0.0
            for k, value in enumerate(power):
                f = k * rate / n_fft
                if low < f <= middle:
                    total += value * (f - low) / (middle - low)
                elif middle < f < high:
                    total += value * (high - f) / (high - middle)
            energies.append(np.log(max(total, 1e-10)))
        k, j = np.arange(n_coefficients)[:, None], np.arange(n_filters)
        basis = np.cos(np.pi * k * (2 * j + 1) / (2 * n_filters)) * np.sqrt(2 / n_filters)
        basis[0] /= np.sqrt(2)
        rows.append(basis @ np.array(energies))
        start += step
    return np.array(rows)


@pytest.mark.parametrize("rate", [8000, 22_050])
@pytest.mark.parametrize("seconds", [0.01, 0.025, 0.1037])
def test_coefficients_are_those_of_the_literal_version(rate, seconds):
    samples = sound(seconds, rate).astype(np.float64)
    found = Mfcc(n_coefficients=13, n_filters=26).coefficients(samples, rate)
    np.testing.assert_allclose(found, literal_coefficients(samples, rate, 13, 26), rtol=1e-9, atol=1e-9)


def test_coefficients_agree_with_python_speech_features(monkeypatch):
    """Exactly with our filters; with its own, whose corners are rounded to whole frequencies, closely."""
    theirs = pytest.importorskip("python_speech_features.base")
    samples = sound().astype(np.float64)
    options = {"nfilt": 26, "nfft": 512, "ceplifter": 0, "appendEnergy": False, "winfunc": np.hamming}
    found = Mfcc(n_coefficients=13, n_filters=26).coefficients(samples, RATE)
    own = theirs.mfcc(samples, RATE, **options)
    assert own.shape == found.shape
    for column in range(1, 13):
        assert np.corrcoef(found[:, column], own[:, column])[0, 1] > 0.85
    assert np.abs(found - own).mean() < 0.1 * own.std()
    monkeypatch.setattr(theirs, "get_filterbanks", lambda *_: mel_filters(26, 512, RATE, 8000.0))
    np.testing.assert_allclose(found, theirs.mfcc(samples, RATE, **options), rtol=1e-9, atol=1e-9)


def test_deltas_are_slopes_over_five_frames():
    theirs = pytest.importorskip("python_speech_features.base")
    rows = np.random.default_rng(0).normal(size=(9, 3))
    np.testing.assert_allclose(deltas(rows), theirs.delta(rows, 2))
    line = np.outer(np.arange(9.0), [1, -2, 0.5])
    np.testing.assert_allclose(deltas(line)[2:-2], [[1, -2, 0.5]] * 5)


def test_a_row_has_the_2550_numbers_of_the_paper():
    mfcc, samples = Mfcc(), sound()
    row = mfcc.extract_samples(samples, RATE)
    assert (row.dtype, row.shape, mfcc.n_features, len(set(mfcc.feature_names()))) == (
        np.float32,
        (2550,),
        2550,
        2550,
    )
    found = mfcc.coefficients(samples, RATE)
    frames = np.concatenate([found, deltas(found)], axis=1)
    np.testing.assert_allclose(row[:50], frames.mean(axis=0), rtol=1e-5)
    covariance = row[50:].reshape(50, 50)
    np.testing.assert_allclose(covariance, np.cov(frames.T, bias=True), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(covariance, covariance.T)
    assert mfcc.feature_names()[50 + 50 * 3 + 25] == "covariance_c3_delta0"


def test_blocks_of_frames_do_not_matter(monkeypatch):
    expected = Mfcc().extract_samples(sound(), RATE)
    monkeypatch.setattr("embedding_core.features.mfcc._BLOCK_FRAMES", 7)
    np.testing.assert_allclose(Mfcc().extract_samples(sound(), RATE), expected, rtol=1e-6)


def test_loudness_changes_only_the_first_coefficient():
    quiet, loud = (Mfcc().extract_samples(factor * sound(), RATE) for factor in (0.5, 1.0))
    np.testing.assert_allclose(quiet[1:], loud[1:], rtol=1e-3, atol=1e-4)
    assert loud[0] - quiet[0] == pytest.approx(np.sqrt(40) * np.log(4), rel=1e-4)


@pytest.mark.parametrize("samples", [np.zeros(16_000), np.zeros(1), np.ones(3) * 0.1])
def test_silent_and_very_short_sounds_have_finite_rows(samples):
    row = Mfcc().extract_samples(samples, RATE)
    assert np.isfinite(row).all()
    assert np.abs(row[50:]).max() < 1e-9


@pytest.mark.parametrize("width", [1, 2])
def test_a_file_of_silence_is_reported(width):
    with pytest.raises(UnreadableSound, match="the sound is silent"):
        Mfcc().extract_bytes(write_wav(np.zeros(4_000), width))
    assert np.isfinite(Mfcc().extract_bytes(write_wav(sound(), width))).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_coefficients": 41}, "n_coefficients=41 exceeds n_filters=40; raise n_filters"),
        ({"n_coefficients": 0}, "n_coefficients=0: give a whole number from 1"),
        ({"step": 0.0}, r"step=0\.0: give a number"),
        ({"window": 2}, "window=2: give a number"),
        ({"highest": 5}, "highest=5: give a number"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        Mfcc(**parameters)


@pytest.mark.parametrize("samples", [np.zeros((3, 2)), np.zeros(0), np.zeros(5, np.int16)])
def test_samples_must_be_floats_of_one_channel(samples):
    with pytest.raises(InvalidInput, match="expected one channel of floats"):
        Mfcc().extract_samples(samples, RATE)


READERS = [
    "library",
    pytest.param(
        "soundfile",
        marks=pytest.mark.skipif(
            find_spec("soundfile") is None, reason="soundfile is not installed (labelscape[sound])"
        ),
    ),
]


@pytest.fixture(params=READERS)
def reader(request, monkeypatch):
    monkeypatch.setattr(sounds, "has_soundfile", lambda: request.param == "soundfile")
    return request.param


class TestFiles:
    @pytest.mark.parametrize("width", [1, 2, 3, 4])
    @pytest.mark.parametrize("channels", [1, 2])
    def test_wav_files_of_every_width(self, reader, width, channels):
        samples = np.stack([sound(0.05, seed=k) for k in range(channels)], axis=1)
        found, rate = read_sound(write_wav(samples, width, channels=channels))
        assert (rate, found.dtype, found.ndim) == (RATE, np.float32, 1)
        np.testing.assert_allclose(found, samples.mean(axis=1), atol=2.0 ** (2 - 8 * width) + 1e-6)

    def test_silence_of_an_8_bit_file_is_zero(self, reader):
        found, _ = read_sound(write_wav(np.zeros(100), width=1))
        assert not found.any()

    def test_both_readers_give_the_same_samples(self, monkeypatch):
        pytest.importorskip("soundfile", reason="soundfile is not installed (labelscape[sound])")
        for width in (1, 2, 3, 4):
            data = write_wav(sound(0.02), width)
            monkeypatch.setattr(sounds, "has_soundfile", lambda: True)
            first, _ = read_sound(data)
            monkeypatch.setattr(sounds, "has_soundfile", lambda: False)
            np.testing.assert_array_equal(first, read_sound(data)[0])

    @pytest.mark.parametrize("cut", [1, 500])
    def test_a_truncated_wav_file_is_refused(self, reader, cut):
        data = write_wav(sound(0.05))
        with pytest.raises(UnreadableSound, match=r"truncated: .* of 1600 bytes of samples; copy it again"):
            read_sound(data[:-cut])

    @pytest.mark.parametrize("length", range(1, 44, 3))
    def test_a_file_cut_in_its_header_is_refused(self, reader, length):
        with pytest.raises(UnreadableSound):
            read_sound(write_wav(sound(0.05))[:length])

    @pytest.mark.parametrize("size", [0, 2**32 - 1])
    def test_a_file_written_to_a_pipe_has_no_size(self, reader, size):
        data = bytearray(write_wav(sound(0.05)))
        struct.pack_into("<I", data, 40, size)
        try:
            found, _ = read_sound(bytes(data))
        except UnreadableSound as error:
            assert "samples" in str(error) or "damaged" in str(error)
        else:
            assert len(found) == 800

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"", "the file is empty"),
            (b"no sound at all, only text", r"not a sound file|labelscape\[sound\]"),
            (write_wav(np.zeros(0)), "it has no samples|no samples"),
        ],
    )
    def test_other_files_are_refused(self, reader, data, message):
        with pytest.raises(UnreadableItem, match=message):
            read_sound(data)

    def test_too_many_samples_are_refused_before_they_are_decoded(self, reader, monkeypatch):
        monkeypatch.setattr(sounds, "MAX_SAMPLES", 700)
        with pytest.raises(UnreadableSound, match=r"800 samples of 1 channels are too many \(limit 700"):
            read_sound(write_wav(sound(0.05)))

    @pytest.mark.parametrize("file_format", ["FLAC", "OGG"])
    def test_other_formats_need_soundfile(self, file_format, monkeypatch):
        soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed (labelscape[sound])")
        file = io.BytesIO()
        soundfile.write(file, sound(), RATE, format=file_format)
        found, rate = read_sound(file.getvalue())
        assert (len(found), rate) == (8000, RATE)
        assert np.corrcoef(found, sound())[0, 1] > 0.95
        monkeypatch.setattr(sounds, "has_soundfile", lambda: False)
        with pytest.raises(UnreadableSound, match=r"needs soundfile; run: pip install 'labelscape\[sound\]'"):
            read_sound(file.getvalue())

    def test_a_truncated_flac_file_is_refused(self):
        soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed (labelscape[sound])")
        file = io.BytesIO()
        soundfile.write(file, sound(), RATE, format="FLAC")
        with pytest.raises(UnreadableSound, match="truncated"):
            read_sound(file.getvalue()[: len(file.getvalue()) // 2])

    def test_samples_that_are_not_finite_are_refused(self):
        soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed (labelscape[sound])")
        file = io.BytesIO()
        samples = sound(0.05)
        samples[3] = np.nan
        soundfile.write(file, samples, RATE, format="WAV", subtype="FLOAT")
        with pytest.raises(UnreadableSound, match="not finite"):
            read_sound(file.getvalue())

    def test_damage_is_never_a_crash(self, reader):
        data = write_wav(sound(0.02))
        rng = np.random.default_rng(0)
        for _ in range(200):
            damaged = bytearray(data)
            damaged[int(rng.integers(len(data)))] = int(rng.integers(256))
            try:
                read_sound(bytes(damaged))
            except UnreadableSound:
                continue

    def test_the_extractor_reads_files(self, reader):
        data = write_wav(sound())
        row = Mfcc().extract_bytes(data)
        np.testing.assert_allclose(row, Mfcc().extract_samples(*read_sound(data)))
        with pytest.raises(UnreadableItem):
            Mfcc().extract_bytes(data[:-9])

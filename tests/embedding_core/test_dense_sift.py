"""Dense SIFT against a literal version and OpenCV; codebooks and spatial pyramids."""

from math import atan2, exp, floor, pi
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from threadpoolctl import threadpool_limits

from embedding_core.errors import InvalidInput, UnreadableItem
from embedding_core.features import codebook as codebook_module
from embedding_core.features.bow_sift import BowSift, read_codebook
from embedding_core.features.codebook import (
    Codebook,
    fit_codebook,
    level_weight,
    n_cells,
    nearest_words,
    pyramid_histogram,
)
from embedding_core.features.dense_sift import DenseSift, grid_starts
from embedding_core.features.gray import gray_pixels
from embedding_core.linalg.l1 import intersection_kernel
from tests.embedding_core.test_picture_features import drawing


def gray(height: int, width: int, seed: int = 0) -> np.ndarray:
    return gray_pixels(drawing(height, width, seed))


def literal_descriptor(image: np.ndarray, top: int, left: int, patch: int) -> np.ndarray:
    """One descriptor, pixel by pixel."""
    height, width = image.shape
    cell = patch // 4
    histogram = np.zeros((4, 4, 8))
    for y in range(max(0, top - patch), min(height, top + 2 * patch)):
        for x in range(max(0, left - patch), min(width, left + 2 * patch)):
            across = image[y, min(x + 1, width - 1)] - image[y, max(x - 1, 0)]
            down = image[min(y + 1, height - 1), x] - image[max(y - 1, 0), x]
            place = atan2(down, across) * 8 / (2 * pi)
            row, column = (y - top + 0.5) / cell - 0.5, (x - left + 0.5) / cell - 0.5
            for i in range(4):
                for j in range(4):
                    share = max(0, 1 - abs(row - i)) * max(0, 1 - abs(column - j)) * np.hypot(across, down)
                    share *= exp(-((i - 1.5) ** 2 + (j - 1.5) ** 2) / 8)
                    lower = floor(place)
                    histogram[i, j, lower % 8] += share * (1 - (place - lower))
                    histogram[i, j, (lower + 1) % 8] += share * (place - lower)
    values = histogram.ravel()
    if values.any():
        values = np.minimum(values / np.linalg.norm(values), 0.2)
        values /= np.linalg.norm(values)
    return values


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "patch", "step"), [((37, 29), 16, 8), ((24, 30), 12, 5), ((16, 16), 16, 8), ((20, 21), 20, 3)]
)
def test_descriptors_are_those_of_the_literal_version(size, patch, step):
    image = gray(*size)
    found = DenseSift(patch, step, smoothing=0.0).describe(image)
    starts = [(y, x) for y in grid_starts(size[0], patch, step) for x in grid_starts(size[1], patch, step)]
    expected = np.array([literal_descriptor(image.astype(float), y, x, patch) for y, x in starts])
    np.testing.assert_allclose(found.values, expected, atol=2e-6)
    middles = [((y + patch / 2) / size[0], (x + patch / 2) / size[1]) for y, x in starts]
    np.testing.assert_allclose(found.centers, middles)


def test_the_grid_is_centered_in_the_image():
    starts = grid_starts(213, 16, 8)
    assert (starts[0], starts[1], starts[-1], len(starts)) == (2, 10, 194, 25)  # 2 pixels left over, and 3
    assert grid_starts(16, 16, 8).tolist() == [0]


def test_smoothing_is_a_gaussian_before_the_gradients():
    from scipy.ndimage import gaussian_filter

    image = gray(40, 33)
    smooth = gaussian_filter(image.astype(np.float32), 1.3, mode="nearest")
    found, expected = DenseSift(smoothing=1.3).describe(image), DenseSift(smoothing=0.0).describe(smooth)
    np.testing.assert_allclose(found.values, expected.values, atol=5e-5)


def opencv_descriptors(image: np.ndarray, patch: int = 16, step: int = 8) -> np.ndarray:
    """OpenCV's SIFT of the same patches. Its y axis points upwards, and its cells are 1.5 sizes wide."""
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed (labelscape[bench])")
    points = [
        cv2.KeyPoint(float(x + patch / 2 - 0.5), float(y + patch / 2 - 0.5), patch / 6, 0.0, 1.0, 0)
        for y in grid_starts(image.shape[0], patch, step)
        for x in grid_starts(image.shape[1], patch, step)
    ]
    _, values = cv2.SIFT_create().compute(image, points)
    upwards = values.reshape(-1, 4, 4, 8)[..., (-np.arange(8)) % 8]
    return np.asarray(upwards.reshape(-1, 128))


# OpenCV smooths to 1.6 pixels, assuming that a picture already is at 0.5.
OPENCV_SMOOTHING = float(np.sqrt(1.6**2 - 0.5**2))


def correlations(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    used = (ours.std(axis=1) > 0) & (theirs.std(axis=1) > 0)
    return np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(ours[used], theirs[used], strict=True)])


@pytest.mark.parametrize("seed", range(3))
def test_descriptors_correlate_with_those_of_opencv(seed):
    """The flat window differs from OpenCV's Gaussian window by 1 - .97 on average, at worst by 1 - .85."""
    image = gray(213, 320, seed)
    found = correlations(
        DenseSift(smoothing=OPENCV_SMOOTHING).describe(image).values, opencv_descriptors(image)
    )
    assert len(found) > 900
    assert found.mean() > 0.96
    assert found.min() > 0.85


def test_descriptors_of_photographs_correlate_with_those_of_opencv(shared_data):
    from embedding_core.features.images import decode_image

    files = sorted((shared_data / "msrc_v2" / "images").glob("*.jpg"))[::150]
    assert files
    for file in files:
        image = gray_pixels(decode_image(file.read_bytes()))
        ours = DenseSift(smoothing=OPENCV_SMOOTHING).describe(image).values
        assert correlations(ours, opencv_descriptors(image)).mean() > 0.96


def test_a_turned_picture_turns_the_descriptors():
    image = gray(48, 48)
    found, turned = (
        DenseSift().describe(one).values for one in (image, np.ascontiguousarray(image[::-1, ::-1]))
    )
    half_turn = found.reshape(-1, 4, 4, 8)[::-1, ::-1, ::-1][..., (np.arange(8) + 4) % 8]
    np.testing.assert_allclose(turned, half_turn.reshape(-1, 128), atol=1e-5)


@pytest.mark.parametrize("size", [(1, 1), (5, 40), (16, 16)])
def test_small_and_uniform_pictures(size):
    found = DenseSift().describe(np.full(size, 90, np.uint8))
    assert len(found.values) == (4 if size == (5, 40) else 1)
    assert not found.values.any()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"patch": 18}, "patch=18 is not a multiple of 4"),
        ({"patch": 4}, "patch=4: give a whole number from 8"),
        ({"step": 0}, "step=0: give a whole number"),
        ({"smoothing": -1}, "smoothing=-1: give a number"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        DenseSift(**parameters)


class TestCodebook:
    @staticmethod
    def images(n: int = 6) -> list[np.ndarray]:
        return [drawing(48, 64, seed) for seed in range(n)]

    def test_few_descriptors_are_clustered_by_plain_k_means(self):
        found = fit_codebook(self.images(), n_words=8, sample=10**6)
        X = np.concatenate([DenseSift().describe(gray_pixels(one)).values for one in self.images()])
        words = nearest_words(X, found.words)
        means = np.array([X[words == k].mean(axis=0) for k in range(8)])
        np.testing.assert_allclose(found.words, means, atol=1e-6)

    def test_the_nearest_word_is_the_nearest(self):
        rng = np.random.default_rng(0)
        X, W = rng.random((50, 128), dtype=np.float32), rng.random((9, 128), dtype=np.float32)
        expected = ((X[:, None] - W) ** 2).sum(axis=2).argmin(axis=1)
        np.testing.assert_array_equal(nearest_words(X, W), expected)

    def test_the_nearest_word_does_not_depend_on_the_blocks(self, monkeypatch):
        rng = np.random.default_rng(0)
        X, W = rng.random((50, 128), dtype=np.float32), rng.random((9, 128), dtype=np.float32)
        expected = nearest_words(X, W)
        monkeypatch.setattr(codebook_module, "_BLOCK_VALUES", 20)
        # in reverse order: memory that is used again must not look like a result
        np.testing.assert_array_equal(nearest_words(X[::-1], W), expected[::-1])

    def test_the_same_images_give_the_same_bytes(self):
        fit = {"n_words": 12, "sample": 20}
        first = fit_codebook(iter(self.images()), **fit)
        with threadpool_limits(1):
            second = fit_codebook(self.images(), **fit)
        assert first.words.tobytes() == second.words.tobytes()
        assert fit_codebook(self.images(), seed=1, **fit).words.tobytes() != first.words.tobytes()

    def test_mini_batches_come_close_to_plain_k_means(self, monkeypatch):
        X = np.concatenate([DenseSift(step=4).describe(gray_pixels(one)).values for one in self.images(10)])

        def loss(found: Codebook) -> float:
            return float(((X - found.words[nearest_words(X, found.words)]) ** 2).sum())

        fit = {"n_words": 10, "sample": 10**6, "sift": DenseSift(step=4)}
        whole = loss(fit_codebook(self.images(10), **fit))
        monkeypatch.setattr(codebook_module, "_LEAST_BATCH", 300)
        assert loss(fit_codebook(self.images(10), **fit)) < 1.1 * whole

    def test_a_later_batch_moves_words_by_their_share(self, monkeypatch):
        monkeypatch.setattr(codebook_module, "_LEAST_BATCH", 4)
        monkeypatch.setattr(codebook_module, "_BATCH_PER_WORD", 1)
        learner = codebook_module.WordLearner(1, np.random.default_rng(0))
        X = np.random.default_rng(1).random((11, 128), dtype=np.float32)
        for part in (X[:3], X[3:8], X[8:]):
            learner.add(part)
        np.testing.assert_allclose(learner.finish("x")[0], X.mean(axis=0), atol=1e-6)

    def test_no_more_than_the_sample_is_drawn_from_an_image(self, monkeypatch):
        seen = []
        monkeypatch.setattr(codebook_module.WordLearner, "add", lambda self, rows: seen.append(len(rows)))
        monkeypatch.setattr(
            codebook_module.WordLearner, "finish", lambda self, what: np.zeros((2, 128), np.float32)
        )
        fit_codebook(self.images(3), n_words=2, sample=7)
        assert seen == [7, 7, 7]

    def test_images_are_read_one_at_a_time(self):
        """A generator may reuse the memory of its images."""
        page = np.empty((48, 64, 3), np.uint8)

        def stream():
            for one in self.images():
                page[:] = one
                yield page

        fit = {"n_words": 5, "sample": 30}
        np.testing.assert_array_equal(
            fit_codebook(stream(), **fit).words, fit_codebook(self.images(), **fit).words
        )

    def test_codebooks_per_class_are_joined(self):
        images, classes = self.images(), [(0,), (1,), (0, 1), (), (1,), (0,)]
        joined = fit_codebook(images, classes, n_words=4, sample=10**6)
        assert (joined.words.shape, joined.n_classes) == ((8, 128), 2)
        X = np.concatenate([DenseSift().describe(gray_pixels(images[k])).values for k in (0, 2, 5)])
        first = joined.part(0)
        means = np.array([X[first.assign(X) == k].mean(axis=0) for k in range(4)])
        np.testing.assert_allclose(first.words, means, atol=1e-6)
        np.testing.assert_array_equal(joined.part(1).words, joined.words[4:])

    def test_files_are_decoded(self, tmp_path):
        Image.fromarray(drawing(48, 64)).save(tmp_path / "a.png")
        data = (tmp_path / "a.png").read_bytes()
        found = fit_codebook([data], n_words=3)
        np.testing.assert_array_equal(found.words, fit_codebook([drawing(48, 64)], n_words=3).words)
        with pytest.raises(UnreadableItem, match="not an image"):
            fit_codebook([b"no picture"], n_words=3)

    @pytest.mark.parametrize(
        ("images", "classes", "message"),
        [
            ([], None, "there are no images"),
            ([drawing(16, 16)], None, "the collection gives 1 descriptors for 5 words; lower n_words"),
            ([drawing(48, 64)], [(1,)], "class 0 has no image"),
            ([drawing(48, 64), drawing(16, 16)], [(0,), (1,)], "class 1 gives 1 descriptors for 5 words"),
        ],
    )
    def test_too_few_images_are_refused(self, images, classes, message):
        with pytest.raises(InvalidInput, match=message):
            fit_codebook(images, classes, n_words=5)

    def test_uniform_pictures_have_words_too(self):
        found = fit_codebook([np.full((40, 40, 3), 9, np.uint8)], n_words=3)
        assert not found.words.any()

    def test_arrays_lead_back_to_the_codebook(self):
        book = fit_codebook(self.images(2), n_words=4, sift=DenseSift(12, 6, 0.5))
        again = Codebook.from_arrays(book.to_arrays())
        np.testing.assert_array_equal(again.words, book.words)
        assert (again.sift, again.n_classes) == (book.sift, 1)


class TestPyramid:
    def test_level_weights_are_those_of_lazebnik(self):
        assert [level_weight(level, 2) for level in range(3)] == [0.25, 0.25, 0.5]
        assert [level_weight(level, 0) for level in range(1)] == [1.0]
        assert [n_cells(levels) for levels in range(3)] == [1, 5, 21]

    def test_words_are_counted_in_their_cells(self):
        words, centers = np.array([0, 1, 1, 1]), np.array([[0.1, 0.1], [0.1, 0.6], [0.9, 0.9], [1.0, 1.0]])
        row = pyramid_histogram(words, centers, 2, 1).reshape(5, 2)
        assert row[0].tolist() == [0.125, 0.375]
        assert row[1:].tolist() == [[0.125, 0], [0, 0.125], [0, 0], [0, 0.25]]

    def test_the_intersection_of_two_rows_is_the_pyramid_match_kernel(self):
        rng = np.random.default_rng(0)
        sets = [(rng.integers(0, 5, m), rng.random((m, 2))) for m in (40, 60)]
        rows = [pyramid_histogram(words, centers, 5, 2) for words, centers in sets]

        def matches(level: int) -> float:
            grids = []
            for words, centers in sets:
                grid = np.zeros((2**level, 2**level, 5))
                for word, (y, x) in zip(words, centers, strict=True):
                    grid[int(y * 2**level), int(x * 2**level), word] += 1 / len(words)
                grids.append(grid)
            return float(np.minimum(*grids).sum())

        expected = matches(0) / 4 + matches(1) / 4 + matches(2) / 2  # Eq. 3 of Lazebnik et al.
        assert intersection_kernel([rows[0]], [rows[1]])[0, 0] == pytest.approx(expected, rel=1e-6)


def write_codebook(path: Path, n_words: int = 4) -> Path:
    book = fit_codebook([drawing(48, 64)], n_words=n_words)
    np.savez(path, **book.to_arrays())
    return path


class TestBowSift:
    def test_a_file_and_a_codebook_in_memory_give_the_same_rows(self, tmp_path):
        path, rgb = write_codebook(tmp_path / "book.npz"), drawing(60, 50, seed=3)
        from_file = BowSift(codebook=str(path), levels=1)
        in_memory = BowSift(levels=1).fitted(read_codebook(path))
        row = from_file.extract(rgb)
        np.testing.assert_array_equal(row, in_memory.extract(rgb))
        assert from_file.n_features == in_memory.n_features == len(row) == 4 * 5
        assert len(set(from_file.feature_names())) == 20
        assert row.sum() == pytest.approx(1)
        assert row[:4].sum() == pytest.approx(0.5)

    def test_a_changed_file_is_read_again_and_has_another_digest(self, tmp_path):
        path, rgb = write_codebook(tmp_path / "book.npz"), drawing(60, 50, seed=3)
        extractor = BowSift(codebook=str(path))
        before, digests = extractor.extract(rgb), extractor.file_digests()
        write_codebook(path, n_words=5)
        assert len(extractor.extract(rgb)) != len(before)
        assert extractor.file_digests() != digests
        assert list(digests) == ["book.npz"]

    def test_without_a_codebook_it_says_how_to_get_one(self):
        with pytest.raises(InvalidInput, match=r"bow_sift has no codebook yet: .*fit_codebook"):
            BowSift().extract(drawing(20, 20))
        assert BowSift().file_digests() == {}

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "kind", ["missing", "folder", "text", "truncated", "pickle", "other", "huge", "nan"]
    )
    def test_other_files_are_refused(self, kind, tmp_path):
        path = tmp_path / "book.npz"
        book = fit_codebook([drawing(48, 64)], n_words=4).to_arrays()
        if kind == "folder":
            path.mkdir()
        elif kind == "text":
            path.write_text("no archive")
        elif kind == "truncated":
            write_codebook(path)
            path.write_bytes(path.read_bytes()[:-200])
        elif kind == "pickle":
            np.savez(path, **{**book, "words": np.array([{}], dtype=object)})
        elif kind == "other":
            np.savez(path, a=np.zeros(3))
        elif kind == "huge":
            np.savez_compressed(path, **{**book, "more": np.zeros(2**25, np.float32)})
        elif kind == "nan":
            np.savez(path, **{**book, "words": book["words"] * np.nan})
        with pytest.raises(InvalidInput, match=r"codebook|cannot be read"):
            read_codebook(path)

    def test_a_large_file_is_refused_before_it_is_read(self, tmp_path, monkeypatch):
        path = write_codebook(tmp_path / "book.npz")
        monkeypatch.setattr("embedding_core.features.bow_sift.MAX_CODEBOOK_BYTES", 100)
        with pytest.raises(InvalidInput, match="expected a regular file of at most 100 bytes"):
            read_codebook(path)

    def test_an_array_that_claims_more_than_it_has_is_refused(self, tmp_path):
        import io
        import zipfile

        file = io.BytesIO()
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**40, 128)}
        np.lib.format.write_array_header_1_0(file, header)
        with zipfile.ZipFile(tmp_path / "book.npz", "w") as archive:
            archive.writestr("words.npy", file.getvalue())
        with pytest.raises(InvalidInput, match="unpacks to"):
            read_codebook(tmp_path / "book.npz")

    @pytest.mark.parametrize(
        "parameters", [{"n_words": 0}, {"levels": 5}, {"sample": 0}, {"seed": -1}, {"patch": 15}, {"step": 0}]
    )
    def test_bad_parameters_are_refused(self, parameters):
        with pytest.raises(InvalidInput, match=next(iter(parameters))):
            BowSift(**parameters)

"""Figures: any number of labels and items is drawn with the same bytes each time; omissions are stated."""

import io
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import matplotlib
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tasks.report.data import EmbeddingView, ScoreRow
from tasks.report.embedding_figure import MAX_LABELS, MAX_POINTS, draw_embedding
from tasks.report.figure_style import PALETTE
from tasks.report.figures import draw_correlation, draw_metrics, draw_spectrum, order_labels

ODD_NAMES = ["<b>&", "$x^{2$", "日本語", "a " * 60, "\x1b[31m\udcff", "%s {0} \\n", "", "😀"]


def is_png(data: bytes) -> bool:
    return data.startswith(b"\x89PNG\r\n\x1a\n") and data.endswith(b"IEND\xaeB`\x82")


def size(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def pixels(data: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def shows(data: bytes, color: str) -> bool:
    """Whether a color occurs at some opacity on white."""
    rgb, image = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]), pixels(data).astype(int)
    return any((np.abs(image - (255 + a * (rgb - 255))).max(axis=-1) < 6).any() for a in (0.6, 0.75, 0.8))


def labels(n: int, K: int, seed: int = 0, single: bool = False) -> NDArray[np.int8]:
    rng = np.random.default_rng(seed)
    Y = np.eye(K, dtype=np.int8)[rng.integers(0, K, n)]
    if not single:
        Y |= (rng.random((n, K)) < 0.2).astype(np.int8)
    Y[: n // 5] = -1
    return Y


def view(n: int, r: int, seed: int = 0) -> EmbeddingView:
    rng = np.random.default_rng(seed)
    return EmbeddingView("A method", rng.standard_normal((n, r)), np.linspace(1, 0.1, r))


def correlation(K: int, seed: int = 0) -> NDArray[np.float64]:
    columns = np.random.default_rng(seed).random((30, K))
    columns /= np.linalg.norm(columns, axis=0)
    return np.asarray(columns.T @ columns)


def scores(n_methods: int, folds: int = 3) -> list[ScoreRow]:
    rng = np.random.default_rng(0)
    return [
        (f"method_{m:02d}", "1nn", fold, metric, float(rng.uniform(0.595, 0.6) - m / 100))
        for m in range(n_methods)
        for fold in range(folds)
        for metric in ("macro_f1", "hamming_loss")
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("K", "r", "single"), [(2, 1, True), (3, 2, True), (6, 5, False), (40, 9, False), (2, 2, False)]
)
def test_every_shape_of_embedding_is_drawn(K: int, r: int, single: bool) -> None:
    drawn = draw_embedding(view(60, r), labels(60, K, single=single), [f"label {k}" for k in range(K)])
    assert is_png(drawn.png)
    assert shows(drawn.png, PALETTE[0])
    assert shows(drawn.png, PALETTE[1])


@pytest.mark.slow
def test_the_drawing_follows_the_data() -> None:
    names = ["one dimension", "one class each", "a panel each"]
    captions = [
        draw_embedding(view(40, 1), labels(40, 2, single=True), names[:2]).caption,
        draw_embedding(view(40, 2), labels(40, 3, single=True), names).caption,
        draw_embedding(view(40, 2), labels(40, 3), names).caption,
    ]
    assert "one dimension" in captions[0]
    assert "colored by class" in captions[1]
    assert "one panel per label" in captions[2]


@pytest.mark.slow
def test_omissions_are_stated() -> None:
    n, K = MAX_POINTS + 500, MAX_LABELS + 3
    shown = view(n, 2)
    shown.coordinates[0] = np.nan
    shown.coordinates[1:400] *= 0.0
    caption = draw_embedding(shown, labels(n, K), [str(k) for k in range(K)]).caption
    assert f"{MAX_LABELS} most frequent of {K}" in caption
    assert f"{MAX_POINTS:,} of {n - 1:,} items" in caption
    assert "1 item without finite coordinates" in caption


@pytest.mark.slow
def test_a_small_embedding_is_drawn_completely() -> None:
    shown = view(100, 2)
    caption = draw_embedding(shown, labels(100, 4), list("abcd")).caption
    assert "left out" not in caption
    assert "most frequent" not in caption


@pytest.mark.slow
def test_one_outlier_does_not_squeeze_the_others() -> None:
    shown, Y = view(300, 2), labels(300, 2, single=True)
    without = draw_embedding(shown, Y, ["a", "b"])
    shown.coordinates[299] = (1e6, 1e6)
    drawn = draw_embedding(shown, Y, ["a", "b"])
    assert "1 item far outside" in drawn.caption
    colored = [int((np.ptp(pixels(d.png), axis=-1) > 60).sum()) for d in (drawn, without)]
    assert colored[0] > 0.8 * colored[1]


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("r", [0, 1, 2])
def test_very_small_embeddings_are_drawn(n: int, r: int) -> None:
    shown = EmbeddingView("tiny", np.zeros((n, r)), np.zeros(r))
    assert is_png(draw_embedding(shown, np.zeros((n, 2), dtype=np.int8), ["a", "b"]).png)


def test_all_unlabeled_is_drawn() -> None:
    assert is_png(draw_embedding(view(20, 2), np.full((20, 3), -1, dtype=np.int8), list("abc")).png)


@pytest.mark.slow
def test_odd_names_are_drawn_without_a_warning() -> None:
    K = len(ODD_NAMES)
    assert is_png(draw_embedding(view(50, 2), labels(50, K), ODD_NAMES).png)
    assert is_png(draw_embedding(view(50, 2), labels(50, K, single=True), ODD_NAMES).png)
    assert is_png(draw_embedding(view(50, 1), labels(50, K), ODD_NAMES).png)
    assert is_png(draw_correlation(correlation(K), ODD_NAMES).png)
    assert is_png(draw_spectrum({"m": EmbeddingView(ODD_NAMES[1], np.zeros((2, 1)), np.ones(1))}).png)
    titles = {"method_00": ODD_NAMES[1], "method_01": ODD_NAMES[3]}
    assert is_png(draw_metrics(scores(2), "macro_f1", titles, set()).png)


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 14, 60, 374])
def test_correlation_of_any_number_of_labels(K: int) -> None:
    drawn = draw_correlation(correlation(K), [f"label {k}" for k in range(K)])
    assert is_png(drawn.png)
    assert max(size(drawn.png)) < 1500
    assert (f"{K} labels are too many" in drawn.caption) == (K > 60)


@pytest.mark.slow
def test_labels_that_never_occur_together_are_drawn() -> None:
    assert is_png(draw_correlation(np.eye(4), list("abcd")).png)


def test_order_puts_blocks_together() -> None:
    block = np.kron(np.eye(3), np.full((4, 4), 0.8)) + 0.2 * np.eye(12)
    mixed = np.random.default_rng(0).permutation(12)
    order = mixed[order_labels(block[np.ix_(mixed, mixed)])] // 4
    assert sorted(order_labels(block)) == list(range(12))
    assert np.count_nonzero(np.diff(order)) == 2


@pytest.mark.slow
def test_spectrum_of_few_many_and_negative_eigenvalues() -> None:
    views = {str(r): view(3, r) for r in (1, 12, 200)}
    views["negative"] = EmbeddingView("negative", np.zeros((3, 2)), np.array([0.5, -0.5]))
    one, four = draw_spectrum({"1": views["1"]}), draw_spectrum(views)
    assert size(four.png)[1] > size(one.png)[1]
    assert is_png(draw_spectrum({}).png)


@pytest.mark.slow
def test_bars_keep_the_baselines_when_many_methods_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.report.figures.MAX_BARS", 4)
    heights = [
        size(draw_metrics(scores(n), "macro_f1", {}, plain).png)[1]
        for n, plain in ((4, set()), (9, set()), (9, {"method_08"}), (5, {"method_04"}))
    ]
    assert heights[0] == heights[1] < heights[2] == heights[3]


def test_bars_with_one_fold_and_with_unmeasured_metrics() -> None:
    rows = [("a", "1nn", 0, "macro_f1", 0.5), ("b", "1nn", 0, "macro_f1", 0.4), ("b", "1nn", 0, "odd", 3.0)]
    assert is_png(draw_metrics(rows, "macro_f1", {}, {"b"}).png)
    assert is_png(draw_metrics([("b", "1nn", 0, "odd", 3.0)], "odd", {}, set()).png)


@pytest.mark.slow
def test_same_data_same_bytes_with_any_user_settings() -> None:
    shown, Y = view(80, 2), labels(80, 3)
    first = draw_embedding(shown, Y, list("abc")).png
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "black", "savefig.dpi": 40}):
        assert draw_embedding(shown, Y, list("abc")).png == first
        assert matplotlib.rcParams["font.size"] == 20
    for word in (b"tEXt", b"iTXt", b"tIME"):
        assert word not in first


@pytest.mark.slow
def test_threads_do_not_disturb_each_other() -> None:
    C = correlation(5)
    alone = draw_correlation(C, list("abcde")).png
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: draw_correlation(C, list("abcde")).png, range(3))) == [alone] * 3


@pytest.mark.slow
def test_inputs_are_not_modified() -> None:
    shown, Y, C = view(30, 2), labels(30, 3), correlation(3)
    before = shown.coordinates.copy(), Y.copy(), C.copy()
    draw_embedding(shown, Y, list("abc"))
    draw_correlation(C, list("abc"))
    assert all(np.array_equal(old, new) for old, new in zip(before, (shown.coordinates, Y, C), strict=True))


@pytest.mark.slow
def test_importing_the_report_imports_nothing_heavy() -> None:
    code = (
        "import sys, tasks.report.content, tasks.report.page, tasks.report.tables, tasks.report.figures\n"
        "heavy = {'matplotlib', 'sklearn', 'scipy', 'prefect', 'mlflow', 'numba', 'pyarrow'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

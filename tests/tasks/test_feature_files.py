"""Features of many files: in order, with reasons for unreadable ones, with and without compiled kernels."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import caching
from PIL import Image

from embedding_core.compiled import compile_kernel
from embedding_core.features.color_moments import ColorMoments, plain_moments
from embedding_core.features.extraction import FileChanged, extract_file, extract_many
from embedding_core.features.moment_kernels import MOMENTS, PIXELS, rgb_moments
from tasks.executor import make_executor
from tests.embedding_core.test_color_moments import jpeg, naive_rgb, random_pixels

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> list[Path]:
    """Forty files; number 11 is text, number 23 is missing."""
    paths = [tmp_path / f"{index:02d}.jpg" for index in range(40)]
    for index, path in enumerate(paths):
        path.write_bytes(jpeg(random_pixels(20, 30, seed=index)))
    paths[11].write_text("no image")
    paths[23].unlink()
    return paths


@pytest.mark.parametrize("setting", ["serial", "threads:2", "threads:5"])
def test_results_are_in_order_with_reasons_for_unreadable_files(folder, setting):
    moments = ColorMoments(grid=(2, 2))
    results = list(extract_many(folder, moments, map_files=make_executor(setting).map))
    assert len(results) == 40
    for index, (features, error) in enumerate(results):
        if index in (11, 23):
            assert features is None
            assert error is not None
        else:
            assert error is None
            np.testing.assert_array_equal(features, extract_file(folder[index], moments))
    assert "not an image" in results[11][1]
    assert "No such file" in results[23][1]


def test_no_files_give_no_results():
    assert list(extract_many([], ColorMoments())) == []


def test_folder_and_huge_file_are_reasons(tmp_path, monkeypatch):
    monkeypatch.setattr("embedding_core.features.extraction.MAX_FILE_BYTES", 3)
    (tmp_path / "huge.jpg").write_bytes(b"1234")
    reasons = [error for _, error in extract_many([tmp_path, tmp_path / "huge.jpg"], ColorMoments())]
    assert reasons[0] == "not a regular file"
    assert "4 bytes" in reasons[1]


def run_python(code: str, **environment: str) -> str:
    completed = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def test_describing_features_does_not_import_numba():
    code = (
        "import sys; from embedding_core.features.color_moments import ColorMoments; "
        "ColorMoments().feature_names(); sys.stdout.write(str('numba' in sys.modules))"
    )
    assert run_python(code) == "False"


@pytest.mark.parametrize("size", [(1, 1), (3, 200), (97, 64), (131, 17)])
@pytest.mark.parametrize("grid", [(1, 1), (8, 8), (5, 11)])
@pytest.mark.parametrize("low", [0, 250])
def test_numpy_and_kernels_give_the_same_bits(size, grid, low):
    pixels = np.random.default_rng(7).integers(low, 256, (*size, 3), dtype=np.uint8)
    compiled = np.empty((*grid, 3, 2))
    rgb_moments(pixels, compiled)
    assert plain_moments(pixels, grid).tobytes() == compiled.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(("count", "loaded"), [(3, "False"), (20, "True")])
def test_a_few_files_do_not_load_numba(tmp_path, count, loaded):
    for number in range(count):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"{number:02d}.png")
    code = (
        "import sys; from pathlib import Path; "
        "from embedding_core.features.color_moments import ColorMoments; "
        "from embedding_core.features.extraction import extract_many; "
        f"found = list(extract_many(sorted(Path({str(tmp_path)!r}).iterdir()), ColorMoments((1, 1)))); "
        "assert [row[0] for row, _ in found] == list(range(len(found))); "
        "sys.stdout.write(str('numba' in sys.modules))"
    )
    assert run_python(code) == loaded


def count_values(rgb, out):
    out[0, 0, 0, 0] = rgb.size


def counted_values(kernel) -> float:
    out = np.empty((1, 1, 1, 1))
    kernel(np.zeros((2, 2, 3), np.uint8), out)
    return float(out[0, 0, 0, 0])


def test_a_kernel_is_compiled_where_no_cache_folder_can_be_found():
    # numba cannot cache a function whose file it does not find, just as if neither the source folder nor
    # the user's cache folder were writable.
    code = count_values.__code__.replace(co_filename="<no file>")
    homeless = type(count_values)(code, globals())
    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(homeless)
    assert counted_values(compile_kernel(PIXELS, MOMENTS)(homeless)) == 12


@pytest.mark.slow
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), EOFError()])
@pytest.mark.parametrize("action", ["save", "load"])
def test_a_kernel_is_compiled_where_the_cache_fails(action, error, monkeypatch):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(caching.IndexDataCacheFile, action, fail)
    assert counted_values(compile_kernel(PIXELS, MOMENTS)(count_values)) == 12


@pytest.mark.slow
def test_photographs_are_all_read_and_exact(shared_data):
    paths = sorted((shared_data / "msrc_v2" / "images").glob("*.jpg"))
    assert len(paths) == 591
    results = list(extract_many(paths, ColorMoments()))
    assert [error for _, error in results if error is not None] == []
    with Image.open(paths[100]) as image:
        np.testing.assert_array_equal(results[100][0], naive_rgb(np.asarray(image), (8, 8)))


def test_no_file_handle_left_is_not_a_property_of_an_image(
    folder: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(FileChanged, match="Too many open files"):
        extract_file(folder[0], ColorMoments())

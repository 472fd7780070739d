"""Thumbnails of a report."""

import os
from pathlib import Path

import pytest

from storage.errors import SourceChanged
from tasks.stages.report import _shrink
from tests.conftest import write_pictures


def test_an_image_that_is_no_longer_readable_is_read_again(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "pictures", 3)
    assert _shrink(folder / "p00.png").startswith(b"\xff\xd8")
    (folder / "p00.png").write_bytes(b"half")
    (folder / "p01.png").unlink()
    (folder / "p02.png").unlink()
    os.mkfifo(folder / "p02.png")
    for name in ("p00.png", "p01.png", "p02.png"):
        with pytest.raises(SourceChanged, match=f"{name} changed while it was being read"):
            _shrink(folder / name)

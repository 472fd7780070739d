"""The demo collection: a few hundred drawn scenes as JPEG files, and a table of labels for most of them."""

import contextlib
import csv
import hashlib
import io
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from storage.errors import SourceError, StoreError

VERSION = 2
UNLABELED_SHARE = 0.25
SMALLEST_SIDE = 48

_OWN_FILES = re.compile(r"labels\.csv|demo\.json|images/scene_\d+\.jpg")


def write_demo(folder: Path, n: int = 360, seed: int = 7, size: tuple[int, int] = (192, 128)) -> None:
    """Write the demo collection into `folder`, unless it exists there complete and unchanged.

    The folder holds ``images/scene_000.jpg`` ..., ``labels.csv`` (``filename,labels``; several labels joined
    by ``|``, an empty cell for the quarter that is unlabeled) and ``demo.json`` with the parameters and a
    digest of all files. It is written to a temporary folder and renamed, so that it is never incomplete.

    Parameters
    ----------
    folder : Path
        Created if missing. A folder with other files is an error.
    n : int
        Number of scenes. The k-th scene does not depend on it.
    seed : int
        Random seed; the same seed gives the same bytes.
    size : (width, height)
        Size of the images in pixels; some are a little narrower.

    Raises
    ------
    SourceError
        A parameter is out of range, or the folder contains other files.
    StoreError
        The folder cannot be written.
    """
    _check_request(n, seed, size)
    request = {"version": VERSION, "n": n, "seed": seed, "size": list(size)}
    if _is_complete(folder, request):
        return
    _refuse_foreign(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as aside:
            fresh = Path(aside) / "fresh"
            _write_files(fresh, n, seed, size)
            note = {**request, "digest": _digest(fresh)}
            (fresh / "demo.json").write_text(
                json.dumps(note, indent=2, sort_keys=True) + "\n", encoding="utf-8"
            )
            _put_in_place(fresh, folder, request)
    except OSError as error:
        raise StoreError(
            f"The demo collection cannot be written to {folder}: {error.strerror or error}. "
            "Free disk space or choose another home folder (LABELSCAPE_HOME or --home)."
        ) from error


def choose_unlabeled(n: int, seed: int) -> frozenset[int]:
    """Indices of the scenes without labels: a random quarter."""
    order = np.random.default_rng((seed, n)).permutation(n)
    return frozenset(order[: round(UNLABELED_SHARE * n)].tolist())


def _check_request(n: int, seed: int, size: tuple[int, int]) -> None:
    if n < 1:
        raise SourceError(f"n={n}: the demo collection needs at least one scene.")
    if seed < 0:
        raise SourceError(f"seed={seed}: the seed of the demo collection must not be negative.")
    if min(size) < SMALLEST_SIDE:
        raise SourceError(
            f"size={size[0]}x{size[1]}: scenes of the demo collection need at least "
            f"{SMALLEST_SIDE}x{SMALLEST_SIDE} pixels."
        )


def _write_files(folder: Path, n: int, seed: int, size: tuple[int, int]) -> None:
    """Draw the scenes and write them with their labels."""
    from storage.sources.demo_scenes import draw_scene

    (folder / "images").mkdir(parents=True)
    hidden = choose_unlabeled(n, seed)
    digits = max(3, len(str(n - 1)))
    with (folder / "labels.csv").open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(["filename", "labels"])
        for index in range(n):
            scene = draw_scene(seed, index, size)
            name = f"images/scene_{index:0{digits}d}.jpg"
            encoded = io.BytesIO()
            scene.image.save(encoded, "JPEG", quality=88, subsampling=0)
            (folder / name).write_bytes(encoded.getvalue())
            table.writerow([name, "" if index in hidden else "|".join(scene.labels)])


def _put_in_place(fresh: Path, folder: Path, request: dict[str, object]) -> None:
    """Rename the finished folder; move an outdated collection away first."""
    with contextlib.suppress(FileNotFoundError):
        folder.rename(fresh.with_name("outdated"))
    try:
        fresh.rename(folder)
    except OSError:
        # Another process finished first; its collection has the same content.
        if not _is_complete(folder, request):
            raise


def _is_complete(folder: Path, request: dict[str, object]) -> bool:
    """Whether the folder contains the requested collection, byte for byte."""
    try:
        note = json.loads((folder / "demo.json").read_text(encoding="utf-8"))
        return bool(note == {**request, "digest": _digest(folder)})
    except (OSError, ValueError):
        return False


def _digest(folder: Path) -> str:
    """Digest of all files except `demo.json`."""
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(_own_files(folder)):
        if name != "demo.json":
            total.update(name.encode() + b"\0" + hashlib.blake2b((folder / name).read_bytes()).digest())
    return total.hexdigest()


def _own_files(folder: Path) -> Iterator[str]:
    return (name for name in _files(folder) if _OWN_FILES.fullmatch(name))


def _files(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def _refuse_foreign(folder: Path) -> None:
    """Raise an error if the folder contains anything but an earlier demo collection."""
    if folder.exists() and not folder.is_dir():
        raise SourceError(
            f"{folder} is a file; the demo collection needs a folder. Remove it or choose another place."
        )
    foreign = sorted(name for name in _files(folder) if not _OWN_FILES.fullmatch(name))
    if foreign:
        raise SourceError(
            f"{folder} contains {len(foreign)} files that are not of the demo collection ({foreign[0]} ...) "
            "and would be replaced. Move them away or choose another folder."
        )

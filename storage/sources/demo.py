"""The demo collection: a few hundred drawn scenes as JPEGs, and a table with the labels of most of them."""

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

VERSION = 1
UNLABELED_SHARE = 0.25
SMALLEST_SIDE = 48

_OWN_FILES = re.compile(r"labels\.csv|demo\.json|images/scene_\d+\.jpg")


def write_demo(folder: Path, n: int = 360, seed: int = 7, size: tuple[int, int] = (192, 128)) -> None:
    """Write the demo collection into `folder`, unless it is there already, whole and unchanged.

    The folder holds ``images/scene_000.jpg`` ..., ``labels.csv`` (``filename,labels``; several labels joined
    by ``|``, an empty cell for the quarter that is unlabeled) and ``demo.json``, which says what was asked
    for and the digest of all files. It is made aside and renamed, so that it is never seen half-written.

    Parameters
    ----------
    folder : Path
        Made if missing. A folder with other files in it is refused rather than replaced.
    n : int
        Number of scenes. The k-th scene is the same whatever the number.
    seed : int
        Seed of everything random; the same seed gives the same bytes.
    size : (width, height)
        Size of the images in pixels; some are a little narrower.

    Raises
    ------
    SourceError
        For a number or size that makes no collection, or a folder that holds something else.
    StoreError
        If the folder cannot be written.
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
            "Make room or choose another home folder (LABELSCAPE_HOME or --home)."
        ) from error


def choose_unlabeled(n: int, seed: int) -> frozenset[int]:
    """Numbers of the scenes whose labels are withheld: a quarter of them, at random."""
    order = np.random.default_rng((seed, n)).permutation(n)
    return frozenset(order[: round(UNLABELED_SHARE * n)].tolist())


def _check_request(n: int, seed: int, size: tuple[int, int]) -> None:
    if n < 1:
        raise SourceError(f"The demo collection was asked for {n} scenes; give a number from 1 on.")
    if seed < 0:
        raise SourceError(f"The demo collection was asked for with seed {seed}; give a number from 0 on.")
    if min(size) < SMALLEST_SIDE:
        raise SourceError(
            f"The demo collection was asked for at {size[0]}x{size[1]} pixels; "
            f"give at least {SMALLEST_SIDE}x{SMALLEST_SIDE}, or nothing can be made out."
        )


def _write_files(folder: Path, n: int, seed: int, size: tuple[int, int]) -> None:
    """Draw the scenes, write them and their labels."""
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
    """Rename the finished folder; an outdated collection steps aside first."""
    with contextlib.suppress(FileNotFoundError):
        folder.rename(fresh.with_name("outdated"))
    try:
        fresh.rename(folder)
    except OSError:
        # Another process was faster; its collection is as good as ours.
        if not _is_complete(folder, request):
            raise


def _is_complete(folder: Path, request: dict[str, object]) -> bool:
    """Whether the folder holds what is asked for, every byte of it."""
    try:
        note = json.loads((folder / "demo.json").read_text(encoding="utf-8"))
        return bool(note == {**request, "digest": _digest(folder)})
    except (OSError, ValueError):
        return False


def _digest(folder: Path) -> str:
    """Digest of the collection's files but for the note itself."""
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
    """A folder that is replaced may hold nothing but an earlier demo collection."""
    if folder.exists() and not folder.is_dir():
        raise SourceError(
            f"{folder} is a file; the demo collection needs a folder. Remove it or choose another place."
        )
    foreign = sorted(name for name in _files(folder) if not _OWN_FILES.fullmatch(name))
    if foreign:
        raise SourceError(
            f"{folder} holds {len(foreign)} files that are not of the demo collection ({foreign[0]} ...); "
            "the demo collection would replace them. Move them away or choose another folder."
        )

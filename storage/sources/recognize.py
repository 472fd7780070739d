"""Which reader a path needs, told by what lies there."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from storage.errors import SourceError
from storage.sources.arff import ArffSource, find_label_xml
from storage.sources.base import BUILTIN_NAMES, KINDS, UNDERSTOOD, Source, SourceOptions
from storage.sources.builtin import open_builtin
from storage.sources.columns import CSV_SUFFIXES, column_names, read_header
from storage.sources.image_files import holds_images, is_image_name, own_folders
from storage.sources.image_folder import IMAGES, ImageFolder, find_label_file
from storage.sources.label_files import NAME_COLUMNS, is_label_file_name
from storage.sources.sparse_text import SparseSource, find_labels, find_matrix
from storage.sources.table import TableSource, is_feature_name

_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")


def open_source(options: SourceOptions, cache_dir: Path) -> Source:
    """Recognize a source and open it; no data are read yet.

    Parameters
    ----------
    options : SourceOptions
    cache_dir : Path
        Passed over where it lies inside a folder of images.

    Raises
    ------
    SourceError
        Nothing is there, or nothing that a reader understands.
    """
    _check_options(options)
    if options.path in BUILTIN_NAMES and options.kind in ("auto", "builtin"):
        return open_builtin(options)
    if options.kind == "builtin":
        raise SourceError(f"{options.path!r} is no built-in set; there are {', '.join(BUILTIN_NAMES)}.")
    path = Path(options.path).expanduser()
    if not path.exists():
        raise _missing(path)
    if options.kind != "auto":
        return _OPENERS[options.kind](path, options)
    if path.is_dir() and (source := _open_labeled_images(path, options, cache_dir)):
        return source
    kind, path = _recognize(path, cache_dir)
    return _OPENERS[kind](path, options)


def _check_options(options: SourceOptions) -> None:
    if options.kind not in KINDS:
        raise SourceError(f"kind {options.kind!r} is unknown; use one of {', '.join(KINDS)}.")
    if not options.label_separator:
        raise SourceError(
            "label_separator is empty. Give the text that stands between labels, for instance '|'."
        )
    if options.min_label_count < 0:
        raise SourceError(f"min_label_count={options.min_label_count} is negative. Use 0 or more.")
    if not options.path:
        raise SourceError(f"the path is empty. Give {UNDERSTOOD}.")


def _missing(path: Path) -> SourceError:
    parent = path.parent
    names = [p.name for p in parent.iterdir() if not p.name.startswith(".")] if parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names)
    near += [name for name in difflib.get_close_matches(str(path), BUILTIN_NAMES) if name not in near]
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    place = "" if parent.is_dir() else f" (nor its folder {parent})"
    return SourceError(f"there is no file or folder {path}{place}.{hint} Expected is {UNDERSTOOD}.")


def _open_labeled_images(folder: Path, options: SourceOptions, cache_dir: Path) -> Source | None:
    """A folder of images with a label file; the file is looked for once, since many may lie beside it."""
    if not holds_images(folder, skip=cache_dir):
        return None
    label_file = _given_file(options, folder) or find_label_file(folder)
    return ImageFolder(folder, label_file, options) if label_file else None


def _recognize(path: Path, cache_dir: Path) -> tuple[str, Path]:
    if path.is_dir():
        return _recognize_folder(path, cache_dir)
    if not path.is_file():
        raise SourceError(f"{path} is neither a file nor a folder. Expected is {UNDERSTOOD}.")
    kind = _file_kind(path)
    if kind is None:
        raise _not_understood(path)
    return kind, path


def _file_kind(path: Path) -> str | None:
    """The reader for one file, by its ending and, where that is not enough, its header."""
    suffix = path.suffix.lower()
    if suffix in (".arff", ".npz"):
        return {".arff": "arff", ".npz": "sparse"}[suffix]
    if suffix == ".jsonl" or (suffix == ".parquet" and is_label_file_name(path.name)):
        return "images"
    if suffix == ".parquet":
        return "sparse" if find_matrix(path) else "table"
    if suffix not in CSV_SUFFIXES:
        return None
    header = read_header(path)[0]
    if any(map(is_feature_name, header)):
        return "table"
    if find_matrix(path):
        return "sparse"
    named = is_label_file_name(path.name) or any(name.lower() in NAME_COLUMNS for name in header)
    return "images" if named or (len(header) == 2 and holds_images(path.parent)) else None


def _not_understood(path: Path) -> SourceError:
    suffix = path.suffix.lower()
    if is_image_name(path.name):
        advice = f"is one image. Give the folder it lies in, {path.parent}"
    elif suffix == ".xml":
        advice = "is XML. Give the .arff file it belongs to"
    elif suffix in _ARCHIVES:
        advice = "is an archive. Unpack it first and give the folder"
    elif suffix in CSV_SUFFIXES:
        header = read_header(path)[0]
        shown = ", ".join(header[:8]) or "none"
        advice = f"has the columns {shown}: neither features f0, f1, ... nor filename and labels"
    else:
        advice = f"is a file of unknown kind ({suffix or 'no ending'})"
    return SourceError(f"{path} {advice}. Understood is {UNDERSTOOD}.")


def _recognize_folder(folder: Path, cache_dir: Path) -> tuple[str, Path]:
    images = holds_images(folder, skip=cache_dir)
    if images and _images_below(folder, cache_dir):
        return "images", folder
    sets = _data_sets(folder)
    if len(sets) == 1:
        return sets[0]
    if len(sets) > 1:
        names = ", ".join(path.name for _, path in sets)
        raise SourceError(f"{folder} holds several data sets: {names}. Give the path of one.")
    if images:
        return "images", folder
    raise SourceError(f"{folder} {_contents(folder)}. Expected is {UNDERSTOOD}.")


def _images_below(folder: Path, cache_dir: Path) -> bool:
    ours = own_folders(cache_dir)
    below = (p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    return any(holds_images(p, skip=cache_dir) for p in below if str(p.resolve()) not in ours)


def _data_sets(folder: Path) -> list[tuple[str, Path]]:
    """Data sets that lie directly in a folder; a table of labels counts with its matrix, not by itself."""
    found = []
    for path in sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")):
        kind = _file_kind(path)
        if kind in ("arff", "table") or (path.suffix.lower() == ".npz" and find_labels(path)):
            found.append((str(kind), path))
    if len(found) > 1:  # edge lists and other Parquet files may lie beside the one with features
        found = [(k, p) for k, p in found if k != "table" or any(map(is_feature_name, column_names(p)))]
    return found


def _contents(folder: Path) -> str:
    visible = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if not visible:
        return "is empty"
    kinds = Counter("folder" if p.is_dir() else p.suffix.lower() or "no ending" for p in visible)
    shown = ", ".join(f"{count} x {kind}" for kind, count in kinds.most_common(6))
    return f"holds nothing that is understood (found: {shown})"


def _open_images(path: Path, options: SourceOptions) -> Source:
    if path.is_dir():
        folder, label_file = path, _given_file(options, path) or find_label_file(path)
    else:
        folder, label_file = path.parent, path
        if folder.name == IMAGES and not holds_images(folder):
            folder = folder.parent
    return ImageFolder(folder, label_file, options)


def _given_file(options: SourceOptions, folder: Path) -> Path | None:
    """The file that the options name, relative to the data or to where the command runs."""
    if options.labels is None:
        return None
    given = Path(options.labels).expanduser()
    for candidate in (folder / given, given):
        if candidate.is_file():
            return candidate
    raise SourceError(f"labels={options.labels!r}: no such file, neither in {folder} nor here.")


def _open_table(path: Path, options: SourceOptions) -> Source:
    return TableSource(_one_file(path, "table"), options)


def _open_arff(path: Path, options: SourceOptions) -> Source:
    path = _one_file(path, "arff")
    if options.labels is not None and not options.labels.lower().endswith(".xml"):
        return ArffSource(path, None, options)
    return ArffSource(path, _given_file(options, path.parent) or find_label_xml(path), options)


def _open_sparse(path: Path, options: SourceOptions) -> Source:
    path = _one_file(path, "sparse")
    matrix = path if path.suffix.lower() == ".npz" else find_matrix(path)
    if matrix is None:
        raise SourceError(f"{path} is no .npz and has no <name>_X.npz beside it. Give the matrix.")
    labels = _given_file(options, matrix.parent) or find_labels(matrix)
    if labels is None:
        expected = matrix.with_name(f"{matrix.stem.removesuffix('_X')}_labels.parquet")
        raise SourceError(
            f"{matrix} has no labels: {expected.name} is expected beside it, or name it in `labels`."
        )
    return SparseSource(matrix, labels, options)


def _one_file(path: Path, kind: str) -> Path:
    if path.is_file():
        return path
    found = [file for found_kind, file in _data_sets(path) if found_kind == kind]
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise SourceError(f"{path} should hold one data set of kind {kind}; it holds {names}. Give the file.")
    return found[0]


_OPENERS: dict[str, Callable[[Path, SourceOptions], Source]] = {
    "images": _open_images,
    "table": _open_table,
    "arff": _open_arff,
    "sparse": _open_sparse,
}

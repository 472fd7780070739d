"""Find the images that the entries of a label file name. Only images of the collection are ever found."""

from __future__ import annotations

import posixpath
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePosixPath

from storage.errors import SourceError
from storage.quoting import quote
from storage.sources.base import Note
from storage.sources.label_entries import LabelEntry, LabelFile, Matching
from storage.sources.label_places import LabelPart, split_in_name
from storage.sources.label_studio import without_prefix

# Folders of a path that are compared.
_DEEPEST = 30
# Characters of a name in a note.
_LONGEST_SHOWN = 300


class NameResolver:
    """Finds the image that an entry of a label file names.

    Parameters
    ----------
    ids : list of str
        Relative paths of the images.
    bases : sequence of str
        Folders that names may be relative to, in the order in which they are tried.
    folder : Path
        The folder of the collection; absolute names may be inside.
    match : {"path", "stem", "tail", "name"}
        How the entries name images.
    split : str
        Split of the images; those in a folder of another split are not found by the end of their path.
    """

    def __init__(
        self, ids: list[str], bases: Sequence[str], folder: Path, match: Matching = "path", split: str = ""
    ) -> None:
        self._ids = set(ids)
        # File systems may store an accented letter as two characters, label files as one.
        self._composed = {unicodedata.normalize("NFC", name): name for name in ids}
        self._bases = list(dict.fromkeys(bases))
        self._folder = str(folder.absolute())
        self._prefixes = tuple(dict.fromkeys((f"{self._folder}/", f"{folder.resolve()}/")))
        self._match, self._split = match, split

    def resolve(self, name: str) -> str | None:
        """The image with this name; None if there is none, or several."""
        plain = name if self._bases[0] == "." else f"{self._bases[0]}/{name}"
        if plain in self._ids and self._match != "stem":  # fast path for the first candidate below
            return plain
        for candidate in self._candidates(name):
            if (found := self._known(candidate)) is not None:
                return found
        found_below = self._by_end(name) if self._match in ("tail", "name") else []
        return found_below[0] if len(found_below) == 1 else None

    def problem(self, name: str) -> str:
        """Why a name has no image, as the end of a sentence."""
        if len(several := self._by_end(name) if self._match in ("tail", "name") else []) > 1:
            return f"which may be {several[0]!r} or {several[1]!r}; write folders before the name"
        if self._match == "stem" and any(len(self._stems.get(one, ())) > 1 for one in self._candidates(name)):
            return "which several images have, with different suffixes"
        if not any(self._candidates(name)):
            return f"which is outside {self._folder}"
        if (near := self._near(name)) is not None:
            return f"which does not exist (but {near!r} does)"
        if PurePosixPath(name).name.startswith("."):
            return "which does not exist or is hidden: names that begin with a dot are ignored"
        return "which does not exist"

    def _known(self, candidate: str) -> str | None:
        if candidate in self._ids:
            return candidate
        if (found := self._composed.get(unicodedata.normalize("NFC", candidate))) is not None:
            return found
        if self._match == "stem" and len(stems := self._stems.get(candidate, [])) == 1:
            return stems[0]
        return None

    def _near(self, name: str) -> str | None:
        """An image whose name differs only in case."""
        found = (self._folded.get(candidate.casefold()) for candidate in self._candidates(name))
        return next((name for name in found if name is not None), None)

    def _candidates(self, name: str) -> Iterator[str]:
        """Paths in the collection that a name may mean; none if it leads outside."""
        for spelling in dict.fromkeys((name, name.strip(), name.strip().replace("\\", "/"))):
            inside = next((spelling[len(p) :] for p in self._prefixes if spelling.startswith(p)), spelling)
            for base in self._bases:
                path = posixpath.normpath(posixpath.join(base, inside))
                if not path.startswith(("../", "/")) and path != "..":
                    yield path

    def _by_end(self, name: str) -> list[str]:
        """Images whose paths end in a name, at most two; for `name` those with the longest common end."""
        whole = posixpath.normpath(name.strip().replace("\\", "/"))
        parts = whole.strip("/").split("/")[-_DEEPEST:]
        if self._match == "tail":
            is_outside = whole.startswith(("/", "../"))
            return [] if is_outside else self._ends.get(whole) or self._below(parts)
        short = without_prefix(parts[-1])
        for tail in (parts, [*parts[:-1], short] if short else []):
            for start in range(len(tail)):
                if found := self._ends.get("/".join(tail[start:])):
                    return found
        return []

    def _below(self, parts: list[str]) -> list[str]:
        """The image of a name that begins with the last folders of the collection itself."""
        for count in range(1, len(parts)):
            if self._folder.endswith("/" + "/".join(parts[:count])):
                name = "/".join(parts[count:])
                return [name] if name in self._ids else []
        return []

    @cached_property
    def _folded(self) -> dict[str, str]:
        return {name.casefold(): name for name in self._ids}

    @cached_property
    def _ends(self) -> dict[str, list[str]]:
        """The first two images by each end of their paths."""
        found: dict[str, list[str]] = defaultdict(list)
        for name in sorted(self._ids):
            parts = name.split("/")[-_DEEPEST:]
            if self._split and any(split_in_name(one) not in ("", self._split) for one in parts[:-1]):
                continue
            for start in range(len(parts)):
                if len(known := found["/".join(parts[start:])]) < 2:
                    known.append(name)
        return dict(found)

    @cached_property
    def _stems(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for name in sorted(self._ids):
            found[posixpath.splitext(name)[0]].append(name)
        return dict(found)


def assign_entries(
    labels: LabelFile, names: NameResolver, part: LabelPart, chosen: dict[str, LabelEntry]
) -> list[Note]:
    """Assign entries to images; entries without an image and repeated ones become notes."""
    path, notes = part.path, []
    own: dict[str, LabelEntry] = {}
    is_text = labels.unit == "line"

    def note(entry: LabelEntry, text: str) -> None:
        place = "" if is_text else f"{labels.unit} {entry.row}: "
        notes.append(Note(path.name, entry.row if is_text else None, f"{place}{text}"))

    for given in labels.entries:
        entry = replace(given, split=given.split or part.split) if part.split else given
        shown = quote(entry.name, _LONGEST_SHOWN)
        name = names.resolve(entry.name)
        if name is None:
            note(entry, f"labels for {shown}, {names.problem(entry.name)}")
        elif name in own and not _same(own[name], entry):
            raise _contradiction(own[name], entry, path, labels.unit)
        elif name in own:
            note(entry, f"{shown} is repeated, as in {labels.unit} {own[name].row}")
        elif name in chosen:
            note(entry, f"{shown} is also in another label file, which counts")
        else:
            own[name] = entry
    chosen.update(own)
    return notes


def _same(first: LabelEntry, second: LabelEntry) -> bool:
    is_equal = set(first.labels or ()) == set(second.labels or ()) and first.split == second.split
    return is_equal and (first.labels is None) == (second.labels is None)


def _contradiction(first: LabelEntry, second: LabelEntry, path: Path, unit: str) -> SourceError:
    now, before = ("|".join(entry.labels or ())[:80] for entry in (second, first))
    name = quote(second.name, _LONGEST_SHOWN)
    return SourceError(
        f"{path}, {unit} {second.row}: {name} is repeated with other labels than in {unit} {first.row} "
        f"({now!r}, before {before!r}). "
        f"Keep one {unit} per file, with all its labels."
    )


def no_match(
    labels: LabelFile, ids: list[str], path: Path, folder: Path, item: str = "an image"
) -> SourceError:
    """The error of a label file that names other files than those of the folder; `item` is what they are."""
    named = labels.entries[0].name if labels.entries else "nothing"
    return SourceError(
        f"{path}: none of its {len(labels.entries)} entries names {item} in {folder}. It names "
        f"{quote(named)}; the folder contains {ids[0]!r}. Give the folder of these files, and the label file "
        "in source.labels. Names are relative to the folder, or to its images/ or data/."
    )

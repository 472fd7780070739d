"""Which code computes a stage, as one hash a module: a changed function makes what it computed stale.

A fingerprint follows the imports of the given modules through the project's own packages, also those inside
functions, without importing or running anything. Comments, docstrings and layout do not count. Two rules keep
it from growing without need: a package's `__init__` counts only where a name is imported from it (not for
merely lying above a module), and imports under `if TYPE_CHECKING` do not count.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from storage.artifacts.disk import TEMPORARY, remove_quietly, seal, unseal
from storage.artifacts.file_stats import is_settled
from storage.errors import StoreError

PACKAGES = ("embedding_core", "storage", "tasks", "flows")
ABSENT = "absent"
_DOCUMENTED = frozenset({ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef})
_IMPORTING = frozenset({ast.Import, ast.ImportFrom, ast.Call})


@dataclass(frozen=True)
class _Facts:
    digest: str
    imports: frozenset[str]


class _Notes:
    """What earlier processes found in each source file, trusted while its size and times are the same.

    Python trusts its own compiled files on the same grounds; reading all sources takes a third of a second.
    """

    def __init__(self) -> None:
        self._file: Path | None = None
        self._known: dict[str, list[Any]] = {}
        self._changed = False

    def open(self, file: Path) -> None:
        """Take up what is noted in a file; one that is missing or damaged holds nothing."""
        self._file, self._known, self._changed = file, {}, False
        with suppress(OSError, ValueError, KeyError):
            noted = unseal(file.read_bytes())
            # What another version of this module found may follow other rules.
            self._known = noted["modules"] if noted["reader"] == _reader() else {}

    def save(self) -> None:
        """Write what was added; notes are a convenience, so a folder that refuses them is no error."""
        if self._file is None or not self._changed:
            return
        place = self._file.with_name(f"{self._file.name}.{os.getpid()}{TEMPORARY}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(seal({"modules": self._known, "reader": _reader()}))
            place.replace(self._file)
        except OSError:
            remove_quietly(place)  # on a full disk a piece of it was written
        self._changed = False

    def recall(self, module: str, path: Path) -> _Facts | None:
        noted = self._known.get(module)
        if noted is None or noted[0] != _stamp(path):
            return None
        return _Facts(noted[1], frozenset(noted[2]))

    def add(self, module: str, path: Path, facts: _Facts) -> None:
        stamp = _stamp(path)
        if self._file is not None and is_settled(time.time_ns(), *stamp[-2:]):
            self._known[module] = [stamp, facts.digest, sorted(facts.imports)]
            self._changed = True


def _stamp(path: Path) -> list[Any]:
    status = path.stat()
    return [str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns]


@cache
def _reader() -> str:
    """Digest of this very module and of the version of Python whose parser it uses."""
    return hashlib.blake2b(Path(__file__).read_bytes() + sys.version.encode(), digest_size=16).hexdigest()


_notes = _Notes()


def keep_notes(file: Path) -> None:
    """Use and extend the notes of earlier processes in `file`."""
    _notes.open(file)


@cache
def _package_folders(package: str) -> tuple[Path, ...]:
    # A top-level name has no parent, so that find_spec imports nothing; it knows editable installs too.
    spec = importlib.util.find_spec(package)
    return tuple(Path(folder) for folder in (spec.submodule_search_locations if spec else None) or ())


@cache
def _locate(module: str) -> Path | None:
    """The source file of a module of the project, or None."""
    package, *inner = module.split(".")
    if package not in PACKAGES or not all(part.isidentifier() for part in inner):
        return None
    for folder in _package_folders(package):
        place = folder.joinpath(*inner)
        candidates = [place / "__init__.py"] + ([place.with_name(f"{inner[-1]}.py")] if inner else [])
        for candidate in candidates:
            if candidate.is_file():
                return candidate
    return None


def _is_type_checking(node: ast.AST) -> bool:
    test = getattr(node, "test", None)
    return "TYPE_CHECKING" in (getattr(test, "id", None), getattr(test, "attr", None))


def _is_docstring(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _flatten(node: ast.AST, text: list[str], importing: list[ast.AST]) -> None:
    """Write a tree as words, without positions and docstrings, and note the nodes that may import.

    One pass for both: with `ast.dump` and two walks a cold fingerprint takes twice as long.
    """
    kind = node.__class__
    text.append(kind.__name__)
    if kind in _IMPORTING:
        importing.append(node)
    elif kind is ast.If and _is_type_checking(node):
        importing = []  # never runs: it counts as code, its imports do not
    for name in kind._fields:
        value = getattr(node, name, None)
        if value is None or value == []:
            continue  # newer versions of Python add fields, which older code leaves empty
        text.append(name)
        if isinstance(value, list):
            text.append("[")
            documented = name == "body" and kind in _DOCUMENTED and value and _is_docstring(value[0])
            for item in value[1:] if documented else value:
                if isinstance(item, ast.AST):
                    _flatten(item, text, importing)
                else:
                    text.append(repr(item))
            text.append("]")
        elif isinstance(value, ast.AST):
            _flatten(value, text, importing)
        else:
            text.append(repr(value))


def _imported_from(node: ast.ImportFrom, package: str) -> set[str]:
    base = node.module or ""
    if node.level:
        parents = package.split(".")
        above = parents[: len(parents) - node.level + 1]
        base = ".".join([*above, *([base] if base else [])])
    submodules = {f"{base}.{alias.name}" for alias in node.names if _locate(f"{base}.{alias.name}")}
    return submodules if len(submodules) == len(node.names) else submodules | {base}


def _named_modules(node: ast.AST, package: str) -> set[str]:
    """The module that a text names, in full or from its package on."""
    text = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(text, str):
        return set()
    return {name for name in (text, f"{package}.{text.lstrip('.')}") if _locate(name)}


def _imported_by(node: ast.AST, package: str) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return _imported_from(node, package)
    if isinstance(node, ast.Call) and node.args:
        called = getattr(node.func, "attr", getattr(node.func, "id", None))
        return _named_modules(node.args[0], package) if called in ("import_module", "__import__") else set()
    return set()


def _lazily_imported(tree: ast.Module, package: str) -> set[str]:
    """Modules that a package's own `__getattr__` may import: all that its texts name."""
    if not any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body):
        return set()
    return set().union(*(_named_modules(node, package) for node in ast.walk(tree)))


@cache
def _examine(module: str) -> _Facts | None:
    path = _locate(module)
    if path is None:
        return None
    if (known := _notes.recall(module, path)) is not None:
        return known
    facts = _read_source(module, path)
    _notes.add(module, path, facts)
    return facts


def _read_source(module: str, path: Path) -> _Facts:
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except (OSError, SyntaxError) as error:
        raise StoreError(f"The source of {module} ({path}) cannot be read: {error}.") from error
    words: list[str] = []
    importing: list[ast.AST] = []
    _flatten(tree, words, importing)
    digest = hashlib.blake2b("\n".join(words).encode(), digest_size=16).hexdigest()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    imports = _lazily_imported(tree, package).union(*(_imported_by(node, package) for node in importing))
    ours = (name for name in imports if name.partition(".")[0] in PACKAGES and name != module)
    return _Facts(digest, frozenset(ours))


def forget() -> None:
    """Forget what was read; a process otherwise reads each module once, as it imports it once."""
    for memo in (_package_folders, _locate, _examine):
        memo.cache_clear()


def module_fingerprint(module: str) -> str:
    """Hash of one module of the project, whatever it imports."""
    facts = _examine(module)
    _notes.save()
    return facts.digest if facts else ABSENT


def module_imports(module: str) -> frozenset[str]:
    """Modules of the project that one of them imports itself."""
    facts = _examine(module)
    return facts.imports if facts else frozenset()


def code_fingerprint(roots: Sequence[str]) -> dict[str, str]:
    """Hash of every project module that the given modules run, directly or through imports.

    Parameters
    ----------
    roots : sequence of str
        Dotted names, for instance `["embedding_core.graph.affinity"]`.

    Returns
    -------
    dict of module name to hash, sorted by name
        A project module that is imported but does not exist is listed as `"absent"`, so that its appearing
        changes the fingerprint.

    Notes
    -----
    Modules chosen at run time by a text (the registry of methods) cannot be followed: name the chosen
    method's module among the roots. Followed are `import_module("literal")` and, for a package with a lazy
    `__getattr__`, every module that its `__init__` names.
    """
    found: dict[str, str] = {}
    pending = list(roots)
    while pending:
        module = pending.pop()
        if module in found:
            continue
        facts = _examine(module)
        if facts is None and module in roots:
            raise StoreError(
                f"No source found for the module {module!r}; expected a module of {', '.join(PACKAGES)}."
            )
        found[module] = facts.digest if facts else ABSENT
        pending.extend(facts.imports if facts else ())
    _notes.save()
    return dict(sorted(found.items()))

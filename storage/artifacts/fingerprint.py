"""Fingerprint of the code that computes a stage, one hash per module: changed code makes artifacts stale.

A fingerprint follows the imports of the given modules through the project's own packages, including imports
inside functions, without importing or running anything. Comments, docstrings and formatting do not count. Two
rules keep it small: a package's `__init__` counts only if a name is imported from it (not merely because it
contains the module), and imports under `if TYPE_CHECKING` do not count.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from storage.artifacts.disk import seal, unseal, write_atomically
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


class _FactsCache:
    """What earlier processes found in each source file, valid while its size and times are the same.

    Python trusts its own compiled files in the same way; reading all sources takes a third of a second.
    """

    def __init__(self) -> None:
        self._file: Path | None = None
        self._known: dict[str, list[Any]] = {}
        self._changed = False

    def open(self, file: Path) -> None:
        """Load the cache from a file; a missing or damaged file counts as empty."""
        self._file, self._known, self._changed = file, {}, False
        with suppress(OSError, ValueError, KeyError):
            cached = unseal(file.read_bytes())
            # Another version of this module may follow other rules.
            self._known = cached["modules"] if cached["reader"] == _reader() else {}

    def save(self) -> None:
        """Write the cache if it has changed; an unwritable folder is not an error."""
        if self._file is None or not self._changed:
            return
        with suppress(OSError):
            write_atomically(self._file, seal({"modules": self._known, "reader": _reader()}))
        self._changed = False

    def get(self, module: str, path: Path) -> _Facts | None:
        """Return what is known of a module, or None if its file has changed."""
        cached = self._known.get(module)
        if cached is None or cached[0] != _stamp(path):
            return None
        return _Facts(cached[1], frozenset(cached[2]))

    def add(self, module: str, path: Path, facts: _Facts) -> None:
        """Add what was found in a module, if its file can be trusted not to change within one clock tick."""
        stamp = _stamp(path)
        if self._file is not None and is_settled(time.time_ns(), *stamp[-2:]):
            self._known[module] = [stamp, facts.digest, sorted(facts.imports)]
            self._changed = True


def _stamp(path: Path) -> list[Any]:
    status = path.stat()
    return [str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns]


@cache
def _reader() -> str:
    """Digest of this module and of the Python version whose parser it uses."""
    return hashlib.blake2b(Path(__file__).read_bytes() + sys.version.encode(), digest_size=16).hexdigest()


_facts_cache = _FactsCache()


def use_cache_file(file: Path) -> None:
    """Load and extend the cache of earlier processes in `file`."""
    _facts_cache.open(file)


@cache
def _package_folders(package: str) -> tuple[Path, ...]:
    # A top-level name has no parent, so find_spec imports nothing; it also knows editable installs.
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        # A folder of the same name hides the package of an editable install: Dask's workers have a `storage`.
        folder = Path(__file__).resolve().parents[2] / package
        return (folder,) if folder.is_dir() else ()
    return tuple(map(Path, spec.submodule_search_locations or ()))


@cache
def _locate(module: str) -> Path | None:
    """Return the source file of a module of the project, or None."""
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
    """Flatten a tree into words, without positions and docstrings, and collect the nodes that may import.

    One pass does both: with `ast.dump` and two walks a cold fingerprint takes twice as long.
    """
    kind = node.__class__
    text.append(kind.__name__)
    if kind in _IMPORTING:
        importing.append(node)
    elif kind is ast.If and _is_type_checking(node):
        importing = []  # counts as code, but never runs, so its imports do not count
    for name in kind._fields:
        value = getattr(node, name, None)
        if value is None or value == []:
            continue  # newer Python versions add fields, which are empty for older code
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
    """Return the modules that a string names, absolute or relative to its package."""
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
    """Return the modules that a package's `__getattr__` may import: all that its strings name."""
    if not any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body):
        return set()
    return set().union(*(_named_modules(node, package) for node in ast.walk(tree)))


@cache
def _examine(module: str) -> _Facts | None:
    path = _locate(module)
    if path is None:
        return None
    if (known := _facts_cache.get(module, path)) is not None:
        return known
    facts = _read_source(module, path)
    _facts_cache.add(module, path, facts)
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
    """Clear the in-memory caches; otherwise a process reads each module once."""
    for memo in (_package_folders, _locate, _examine):
        memo.cache_clear()


def module_fingerprint(module: str) -> str:
    """Return the hash of one module of the project, without its imports."""
    facts = _examine(module)
    _facts_cache.save()
    return facts.digest if facts else ABSENT


def module_imports(module: str) -> frozenset[str]:
    """Return the modules of the project that a module imports directly."""
    facts = _examine(module)
    return facts.imports if facts else frozenset()


def digest_sources(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Return a digest of each source file of some packages, to compare two installations.

    Comments count here: parsing every file would take seconds in each worker of a cluster.
    """
    return {
        f"{package}/{file.relative_to(folder).as_posix()}": hashlib.sha256(file.read_bytes()).hexdigest()[:32]
        for package in packages
        for folder in _package_folders(package)
        for file in sorted(folder.rglob("*.py"))
    }


def code_fingerprint(roots: Sequence[str]) -> dict[str, str]:
    """Return the hash of every project module that the given modules use, directly or through imports.

    Parameters
    ----------
    roots : sequence of str
        Dotted names, for instance `["embedding_core.graph.affinity"]`.

    Returns
    -------
    dict of module name to hash, sorted by name
        A project module that is imported but does not exist is listed as `"absent"`, so the fingerprint
        changes when it is added.

    Notes
    -----
    Modules chosen at run time by a string (the registry of methods) cannot be followed: name the chosen
    method's module among the roots. `import_module("literal")` is followed and, for a package with a lazy
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
    _facts_cache.save()
    return dict(sorted(found.items()))

"""Imports point down only: flows → tasks → storage, embedding_core; the core stays pure."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PROJECT = {"flows", "tasks", "storage", "embedding_core"}
ALLOWED = {
    "embedding_core": {"embedding_core"},
    "storage": {"storage"},
    "tasks": {"tasks", "storage", "embedding_core"},
    "flows": {"flows", "tasks", "storage", "embedding_core"},
}
CORE_MAY_USE = {
    "numpy",
    "scipy",
    "sklearn",
    "PIL",
    "numba",
    "simplejpeg",
    "threadpoolctl",
    "onnxruntime",
    "soundfile",
} | set(sys.stdlib_module_names)
HEAVY = {"prefect", "mlflow", "sklearn", "matplotlib", "numba", "onnxruntime"}


@cache
def parse(file: Path) -> ast.Module:
    """Parse a module; several tests read all of them."""
    return ast.parse(file.read_text(encoding="utf-8"))


def imported_modules(file: Path) -> Iterator[str]:
    """Yield the dotted names of all imports of a module, also those inside functions."""
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def imported_names(file: Path) -> Iterator[str]:
    """Yield the top-level packages that a module imports."""
    return (name.partition(".")[0] for name in imported_modules(file))


def modules(package: str) -> list[Path]:
    return sorted((REPOSITORY / package).rglob("*.py"))


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_down_only(package):
    for file in modules(package):
        above = set(imported_names(file)) & PROJECT - ALLOWED[package]
        assert not above, f"{file.relative_to(REPOSITORY)} imports {above}"


def test_core_uses_numeric_libraries_only():
    for file in modules("embedding_core"):
        foreign = set(imported_names(file)) - CORE_MAY_USE - {"embedding_core"}
        assert not foreign, f"{file.relative_to(REPOSITORY)} imports {foreign}"


def test_packages_of_the_core_have_no_import_cycle():
    core = REPOSITORY / "embedding_core"
    parts = {folder.name for folder in core.iterdir() if folder.is_dir()}
    uses: dict[str, set[str]] = {part: set() for part in parts}
    for file in modules("embedding_core"):
        owner = file.relative_to(core).parts[0]
        found = {name.split(".")[1] for name in imported_modules(file) if name.startswith("embedding_core.")}
        uses.get(owner, set()).update(found & parts - {owner})
    assert uses["margin"] >= {"subspace"}
    TopologicalSorter(uses).prepare()  # raises CycleError


def test_class_names_exist_once():
    places: dict[str, list[str]] = {}
    for file in (file for package in sorted(PROJECT) for file in modules(package)):
        for node in ast.walk(parse(file)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{file.relative_to(REPOSITORY)}:{node.lineno}")
    assert "KernelSpan" in places
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_other_folders_at_the_top():
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    if not tracked:
        pytest.skip("not a git checkout")
    assert {name.partition("/")[0] for name in tracked if "/" in name} <= PROJECT | {
        "tests",
        ".ci",
        ".github",
    }


@pytest.mark.parametrize(
    "module", ["flows.cli", "flows.pipeline", "flows.commands.status", "embedding_core.registry"]
)
def test_light_modules_import_nothing_heavy(module):
    code = f"import sys, {module}; print(sorted(set(sys.modules) & {HEAVY!r}))"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"

"""Imports point down only, the core stays pure, and what is imported is declared."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

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
DISTRIBUTIONS = {"PIL": "pillow", "sklearn": "scikit-learn"}
"""Distributions that are not named like the package they install."""
NOT_IMPORTED = {"fastapi", "starlette"}
"""Declared for their version range: the servers of Prefect and MLflow use them."""
HEAVY = {"prefect", "mlflow", "sklearn", "matplotlib", "numba", "onnxruntime"}


@cache
def parse(file: Path) -> ast.Module:
    """Parse a module; several tests read all of them."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imported_modules(file: Path) -> tuple[str, ...]:
    """The dotted names of all imports of a module, also those inside functions."""
    found: list[str] = []
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.append(node.module)
    return tuple(found)


def imported_names(file: Path) -> set[str]:
    """The top-level packages that a module imports."""
    return {name.partition(".")[0] for name in imported_modules(file)}


def modules(package: str) -> list[Path]:
    return sorted((REPOSITORY / package).rglob("*.py"))


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_down_only(package):
    for file in modules(package):
        above = imported_names(file) & PROJECT - ALLOWED[package]
        assert not above, f"{file.relative_to(REPOSITORY)} imports {above}"


def test_core_uses_numeric_libraries_only():
    for file in modules("embedding_core"):
        foreign = imported_names(file) - CORE_MAY_USE - {"embedding_core"}
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


def names_of(requirements: list[str]) -> set[str]:
    found = (re.match(r"[\w.-]+", requirement) for requirement in requirements)
    return {name.group().lower().replace("_", "-") for name in found if name}


class TestDependencies:
    def used(self) -> set[str]:
        ours = PROJECT | set(sys.stdlib_module_names)
        found = {name for package in PROJECT for file in modules(package) for name in imported_names(file)}
        return {DISTRIBUTIONS.get(name, name).lower() for name in found - ours}

    def test_everything_imported_is_declared(self, project: dict[str, Any]) -> None:
        extras = project["optional-dependencies"]
        own = [one for extra in ("dask", "fetch", "onnx", "sound", "video") for one in extras[extra]]
        declared = names_of(project["dependencies"] + own)
        assert self.used() - declared == set()

    def test_everything_declared_is_imported(self, project: dict[str, Any]) -> None:
        assert names_of(project["dependencies"]) - self.used() - NOT_IMPORTED == set()

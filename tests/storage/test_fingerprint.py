"""Fingerprints: what changes them and what does not, on a small project of the same package names."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage.artifacts import file_stats, fingerprint
from storage.artifacts.fingerprint import code_fingerprint, module_fingerprint
from storage.errors import StoreError

PROJECT = {
    "embedding_core/__init__.py": "",
    "embedding_core/top.py": "from .middle import halve\n\ndef run(x):\n    return halve(x)\n",
    "embedding_core/middle.py": "def halve(x):\n  from embedding_core import bottom\n  return bottom.f(x)\n",
    "embedding_core/bottom.py": 'def cut(x):\n    """Cut."""\n    # by two\n    return x / 2\n',
    "embedding_core/unrelated.py": "A = 1\n",
    "storage/__init__.py": "",
}
MODULES = ["embedding_core.bottom", "embedding_core.middle", "embedding_core.top"]
Take = Callable[..., dict[str, str]]


@pytest.fixture
def take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Take]:
    """Write files (on top of PROJECT) and give the fingerprint, found in that folder."""
    folders = {name: (tmp_path / name,) for name in fingerprint.PACKAGES}
    fingerprint.forget()
    monkeypatch.setattr(fingerprint, "_package_folders", folders.__getitem__)

    def write_and_take(files: dict[str, str] | None = None, roots: tuple[str, ...] = ("embedding_core.top",)):
        for name, text in (PROJECT | (files or {})).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        fingerprint._locate.cache_clear()
        fingerprint._examine.cache_clear()
        return code_fingerprint(roots)

    yield write_and_take
    fingerprint._locate.cache_clear()
    fingerprint._examine.cache_clear()


def test_imports_are_followed_also_inside_functions(take: Take) -> None:
    assert list(take()) == MODULES


def test_a_function_two_imports_away_counts(take: Take) -> None:
    before = take()
    after = take({"embedding_core/bottom.py": "def cut(x):\n    return x / 3\n"})
    assert {name for name in before if before[name] != after[name]} == {"embedding_core.bottom"}


@pytest.mark.parametrize(
    "files",
    [
        {"embedding_core/bottom.py": "def cut(x):\n    return x / 2\n"},
        {"embedding_core/bottom.py": '"""Doc."""\n\n\ndef cut(x):\n    "Halve."\n    return (x / 2)\n'},
        {"embedding_core/unrelated.py": "A = 2\n"},
        {"embedding_core/__init__.py": "VERSION = 3\n"},
        {"embedding_core/extra.py": "B = 1\n"},
        {"tests/test_bottom.py": "assert True\n"},
    ],
    ids=["comment", "docstring and layout", "unrelated", "package above", "new module", "test"],
)
def test_what_does_not_count(take: Take, files: dict[str, str]) -> None:
    assert take() == take(files)


@pytest.mark.parametrize(
    "change",
    ["return x / 2.0", "return 2 / x", 'return "x"', "assert x\n    return x / 2", "return x // 2"],
)
def test_every_change_of_code_counts(take: Take, change: str) -> None:
    assert take() != take({"embedding_core/bottom.py": f"def cut(x):\n    {change}\n"})


@pytest.mark.parametrize(
    "line",
    [
        "import embedding_core.unrelated",
        "import numpy, embedding_core.unrelated as u",
        "from embedding_core import unrelated",
        "from embedding_core.unrelated import A",
        "from embedding_core.unrelated import *",
        "from . import unrelated",
        "from .unrelated import A",
        "import importlib\nimportlib.import_module('embedding_core.unrelated')",
        "try:\n    from .unrelated import A\nexcept ImportError:\n    A = 0",
        "class K:\n    def f(self):\n        async def g():\n            from .unrelated import A",
    ],
)
def test_every_form_of_import_is_seen(take: Take, line: str) -> None:
    found = take({"embedding_core/bottom.py": line + "\n"})
    assert "embedding_core.unrelated" in found
    assert "embedding_core" not in found  # only names taken from the package itself bring its __init__


def test_relative_imports_of_a_subpackage(take: Take) -> None:
    files = {
        "embedding_core/sub/__init__.py": "from .inner import value\n",
        "embedding_core/sub/inner.py": "from ..unrelated import A as value\n",
        "embedding_core/bottom.py": "from embedding_core.sub import value\n",
    }
    found = take(files)
    assert {"embedding_core.sub", "embedding_core.sub.inner", "embedding_core.unrelated"} <= set(found)


def test_imports_for_the_type_checker_do_not_count(take: Take) -> None:
    text = "import typing\nif typing.TYPE_CHECKING:\n    from .unrelated import A\nelse:\n    A = 1\n"
    assert "embedding_core.unrelated" not in take({"embedding_core/bottom.py": text})


def test_a_name_from_a_lazy_package_brings_all_that_the_package_names(take: Take) -> None:
    lazy = 'NAMES = {"A": ".unrelated"}\n\ndef __getattr__(name):\n    return load(NAMES[name])\n'
    files = {"embedding_core/__init__.py": lazy, "embedding_core/bottom.py": "from embedding_core import A\n"}
    assert {"embedding_core", "embedding_core.unrelated"} <= set(take(files))


def test_cycles_end(take: Take) -> None:
    assert list(take({"embedding_core/bottom.py": "from . import top\n"})) == MODULES


def test_a_missing_module_is_listed_as_absent(take: Take) -> None:
    files = {"embedding_core/bottom.py": "import embedding_core.fast\n"}
    assert take(files)["embedding_core.fast"] == fingerprint.ABSENT
    assert take(files | {"embedding_core/fast.py": ""})["embedding_core.fast"] != fingerprint.ABSENT


@pytest.mark.parametrize("root", ["embedding_core.nothing", "numpy", "embedding_core.../etc"])
def test_an_unknown_root_is_an_error(take: Take, root: str) -> None:
    with pytest.raises(StoreError, match="No source found"):
        take(roots=(root,))


def test_a_module_that_does_not_parse_is_an_error(take: Take) -> None:
    with pytest.raises(StoreError, match=r"embedding_core\.bottom"):
        take({"embedding_core/bottom.py": "def cut(:\n"})


def test_nothing_is_imported_or_run(tmp_path: Path) -> None:
    """In a separate process: the project is on sys.path and would raise when imported."""
    for name, text in PROJECT.items():
        if not name.startswith("storage"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text + "raise SystemExit('was run')\n")
    code = """
        import sys
        from storage.artifacts.fingerprint import code_fingerprint
        found = code_fingerprint(["embedding_core.top"])
        assert list(found) == %r, found
        assert "embedding_core" not in sys.modules
    """
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code % MODULES)],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
    )


@pytest.mark.slow
def test_the_real_project_is_found() -> None:
    fingerprint.forget()
    found = code_fingerprint(["storage.artifacts.store"])
    assert {
        "storage.artifacts.store",
        "storage.artifacts.keys",
        "storage.artifacts.tables",
        "storage.errors",
    } <= set(found)
    assert fingerprint.ABSENT not in found.values()


def test_the_cache_replaces_the_source_while_that_is_unchanged(
    take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache.json"
    monkeypatch.setattr(fingerprint, "_facts_cache", fingerprint._FactsCache())
    monkeypatch.setattr(file_stats, "TICK_NS", -1)
    fingerprint.use_cache_file(cache)
    first = take()
    fingerprint.use_cache_file(cache)
    fingerprint._examine.cache_clear()
    monkeypatch.setattr(fingerprint, "_read_source", lambda module, path: pytest.fail(f"{module} was read"))
    assert code_fingerprint(["embedding_core.top"]) == first
    monkeypatch.undo()


def test_a_single_module_is_cached_too(
    take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled: None
) -> None:
    take()
    cache = tmp_path / "cache.json"
    monkeypatch.setattr(fingerprint, "_facts_cache", fingerprint._FactsCache())
    fingerprint.use_cache_file(cache)
    fingerprint._examine.cache_clear()
    first = module_fingerprint("embedding_core.top")
    fingerprint.use_cache_file(cache)
    fingerprint._examine.cache_clear()
    monkeypatch.setattr(fingerprint, "_read_source", lambda module, path: pytest.fail(f"{module} was read"))
    assert module_fingerprint("embedding_core.top") == first


@pytest.mark.parametrize("damage", ["", "{}", '{"modules": {"embedding_core.top": 1}}'])
def test_a_damaged_cache_and_changed_sources_are_read_again(
    take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(fingerprint, "_facts_cache", fingerprint._FactsCache())
    monkeypatch.setattr(file_stats, "TICK_NS", -1)
    cache = tmp_path / "cache.json"
    fingerprint.use_cache_file(cache)
    first = take()
    changed = take({"embedding_core/bottom.py": "def cut(x):\n    return x / 4\n"})
    assert changed != first
    cache.write_text(damage)
    fingerprint.use_cache_file(cache)
    assert take() == first


def test_a_cache_that_cannot_be_written_leaves_nothing(
    take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "_facts_cache", fingerprint._FactsCache())
    monkeypatch.setattr(file_stats, "TICK_NS", -1)
    write = Path.write_bytes

    def half(path: Path, data: bytes) -> int:
        write(path, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    fingerprint.use_cache_file(tmp_path / "home" / "code.json")
    assert take()
    assert list((tmp_path / "home").iterdir()) == []

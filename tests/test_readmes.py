"""The documents: worked examples run, commands parse, links lead somewhere.

A section "## Add ..." of a package's README.md shows how to add one more thing. Its fences are executed in
order, in a copy of the tree:

- ```` ```python file=PATH ```` (or any other language) creates a file.
- ```` ```diff ```` edits a file. The first line is `--- PATH`. The lines that start with a space or `-` are
  consecutive lines of the file and must occur exactly once. They are replaced by the lines that start with a
  space or `+`. There are no `@@` lines.
- ```` ```sh ```` is run by bash and must exit with 0. The commands `labelscape`, `python` and `pytest`
  are those of the copy.
- ```` ```text ```` is output and is not executed.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flows.cli import build_parser
from tests.conftest import REPOSITORY

PACKAGES = ("embedding_core", "storage", "tasks", "flows")
DOCUMENTS = sorted(
    [
        *(REPOSITORY / name for name in ("README.md", "CHANGELOG.md", ".github/CONTRIBUTING.md")),
        *(REPOSITORY / package / "README.md" for package in PACKAGES),
        REPOSITORY / "tasks" / "reproduce" / "RESULTS.md",
        REPOSITORY / "tests" / "benchmarks" / "RESULTS.md",
    ]
)
EXPECTED_SECTIONS = {
    "embedding_core: Add a method",
    "embedding_core: Add a metric",
    "embedding_core: Add an image feature extractor",
    "storage: Add a data reader",
    "tasks: Add a stage",
    "flows: Add a command",
}
"""What the packages' READMEs must show."""


@dataclass(frozen=True)
class Fence:
    """One fenced block of a Markdown document."""

    info: str
    body: str
    line: int

    @property
    def language(self) -> str:
        return self.info.partition(" ")[0]

    @property
    def file(self) -> str | None:
        """PATH of `file=PATH`."""
        found = re.search(r"\bfile=(\S+)", self.info)
        return found.group(1) if found else None


def read_fences(text: str) -> list[Fence]:
    """Read the fenced blocks of a Markdown text, in their order."""
    fences: list[Fence] = []
    opened: tuple[str, str, int] | None = None
    body: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"(`{3,})(.*)$", line)
        if opened is None and mark:
            opened, body = (mark.group(1), mark.group(2).strip(), number), []
        elif opened is not None and line.rstrip() == opened[0]:
            fences.append(Fence(opened[1], "".join(f"{one}\n" for one in body), opened[2]))
            opened = None
        elif opened is not None:
            body.append(line)
    if opened is not None:
        raise ValueError(f"the fence in line {opened[2]} is not closed")
    return fences


def add_sections(text: str) -> dict[str, list[Fence]]:
    """Find the sections "## Add ..." of a README that have fences."""
    parts = re.split(r"^## +(.+)$", text, flags=re.MULTILINE)
    sections = zip(parts[1::2], parts[2::2], strict=True)
    found = {title.strip(): read_fences(body) for title, body in sections if title.startswith("Add ")}
    return {title: fences for title, fences in found.items() if fences}


def all_sections() -> dict[str, list[Fence]]:
    """Find the worked examples of all packages, by "package: title"."""
    return {
        f"{package}: {title}": fences
        for package in PACKAGES
        for title, fences in add_sections(read(REPOSITORY / package / "README.md")).items()
    }


def read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def apply_diff(text: str, body: str) -> str:
    """Replace the block of old lines, which must occur exactly once, by the new lines."""
    lines = [line or " " for line in body.splitlines()]
    unknown = [line for line in lines if line[0] not in " +-"]
    if unknown:
        raise ValueError(f"a line of a diff starts with a space, + or -; found {unknown[0]!r}")
    old = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
    new = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
    found = f"\n{text}".count(f"\n{old}") if old else 0
    if found != 1:
        raise ValueError(f"the old lines must occur exactly once; found {found} times:\n{old}")
    return f"\n{text}".replace(f"\n{old}", f"\n{new}", 1)[1:]


def prepare(fence: Fence, tree: Path) -> str | None:
    """Create or edit the file of a fence in `tree`; the script if it is one to run."""
    if fence.file:
        target = tree / fence.file
        if target.exists():
            raise ValueError(f"{fence.file} exists already; use a diff")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(fence.body, encoding="utf-8")
    elif fence.language == "diff":
        head, _, body = fence.body.partition("\n")
        if not head.startswith("--- "):
            raise ValueError(f"a diff starts with `--- PATH`; found {head!r}")
        target = tree / head.removeprefix("--- ").strip()
        target.write_text(apply_diff(read(target), body), encoding="utf-8")
    elif fence.language == "sh":
        return fence.body
    elif fence.language != "text":
        raise ValueError(f"a fence is `LANGUAGE file=PATH`, `diff`, `sh` or `text`; found {fence.info!r}")
    return None


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the tree: the files that git tracks, and new ones that it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    copy = tmp_path / "tree"
    for name in listed.stdout.splitlines():
        if (REPOSITORY / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / name, copy / name)
    return copy


def environment(tree: Path) -> dict[str, str]:
    """Build the environment in which subprocesses import the copy and find its commands."""
    entry = tomllib.loads(read(tree / "pyproject.toml"))["project"]["scripts"]["labelscape"]
    module, function = entry.split(":")
    commands = {
        "labelscape": f"-c 'import sys; from {module} import {function}; sys.exit({function}())'",
        "pytest": "-m pytest",
        "python": "",
    }
    folder = tree.parent / "bin"
    folder.mkdir(exist_ok=True)
    for name, arguments in commands.items():
        script = folder / name
        script.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n', encoding="utf-8"
        )
        script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    return kept | {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(tree),
        "PYTEST_ADDOPTS": "-n 0 -p no:cacheprovider",
        "LABELSCAPE_HOME": str(tree.parent / "home"),
    }


def run_script(script: str, tree: Path) -> None:
    """Run the lines of a fence in the copy; a failure shows what they printed."""
    command = ["bash", "-e", "-u", "-o", "pipefail", "-c", script]
    done = subprocess.run(
        command, cwd=tree, env=environment(tree), capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{script}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"


SECTIONS = all_sections()


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_the_edits_of_a_worked_example_apply(name: str, tree: Path) -> None:
    for fence in SECTIONS[name]:
        prepare(fence, tree)
        if fence.file and fence.file.endswith(".py"):
            compile(fence.body, fence.file, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_a_worked_example_runs(name: str, tree: Path) -> None:
    scripts = [script for fence in SECTIONS[name] if (script := prepare(fence, tree)) is not None]
    assert scripts, "a worked example ends with a command that shows its effect"
    for script in scripts:
        run_script(script, tree)


def test_the_worked_examples_are_the_expected_ones() -> None:
    assert set(SECTIONS) == EXPECTED_SECTIONS


class TestHarness:
    """The harness itself, on a README made up for it."""

    TEXT = "\n".join(
        [
            "# A package",
            "## What lives here",
            "```sh",
            "exit 3",
            "```",
            "## Add a greeting",
            "````python file=flows/greeting.py",
            'TEXT = "hello from the copy"',
            "````",
            "```diff",
            "--- flows/__init__.py",
            "+# edited",
            '-"""Flows."""',
            "```",
            "```sh",
            "python -c 'import flows.greeting as made; print(made.__file__)' > where.txt",
            "labelscape --version > version.txt",
            "```",
            "## Add nothing",
        ]
    )

    def test_only_sections_with_fences_are_collected(self) -> None:
        (fences,) = add_sections(self.TEXT).values()
        assert [fence.language for fence in fences] == ["python", "diff", "sh"]
        assert fences[0].file == "flows/greeting.py"

    @pytest.mark.slow
    def test_files_edits_and_commands_reach_the_copy_only(self, tree: Path) -> None:
        (tree / "flows" / "__init__.py").write_text('"""Flows."""\n__version__ = "7.7"\n', encoding="utf-8")
        for fence in add_sections(self.TEXT)["Add a greeting"]:
            script = prepare(fence, tree)
            if script:
                run_script(script, tree)
        assert read(tree / "flows" / "__init__.py") == '# edited\n__version__ = "7.7"\n'
        assert read(tree / "where.txt").strip() == str(tree / "flows" / "greeting.py")
        assert read(tree / "version.txt") == "labelscape 7.7\n"
        assert not (REPOSITORY / "flows" / "greeting.py").exists()

    def test_a_command_that_fails_is_shown(self, tree: Path) -> None:
        with pytest.raises(AssertionError, match=r"exit code 4[\s\S]*a reason"):
            run_script("echo a reason\nexit 4\necho unreached", tree)

    @pytest.mark.parametrize(
        ("old", "message"),
        [
            ("-missing", "found 0 times"),
            ("-twice", "found 2 times"),
            ("?", "starts with a space"),
            ("+x", "0 times"),
        ],
    )
    def test_an_edit_that_does_not_fit_is_refused(self, old: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            apply_diff("twice\nonce\ntwice\n", old)

    def test_an_edit_keeps_context_and_order(self) -> None:
        assert apply_diff("a\nb\nc\n", " a\n-b\n+B\n+more\n c\n") == "a\nB\nmore\nc\n"

    def test_a_file_is_not_overwritten(self, tree: Path) -> None:
        with pytest.raises(ValueError, match=r"README\.md exists already"):
            prepare(Fence("text file=README.md", "gone\n", 1), tree)

    def test_a_fence_of_another_kind_is_refused(self, tree: Path) -> None:
        with pytest.raises(ValueError, match="found 'python'"):
            prepare(Fence("python", "x = 1\n", 1), tree)

    def test_an_open_fence_is_refused(self) -> None:
        with pytest.raises(ValueError, match="line 2 is not closed"):
            read_fences("text\n```sh\nls\n")


def command_lines(text: str) -> Iterator[str]:
    """Find the `labelscape ...` commands in fences, also after `$` and `&&`, without comments."""
    for fence in read_fences(text):
        for line in fence.body.splitlines() if fence.language in ("sh", "text") else ():
            for part in re.split(r"&&|\|(?=\s)", line.removeprefix("$ ")):
                if part.strip().startswith("labelscape ") and (
                    fence.language == "sh" or line.startswith("$ ")
                ):
                    yield part.strip()


def written_commands() -> list[tuple[str, str]]:
    return [
        (str(file.relative_to(REPOSITORY)), command)
        for file in DOCUMENTS
        for command in command_lines(read(file))
    ]


@pytest.mark.parametrize(("document", "command"), written_commands())
def test_a_command_in_a_document_is_accepted(document: str, command: str) -> None:
    words = shlex.split(command.split(" > ")[0], comments=True)[1:]
    try:
        build_parser(words[0]).parse_args(words)
    except SystemExit as refusal:
        pytest.fail(f"{document}: `{command}` is refused with exit code {refusal.code}")


def test_the_commands_of_the_readme_are_found() -> None:
    found = {command.split()[1] for document, command in written_commands() if document == "README.md"}
    assert found >= {"run", "auto", "annotate", "status", "serve", "compare", "config"}


def python_snippets() -> list[tuple[str, Fence]]:
    return [
        (str(file.relative_to(REPOSITORY)), fence)
        for file in DOCUMENTS
        for fence in read_fences(read(file))
        if fence.info == "python"
    ]


@pytest.mark.parametrize(("document", "fence"), python_snippets())
def test_python_in_a_document_runs(document: str, fence: Fence) -> None:
    exec(compile(fence.body, f"{document}:{fence.line}", "exec"), {"__name__": "snippet"})


def anchors(text: str) -> set[str]:
    """Find the anchors of the headings of a document, as GitHub makes them."""
    titles = re.findall(r"^#+ +(.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_links_lead_to_files_and_headings(file: Path) -> None:
    text = re.sub(r"^(`{3,}).*?^\1$", "", read(file), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (file.parent / path).resolve() if path else file
        assert found.exists(), f"{file.name} links to {target}"
        assert not anchor or anchor in anchors(read(found)), f"{file.name} links to {target}"

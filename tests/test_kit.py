"""The project's own files agree with each other: version, dependencies, Python versions, hooks."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows import __version__
from tests.conftest import REPOSITORY
from tests.test_layers import PROJECT, modules, names_of


def read_text(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def read_yaml(name: str) -> Any:
    return yaml.safe_load(read_text(name))


class TestVersion:
    def test_it_is_written_once(self, project: dict[str, Any]) -> None:
        assert "version" not in project
        assert project["dynamic"] == ["version"]
        assert version("labelscape") == __version__

    def test_documents_name_it(self) -> None:
        assert str(read_yaml("CITATION.cff")["version"]) == __version__
        assert re.search(rf"^## {re.escape(__version__)}\b", read_text("CHANGELOG.md"), flags=re.MULTILINE)

    def test_the_command_prints_it(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "flows.cli", "--version"],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"labelscape {__version__}\n"


def test_workflow_and_classifiers_name_the_same_python_versions(project: dict[str, Any]) -> None:
    workflow = read_yaml(".github/workflows/ci.yml")
    (job,) = workflow["jobs"].values()
    listed = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert job["strategy"]["matrix"]["python"] == listed
    assert f">={listed[0]}" == project["requires-python"]
    assert job["steps"][-1] == {"run": ".ci/run"}


def test_hooks_are_local_and_start_tools_of_the_dev_extra(project: dict[str, Any]) -> None:
    (local,) = read_yaml(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    tools = {hook["entry"].split()[0] for hook in local["hooks"]}
    assert tools <= names_of(project["optional-dependencies"]["dev"])
    assert {hook["language"] for hook in local["hooks"]} == {"system"}


def test_templates_are_forms() -> None:
    forms = sorted((REPOSITORY / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    bodies = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")).get("body") for file in forms}
    assert {name for name, body in bodies.items() if body} == {"bug", "idea", "data_set_or_paper"}


def test_no_address_of_a_package_index_is_committed() -> None:
    if shutil.which("git") is None or not (REPOSITORY / ".git").exists():
        pytest.skip("not a git checkout")
    pattern = "index-url|find-links|/simple/" + "?$"
    command = ["git", "grep", "-lIE", pattern, "--", ".", f":!{Path(__file__).relative_to(REPOSITORY)}"]
    found = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (1, "")


def test_headers_of_docstrings_stand_on_lines_of_their_own() -> None:
    """Reflowing a docstring must not join a line of dashes with the text below it."""
    joined = re.compile(r"^ *-{3,} +\S", flags=re.MULTILINE)
    files = [file for package in sorted(PROJECT) for file in modules(package)]
    assert [str(file) for file in files if joined.search(file.read_text(encoding="utf-8"))] == []

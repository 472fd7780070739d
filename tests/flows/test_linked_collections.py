"""`auto` on a collection with links: candidates that use them are offered, and their worth is stated."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Command
from tests.embedding_core.test_kernel_dle_links import linked, shuffled

pytestmark = pytest.mark.slow
QUICK = ("--set", "evaluation.folds=3", "--set", "tracking.enabled=false", "--home", "home")
NAMES = "logistic_regression,smoothed_logistic_regression,harmonic_functions,kernel_dle_links"


def write(folder: Path, shuffle: bool = False, words: float = 0.0) -> None:
    X, y, A = linked(240, seed=1)
    X[:, :3] = (y[:, None] == np.arange(3)) * (np.random.default_rng(0).random((240, 3)) < words)
    head = ",".join(f"f{k}" for k in range(X.shape[1]))
    rows = [f"n{k},{','.join(map(str, row))},{'abc'[y[k]]}" for k, row in enumerate(X.astype(int))]
    (folder / "t.csv").write_text(f"id,{head},class\n" + "\n".join(rows) + "\n")
    i, j = np.triu(shuffled(A) if shuffle else A).nonzero()
    lines = [f"n{a},n{b}" for a, b in zip(i, j, strict=True)]
    (folder / "links.csv").write_text("source,target\n" + "\n".join([*lines, "n0,elsewhere"]) + "\n")


def test_links_are_used_and_their_worth_is_stated(command: Command, tmp_path: Path) -> None:
    write(tmp_path)
    done = command("auto", "t.csv", "--set", "source.edges=links.csv", *QUICK, "--candidates", NAMES)
    assert done.code == 0, done.err
    (line,) = [one for one in done.out.splitlines() if one.startswith("links ")]
    assert float(line.split()[1]) > 0.1
    assert "Logistic regression, tuned, the best that ignores links" in line
    assert "links.csv: 1 of " in done.err and "elsewhere" in done.err
    chosen = json.loads(
        command(
            "auto", "t.csv", "--set", "source.edges=links.csv", *QUICK, "--candidates", NAMES, "--json"
        ).out
    )
    assert chosen["winner"] != "logistic_regression"
    assert chosen["links"]["gains"]["macro_f1"] > 0.1


def test_they_are_offered_without_being_named(command: Command, tmp_path: Path) -> None:
    write(tmp_path)
    found = json.loads(command("auto", "t.csv", "--set", "source.edges=links.csv", *QUICK, "--json").out)
    names = {one["name"] for one in found["candidates"]}
    assert set(NAMES.split(",")) | {"local_global_consistency"} <= names
    plain = json.loads(command("auto", "t.csv", *QUICK, "--json").out)
    assert not {"kernel_dle_links", "harmonic_functions"} & {one["name"] for one in plain["candidates"]}
    assert plain["links"] is None


def test_shuffled_links_are_worth_nothing(command: Command, tmp_path: Path) -> None:
    write(tmp_path, shuffle=True, words=0.9)
    names = "logistic_regression,kernel_dle,kernel_dle_links"
    done = command(
        "auto", "t.csv", "--set", "source.edges=links.csv", *QUICK, "--candidates", names, "--json"
    )
    assert json.loads(done.out)["links"]["gains"]["macro_f1"] < 0.01

"""Tables, embeddings and arrays as people have them: `run` to the end, then `annotate` for new items."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_iris, load_wine

from storage.errors import ConfigError, SourceError
from tasks.stages.embedding import load_model_payload
from tasks.stages.evaluation import load_scores
from tests.conftest import UNTRACKED, Command, LocalRun, run_locally, write_pictures
from tests.flows.test_cli_annotate import FakeTracker

FAST = ("embedding.methods=mlda", "evaluation.baselines=['1nn']")
N = 60
KINDS = np.array(["cat", "dog", "car"])[np.arange(N) % 3]


def vectors(seed: int = 0, width: int = 6) -> np.ndarray:
    """Embeddings that show the kinds."""
    return np.random.default_rng(seed).normal(size=(N, width)) + 4 * (np.arange(N) % 3)[:, None]


def passengers(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    survived = np.arange(n) % 2
    return pd.DataFrame(
        {
            "PassengerId": np.arange(1, n + 1),
            "Survived": survived,
            "Name": [f"Mr. {k}" for k in range(n)],
            "Sex": np.where(np.arange(n) % 4, "male", "female"),
            "Age": np.where(np.arange(n) % 10, 30 + 20 * survived + rng.normal(size=n), np.nan),
            "Fare": rng.gamma(2, 10, size=n),
        }
    )


def make_iris(folder: Path) -> Path:
    load_iris(as_frame=True).frame.to_csv(folder / "iris.csv")
    return folder / "iris.csv"


def make_wine(folder: Path) -> Path:
    load_wine(as_frame=True).frame.to_feather(folder / "wine.feather")
    return folder / "wine.feather"


def make_passengers(folder: Path) -> Path:
    passengers().to_csv(folder / "titanic.tsv", index=False, sep="\t")
    return folder / "titanic.tsv"


def make_clip(folder: Path) -> Path:
    frame = pd.DataFrame(
        {"image_id": [f"i{k}" for k in range(N)], "embedding": list(vectors()), "label": KINDS}
    )
    frame.to_parquet(folder / "clip.parquet")
    return folder / "clip.parquet"


def make_blocks(folder: Path) -> Path:
    tags = [[kind, "photo"] if k % 2 else [kind] for k, kind in enumerate(KINDS)]
    frame = pd.DataFrame({"clip": list(vectors()), "dino": list(vectors(1, 3)), "tags": tags})
    frame.to_feather(folder / "blocks.feather")
    return folder / "blocks.feather"


def make_array(folder: Path) -> Path:
    np.save(folder / "X.npy", vectors())
    pd.DataFrame({"species": KINDS}).to_csv(folder / "labels.csv", index=False)
    return folder


def make_archive(folder: Path) -> Path:
    np.savez(folder / "all.npz", clip=vectors(), dino=vectors(1, 3), y=KINDS)
    return folder / "all.npz"


SOURCES: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "iris.csv with target and row numbers": (make_iris, ()),
    "wine.feather": (make_wine, ()),
    "passengers": (
        make_passengers,
        ("source.labels=Survived", "features.fill=median", "source.categorical=onehot"),
    ),
    "clip.parquet": (make_clip, ()),
    "two embeddings and tags": (make_blocks, ()),
    "X.npy and labels.csv": (make_array, ()),
    "archive of two blocks": (make_archive, ("features.scale=zscore",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.usefixtures("without_engine")
def test_a_run_to_the_end(command: Command, tmp_path: Path, name: str) -> None:
    make, settings = SOURCES[name]
    (tmp_path / "data").mkdir()
    path = make(tmp_path / "data")
    given = [word for one in (*FAST, "evaluation.folds=3", *settings) for word in ("--set", one)]
    done = command("run", path, *given, *UNTRACKED, "--home", tmp_path / "home", "--json")
    assert done.code == 0, done.err
    mlda = json.loads(done.out)["methods"]["mlda"]
    assert mlda["metrics"]["macro_f1"]["mean"] > 0.6


def fitted(run: LocalRun) -> FakeTracker:
    ref = run.products.refs["embedding"]["mlda"]
    assert ref
    return FakeTracker(load_model_payload(ref, run.workspace.store))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[LocalRun], None]:
    def use(run: LocalRun) -> None:
        monkeypatch.setattr("flows.commands.annotate.open_tracker", lambda uri: fitted(run))

    return use


def labels() -> list[str]:
    return pq.read_table("annotations.parquet").column("labels").to_pylist()


@pytest.mark.slow
def test_gaps_are_refused_again_without_the_setting_that_fills_them(tmp_path: Path) -> None:
    rows = [None if k == 7 else row for k, row in enumerate(vectors())]
    frame = pd.DataFrame({"clip": rows, "dino": list(vectors(1, 3)), "label": KINDS})
    frame.to_parquet(tmp_path / "t.parquet")
    run_locally(tmp_path / "t.parquet", tmp_path / "home", *FAST, "features.fill=mean")
    with pytest.raises(SourceError, match=r"1 of 60 vectors have no vector: rows 8.*features\.fill"):
        run_locally(tmp_path / "t.parquet", tmp_path / "home", *FAST)


@pytest.mark.slow
def test_new_rows_of_a_mixed_table_are_encoded_as_in_training(
    command: Command, tmp_path: Path, use: Callable[[LocalRun], None]
) -> None:
    settings = SOURCES["passengers"][1]
    use(run_locally(make_passengers(tmp_path), tmp_path / "home", *FAST, *settings))
    new = (
        passengers(20)
        .drop(columns="Survived")
        .assign(Fare=3.0, Deck="A")[["Fare", "Sex", "Age", "Deck", "Name"]]
    )
    new.loc[2, "Sex"] = "unknown"
    new.to_parquet(tmp_path / "new.parquet")
    done = command("annotate", "new.parquet", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["items"] == 20
    assert np.mean([label == str(k % 2) for k, label in enumerate(labels()) if k % 10]) > 0.8
    new.drop(columns="Age").to_parquet(tmp_path / "new.parquet")
    done = command("annotate", "new.parquet")
    assert done.code == 2
    assert "lacks 1 of the 4 features of the model: Age" in done.err


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["given:clip", "given:dino"])
def test_a_model_of_one_of_several_embeddings_annotates(
    command: Command, tmp_path: Path, use: Callable[[LocalRun], None], chosen: str
) -> None:
    source = make_blocks(tmp_path)
    use(run_locally(source, tmp_path / "home", *FAST, f"features.extractors={chosen}"))
    done = command("annotate", source.name, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["items"] == N


@pytest.mark.slow
def test_filling_a_table_without_gaps_changes_no_score(tmp_path: Path) -> None:
    scores = []
    for fill in ("none", "mean"):
        settings = ("embedding.methods=lapsvm", "evaluation.baselines=['1nn']", f"features.fill={fill}")
        run = run_locally(make_iris(tmp_path), tmp_path / fill, *settings, "evaluation.folds=2")
        ref = run.outcomes["evaluation[lapsvm]"].ref
        scores.append(load_scores(run.workspace.store, ref))
    assert scores[0] == scores[1]


def test_a_table_of_features_serves_items_without_text(tmp_path: Path) -> None:
    ids = [f"d{k}" for k in range(30)]
    texts = ["" if k == 3 else f"word{k % 3} other{k}" for k in range(30)]
    pd.DataFrame({"id": ids, "text": texts, "class": KINDS[:30]}).to_csv(tmp_path / "t.csv", index=False)
    frame = pd.DataFrame(vectors()[:30], columns=[f"x{k}" for k in range(6)])
    frame.assign(id=ids).to_csv(tmp_path / "emb.csv", index=False)
    chosen = f"features.extractors=table:{tmp_path / 'emb.csv'}"
    assert run_locally(tmp_path / "t.csv", tmp_path / "home", *FAST, chosen)


@pytest.mark.slow
def test_a_model_of_one_embedding_reads_its_column_only(
    command: Command, tmp_path: Path, use: Callable[[LocalRun], None]
) -> None:
    use(run_locally(make_clip(tmp_path), tmp_path / "home", *FAST))
    frame = pd.DataFrame({"other": list(vectors(5, 2)), "embedding": list(vectors(7)), "name": "x"})
    frame.to_feather(tmp_path / "new.feather")
    done = command("annotate", "new.feather")
    assert done.code == 0, done.err
    assert labels() == KINDS.tolist()
    frame.drop(columns="embedding").to_feather(tmp_path / "new.feather")
    done = command("annotate", "new.feather")
    assert done.code == 2
    assert "2 features; the model was trained on 6" in done.err or "lacks 6 of the 6 features" in done.err


class TestTableBlock:
    """`table:PATH` beside another extractor."""

    @pytest.fixture
    def pictures(self, tmp_path: Path) -> Path:
        return write_pictures(tmp_path / "pictures", 30)

    @staticmethod
    def table(pictures: Path, path: Path, **columns: object) -> Path:
        names = sorted(one.stem for one in pictures.glob("*.png"))
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(
            {"filename": names, "embedding": list(rng.normal(size=(len(names), 4))), **columns}
        )
        frame.to_parquet(path)
        return path

    @staticmethod
    def settings(path: Path, *more: str) -> tuple[str, ...]:
        return (*FAST, f"features.extractors=['color_moments', 'table:{path}']", *more)

    @pytest.mark.slow
    def test_only_the_table_is_read_again_when_it_changes(self, tmp_path: Path, pictures: Path) -> None:
        path = self.table(pictures, tmp_path / "e.parquet")
        first = run_locally(pictures, tmp_path / "home", *self.settings(path))
        assert {"features[color_moments]", "features[table:e.parquet]", "features"} <= first.computed
        assert not run_locally(pictures, tmp_path / "home", *self.settings(path)).computed
        self.table(pictures, path, more=np.random.default_rng(1).normal(size=(30, 2)).tolist())
        again = run_locally(pictures, tmp_path / "home", *self.settings(path))
        assert "features[table:e.parquet]" in again.computed
        assert "features[color_moments]" not in again.computed
        assert "ingest" not in again.computed

    def test_status_and_the_line_on_joining(
        self, command: Command, tmp_path: Path, pictures: Path, without_engine: None
    ) -> None:
        path = self.table(pictures, tmp_path / "e.parquet")
        given = [word for one in self.settings(path) for word in ("--set", one)]
        words = (pictures, *given, *UNTRACKED, "--home", tmp_path / "home")
        done = command("run", *words, "--until", "features")
        assert done.code == 0, done.err
        assert (
            "table:e.parquet: 30 of 30 items joined by file name without ending (column 'filename')"
            in done.err
        )
        self.table(pictures, path, x=1.5)
        done = command("status", *words)
        lines = {line.split()[0]: line for line in done.out.splitlines()}
        assert "files of the extractor changed: e.parquet" in lines["features[table:e.parquet]"]
        assert "fresh" in lines["features[color_moments]"]

    @pytest.mark.slow
    def test_items_without_a_row_are_an_error_or_filled(self, tmp_path: Path, pictures: Path) -> None:
        path = self.table(pictures, tmp_path / "e.parquet")
        frame = pd.read_parquet(path)
        frame.iloc[7:].to_parquet(path)
        with pytest.raises(
            SourceError, match=r"no row for 7 of 30 items: p00\.png, .*p04\.png, \.\.\..*features\.fill"
        ):
            run_locally(pictures, tmp_path / "home", *self.settings(path))
        run = run_locally(pictures, tmp_path / "home", *self.settings(path, "features.fill=mean"))
        assert "features[table:e.parquet]" in run.computed
        with pytest.raises(SourceError, match="no row for 7"):
            run_locally(pictures, tmp_path / "home", *self.settings(path))

    @pytest.mark.slow
    def test_annotate_with_the_same_and_with_another_table(
        self, command: Command, tmp_path: Path, pictures: Path, use: Callable[[LocalRun], None]
    ) -> None:
        path = self.table(pictures, tmp_path / "e.parquet")
        use(run_locally(pictures, tmp_path / "home", *self.settings(path)))
        assert command("annotate", pictures).code == 0
        new = write_pictures(tmp_path / "new", 4)
        for file in new.glob("*.png"):
            file.rename(file.with_name(f"new-{file.name}"))
        done = command("annotate", new)
        assert done.code == 2
        assert "none of its 30 ids is the id of an item" in done.err
        other = self.table(new, tmp_path / "other.parquet", constant=1.0)
        done = command("annotate", new, "--table", other, "--json")
        assert done.code == 0, done.err
        assert json.loads(done.out)["items"] == 4
        done = command("annotate", new, "--table", other, "--table", other)
        assert "--table is given 2 times; the model uses 1 tables" in done.err
        path.unlink()
        done = command("annotate", new)
        assert done.code == 2
        assert "--table PATH" in done.err

    @pytest.mark.parametrize(
        ("frame", "message"),
        [
            ({"word": ["a", "b"], "x": [1.0, 2.0]}, r"no ids to join by.*`id`; they look like 'p00\.png'"),
            (
                {"id": ["p00", "p00"], "x": [1.0, 2.0]},
                r"'p00' is also that of row 1\. Make ids unique\.$",
            ),
            ({"id": ["q", "r"], "x": [1.0, 2.0]}, "none of its 2 ids is the id of an item"),
            ({"id": ["p00", "p01"], "x": ["u", "v"]}, "no feature columns"),
        ],
    )
    def test_a_table_that_does_not_fit_is_named(
        self, tmp_path: Path, pictures: Path, frame: dict[str, list], message: str
    ) -> None:
        pd.DataFrame(frame).to_csv(tmp_path / "e.csv", index=False)
        with pytest.raises(SourceError, match=message):
            run_locally(pictures, tmp_path / "home", *self.settings(tmp_path / "e.csv"))

    def test_a_table_that_is_not_there(self, tmp_path: Path, pictures: Path) -> None:
        with pytest.raises(SourceError, match=r"gone\.csv: the table cannot be read.*features\.extractors"):
            run_locally(pictures, tmp_path / "home", *self.settings(tmp_path / "gone.csv"))
        with pytest.raises(ConfigError, match="table:PATH"):
            run_locally(pictures, tmp_path / "home", "features.extractors=['table:']")

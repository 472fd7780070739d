"""The configuration: where values come from, what is rejected, and what is shown."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from embedding_core.registry import METHODS
from flows.config import RunConfig, as_override, find_home, load_config, place_from
from flows.config_text import show_config
from flows.run_settings import check_config, check_places, chosen_methods, compared_methods, method_params
from storage.errors import ConfigError


def toml(folder: Path, text: str) -> Path:
    file = folder / "c.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_defaults_are_a_run_of_the_demo() -> None:
    config = load_config(None)
    assert config == RunConfig()
    assert config.source.path == "demo"
    assert config.embedding.methods == ("mlda", "multilabel_dle")
    check_config(config)


def test_overrides_win_over_the_file_and_arguments_over_both(tmp_path: Path) -> None:
    file = toml(
        tmp_path, 'executor = "serial"\n[evaluation]\nfolds = 3\nseed = 3\n[affinity]\nn_neighbors = 3\n'
    )
    config = load_config(
        file,
        ["evaluation.folds=4", "affinity.n_neighbors=4"],
        affinity={"n_neighbors": 5, "weights": None},
        executor=None,
    )
    assert (config.executor, config.evaluation.seed, config.evaluation.folds) == ("serial", 3, 4)
    assert (config.affinity.n_neighbors, config.affinity.weights) == (5, "gaussian")


def test_a_method_replaces_methods(tmp_path: Path) -> None:
    file = toml(tmp_path, '[embedding]\nmethods = ["mlda", "dle"]\n')
    assert load_config(file, ["embedding.method=svm"]).embedding.methods == ("svm",)
    with pytest.raises(ConfigError, match=r"embedding\.method: unknown key, did you mean methods\?"):
        load_config(toml(tmp_path, '[embedding]\nmethods = ["mlda"]\nmethod = "dle"\n'))


class TestPaths:
    def test_in_a_file_are_relative_to_its_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "l.csv").write_text("")
        monkeypatch.chdir(tmp_path)
        text = '[source]\npath = "pictures"\nlabels = "l.csv"\nedges = "../e.csv"\n'
        source = load_config(toml(Path("there"), text)).source
        assert Path(source.path) == tmp_path / "there" / "pictures"
        assert Path(str(source.labels)) == tmp_path / "there" / "l.csv"
        assert Path(str(source.edges)).resolve() == tmp_path / "e.csv"

    def test_in_an_override_are_relative_to_the_current_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for name in ("l.csv", "beside.csv", "pictures/beside.csv"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()
        given = ["source.path=pictures", "source.edges=e.csv"]
        source = load_config(None, [*given, "source.labels=l.csv"]).source
        assert source.path == str(tmp_path / "pictures")
        assert source.labels == str(tmp_path / "l.csv")
        assert source.edges == str(tmp_path / "e.csv")
        for name in ("genre", "beside.csv"):  # a column; a file beside the data wins over one here
            assert load_config(None, [*given, f"source.labels={name}"]).source.labels == name
        assert load_config(None, ["source.path=iris"]).source.path == "iris"

    def test_labels_may_name_a_column(self, tmp_path: Path) -> None:
        assert load_config(toml(tmp_path, '[source]\nlabels = "genre"\n')).source.labels == "genre"

    @pytest.mark.parametrize("name", ["demo", "iris"])
    def test_a_built_in_set_is_not_a_path(self, tmp_path: Path, name: str) -> None:
        assert load_config(toml(tmp_path, f'[source]\npath = "{name}"\n')).source.path == name

    def test_a_tilde_is_the_users_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/me")
        assert place_from(tmp_path, "~/x") == "/home/me/x"
        assert place_from(tmp_path, "/abs") == "/abs"
        assert place_from(tmp_path, "x") == str(tmp_path / "x")
        assert place_from(tmp_path, "") == ""

    def test_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("LABELSCAPE_HOME", raising=False)
        assert find_home(RunConfig()) == tmp_path / ".labelscape"
        monkeypatch.setenv("LABELSCAPE_HOME", "env")
        assert find_home(RunConfig()) == tmp_path / "env"
        assert find_home(RunConfig(home="given")) == tmp_path / "given"

    def test_the_source_may_not_be_the_home(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="both the source and the home"):
            check_places(load_config(None, home=str(tmp_path), source={"path": str(tmp_path / ".")}))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["afinity.x=1"], r"afinity: unknown key, did you mean affinity\?"),
        (["evaluation.fold=3"], r"evaluation\.fold: unknown key, did you mean folds\?"),
        (["report.qqqqq=3"], r"report\.qqqqq: unknown key; known: thumbnails"),
        (["evaluation.folds=1"], r"evaluation\.folds: .*greater than or equal to 2 \(got 1\)"),
        (["evaluation.folds=many"], r"evaluation\.folds: .*integer.* \(got 'many'\)"),
        (["features.color_moments.grid=[8]"], r"features\.color_moments\.grid\.1: Field required"),
        (["features.color_moments.grid=[8, 257]"], r"features\.color_moments: grid=\(8, 257\) .* 1 to 256"),
        (
            ["features.color_moments.moments=[]"],
            r"features\.color_moments: moments=\(\): give one or more of mean",
        ),
        (["features.extractors=sift"], r"features\.extractors: .*'sift'.*color_moments"),
        (["features.extractors=color_moments,color_moments"], r"features\.extractors: .*twice"),
        (["features.extractors=auto,color_moments"], r"features\.extractors: .*auto stands alone"),
        (["features.weights={color_moments=-1.0}"], r"features\.weights: .*must be positive"),
        (["embedding.methods=[]"], r"embedding\.methods: .*at least 1 item"),
        (["affinity.sigma=0"], r"affinity\.sigma: sigma=0\.0: must be positive"),
        (["affinity.sigma=nan"], r"affinity\.sigma.*finite"),
        (["embedding.params.svm.C=nan"], r"svm\.C=nan: must be a finite number"),
        (["embedding.params.svm=3"], r"embedding\.params\.svm: .*dictionary"),
        (["source.label_separator=::"], r"source\.label_separator: .*at most 1 character"),
        (["evaluation=3"], r"evaluation: expected a table of settings, \[evaluation\] \(got 3\)"),
        (["=3"], r"--set '=3': expected KEY=VALUE"),
        (["folds"], r"--set 'folds': expected KEY=VALUE"),
        (["name=x", "name.y=1"], r"--set name\.y: name is a value, not a table"),
        (["zzz=1", "executor=threads:0"], r"(?s)executor: .*zzz: unknown key.*config --show"),
    ],
)
def test_errors_name_the_key(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(None, overrides)


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"c\.toml is not valid"):
        load_config(toml(tmp_path, "zzz = 1\n"))
    with pytest.raises(ConfigError, match=r"c\.toml: is not valid TOML \(.*line 2"):
        load_config(toml(tmp_path, "a = 1\nb = \n"))
    (tmp_path / "c.toml").write_bytes(b'name = "caf\xe9"\n')
    with pytest.raises(ConfigError, match=r"c\.toml: is not valid TOML"):
        load_config(tmp_path / "c.toml")
    with pytest.raises(ConfigError, match=r"gone\.toml: cannot be read \(No such file"):
        load_config(tmp_path / "gone.toml")


def test_a_given_table_does_not_hide_an_invalid_one() -> None:
    with pytest.raises(ConfigError, match=r"source: expected a table of settings.*\(got 3\)"):
        load_config(None, ["source=3"], source={"path": "iris"})


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
values = st.one_of(
    st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), texts
)
names = st.from_regex(r"[a-z0-9_-]{1,8}", fullmatch=True)
tables = st.dictionaries(names, st.one_of(values, st.lists(values, max_size=3)), max_size=3)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    name=texts.filter(bool),
    drop=st.lists(texts, max_size=3),
    params=st.dictionaries(names, tables, max_size=2),
)
def test_every_configuration_is_shown_as_toml_that_reads_back(
    name: str, drop: list[str], params: dict[str, dict[str, object]]
) -> None:
    config = RunConfig.model_validate(
        {"name": name, "source": {"drop_labels": drop}, "embedding": {"params": params}}
    )
    assert RunConfig.model_validate(tomllib.loads(show_config(config))) == config


def settings_models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A settings model and all models inside it."""
    yield model
    for field in model.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from settings_models(field.annotation)


MODELS = list(settings_models(RunConfig))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_setting_has_a_description(model: type[BaseModel]) -> None:
    assert model.__doc__
    tables = [name for name, field in model.model_fields.items() if field.annotation in MODELS]
    missing = [name for name, field in model.model_fields.items() if not field.description]
    assert [name for name in missing if name not in tables] == []


def test_the_shown_defaults_read_back_as_the_defaults(tmp_path: Path) -> None:
    assert load_config(toml(tmp_path, show_config(RunConfig()))) == RunConfig()


def test_every_key_is_shown_with_description_allowed_values_and_default() -> None:
    text = show_config(load_config(None, ["affinity.n_neighbors=4"]))
    assert "#   integer, at least 1; default: 10\nn_neighbors = 4\n" in text
    assert '#   "auto", "knn", "gaussian" or "given"; default: "auto"\ngraph = "auto"\n' in text
    assert "#   number above 0; default: 2.0\nmemory_budget_gb = 2.0\n" in text
    assert "#   integer from 0 to 200; default: 24\nthumbnails = 24\n" in text
    assert '#   "auto" or number; default: "auto"\nsigma = "auto"\n' in text
    assert "#   integer, at least 1, optional\n# n_components =\n" in text
    assert '"ranking_loss"; default: "macro_f1"\nsort_by = "macro_f1"\n' in text
    for model in MODELS:
        for name, field in model.model_fields.items():
            assert field.annotation in MODELS or re.search(rf"^(# )?{name} =|^\[\S+{name}\]", text, re.M)
    assert max(map(len, text.splitlines())) <= 80


def test_each_baseline_is_compared_once() -> None:
    config = load_config(None, ["embedding.methods=svm, mlda", "evaluation.baselines=['1nn', 'svm']"])
    assert compared_methods(config, chosen_methods(config, True)) == ["svm", "mlda", "1nn"]


@pytest.mark.parametrize("single_label", [True, False, None])
def test_all_means_every_method_that_accepts_the_labels(single_label: bool | None) -> None:
    config = load_config(None, ["embedding.methods=svm, all"])
    check_config(config)
    chosen = chosen_methods(config, single_label)
    assert chosen[0] == "svm"
    assert len(chosen) == len(set(chosen))
    wanted = {
        name
        for name, method in METHODS.items()
        if (method.single_label or single_label is False) and (method.multi_label or single_label is True)
    }
    assert set(chosen) == wanted
    assert ("dle" in chosen) == (single_label is True)


def test_own_parameters_win_over_shared_ones() -> None:
    config = load_config(None, ["embedding.n_components=3", "embedding.params.dle={n_components = 2}"])
    assert method_params(config, "mlda") == {"n_components": 3}
    assert method_params(config, "dle") == {"n_components": 2}
    assert method_params(config, "svm") == {}


@pytest.mark.parametrize("uri", ["/a/folder", "file:///a", "sqlite:///"])
def test_a_tracking_address_that_cannot_record_runs_is_rejected_early(uri: str) -> None:
    with pytest.raises(ConfigError, match=r"tracking\.uri: tracking address"):
        check_places(load_config(None, [f"tracking.uri={uri}"]))
    check_places(load_config(None, [f"tracking.uri={uri}", "tracking.enabled=false"]))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("label_separator", " "),
        ("label_separator", "'"),
        ("label_separator", "#"),
        ("label_separator", "1"),
        ("id", "true"),
        ("text", 'a "b" \\c = [1]'),
        ("labels", "x,y*"),
        ("features", ("a,b", "c")),
        ("strict", True),
        ("every_seconds", 2.5),
    ],
)
def test_a_printed_setting_reads_back(key: str, value: object) -> None:
    config = load_config(None, [f"source.{key}={as_override(value)}"])
    assert getattr(config.source, key) == value

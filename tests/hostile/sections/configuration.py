"""Configurations: TOML files, settings and options that no run can use."""

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from tests.hostile.case import QUIET, REFUSED, SURVIVED, Case, Place, settings
from tests.hostile.samples import pictures, write_table

ANY = f"{REFUSED}|{SURVIVED}"
PRELOAD = ("prefect", "prefect.deployments.runner", "flows.schedule", "flows.prefect_engine")
"""Modules that the commands of this section would each import for seconds."""
Content = Callable[[], bytes]


def toml(name: str, text: str | bytes | Content, expect: str = REFUSED, **options: Any) -> Case:
    """A TOML file that `config` reads."""

    def make(place: Place) -> None:
        data = text() if callable(text) else text
        (place.folder / "x.toml").write_bytes(data if isinstance(data, bytes) else data.encode())

    return Case(
        f"toml: {name}", make, ("config", "{here}/x.toml"), expect=expect, long_output=True, **options
    )


FILES: dict[str, tuple[str | bytes | Content, str]] = {
    "empty": ("", SURVIVED),
    "comment": ("# nothing\n", SURVIVED),
    "good": ("[affinity]\nn_neighbors = 3\n", SURVIVED),
    "windows line ends": ("[affinity]\r\nn_neighbors = 3\r\n", SURVIVED),
    "byte-order mark": (b"\xef\xbb\xbf[affinity]\nn_neighbors = 3\n", ANY),
    "utf-16": ("[affinity]\n".encode("utf-16"), REFUSED),
    "latin-1": (b'name = "\xe9"\n', REFUSED),
    "nul byte": ("name = 'a\0b'\n", REFUSED),
    "binary": (bytes(range(256)), REFUSED),
    "json": ('{"name": 1}', REFUSED),
    "yaml": ("affinity:\n  n_neighbors: 3\n", REFUSED),
    "ini": ("[affinity]\nn_neighbors: 3\n", REFUSED),
    "no value": ("name =\n", REFUSED),
    "no key": ("= 3\n", REFUSED),
    "repeated key": ("name = 'a'\nname = 'b'\n", REFUSED),
    "repeated table": ("[affinity]\n[affinity]\n", REFUSED),
    "table and value": ("affinity = 3\n[affinity]\nn_neighbors = 3\n", REFUSED),
    "array of tables": ("[[affinity]]\nn_neighbors = 3\n", REFUSED),
    "unclosed string": ("name = 'a\n", REFUSED),
    "unclosed array": ("drop = [1, 2\n", REFUSED),
    "unclosed table": ("[affinity\n", REFUSED),
    "unknown escape": ('name = "\\q"\n', REFUSED),
    "surrogate": ('name = "\\ud800"\n', REFUSED),
    "escape in a value": ('name = 7\ncolor = "\\u001b[2J"\n', REFUSED),
    "escape in a key": ('"\\u001b[2J" = 1\n', REFUSED),
    "escape in a table": ('["\\u001b[2J"]\nx = 1\n', REFUSED),
    "deep arrays": ("x = " + "[" * 50_000 + "]" * 50_000 + "\n", REFUSED),
    "deep arrays, unclosed": ("x = " + "[" * 50_000, REFUSED),
    "deep tables": ("x = " + "{a = " * 50_000 + "1" + "}" * 50_000 + "\n", REFUSED),
    "key of 20,000 parts": ("a." * 20_000 + "a = 1\n", REFUSED),
    "table of 20,000 parts": ("[" + "a." * 20_000 + "a]\nx = 1\n", REFUSED),
    "2,000 keys of 500 parts": ("".join("a." * 499 + f"k{k} = 1\n" for k in range(2000)), REFUSED),
    "key of 1 MB": ("k" * 1_000_000 + " = 1\n", REFUSED),
    "string of 1 MB": ("kind = '" + "v" * 1_000_000 + "'\n", REFUSED),
    "wrong value of 1 MB": ("[affinity]\nn_neighbors = '" + "v" * 1_000_000 + "'\n", REFUSED),
    "integer of 5,000 digits": ("[affinity]\nn_neighbors = " + "1" * 5000 + "\n", REFUSED),
    "hexadecimal of 5,000 digits": ("[affinity]\nn_neighbors = 0x" + "1" * 5000 + "\n", REFUSED),
    "100,000 unknown keys": ("".join(f"k{k} = 1\n" for k in range(100_000)), REFUSED),
    "100,000 wrong values": ("[source]\ndrop_labels = [" + "1, " * 100_000 + "]\n", REFUSED),
    "file of 20 MB": (lambda: b"# " + b"x" * 20_000_000 + b"\n", ANY),
    "a million lines": (lambda: b"\n" * 5_000_000, ANY),
    "date": ("name = 2026-11-17\n", REFUSED),
    "number as name": ("name = 7\n", REFUSED),
}
KEYS: dict[str, tuple[str, ...]] = {
    "affinity.n_neighbors": ("0", "-1", "1.5", "abc", "true", "[]", "{}", "nan", "1e999", "''", "9" * 400),
    "affinity.sigma": ("0", "-1", "nan", "inf", "abc", "[]", "-0.0"),
    "affinity.graph": ("tree", "7", "''", "KNN", "\x1b[2J"),
    "affinity.weights": ("cosine", "1"),
    "affinity.memory_budget_gb": ("0", "-1", "nan", "inf", "lots"),
    "source.kind": ("exe", "''", "7"),
    "source.strict": ("2", "maybe", "[]"),
    "source.min_label_count": ("0", "-5", "x", "1.5"),
    "source.drop_labels": ("7", "x", "{}"),
    "source.label_separator": ("''", "ab", "7"),
    "features.extractor": ("evil", "os.system", "7"),
    "features.scale": ("log", "7"),
    "features.color_moments.grid": (
        "[0, 0]",
        "[-1, 8]",
        "[8]",
        "[1000000, 1000000]",
        "x",
        "[8.5, 8]",
        "[8, 8, 8]",
    ),
    "features.color_moments.color_space": ("cmyk", "7"),
    "features.color_moments.moments": ("[]", '["kurtosis"]', '["mean", "mean"]', "7"),
    "embedding.n_components": ("0", "-1", "1.5", "x", "9" * 400),
    "embedding.methods": ("[]", "evil", "''", "7", "[7]", "mlda,,pca"),
    "embedding.params": ("7", "[]", "x"),
    "embedding.params.mlda": ("7", "[]"),
    "embedding.params.mlda.evil": ("1",),
    "embedding.params.evil.x": ("1",),
    "evaluation.folds": ("0", "1", "-5", "x", "1e9", "9" * 400),
    "evaluation.seed": ("-1", "x", "1.5"),
    "evaluation.n_neighbors": ("[]", "[0]", "[-1]", "x", "[1.5]"),
    "evaluation.baselines": ("evil", "7"),
    "evaluation.sort_by": ("evil", "''", "7"),
    "annotation.n_neighbors": ("0", "-1", "x"),
    "annotation.weights": ("heavy", "7"),
    "auto.budget": (
        "999999999999999999999h",
        "0s",
        "-5m",
        "x",
        "''",
        "nan",
        "1e999h",
        "5",
        "h",
        "1m1m",
        "inf",
    ),
    "auto.candidates": ("evil",),
    "report.thumbnails": ("-1", "201", "x", "1e9"),
    "tracking.enabled": ("2", "maybe"),
    "tracking.experiment": ("7", "[]"),
    "store.grace_minutes": ("-1", "nan", "x", "inf"),
    "executor": (
        "gpu",
        "threads:0",
        "threads:-1",
        "threads:x",
        "processes:999999999",
        "threads:",
        "processes:1.5",
        "7",
        "''",
        "\x1b[2J",
    ),
    "home": ("7", "[]"),
    "name": ("7", "[]"),
    "evil": ("1",),
    "affinity.evil": ("1",),
    "a.b.c.d.e": ("1",),
    "affinity.n_neighbors.x": ("1",),
}
# Texts in place of KEY=VALUE.
MALFORMED = (
    "",
    "=",
    "=1",
    "x",
    "affinity",
    "affinity=",
    "affinity=1",
    ".=1",
    "..=1",
    "affinity.=1",
    ".affinity=1",
    " =1",
    "a." * 20_000 + "b=1",
    "x=" + "[" * 100_000,
    "\x1b[2J",
    "\x1b[2J=1",
    "é=1",
    "affinity.n_neighbors=\udcff",
)


def overrides() -> Iterator[Case]:
    """`--set` with values out of range, of wrong types, and with unknown keys."""
    # Some values are wrong only for a run, which must refuse them before its first stage.
    for key, values in KEYS.items():
        for value in values:
            pair = f"{key}={value}"
            command = ("run", "{source}", *QUIET, *settings(pair), "--until", "ingest")
            expect = ANY if pair in VALID else REFUSED
            yield Case(
                f"set {ascii(pair)[1:60]}",
                make_table,
                command,
                expect=expect,
                silent=("computed in",) if expect == REFUSED else (),
            )
    for number, text in enumerate(MALFORMED):
        yield Case(
            f"malformed {number}: {ascii(text)[1:20]}",
            lambda place: None,
            ("config", "--set", text),
            expect=REFUSED,
            long_output=True,
        )


# Values that may be valid.
VALID = {
    "affinity.sigma=-0.0",
    "source.strict=2",
    "tracking.enabled=2",
    "evaluation.folds=1e9",
    "auto.budget=0s",
    "auto.budget=5",
    "auto.budget=1m1m",
    'features.color_moments.moments=["mean", "mean"]',
    "embedding.methods=mlda,,pca",
    "report.thumbnails=1e9",
    "evaluation.folds=" + "9" * 400,
    "auto.candidates=evil",
    "embedding.params.mlda=[]",
    "embedding.params=[]",
    "executor=processes:999999999",
    # Wrong for a later stage only, or for any stage but less than what the data allow.
    "affinity.n_neighbors=true",
    "affinity.n_neighbors=" + "9" * 400,
    "embedding.n_components=" + "9" * 400,
    "evaluation.n_neighbors=[0]",
    "evaluation.n_neighbors=[-1]",
    # --home replaces it.
    "home=7",
    "home=[]",
}


def make_table(place: Place) -> None:
    """A good table as the source."""
    write_table(place.source)


OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "until nothing": (("run", "{source}", *QUIET, "--until", ""), REFUSED),
    "until an unknown stage": (("run", "{source}", *QUIET, "--until", "evil"), REFUSED),
    "until an escape": (("run", "{source}", *QUIET, "--until", "\x1b[2J"), REFUSED),
    "from nothing": (("run", "{source}", *QUIET, "--from", ""), REFUSED),
    "from an unknown stage": (("run", "{source}", *QUIET, "--from", "evil"), REFUSED),
    "from without an earlier run": (
        ("run", "{source}", *QUIET, "--from", "affinity", "--until", "affinity"),
        ANY,
    ),
    "from after until": (("run", "{source}", *QUIET, "--from", "evaluation", "--until", "ingest"), REFUSED),
    "refresh nothing": (("run", "{source}", *QUIET, "--refresh", ""), REFUSED),
    "refresh an unknown stage": (("run", "{source}", *QUIET, "--refresh", "evil"), REFUSED),
    "done an unknown stage": (("run", "{source}", *QUIET, "--done", "evil", "--until", "ingest"), ANY),
    "stage without name": (("stage",), REFUSED),
    "stage that is unknown": (("stage", "evil", "{source}", *QUIET), REFUSED),
    "no method": (("run", "{source}", *QUIET, "--methods", ""), REFUSED),
    "unknown method": (("run", "{source}", *QUIET, "--methods", "mdla"), REFUSED),
    "method with an escape": (("run", "{source}", *QUIET, "--methods", "\x1b[2J"), REFUSED),
    "empty source": (("run", "", *QUIET), REFUSED),
    "missing source": (("run", "{here}/gone", *QUIET), REFUSED),
    "missing source with an escape": (("run", "{here}/\x1b[2J", *QUIET), REFUSED),
    "source of 10,000 characters": (("run", "x" * 10_000, *QUIET), REFUSED),
    "source of 300 characters": (("run", "{here}/" + "x" * 300, *QUIET), REFUSED),
    "source of an unknown user": (("run", "~nouser/x", *QUIET), REFUSED),
    "source that is an address": (("run", "http://127.0.0.1:9/x", *QUIET), REFUSED),
    "source that is an s3 address": (("run", "s3://bucket/x", *QUIET), REFUSED),
    "source with a null byte": (("run", "a\0b", *QUIET), REFUSED),
    "source that is not UTF-8": (("run", "\udcff\udcfe", *QUIET), REFUSED),
    "configuration that is missing": (("run", "{here}/gone.toml", *QUIET), REFUSED),
    "configuration of an unknown user": (("run", "~nouser/x.toml", *QUIET), REFUSED),
    "configuration with a null byte": (("run", "a\0b.toml", *QUIET), REFUSED),
    "configuration of 10,000 characters": (("run", "x" * 10_000 + ".toml", *QUIET), REFUSED),
    "home of an unknown user": (
        ("run", "{source}", *QUIET, "--until", "ingest", "--home", "~nouser/x"),
        REFUSED,
    ),
    "home with a null byte": (("run", "{source}", *QUIET, "--until", "ingest", "--home", "a\0b"), REFUSED),
    "home of 10,000 characters": (
        ("run", "{source}", *QUIET, "--until", "ingest", "--home", "x" * 10_000),
        REFUSED,
    ),
    "home that is a file": (
        ("run", "{source}", *QUIET, "--until", "ingest", "--home", "{source}/t.csv"),
        REFUSED,
    ),
    "home below a file": (
        ("run", "{source}", *QUIET, "--until", "ingest", "--home", "{source}/t.csv/x"),
        REFUSED,
    ),
    "home in /proc": (("run", "{source}", *QUIET, "--until", "ingest", "--home", "/proc/x"), REFUSED),
    "home that is the source": (("run", "{source}", *QUIET, "--until", "ingest", "--home", "{source}"), ANY),
    "labels of an unknown user": (("run", "{source}", *QUIET, *settings("source.labels=~nouser/x")), REFUSED),
    "edges of an unknown user": (("run", "{source}", *QUIET, *settings("source.edges=~nouser/x")), REFUSED),
    "labels with a null byte": (("run", "{source}", *QUIET, *settings("source.labels=a\0b")), REFUSED),
    "edges with a null byte": (("run", "{source}", *QUIET, *settings("source.edges=a\0b")), REFUSED),
    "as with a source": (("run", "{source}", "--as", "abc"), REFUSED),
    "unknown command": (("evil",), REFUSED),
    "unknown option": (("run", "--evil"), REFUSED),
    "option without value": (("run", "--until"), REFUSED),
    "command with an escape": (("\x1b[2J",), REFUSED),
    "option with an escape": (("run", "--\x1b[2J"), REFUSED),
    "argument too many": (("run", "{source}", "more"), REFUSED),
    "argument too many, with an escape": (("run", "{source}", "\x1b[2J"), REFUSED),
    "port 0": (("up", "--prefect-port", "-1"), REFUSED),
    "port 65536": (("up", "--prefect-port", "65536"), REFUSED),
    "port of text": (("up", "--mlflow-port", "x"), REFUSED),
    "port of 5,000 digits": (("up", "--mlflow-port", "9" * 5000), REFUSED),
    "experiment that is unknown": (("reproduce", "evil"), REFUSED),
    "budget of ages": (("auto", "{source}", *QUIET, "--budget", "9" * 30 + "h"), REFUSED),
    "budget of nothing": (("auto", "{source}", *QUIET, "--budget", ""), REFUSED),
    "unknown candidate": (("auto", "{source}", *QUIET, "--candidates", "evil"), REFUSED),
}
ADDRESSES: dict[str, str] = {
    "ftp": "ftp://host/x",
    "gopher": "gopher://host/x",
    "open bracket": "http://[::1",
    "port of text": "http://host:port",
    "port of 99999": "http://127.0.0.1:99999",
    "no host": "http://",
    "no scheme": "://x",
    "only a scheme": "sqlite:",
    "text": "evil",
    "empty": "''",
    "sqlite in a missing folder": "sqlite:////no/such/folder/x.db",
    "sqlite that is a folder": "sqlite:////tmp",
    "oracle": "oracle://user@127.0.0.1:9/x",
    "unknown driver": "sqlite+evil:///x.db",
    "databricks": "databricks",
    "javascript": "javascript:alert(1)",
    "escape": "http://\x1b[2J/",
    "null byte": "http://a\0b/",
    "spaces": "http://a b/",
    "idna": "http://xn--\u00fc.example/",
    "long": "http://" + "x" * 10_000,
    "number": "7",
}


# Databases and the modules of their drivers, which may be installed here or not.
DRIVERS = {
    "postgresql": ("postgresql://user@127.0.0.1:9/x", "psycopg2", "labelscape[postgres]"),
    "mysql": ("mysql://user@127.0.0.1:9/x", "MySQLdb", "mysqlclient"),
}


OFFLINE = (
    "idna",
    "sqlite in a missing folder",
    "sqlite that is a folder",
    "empty",
    "long",
    "spaces",
    "number",
)


COMPUTED = ("computed in",)


def tracked_at(uri: str) -> tuple[str, ...]:
    """A run that ends before it would be tracked."""
    chosen = settings("executor=serial", f"tracking.uri={uri}")
    return ("run", "{source}", *chosen, "--until", "ingest")


def drivers() -> Iterator[Case]:
    """The same address without and with the driver of its database, whatever is installed here."""
    for kind, (uri, module, package) in DRIVERS.items():
        for title, stand_in, expect in (
            ("without", None, {"expect": REFUSED, "says": (package,), "silent": COMPUTED}),
            ("with", ModuleType(module), {"expect": SURVIVED, "says": COMPUTED}),
        ):

            def act(place: Place, uri: str = uri, module: str = module, stand_in: Any = stand_in) -> int:
                from flows.cli import main

                sys.modules[module] = stand_in  # None makes its import fail
                arguments = [place.fill(part) for part in tracked_at(uri)]
                return main([*arguments, "--home", str(place.home)])

            yield Case(f"tracking address: {kind} {title} its driver", make_table, act=act, **expect)


def addresses() -> Iterator[Case]:
    """Addresses of trackers and stores that cannot work: refused before any stage is computed."""
    for title, uri in ADDRESSES.items():
        # A server that does not answer is not refused: the run completes untracked.
        expect = ANY if title in OFFLINE else REFUSED
        said = COMPUTED if expect == REFUSED else ()
        yield Case(f"tracking address: {title}", make_table, tracked_at(uri), expect=expect, silent=said)
        store = ("run", "{source}", *QUIET, *settings(f"store.uri={uri}"), "--until", "ingest")
        yield Case(f"store address: {title}", make_table, store, expect=ANY, seconds=40)


CRONS = (
    "",
    "x",
    "* * * *",
    "* * * * * * *",
    "60 * * * *",
    "0 0 31 2 *",
    "0 0 30 2 *",
    "0 0 31 4,6 *",
    "99 99 99 99 99",
    "@never",
    "\x1b[2J",
    "0 0 * * mon-",
    "*/0 * * * *",
    "0" * 10_000 + " * * * *",
    "é * * * *",
)
DEPLOYMENT_NAMES = ("a/b", "", "../x", "\x1b[2J", "%", "x" * 5000, "a>b")


def schedules() -> Iterator[Case]:
    """Schedules that never fire and names that the server would refuse."""
    for number, cron in enumerate(CRONS):
        for command in ("serve", "deploy")[number % 3 > 0 :]:
            yield Case(
                f"{command} --cron {ascii(cron)[:24]}",
                make_table,
                (command, "{source}", *QUIET, "--cron", cron),
            )
    for name in DEPLOYMENT_NAMES:
        yield Case(
            f"deploy --name {ascii(name)[:20]}", make_table, ("deploy", "{source}", *QUIET, "--name", name)
        )


def default_files() -> Iterator[Case]:
    """A labelscape.toml in the current folder that commands read without being asked to."""
    contents = {
        "broken": "x = [",
        "unknown key": "evil = 1\n",
        "deep": "x = " + "[" * 50_000,
        "wrong name": "name = 7\n",
    }
    commands = (
        ("config",),
        ("store", "ls"),
        ("status",),
        ("compare",),
        ("lineage",),
        ("sync",),
        ("down",),
        ("annotate", "{source}"),
    )
    for number, (title, text) in enumerate(contents.items()):
        for command in commands[number % 2 :: 2]:

            def make(place: Place, text: str = text) -> None:
                pictures(place.source)
                (place.folder / "labelscape.toml").write_text(text, encoding="utf-8")

            yield Case(f"labelscape.toml {title}: {command[0]}", make, command, says=("labelscape.toml",))


def cases() -> list[Case]:
    """The cases of this section."""
    files = [toml(title, text, expect, seconds=30) for title, (text, expect) in FILES.items()]
    options = [
        Case(title, make_table, command, expect=expect) for title, (command, expect) in OPTIONS.items()
    ]
    return [*files, *overrides(), *options, *addresses(), *drivers(), *schedules(), *default_files()]

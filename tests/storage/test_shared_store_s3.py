"""The shared store on a real S3 server: complete runs, kills, damage, outages."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.s3_server import BUCKET, SECRET, S3Server, StallingProxy, free_port, s3_server, surroundings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (find_spec("s3fs") and find_spec("moto")),
        reason="needs the test extra: pip install labelscape[test]",
    ),
]

QUICK = ("--set", "evaluation.folds=2", "--set", "tracking.enabled=false")
SHORT = (*QUICK, "--until", "affinity")
URI = f"s3://{BUCKET}/shared"


def start(home: Path, port: int, *arguments: str, **more: str) -> subprocess.Popen[str]:
    """Start a command that uses the S3 server at a port, without Prefect."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PREFECT", "AWS"))}
    places = {"LABELSCAPE_HOME": str(home), "LABELSCAPE_STORE": URI, "PYTHONPATH": str(REPOSITORY)}
    nobody = {"PREFECT_API_URL": f"http://127.0.0.1:{free_port()}/api"}
    return subprocess.Popen(
        [sys.executable, "-m", "flows.cli", *arguments],
        cwd=home.parent,
        env={**kept, **places, **nobody, **surroundings(port), **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=300)
    assert SECRET not in out + err
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def labelscape(home: Path, port: int, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return finish(start(home, port, *arguments, **more))


def succeed(home: Path, port: int, *arguments: str, **more: str) -> Any:
    """The parsed output of a command with --json."""
    done = labelscape(home, port, *arguments, "--json", **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def digests(summary: Any) -> dict[str, str]:
    return {one["stage"]: one["digest"] for one in summary["stages"]}


def states(summary: Any) -> dict[str, str]:
    return {one["stage"]: one["state"] for one in summary["stages"]}


def objects(server: S3Server, ending: str = "") -> list[str]:
    names = server.files().find(f"{BUCKET}/shared")
    return [name for name in names if name.endswith(ending) and "/leases/" not in name]


def assert_whole(server: S3Server) -> None:
    """Every data object has the content that its name says, every manifest has its data."""
    files = server.files()
    data = {name for name in objects(server, ".parquet") if "/quarantine/" not in name}
    for name in data:
        import hashlib

        found = re.search(r"-([0-9a-f]{64})\.parquet$", name)
        assert found
        assert hashlib.sha256(files.cat_file(name)).hexdigest() == found[1], name
    for name in objects(server, ".json"):
        if re.search(r"/[0-9a-f]{64}\.json$", name) and "/quarantine/" not in name:
            digest = json.loads(files.cat_file(name))["digest"]
            assert f"{name.removesuffix('.json')}-{digest}.parquet" in data


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of a run with a local store."""
    home = tmp_path_factory.mktemp("local") / "home"
    return digests(succeed(home, free_port(), "run", "wine", *QUICK, LABELSCAPE_STORE=""))


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Server, Any]]:
    """A server with the results of one run; tests may add to it."""
    folder = tmp_path_factory.mktemp("busy")
    with s3_server(folder) as server:
        yield server, succeed(folder / "first", server.port, "run", "wine", *QUICK)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    with s3_server(tmp_path) as one:
        yield one


class TestFromAnotherMachine:
    def test_a_run_gives_the_same_results_as_a_local_one(
        self, busy: tuple[S3Server, Any], undisturbed: dict[str, str]
    ) -> None:
        server, first = busy
        assert set(states(first).values()) == {"computed"}
        assert digests(first) == undisturbed
        assert_whole(server)

    def test_every_stage_is_fresh_and_only_what_is_read_is_downloaded(
        self, busy: tuple[S3Server, Any], tmp_path: Path
    ) -> None:
        server, first = busy
        before = len(server.requests())
        second = succeed(tmp_path / "second", server.port, "run", "wine", *QUICK)
        assert set(states(second).values()) == {"fresh"}
        assert (digests(second), second["run"]) == (digests(first), first["run"])
        assert Path(second["report"]).is_file()
        asked = server.requests()[before:]
        fetched = {path.split("/")[2] for verb, path in asked if verb == "GET" and path.endswith(".parquet")}
        assert {"evaluation", "report", "ingest"} <= fetched
        assert fetched & {"affinity", "features_part", "embedding", "correlation"} == set()
        put = {path.split("/")[2] for verb, path in asked if verb == "PUT"}
        assert put == {"leases", "runs", "pointers"}

        before = len(server.requests())
        succeed(tmp_path / "second", server.port, "run", "wine", *QUICK)
        again = [path for verb, path in server.requests()[before:] if verb == "GET"]
        assert not [path for path in again if path.endswith(".parquet")]

    def test_every_command_works_on_it(self, busy: tuple[S3Server, Any], tmp_path: Path) -> None:
        server, first = busy
        home = tmp_path / "third"

        def ask(*arguments: str) -> Any:
            return succeed(home, server.port, *arguments)

        assert {one["state"] for one in ask("status", "wine", *QUICK)} == {"fresh"}
        listed = ask("store", "ls")
        assert {one["stage"] for one in listed} >= {"ingest", "features_part", "affinity", "evaluation"}
        assert [one["id"] for one in ask("store", "ls", "--runs")] == [first["run"]]
        assert sum(one["bytes"] for one in ask("store", "du")) == sum(one["bytes"] for one in listed)
        assert ask("store", "verify") == {"artifacts": len(listed), "damaged": []}
        assert ask("store", "pin", first["run"])["pinned"]
        assert [one["pinned"] for one in ask("store", "ls", "--runs")] == [True]
        assert not ask("store", "unpin", first["run"][:6])["pinned"]
        traced = ask("lineage", first["run"])
        assert traced["run"]["id"] == first["run"]
        assert traced["results"][0]["inputs"]
        fetched = {path.parent.parent.name for path in home.rglob("*.parquet")}
        assert fetched & {"affinity", "features_part", "embedding", "evaluation"} == set()
        repeated = ask("run", "--as", first["run"])
        assert repeated["repeats"] == {"run": first["run"], "differ": [], "not_run": [], "more": []}
        assert set(states(repeated).values()) == {"fresh"}

    def test_gc_removes_only_old_artifacts_that_no_kept_run_needs(
        self, server: S3Server, tmp_path: Path
    ) -> None:
        home = tmp_path / "home"
        for neighbors in (3, 4):
            setting = f"affinity.n_neighbors={neighbors}"
            succeed(home, server.port, "run", "wine", *SHORT, "--set", setting)
        gc = ("store", "gc", "--keep", "1")
        assert succeed(home, server.port, *gc, "--dry-run")["artifacts"] == []
        (tmp_path / "labelscape.toml").write_text("[store]\ngrace_minutes = 0\n", encoding="utf-8")
        before = objects(server)
        dry = succeed(home, server.port, *gc, "--dry-run")
        assert [name.partition("/")[0] for name in dry["artifacts"]] == ["affinity"]
        assert objects(server) == before
        assert succeed(home, server.port, *gc)["artifacts"] == dry["artifacts"]
        assert len(objects(server)) == len(before) - 3  # a run, a manifest, data
        assert_whole(server)
        fresh = succeed(home, server.port, "run", "wine", *SHORT, "--set", setting)
        assert set(states(fresh).values()) == {"fresh"}

    def test_gc_refuses_while_a_run_is_active(self, server: S3Server, tmp_path: Path) -> None:
        proxy = StallingProxy(server.port, r"PUT /bucket/shared/affinity/\S*parquet")
        run = start(tmp_path / "home", proxy.port, "run", "wine", *SHORT)
        assert proxy.stalled.wait(120)
        refused = labelscape(tmp_path / "other", server.port, "store", "gc")
        assert refused.returncode == 2
        assert f"1 run(s) are using {URI}" in refused.stderr
        run.kill()
        run.communicate()
        proxy.cut()

    def test_a_run_inside_a_prefect_flow(
        self, server: S3Server, tmp_path: Path, prefect_variables: dict[str, str]
    ) -> None:
        done = succeed(tmp_path / "home", server.port, "run", "wine", *SHORT, **prefect_variables)
        assert done["prefect"] == {"problem": None}
        assert set(states(done).values()) == {"computed"}
        assert_whole(server)


class TestKills:
    @pytest.mark.parametrize(
        "stall_at",
        [
            r"PUT /bucket/shared/ingest/\S*parquet",
            r"PUT /bucket/shared/affinity/\S*parquet",
            r"PUT /bucket/shared/affinity/\S*json",
        ],
    )
    def test_killed_during_an_upload(self, server: S3Server, tmp_path: Path, stall_at: str) -> None:
        home = tmp_path / "home"
        proxy = StallingProxy(server.port, stall_at)
        run = start(home, proxy.port, "run", "wine", *SHORT)
        assert proxy.stalled.wait(120), "nothing was put"
        run.kill()
        run.communicate()
        proxy.cut()
        verb, _, pattern = stall_at.partition(" /")
        assert verb == "PUT"
        assert [name for name in objects(server) if re.fullmatch(pattern, name)] == []
        assert_whole(server)
        other = succeed(tmp_path / "other", server.port, "run", "wine", *SHORT)
        again = succeed(home, server.port, "run", "wine", *SHORT)
        assert digests(other) == digests(again)
        assert set(states(again).values()) == {"fresh"}
        assert_whole(server)

    def test_killed_during_a_multipart_upload(self, server: S3Server, tmp_path: Path) -> None:
        """A file above 100 MB is uploaded in parts; they become an object when the last one has arrived."""
        large = tmp_path / "large"
        with large.open("wb") as file:
            file.truncate(101 * 2**20)
        code = (
            "import sys; from pathlib import Path; from storage.artifacts.remote import Remote\n"
            f"Remote({URI!r}).upload(Path(sys.argv[1]), 'features/large')"
        )
        proxy = StallingProxy(server.port, r"PUT \S*partNumber=2", body_bytes=1000)
        environment = {**os.environ, **surroundings(proxy.port), "PYTHONPATH": str(REPOSITORY)}
        upload = subprocess.Popen([sys.executable, "-c", code, str(large)], env=environment)
        assert proxy.stalled.wait(120)
        upload.kill()
        upload.wait()
        proxy.cut()
        assert objects(server) == []
        environment |= surroundings(server.port)
        subprocess.run([sys.executable, "-c", code, str(large)], env=environment, check=True, timeout=120)
        assert server.files().size(f"{BUCKET}/shared/features/large") == 101 * 2**20


class TestDamage:
    @pytest.mark.parametrize("how", ["flipped", "truncated"])
    def test_every_object_in_turn(
        self, server: S3Server, tmp_path: Path, undisturbed: dict[str, str], how: str
    ) -> None:
        succeed(tmp_path / "first", server.port, "run", "wine", *QUICK)
        files = server.files()
        damaged = [name for name in objects(server, ".parquet") if "/features_part/" not in name]
        for name in damaged:
            data = bytearray(files.cat_file(name))
            data[len(data) // 2] ^= 4
            files.pipe_file(name, bytes(data) if how == "flipped" else bytes(data[: len(data) // 2]))
        second = succeed(tmp_path / "second", server.port, "run", "wine", *QUICK)
        assert digests(second) == undisturbed
        found = {one["artifact"].partition("/")[0] for one in second["damaged"]}
        assert {"ingest", "features", "evaluation", "report"} <= found
        aside = {Path(name).name for name in objects(server) if "/quarantine/" in name}
        assert {f"{one['artifact'].partition('/')[2]}.json" for one in second["damaged"]} <= aside
        checked = labelscape(tmp_path / "third", server.port, "store", "verify", "--json")
        left = {one["name"].partition("/")[0] for one in json.loads(checked.stdout)["damaged"]}
        # A flipped bit in an artifact that no stage had to read is found only by `store verify`.
        assert left == ({"model"} if how == "flipped" else set())
        assert checked.returncode == (1 if left else 0)
        third = succeed(tmp_path / "third", server.port, "run", "wine", *QUICK)
        assert digests(third) == undisturbed
        assert_whole(server)


class TestTogether:
    def test_two_runs_at_once_from_two_homes(
        self, server: S3Server, tmp_path: Path, undisturbed: dict[str, str]
    ) -> None:
        homes = [tmp_path / "one", tmp_path / "two"]
        running = [start(home, server.port, "run", "wine", *QUICK, "--json") for home in homes]
        done = [finish(process) for process in running]
        assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
        assert [digests(json.loads(one.stdout)) for one in done] == [undisturbed, undisturbed]
        assert_whole(server)
        assert len([name for name in objects(server) if "/runs/" in name]) == 1
        assert objects(server, ".tmp") == []


class TestOutages:
    def resumes(self, done: subprocess.CompletedProcess[str], *said: str) -> None:
        """Exit code 2, the reason, and the command to resume with as the last line."""
        assert done.returncode == 2, done.stderr
        for text in (URI, *said):
            assert text in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.strip().splitlines()[-1].startswith("resume with: labelscape run wine")

    def test_the_server_does_not_answer(self, tmp_path: Path) -> None:
        port = free_port()
        done = labelscape(tmp_path / "home", port, "run", "wine", *SHORT)
        self.resumes(done, f"http://127.0.0.1:{port}", "Check the address (store.uri)")
        for command in (("store", "ls"), ("status", "wine"), ("lineage",), ("store", "gc"), ("sync",)):
            asked = labelscape(tmp_path / "home", port, *command)
            assert asked.returncode == 2, (command, asked.stderr)
            assert f"the store {URI} cannot be used" in asked.stderr

    def test_the_server_dies_in_the_middle_of_a_run(
        self, tmp_path: Path, undisturbed: dict[str, str]
    ) -> None:
        home = tmp_path / "home"
        with s3_server(tmp_path) as server:
            run = start(home, server.port, "run", "wine", *QUICK)
            deadline = time.monotonic() + 120
            while not any(verb == "PUT" and "/affinity/" in path for verb, path in server.requests()):
                assert time.monotonic() < deadline
                assert run.poll() is None
                time.sleep(0.01)
            server.process.kill()
            self.resumes(finish(run), f"http://127.0.0.1:{server.port}", "finished stages are kept")
        # A new one, with nothing in it: what this home has computed is put there, not computed again.
        with s3_server(tmp_path) as server:
            again = succeed(home, server.port, "run", "wine", *QUICK)
            assert digests(again) == undisturbed
            assert states(again)["ingest"] == "fresh"
            assert_whole(server)

    def test_the_connection_is_cut_in_the_middle_of_an_object(
        self, server: S3Server, tmp_path: Path, undisturbed: dict[str, str]
    ) -> None:
        home = tmp_path / "home"
        proxy = StallingProxy(server.port, r"PUT /bucket/shared/evaluation/\S*parquet")
        run = start(home, proxy.port, "run", "wine", *QUICK)
        assert proxy.stalled.wait(120)
        proxy.cut()
        self.resumes(finish(run), f"http://127.0.0.1:{proxy.port}")
        assert_whole(server)
        assert digests(succeed(home, server.port, "run", "wine", *QUICK)) == undisturbed
        assert_whole(server)

    def test_no_such_bucket(self, server: S3Server, tmp_path: Path) -> None:
        for command in (("run", "wine", *SHORT), ("store", "ls"), ("status", "wine")):
            done = labelscape(
                tmp_path / "home", server.port, *command, LABELSCAPE_STORE="s3://no-such-bucket/shared"
            )
            assert done.returncode == 2, done.stderr
            assert "the store s3://no-such-bucket/shared does not exist" in done.stderr
            assert "Create the bucket or folder, or correct store.uri" in done.stderr

    def test_no_credentials_and_wrong_ones(self, tmp_path: Path) -> None:
        with s3_server(tmp_path, INITIAL_NO_AUTH_ACTION_COUNT="0") as server:
            wrong = labelscape(tmp_path / "home", server.port, "run", "wine", *SHORT)
            self.resumes(wrong, "denies access", "AWS_ACCESS_KEY_ID or a profile")
            none = labelscape(
                tmp_path / "home",
                server.port,
                *("run", "wine", *SHORT),
                AWS_ACCESS_KEY_ID="",
                AWS_SECRET_ACCESS_KEY="",
            )
            self.resumes(none, "denies access", "Unable to locate credentials")


def test_credentials_are_not_stored_anywhere(server: S3Server, tmp_path: Path) -> None:
    home = tmp_path / "home"
    tracked = ("--set", "evaluation.folds=2", "--until", "tracking")
    succeed(home, server.port, "run", "wine", *tracked, "--methods", "mlda")
    held = [path for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert held == []
    files = server.files()
    assert not [name for name in objects(server) if SECRET.encode() in files.cat_file(name)]

"""Passwords and tokens given in every place that takes an address; they are neither printed nor written."""

from collections.abc import Iterator
from typing import Any

from tests.hostile.case import REFUSED, SURVIVED, Case, Place, settings, with_variable
from tests.hostile.samples import write_table

SECRET = "S3CR3TVALUE"
ANY = f"{REFUSED}|{SURVIVED}"
# Ports on which nothing answers.
ADDRESSES: dict[str, str] = {
    "user and password": f"http://user:{SECRET}@127.0.0.1:9/x",
    "password with a slash": f"http://user:a/{SECRET}@127.0.0.1:9/x",
    "password with an at sign": f"http://user:a@{SECRET}@127.0.0.1:9/x",
    "password with a colon": f"http://user:a:{SECRET}@127.0.0.1:9/x",
    "password with a hash": f"http://user:a#{SECRET}@127.0.0.1:9/x",
    "password with a question mark": f"http://user:a?{SECRET}@127.0.0.1:9/x",
    "password with percent signs": f"http://user:%40{SECRET}%2F@127.0.0.1:9/x",
    "password with letters beyond ASCII": f"http://user:ü{SECRET}@127.0.0.1:9/x",
    "password with a space": f"http://user:a {SECRET}@127.0.0.1:9/x",
    "only a token": f"http://{SECRET}@127.0.0.1:9/x",
    "query": f"http://127.0.0.1:9/x?token={SECRET}",
    "query of another name": f"http://127.0.0.1:9/x?secret={SECRET}&a=b",
    "signature": f"http://127.0.0.1:9/x?X-Amz-Signature={SECRET}",
    "fragment": f"http://127.0.0.1:9/x#{SECRET}",
    "postgresql": f"postgresql://user:{SECRET}@127.0.0.1:9/x",
    "unknown scheme": f"evil://user:{SECRET}@127.0.0.1:9/x",
    "broken address": f"http://user:{SECRET}@[::1",
    "capital scheme": f"HTTP://user:{SECRET}@127.0.0.1:9/x",
}
# The password of a database that answers nowhere, in TOML files that cannot be read.
BROKEN = {
    "type error": f"[tracking]\nuri = ['http://user:{SECRET}@h/']\n",
    "unknown key": f"[tracking]\nurl = 'http://user:{SECRET}@h/'\n",
    "unclosed string": f"[tracking]\nuri = 'http://user:{SECRET}@h/\n",
    "table in its place": f"[tracking.uri]\nx = 'http://user:{SECRET}@h/'\n",
    "store": f"[store]\nuri = 7\nurl = 's3://key:{SECRET}@bucket/'\n",
}
VARIABLES = {
    "PREFECT_API_URL": f"http://user:{SECRET}@127.0.0.1:9/api",
    "PREFECT_API_KEY": SECRET,
    "PREFECT_API_AUTH_STRING": f"user:{SECRET}",
    "MLFLOW_TRACKING_PASSWORD": SECRET,
    "MLFLOW_TRACKING_TOKEN": SECRET,
    "MLFLOW_TRACKING_URI": f"http://user:{SECRET}@127.0.0.1:9/",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "LABELSCAPE_STORE": f"http://user:{SECRET}@127.0.0.1:9/x",
}


def given_table(place: Place) -> None:
    """A good table."""
    write_table(place.source)


def cases() -> list[Case]:
    """The cases of this section."""
    return list(_cases())


def _cases() -> Iterator[Case]:
    def secret(name: str, *command: str, **options: Any) -> Case:
        return Case(name, given_table, command, expect=ANY, secrets=(SECRET,), long_output=True, **options)

    for title, uri in ADDRESSES.items():
        untracked = ("--set", "tracking.enabled=false")
        yield secret(f"tracking address: {title}", "config", *settings(f"tracking.uri={uri}"))
        yield secret(
            f"store address: {title}",
            "run",
            "{source}",
            *untracked,
            *settings(f"store.uri={uri}"),
            "--until",
            "ingest",
        )
        yield secret(f"compare --uri: {title}", "compare", "--uri", uri)
        if title in ("user and password", "only a token", "query"):
            yield secret(f"source: {title}", "run", uri, *untracked, "--until", "ingest")
    for title, text in BROKEN.items():

        def make(place: Place, text: str = text) -> None:
            given_table(place)
            (place.folder / "given.toml").write_text(text, encoding="utf-8")

        yield Case(f"configuration: {title}", make, ("config", "{here}/given.toml"), secrets=(SECRET,))
    for name, value in VARIABLES.items():
        run = ("run", "{source}", "--until", "ingest", "--home", "{home}", "--set", "tracking.enabled=false")
        act = with_variable(name, value, run)
        yield Case(f"variable {name}", given_table, act=act, expect=ANY, secrets=(SECRET,))

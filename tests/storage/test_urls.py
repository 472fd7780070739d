"""Addresses without their secrets: logins, tokens, queries and fragments are cut out, and nothing else."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.urls import is_secret_name, redact, redact_argument, redact_text, split_address

# Any text that is not a part of the address itself.
SECRETS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=12
).map(lambda text: f"Zq{text}Qz")
SCHEMES = st.sampled_from(["http", "https", "postgresql", "mysql+pymysql", "s3", "sftp", "abfs"])


@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        ("https://me:hush@tracker:5000/api?x=1", "https://tracker:5000/api"),
        ("https://me@tracker", "https://tracker"),
        ("https://tracker/api#hush", "https://tracker/api"),
        ("postgresql://me:h@sh@host/db", "postgresql://host/db"),
        ("postgresql://me:hu/sh@host/db", "postgresql://host/db"),
        ("postgresql://me:12/hush@host/db", "postgresql://host/db"),
        ("http://me:hu/sh@host", "http://host"),
        ("http://me:12/hush@host", "http://host"),
        ("https://hu/sh@host", "https://host"),
        ("http://me:h@u/sh@host", "http://host"),
        ("http:/me:hush@host", "http:/host"),
        ("http:///me:hush@host", "http:///host"),
        ("me:hush@host", "host"),
        ("s3://key:hu/sh@bucket/x", "s3://bucket/x"),
        ("s3://bucket/x?secret=hush", "s3://bucket/x"),
        ("file:///shared/x?secret=hush", "file:///shared/x"),
        ("sqlite+pysqlcipher://:hush@/file.db", "sqlite+pysqlcipher:///file.db"),
        ("mssql+pyodbc:///?odbc_connect=PWD=h@sh", "mssql+pyodbc:///"),
        ("https://[::1]:5000/api", "https://[::1]:5000/api"),
        ("sqlite:////home/me/mlflow.db", "sqlite:////home/me/mlflow.db"),
        ("sqlite:////home/me@work/a:b#1.db", "sqlite:////home/me@work/a:b#1.db"),
        ("s3://bucket/folder@2", "s3://bucket/folder@2"),
        ("/home/me@work/x", "/home/me@work/x"),
        ("", ""),
    ],
)
def test_an_address_loses_its_secrets_and_nothing_else(url: str, redacted: str) -> None:
    assert redact(url) == redacted
    assert redact(redacted) == redacted


@given(scheme=SCHEMES, secret=SECRETS)
def test_a_password_may_contain_any_character(scheme: str, secret: str) -> None:
    parts = split_address(f"{scheme}://me:{secret}@place.example/x?{secret}")
    assert secret not in parts.public
    if "@" not in secret.rpartition("?")[2]:  # else the query is cut with the login
        again = split_address(f"{scheme}://me:{secret}@place.example/x")
        assert again.public == f"{scheme}://place.example/x"
        found = split_address(again.full)
        assert found.public == again.public
        assert unquote(found.login) == f"me:{unquote(secret)}", "every library reads the same login"
        assert not found.unclear


@given(secret=SECRETS)
def test_a_token_may_contain_any_character(secret: str) -> None:
    for address in (f"https://{secret}@place.example/x", f"https://place.example/x?token={secret}"):
        parts = split_address(address)
        assert "Zq" not in parts.public
        assert any("Zq" in one for one in parts.secrets)


def test_every_address_in_a_text_is_redacted() -> None:
    text = "http://me:hush@a/x failed, then https://hush@b:1; mail me@example.org; see 'https://c/x?sig=hush'"
    assert redact_text(text) == "http://a/x failed, then https://b:1; mail me@example.org; see 'https://c/x'"


@pytest.mark.parametrize(
    ("argument", "redacted"),
    [
        ("tracking.uri=http://me:hu sh@host:1/x", "tracking.uri=http://host:1/x"),
        ('tracking.uri="http://me:hush@host:1?x=hush"', 'tracking.uri="http://host:1"'),
        ('tracking={uri="http://me:hush@h", enabled=true}', 'tracking={uri="http://h", enabled=true}'),
        ("tracking.uri=me:hush@host", "tracking.uri=host"),
        ("--uri=https://hush@host", "--uri=https://host"),
        ("tracking.password=hush", "tracking.password=***"),
        ("source.labels=a:b@c", "source.labels=a:b@c"),
        ("/data/one:/two@three?", "/data/one:/two@three?"),
        ("photos/", "photos/"),
    ],
)
def test_an_argument_loses_its_secrets_and_nothing_else(argument: str, redacted: str) -> None:
    assert redact_argument(argument) == redacted


def test_names_of_secrets() -> None:
    secret = "MLFLOW_TRACKING_PASSWORD AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN PGPASSWORD MYSQL_PWD"
    assert all(map(is_secret_name, [*secret.split(), "PREFECT_API_KEY", "PREFECT_API_AUTH_STRING"]))
    plain = "PWD GIT_AUTHOR_NAME AWS_SHARED_CREDENTIALS_FILE SSH_AUTH_SOCK KEYBOARD TOKENIZERS_PARALLELISM"
    assert not any(map(is_secret_name, plain.split()))

"""Texts, shards, sound and clips: damaged, disguised and unusual ones among good ones."""

import gzip
import io
import struct
import tarfile
import wave
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from embedding_core.features.registry import EXTRACTORS
from tests.clips import write_clip
from tests.hostile.case import REFUSED, SKIPPED, SURVIVED, Case, Place, run_until, settings
from tests.hostile.samples import flip, positions

WARM_UP = "features"
PRELOAD = ("av", "sklearn.feature_extraction.text")
ANY = f"{REFUSED}|{SURVIVED}"
EITHER = f"{SKIPPED}|{SURVIVED}"
Content = bytes | Callable[[], bytes]


def _picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 40, 40)).save(file, "PNG")
    return file.getvalue()


PICTURE = _picture()


def _write(path: Path, content: Content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content() if callable(content) else content)


def text_case(name: str, content: Content, expect: str, file: str = "sky/x.txt", **options: Any) -> Case:
    """Four good texts and a hostile one."""

    def make(place: Place) -> None:
        for k in range(4):
            _write(place.source / ("sky", "sea")[k % 2] / f"{k}.txt", f"word{k} and more words".encode())
        _write(place.source / file, content)

    return Case(name, make, run_until("features"), expect=expect, **options)


def texts() -> Iterator[Case]:
    """Files that are hardly texts."""
    yield text_case("good text", b"some more words", SURVIVED, items=5)
    yield text_case("empty text", b"", SKIPPED, items=5, says=("no words",))
    yield text_case("spaces and line ends", b" \n\t\r\n", SKIPPED, items=5)
    yield text_case("punctuation", b"!?., ;", SKIPPED, items=5)
    yield text_case("not UTF-8", b"gr\xfc\xdfe", SKIPPED, items=5, says=("save it as UTF-8",))
    yield text_case("UTF-16", "words".encode("utf-16"), SKIPPED, items=5)
    yield text_case("NUL characters", b"some\0words\0here", EITHER, items=5)
    yield text_case("a picture", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), SKIPPED, items=5)
    yield text_case("one long word", b"w" * 5_000_000, SURVIVED, items=5)
    yield text_case("a text of 11 MB", lambda: b"some words " * 1_050_000, SKIPPED, says=("the limit is",))
    yield text_case("a million different words", lambda: " ".join(map(str, range(10**6))).encode(), SURVIVED)
    yield text_case("other scripts", "東京 слова कखग 🎈🎈 e\u0301e\u0301".encode(), SURVIVED, items=5)
    yield text_case("control characters", b"\x1b[2Jsome words\x07", SURVIVED, items=5)
    yield text_case("a name with control characters", b"words", SURVIVED, file="sky/\x1b[2J.txt", items=5)


TABLES: dict[str, tuple[str, Content, str]] = {
    "good": ("t.csv", b"text,class\nsome words,a\nother words,b\n", SURVIVED),
    "no rows": ("t.csv", b"text,class\n", REFUSED),
    "no labels": ("t.csv", b"text,other\nsome words,a b\n", REFUSED),
    "an empty text": ("t.csv", b"text,class\nsome words,a\n,b\nwords,b\n", SKIPPED),
    "only empty texts": ("t.csv", b"text,class\n,a\n,b\n", REFUSED),
    "a quote that is not closed": ("t.csv", b'text,class\n"some words,a\nother words,b\n', REFUSED),
    "two columns of texts": ("t.csv", b"text,body,class\nsome,words,a\nother,text,b\n", SURVIVED),
    "the same column twice": ("t.csv", b"text,text,class\nsome,words,a\n", REFUSED),
    "a formula": ("t.csv", b"text,class\n=cmd|'/C calc'!A0,a\nother words,b\n", SURVIVED),
    "not UTF-8": ("t.csv", b"text,class\ngr\xfc\xdfe,a\nwords,b\n", REFUSED),
    "NUL": ("t.csv", b"text,class\nso\0me words,a\nother words,b\n", ANY),
    "JSON good": ("t.jsonl", b'{"text": "ab cd", "class": "a"}\n{"text": "ef", "class": "b"}\n', SURVIVED),
    "JSON with numbers": (
        "t.jsonl",
        b'{"text": 12, "class": "a"}\n{"text": 34, "class": "b"}',
        ANY,
    ),
    "JSON with a later list": (
        "t.jsonl",
        b'{"text": "ab", "class": "a"}\n{"text": ["cd"], "class": "b"}\n',
        REFUSED,
    ),
    "JSON with a lone surrogate": (
        "t.jsonl",
        b'{"text": "ab \\ud800", "class": "a"}\n{"text": "cd", "class": "b"}\n',
        REFUSED,
    ),
    "JSON cut": ("t.jsonl", b'{"text": "ab", "class": "a"}\n{"text": "cd", "cla', REFUSED),
    "JSON nested deeply": ("t.jsonl", b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", REFUSED),
    "JSON labels of several types": (
        "t.jsonl",
        b'{"text": "ab", "class": 1}\n{"text": "cd", "class": "b"}\n{"text": "ef", "class": true}\n',
        SURVIVED,
    ),
    "JSON labels nested": (
        "t.jsonl",
        b'{"text": "ab", "class": "a"}\n{"text": "cd", "class": {"b": 1}}\n{"text": "e", "class": [[1]]}\n',
        REFUSED,
    ),
    "JSON label with a lone surrogate": (
        "t.jsonl",
        b'{"text": "ab", "class": "a\\ud800"}\n{"text": "cd", "class": "b"}\n',
        REFUSED,
    ),
    "JSON id of 400 digits": (
        "t.jsonl",
        b'{"id": 1' + b"0" * 400 + b', "text": "ab", "class": "a"}\n{"id": 2, "text": "cd", "class": "b"}\n',
        SURVIVED,
    ),
    "JSON ids twice": (
        "t.jsonl",
        b'{"id": 2, "text": "ab", "class": "a"}\n{"id": 2, "text": "cd", "class": "b"}\n',
        REFUSED,
    ),
    "a split with escapes": ("t.csv", b"text,class,split\nab,a,\x1b[2J\ncd,b,test\n", SURVIVED),
    "sentences beside numbers": ("t.csv", b"text,class,n\nab cd ef,a,1\ngh ij kl,b,2\n", SURVIVED),
    "names beside numbers": ("t.csv", b"text,class,n\na,a,1\nd,b,2\n", SURVIVED),
    "labels of a table that is missing": ("t.csv", b"text,n\na b c,1\nd e f,2\n", REFUSED),
    "a long text": (
        "t.jsonl",
        lambda: b'{"text": "' + b"w " * 9_000_000 + b'", "class": "a"}\n',
        REFUSED,
    ),
}


def tables() -> Iterator[Case]:
    """Tables with a column of texts."""
    for name, (file, content, expect) in TABLES.items():
        yield Case(
            f"table: {name}",
            lambda place, file=file, content=content: _write(place.source / file, content),
            ("run", f"{{source}}/{file}", *run_until("features")[2:]),
            expect=expect,
        )


def shard(*members: tuple[str, bytes] | tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar file with two good pictures and these members."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for one in (("1.png", PICTURE), ("1.cls", b"a"), ("2.png", PICTURE), ("2.cls", b"b"), *members):
            if isinstance(one, tarfile.TarInfo):
                archive.addfile(one)
                continue
            member = tarfile.TarInfo(one[0])
            member.size = len(one[1])
            archive.addfile(member, io.BytesIO(one[1]))
    return file.getvalue()


def strange_member(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0
) -> tarfile.TarInfo:
    """The header of a member without content."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, target, size
    return member


SHARDS: dict[str, tuple[Content, str]] = {
    "good": (lambda: shard(), SURVIVED),
    "empty": (bytes(1024), REFUSED),
    "no archive": (b"no archive" * 200, REFUSED),
    "cut": (lambda: shard(("3.png", bytes(5000)))[:4000], REFUSED),
    "compressed": (lambda: gzip.compress(shard()), REFUSED),
    "1,000 members of one key": (lambda: shard(*(("3.png", PICTURE) for _ in range(1000))), ANY),
    "a link": (lambda: shard(strange_member("3.png", tarfile.SYMTYPE, "/etc/passwd")), SURVIVED),
    "a link to a member": (lambda: shard(strange_member("3.png", tarfile.LNKTYPE, "1.png")), SURVIVED),
    "a device": (lambda: shard(strange_member("3.png", tarfile.CHRTYPE)), SURVIVED),
    "a FIFO": (lambda: shard(strange_member("3.png", tarfile.FIFOTYPE)), SURVIVED),
    "a member that claims 8 TB": (lambda: shard(strange_member("3.png", size=1 << 43)), REFUSED),
    "a sparse member": (lambda: shard(strange_member("3.png", tarfile.GNUTYPE_SPARSE)), ANY),
    "names upward": (lambda: shard(("../../../owned.png", PICTURE), ("/owned.png", PICTURE)), SURVIVED),
    "names with escapes": (lambda: shard(("\x1b[2J.png", PICTURE), ("\x1b[2J.cls", b"a")), SURVIVED),
    "a long name": (lambda: shard(("n" * 100_000 + ".png", PICTURE)), REFUSED),
    "a label with escapes": (lambda: shard(("3.png", PICTURE), ("3.cls", b"\x1b[2J")), REFUSED),
    "a label of 2 MB": (lambda: shard(("3.png", PICTURE), ("3.cls", b"a" * 2_000_000)), REFUSED),
    "JSON nested deeply": (lambda: shard(("3.png", PICTURE), ("3.json", b"[" * 100_000)), REFUSED),
    "a picture that is none": (lambda: shard(("3.png", b"no picture"), ("3.cls", b"a")), SKIPPED),
}


def shards() -> Iterator[Case]:
    """Shards of WebDataset."""
    for name, (content, expect) in SHARDS.items():
        yield Case(
            f"shard: {name}",
            lambda place, content=content: _write(place.source / "x.tar", content),
            ("run", "{source}/x.tar", *run_until("features")[2:]),
            expect=expect,
        )


@lru_cache
def good_clip(suffix: str) -> bytes:
    """A short clip with sound."""
    with TemporaryDirectory() as folder:
        return write_clip(Path(folder) / f"x.{suffix}", [(250, 0, 0)], 0.6).read_bytes()


def clip_case(name: str, content: Content, expect: str, file: str = "sky/x.mp4", **options: Any) -> Case:
    """Three good clips and a hostile one."""

    def make(place: Place) -> None:
        for k in range(3):
            _write(place.source / ("sky", "sea")[k % 2] / f"{k}.mp4", good_clip("mp4"))
        _write(place.source / file, content)

    command = run_until("features", *settings("features.extractors=color_moments"))
    return Case(name, make, command, expect=expect, **options)


def clips() -> Iterator[Case]:
    """Files that are hardly clips."""
    yield clip_case("good clip", lambda: good_clip("mp4"), SURVIVED, items=4)
    for suffix in ("mp4", "mkv", "avi"):
        file, size = f"sky/x.{suffix}", len(good_clip(suffix))
        for cut in (0, 1, 16, 100, size // 4, size // 2, size - 1):
            whole = good_clip(suffix)
            expect = SKIPPED if cut <= 100 else EITHER
            yield clip_case(f"{suffix} cut to {cut} bytes", whole[:cut], expect, file=file)
        for place in sorted({*range(0, 64, 8), *positions(1, size, 12)}):
            changed = flip(good_clip(suffix), place)
            yield clip_case(f"{suffix} byte {place} changed", changed, EITHER, file=file)
    secret = b"planted-secret-of-a-playlist"
    playlist = b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n"
    yield clip_case("a playlist", playlist + b"#" + secret, SKIPPED, secrets=(secret.decode(),))
    yield clip_case("a list of files to join", b"ffconcat version 1.0\nfile /etc/hostname\n", SKIPPED)
    yield clip_case("a text", b"no clip at all", SKIPPED)
    yield clip_case("a box of four gigabytes", struct.pack(">I4s", 2**32 - 1, b"ftyp") + b"isom", SKIPPED)
    yield clip_case("zeros", b"\0" * 1_000_000, SKIPPED)


def wav(samples: np.ndarray, rate: int = 8000) -> bytes:
    """A WAV file with one channel."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(samples.astype("<i2").tobytes())
    return buffer.getvalue()


def sound_case(name: str, content: Content, expect: str, file: str = "sky/x.wav", **options: Any) -> Case:
    """Four good sounds and a hostile one."""

    def make(place: Place) -> None:
        for k in range(4):
            samples = 9_000 * np.sin(np.arange(4_000) * (k + 1) / 9)
            _write(place.source / ("sky", "sea")[k % 2] / f"{k}.wav", wav(samples))
        _write(place.source / file, content)

    return Case(name, make, run_until("features"), expect=expect, **options)


def sounds() -> Iterator[Case]:
    """Files that are hardly sound."""
    if "mfcc" not in EXTRACTORS:
        return
    noise = wav(np.random.default_rng(1).normal(0, 3_000, 4_000))
    yield sound_case("good sound", noise, SURVIVED, items=5)
    for cut in (0, 1, 4, 12, 20, 36, 44, 45, len(noise) // 2):
        yield sound_case(f"wav cut to {cut} bytes", noise[:cut], SKIPPED, items=5)
    for place in sorted({*range(0, 44, 4), *positions(1, len(noise), 5)}):
        yield sound_case(f"wav byte {place} changed", flip(noise, place), EITHER, items=5)
    yield sound_case("silence", wav(np.zeros(4_000)), EITHER, items=5)
    yield sound_case("one sample", wav(np.ones(1)), EITHER, items=5)
    for suffix in ("flac", "ogg"):
        yield sound_case(f"a text as {suffix}", b"no sound at all", SKIPPED, f"sky/x.{suffix}", items=5)


def cases() -> list[Case]:
    """Every case of this section."""
    return [*texts(), *tables(), *shards(), *clips(), *sounds()]

"""Annotation files of COCO, FiftyOne, Label Studio and the Hugging Face Hub, spoiled in many ways."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.hostile.case import REFUSED, SKIPPED, SURVIVED, Case, Place, run_until, settings
from tests.hostile.samples import pictures
from tests.picture_collections import coco, fiftyone, minimal, samples, task

INGEST = run_until("ingest")
WARM_UP = "ingest"
ANY = f"{REFUSED}|{SKIPPED}|{SURVIVED}"
DEEP = 100_000
FILES = [f"p{k}.png" for k in range(4)]
LABELS = dict(zip(FILES, (["red"], ["blue"], ["red", "blue"], []), strict=True))
Content = bytes | Callable[[], bytes]
Change = Callable[[Any], object]


def one(name: str, content: Content, expect: str, *more: str, file: str, **options: Any) -> Case:
    """Four good pictures with this annotation file."""

    def make(place: Place) -> None:
        pictures(place.source)
        (place.source / "labels.csv").unlink()
        target = place.source / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content() if callable(content) else content)

    return Case(name, make, (*INGEST, *more), expect=expect, **options)


def changed(value: Any, change: Change) -> bytes:
    """JSON of a value after a change in place."""
    copy = json.loads(json.dumps(value))
    change(copy)
    return json.dumps(copy).encode("utf-8")


def put(*keys: Any, value: Any) -> Change:
    """Replace the value at a path of keys and positions."""

    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


def drop(*keys: Any) -> Change:
    """Delete the value at a path."""

    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        del content[keys[-1]]

    return change


COCO = coco(LABELS)
COCO_CASES: dict[str, tuple[Change, str]] = {
    "good": (lambda content: None, SURVIVED),
    "no images": (drop("images"), REFUSED),
    "no annotations": (drop("annotations"), REFUSED),
    "no categories": (drop("categories"), REFUSED),
    "empty images": (put("images", value=[]), REFUSED),
    "empty annotations": (put("annotations", value=[]), REFUSED),
    "empty categories": (put("categories", value=[]), REFUSED),
    "images as an object": (put("images", value={"1": "p0.png"}), REFUSED),
    "annotations as text": (put("annotations", value="none"), REFUSED),
    "categories null": (put("categories", value=None), REFUSED),
    "image as text": (put("images", 0, value="p0.png"), REFUSED),
    "image null": (put("images", 0, value=None), REFUSED),
    "annotation as a number": (put("annotations", 0, value=1), REFUSED),
    "no file name": (drop("images", 0, "file_name"), REFUSED),
    "empty file name": (put("images", 0, "file_name", value=" "), REFUSED),
    "file name a list": (put("images", 0, "file_name", value=["p0.png"]), REFUSED),
    "file name of 1 MB": (put("images", 0, "file_name", value="p" * 1_000_000), REFUSED),
    "escapes in a file name": (put("images", 0, "file_name", value="\x1b[2J.png"), SURVIVED),
    "nul in a file name": (put("images", 0, "file_name", value="p0\0.png"), REFUSED),
    "lone surrogate in a file name": (put("images", 0, "file_name", value="\ud800.png"), REFUSED),
    "path upward": (put("images", 0, "file_name", value="../../../etc/passwd"), SURVIVED),
    "absolute path": (put("images", 0, "file_name", value="/etc/passwd"), SURVIVED),
    "backslashes": (put("images", 0, "file_name", value=".\\p0.png"), SURVIVED),
    "address": (put("images", 0, "file_name", value="file:///etc/passwd"), SURVIVED),
    "id null": (put("images", 0, "id", value=None), REFUSED),
    "id a list": (put("images", 0, "id", value=[1]), REFUSED),
    "id true": (put("images", 0, "id", value=True), REFUSED),
    "id a text": (put("images", 0, "id", value="1000"), SURVIVED),
    "id a float": (put("images", 0, "id", value=1000.0), SURVIVED),
    "huge id": (put("images", 0, "id", value=10**400), SURVIVED),
    "repeated id": (put("images", 0, "id", value=1011), SURVIVED),
    "repeated image": (put("images", 0, "file_name", value="p1.png"), SURVIVED),
    "unknown image_id": (put("annotations", 0, "image_id", value=-1), SURVIVED),
    "unknown category_id": (put("annotations", 0, "category_id", value=-1), SURVIVED),
    "category_id an object": (put("annotations", 0, "category_id", value={}), REFUSED),
    "unknown files only": (lambda c: [image.update(file_name="q.png") for image in c["images"]], REFUSED),
    "category without name": (drop("categories", 0, "name"), REFUSED),
    "category name a number": (put("categories", 0, "name", value=7), SURVIVED),
    "category name empty": (put("categories", 0, "name", value=""), REFUSED),
    "category name of 1 MB": (put("categories", 0, "name", value="c" * 1_000_000), REFUSED),
    "escapes in a category": (put("categories", 0, "name", value="\x1b[31mred"), REFUSED),
    "formula as a category": (put("categories", 0, "name", value="=1+1"), SURVIVED),
    "one id, two categories": (put("categories", 0, "id", value=8), REFUSED),
    "two ids, one category": (put("categories", 0, "name", value="blue"), REFUSED),
    "unknown members": (put("extra", value={"a": [[1]]}), SURVIVED),
}

SAMPLES = samples(LABELS, multi=True)
FIRST = ("samples", 0)
SAMPLE_CASES: dict[str, tuple[Change, str]] = {
    "good": (lambda content: None, SURVIVED),
    "no samples": (put("samples", value=[]), REFUSED),
    "samples null": (put("samples", value=None), REFUSED),
    "samples an object": (put("samples", value={"1": {"filepath": "p0.png"}}), REFUSED),
    "a sample null": (put(*FIRST, value=None), REFUSED),
    "a sample a list": (put(*FIRST, value=[1]), REFUSED),
    "no path": (drop(*FIRST, "filepath"), REFUSED),
    "empty path": (put(*FIRST, "filepath", value=" "), REFUSED),
    "path a number": (put(*FIRST, "filepath", value=7), REFUSED),
    "path upward": (put(*FIRST, "filepath", value="../../etc/passwd"), SURVIVED),
    "absolute path": (put(*FIRST, "filepath", value="/etc/passwd"), SURVIVED),
    "path of an address": (put(*FIRST, "filepath", value="https://a:hunter2@b/p0.png"), SURVIVED),
    "tags null": (put(*FIRST, "tags", value=None), SURVIVED),
    "tags as numbers": (put(*FIRST, "tags", value=[1, {"a": 2}]), SURVIVED),
    "labels null": (put(*FIRST, "ground_truth", value=None), SURVIVED),
    "labels as text": (put(*FIRST, "ground_truth", value="red"), SURVIVED),
    "classifications null": (put(*FIRST, "ground_truth", "classifications", value=None), REFUSED),
    "classifications as texts": (put(*FIRST, "ground_truth", "classifications", value=["red"]), REFUSED),
    "class of labels a list": (put(*FIRST, "ground_truth", "_cls", value=["x"]), SURVIVED),
    "unknown class of labels": (put(*FIRST, "ground_truth", "_cls", value="Regression"), SURVIVED),
    "a label null": (put(*FIRST, "ground_truth", "classifications", 0, "label", value=None), REFUSED),
    "a label a list": (put(*FIRST, "ground_truth", "classifications", 0, "label", value=["x"]), REFUSED),
    "a label with escapes": (
        put(*FIRST, "ground_truth", "classifications", 0, "label", value="\x1b[2J"),
        REFUSED,
    ),
    "the same path twice": (put("samples", 1, "filepath", value="data/p0.png"), REFUSED),
    "unknown members": (put("extra", value={"a": [[1]]}), SURVIVED),
}

FIFTYONE = fiftyone(LABELS, multi=True)
FIFTYONE_CASES: dict[str, tuple[Change, str]] = {
    "good": (lambda content: None, SURVIVED),
    "classes null": (put("classes", value=None), SURVIVED),
    "no classes": (drop("classes"), SURVIVED),
    "classes as text": (put("classes", value="red"), ANY),
    "classes as numbers": (put("classes", value=[5, 6]), SURVIVED),
    "a class null": (put("classes", 0, value=None), ANY),
    "a class a list": (put("classes", 0, value=["red"]), REFUSED),
    "a class empty": (put("classes", 0, value=" "), REFUSED),
    "a class with escapes": (put("classes", 0, value="\x1b[2J"), REFUSED),
    "equal classes": (put("classes", 0, value="red"), REFUSED),
    "no labels": (drop("labels"), REFUSED),
    "labels null": (put("labels", value=None), REFUSED),
    "labels as a list": (put("labels", value=[0, 1]), REFUSED),
    "labels empty": (put("labels", value={}), REFUSED),
    "target out of range": (put("labels", "p0", value=[9]), SURVIVED),
    "target negative": (put("labels", "p0", value=-1), SURVIVED),
    "target of 400 digits": (put("labels", "p0", value=10**400), SURVIVED),
    "target a float": (put("labels", "p0", value=0.5), REFUSED),
    "target true": (put("labels", "p0", value=True), REFUSED),
    "target nested": (put("labels", "p0", value=[[0]]), REFUSED),
    "target an empty object": (put("labels", "p0", value={}), REFUSED),
    "target an object": (put("labels", "p0", value={"label": 0, "confidence": float("nan")}), SURVIVED),
    "boxes": (put("labels", "p0", value=[{"label": "red", "bounding_box": [0, 0, 1, 1]}]), SURVIVED),
    "path upward": (put("labels", "../../etc/passwd", value=[0]), SURVIVED),
    "absolute path": (put("labels", "/etc/passwd", value=[0]), SURVIVED),
    "empty name": (put("labels", "", value=[0]), REFUSED),
    "name of 1 MB": (put("labels", "n" * 1_000_000, value=[0]), REFUSED),
    "escapes in a name": (put("labels", "\x1b[2J", value=[0]), SURVIVED),
}

CHOICES = [
    task(k, f"/data/upload/1/0a1b2c3d-{name}", [given]) for k, (name, given) in enumerate(LABELS.items())
]
RESULT = (0, "annotations", 0, "result")
STUDIO_CASES: dict[str, tuple[Change, str]] = {
    "good": (lambda content: None, SURVIVED),
    "no tasks": (lambda content: content.clear(), REFUSED),
    "a task null": (put(1, value=None), REFUSED),
    "a task a list": (put(1, value=[]), REFUSED),
    "data null": (put(0, "data", value=None), REFUSED),
    "no data": (drop(0, "data"), REFUSED),
    "data empty": (put(0, "data", value={}), REFUSED),
    "data with another key": (put(0, "data", value={"photo": "/data/upload/1/p0.png"}), SURVIVED),
    "data with text only": (put(0, "data", value={"text": "p0"}), REFUSED),
    "image a number": (put(0, "data", "image", value=5), REFUSED),
    "image of 1 MB": (put(0, "data", "image", value="/" + "p" * 1_000_000 + ".png"), REFUSED),
    "image with escapes": (put(0, "data", "image", value="\x1b[2J.png"), SURVIVED),
    "image with a nul": (put(0, "data", "image", value="/data/upload/p%00.png"), REFUSED),
    "path upward": (put(0, "data", "image", value="/data/local-files/?d=../../etc/x.png"), SURVIVED),
    "absolute path": (put(0, "data", "image", value="/etc/x.png"), SURVIVED),
    "address with a login": (put(0, "data", "image", value="https://me:hunter2@host/x.png"), SURVIVED),
    "address that is none": (put(0, "data", "image", value="http://[::1/p0.png"), SURVIVED),
    "address with many fields": (put(0, "data", "image", value="/data/x.png?" + "a=1&" * 9999), SURVIVED),
    "annotations null": (put(0, "annotations", value=None), REFUSED),
    "annotations an object": (put(0, "annotations", value={}), REFUSED),
    "annotation a text": (put(0, "annotations", 0, value="red"), REFUSED),
    "no result": (drop(*RESULT), REFUSED),
    "result an object": (put(*RESULT, value={}), REFUSED),
    "result null": (put(*RESULT, 0, value=None), SURVIVED),
    "value null": (put(*RESULT, 0, "value", value=None), SURVIVED),
    "choices as text": (put(*RESULT, 0, "value", "choices", value="red"), REFUSED),
    "choice null": (put(*RESULT, 0, "value", "choices", value=[None]), REFUSED),
    "choice with escapes": (put(*RESULT, 0, "value", "choices", value=["\x1b[2J"]), REFUSED),
    "taxonomy empty": (put(*RESULT, 0, "value", value={"taxonomy": [[]]}), REFUSED),
    "taxonomy deep": (put(*RESULT, 0, "value", value={"taxonomy": [[["a"]]]}), REFUSED),
    "all cancelled": (lambda c: [one["annotations"][0].update(was_cancelled=True) for one in c], REFUSED),
    "no annotations": (lambda c: [one.update(annotations=[]) for one in c], REFUSED),
    "predictions only": (lambda c: [one.update(annotations=[]) for one in c[1:]], REFUSED),
}

MINIMAL = [
    minimal(k, name, choice=given[0] if given else {"choices": []})
    for k, (name, given) in enumerate(LABELS.items())
]
MINIMAL_CASES: dict[str, tuple[Change, str]] = {
    "good": (lambda content: None, SURVIVED),
    "no image": (drop(0, "image"), REFUSED),
    "image null": (put(0, "image", value=None), REFUSED),
    "no id": (lambda c: [one.pop("id") for one in c], ANY),
    "answer null": (put(0, "choice", value=None), SURVIVED),
    "answer a number": (put(0, "choice", value=5), SURVIVED),
    "answer empty": (put(0, "choice", value=""), REFUSED),
    "answer with escapes": (put(0, "choice", value="\x1b[2J"), REFUSED),
    "answer nested": (put(0, "choice", value=[[["red"]]]), SURVIVED),
    "answer of a text area": (put(0, "choice", value={"text": ["a poem"]}), SURVIVED),
    "choices a number": (put(0, "choice", value={"choices": 5}), REFUSED),
    "labels with a null": (put(0, "choice", value=[{"rectanglelabels": [None]}]), REFUSED),
    "no answers": (lambda c: [one.pop("choice") for one in c], REFUSED),
    "no annotator": (lambda c: [one.pop("annotator") for one in c], ANY),
}

OBJECTS = [
    {"file_name": name, "objects": {"bbox": [[0, 0, 1, 1]], "categories": given}}
    for name, given in LABELS.items()
]
OBJECT_CASES: dict[str, tuple[Change, str]] = {
    "good": (lambda content: None, SURVIVED),
    "null": (put(0, "objects", value=None), SURVIVED),
    "a text": (put(0, "objects", value="red"), SURVIVED),
    "a number": (put(0, "objects", value=3), SURVIVED),
    "empty object": (put(0, "objects", value={}), REFUSED),
    "empty list": (put(0, "objects", value=[]), SURVIVED),
    "boxes only": (put(0, "objects", value={"bbox": [[0, 0, 1, 1]]}), REFUSED),
    "list of objects": (put(0, "objects", value=[{"category": "red"}, {"category": "blue"}]), SURVIVED),
    "list of boxes": (put(0, "objects", value=[{"bbox": [0]}]), REFUSED),
    "list of lists": (put(0, "objects", value=[["red"]]), REFUSED),
    "categories a text": (put(0, "objects", "categories", value="red"), SURVIVED),
    "categories nested": (put(0, "objects", "categories", value=[["red"]]), REFUSED),
    "categories null": (put(0, "objects", "categories", value=None), ANY),
    "category null": (put(0, "objects", "categories", value=[None]), ANY),
    "category with escapes": (put(0, "objects", "categories", value=["\x1b[2J"]), REFUSED),
    "category numbers": (lambda c: [put("objects", "categories", value=[0, 1])(one) for one in c], SURVIVED),
}


def texts(content: Any) -> dict[str, tuple[Content, str]]:
    """JSON that is damaged as text."""
    good = json.dumps(content)
    body, end = good[:-1], good[-1]
    return {
        "indented, with a byte-order mark": (("\ufeff" + json.dumps(content, indent=4)).encode(), SURVIVED),
        "windows line ends": (json.dumps(content, indent=1).replace("\n", "\r\n").encode(), SURVIVED),
        "cut": (good[: len(good) // 2].encode(), ANY),
        "cut at the end": (body.encode(), REFUSED),
        "trailing comma": (f"{body},{end}".encode(), REFUSED),
        "more after the end": (f"{good} {end}".encode(), REFUSED),
        "no comma": (good.replace("}, {", "} {", 1).encode(), ANY),
        "single quotes": (good.replace('"', "'").encode(), ANY),
        "comments": (f"// made by hand\n{good}".encode(), ANY),
        "raw control character": (good.replace("red", "r\x1bd").encode(), REFUSED),
        "latin-1": (good.replace("red", "r\u00e9d").encode("latin-1"), REFUSED),
        "utf-16": (good.encode("utf-16"), REFUSED),
        "nul bytes": (good.encode() + bytes(100), REFUSED),
        "number of 5,000 digits": ((good.replace('"red"', "1" * 5000, 1)).encode(), REFUSED),
        "deep lists": ((good.replace('"red"', "[" * DEEP + "]" * DEEP, 1)).encode(), REFUSED),
        "deep objects": ((good.replace('"red"', '{"a":' * DEEP + "1" + "}" * DEEP, 1)).encode(), REFUSED),
    }


def many() -> Iterator[Case]:
    """Files that claim much, and members that are repeated."""
    lists = b'{"images": [' + b"{}," * 10_000_000 + b'{}], "annotations": [], "categories": []}'
    yield one("coco: ten million empty images", lambda: lists, REFUSED, file="coco.json")
    inner = b'{"images": [], "categories": [], "annotations": [' + b"[" + b"[]," * 10_000_000 + b"[]]]}"
    yield one("coco: one annotation of ten million lists", lambda: inner, REFUSED, file="coco.json")
    twice = json.dumps(COCO)[:-1] + ', "images": []}'
    yield one("coco: a member twice", twice.encode(), REFUSED, file="coco.json", says=("more than once",))

    def unknown() -> bytes:
        content = coco({**LABELS, **{f"q{k}.png": ["red"] for k in range(50_000)}})
        return json.dumps(content).encode()

    yield one("coco: 50,000 unknown files", unknown, SURVIVED, file="coco.json", items=4)

    def labels() -> bytes:
        return json.dumps(coco({name: [f"c{k}" for k in range(5_000)] for name in FILES})).encode()

    yield one("coco: 5,000 categories", labels, f"{SURVIVED}|{REFUSED}", file="coco.json")
    yield one(
        "coco: named by source.labels",
        json.dumps(COCO).encode(),
        SURVIVED,
        *settings("source.labels=mine.json", "source.strict=true"),
        file="mine.json",
    )
    yield one("json of another kind", b'{"a": 1}', REFUSED, *settings("source.labels=x.json"), file="x.json")
    yield one("json that is empty", b"", REFUSED, *settings("source.labels=x.json"), file="x.json")


def places() -> Iterator[Case]:
    """Annotation files that are links, folders or special files."""

    def make(change: Callable[[Path], object]) -> Callable[[Place], None]:
        def act(place: Place) -> None:
            pictures(place.source)
            (place.source / "labels.csv").unlink()
            (place.folder / "secret.json").write_text(json.dumps(COCO), encoding="utf-8")
            change(place.source)

        return act

    import os

    outside = make(lambda folder: (folder / "coco.json").symlink_to(folder.parent / "secret.json"))
    yield Case("link to a file outside", outside, INGEST, says=("outside", "not followed"))
    loop = make(lambda folder: (folder / "coco.json").symlink_to("coco.json"))
    yield Case("link to itself", loop, INGEST, says=("no labels",))
    fifo = make(lambda folder: os.mkfifo(folder / "coco.json"))
    yield Case("fifo", fifo, INGEST, says=("no labels",))
    device = make(lambda folder: (folder / "coco.json").symlink_to("/dev/zero"))
    yield Case("device", device, INGEST, says=("no labels",))
    inside = make(lambda folder: (folder / "coco.json").mkdir())
    yield Case("folder", inside, INGEST, says=("no labels",))
    named = make(lambda folder: os.mkfifo(folder / "coco.json"))
    yield Case("fifo named by source.labels", named, (*INGEST, *settings("source.labels=coco.json")))


CARDS: dict[str, tuple[bytes, str]] = {
    "good": (
        b"---\n- name: label\n  class_label:\n    names:\n      '0': red\n      '1': blue\n---\n",
        SURVIVED,
    ),
    "not closed": (b"---\n- name: label\n  class_label:\n    names:\n      '0': red\n", SURVIVED),
    "escapes": (b"---\n- name: label\n  class_label:\n    names:\n      '0': \x1b[2J\n---\n", SURVIVED),
    "a name of 1 MB": (
        b"---\n- name: label\n  class_label:\n    names:\n      '0': " + b"r" * 10**6 + b"\n---\n",
        SURVIVED,
    ),
    "a million names": (
        b"---\n- name: label\n  class_label:\n    names:\n" + b"    - red\n" * 10**6 + b"---\n",
        ANY,
    ),
    "not text": (bytes(range(256)) * 100, SURVIVED),
    "aliases": (b"---\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n---\n", SURVIVED),
}


def cards() -> Iterator[Case]:
    """Dataset cards beside numbered classes."""

    def make(content: bytes, name: str) -> Callable[[Place], None]:
        def act(place: Place) -> None:
            pictures(place.source)
            (place.source / "labels.csv").unlink()
            rows = [f"{file},{k % 2}" for k, file in enumerate(FILES)]
            (place.source / "metadata.csv").write_text(
                "\n".join(["file_name,label", *rows]), encoding="utf-8"
            )
            (place.source / name).write_bytes(content)

        return act

    for title, (content, expect) in CARDS.items():
        yield Case(f"card: {title}", make(content, "README.md"), INGEST, expect=expect, items=4)
    for title, content in {
        "not json": b"{",
        "deep": b'{"features":' * DEEP,
        "names that are numbers": b'{"features": {"label": {"names": [1, 2]}}}',
        "no names": b'{"features": {"label": {"names": []}}}',
    }.items():
        yield Case(f"info: {title}", make(content, "dataset_info.json"), INGEST, expect=SURVIVED, items=4)


def lines(records: list[Any]) -> bytes:
    """JSON lines."""
    return "\n".join(map(json.dumps, records)).encode()


def cases() -> list[Case]:
    """The cases of this section."""
    tables = (
        ("coco", "annotations/instances_default.json", COCO, COCO_CASES),
        ("fiftyone", "labels.json", FIFTYONE, FIFTYONE_CASES),
        ("samples", "samples.json", SAMPLES, SAMPLE_CASES),
        ("label studio", "export.json", CHOICES, STUDIO_CASES),
        ("json-min", "export.json", MINIMAL, MINIMAL_CASES),
    )
    found = [
        one(f"{kind}: {title}", changed(content, change), expect, file=file, secrets=("hunter2",))
        for kind, file, content, table in tables
        for title, (change, expect) in table.items()
    ]
    found += [
        one(f"{kind}: {title}", text, expect, file=file)
        for kind, file, content, _ in tables
        for title, (text, expect) in texts(content).items()
    ]
    for title, (change, expect) in OBJECT_CASES.items():
        records = json.loads(changed(OBJECTS, change))
        found.append(one(f"objects: {title}", lines(records), expect, file="metadata.jsonl"))
    return [*found, *many(), *places(), *cards()]

"""Inputs for the fuzzer: valid and nearly valid files, made from random choices."""

import io
import json
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from tests.picture_collections import coco, fiftyone, minimal, task

NUMBERS = [
    "0",
    "1",
    "-1",
    "2.5",
    "1e3",
    "1e60",
    "1e400",
    "nan",
    "inf",
    "infinity",
    "1_0",
    "٣",
    "?",
    "",
    "0x10",
]
NUMBERS += ["9" * 30, "9" * 5000, "-", "+", ".", "1e", "\0", "1 2", "NA", "true"]
TEXTS = [
    "a",
    "b",
    "sky",
    "it's",
    '"',
    "'",
    "\\",
    "a b",
    "",
    " ",
    "é",
    "\u202e",
    "\x1b[31m",
    "\ufeff",
    "a,b",
    "a|b",
]
TEXTS += [
    "=1+1",
    "x" * 2000,
    "\r",
    "\t",
    "%",
    "{",
    "}",
    "../x",
    "0.png",
    "1.png",
    "2.png",
    "id",
    "\x85",
    "\u2028",
]


def _cells(rng: random.Random, pool: list[str], count: int) -> list[str]:
    return [rng.choice(pool) for _ in range(count)]


def _clean(rng: random.Random, clean: list[str], odd: list[str]) -> str:
    """Mostly an ordinary value: a file with many odd ones is refused at the first."""
    return rng.choice(odd if rng.random() < 0.1 else clean)


def make_arff(rng: random.Random) -> bytes:
    width = rng.randint(1, 4)
    good, odd = ["numeric", "real", "{1,5,2.5,0}", "{0,1,2.5}"], ["string", "{", "{a,'b}", "date", "{a,b}"]
    kinds = [_clean(rng, good, odd) for _ in range(width)]
    lines = ["@relation r", *(f"@attribute a{k} {kind}" for k, kind in enumerate(kinds))]
    lines += ["@attribute class {a,b,'c d'}", "@data"]
    is_sparse = rng.random() < 0.4
    for _ in range(rng.randint(1, 5)):
        cells = [_clean(rng, ["1", "0", "2.5"], NUMBERS + TEXTS) for _ in range(width)]
        cells.append(_clean(rng, ["a", "b", "'c d'"], TEXTS))
        if is_sparse:
            lines.append("{" + ",".join(f"{k} {cell}" for k, cell in enumerate(cells)) + "}")
        else:
            lines.append(",".join(cells))
    return rng.choice(["\n", "\r\n", "\r"]).join(lines).encode("utf-8", "surrogatepass")


def make_xml(rng: random.Random) -> bytes:
    names = [_clean(rng, ["sky", "sea"], TEXTS) for _ in range(rng.randint(0, 4))]
    inner = "".join(f'<label name="{name}"></label>' for name in names)
    return f'<?xml version="1.0"?><labels>{inner}</labels>'.encode("utf-8", "surrogatepass")


def make_csv(rng: random.Random) -> bytes:
    mark = rng.choice([",", ";", "\t"])
    header = ["f0", *rng.choice([["class"], ["label:a", "label:b"], ["class", "split"], ["class", "x"]])]
    lines = [mark.join(header)]
    for _ in range(rng.randint(0, 5)):
        lines.append(mark.join(_clean(rng, ["1", "0"], NUMBERS + TEXTS) for _ in header))
    return rng.choice(["\n", "\r\n", "\r"]).join(lines).encode("utf-8", "surrogatepass")


def make_labels(rng: random.Random) -> bytes:
    lines = [_clean(rng, ["filename,labels", "file_name,label", "filename,labels,split"], TEXTS)]
    for k in range(rng.randint(0, 4)):
        name = _clean(rng, [f"{k}.png"], TEXTS)
        lines.append(f"{name},{_clean(rng, ['a', 'b', 'a|b', ''], TEXTS)}")
    return rng.choice(["\n", "\r\n", "\r"]).join(lines).encode("utf-8", "surrogatepass")


def _value(rng: random.Random, depth: int = 0) -> Any:
    choices: list[Callable[[], Any]] = [
        lambda: rng.choice(TEXTS),
        lambda: rng.choice([0, 1, -1, 10**20, 1.5, float("inf"), True, None, "\ud800", "a|b"]),
        lambda: [_value(rng, depth + 1) for _ in range(rng.randint(0, 2))] if depth < 3 else [],
        lambda: {rng.choice(TEXTS): _value(rng, depth + 1)} if depth < 3 else {},
    ]
    return rng.choice(choices)()


def make_jsonl(rng: random.Random) -> bytes:
    lines = []
    nested = rng.random() < 0.3
    for k in range(rng.randint(0, 4)):
        labels = rng.choice([["a"], ["a", "b"], "b"]) if rng.random() < 0.8 else _value(rng)
        record = {"file_name": f"{k}.png" if rng.random() < 0.9 else _value(rng), "labels": labels}
        if nested:
            record["objects"] = {"bbox": [[0, 0, 1, 1]], "categories": record.pop("labels")}
        lines.append(json.dumps(record if rng.random() < 0.95 else _value(rng)))
    return "\n".join(lines).encode()


def _given(rng: random.Random) -> dict[str, list[str]]:
    """Labels of some images, mostly of those that exist."""
    labels = [["a"], ["b"], ["a", "b"], []]
    return {_clean(rng, [f"{k}.png"], TEXTS): rng.choice(labels) for k in range(rng.randint(0, 4))}


def _spoil(rng: random.Random, value: Any) -> Any:
    """Replace a value somewhere below by another one, or delete it."""
    keys = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    if not keys or rng.random() < 0.2:
        return _value(rng)
    key = rng.choice(keys)
    if rng.random() < 0.1:
        del value[key]
    else:
        value[key] = _spoil(rng, value[key])
    return value


def _spoiled(rng: random.Random, value: Any) -> bytes:
    for _ in range(rng.choice([0, 1, 1, 2])):
        value = _spoil(rng, value)
    return json.dumps(value, indent=rng.choice([None, None, 1])).encode()


def make_coco(rng: random.Random) -> bytes:
    content = coco(_given(rng))
    keys = rng.sample(list(content), len(content)) if rng.random() < 0.3 else list(content)
    return _spoiled(rng, {key: content[key] for key in keys})


def make_fiftyone(rng: random.Random) -> bytes:
    return _spoiled(rng, fiftyone(_given(rng), multi=True))


def make_tasks(rng: random.Random) -> bytes:
    kind = rng.choice(["choices", "rectanglelabels", "taxonomy"])
    forms = ["{}", "/data/upload/1/0a1b2c3d-{}", "/data/local-files/?d=x/{}", "http://h/{}?a=b"]
    tasks = [
        task(k, rng.choice(forms).format(name), [given], kind=kind)
        for k, (name, given) in enumerate(_given(rng).items())
    ]
    return _spoiled(rng, tasks)


def make_minimal(rng: random.Random) -> bytes:
    answers = [{"choices": ["a", "b"]}, "a", "b", [{"polygonlabels": ["a"]}], [], {"text": ["x"]}]
    return _spoiled(rng, [minimal(k, name, tags=rng.choice(answers)) for k, name in enumerate(_given(rng))])


def make_card(rng: random.Random) -> bytes:
    names = [_clean(rng, [f"'{k}': name {k}", f"- name {k}"], TEXTS) for k in range(rng.randint(0, 4))]
    column = _clean(rng, ["label", "labels", "objects"], TEXTS)
    head = ["---", "dataset_info:", "  features:", f"  - name: {column}", "    dtype:", "      class_label:"]
    lines = [*head, "        names:", *(f"          {name}" for name in names), "---", "# Text"]
    return rng.choice(["\n", "\r\n"]).join(lines).encode("utf-8", "surrogatepass")


def make_edges(rng: random.Random) -> bytes:
    ends = rng.choice([("i", "j"), ("source", "target"), ("id_i", "id_j")])
    good = ["0", "1", "4"] if ends == ("i", "j") else ["item 0", "item 1"]
    lines = [",".join([*ends, rng.choice(["w", "weight", "x"])])]
    for _ in range(rng.randint(0, 4)):
        lines.append(
            ",".join([*(_clean(rng, good, TEXTS + NUMBERS) for _ in ends), _clean(rng, ["1"], NUMBERS)])
        )
    return "\n".join(lines).encode("utf-8", "surrogatepass")


TYPES: list[Callable[[int], pa.Array]] = [
    lambda n: pa.array(np.arange(n), pa.float64()),
    lambda n: pa.array(np.arange(n), pa.float32()),
    lambda n: pa.array(np.arange(n).astype(np.float16)),
    lambda n: pa.array([k % 2 for k in range(n)], pa.int8()),
    lambda n: pa.array([k % 2 for k in range(n)], pa.uint64()),
    lambda n: pa.array([k % 2 == 0 for k in range(n)]),
    lambda n: pa.array([None] * n, pa.null()),
    lambda n: pa.array([None] * n, pa.float64()),
    lambda n: pa.array([f"t{k}" for k in range(n)]),
    lambda n: pa.array([TEXTS[k % len(TEXTS)] for k in range(n)], pa.large_string()),
    lambda n: pa.array([b"\xff\x00"] * n),
    lambda n: pa.array([[f"l{k % 2}"] for k in range(n)]),
    lambda n: pa.array([[["x"]]] * n),
    lambda n: pa.array([{"a": 1}] * n),
    lambda n: pa.array([[("k", 1)]] * n, pa.map_(pa.string(), pa.int64())),
    lambda n: pa.array([Decimal("1.5")] * n),
    lambda n: pa.array([2**62] * n, pa.timestamp("us")),
    lambda n: pa.array([2**62] * n, pa.timestamp("ns", "Mars/Base")),
    lambda n: pa.array([2**31 - 1] * n, pa.date32()),
    lambda n: pa.array([2**62] * n, pa.duration("s")),
    lambda n: pa.array(["a"] * n).dictionary_encode(),
    lambda n: pa.array([b"ab"] * n, pa.binary(2)),
    lambda n: pa.array([[1.0, 2.0]] * n, pa.list_(pa.float32(), 2)),
    lambda n: pa.array([float("inf")] * n),
]


def make_parquet(rng: random.Random, names: list[str], usual: dict[str, int]) -> bytes:
    """A table with some of the names; `usual` gives the position in TYPES of the type that a column has."""
    n = rng.choice([0, 1, 2, 2, 3, 3, 5])
    columns = {}
    oddity = rng.choice([0, 0.1, 0.5])
    for name in rng.sample(names, rng.randint(1, len(names))):
        kind = usual.get(name, 0) if rng.random() >= oddity else rng.randrange(len(TYPES))
        columns[name] = TYPES[kind](n)
    target = io.BytesIO()
    table = pa.table(columns)
    if rng.random() < 0.2:
        table = table.replace_schema_metadata({"feature_names": rng.choice(["[", "[" * 5000, '["a"]', "3"])})
    options = {
        "compression": rng.choice(["zstd", "snappy", "gzip", "none"]),
        "use_dictionary": rng.random() < 0.5,
    }
    pq.write_table(table, target, store_schema=rng.random() < 0.7, **options)
    return target.getvalue()


def make_npz(rng: random.Random) -> bytes:
    target = io.BytesIO()
    shape = rng.choice([(2, 3), (2, 1), (3, 3), (0, 3), (2, 0)])
    kind = rng.choice([np.float64, np.float32, np.int8, np.bool_, np.complex64])
    dense = np.arange(shape[0] * shape[1]).reshape(shape).astype(kind)
    made = rng.choice(["csr", "csc", "coo", "dia", "bsr"])
    form = "csr" if 0 in shape else made
    sparse.save_npz(target, sparse.csr_array(dense).asformat(form), compressed=rng.random() < 0.5)
    return target.getvalue()


def make_toml(rng: random.Random) -> bytes:
    keys = [
        "source.path",
        "affinity.n_neighbors",
        "embedding.method",
        "evaluation.folds",
        "a.b",
        '"x y"',
        "source",
    ]
    values = [
        "1",
        "1.5",
        "nan",
        "true",
        '"iris"',
        "[1, 2]",
        "{a = 1}",
        "1979-05-27",
        "9" * 5000,
        '"\\ud800"',
        "'''x",
    ]
    lines = [f"{rng.choice(keys)} = {_clean(rng, values[:6], values)}" for _ in range(rng.randint(0, 4))]
    return "\n".join([*lines, rng.choice(["", "[source]", "[[source]]", "[a.b]", "path = 1"])]).encode()


def make_model(rng: random.Random) -> bytes:
    from storage.artifacts.models import dump_model

    parts: list[Any] = [np.eye(3), {"a": [1, "b"]}, sparse.csr_matrix(np.eye(3)), (1.5, None), "text"]
    return dump_model(rng.sample(parts, rng.randint(1, len(parts))))


TYPES.append(lambda n: pa.array([f"{k}.png" for k in range(n)]))
_TABLE = {"class": 8, "split": 8, "id": 8, "label:a": 3, "label:b": 3}
_LABELED = [["class"], ["label:a", "label:b"], ["class", "label:a"], []]
_OWN = ["width", "Unnamed: 0", "color", "clip", "dino", "target", "tags", "when", "item_id", "split", "y"]
_OWN_TYPES = {"color": 20, "clip": 22, "dino": 22, "target": 8, "tags": 11, "when": 18, "item_id": 8, "y": 20}


def make_own_csv(rng: random.Random) -> bytes:
    """A table with ordinary column names."""
    header = [*rng.sample(["width", "", "color", "Alone", "f1", "item_id"], rng.randint(1, 4)), "target"]
    lines = [",".join(header)]
    for k in range(rng.randint(0, 5)):
        good = {
            "color": ["red", "blue", ""],
            "Alone": ["True", "False"],
            "item_id": [f"i{k}"],
            "target": ["a", "b"],
        }
        lines.append(",".join(_clean(rng, good.get(name, ["1", "2.5"]), NUMBERS + TEXTS) for name in header))
    return rng.choice(["\n", "\r\n"]).join(lines).encode("utf-8", "surrogatepass")


def make_feather(rng: random.Random) -> bytes:
    """A Feather file, or an Arrow stream."""
    n = rng.choice([0, 1, 2, 3, 5])
    oddity = rng.choice([0, 0.1, 0.5])
    columns = {}
    for name in rng.sample(_OWN, rng.randint(1, len(_OWN))):
        kind = _OWN_TYPES.get(name, 0) if rng.random() >= oddity else rng.randrange(len(TYPES))
        columns[name] = TYPES[kind](n)
    table, target = pa.table(columns), io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]))
    open_writer = rng.choice([pa.ipc.new_file, pa.ipc.new_stream])
    with open_writer(target, table.schema, options=options) as writer:
        writer.write_table(table)
    return target.getvalue()


def _dense(rng: random.Random) -> np.ndarray:
    shape = rng.choice([(2, 3), (2, 1), (3, 3), (0, 3), (2, 0), (2,), (2, 2, 2)])
    kind = rng.choice([np.float64, np.float32, np.float16, np.int8, np.bool_, np.complex64, "U3"])
    return np.arange(int(np.prod(shape))).reshape(shape).astype(kind)


def make_npy(rng: random.Random) -> bytes:
    """An array of features."""
    target = io.BytesIO()
    np.save(target, _dense(rng))
    return target.getvalue()


def make_dense_npz(rng: random.Random) -> bytes:
    """An archive of arrays, perhaps with labels and ids."""
    target = io.BytesIO()
    names = rng.sample(["X", "clip", "y", "Y", "ids", "label_names"], rng.randint(1, 4))
    save = rng.choice([np.savez, np.savez_compressed])
    save(target, **{name: _dense(rng) for name in names})
    return target.getvalue()


def make_feature_table(rng: random.Random) -> bytes:
    """Features of the items of `reading.IDS`."""
    lines = [_clean(rng, ["id,x,y2", "filename,x,color"], TEXTS)]
    for k in range(rng.randint(0, 7)):
        name = _clean(rng, [f"item {k}"], TEXTS)
        lines.append(f"{name},{_clean(rng, ['1', '2.5'], NUMBERS)},{_clean(rng, ['3', '4'], NUMBERS)}")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


SEEDS: dict[str, Callable[[random.Random], bytes]] = {
    "arff": make_arff,
    "xml": make_xml,
    "csv": make_csv,
    "parquet": lambda rng: make_parquet(rng, ["f0", "f1", *rng.choice(_LABELED), "id", "x"], _TABLE),
    "npz": make_npz,
    "own-csv": make_own_csv,
    "feather": make_feather,
    "npy": make_npy,
    "npz-dense": make_dense_npz,
    "feature-table": make_feature_table,
    "label-table": lambda rng: make_parquet(rng, [*rng.choice(_LABELED), "id", "split"], _TABLE),
    "labels": make_labels,
    "labels-jsonl": make_jsonl,
    "labels-parquet": lambda rng: make_parquet(
        rng,
        ["file_name", "labels", "label", "split"],
        {"file_name": -1, "labels": 11, "label": 8, "split": 8},
    ),
    "coco": make_coco,
    "fiftyone": make_fiftyone,
    "label-studio": make_tasks,
    "json-min": make_minimal,
    "card": make_card,
    "edges": make_edges,
    "edges-parquet": lambda rng: make_parquet(rng, ["i", "j", "w", "source", "target"], {"i": 3, "j": 3}),
    "toml": make_toml,
    "model": make_model,
}

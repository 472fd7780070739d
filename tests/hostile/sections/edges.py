"""Edge lists: ends that do not exist, weights that are no weights, damaged files."""

from collections.abc import Iterator
from typing import Any

from tests.hostile.case import REFUSED, SURVIVED, Case, Place, run_until, settings
from tests.hostile.samples import flip, positions, table_text
from tests.hostile.sections.tables import parquet

ANY = f"{REFUSED}|{SURVIVED}"
ROWS = 12
GOOD = "i,j,w\n" + "".join(f"{k},{(k + 1) % ROWS},1\n" for k in range(ROWS))


def one(
    name: str, content: str | bytes, expect: str, *more: str, file: str = "e.csv", **options: Any
) -> Case:
    """A good table with an edge list."""

    def make(place: Place) -> None:
        place.source.mkdir()
        ids = ["id", *(f"n{k}" for k in range(ROWS))]
        lines = [f"{name},{line}" for name, line in zip(ids, table_text(ROWS).splitlines(), strict=True)]
        (place.source / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (place.folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())

    command = (
        "run",
        "{source}/t.csv",
        *run_until("affinity")[2:],
        *settings(f"source.edges={{here}}/{file}"),
        *more,
    )
    return Case(name, make, command, expect=expect, **options)


TEXTS: dict[str, tuple[str, str]] = {
    "good": (GOOD, SURVIVED),
    "no weights": (GOOD.replace(",w\n", "\n").replace(",1\n", "\n"), SURVIVED),
    "by id": ("source,target\n" + "".join(f"n{k},n{k - 1}\n" for k in range(1, ROWS)), SURVIVED),
    "by other id columns": (
        "id_i,id_j,weight\n" + "".join(f"n{k},n{k - 1},2\n" for k in range(1, ROWS)),
        SURVIVED,
    ),
    "repeated edges": (GOOD + GOOD.partition("\n")[2], SURVIVED),
    "both directions": (GOOD + "1,0,5\n", SURVIVED),
    "contradicting weights": (GOOD + "0,1,7\n", ANY),
    "self loops": (GOOD + "".join(f"{k},{k},1\n" for k in range(ROWS)), SURVIVED),
    "only self loops": ("i,j,w\n" + "".join(f"{k},{k},1\n" for k in range(ROWS)), ANY),
    "weights of 0": (GOOD.replace(",1\n", ",0\n"), ANY),
    "isolated items": ("i,j,w\n0,1,1\n", SURVIVED),
    "header only": ("i,j,w\n", ANY),
    "empty": ("", REFUSED),
    "blank": ("\n\n", REFUSED),
    "no header": (GOOD.partition("\n")[2], REFUSED),
    "other columns": (GOOD.replace("i,j", "a,b"), REFUSED),
    "one end": ("i,w\n0,1\n", REFUSED),
    "end twice": (GOOD.replace("i,j,w", "i,j,j"), REFUSED),
    "negative position": (GOOD + "-1,0,1\n", REFUSED),
    "position too large": (GOOD + f"{ROWS},0,1\n", REFUSED),
    "position of 2^63": (GOOD + f"{2**63},0,1\n", REFUSED),
    "position of 5,000 digits": (GOOD + "9" * 5000 + ",0,1\n", REFUSED),
    "fractional position": (GOOD + "0.5,0,1\n", REFUSED),
    "position 1e0": (GOOD + "1e0,0,1\n", ANY),
    "position with underscore": (GOOD + "1_0,0,1\n", REFUSED),
    "position nan": (GOOD + "nan,0,1\n", REFUSED),
    "empty position": (GOOD + ",0,1\n", REFUSED),
    "text position": (GOOD + "n1,0,1\n", REFUSED),
    "negative weight": (GOOD + "0,2,-1\n", REFUSED),
    "infinite weight": (GOOD + "0,2,inf\n", REFUSED),
    "nan weight": (GOOD + "0,2,nan\n", REFUSED),
    "empty weight": (GOOD + "0,2,\n", REFUSED),
    "text weight": (GOOD + "0,2,heavy\n", REFUSED),
    "weight with underscore": (GOOD + "0,2,1_0\n", REFUSED),
    "weight of 1e308": (GOOD + "0,2,1e308\n", ANY),
    "weights that overflow": (GOOD + "0,2,1e308\n" * 20, ANY),
    "weight of 1e-320": (GOOD + "0,2,1e-320\n", ANY),
    "weight with comma": (GOOD + '0,2,"1,5"\n', REFUSED),
    "unknown id": ("source,target\nn0,gone\n", REFUSED),
    "ids of another collection": (
        "source,target\n" + "".join(f"x{k},x{k + 1}\n" for k in range(50)),
        REFUSED,
    ),
    "id with escape": ("source,target\nn0,\x1b[2J\n", REFUSED),
    "id of 1 MB": ("source,target\nn0," + "x" * 1_000_000 + "\n", REFUSED),
    "empty id": ("source,target\nn0,\n", REFUSED),
    "id with spaces": ("source,target\n n0 , n1 \n", ANY),
    "too many cells": (GOOD + "0,1,2,3\n", REFUSED),
    "too few cells": (GOOD + "0\n", REFUSED),
    "semicolons": (GOOD.replace(",", ";"), SURVIVED),
    "tabs": (GOOD.replace(",", "\t"), SURVIVED),
    "byte-order mark": ("\ufeff" + GOOD, SURVIVED),
    "nul byte": (GOOD + "0,2,\0\n", REFUSED),
    "quote that is not closed": (GOOD + '0,2,"1\n', REFUSED),
    "header of 1 MB": ("h" * 1_000_000 + "\n", REFUSED),
    "200,000 edges": ("i,j\n" + f"0,1\n{ROWS - 1},2\n" * 100_000, SURVIVED),
}
COLUMNS: dict[str, tuple[dict[str, Any], str]] = {
    "good": ({"i": [0, 1, 2], "j": [1, 2, 3], "w": [1.0, 2.0, 3.0]}, SURVIVED),
    "texts as positions": ({"i": ["0"], "j": ["1"]}, REFUSED),
    "lists as positions": ({"i": [[0]], "j": [[1]]}, REFUSED),
    "booleans as positions": ({"i": [False], "j": [True]}, ANY),
    "nulls as positions": ({"i": [None], "j": [None]}, REFUSED),
    "weights as text": ({"i": [0], "j": [1], "w": ["1"]}, REFUSED),
    "weights as nan": ({"i": [0], "j": [1], "w": [float("nan")]}, REFUSED),
    "ids as bytes": ({"source": [b"\xff"], "target": [b"n1"]}, REFUSED),
    "ids as lists": ({"source": [["n0"]], "target": [["n1"]]}, REFUSED),
    "no rows": ({"i": [], "j": []}, ANY),
}


def _others() -> Iterator[Case]:
    yield one("utf-16", GOOD.encode("utf-16"), REFUSED)
    yield one("binary", bytes(range(256)) * 10, REFUSED)
    yield one("unknown kind", GOOD, REFUSED, file="e.txt")
    yield one("missing file", GOOD, REFUSED, *settings("source.edges={here}/gone.csv"), says=("gone.csv",))
    yield one("folder", GOOD, REFUSED, *settings("source.edges={source}"))
    yield one("address", GOOD, REFUSED, *settings("source.edges=http://127.0.0.1:9/e.csv"))
    yield one("graph that is not given", GOOD, ANY, *settings("affinity.graph=knn"))
    yield one("strange path", GOOD, REFUSED, *settings("source.edges=\x1b[2J"))
    data = parquet({"i": [0, 1, 2], "j": [1, 2, 3], "w": [1.0, 2.0, 3.0]}, compression="none")
    for position in positions(13, len(data), 8):
        yield one(f"parquet flipped at {position}", flip(data, position, 0xFF), ANY, file="e.parquet")
    yield one("parquet cut", data[:-20], REFUSED, file="e.parquet")


def cases() -> list[Case]:
    """The cases of this section."""
    texts = [one(f"csv: {title}", text, expect) for title, (text, expect) in TEXTS.items()]
    tables = [
        one(f"parquet: {title}", parquet(columns), expect, file="e.parquet")
        for title, (columns, expect) in COLUMNS.items()
    ]
    return [*texts, *tables, *_others()]

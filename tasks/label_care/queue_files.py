"""The files of a queue: a table to fill in, the page, and tasks for Label Studio and Hugging Face."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote as quote_url
from xml.sax.saxutils import quoteattr

from storage.exports import write_bytes, write_csv, write_json_lines
from storage.label_exports import label_choices
from storage.sources.base import Collection
from tasks.label_care.corrections import COLUMNS
from tasks.label_care.page import PageText, render_labeling
from tasks.label_care.queue import Queue

PAGE, TABLE = "next.html", "next.csv"
TASKS, INTERFACE, METADATA = "label_studio.json", "label_studio.xml", "metadata.jsonl"


def write_queue(
    queue: Queue,
    collection: Collection,
    label_names: Sequence[str],
    out: Path,
    text: PageText,
    separator: str,
    model: str,
) -> list[Path]:
    """Write all files of a queue into a folder; the page is the first one."""
    page = render_labeling(text, queue.cards, collection, label_names, separator)
    files = [write_bytes(page, out / PAGE, "--out"), _write_table(queue, out, separator)]
    if collection.paths is not None:
        tasks = json.dumps(label_studio_tasks(queue, model), indent=1, ensure_ascii=True)
        single = collection.single_label
        files += [
            write_bytes(tasks.encode(), out / TASKS, "--out"),
            write_bytes(interface(label_names, single).encode(), out / INTERFACE, "--out"),
            write_json_lines(_metadata(queue), out / METADATA, "--out"),
        ]
    return files


def _write_table(queue: Queue, out: Path, separator: str) -> Path:
    """The columns of a corrections file, of which a person fills in `after`."""
    import pyarrow as pa

    cards = queue.cards
    empty = [""] * len(cards)
    columns: dict[str, Any] = dict.fromkeys(COLUMNS, empty)
    columns |= {
        "id": [card.id for card in cards],
        "before": [separator.join(card.given or ()) for card in cards],
        "why": [" ".join(card.why) for card in cards],
        "suggested": [separator.join(card.proposed) for card in cards],
    }
    return write_csv(pa.table(columns), out / TABLE, "--out")


def label_studio_tasks(queue: Queue, model: str) -> list[dict[str, Any]]:
    """Tasks with predictions, as Label Studio imports them; files are served by its local storage."""
    return [
        {
            "data": {
                "image": f"/data/local-files/?d={quote_url(card.id)}",
                "id": card.id,
                "why": " ".join(card.why),
            },
            "predictions": [
                {
                    "model_version": model,
                    "score": _confidence(card.scores, card.proposed),
                    "result": [label_choices(card.proposed)] if card.proposed else [],
                }
            ],
        }
        for card in queue.cards
    ]


def _confidence(scores: Any, proposed: Sequence[str]) -> float:
    known = [scores[name] for name in proposed if name in scores]
    return round(min(known), 4) if known else 0.0


def interface(label_names: Sequence[str], single: bool) -> str:
    """The labeling interface of Label Studio for these labels."""
    options = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in label_names)
    how = "single" if single else "multiple"
    return (
        '<View>\n  <Image name="image" value="$image"/>\n  <Text name="why" value="$why"/>\n'
        f'  <Choices name="labels" toName="image" choice="{how}">\n{options}\n  </Choices>\n</View>\n'
    )


def _metadata(queue: Queue) -> list[dict[str, Any]]:
    return [
        {
            "file_name": card.id,
            "labels": list(card.given or ()),
            "suggested": list(card.proposed),
            "why": " ".join(card.why),
        }
        for card in queue.cards
    ]

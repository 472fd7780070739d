"""Render the map: one page with its script and all data inside, that works from a file without a network.

The script is ours, in `tasks/report/templates/map`. The content security policy allows this script by its
digest and nothing else: no other script, no request.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.map.packing import FACTS
from tasks.map.pictures import ABOUT
from tasks.report.page import page_environment

_SCRIPTS = Path(__file__).parent.parent / "report" / "templates"
# In the order in which they are joined.
_PARTS = ("map_data.js", "map_points.js", "map_panel.js", "map_page.js")


def render_map(files: Mapping[str, bytes], pictures: Mapping[str, bytes], run: str = "") -> bytes:
    """Render the page of a map.

    Parameters
    ----------
    files : mapping of file name to bytes
        See `tasks.map.packing.pack_map`.
    pictures : mapping of file name to bytes
        See `tasks.map.pictures.pack_pictures`; empty if no item is shown.
    run : str
        Id of the run.
    """
    facts = json.loads(files[FACTS])
    script = read_script()
    text = (
        page_environment()
        .get_template("map.html.j2")
        .render(
            title=facts["title"],
            policy=_policy(script),
            script=script,
            facts=_inline({**facts, "run": run}),
            pictures=_inline(json.loads(pictures[ABOUT]) if pictures else None),
            blobs={name: _encode(files[name]) for name in facts["arrays"]},
            sheets=[_encode(data) for name, data in sorted(pictures.items()) if name != ABOUT],
            shown=len(facts["ids"]),
            items=facts["items"],
            labels=len(facts["labels"]),
            source=facts["source"],
            run=run,
        )
    )
    return text.encode()


def read_script() -> str:
    """The script of the page."""
    parts = "\n".join((_SCRIPTS / name).read_text(encoding="utf-8") for name in _PARTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _inline(value: Any) -> str:
    """JSON that cannot end its script element, whatever the names in it are."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")

"""The scripts of pages: joined from the templates beside this module, and allowed by their digest."""

import base64
import hashlib
from pathlib import Path

_TEMPLATES = Path(__file__).parent / "templates"


def join_scripts(*names: str) -> str:
    """The script of a page from these files, in this order; its names are not visible outside."""
    parts = "\n".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in names)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def script_policy(script: str) -> str:
    """The content security policy of a page: this script, no other one, and no request."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"

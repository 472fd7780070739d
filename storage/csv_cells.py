"""Text cells of CSV files that a spreadsheet must not execute.

A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, also after a tab or a line
break. Labels, ids and file names come from the collection, so a collection from elsewhere could run formulas
on the computer of a user who opens our files. Such a cell is written with an apostrophe before it, which
spreadsheets and our readers understand as "text". Numbers stay as they are.
"""

from __future__ import annotations

import re

_MARK = "'"
# The full-width forms are formulas in some East Asian settings.
_FORMULA = re.compile(r"'*[=+\-@\x00-\x1f\x7f\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-](inf|nan)", re.ASCII)


def guard_cell(text: str) -> str:
    """Return the text of a cell, marked as text if a spreadsheet could execute it.

    >>> guard_cell("=1+2"), guard_cell("-1.5"), guard_cell("sea")
    ("'=1+2", '-1.5', 'sea')
    """
    return _MARK + text if _is_formula(text) else text


def unguard_cell(text: str) -> str:
    """Return the text that `guard_cell` was given.

    >>> unguard_cell("'=1+2"), unguard_cell("'tis")
    ('=1+2', "'tis")
    """
    return text[1:] if text[:1] == _MARK and _is_formula(text) else text


def _is_formula(text: str) -> bool:
    # Apostrophes before it count too: what begins with one must also come back unchanged.
    return _FORMULA.match(text) is not None and _NUMBER.fullmatch(text.lstrip(_MARK)) is None

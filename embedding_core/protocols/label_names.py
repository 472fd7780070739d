"""Labels that the settings of a protocol name."""

from embedding_core.errors import InvalidInput
from embedding_core.protocols.trial import TrialData


def find_label(data: TrialData, name: str) -> int:
    """Column of a label; an unknown name raises InvalidInput."""
    if name not in data.label_names:
        raise InvalidInput(f"no label {name!r}; there are {', '.join(data.label_names)}.")
    return data.label_names.index(name)

"""The words in which a model reads that a write to /etc is refused: the same in every framework."""

from __future__ import annotations

import re
from typing import Final

REFUSED_PATH: Final = "/etc/paddock-no"

REFUSAL: Final = (
    # A file's refusal is one line, a command's are two notes.
    rf"The sandbox denied: write {REFUSED_PATH}\.(?: |\nNote: )"
    r"Work in (/\S+), or ask the user to grant more; trying again changes nothing\."
)


def is_refusal(text: str) -> bool:
    """Return whether a text tells what was denied, where to work instead, and that a retry is of no use."""
    return re.search(REFUSAL, text) is not None

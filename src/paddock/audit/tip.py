"""The tip: a small file beside the segments that names the last record. Pure.

The server writes it after the records that it names. So if a record at or before the tip is
not in the log, somebody removed it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from paddock.audit.chain import ORIGIN, Anchor, parse_anchor

TIP_BYTES = 128
"""The file always has this size, so that one write replaces it and it needs no room on a full disk:
20 digits, 64 of the hash, the state, and blanks."""

_STATES = {"open": False, "closed": True}


class Tip(Struct, frozen=True):
    """The last record, and whether its server shut down in order."""

    anchor: Anchor = ORIGIN
    is_closed: bool = False

    def fits(self, last: Anchor, hashes: Mapping[int, str]) -> bool:
        """Return whether a log may end with `last`; `hashes` are those of its last records by number."""
        if self.is_closed:
            return self.anchor == last
        return self.anchor == ORIGIN or hashes.get(self.anchor.seq) == self.anchor.sha256


def encode_tip(tip: Tip) -> bytes:
    """Encode the content of the file."""
    state = "closed" if tip.is_closed else "open"
    return f"{tip.anchor} {state}".encode().ljust(TIP_BYTES - 1) + b"\n"


def decode_tip(data: bytes) -> Tip | None:
    """Decode the tip in a file; None if `encode_tip` did not write it."""
    anchor_text, _, state = data.decode("ascii", "replace").rstrip().partition(" ")
    anchor = parse_anchor(anchor_text)
    if anchor is None or state not in _STATES:
        return None
    tip = Tip(anchor, _STATES[state])
    return tip if encode_tip(tip) == data else None

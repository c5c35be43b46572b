"""Output cut to what a model may read: its beginning and its end, and how much is missing between them. Pure.

Tokens are estimated as four bytes each, rounded up, because no tokenizer fits every model.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from paddock.agent.head_tail import HeadTail

BYTES_PER_TOKEN: Final = 4

DEFAULT_TOKENS: Final = 10_000
"""The most that a model reads of one reply unless it asks for another limit."""

REFUSAL_TOKENS: Final = 900
"""Length of a reply that says why nothing was done; reasons come from people, rules and servers."""


class Cut(Struct, frozen=True):
    """Output as a model reads it."""

    text: str
    original_tokens: int
    """Estimated for everything that the process wrote."""
    is_truncated: bool


def token_count(size_bytes: int) -> int:
    """Return the estimated number of tokens for this many bytes of text."""
    return -(-size_bytes // BYTES_PER_TOKEN)


def cut(output: HeadTail, limit_tokens: int) -> Cut:
    """Return output of at most `limit_tokens`, not counting the notes about what is missing.

    Bytes that are no UTF-8 become U+FFFD. A character is never split.
    """
    original = token_count(output.total_bytes)
    omission = output.omitted_bytes
    # A character may lie across the border of head and tail if nothing is missing between them.
    parts = (output.head, output.tail) if omission else (output.head + output.tail,)
    texts = [part.decode("utf-8", "replace") for part in parts]
    limit_bytes = limit_tokens * BYTES_PER_TOKEN
    if omission:
        return _joined(texts[0], texts[1], omission, original, limit_bytes)
    text = texts[0]
    if _size(text) <= limit_bytes:
        return Cut(text, original, is_truncated=False)
    left, right = _ends(text, limit_bytes)
    removed = _size(text) - _size(left) - _size(right)
    header = f"The output was cut: it has about {original} tokens in {_line_count(text)} lines.\n\n"
    return Cut(f"{header}{left}{_note(removed)}{right}", original, is_truncated=True)


def cut_text(text: str, limit_tokens: int) -> str:
    """Return a text of at most `limit_tokens`, cut as output is."""
    whole = HeadTail()
    whole.add(text.encode("utf-8", "replace"))
    return cut(whole, limit_tokens).text


def _joined(head: str, tail: str, omitted_bytes: int, original: int, limit_bytes: int) -> Cut:
    """Join head and tail of output that was too long to be kept: nobody knows how many lines it had."""
    left_limit = limit_bytes // 2
    left = _first(head, left_limit)
    right = _last(tail, limit_bytes - left_limit)
    removed = omitted_bytes + _size(head) - _size(left) + _size(tail) - _size(right)
    header = f"The output was cut: it has about {original} tokens, too many to be kept.\n\n"
    return Cut(f"{header}{left}{_note(removed)}{right}", original, is_truncated=True)


def _note(removed_bytes: int) -> str:
    return f"\n[… about {token_count(removed_bytes)} tokens are left out …]\n"


def _ends(text: str, limit_bytes: int) -> tuple[str, str]:
    left_limit = limit_bytes // 2
    return _first(text, left_limit), _last(text, limit_bytes - left_limit)


def _first(text: str, limit_bytes: int) -> str:
    return text.encode()[:limit_bytes].decode("utf-8", "ignore")


def _last(text: str, limit_bytes: int) -> str:
    data = text.encode()
    return data[max(0, len(data) - limit_bytes) :].decode("utf-8", "ignore")


def _size(text: str) -> int:
    return len(text.encode())


def _line_count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))

"""How long the parts of a message may be, so that none takes a client's memory or the loop's time.

Each bound is far above what anybody needs. The reference has none of them but those of its
own names; what is over one is refused as bad parameters, and an id as a malformed message.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

MAX_NAME_CHARS: Final = 256
"""Ids, keys and names that the server keeps, of 1 KiB at most in UTF-8: 4 MiB for the ids of 4096 parked
requests, and as much for those of 4096 remembered writes to a process."""

MAX_PATH_CHARS: Final = 64 * 1024
"""A path has at most 4096 bytes (PATH_MAX), three times as many as a URI with every byte quoted. Longer ones
are left to the kernel, which names the reason, up to what costs nothing to read."""

MAX_URL_CHARS: Final = 64 * 1024
"""Servers take 8 to 16 KiB of a URL."""

MAX_HEADERS: Final = 1024
"""Servers take 100 to 200 headers. Each costs some microseconds, several times over."""

MAX_ENTRIES: Final = 4096
"""Entries of a profile, and paths of another list. Each costs about 5 µs before anybody looks at its path."""

MAX_RULE_WORDS: Final = 256
"""Words that may stand in one place of a rule. Those that people write have a handful."""

MAX_RULE_PLACES: Final = 64
"""Places of a rule, and exceptions from it."""

MAX_RULE_PROGRAMS: Final = 4096
"""Programs that all rules of a start name, each time they do: each is a rule of its own, which costs about
20 µs."""

MAX_FEATURES: Final = 256
"""Notifications and requests that a client names: ten times as many as there are."""

Name = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
"""What a client calls something."""

Url = Annotated[str, Meta(max_length=MAX_URL_CHARS)]
"""A URL."""

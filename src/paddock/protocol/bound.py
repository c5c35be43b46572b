"""How long the parts of a message may be, so that none takes a client's memory or the loop's time.

Each bound is far above what anybody needs. The reference bounds only its own names. The server
refuses a value over a bound as bad parameters, and an id as a malformed message.
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
"""Servers accept URLs of 8 to 16 KiB."""

MAX_HEADERS: Final = 1024
"""Servers accept 100 to 200 headers. Each costs some microseconds, several times over."""

MAX_ENTRIES: Final = 4096
"""Entries of a profile, or paths in any other list. Each costs about 5 µs before its path is examined."""

MAX_HOSTS: Final = 1024
"""Patterns of hosts in a start, or in a change of the network. Each costs some 15 µs."""

MAX_VARIABLE_PATTERNS: Final = 256
"""Patterns of variables in one list of a policy. Policies that people write have some dozens."""

MAX_VARIABLE_PATTERN_CHARS: Final = 8 * 1024
"""Characters of all patterns of variables of a start together: 256 patterns of 32 characters. To prepare them
takes a millisecond or two."""

MAX_RULE_WORDS: Final = 256
"""Words at one position of a rule. Rules that people write have a handful."""

MAX_RULE_POSITIONS: Final = 64
"""Positions of a rule, and exceptions from it."""

MAX_RULE_PROGRAMS: Final = 4096
"""Programs that the rules of a start name, counted with repeats: each is a rule of its own, which costs
about 20 µs."""

MAX_DISTRUSTED: Final = 512
"""Paths that a start does not trust. Each is looked up once, which costs about 20 µs."""

MAX_FEATURES: Final = 256
"""Notifications and requests that a client may name: ten times as many as exist."""

Name = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
"""A name that a client chooses."""

Url = Annotated[str, Meta(max_length=MAX_URL_CHARS)]
"""A URL."""

"""Groups of hosts that belong together, by ecosystem: a list of hosts may name one as `@python`. Pure.

They hold the hosts that the package managers of the ecosystem need, and, as far as the host shows it, no host
that anybody may write to and others read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from paddock.model.profile import GROUP_MARK

GROUPS: Final[Mapping[str, Sequence[str]]] = {
    "python": ("pypi.org", "files.pythonhosted.org"),
    "node": ("registry.npmjs.org", "registry.yarnpkg.com", "nodejs.org"),
    "rust": ("crates.io", "index.crates.io", "static.crates.io", "static.rust-lang.org"),
    "go": ("proxy.golang.org", "sum.golang.org", "go.dev", "dl.google.com"),
    "debian": ("deb.debian.org", "security.debian.org"),
    "github": (
        *("github.com", "api.github.com", "codeload.github.com", "uploads.github.com"),
        *(
            "objects.githubusercontent.com",
            "raw.githubusercontent.com",
            "release-assets.githubusercontent.com",
        ),
    ),
}
"""The built-in groups; the settings of a server change and add to them."""


def expanded(patterns: Iterable[str], groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the patterns, those of a group in its place. Raises ValueError for an unknown group.

    A group that is named a thousand times stands for its hosts once: the author of the list may mean harm.
    """
    for pattern in dict.fromkeys(patterns):
        if not pattern.startswith(GROUP_MARK):
            yield pattern
            continue
        hosts = groups.get(pattern.removeprefix(GROUP_MARK))
        if hosts is None:
            raise ValueError(f"there is no group {pattern!r}; there are {', '.join(sorted(groups))}")
        yield from hosts

"""Reads files that consist of the path of a repository, exactly as the programs that obey them do.

A byte that such a program keeps and Paddock drops would protect a path where nothing is, and leave the
repository open. Each function takes the whole text of a file and returns the path as written. This imports
nothing. Pure.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

LIMIT_BYTES: Final = 8192
"""Limit for such a file: a prefix and one path, which has at most 4096 bytes."""

_GIT_FILE: Final = b"gitdir: "
_ENDS_OF_LINE: Final = b"\r\n"


def git_directory(text: bytes) -> bytes | None:
    """Return what a `.git` file names (`read_gitfile_gently` in git's setup.c); None for another text."""
    if not text.startswith(_GIT_FILE):
        return None
    return text.rstrip(_ENDS_OF_LINE).removeprefix(_GIT_FILE)


def common_directory(text: bytes) -> bytes:
    """Return what a `commondir` names (`get_common_dir_noenv` in git's setup.c)."""
    return text.rstrip(_ENDS_OF_LINE)


def mercurial_share(text: bytes) -> bytes:
    """Return what a `.hg/sharedpath` names (`_getsharedvfs` in Mercurial's localrepo.py)."""
    return text.rstrip(b"\n")


def jujutsu_target(text: bytes) -> bytes:
    """Return what a `.jj/repo` or its `git_target` names (workspace.rs and git_backend.rs in jj-lib)."""
    return text

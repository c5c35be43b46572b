"""Finds files of rules: one directory for the system, one for the user, one for each trusted project.

All layers are in force together. Since the strictest rule wins, no layer can loosen what
another says; the order of layers, from the system up, decides only which of several
`host_executable` definitions of a name counts, namely the last.

The rules of a project count only if the project is trusted, and it can't declare that itself:
the caller that makes the list of layers names the project.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from paddock.errors import RulesError
from paddock.installation import rules_directories

SYSTEM_DIRECTORY = Path("/etc/paddock/rules")
PROJECT_DIRECTORY = Path(".paddock/rules")
SUFFIX = ".rules"
AMENDED_FILE = "default.rules"
"""The file of the user's layer that `paddock rules add` writes to."""


class Layer(Struct, frozen=True):
    """A directory with files of rules; it need not exist."""

    directory: Path
    is_project: bool = False
    """Whether it is part of a project, whose files may belong to anybody."""

    def files(self) -> list[Path]:
        """Return the files by name, without links. Raises RulesError if the directory can't be searched."""
        try:
            with os.scandir(self.directory) as entries:
                found = [entry.path for entry in entries if _is_rules_file(entry)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RulesError(f"can't be searched for rules: {error.strerror}") from error
        return [Path(path) for path in sorted(found)]

    def complaint(self, status: os.stat_result) -> str | None:
        """Return why a file, or the directory itself, is not trustworthy: somebody else may change it.

        None if it is.
        """
        if self.is_project:
            return None
        if status.st_uid not in (0, os.geteuid()):
            return f"belongs to user {status.st_uid}; only root and you may write rules here"
        if status.st_mode & stat.S_IWOTH:
            return "can be written by everybody; run chmod o-w on it"
        return None


def _is_rules_file(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(SUFFIX) and entry.name != SUFFIX and entry.is_file(follow_symlinks=False)


def user_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the user's layer, by the XDG base directory specification. Raises RulesError."""
    directories = rules_directories(environment)
    if not directories:
        raise RulesError("can't be found: HOME is not an absolute path")
    return Path(directories[0])


def standard_layers(trusted_projects: Iterable[Path] = ()) -> tuple[Layer, ...]:
    """Return the layers of this host and user, and those of the projects that the caller vouches for."""
    projects = (Layer(project / PROJECT_DIRECTORY, is_project=True) for project in trusted_projects)
    return Layer(SYSTEM_DIRECTORY), Layer(user_directory()), *projects

"""Removes the variables that an escalated program must not get. Pure.

The environment of an escalated program is the caller's, and the caller is in the sandbox. Many variables make
a program load or execute what they name. A variable is the client's if it still has the value that the client
gave it when it started the command; any other comes from the sandbox. Paddock itself sets some for the
sandbox, which name a proxy in it; outside these have the client's value again.

    LOADERS     what the loader, a shell or an interpreter runs before the program itself. If the sandbox
                has set one, or can write where one of the client leads, a rule does not let the program out
    PLACES      where programs look for their configuration. One that the sandbox can write does
                as much harm as a loader
    HARMLESS    what the sandbox may set, such as the language
    PATH        is kept without the directories that the sandbox can write, whoever named them, and without
                those after the first 256

Every other variable of the sandbox is left out: many tools take options and names of programs from their
environment (TAR_OPTIONS, RSYNC_RSH, MAKEFLAGS), and no list of those is ever complete.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from paddock.intercept.trust import IsWritable, leads_to_sandbox

LOADERS: Final = (
    # ld.so(8) and what glibc itself drops for set-user-ID programs.
    "LD_*",
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "HOSTALIASES",
    "LOCALDOMAIN",
    "LOCPATH",
    "MALLOC_*",
    "NIS_PATH",
    "NLSPATH",
    "RESOLV_HOST_CONF",
    "RES_OPTIONS",
    "TZDIR",
    # Shells: files that are read first, functions, options, and what words are split at.
    "BASH_ENV",
    "BASH_FUNC_*",
    "BASHOPTS",
    "ENV",
    "FPATH",
    "IFS",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
    "ZDOTDIR",
    # Interpreters: modules, start-up files, options.
    "CLASSPATH",
    "DENO_*",
    "ERL_*",
    "GEM_*",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "LUA_*",
    "NODE_*",
    "PERL*",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PYTHON*",
    "RUBY*",
    "R_*",
    # Git: its directories, configuration, hooks and helpers.
    "GIT_*",
    "OPENSSL_*",
)

SEARCHED: Final = frozenset(
    {
        "BASH_ENV",
        "CLASSPATH",
        "ENV",
        "FPATH",
        "GEM_HOME",
        "GEM_PATH",
        "GIT_DIR",
        "GIT_EXEC_PATH",
        "LD_AUDIT",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "NODE_PATH",
        "PERL5LIB",
        "PERLLIB",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "RUBYLIB",
        "ZDOTDIR",
    }
)
"""The loaders that hold lists of places, where a name without a slash is a place too."""

HARMLESS: Final = (
    "CLICOLOR",
    "COLORTERM",
    "COLUMNS",
    "FORCE_COLOR",
    "LANG",
    *("LC_ADDRESS", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES"),
    *("LC_MONETARY", "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME"),
    "LINES",
    "LOGNAME",
    "NO_COLOR",
    "SHLVL",
    "TERM",
    "TZ",
    "USER",
)
"""Variables that the sandbox may set, as long as each is a plain word: one that names no file, and in
which no shell finds a command, as Bash does in `$((COLUMNS))` if its value is `a[$(program)]`."""

_PLAIN_WORD: Final = r"[A-Za-z0-9_.,:;@+<>-]*"

DIRECTORIES: Final = frozenset({"OLDPWD", "PWD"})
"""Variables that a shell sets to describe itself and that no program loads anything from. (`_` is not one
of them: it names a program, and some programs start it.)"""

CONFIGURATION_PATHS: Final = (
    "CURL_HOME",
    "HOME",
    "NETRC",
    "WGETRC",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS",
    "XDG_DATA_HOME",
)

PATH: Final = "PATH"

DIRECTORIES_LIMIT: Final = 256
"""Directories of PATH that an escalated program gets: ten times as many as people have. The sandbox chooses
them, and to find out about one takes some microseconds."""


class _Names:
    """Names and beginnings of names (`LD_*`), arranged so that many variables cost little."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._whole = frozenset(pattern for pattern in patterns if not pattern.endswith("*"))
        self._beginnings = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))

    def __contains__(self, name: str) -> bool:
        return name in self._whole or name.startswith(self._beginnings)


_LOADERS: Final = _Names(LOADERS)
_HARMLESS: Final = _Names(HARMLESS)


class EscalatedEnvironment(Struct, frozen=True):
    """The variables that an escalated program gets."""

    variables: Mapping[str, str]
    dropped: tuple[str, ...] = ()
    """Names of variables that it does not get, in order."""
    distrust: str | None = None
    """Why no rule may let the program out with its caller's environment."""


def escalated_environment(
    caller: Mapping[str, str],
    given: Mapping[str, str],
    is_writable: IsWritable,
    set_inside: Mapping[str, str] | None = None,
) -> EscalatedEnvironment:
    """Decide which of the caller's variables an escalated program gets.

    `given` is the environment with which the client started the command, and `set_inside` what Paddock has
    set for its sandbox.
    """
    kept: dict[str, str] = {}
    dropped: list[str] = []
    harmful: list[str] = []
    for name, found in caller.items():
        value = found
        if set_inside is not None and set_inside.get(name) == found:
            if name not in given:
                dropped.append(name)
                continue
            value = given[name]
        is_foreign = given.get(name) != value
        if name == PATH:
            path = safe_path(value, is_writable)
            # An empty PATH would mean the working directory; without PATH there is a default.
            if path:
                kept[name] = path
            else:
                dropped.append(name)
        elif _does_harm(name, value, is_writable, is_foreign=is_foreign):
            harmful.append(name)
        elif is_foreign and not _is_harmless(name, value):
            dropped.append(name)
        else:
            kept[name] = value
    distrust = f"the sandbox can change {', '.join(sorted(harmful))}" if harmful else None
    return EscalatedEnvironment(kept, tuple(sorted([*dropped, *harmful])), distrust)


def safe_path(value: str, is_writable: IsWritable) -> str:
    """Return the beginning of PATH without relative and sandbox-writable directories."""
    directories = list(dict.fromkeys(value.split(":")))[:DIRECTORIES_LIMIT]
    return ":".join(each for each in directories if not leads_to_sandbox(each, is_writable))


def _is_harmless(name: str, value: str) -> bool:
    """Return whether the sandbox may give this variable to a program outside."""
    return name in DIRECTORIES or (name in _HARMLESS and re.fullmatch(_PLAIN_WORD, value) is not None)


def _does_harm(name: str, value: str, is_writable: IsWritable, *, is_foreign: bool) -> bool:
    """Return whether a variable makes a program load or obey what the sandbox wrote."""
    if name in _LOADERS:
        return is_foreign or _loads_from_sandbox(name, value, is_writable)
    return name in CONFIGURATION_PATHS and (is_foreign or _is_unsafe(value, is_writable))


def _loads_from_sandbox(name: str, value: str, is_writable: IsWritable) -> bool:
    """Return whether a loader variable of the client leads to a place that the sandbox can write."""
    if name in SEARCHED:
        return bool(value) and _is_unsafe(value, is_writable)
    # Most other variables hold a number, a name or a switch; only a value that looks like a path can lead
    # anywhere.
    paths = re.split(r"[:=,;\s]", value)
    return any("/" in path and leads_to_sandbox(path, is_writable) for path in paths)


def _is_unsafe(value: str, is_writable: IsWritable) -> bool:
    """Return whether one of the places that a variable names is open to the sandbox."""
    return any(leads_to_sandbox(path, is_writable) for path in value.split(":"))

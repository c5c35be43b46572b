"""What Paddock itself is on this host, and what of it a command must therefore not write.

Paddock and its helpers in Python run outside of any sandbox. Whatever they execute, import or obey is
theirs: the interpreter and its environment, packages, the script that was started, settings. A plan keeps
`places` and `startup_modules` from being written, and refuses to let a command replace one of the `links`.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Final

LINK_LIMIT: Final = 40
"""Links on the way to one file, as in the kernel (path_resolution(7))."""

_PACKAGE: Final = os.path.dirname(os.path.abspath(__file__))
_SCRIPT: Final = "paddock"
"""The name of the script that installers make."""
_SYSTEM_PREFIXES: Final = frozenset(("/", "/usr", "/usr/local"))
"""Prefixes of interpreters that hold much else, and are not Paddock's to keep."""
_ENVIRONMENT_DEPTH: Final = 4
"""How far up from a program or a directory of packages `pyvenv.cfg` is: lib/python3.11/site-packages."""
_IMPORTED: Final = (
    *("aiofastnet", "anyio", "certifi", "h11", "httpcore", "httpx", "idna", "msgspec", "pybase64", "sniffio"),
    *("tomli_w", "uvloop", "yaml"),
)
"""What Paddock and the packages that it can't do without import from elsewhere. What an extra brings is not
among them: where it is missing, a command could put it."""
_STARTUP_MODULES: Final = ("sitecustomize", "usercustomize")
"""What an interpreter imports when it starts, from wherever it is found (the module `site`)."""

_obeyed: Final[list[str]] = []


def obey(*paths: str | os.PathLike[str]) -> None:
    """Remember files whose words this process obeys, such as its settings: they become `places`."""
    _obeyed.extend(map(os.path.abspath, paths))


def names() -> tuple[str, ...]:
    """Return the names of all `places`, links and all, for a helper that is to `obey` them as well."""
    return (*_names(), *_obeyed)


def places() -> tuple[str, ...]:
    """Return what a command must not write because Paddock runs, imports or obeys it, without links."""
    found: list[str] = []
    for path in map(os.path.realpath, names()):
        if os.path.exists(path) and not any(_is_within(path, other) for other in found):
            found.append(path)
    return tuple(found)


def links() -> tuple[str, ...]:
    """Return every link by which one of `places` is reached, as the place where it stands."""
    return tuple(dict.fromkeys(link for name in names() for link in _links_to(name)))


@cache
def startup_modules() -> tuple[str, ...]:
    """Return what must not be made because the next interpreter would run it before it runs Paddock.

    These are names in directories that a `.pth` file of the installation leads to, such as the sources of a
    project that is installed beside Paddock in editable mode. What is below `places` is kept anyway. An empty
    file of these names does no harm, and the one that ends in `.py` ends the search.
    """
    from importlib.machinery import EXTENSION_SUFFIXES

    kept = places()
    directories = dict.fromkeys(
        os.path.realpath(line) for entry in import_path() for line in _linked_directories(entry)
    )
    # A helper can't know whether the interpreter of a user has the second one.
    has_user_site = site.ENABLE_USER_SITE or sys.flags.no_site
    return tuple(
        os.path.join(directory, f"{module}{suffix}")
        for directory in directories
        if not any(_is_within(directory, place) for place in kept)
        for module in _STARTUP_MODULES[: 2 if has_user_site else 1]
        for suffix in ("", *EXTENSION_SUFFIXES, ".py")
    )


def search_directories() -> tuple[str, ...]:
    """Return the directories that PYTHONPATH puts before all others, if this process is the command line.

    Its next interpreter would import whatever a command has put there, before it runs Paddock. A helper does
    not look there, and what another program imports is not Paddock's.
    """
    if sys.flags.ignore_environment or os.path.basename(sys.argv[0]) not in (_SCRIPT, "__main__.py"):
        return ()
    named = os.environ.get("PYTHONPATH", "")
    return tuple(os.path.realpath(entry) for entry in named.split(os.pathsep)) if named else ()


def import_path() -> list[str]:
    """Return the part of `sys.path` that Paddock imports from: its interpreter's, and its own packages'."""
    # A helper was started with just this part.
    return list(sys.path if sys.flags.no_site else _import_path(tuple(sys.path)))


def narrow_import_path() -> None:
    """Let this process import from nowhere else: `python -m` would import from where it is started, too.

    Nor from where a link leads once a command has replaced it, while this process runs.
    """
    _names()
    sys.path[:] = dict.fromkeys(map(os.path.realpath, import_path()))
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == __package__ and hasattr(module, "__path__"):
            module.__path__ = [os.path.realpath(path) for path in module.__path__]


@cache
def _import_path(entries: tuple[str, ...]) -> tuple[str, ...]:
    absolute = [entry for entry in dict.fromkeys(entries) if entry.startswith("/")]
    prefixes = {*_prefixes(), sys.exec_prefix, sys.base_exec_prefix}
    if site.ENABLE_USER_SITE:
        prefixes.add(site.getusersitepackages())
    kept = [entry for entry in absolute if any(_is_within(entry, prefix) for prefix in prefixes)]
    others = [entry for entry in absolute if entry not in kept]
    homes = {os.path.dirname(_PACKAGE)}
    if others and (missing := [name for name in _IMPORTED if not _has_package(name, kept)]):
        homes |= {entry for entry in others if any(_has_package(name, [entry]) for name in missing)}
    all_of_them = dict.fromkeys((*absolute, os.path.dirname(_PACKAGE)))
    return tuple(entry for entry in all_of_them if entry in kept or entry in homes)


def _has_package(name: str, entries: Sequence[str]) -> bool:
    from importlib.machinery import PathFinder

    return PathFinder.find_spec(name, entries) is not None


@cache
def _names() -> tuple[str, ...]:
    """What Paddock and its interpreter are, by the names under which they are looked for."""
    entries = import_path()
    prefixes = [*_prefixes(), *(home for entry in entries for home in _environment_around(entry))]
    found = [
        *(prefix for prefix in prefixes if os.path.realpath(prefix) not in _SYSTEM_PREFIXES),
        *entries,
        _PACKAGE,
        sys.executable,
    ]
    if os.path.basename(sys.argv[0]) == _SCRIPT:
        found.append(os.path.abspath(sys.argv[0]))
    if sys.pycache_prefix is not None:
        found.append(os.path.abspath(sys.pycache_prefix))
    if site.ENABLE_USER_SITE:
        found.append(site.getusersitepackages())
    return tuple(dict.fromkeys(found))


def _prefixes() -> Iterator[str]:
    """Where the interpreter is installed, and the environment around it if there is one."""
    yield from (sys.prefix, sys.base_prefix)
    yield from _environment_around(sys.executable)


def _environment_around(path: str) -> Iterator[str]:
    """The virtual environment that something is in, and where that says that its interpreter is installed."""
    for _ in range(_ENVIRONMENT_DEPTH):
        path = os.path.dirname(path)
        settings = os.path.join(path, "pyvenv.cfg")
        if not os.path.exists(settings):
            continue
        yield path
        with suppress(OSError), open(settings, encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition("=")
                if name.strip() == "home" and os.path.isabs(value.strip()):
                    # That is where its programs are; the library is beside them.
                    yield os.path.dirname(value.strip())
        return


def _links_to(path: str) -> Iterator[str]:
    """Every link on the way to a path, by the place where it stands."""
    place, names = "/", _reversed_names(path)
    followed = 0
    while names and followed <= LINK_LIMIT:
        name = names.pop()
        if name == "..":
            place = os.path.dirname(place)
            continue
        step = os.path.join(place, name)
        try:
            target = os.readlink(step)
        except OSError:
            place = step
            continue
        yield step
        followed += 1
        if target.startswith("/"):
            place = "/"
        names += _reversed_names(target)


def _reversed_names(path: str) -> list[str]:
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _linked_directories(entry: str) -> Iterator[str]:
    """The directories that the `.pth` files of one on the import path name, whether they are there or not."""
    try:
        files = [name for name in os.listdir(entry) if name.endswith(".pth")]
    except OSError:
        return
    for name in files:
        with suppress(OSError), open(os.path.join(entry, name), encoding="utf-8", errors="replace") as file:
            for line in map(str.strip, file):
                if line and "\0" not in line and not line.startswith(("#", "import ", "import\t")):
                    yield os.path.join(entry, line)


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")

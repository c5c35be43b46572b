"""Finds the files that Paddock itself consists of on this host, which no command may write.

Paddock and its helpers in Python run outside of any sandbox. Whatever they execute, import or obey is
theirs: the interpreter and its environment, packages, the script that was started, settings. A plan keeps
`own_paths` from being written, and refuses to let a command replace one of the `links` or write where the
next interpreter of Paddock would look for modules without need (`searched`).

An interpreter also imports `sitecustomize` from wherever it is found, which may be the sources of a project
that is installed beside Paddock in editable mode. Paddock's own does not: `paddock_startup.pth`, which is
installed with the package, tells it that there is none.
"""

from __future__ import annotations

import os
import site
import sys
from contextlib import suppress
from functools import cache

from paddock.installed_file import FileId, InstalledFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

LINK_LIMIT: Final = 40
"""Links on the way to one file, as in the kernel (path_resolution(7))."""

_PACKAGE: Final = os.path.dirname(os.path.abspath(__file__))
_SYSTEM_PREFIXES: Final = frozenset(("/", "/usr", "/usr/local"))
"""Prefixes of interpreters that hold much else, and that Paddock does not protect."""
_ENVIRONMENT_DEPTH: Final = 4
"""How far up from a program or a directory of packages `pyvenv.cfg` is: lib/python3.11/site-packages."""
_REQUIRED: Final = ("httpx", "msgspec", "pybase64", "tomli_w", "uvloop", "yaml")
"""What Paddock itself imports and can't do without, so no installation lacks it. What an extra brings, or
another package needs, is not among them: where one is missing, a command could put it."""
_IMPORTED: Final = (*_REQUIRED, "anyio", "certifi", "h11", "httpcore", "idna")
"""The same, and what these packages import."""
_BESIDE: Final = ("_yaml", "typing_extensions")
"""What else the packages bring, or import where it is there."""
_STARTUP_MODULES: Final = ("sitecustomize", "usercustomize")
"""Modules that an interpreter imports at its start, wherever it finds them (the module `site`)."""
_MODULES: Final = frozenset((*sys.stdlib_module_names, *_IMPORTED, *_STARTUP_MODULES, "paddock"))
"""Names of modules that Paddock imports."""
_OWN_ENVIRONMENT: Final = "install Paddock in an environment of its own (uv tool install, pipx)"


Searched = tuple[str, str, str]
"""A path where the next interpreter of Paddock would find modules, though Paddock needs none of them; why it
looks there; and what the user can do about it. The path is absolute. A link on the way to a directory counts
as one: replacing it chooses the directory."""

_obeyed: Final[dict[str, None]] = {}
_concealed: Final[dict[str, None]] = {}
_searched: Final[list[Searched]] = []


def obey(*paths: str | os.PathLike[str]) -> None:
    """Remember files that this process obeys, such as its settings: they become `own_paths`."""
    _obeyed.update(dict.fromkeys(map(os.path.abspath, paths)))


def conceal(*paths: str | os.PathLike[str]) -> None:
    """Remember files that open this process to others, such as its token: they become `concealed`."""
    _concealed.update(dict.fromkeys(map(os.path.abspath, paths)))


def concealed() -> tuple[str, ...]:
    """Return the files that no command of this process or of its helpers may read."""
    return tuple(_concealed)


def take_over(
    names: Sequence[str], searched: Sequence[tuple[str, str, str]], concealed: Sequence[str]
) -> None:
    """Take over `names`, `searched` and `concealed` of the process that started this one."""
    obey(*names)
    conceal(*concealed)
    _searched.extend(searched)


def names() -> tuple[str, ...]:
    """Return the names of all `own_paths`, links and all."""
    return (*_names(), *_installed().links, *_obeyed)


def own_paths() -> tuple[str, ...]:
    """Return what a command must not write because Paddock runs, imports or obeys it, without links."""
    found: list[str] = []
    for path in map(os.path.realpath, names()):
        if os.path.exists(path) and not any(_is_within(path, other) for other in found):
            found.append(path)
    return tuple(found)


def shared_files() -> dict[FileId, str]:
    """Return those of Paddock's files that have other names, under which a command could change them."""
    found = InstalledFiles()
    # The files that Paddock obeys may be exchanged at any time, unlike the rest.
    found.look_at(tuple(_obeyed))
    return {**_installed().shared, **found.shared}


def links() -> tuple[str, ...]:
    """Return every link by which one of `own_paths` is reached, by its own path."""
    return tuple(dict.fromkeys(link for name in names() for link in _links_to(name)))


def searched() -> tuple[Searched, ...]:
    """Return where a command must not write, or the next interpreter of Paddock runs what it has put there.

    What is within `own_paths` is kept anyway. Which other directories there are depends on how the command
    line was started, so a program that only uses the library knows of none but the user's own.
    """
    if not site.ENABLE_USER_SITE:
        return tuple(_searched)
    packages = site.getusersitepackages()
    reason = f"the interpreter obeys every file {packages}/*.pth, and the directory is missing"
    return (*_searched, (os.path.realpath(packages), reason, f"run `mkdir -p {packages}`"))


def rules_directories(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return where `paddock` looks for the user's rules, the first for this process, the second if it is told
    of no other place (the XDG base directory specification). They need not be there.
    """
    configured = environment.get("XDG_CONFIG_HOME", "")
    usual = os.path.join(os.path.expanduser("~"), ".config")
    # A relative path counts as none.
    bases = [base for base in (configured, usual) if base.startswith("/")]
    return tuple(dict.fromkeys(os.path.join(base, "paddock", "rules") for base in bases))


def import_path() -> list[str]:
    """Return the part of `sys.path` that Paddock imports from: its interpreter's, and its own packages'."""
    # A helper was started with just this part.
    return list(sys.path if sys.flags.no_site else _import_path(tuple(sys.path)))


def narrow_import_path() -> None:
    """Let this process, which is the command line, import from Paddock's installation alone from now on.

    It does not import from where a link leads once a command has replaced it, either. Where its interpreter
    has looked so far the next one will look, too: that becomes `searched`, or, for the script, an own path.
    """
    _note_script()
    _searched.extend(dict.fromkeys((*_from_environment(), *_from_path_files(), *_from_site_directories())))
    _names()
    sys.path[:] = dict.fromkeys(map(os.path.realpath, import_path()))
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == __package__ and hasattr(module, "__path__"):
            module.__path__ = [os.path.realpath(path) for path in module.__path__]


def _note_script() -> None:
    """Note the script that was started, by whatever name, and the directory that comes first on its path."""
    main = sys.modules["__main__"]
    script = getattr(main, "__file__", None)
    # That of `python -m` is a module of the package.
    is_script = script is not None and getattr(main, "__spec__", None) is None
    if script is not None:
        obey(script)
    if sys.flags.safe_path or not sys.path:
        return
    directory = _absolute(sys.path[0])
    if not is_script:
        reason = f"Python looks for modules in {directory}, where it was started"
        remedy = "start Paddock as `paddock`, or with `python -P -m paddock`"
        _searched.extend(_search(directory, reason, remedy))
    elif os.path.dirname(os.path.realpath(directory)) not in _SYSTEM_PREFIXES:
        obey(directory)


def _from_environment() -> Iterator[Searched]:
    """Yield where variables of the environment lead the interpreter."""
    value = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    for entry in value.split(os.pathsep) if value else ():
        remedy = "unset PYTHONPATH for paddock, and set it for the command"
        yield from _search(_absolute(entry), f"PYTHONPATH={value} leads there", remedy)
    if sys.pycache_prefix is not None:
        # It is one of the `own_paths` as soon as it exists.
        path = os.path.realpath(sys.pycache_prefix)
        reason = f"PYTHONPYCACHEPREFIX={sys.pycache_prefix} names it, and it is missing"
        yield path, reason, f"run `mkdir -p {path}`, or unset PYTHONPYCACHEPREFIX for paddock"


def _from_path_files() -> Iterator[Searched]:
    """Yield where `.pth` files lead an interpreter that looks for the startup modules."""
    if sys.flags.no_site or sys.modules.get(_STARTUP_MODULES[0], sys) is None:
        return
    for entry in import_path():
        for directory in _linked_directories(entry):
            reason = f"Python looks for a sitecustomize in {directory}, which a .pth file in {entry} names"
            yield from _search(directory, reason, _OWN_ENVIRONMENT)


def _from_site_directories() -> Iterator[Searched]:
    """Yield where code in a `.pth` file leads the interpreter, as that of `uv run --with` does.

    In a directory that `site.addsitedir` adds, the interpreter obeys every `.pth` file. One that a line of a
    `.pth` file only names is none of these: nothing is looked for there before Paddock runs.
    """
    own = import_path()
    value = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    known = {*own, *map(_absolute, value.split(os.pathsep))}
    if not sys.flags.safe_path:
        known.update(sys.path[:1])
    for entry in own:
        known.update(map(os.path.abspath, _linked_directories(entry)))
    for entry in sys.path:
        if entry.startswith("/") and entry not in known:
            reason = (
                f"code in a .pth file of its environment leads Python to {entry} and to each .pth file there"
            )
            yield from _search(entry, reason, _OWN_ENVIRONMENT)
            # They come after the directory that they are from.
            known.update(map(os.path.abspath, _linked_directories(entry)))


def _search(directory: str, reason: str, remedy: str) -> Iterator[Searched]:
    """Yield everything that decides what an import from a directory finds."""
    real = os.path.realpath(directory)
    for path in (*_links_to(directory), real):
        yield path, reason, remedy
    # A project may have the name of a module.
    with suppress(OSError):
        for name in os.listdir(real):
            if name.partition(".")[0] in _MODULES:
                yield os.path.join(real, name), reason, remedy


def _absolute(path: str) -> str:
    """Return a path as the kernel would find it: unlike `abspath`, with the links before each `..`."""
    try:
        return os.path.join(os.getcwd(), path)
    except OSError:
        # The directory was removed, so nobody can make anything in it.
        return os.path.join("/proc/self/cwd", path)


@cache
def _import_path(entries: tuple[str, ...]) -> tuple[str, ...]:
    absolute = [entry for entry in dict.fromkeys(entries) if entry.startswith("/")]
    prefixes = {*_prefixes(), sys.exec_prefix, sys.base_exec_prefix}
    if site.ENABLE_USER_SITE:
        prefixes.add(site.getusersitepackages())
    kept = [entry for entry in absolute if any(_is_within(entry, prefix) for prefix in prefixes)]
    kept.append(os.path.dirname(_PACKAGE))
    others = [entry for entry in absolute if entry not in kept]
    homes: set[str] = set()
    for name in _REQUIRED if others else ():
        if not _has_package(name, kept):
            # Not any later one that has it: a command could have put it there.
            homes.update([entry for entry in others if _has_package(name, [entry])][:1])
    all_of_them = dict.fromkeys((*absolute, *kept))
    return tuple(entry for entry in all_of_them if entry in kept or entry in homes)


def _has_package(name: str, entries: Sequence[str]) -> bool:
    from importlib.machinery import PathFinder

    return PathFinder.find_spec(name, entries) is not None


@cache
def _names() -> tuple[str, ...]:
    """Return what Paddock and its interpreter are, by the names under which they are looked for."""
    entries = import_path()
    prefixes = [*_prefixes(), *(home for entry in entries for home in _environment_around(entry))]
    found = [
        *(prefix for prefix in prefixes if os.path.realpath(prefix) not in _SYSTEM_PREFIXES),
        *entries,
        _PACKAGE,
        sys.executable,
    ]
    if sys.pycache_prefix is not None:
        found.append(os.path.abspath(sys.pycache_prefix))
    if site.ENABLE_USER_SITE:
        packages = site.getusersitepackages()
        found.append(packages)
        if _is_within(_PACKAGE, packages):
            # The directory of the script is the first on its path.
            found.append(os.path.join(site.getuserbase(), "bin"))
    return tuple(dict.fromkeys(found))


@cache
def _installed() -> InstalledFiles:
    """Return what there is to know of files that Paddock and its helpers execute or import, now or later."""
    found = InstalledFiles()
    library = os.path.dirname(os.__file__)
    loaded = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    packages = {name.partition(".")[0] for name in sys.modules} | {*_IMPORTED, *_BESIDE}
    packages -= sys.stdlib_module_names
    parts = [
        os.path.join(entry, name)
        for entry in import_path()
        if not _is_within(library, entry)
        for name in _listed(entry)
        if name.endswith(".pth") or name.partition(".")[0] in packages
    ]
    found.look_at((*parts, _PACKAGE, sys.executable))
    before = len(found.shared)
    found.look_at(path for path in loaded if _is_within(path, library))
    if len(found.shared) > before:
        # An installer that does this does it with all modules.
        extensions, bytecode = "lib-dynload", "__pycache__"
        names = (name for name in _listed(library) if name.partition(".")[0] in sys.stdlib_module_names)
        found.look_at(os.path.join(library, name) for name in (*names, extensions, bytecode))
    return found


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _prefixes() -> Iterator[str]:
    """Yield where the interpreter is installed, and the environment around it if there is one."""
    yield from (sys.prefix, sys.base_prefix)
    yield from _environment_around(sys.executable)


def _environment_around(path: str) -> Iterator[str]:
    """Yield the virtual environment that a path is in, and where that says its interpreter is installed."""
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
    """Yield every link on the way to a path, by its own path."""
    directory, names = "/", _reversed_names(path)
    followed = 0
    while names and followed <= LINK_LIMIT:
        name = names.pop()
        if name == "..":
            directory = os.path.dirname(directory)
            continue
        step = os.path.join(directory, name)
        try:
            target = os.readlink(step)
        except OSError:
            directory = step
            continue
        yield step
        followed += 1
        if target.startswith("/"):
            directory = "/"
        names += _reversed_names(target)


def _reversed_names(path: str) -> list[str]:
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _linked_directories(entry: str) -> Iterator[str]:
    """Yield the directories that `.pth` files of one on the import path name, whether there or not."""
    for name in (name for name in _listed(entry) if name.endswith(".pth")):
        with suppress(OSError), open(os.path.join(entry, name), encoding="utf-8", errors="replace") as file:
            for line in map(str.strip, file):
                if line and "\0" not in line and not line.startswith(("#", "import ", "import\t")):
                    yield os.path.join(entry, line)


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")

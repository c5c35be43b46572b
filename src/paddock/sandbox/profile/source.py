"""Reads a profile as people name it: JSON, a built-in name or a file."""

from __future__ import annotations

import os
from typing import Any

from paddock import installation
from paddock.errors import InvalidProfile
from paddock.sandbox.profile.table import BUILT_IN_NAMES, WrittenProfile, built_in, is_table, parse_table

SIZE_LIMIT_BYTES = 1 << 20
"""Size limit of a profile's file: some ten thousand entries, more than Paddock could ever enforce."""


PROFILE_ENDINGS = (".toml", ".json")
"""Endings by which a word without a slash is a file with a profile; other words are names."""


def names_file(text: str) -> bool:
    """Return whether a text is JSON or a file with a profile, and not a profile's name."""
    path, _, _ = text.partition("#")
    return text.lstrip().startswith("{") or "/" in path or path.endswith(PROFILE_ENDINGS)


def read_profile(text: str, content: bytes | None = None) -> WrittenProfile:
    """Return the profile that `text` names. Raises InvalidProfile.

    `{…}` is JSON and `:name` is built in; everything else is a file, in TOML or JSON by its ending, and
    `file#name` chooses one of several profiles in it. `content` is the file's, for whoever has read it
    already: it may be a pipe. From then on no command that this process confines may change the file.
    """
    if text.startswith(":"):
        return WrittenProfile(built_in(text))
    # These take a while to load, and most commands run under a profile that is built in.
    import tomllib

    if text.lstrip().startswith("{"):
        return _from_json(text, "in JSON")
    path, _, name = text.partition("#")
    written = _content(path, content)
    # Otherwise a command could write what the next one is granted.
    installation.obey(path)
    if path.endswith(".json"):
        return _from_json(written, path)
    try:
        table = tomllib.loads(written)
    except tomllib.TOMLDecodeError as error:
        raise InvalidProfile(path, f"is not valid TOML: {error}") from error
    try:
        return parse_table(table, path, os.path.expanduser("~"), name or None)
    except InvalidProfile as error:
        _locate(error, path, written)
        raise


def profile_from(written: dict[str, Any], origin: str) -> WrittenProfile:
    """Return a profile that was decoded from JSON, or built in Python. Raises InvalidProfile.

    It may also have the form of one in TOML. `origin` names it in messages.
    """
    from paddock.sandbox.profile.codec import profile_of

    if not is_table(written):
        return WrittenProfile(profile_of(written, origin))
    return parse_table({"permissions": {origin: written}}, origin, os.path.expanduser("~"), origin)


def _from_json(text: str, origin: str) -> WrittenProfile:
    import json

    try:
        written = json.loads(text)
    except ValueError as error:
        raise InvalidProfile(origin, f"is not valid JSON: {error}") from error
    if not isinstance(written, dict):
        raise InvalidProfile(origin, "is not an object")
    return profile_from(written, origin)


def _locate(error: InvalidProfile, path: str, content: str) -> None:
    """Add the place of the key at fault to an error."""
    from paddock.toml_flaw import line_of

    line = line_of(error.key, content)
    if line is not None:
        error.place = f"{path}:{line}"
    elif error.origin != path:
        error.place = path


def _content(path: str, content: bytes | None) -> str:
    try:
        if content is None:
            with open(path, "rb") as file:
                content = file.read(SIZE_LIMIT_BYTES + 1)
        if len(content) > SIZE_LIMIT_BYTES:
            raise InvalidProfile(path, f"is larger than {SIZE_LIMIT_BYTES} bytes")
        return content.decode()
    except FileNotFoundError as error:
        names = ", ".join(BUILT_IN_NAMES)
        raise InvalidProfile(path, f"there is no such file; give JSON, a file or one of {names}") from error
    except UnicodeDecodeError as error:
        raise InvalidProfile(path, "is not UTF-8") from error
    except OSError as error:
        raise InvalidProfile(path, f"can't be read: {error.strerror}") from error

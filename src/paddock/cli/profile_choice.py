"""The profile that a user wants a command or a look at files to be confined to."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.errors import InvalidProfile

if TYPE_CHECKING:
    from paddock.client.box import Box
    from paddock.client.confinement import Sandbox
    from paddock.client.files import Files
    from paddock.sandbox.profile_table import WrittenProfile

PROFILE_ENDINGS = (".toml", ".json")
"""What a file with a profile ends in, if there is no slash in its name; other words are names."""

FORMS = (
    "the name of a profile that the server knows, such as :workspace; a file (FILE.toml, FILE.json, or "
    "with a slash) or JSON, as of `paddock sandbox`"
)


def add_profile_option(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Let the user name a profile; `purpose` says what for."""
    parser.add_argument("--profile", metavar="PROFILE", type=_profile, help=f"{purpose}: {FORMS}")


def sandbox_of(
    profile: str | WrittenProfile, box: Box, cwd: str | None = None, *, is_traced: bool = False
) -> Sandbox:
    """What to ask for. The workspace is `cwd` or the server's directory, and what the profile adds.

    A profile that the server knows by name is asked for by name.
    """
    from paddock.client.confinement import Sandbox

    if isinstance(profile, str):
        return Sandbox(profile, trace=is_traced)
    import json

    from paddock.sandbox.profile import encode_profile

    roots = (cwd or box.environment.cwd, *profile.workspace_roots)
    return Sandbox(json.loads(encode_profile(profile.profile)), roots, trace=is_traced)


def chosen_files(arguments: argparse.Namespace, box: Box) -> Files:
    """The files of a server, as they are under the profile that the user named, if he did."""
    if arguments.profile is None:
        return box.fs
    return box.fs.confined(sandbox_of(arguments.profile, box))


def _profile(text: str) -> str | WrittenProfile:
    """The name of a profile of the server, or one that is written here, in JSON or in a file."""
    path, _, _ = text.partition("#")
    if not text.lstrip().startswith("{") and "/" not in path and not path.endswith(PROFILE_ENDINGS):
        return text
    from paddock.sandbox.profile_source import read_profile

    try:
        return read_profile(text)
    except InvalidProfile as error:
        raise argparse.ArgumentTypeError(str(error)) from error

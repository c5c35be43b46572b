"""The profile that a user wants a command or a look at files to be confined to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import InvalidProfile

if TYPE_CHECKING:
    import argparse

    from paddock.client.box import Box
    from paddock.client.confinement import Sandbox
    from paddock.client.files import Files
    from paddock.sandbox.profile.table import WrittenProfile

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
    """Return the sandbox to request. The workspace is `cwd` or the server's directory, and what the profile
    adds.

    A profile that the server knows by name is asked for by name.
    """
    from paddock.client.confinement import Sandbox

    if isinstance(profile, str):
        return Sandbox(profile, trace=is_traced)
    import json

    from paddock.sandbox.profile.codec import encode_profile

    roots = (cwd or box.environment.cwd, *profile.workspace_roots)
    return Sandbox(json.loads(encode_profile(profile.profile)), roots, trace=is_traced)


def chosen_files(arguments: argparse.Namespace, box: Box) -> Files:
    """Return the files of a server, as they are under the profile that the user named, if any."""
    if arguments.profile is None:
        return box.fs
    return box.fs.confined(sandbox_of(arguments.profile, box))


def _profile(text: str) -> str | WrittenProfile:
    """Return the name of a profile of the server, or one that is written here, in JSON or in a file."""
    from paddock.sandbox.profile.source import names_file, read_profile

    if not names_file(text):
        return text
    try:
        return read_profile(text)
    except InvalidProfile as error:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(str(error)) from error

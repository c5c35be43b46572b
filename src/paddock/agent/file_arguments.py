"""The parameters of the tools for files. Pure."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from paddock.agent.exec_arguments import Text
from paddock.agent.tool import Tool

READ_LINES: Final = 2000
"""Lines of a file in one reply, if the model does not say."""


class ReadArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `read_file`."""

    path: Annotated[str, Meta(description="File; relative to the session's directory.")]
    offset: Annotated[int, Meta(description="First line, from 1. Default: 1.", ge=1)] = 1
    limit: Annotated[int, Meta(description="Maximum number of lines. Default: 2000.", ge=1)] = READ_LINES


class EditArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `edit_file`."""

    path: Annotated[str, Meta(description="File; relative to the session's directory.")]
    old: Annotated[
        str,
        Meta(
            description="Text to replace, exactly as it is in the file, with its white space.", min_length=1
        ),
    ]
    new: Annotated[str, Meta(description="Text to put in its place.")]
    count: Annotated[
        int, Meta(description="How often the old text occurs in the file. Default: 1.", ge=1, le=2**31 - 1)
    ] = 1


class SearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `search_files`."""

    pattern: Annotated[str, Meta(description="Text to find, or a regular expression.", min_length=1)]
    path: Annotated[str, Meta(description="Directory. Default: the session's.")] = ""
    kind: Annotated[
        Literal["content", "name"], Meta(description="Lines of files, or names. Default: content.")
    ] = "content"
    regex: Annotated[bool, Meta(description="Whether it is a regular expression. Default: false.")] = False
    case_sensitive: Annotated[bool, Meta(description="Whether case matters. Default: true.")] = True
    hidden: Annotated[
        bool, Meta(description="Whether to include names that begin with a dot. Default: false.")
    ] = False
    max_matches: Annotated[
        int, Meta(description="Maximum number of matches. Default: 200.", ge=1, le=10_000)
    ] = 200


class ListArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `list_files`."""

    path: Annotated[str, Meta(description="Directory. Default: the session's.")] = ""
    depth: Annotated[int, Meta(description="Levels of directories. Default: 1.", ge=1, le=64)] = 1
    max_entries: Annotated[
        int, Meta(description="Maximum number of names. Default: 1000.", ge=1, le=50_000)
    ] = 1000


class PatchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `apply_patch`."""

    input: Annotated[Text, Meta(description="The patch, from `*** Begin Patch` to `*** End Patch`.")]


READ_FILE: Final = Tool(
    "read_file", "Read a text file; lines come with their numbers.", ReadArguments, is_read_only=True
)
EDIT_FILE: Final = Tool(
    "edit_file",
    "Replace text in a file that exists: all occurrences, or none if there are more or fewer than count. "
    "The reply is the diff.",
    EditArguments,
)
SEARCH_FILES: Final = Tool(
    "search_files", "Find lines of files, or names, below a directory.", SearchArguments, is_read_only=True
)
LIST_FILES: Final = Tool(
    "list_files", "List a directory; names of directories end with a slash.", ListArguments, is_read_only=True
)
APPLY_PATCH: Final = Tool(
    "apply_patch",
    (
        "Change files with one patch: `*** Add File: PATH` with lines that begin with `+`, "
        "`*** Delete File: PATH`, `*** Update File: PATH` (then perhaps `*** Move to: PATH`) with chunks of "
        "lines that begin with a blank, `-` or `+`, each chunk after a line `@@` or `@@ LINE`. All of it is "
        "checked before anything is written."
    ),
    PatchArguments,
)

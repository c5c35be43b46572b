"""`fs/search` and `fs/edit`."""

from __future__ import annotations

from functools import partial

from paddock.fs import operation as engine
from paddock.fs.answer import Match
from paddock.protocol.call import Call
from paddock.protocol.envelope import write_result
from paddock.protocol.path import HostPath
from paddock.protocol.text import EditParams, EditResult, SearchMatch, SearchParams, SearchResult
from paddock.server.connection import ClientConnection, HandlerTable
from paddock.server.dispatch import Encoded
from paddock.server.handlers.file_operations import local_path, operations_for

ENCODED_HERE = 64 * 1024
"""A longer diff is encoded in a thread: it may be twice as long as the file."""

MAX_EDIT_BYTES = 8 * 1024 * 1024
"""Source files are a thousand times smaller; what is larger is written by programs."""


async def search(connection: ClientConnection, call: Call[SearchParams]) -> Encoded:
    """Find lines or names."""
    params = call.params
    operation = engine.Search(
        path=local_path(params.path),
        pattern=params.pattern,
        kind=engine.SearchKind(params.kind),
        is_regex=params.regex,
        is_case_sensitive=params.case_sensitive,
        is_hidden_included=params.hidden,
        max_matches=params.max_matches,
        max_file_bytes=params.max_file_bytes,
        timeout_s=params.timeout_ms / 1000,
    )
    found = await operations_for(connection, params.sandbox).perform(operation)

    def encode() -> bytes:
        matches = [_match(params.path, match) for match in found.matches]
        result = SearchResult(matches=matches, errors=found.errors, truncated=found.is_truncated)
        return write_result(call.id, result)

    return Encoded(await connection.services.lanes.run(encode))


def _match(root: HostPath, match: Match) -> SearchMatch:
    path = root.like(match.path)
    if not match.line:
        return SearchMatch(path=path, line=None, column=None, text=None, cut=False)
    return SearchMatch(path=path, line=match.line, column=match.column, text=match.text, cut=match.is_cut)


async def edit(connection: ClientConnection, call: Call[EditParams]) -> Encoded:
    """Replace parts of a file."""
    params = call.params
    edits = [
        engine.TextEdit(old=_bytes(edit.old), new=_bytes(edit.new), count=edit.count) for edit in params.edits
    ]
    operation = engine.Edit(
        path=local_path(params.path),
        edits=edits,
        max_bytes=MAX_EDIT_BYTES,
        follow=params.follow_symlinks is not False,
    )
    edited = await operations_for(connection, params.sandbox).perform(operation)
    encode = partial(write_result, call.id, EditResult(diff=edited.diff))
    # Most files are short, and so are most changes.
    return Encoded(encode() if len(edited.diff) <= ENCODED_HERE else await connection.compute(encode))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


HANDLERS: HandlerTable = {"fs/search": search, "fs/edit": edit}

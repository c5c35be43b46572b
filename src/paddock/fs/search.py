"""Finding files by what is in them, or by their names.

Directories are entered in the order of their names' bytes, links are not followed, and what begins
with a dot is left out unless it is asked for; ignore files mean nothing. A file with a NUL in its first
8 KiB is binary, and left out, as is one over the size limit. ripgrep is used where there is one, and
gives the same answers (see `ripgrep`). Elsewhere a pattern that may take long is looked for in a process
of its own (see `search_process`).
"""

from __future__ import annotations

import os

from paddock.fs.answer import Found
from paddock.fs.failure import map_os_error
from paddock.fs.match_collector import MatchCollector
from paddock.fs.operation import Search, SearchKind
from paddock.fs.ripgrep import find_ripgrep, search_with
from paddock.fs.scan import compile_wanted, root_of, scan
from paddock.fs.search_process import search_apart


def search(operation: Search) -> Found:
    """Find what is asked for. Raises RequestError when it makes no sense, or the root can't be read."""
    compile_wanted(operation)
    root = root_of(operation)
    try:
        # To be a directory and to be readable: everything below may fail without failing the search.
        os.listdir(root)
    except OSError as error:
        raise map_os_error(error, "search", root) from error
    program = find_ripgrep(root) if operation.kind is SearchKind.CONTENT and operation.use_ripgrep else None
    if program is not None:
        collector = MatchCollector(operation)
        search_with(program, operation, root, collector)
        return collector.found()
    # Python's engine finds text in one pass, but where it must compare cases; names are short.
    is_quick = not operation.is_regex and (operation.is_case_sensitive or operation.kind is SearchKind.NAME)
    return scan(operation) if is_quick else search_apart(operation)

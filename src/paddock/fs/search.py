"""Finds files by their content or their names.

A search enters directories in the byte order of their names and follows no links. It skips names that begin
with a dot unless the caller asks for them, and does not read ignore files. It also skips files over the size
limit and binary ones, which have a NUL in their first 8 KiB. It uses ripgrep where that is installed, with
the same results (see `ripgrep`). Without ripgrep, it searches for a pattern that may take long in a separate
process (see `search_process`).
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
    """Search. Raises RequestError if the pattern is invalid or the root can't be read."""
    compile_wanted(operation)
    root = root_of(operation)
    try:
        # The root must be a readable directory. Anything below may fail without failing the search.
        os.listdir(root)
    except OSError as error:
        raise map_os_error(error, "search", root) from error
    program = find_ripgrep(root) if operation.kind is SearchKind.CONTENT and operation.use_ripgrep else None
    if program is not None:
        collector = MatchCollector(operation)
        search_with(program, operation, root, collector)
        return collector.found()
    # Python's engine finds plain text in one pass unless it ignores case; names are short.
    is_quick = not operation.is_regex and (operation.is_case_sensitive or operation.kind is SearchKind.NAME)
    return scan(operation) if is_quick else search_apart(operation)

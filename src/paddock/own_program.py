"""Programs that Paddock runs for itself, outside of any sandbox.

This is the place where one rule can be seen to hold: **nothing that a client or a command
controls acts on a program or a path of ours before, or outside of, confinement.** Whoever
starts a helper (bubblewrap, the init, the janitor, the spawner, ripgrep, a file worker, the
evaluator of rules) starts it with the environment from here and nothing else. What a command
is to get travels to the first process inside its sandbox as data.
"""

from __future__ import annotations

from typing import Final

SEARCH_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a helper may look for programs: directories of root on every system we know."""

ROOT: Final = "/"
"""Where every helper starts: no command can move it, put files in it or take it away."""

_ENVIRONMENT: Final = {"PATH": SEARCH_PATH, "LC_ALL": "C.UTF-8"}


def own_environment() -> dict[str, str]:
    """Return the environment of every helper: constants, with nobody's LD_PRELOAD or PYTHONPATH in them."""
    return dict(_ENVIRONMENT)

"""Links, moves and names that lead around what is denied, through every component of a path."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.attack.attempt import Attempt, Judge, Scene, each_attempt, is_changed, is_leaked
from tests.attack.conftest import Arena
from tests.attack.ground import Cell

DEPTH = 40

COPY = """
import os
read = os.open("x.env", os.O_RDONLY)
os.copy_file_range(read, os.open("y", os.O_WRONLY | os.O_CREAT), 99)
"""
MAP = """
import mmap, os
print(mmap.mmap(os.open("x.env", os.O_RDONLY), 0, prot=mmap.PROT_READ)[:])
"""


def _denied(*names: str | bytes) -> Callable[[Cell], None]:
    """Files in the cell that have the secret in them; the profile denies `**/*.env`."""

    def prepare(cell: Cell) -> None:
        for name in names:
            path = Path(os.fsdecode(os.path.join(os.fsencode(cell.inside), os.fsencode(name))))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(cell.secret)

    return prepare


def _with_other_name(cell: Cell) -> None:
    _denied("x.env")(cell)
    (cell.inside / "other").hardlink_to(cell.inside / "x.env")


def _with_denied_link(cell: Cell) -> None:
    _denied("target")(cell)
    (cell.inside / "x.env").symlink_to("target")


def _is_not_what_it_was(scene: Scene) -> bool:
    """The denied file is gone, or something else."""
    path = scene.cell.inside / "x.env"
    return not path.is_file() or path.read_text() != scene.cell.secret


def _is_away(above: int) -> Judge:
    """A directory above the cell is not there any more."""
    return lambda scene: not scene.cell.inside.parents[above].is_dir()


DENIED = [
    Attempt(
        "the denied file itself", "cat x.env ./x.env $PWD/../*/x.env", is_leaked, prepare=_denied("x.env")
    ),
    Attempt(
        "a denied file that is moved, for the next command",
        "mv x.env y",
        is_leaked,
        then="cat y",
        prepare=_denied("x.env"),
    ),
    Attempt(
        "the directory of a denied file that is moved, for the next command",
        "mv d e",
        is_leaked,
        then="cat e/x.env; for f in e/*; do cat $f; done",
        prepare=_denied("d/x.env"),
    ),
    Attempt(
        "a directory further up that is moved, for the next command",
        "mv d f",
        is_leaked,
        then="cat f/e/x.env",
        prepare=_denied("d/e/x.env"),
    ),
    Attempt(
        "a directory that is moved away under the command that is in it",
        "cd d; mv ../d ../e; cat x.env; cat ../e/x.env",
        is_leaked,
        prepare=_denied("d/x.env"),
    ),
    Attempt(
        "another name that is made", "ln x.env y; cat y", is_leaked, then="cat y", prepare=_denied("x.env")
    ),
    Attempt(
        "another name that is made from a descriptor",
        "$PROBE linkat x.env y; cat y",
        is_leaked,
        prepare=_denied("x.env"),
    ),
    Attempt("another name that was there", "cat other", is_leaked, prepare=_with_other_name),
    Attempt(
        "an exchange with a file that is not denied",
        "echo > y; $PROBE exchange x.env y; cat y",
        is_leaked,
        then="cat y",
        prepare=_denied("x.env"),
    ),
    Attempt("a link to the denied file", "ln -s x.env y; cat y", is_leaked, prepare=_denied("x.env")),
    Attempt("a link that a pattern denies", "cat x.env", is_leaked, prepare=_with_denied_link),
    Attempt(
        "a file in a directory that a pattern denies",
        "cat d.env/e/key",
        is_leaked,
        prepare=_denied("d.env/e/key"),
    ),
    Attempt(
        "a name of nothing but what the pattern asks for", "cat .env", is_leaked, prepare=_denied(".env")
    ),
    Attempt("a hidden directory on the way", "cat .d/.e/x.env", is_leaked, prepare=_denied(".d/.e/x.env")),
    Attempt("a line break in a name", "cat a*", is_leaked, prepare=_denied("a\nb.env")),
    Attempt("a line break in the name of a directory", "cat a*/*", is_leaked, prepare=_denied("a\n/x.env")),
    Attempt("a name that is a pattern itself", "cat ./*", is_leaked, prepare=_denied("[!a]*.env")),
    Attempt("a name with a backslash at its end", "cat ./*/*", is_leaked, prepare=_denied("a\\/x.env")),
    Attempt("a name that is not text", "cat a*", is_leaked, prepare=_denied(b"a\xff\xfe.env")),
    Attempt("a name that looks like an option", "cat ./-*", is_leaked, prepare=_denied("--.env")),
    Attempt(
        "a file at the end of a long way",
        "cat " + "d/" * DEPTH + "x.env",
        is_leaked,
        prepare=_denied("d/" * DEPTH + "x.env"),
    ),
    Attempt(
        "a directory that can't be searched until the command has started",
        "chmod 700 d; cat d/x.env",
        is_leaked,
        prepare=_denied("d/x.env"),
        host_script="chmod 000 d",
        is_alone=True,
        may_be_refused=True,
    ),
    Attempt(
        "a way through the directory of a process",
        "cat /proc/self/cwd/x.env /proc/self/root$PWD/x.env /proc/$COMMAND/cwd/*/x.env",
        is_leaked,
        prepare=_denied("x.env"),
    ),
    Attempt(
        "a copy that the kernel makes",
        f"$PYTHON -c '{COPY}'",
        is_leaked,
        prepare=_denied("x.env"),
    ),
    Attempt(
        "a file that is mapped and not read",
        f"$PYTHON -c '{MAP}'",
        is_leaked,
        prepare=_denied("x.env"),
    ),
    Attempt("a file that is run and not read", ". ./x.env", is_leaked, prepare=_denied("x.env")),
    Attempt(
        "a denied file that is overwritten", "echo x > x.env", _is_not_what_it_was, prepare=_denied("x.env")
    ),
    Attempt("a denied file that is removed", "rm -f x.env", _is_not_what_it_was, prepare=_denied("x.env")),
    Attempt(
        "a denied file that another takes the place of",
        "echo x > y; mv -f y x.env",
        _is_not_what_it_was,
        prepare=_denied("x.env"),
    ),
    Attempt(
        "a denied file that is cut",
        "truncate -s 3 x.env",
        _is_not_what_it_was,
        prepare=_denied("x.env"),
    ),
]

OUTSIDE = [
    Attempt("a link to a file outside", "ln -s $OUT/secret y; cat y", is_leaked),
    Attempt("a link to a directory outside", "ln -s $OUT d; cat d/secret", is_leaked),
    Attempt("a link in the middle of a path", "mkdir d; ln -s $OUT/victim d/e; cat d/e/../secret", is_leaked),
    Attempt("a link to a link to a file outside", "ln -s $OUT/secret a; ln -s a b; cat b", is_leaked),
    Attempt(
        "a link that leads nowhere until it is written through",
        "ln -s $OUT/victim/new y; echo x > y",
        is_changed,
    ),
    Attempt(
        "a link to a directory in which something is made", "ln -s $OUT/victim d; mkdir d/new", is_changed
    ),
    Attempt("a link to a directory that is emptied", "ln -s $OUT/victim d; rm -rf d/*", is_changed),
    Attempt("the mode of a file behind a link", "ln -s $OUT/victim/file y; chmod 777 y", is_changed),
    Attempt(
        "the times of a file behind a link", "ln -s $OUT/victim/file y; touch -c -d 2001-01-01 y", is_changed
    ),
    Attempt("the way up", "cat ../../../../outside/*/secret", is_leaked),
    Attempt("another name of a file outside", "ln $OUT/victim/file y", is_changed),
    Attempt("a file outside that is moved here", "mv $OUT/victim/file y", is_changed),
    Attempt("a file that is moved outside", "echo x > y; mv y $OUT/victim/new", is_changed),
    Attempt("an exchange with a file outside", "echo x > y; $PROBE exchange y $OUT/victim/file", is_changed),
    Attempt("a pipe with a name outside", "mkfifo $OUT/victim/new", is_changed),
]

ABOVE = [
    Attempt("the project is moved away", "mv $ROOT $ROOT-moved", _is_away(0), is_alone=True),
    Attempt(
        "the directory above the project is moved away",
        "cd $ROOT/..; mv $PWD $PWD-moved",
        _is_away(1),
        is_alone=True,
    ),
    Attempt(
        "a directory further up is moved away",
        "cd $ROOT/../..; mv $PWD $PWD-moved",
        _is_away(2),
        is_alone=True,
    ),
    Attempt(
        "a link takes the place of the directory above the project",
        "cd $ROOT/../..; mv lower moved; ln -s moved lower",
        lambda scene: scene.cell.inside.parents[1].is_symlink(),
        is_alone=True,
    ),
]


@each_attempt(DENIED)
def test_denied_file_stays_denied_under_every_name(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, DENIED, user)


@each_attempt(OUTSIDE)
def test_link_leads_nowhere_outside(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, OUTSIDE, user)


@each_attempt(ABOVE)
def test_directory_above_the_project_stays_where_it_is(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, ABOVE, user)

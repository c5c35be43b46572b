"""Lines that are called plain mean to bash what they mean to the rules."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paddock.rules.plain_line import plain_commands
from paddock.rules.script import parse_script

RECORDED = """
exec 9>&1 1>/dev/null 2>&1
PATH=/nowhere
command_not_found_handle() { printf '%s\\0' "$#" "$@" >&9; }
eval "$1"
"""
"""Writes the words of every command that a line runs: bash finds no program, and calls the function."""


def commands_of_bash(line: str) -> list[tuple[str, ...]]:
    """Return what bash runs for a line, in any order: the commands of a pipe run at once."""
    done = subprocess.run(
        ["/bin/bash", "--norc", "-c", RECORDED, "bash", line],
        env={"LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
    )
    fields = iter(os.fsdecode(done.stdout).split("\0")[:-1])
    return sorted(tuple(next(fields) for _ in range(int(count))) for count in fields)


WORDS = ("git", "status", "a-b", "x=1", "%1", "é", "if", "time", "'", '"', "'a b'", '"c"', "\\", "2")
SEPARATORS = (
    *" \t\n\f\v\r;|&\\#~!$`{}()[]*?^<>=",
    "&&",
    "\\\t",
    "\\\n",
    "\\ ",
    "\\\r\n",
    "\r\n",
    "\u00a0",
    "\u3000",
)
SEPARATORS += ("\x85", "\u2028", "\ufeff", "\u200b", "\x1c", "\x7f", "\x01")
LINES = st.lists(st.sampled_from((*WORDS, *WORDS, *SEPARATORS, " ", " ")), max_size=8).map("".join)


@settings(max_examples=300, deadline=None)
@given(LINES)
@example("git status | git a;git b\ngit c && git d")
@example("git 'a  b'\"c\"d --x=%H")
@example("git\u00e9 \u00fc")
def test_bash_runs_what_a_plain_line_says(rest: str) -> None:
    line = f"git {rest}"
    commands = plain_commands(line)
    # Alternatives run only where something fails, and the function does not.
    if commands is not None and "||" not in line:
        assert commands_of_bash(line) == sorted(commands)


PRINTED = "/usr/bin/printf '%s\\n'"
SHELL_WORDS = (
    "'\\'",
    "'\\\\'",
    "'\\a'",
    "=ls",
    "a=ls",
    "%self",
    "a%self",
    "'=ls'",
    "; echo x",
    "#",
    "-",
    "+",
)


@pytest.mark.parametrize("shell", ["dash", "fish --no-config", "zsh -f"])
@settings(max_examples=40, deadline=None)
@given(rest=st.lists(st.sampled_from((*WORDS, *SHELL_WORDS, " ", " ")), max_size=8).map("".join))
@example(rest="a '\\' 'b; echo x #'")
@example(rest="=ls")
@example(rest="%self")
def test_other_shells_read_the_words_of_a_plain_line_alike(shell: str, rest: str) -> None:
    program, *options = shell.split()
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    line = f"{PRINTED} {rest}"
    commands = plain_commands(line)
    if commands is None or len(commands) != 1 or len(commands[0]) == 2:
        return
    done = subprocess.run([program, *options, "-c", line], stdout=subprocess.PIPE, check=True)
    assert done.stdout.decode() == "".join(f"{word}\n" for word in commands[0][2:])


@settings(max_examples=100, deadline=None)
@given(LINES)
def test_both_readers_of_a_plain_script_agree(line: str) -> None:
    if parse_script(line).is_plain:
        assert plain_commands(line) is not None


@pytest.mark.parametrize(
    "blank", ["\f", "\v", "\r", "\\\t", "\\ ", "\\\f", "\\\v", "\\\r\n", "\\\n", "\r\n", "\\\r"]
)
def test_line_is_not_plain_where_a_grammar_sees_blanks_and_bash_a_word(blank: str) -> None:
    line = f"git{blank}status{blank}/../evil"
    assert plain_commands(line) is None
    assert not parse_script(line).is_plain


@pytest.mark.parametrize(
    "odd", ["\u00a0", "\u2003", "\u3000", "\u2028", "\x85", "\ufeff", "\u200b", "\0", "\x1f", "\x7f"]
)
def test_line_with_an_odd_blank_is_not_plain(odd: str) -> None:
    assert not parse_script(f"git{odd}status").is_plain


@pytest.mark.parametrize(
    "line",
    [
        *("", " ", "\n", ";", "git;;git", "git &&", "git |", "&& git", "git && ; git", "git &", "git ||\n"),
        *(
            "if git",
            "time git",
            "coproc git",
            "function git",
            "X=1 git",
            "X=1",
            "'X'=1 git",
            "%1",
            "!git",
            "git #",
        ),
        *("git =a", "git 'a\\'", "git '\\\\'", "git %self"),
        *("git \\a", 'git "\\"', 'git "$x"', 'git "`x`"', "git 'x", "git ~", "git a^b", "git {a}", "git [a]"),
    ],
)
def test_anything_but_written_commands_is_not_plain(line: str) -> None:
    assert plain_commands(line) is None


def test_plain_line_has_its_words() -> None:
    assert plain_commands("git 'a b'\"c\" ''; 'if' x|y\n\nz --f=%H && \"w\";\n") == (
        ("git", "a bc", ""),
        ("if", "x"),
        ("y",),
        ("z", "--f=%H"),
        ("w",),
    )

"""The programs in a script."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paddock.errors import RulesError, RulesUnavailable
from paddock.rules.script import SCRIPT_LIMIT_BYTES, parse_script


def argvs(script: str) -> list[tuple[str, ...] | None]:
    return [command.argv for command in parse_script(script).commands]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("git push", [("git", "push")]),
        ("make && git push | tee log; ls &", [("make",), ("git", "push"), ("tee", "log"), ("ls",)]),
        ("A=1 git push >out 2>&1", [("git", "push")]),
        ("'git' \"push\" a\\ b c'd e'f", [("git", "push", "a b", "cd ef")]),
        ("git push \\\n --force", [("git", "push", "--force")]),
        ("if true; then rm x; fi", [("true",), ("rm", "x")]),
        ("for i in 1 2; do rm x; done", [("rm", "x")]),
        ("x=$(rm y) z=`rm w`", [("rm", "y"), ("rm", "w")]),
        ("diff <(sort a) b", [("diff", "<(sort a)", "b"), ("sort", "a")]),
        ("cat <<E\n$(rm x)\nE", [("cat",), ("rm", "x")]),
        ("(cd x; rm y)", [("cd", "x"), ("rm", "y")]),
        ("! git push", [("git", "push")]),
        ("time exec git push", [("git", "push")]),
        ("case x in a) rm x;; esac", [("rm", "x")]),
        ("", []),
    ],
)
def test_every_command_is_found_in_order(script: str, expected: list[tuple[str, ...]]) -> None:
    assert argvs(script) == expected


@pytest.mark.parametrize(
    "word", ["$x", '"$x"', "$(id)", "`id`", "*.c", "~/x", "a{b,c}", "x?", 'a"$b"', "[ab]"]
)
def test_a_word_that_depends_on_the_moment_is_marked(word: str) -> None:
    command = parse_script(f"git {word}").commands[0]

    assert command.unknown == (word,)
    assert command.argv == ("git", word)


def test_a_program_that_depends_on_the_moment_is_not_known() -> None:
    assert argvs("$cmd push") == [None]


def test_what_is_quoted_is_known() -> None:
    assert parse_script(r"""git '$x' "\$y" \* '*'""").commands[0].argv == ("git", "$x", "$y", "*", "*")


def test_scripts_in_scripts_are_looked_into() -> None:
    script = """\
ls
bash -lc "sh -c 'rm x'"
eval 'git push'
trap -- 'rm y' EXIT
"""
    assert [(command.line, str(command)) for command in parse_script(script).commands] == [
        (1, "ls"),
        (2, """bash -lc "sh -c 'rm x'\""""),
        (2, "sh -c 'rm x'"),
        (2, "rm x"),
        (3, "eval 'git push'"),
        (3, "git push"),
        (4, "trap -- 'rm y' EXIT"),
        (4, "rm y"),
    ]


@pytest.mark.parametrize(
    "script",
    ["bash script.sh", 'bash -c "$x"', "grep -c 'rm x' f", "bash -c", "trap - INT", "trap -p", "trap INT"],
)
def test_what_is_no_script_is_not_looked_into(script: str) -> None:
    assert len(argvs(script)) == 1


def test_scripts_are_looked_into_only_so_deep() -> None:
    script = "rm x"
    for _ in range(12):
        script = f"eval {script!r}" if "'" not in script else f"eval {script.replace(' ', chr(92) + ' ')}"

    assert len(argvs(script)) <= 9


def test_the_shells_own_commands_and_functions_are_told_apart() -> None:
    found = {str(each): each.is_internal for each in parse_script("f() { rm x; }; f; cd /; ls").commands}

    assert found == {"rm x": False, "f": True, "cd /": True, "ls": False}


def test_an_error_is_located_and_what_was_understood_is_kept() -> None:
    script = parse_script("ls\necho )\n")

    assert script.error_line == 2
    assert script.commands[0].argv == ("ls",)


def test_words_that_are_not_utf_8_stay_what_they_are() -> None:
    assert argvs("rm 'a\udcff' \udc80") == [("rm", "a\udcff", "\udc80")]


@pytest.mark.parametrize("script", ["(" * 100_000, "$(" * 50_000, '"' + "`" * 50_001, "\0\0"])
def test_a_hostile_script_is_only_not_understood(script: str) -> None:
    assert parse_script(script).error_line == 1


def test_a_script_that_is_too_long_is_refused() -> None:
    with pytest.raises(RulesError, match="larger than"):
        parse_script("x" * (SCRIPT_LIMIT_BYTES + 1))


def test_a_missing_parser_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)

    with pytest.raises(RulesUnavailable, match=r"install paddock-exec\[rules\]"):
        parse_script("ls")


@pytest.mark.parametrize(
    "script", ["git status", "git 'a b' \"c\"; ls -l", "a && b || c | d", "echo 1", "git a'b'\"c\""]
)
def test_script_of_nothing_but_written_commands_is_plain(script: str) -> None:
    assert parse_script(script).is_plain


@pytest.mark.parametrize(
    "script",
    [
        *("ls > x", "ls < x", "ls 2>&1", "ls <<E\nE", "ls <<< x", "ls <(id)"),
        *("ls $X", 'ls "$X"', "ls $(id)", "ls `id`", "ls ~", "ls *", "ls {a,b}", "ls $'a'"),
        *("X=1 ls", "X=1", "ls &", "(ls)", "{ ls; }", "if ls; then ls; fi", "for x in y; do ls; done"),
        *("f() { ls; }", "! ls", "ls # no", "[[ a ]]", "$X", "ls |& cat", "ls (", "ls 'x"),
    ],
)
def test_script_with_anything_else_is_not(script: str) -> None:
    assert not parse_script(script).is_plain


def test_long_script_ends_nobody_and_its_commands_have_their_lines() -> None:
    code = (
        "from paddock.rules.script import parse_script\n"
        "for script in ('true\\n' * 1000, 'true;' * 1000):\n"
        "    lines = [each.line for each in parse_script(script).commands]\n"
        "    print(len(lines), lines[0], lines[-1])\n"
    )
    # The faults of a parser in C show in a process that has done nothing else, if at all.
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1000 1 1000\n1000 1 1\n")

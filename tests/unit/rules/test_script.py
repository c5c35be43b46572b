"""The programs in a script."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

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
        *(
            "exec ls",
            "command ls",
            "exec command ls",
            "'time' ls",
            "'coproc' ls",
            "builtin ls",
            "a && exec ls",
        ),
        *(
            "printf -v PATH /tmp; ls",
            "'printf' a",
            "test -v 'a[$(id)]'",
            "'[' -v 'a[$(id)]' ']'",
            "ls; export a",
        ),
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


@pytest.mark.parametrize(
    "line",
    [
        "printf -v PATH {planted}; ls",
        "printf -v 'a[$({planted}/ls)]' x",
        "test -v 'a[$({planted}/ls)]'",
        "echo x | read 'a[$({planted}/ls)]'",
        "export PATH={planted}; ls",
        "export 'PATH={planted}'; ls",
        "hash -p {planted}/ls ls; ls",
        "trap {planted}/ls EXIT",
        "jobs -x {planted}/ls",
        "mapfile -c 1 -C {planted}/ls a",
    ],
)
def test_line_by_which_bash_itself_runs_another_program_is_not_plain(line: str, tmp_path: Path) -> None:
    planted, trace = tmp_path / "ls", tmp_path / "trace"
    planted.write_text(f"#!/bin/sh\n: >{trace}\n")
    planted.chmod(0o755)
    line = line.format(planted=tmp_path)

    subprocess.run(["/bin/bash", "--norc", "-c", line], input=b"x\n", capture_output=True, check=False)

    assert trace.exists()
    assert not parse_script(line).is_plain


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("fish --no-config", "string match -r '(?<PATH>.+)' {planted}; ls"),
        ("fish --no-config", "string 'match' --regex '(?<PATH>.+)' {planted} && ls"),
        ("fish --no-config", "not {planted}/ls"),
        ("zsh -f", "pushln {planted}; getln PATH; ls"),
        ("zsh -f", "private PATH={planted}; ls"),
        ("zsh -f", "noglob {planted}/ls"),
        ("zsh -f", "pwd; - {planted}/ls"),
        ("zsh -f", "bye 'path[$({planted}/ls)]'"),
        ("zsh -f", "pwd; logout 'path[$({planted}/ls)]'"),
    ],
)
def test_line_by_which_another_shell_itself_runs_another_program_is_not_plain(
    shell: str, line: str, tmp_path: Path
) -> None:
    program, *options = shell.split()
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    planted, trace = tmp_path / "ls", tmp_path / "trace"
    planted.write_text(f"#!/bin/sh\n: >{trace}\n")
    planted.chmod(0o755)
    line = line.format(planted=tmp_path)

    subprocess.run([program, *options, "-c", line], input=b"x\n", capture_output=True, check=False)

    assert trace.exists()
    assert not parse_script(line).is_plain


@pytest.mark.parametrize("line", ["cd a && ls", "echo a; pwd", "true && kill 1", "umask 022; ls"])
def test_line_with_what_a_shell_does_itself_without_harm_is_plain(line: str) -> None:
    assert parse_script(line).is_plain

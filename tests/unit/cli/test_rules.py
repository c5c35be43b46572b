"""`paddock rules`: check, explain and add, as a person uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paddock.cli.main import main

RULES = """\
prefix_rule(["git"], "prompt", justification="ask first", unless=[["git", "status"]])
prefix_rule(["git", "push", "--force"], "forbidden", flags_anywhere=True)
prefix_rule(["ls"])
"""


@pytest.fixture
def user_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the user's rules, and no rules of the system."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("paddock.rules.layer.SYSTEM_DIRECTORY", tmp_path / "none")
    directory = tmp_path / "config" / "paddock" / "rules"
    directory.mkdir(parents=True)
    (directory / "mine.rules").write_text(RULES)
    return directory


@pytest.mark.usefixtures("user_rules")
def test_check_judges_by_the_rules_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "check", "--", "git", "push", "origin", "--force"]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["decision"] == "forbidden"
    assert [match["prefixRuleMatch"]["matchedPrefix"] for match in answer["matchedRules"]] == [
        ["git"],
        ["git", "push", "--force"],
    ]


def test_a_directory_of_rules_means_all_files_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.rules").write_text('prefix_rule(["make"])')
    (tmp_path / "b.rules").write_text('prefix_rule(["make", "install"], "prompt")')
    (tmp_path / "notes").write_text("prefix_rule(")
    assert main(["rules", "check", "--rules", str(tmp_path), "--", "make", "install"]) == 0
    assert json.loads(capsys.readouterr().out)["decision"] == "prompt"


@pytest.mark.usefixtures("user_rules")
def test_the_rules_of_a_project_count_only_when_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "project" / ".paddock" / "rules"
    directory.mkdir(parents=True)
    (directory / "team.rules").write_text('prefix_rule(["make"])')
    monkeypatch.chdir(tmp_path / "project")

    main(["rules", "check", "--", "make"])
    assert json.loads(capsys.readouterr().out) == {"matchedRules": []}
    main(["rules", "check", "--trust-project", ".", "--", "make"])
    assert json.loads(capsys.readouterr().out)["decision"] == "allow"


def test_a_broken_file_of_the_user_is_told_and_the_others_are_in_force(
    user_rules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (user_rules / "broken.rules").write_text("\nprefix_rule()")

    assert main(["rules", "check", "--", "ls"]) == 0
    allowed = capsys.readouterr()
    assert main(["rules", "check", "--", "rm", "x"]) == 0

    assert json.loads(allowed.out)["decision"] == "allow"
    assert "not in force" in allowed.err
    assert "broken.rules:2:1: Missing parameter `pattern`" in allowed.err
    assert json.loads(capsys.readouterr().out) == {"matchedRules": [], "decision": "prompt"}


def test_explain_shows_the_decision_and_the_line_of_every_program(
    user_rules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = "git status && bash -c 'git push --force'\ncd /\n$CMD $X\nls *"

    assert main(["rules", "explain", script]) == 0

    assert (
        capsys.readouterr().out
        == f"""\
no rule    line 1: git status
no rule    line 1: bash -c 'git push --force'
forbidden  line 1: git push --force
             {user_rules}/mine.rules:1: prompt git - ask first
             {user_rules}/mine.rules:2: forbidden git push --force
shell      line 2: cd /
unknown    line 3: $CMD $X
             depends on the moment: $CMD, $X
allow      line 4: ls *
             {user_rules}/mine.rules:3: allow ls
             depends on the moment: *

the whole: forbidden
"""
    )


@pytest.mark.parametrize(
    ("script", "whole"),
    [
        ("ls; ls -l", "allow"),
        ("ls; cd /", "allow"),
        ("ls; make", "no rule"),
        ("ls; $CMD", "no rule"),
        ("ls; git pull", "prompt"),
    ],
)
@pytest.mark.usefixtures("user_rules")
def test_the_whole_is_allowed_only_when_nothing_is_left_open(
    script: str, whole: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["rules", "explain", script])

    assert capsys.readouterr().out.splitlines()[-1] == f"the whole: {whole}"


def test_explain_speaks_to_programs_too(user_rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "explain", "--json", "/usr/bin/git pull $X"]) == 0

    assert json.loads(capsys.readouterr().out) == {
        "decision": "prompt",
        "commands": [
            {
                "line": 1,
                "command": "/usr/bin/git pull $X",
                "unknownWords": ["$X"],
                "isInternal": False,
                "decision": "prompt",
                "reason": (
                    f"`/usr/bin/git pull '$X'` requires approval by {user_rules}/mine.rules:1: ask first"
                ),
                "rules": [
                    {
                        "matchedPrefix": ["git"],
                        "decision": "prompt",
                        "justification": "ask first",
                        "resolvedProgram": "/usr/bin/git",
                        "file": f"{user_rules}/mine.rules",
                        "line": 1,
                    }
                ],
            }
        ],
        "errorLine": None,
    }


def test_explain_judges_what_would_be_executed_by_every_safe_name_of_its_file(
    user_rules: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "gawk"
    program.write_text("")
    program.chmod(0o755)
    for name in ("awk", "git"):
        (programs / name).symlink_to(program)
    (user_rules / "more.rules").write_text(
        'prefix_rule(["awk"])\nprefix_rule(["gawk", "-f"], decision="forbidden")\n'
    )
    monkeypatch.setenv("PATH", str(programs))

    assert main(["rules", "explain", "--exec", "awk x\nawk -f x\ngit pull\ncd /\nmissing"]) == 0

    assert (
        capsys.readouterr().out
        == f"""\
allow      line 1: awk x
             {user_rules}/more.rules:1: allow awk ({programs}/awk)
forbidden  line 2: awk -f x
             {user_rules}/more.rules:2: forbidden gawk -f ({program})
             {user_rules}/more.rules:1: allow awk ({programs}/awk)
prompt     line 3: git pull
             {user_rules}/mine.rules:1: prompt git ({programs}/git) - ask first
shell      line 4: cd /
unknown    line 5: missing
             there is no such program in PATH

the whole: forbidden
"""
    )


@pytest.mark.usefixtures("user_rules")
def test_what_a_script_holds_can_not_disturb_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    main(["rules", "explain", "ls '\x1b[2J'"])

    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("script", "text"), [("", "there is no command in it"), ("ls\necho )", "line 2 is not understood")]
)
@pytest.mark.usefixtures("user_rules")
def test_explain_says_when_there_is_little_to_say(
    script: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rules", "explain", script]) == 0
    assert text in capsys.readouterr().out


def test_add_allows_a_command_from_then_on(user_rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "add", "--", "cargo", "test"]) == 0
    assert main(["rules", "add", "--", "cargo", "test"]) == 0
    added, repeated = capsys.readouterr().out.splitlines()
    line = 'prefix_rule(pattern=["cargo", "test"], decision="allow")'
    assert added == f"added to {user_rules}/default.rules: {line}"
    assert repeated == f"{user_rules}/default.rules has it already: {line}"

    main(["rules", "check", "--", "cargo", "test", "--all"])
    assert json.loads(capsys.readouterr().out)["decision"] == "allow"


def test_add_refuses_what_would_allow_anything(user_rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "add", "--", "bash", "-c"]) == 1

    assert "`bash -c` is not added: bash runs any code that it is given" in capsys.readouterr().err
    assert not (user_rules / "default.rules").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["rules"],
        ["rules", "check"],
        ["rules", "add", "--"],
        ["rules", "explain"],
        ["rules", "check", "--rules", "a.rules", "--trust-project", ".", "--", "ls"],
    ],
)
def test_a_wrong_command_line_has_status_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "usage: paddock rules" in capsys.readouterr().err

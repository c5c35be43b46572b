"""From files to a policy: what a file may say, where it is wrong, and what it can't do to us."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import RulesFileError, RulesUnavailable
from paddock.model.decision import Action
from paddock.rules import loader
from paddock.rules.evaluation import FILE_LIMIT_BYTES, RulesFile, decode_answers
from paddock.rules.evaluator import evaluate
from paddock.rules.layer import Layer
from paddock.rules.loader import load_layers, load_policy, load_sound_policy
from paddock.rules.policy import Policy, Problem
from paddock.rules.rule import PrefixRule

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str | bytes, name: str = "a.rules") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def problem_of(path: Path) -> Problem:
    (problem,) = load_policy([path]).problems
    assert problem.path == str(path)
    return problem


def test_every_kind_of_rule_is_loaded_with_its_place(write: Write) -> None:
    path = write(
        'prefix_rule(["git", ["push", "pull"]], "prompt", justification="ask")\n'
        'host_executable("git", ["/usr/bin/git", "/usr/bin/git"])\n'
        "def deny(host):\n"
        '    network_rule(host, "https", "deny")\n'
        'deny("example.org")\n'
    )

    policy = load_policy([path])

    assert policy.problems == ()
    (rule,) = policy.rules
    assert (rule.pattern, rule.action, str(rule.origin)) == (
        (("git",), ("push", "pull")),
        Action.PROMPT,
        f"{path}:1",
    )
    assert policy.host_executables == {"git": ("/usr/bin/git",)}
    (network_rule,) = policy.network_rules
    assert (network_rule.host, network_rule.action) == ("example.org", Action.FORBIDDEN)
    assert str(network_rule.origin) == f"{path}:4"


def test_the_extensions_are_loaded(write: Write) -> None:
    path = write(
        'prefix_rule(["git", "push", ["-f", "--force"]], decision="forbidden", flags_anywhere=True,\n'
        '            unless=[["git", "push", "--dry-run"]], match=["git push origin -f"],\n'
        '            not_match=["git push origin -f --dry-run", "git push"])\n'
    )
    policy = load_sound_policy([path])

    assert policy.decide(["git", "push", "origin", "--force"]).action is Action.FORBIDDEN
    assert policy.decide(["git", "push", "--dry-run", "--force"]).action is None


@pytest.mark.parametrize(
    ("text", "place", "complaint"),
    [
        ('prefix_rule(["a", 1])', (1, 1), "pattern element must be a string or list of strings (got int)"),
        ('if True:\n    prefix_rule(["a", len])', (2, 5), "(got function)"),
        ('x = ["a"]\nx.append(x)\nprefix_rule(["b", x])', (3, 1), "must be a string (got list)"),
        ('\n\n  \nprefix_rule(["a"], match=["b"])', (4, 1), 'unmatched examples: ["b"]'),
        ('prefix_rule(["a"], not_match=["a x"])', (1, 1), 'to not match rule ["a"]: a x'),
        ('prefix_rule(["nix"], match=["nix run a#b", "nix # comment"], not_match=["# \\nls"])', None, ""),
        ('prefix_rule(["a"], match=["a \'b"])', (1, 1), "invalid shell syntax"),
        ('prefix_rule(["a"], match=[" # only a comment"])', (1, 1), "cannot be an empty string"),
        ('prefix_rule(["a"], match=[1])', (1, 1), "example must be a string or list of strings (got int)"),
        (
            'prefix_rule(["a"], unless=["a"])',
            (1, 1),
            "must hold patterns, which are lists (got string)",
        ),
        ('prefix_rule(["a"], unless=[[]])', (1, 1), "pattern cannot be empty"),
        (
            'prefix_rule(["a"], flags_anywhere="yes")',
            (1, 1),
            'expected `bool`, actual `string (repr: "yes")`',
        ),
        ('prefix_rule(["a", ["-b", "c"]], flags_anywhere=True)', (1, 1), "all flags or all words"),
        ('prefix_rule(("a",))', (1, 1), 'expected `list`, actual `tuple (repr: ("a",))`'),
        ('prefix_rule(["a"], ["b"])', (1, 1), 'expected `str`, actual `list (repr: ["b"])`'),
        ('prefix_rule(["a"], "allow", [], [], "x", [])', (1, 1), "Found 1 extra positional argument(s)"),
        ('prefix_rule(["a"], pattern=["b"])', (1, 1), "Argument `pattern` occurs more than once"),
        ('prefix_rule(["a"], x=1, y=2)', (1, 1), "Found `x` `y` extra named parameter(s)"),
        ('host_executable("a", ["a"])', (1, 1), "paths must be absolute (got a)"),
        ('host_executable("a", [1])', (1, 1), "paths must be strings (got int)"),
        ('host_executable("..", [])', (1, 1), "must be a bare executable name (got ..)"),
        ('network_rule("a", "http", "ask")', (1, 1), "invalid decision: ask"),
        ("x = y", (1, 5), "Variable `y` not found"),
        ("x = )", (1, 5), "Parse error"),
        ('fail("no\\n --> b.rules:7:7\\n")', (1, 1), "fail: no"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_column(
    write: Write, text: str, place: tuple[int, int] | None, complaint: str
) -> None:
    problems = load_policy([write(text)]).problems

    assert [(each.line, each.column) for each in problems] == ([] if place is None else [place])
    assert all(complaint in each.text for each in problems)


def test_a_mistake_in_a_function_shows_the_way_to_it(write: Write) -> None:
    path = write("def f():\n    prefix_rule(pattern=[])\nf()\n")

    problem = problem_of(path)

    assert f"{path}:3, in <module>" in problem.excerpt
    assert f"--> {path}:2:5" in problem.excerpt
    assert "prefix_rule(pattern=[])" in problem.excerpt
    assert "InvalidRule" not in problem.excerpt + problem.text


@pytest.mark.parametrize(
    "text", ["x = )" + " " * 100_000, 'prefix_rule(["a"], "x" * 100000)', 'fail("x" * 100000)', "x" * 100_000]
)
def test_a_mistake_is_told_in_few_words(write: Write, text: str) -> None:
    problem = problem_of(write(text))

    assert problem.line == 1
    assert len(problem.text) < 3000
    assert len(problem.excerpt) < 3000


HOSTILE = {
    "nests lists": "x = " + "[" * 100_000 + "]" * 100_000,
    "nests operators": "x = " + "-" * 100_000 + "1",
    "chains operators": "x = " + "1+" * 100_000 + "1",
    "loops for ever": "for i in range(1000000000):\n  for j in range(1000000000):\n    pass",
    "loops in a function": "def f():\n  for i in range(1000000000):\n    pass\nf()",
    "declares for ever": 'for i in range(1000000000):\n  prefix_rule(["a"])',
    "calls itself": "def f():\n  f()\nf()",
    "calls in a circle": "def a():\n  b()\ndef b():\n  a()\na()",
    "allocates at once": "x = [0] * 1000000000",
    "allocates by doubling": 'x = "a"\nfor i in range(60):\n  x = x + x',
    "compares cycles": "x = []\nx.append(x)\ny = []\ny.append(y)\nx == y",
    "gives a cycle": "x = {}\nx[1] = x\nprefix_rule(x)",
    "gives a huge pattern": 'prefix_rule(["a"] * 10000000)',
    "declares too much": 'prefix_rule(["a", "x" * 20000000])',
    "calls what is not its own": '_paddock_declare("prefix_rule", "", [], {})',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_a_problem_and_the_files_around_it_are_in_force(write: Write, text: str) -> None:
    before, hostile, after = (
        write('prefix_rule(["before"])', "1.rules"),
        write(text, "2.rules"),
        write('prefix_rule(["after"])', "3.rules"),
    )

    policy = load_policy([before, hostile, after])

    assert [problem.path for problem in policy.problems] == [str(hostile)]
    assert [rule.program for rule in policy.rules] == ["before", "after"]
    assert policy.decide(["after"]).action is Action.ALLOW
    assert policy.decide(["other"]).action is Action.PROMPT


def test_what_files_before_a_hostile_one_declare_counts_after_it(write: Write) -> None:
    first = write('host_executable("git", ["/opt/git"])', "1.rules")
    hostile = write(HOSTILE["nests lists"], "2.rules")
    last = write('prefix_rule(["git"], match=["/usr/bin/git x"])', "3.rules")

    policy = load_policy([first, hostile, last])

    assert "unmatched examples" in policy.problems[1].text


def test_however_many_files_are_hostile_the_others_are_in_force(write: Write) -> None:
    hostile = [write(HOSTILE["nests lists"], f"{number}.rules") for number in range(6)]
    good = write('prefix_rule(["rm"], "forbidden")', "good.rules")

    policy = load_policy([*hostile, good])

    assert [problem.path for problem in policy.problems] == list(map(str, hostile))
    assert policy.decide(["rm"]).action is Action.FORBIDDEN


def test_files_that_never_end_share_their_time(write: Write) -> None:
    hostile = [write(HOSTILE["loops for ever"], f"{number}.rules") for number in range(4)]
    before = children_cpu_s()

    policy = load_policy(hostile)

    assert len(policy.problems) == 4
    # 0.8 + 0.4 + 0.2 + 0.1 s, and the start of the child.
    assert children_cpu_s() - before < 2.0


def children_cpu_s() -> float:
    """What children that have ended, and theirs, took of the processor."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_a_child_that_gets_no_time_is_given_up(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "CHILD_TIMEOUT_S", 0.0)

    assert "could not be evaluated within" in problem_of(write("")).text


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"\xff", "not UTF-8"), (b" " * (FILE_LIMIT_BYTES + 1), "larger than"), (b"\0", "Parse error")],
)
def test_what_is_not_text_of_a_sensible_length_is_a_problem(
    write: Write, content: bytes, complaint: str
) -> None:
    assert complaint in problem_of(write(content)).text


def test_files_beyond_what_all_together_may_have_are_problems(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "LOAD_LIMIT_BYTES", 50)
    first, large, last = (
        write('prefix_rule(["a"])', "1.rules"),
        write('prefix_rule(["b"]) # and what it is for', "2.rules"),
        write('prefix_rule(["c"])', "3.rules"),
    )

    policy = load_policy([first, large, last])

    assert [rule.program for rule in policy.rules] == ["a", "c"]
    assert [problem.path for problem in policy.problems] == [str(large)]
    assert "all files together are larger than 50 bytes" in policy.problems[0].text


def test_rules_beyond_what_all_files_together_may_declare_are_problems(write: Write) -> None:
    large = [write('prefix_rule(["a", "x" * 15000000])', f"{number}.rules") for number in range(5)]
    last = write('prefix_rule(["c"])', "z.rules")

    policy = load_policy([*large, last])

    assert [problem.path for problem in policy.problems] == [str(large[-1])]
    assert "together declare more than 64 MiB" in policy.problems[0].text
    assert policy.rules[-1].program == "c"


def test_what_can_not_be_read_is_a_problem(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.rules"
    os.mkfifo(fifo)

    assert problem_of(tmp_path / "missing.rules").text == "No such file or directory"
    assert problem_of(fifo).text == "is not a regular file"
    assert problem_of(tmp_path).is_unreadable


def test_the_first_broken_file_is_raised_where_all_must_be_sound(write: Write) -> None:
    path = write("\nprefix_rule([])")

    with pytest.raises(RulesFileError) as caught:
        load_sound_policy([path])

    assert caught.value.position == (2, 1)
    assert str(caught.value).startswith(
        f"failed to parse policy at {path}, line 2, column 1: invalid pattern"
    )


def test_no_files_need_no_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent")

    assert load_policy([]).rules == ()


def test_a_missing_interpreter_is_named(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "find_spec", lambda name: None)

    with pytest.raises(RulesUnavailable, match=r"starlark-pyo3; install paddock-exec\[rules\]"):
        load_policy([write("")])


@given(st.binary(max_size=200))
def test_an_answer_that_is_not_one_is_only_cut_short(data: bytes) -> None:
    list(decode_answers(data))


declarations = st.sampled_from(
    [
        'prefix_rule(["git"])',
        'prefix_rule(["git", "push"], "prompt")',
        'prefix_rule(["git", "push", "-f"], "forbidden", flags_anywhere=True)',
        'prefix_rule(["git", ["pull", "push"]], "prompt", unless=[["git", "push", "x"]])',
        'prefix_rule(["rm"], "forbidden")',
        'prefix_rule(["/usr/bin/git"], "prompt")',
    ]
)
file_texts = st.lists(declarations, max_size=3).map("\n".join)
commands = st.lists(st.sampled_from(["git", "push", "-f", "x", "rm", "/usr/bin/git"]), min_size=1, max_size=4)


def policy_of(texts: list[str]) -> Policy:
    """As the loader would have it, in this process: what differs is only speed."""
    rules: list[PrefixRule] = []
    host_executables: dict[str, tuple[str, ...]] = {}
    for number, text in enumerate(texts):
        evaluated = evaluate(RulesFile(path=f"{number}.rules", text=text), host_executables)
        assert evaluated.problem is None
        rules += evaluated.rules
        host_executables |= evaluated.host_executables
    return Policy(rules, host_executables)


@given(st.lists(file_texts, max_size=4), commands, st.booleans(), st.randoms())
def test_the_order_of_files_never_changes_a_decision(
    texts: list[str], command: list[str], has_executable: bool, random: Random
) -> None:
    # Which paths a name has, the last file says that speaks of it; so here one does.
    texts = [*texts, 'host_executable("git", ["/opt/git"])'] if has_executable else texts
    shuffled = list(texts)
    random.shuffle(shuffled)

    assert policy_of(texts).decide(command).action == policy_of(shuffled).decide(command).action


def test_of_several_definitions_of_a_program_the_last_counts() -> None:
    here, elsewhere = 'host_executable("git", ["/usr/bin/git"])', 'host_executable("git", ["/opt/git"])'
    rule = 'prefix_rule(["git"], "forbidden")'

    assert policy_of([rule, elsewhere, here]).decide(["/usr/bin/git"]).action is Action.FORBIDDEN
    assert policy_of([rule, here, elsewhere]).decide(["/usr/bin/git"]).action is None


def test_layers_are_loaded_together(tmp_path: Path) -> None:
    for name, text in (("system", 'prefix_rule(["a"])'), ("project", 'prefix_rule(["a"], "forbidden")')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.rules").write_text(text)

    policy = load_layers([Layer(tmp_path / "system"), Layer(tmp_path / "project"), Layer(tmp_path / "none")])

    assert policy.problems == ()
    assert policy.decide(["a"]).action is Action.FORBIDDEN


def test_a_layer_that_is_no_directory_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("")

    (problem,) = load_layers([Layer(tmp_path / "rules")]).problems

    assert problem.text == "can't be searched for rules: Not a directory"


def test_a_file_that_somebody_else_may_write_does_not_speak_for_the_user(tmp_path: Path) -> None:
    path = tmp_path / "x.rules"
    path.write_text('prefix_rule(["a"])')
    path.chmod(0o666)

    policy = load_layers([Layer(tmp_path)])

    assert policy.rules == ()
    assert policy.problems[0].text == "can be written by everybody; run chmod o-w on it"
    assert len(load_layers([Layer(tmp_path, is_project=True)]).rules) == 1


def test_a_directory_that_everybody_may_change_is_a_problem_and_its_files_are_in_force(
    tmp_path: Path,
) -> None:
    (tmp_path / "x.rules").write_text('prefix_rule(["a"], "forbidden")')
    tmp_path.chmod(0o777)

    policy = load_layers([Layer(tmp_path)])

    assert [problem.path for problem in policy.problems] == [str(tmp_path)]
    assert policy.decide(["a"]).action is Action.FORBIDDEN
    assert policy.decide(["b"]).action is Action.PROMPT


def test_a_file_of_a_layer_that_has_become_a_link_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules").mkdir()
    target = tmp_path / "elsewhere"
    target.write_text('prefix_rule(["a"])')
    link = tmp_path / "rules" / "x.rules"
    link.symlink_to(target)
    # As if it were a file when the directory was searched.
    monkeypatch.setattr(Layer, "files", lambda self: [link])

    policy = load_layers([Layer(tmp_path / "rules")])

    assert policy.rules == ()
    assert [problem.path for problem in policy.problems] == [str(link)]

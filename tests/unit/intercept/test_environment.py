"""What an escalated program gets of its caller's environment."""

from __future__ import annotations

import pytest

from paddock.intercept.environment import DIRECTORIES_LIMIT, escalated_environment
from tests.unit.intercept.cases import GIVEN, in_work


def test_what_the_client_gave_and_what_does_no_harm_goes_along() -> None:
    caller = GIVEN | {"PWD": "/work", "SHLVL": "2", "LC_ALL": "C", "TZ": "UTC", "COLUMNS": "80"}
    caller |= {"LC_CTYPE": "de_DE.UTF-8@euro", "TERM": "xterm-256color", "LOGNAME": "user@example.com"}
    found = escalated_environment(caller, GIVEN, in_work)
    assert (found.variables, found.dropped, found.distrust) == (caller, (), None)


@pytest.mark.parametrize(
    "name",
    ["LD_PRELOAD", "LD_x", "BASH_ENV", "BASH_FUNC_ls%%", "PYTHONPATH", "PERL5OPT", "NODE_OPTIONS", "GIT_DIR"],
)
def test_a_loader_variable_is_the_clients_or_it_is_harmful(name: str) -> None:
    found = escalated_environment(GIVEN | {name: "1"}, GIVEN, in_work)
    assert found.dropped == (name,)
    assert found.distrust == f"the sandbox can change {name}"
    safe = GIVEN | {name: "/usr/lib/x"}
    found = escalated_environment(safe, safe, in_work)
    assert (found.variables, found.distrust) == (safe, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_LIBRARY_PATH", "/usr/lib:/work/lib"),
        ("PYTHONPATH", "src"),
        ("PYTHONPATH", "/usr/lib:"),
        ("NODE_OPTIONS", "--require=/work/x.js"),
        ("NODE_OPTIONS", "--require ./x.js"),
        ("PERL5OPT", "-I/work -Mx"),
        ("HOME", "/work/home"),
        ("XDG_CONFIG_DIRS", "/etc/xdg:/work"),
    ],
)
def test_what_the_client_gave_is_harmful_where_it_leads_into_the_sandbox(name: str, value: str) -> None:
    caller = GIVEN | {name: value}
    found = escalated_environment(caller, caller, in_work)
    assert found.dropped == (name,)
    assert found.distrust is not None


def test_what_paddock_sets_for_the_sandbox_stays_there_and_is_nobodys_say() -> None:
    given = GIVEN | {"HTTP_PROXY": "http://proxy.test:8080", "PYTHONPATH": "/work"}
    inside = {"HTTP_PROXY": "http://127.0.0.1:3128", "NODE_USE_ENV_PROXY": "1", "PYTHONPATH": "/x"}
    found = escalated_environment(given | inside, given, in_work, inside)
    assert found.variables == GIVEN | {"HTTP_PROXY": "http://proxy.test:8080"}
    assert found.dropped == ("NODE_USE_ENV_PROXY", "PYTHONPATH")
    # What the client gave leads into the sandbox.
    assert found.distrust == "the sandbox can change PYTHONPATH"
    found = escalated_environment(given | inside | {"NODE_USE_ENV_PROXY": "2"}, given, in_work, inside)
    assert found.distrust == "the sandbox can change NODE_USE_ENV_PROXY, PYTHONPATH"


@pytest.mark.parametrize(
    ("name", "value"), [("PYTHONUNBUFFERED", "1"), ("NODE_ENV", "production"), ("GIT_AUTHOR_NAME", "A B")]
)
def test_switches_of_the_client_stay(name: str, value: str) -> None:
    caller = GIVEN | {name: value}
    assert escalated_environment(caller, caller, in_work).variables == caller


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TAR_OPTIONS", "-I/work/evil"),
        ("RSYNC_RSH", "/work/evil"),
        ("GOFLAGS", "-toolexec=/work/evil"),
        ("LESS", "|/work/evil"),
        ("NPM_CONFIG_SCRIPT_SHELL", "/work/evil"),
        ("MESSAGE", "nobody knows what it does"),
        ("TZ", ":/work/zone"),
        ("LC_ALL", "/work/locale"),
        ("TERM", "../../work/x"),
        ("COLUMNS", "a[$(evil)]"),
        ("SHLVL", "`evil`"),
        ("LC_TIME", "C\nevil"),
        ("USER", "user; evil"),
    ],
)
def test_what_the_sandbox_sets_is_left_out_unless_it_is_known_to_be_harmless(name: str, value: str) -> None:
    found = escalated_environment(GIVEN | {name: value}, GIVEN, in_work)
    assert (found.variables, found.dropped, found.distrust) == (GIVEN, (name,), None)
    given = GIVEN | {name: "the client's"}
    assert escalated_environment(given, given, in_work).variables == given


def test_helpers_of_the_sandbox_are_left_out_without_a_word_and_those_of_the_client_stay() -> None:
    caller = GIVEN | {"PAGER": "evil", "MAKEFLAGS": "-j", "EDITOR": "vi"}
    found = escalated_environment(caller, GIVEN | {"EDITOR": "vi"}, in_work)
    assert found.variables == GIVEN | {"EDITOR": "vi"}
    assert (found.dropped, found.distrust) == (("MAKEFLAGS", "PAGER"), None)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/usr/bin:/bin", "/usr/bin:/bin"),
        ("/work/bin:/usr/bin::.:bin:/usr/../work", "/usr/bin"),
        ("/usr/bin/:/work/", "/usr/bin/"),
    ],
)
def test_the_path_has_no_directory_of_the_sandbox_whoever_named_it(path: str, kept: str) -> None:
    caller = GIVEN | {"PATH": path}
    found = escalated_environment(caller, caller, in_work)
    assert (found.variables["PATH"], found.distrust) == (kept, None)


@pytest.mark.parametrize("path", ["", ".", "/work/bin:bin"])
def test_a_path_of_which_nothing_is_left_is_none_at_all(path: str) -> None:
    found = escalated_environment({"PATH": path}, {"PATH": path}, in_work)
    assert (found.variables, found.dropped) == ({}, ("PATH",))


def test_the_sandbox_can_not_let_many_directories_be_looked_at() -> None:
    looked_at = []

    def is_writable(path: str) -> bool:
        looked_at.append(path)
        return False

    path = ":".join(f"/{number}" for number in range(20_000))
    found = escalated_environment(GIVEN | {"PATH": path}, GIVEN, is_writable)
    assert found.variables["PATH"].split(":") == [f"/{number}" for number in range(DIRECTORIES_LIMIT)]
    assert len(looked_at) <= 2 * DIRECTORIES_LIMIT + len(GIVEN) * 4


def test_the_sandbox_can_not_pass_on_any_number_of_variables() -> None:
    many = {f"LC_{number}": "C" for number in range(1000)}
    assert escalated_environment(GIVEN | many | {"LC_TIME": "C"}, GIVEN, in_work).variables == GIVEN | {
        "LC_TIME": "C"
    }

"""Programs that rules or answers let out of a sandbox: what they carry along, and what never gets out."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import paddock
from paddock.protocol.question import ExecApprovalParams, ExecApprovalResult
from tests.processes import has_ended
from tests.sandbox.identity import PYTHON, directory_of
from tests.sandbox.intercepted import rule, rules, run, told
from tests.sandbox.job_control import require_job_control
from tests.sandbox.user_server import APART, user_server

ESCALATED = paddock.Verdict.ESCALATE
HOST_PYTHON = Path(PYTHON).resolve()
OPEN_FILES = 1024
"""What systems let a user have."""


@pytest.fixture(scope="module")
def url(user: int, ground: Path) -> Iterator[str]:
    """A server of that user, which lets programs out of sandboxes."""
    limited = (*APART, "prlimit", f"--nofile={OPEN_FILES}", "--")
    with user_server(user, ground, apart=limited, allow_escalation=True) as url:
        yield url


@pytest.fixture(name="workspace")
def workspace_of_the_user(ground: Path, user: int) -> Iterator[Path]:
    with directory_of(user, ground) as directory:
        yield directory


@pytest.fixture
def outside(ground: Path, user: int) -> Iterator[Path]:
    """A directory that no sandbox here lets anybody write."""
    with directory_of(user, ground) as directory:
        yield directory


async def test_an_allowed_program_runs_outside_and_no_other_does(
    url: str, workspace: Path, outside: Path
) -> None:
    script = f"touch {outside}/allowed; echo $?; echo x > {outside}/denied; cp /etc/hostname {outside}/copy"
    done = await run(url, ["sh", "-c", script], workspace, rules(rule("allow", "touch")))
    assert done.stdout == b"0\n"
    assert os.listdir(outside) == ["allowed"]
    assert told(done, ESCALATED) == ["touch"]
    done = await run(url, ["sh", "-c", script], workspace, rules())
    assert (done.stdout, os.listdir(outside)) == (b"1\n", ["allowed"])


async def test_a_proxy_inside_leads_nothing_outside_and_keeps_nothing_inside(
    url: str, workspace: Path, outside: Path
) -> None:
    env = {"PATH": "/usr/bin:/bin", "http_proxy": "http://proxy.test:8080"}
    script = f"touch {outside}/made; env | grep -ci proxy >&2; /bin/env"
    profile = {"extends": ":workspace", "network": {"allow": ["good.test"]}}
    wanted = rules(rule("allow", "touch"), rule("allow", "/bin/env"), rule("allow", "/usr/bin/env"))
    async with paddock.connect(url) as box:
        done = await box.run(
            ["bash", "-c", script], cwd=workspace, sandbox=profile, intercept=wanted, env=env, timeout_s=60
        )
    assert os.listdir(outside) == ["made"], done.stderr
    seen = [line for line in done.stdout.decode().splitlines() if "proxy" in line.lower()]
    assert seen == ["http_proxy=http://proxy.test:8080"]


FAITHFUL = r"""
exec 3> three
umask 027
ulimit -n 20
sh -c 'echo on three >&3; echo $0 "$@" $V; umask; ulimit -n; pwd' name 'a b' "$(printf '\377')" || echo failed
echo from stdin | sh -c 'read x; echo $x'
sh -c 'exit 7'; echo $?
sh -c 'kill -TERM $$'; echo $?
sh -c 'kill -9 $$'; echo $?
cat <(sh -c 'echo substituted')
(exec -a other sh -c 'echo $0')
"""


async def test_it_gets_what_it_would_have_got_inside(url: str, workspace: Path) -> None:
    """The same script, with and without: all that differs is where its programs run."""
    env = {"PATH": "/usr/bin:/bin", "V": "variable"}
    argv = ["bash", "-c", FAITHFUL]
    allowed = await run(url, argv, workspace, rules(rule("allow", "sh"), rule("allow", "dash")), env=env)
    assert (workspace / "three").read_text() == "on three\n"
    inside = await run(url, argv, workspace, rules(), env=env)
    assert allowed.stdout == inside.stdout
    assert allowed.stdout.count(b"\n") >= 9
    assert len(told(allowed, ESCALATED)) == 6, allowed.ending.execs


@pytest.mark.parametrize("is_link", [True, False], ids=["a link", "a script"])
async def test_script_whose_env_finds_a_program_that_leads_into_the_sandbox_stays_inside(
    url: str, workspace: Path, outside: Path, is_link: bool
) -> None:
    (workspace / "link").symlink_to("/bin/sh")
    if is_link:
        (outside / "found").symlink_to(workspace / "link")
    else:
        (outside / "found").write_text(f"#!{workspace}/link\n")
        (outside / "found").chmod(0o755)
    tool = outside / "tool"
    for name, is_sound in (("found", False), ("sh", True)):
        tool.write_text(f"#!/usr/bin/env {name}\n: > {outside}/got-out\n")
        tool.chmod(0o755)
        env = {"PATH": f"{outside}:/usr/bin:/bin"}
        done = await run(
            url, ["bash", "-c", f"{tool}; true"], workspace, rules(rule("allow", str(tool))), env=env
        )
        assert told(done, ESCALATED) == (["tool"] if is_sound else []), (done.stderr, done.ending.execs)
        assert (outside / "got-out").exists() == is_sound


CALLERS = {
    "vfork": "import subprocess; print(subprocess.run(['touch', {0!r}]).returncode)",
    "posix_spawn": "import os; i = os.posix_spawnp('touch', ['touch', {0!r}], {{}});"
    "print(os.waitpid(i, 0)[1])",
    "output": "import subprocess; subprocess.run(['touch', {0!r}]);"
    "print(len(subprocess.run(['head', '-c', '300000', '/dev/zero'], stdout=-1).stdout) - 300000)",
    "descriptor": """
import os
f = os.open('/usr/bin/touch', os.O_RDONLY)
i = os.fork() or os.execve(f, ['touch', {0!r}], {{}})
print(os.waitpid(i, 0)[1])
""",
    "relative": "import os, subprocess; os.chdir('/usr');"
    "print(subprocess.run(['touch', {0!r}], executable='bin/touch').returncode)",
    "few descriptors": "import resource, subprocess; resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20));"
    "print(subprocess.run(['touch', {0!r}]).returncode)",
    "sixteen threads": """
import subprocess, threading
found = []
def spawn():
    for _ in range(3): found.append(subprocess.run(['touch', {0!r}]).returncode)
threads = [threading.Thread(target=spawn) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sum(found) + len(found) - 48)
""",
    "thread": """
import os, threading
i = os.fork()
if not i:
    threading.Thread(target=os.execv, args=('/usr/bin/touch', ['touch', {0!r}])).start()
    threading.Event().wait()
print(os.waitpid(i, 0)[1])
""",
}


@pytest.mark.parametrize("caller", CALLERS)
async def test_whoever_executes_it(url: str, workspace: Path, outside: Path, caller: str) -> None:
    code = CALLERS[caller].format(f"{outside}/made")
    wanted = rules(rule("allow", "touch"), rule("allow", "head"))
    done = await run(url, [PYTHON, "-c", code], workspace, wanted)
    assert done.stdout == b"0\n", done.stderr
    assert os.listdir(outside) == ["made"]


DESCRIPTORS = """
import os, subprocess, sys
numbers = [int(word) for word in sys.argv[1:]]
for number in numbers:
    file = os.open(f'file-{number}', os.O_WRONLY | os.O_CREAT)
    os.dup2(file, number)
    os.close(file)
code = 'import os, sys\\nfor word in sys.argv[1:]: os.write(int(word), word.encode())'
done = subprocess.run([sys.executable, '-c', code, *sys.argv[1:]], close_fds=False)
print(done.returncode)
"""


async def test_descriptors_of_any_number_go_along_or_it_is_not_started(url: str, workspace: Path) -> None:
    wanted = rules(rule("allow", os.path.basename(PYTHON)))
    numbers = [*range(100, 120), 190, 191, 192, 193, 255, 256, OPEN_FILES - 1]
    done = await run(url, [PYTHON, "-c", DESCRIPTORS, *map(str, numbers)], workspace, wanted)
    assert done.stdout == b"0\n", done.stderr
    assert len(told(done, ESCALATED)) == 1
    for number in numbers:
        assert (workspace / f"file-{number}").read_text() == str(number)
    done = await run(url, [PYTHON, "-c", DESCRIPTORS, *map(str, range(100, 400))], workspace, wanted)
    assert done.stdout == b"126\n"


async def test_a_script_without_a_first_line_is_its_callers_as_without_rules(
    url: str, user: int, workspace: Path, outside: Path
) -> None:
    """The kernel refuses it, and a shell reads it itself: inside, where the shell is."""
    script = outside / "plain"
    script.write_text('echo "plain $1" && echo x > "$(dirname "$0")/written"\n')
    script.chmod(0o755)
    os.chown(script, user, user)
    wanted = rules(rule("allow", str(script)))
    done = await run(url, ["bash", "-c", f"{script} here"], workspace, wanted)
    assert done.stdout == b"plain here\n"
    assert told(done, ESCALATED) == []
    assert not (outside / "written").exists()
    script.write_text("#!/bin/sh\n" + script.read_text())
    done = await run(url, ["bash", "-c", f"{script} here; true"], workspace, wanted)
    assert (done.stdout, told(done, ESCALATED)) == (b"plain here\n", ["plain"])
    assert (outside / "written").exists()


# --- what never gets out ----------------------------------------------------

PLANTED = {
    "a script": "printf '#!/bin/sh\\necho x > {0}/got\\n' > touch; chmod +x touch; ./touch {0}/x",
    "a copy": "cp /usr/bin/touch .; ./touch {0}/x",
    "a directory in PATH": "mkdir bin; cp /usr/bin/touch bin; PATH=$PWD/bin touch {0}/x",
    "a link to another program": "ln -s /bin/sh touch; ./touch -c 'echo x > {0}/x'",
    "another name": "exec -a touch sh -c 'echo x > {0}/x'",
    "its own name in the sandbox": "exec -a $PWD/touch /usr/bin/touch {0}/x",
    "a relative name": "exec -a ./touch /usr/bin/touch {0}/x",
    "a name that leads back": "cd /usr; exec -a ../$OLDPWD/touch /usr/bin/touch {0}/x",
    "a loader's variable": "LD_PRELOAD=$PWD/evil.so touch {0}/x",
    "a library path": "LD_LIBRARY_PATH=$PWD touch {0}/x",
    "a memory file": PYTHON + " -c \"import os; f = os.memfd_create('touch', 0);"
    "os.write(f, open('/usr/bin/touch', 'rb').read()); os.execve(f, ['touch', '{0}/x'], {{}})\"",
    "a hard link": "ln /usr/bin/touch hard 2> /dev/null && ./hard {0}/x",
    "another directory over it": "mkdir -p usr/bin; cp /bin/sh usr/bin/touch;"
    "cd usr/bin; ./touch -c 'echo x > {0}/x'",
}


@pytest.mark.parametrize("attack", PLANTED)
async def test_what_the_sandbox_has_a_say_in_stays_inside(
    url: str, workspace: Path, outside: Path, attack: str
) -> None:
    script = f"({PLANTED[attack].format(outside)}) 2> /dev/null; touch {outside}/genuine"
    done = await run(
        url, ["bash", "-c", script], workspace, rules(rule("allow", "touch")), env={"PATH": "/usr/bin:/bin"}
    )
    # What is genuine got out, so that the rule is in force.
    assert os.listdir(outside) == ["genuine"]
    assert told(done, ESCALATED) == ["touch"]


@pytest.mark.parametrize("depth", range(4), ids=["none", "file", "directory", "above"])
async def test_who_can_write_a_program_or_any_directory_above_it_does_not_let_it_out(
    url: str, user: int, outside: Path, depth: int
) -> None:
    """The rule names the very file. What differs is how far up the workspace begins."""
    work, tools = outside / "work", outside / "above/directory"
    work.mkdir()
    tools.mkdir(parents=True)
    tool = tools / "tool"
    shutil.copy("/usr/bin/touch", tool)
    for place in (work, tools.parent, tools, tool):
        os.chown(place, user, user)
    if depth == 1:
        # A second name is all that the sandbox can reach of it.
        os.link(tool, work / "innocent")
    cwd = [work, work, tools, tools.parent][depth]
    wanted = rules(rule("allow", str(tool)))
    done = await run(url, ["sh", "-c", f"{tool} {outside}/made; true"], cwd, wanted)
    is_let_out = depth == 0
    assert (outside / "made").exists() is is_let_out
    assert told(done, ESCALATED if is_let_out else paddock.Verdict.RUN) == ["tool"]
    assert done.ending.execs is not None
    assert ("can write" in str(done.ending.execs.notes[0].not_escalated)) is not is_let_out


async def test_a_directory_that_is_exchanged_meanwhile_changes_nothing(
    url: str, workspace: Path, outside: Path
) -> None:
    """A loop renames directories and links over each other while a name in them is executed."""
    script = """
    mkdir -p a b; cp /usr/bin/touch a; printf '#!/bin/sh\necho x > {0}/evil\n' > b/touch; chmod +x b/touch
    ln -s /usr/bin real
    (for i in $(seq 120); do
        mv -T a now; mv -T now a; mv -T b now; mv -T now b; ln -sfn real now; rm now
    done) &
    for i in $(seq 60); do for d in now a b real; do $d/touch {0}/evil 2> /dev/null; done; done
    wait; touch {0}/genuine
    """.replace("{0}", str(outside))
    # By its path: only what really is /usr/bin/touch may go, and its argument is not the one that is allowed.
    wanted = rules(rule("allow", "/usr/bin/touch", f"{outside}/genuine"))
    done = await run(url, ["bash", "-c", script], workspace, wanted, env={"PATH": "/usr/bin:/bin"})
    assert os.listdir(outside) == ["genuine"], done.stderr
    assert told(done, ESCALATED) == ["touch"]


async def test_only_what_was_decided_is_executed_whatever_another_thread_does(
    url: str, workspace: Path, outside: Path
) -> None:
    await race(url, workspace, outside, 60)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_ten_thousand_races_are_lost(url: str, workspace: Path, outside: Path) -> None:
    for _ in range(100):
        await race(url, workspace, outside, 100)


RACE = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None)
good, bad = (sys.argv[1] + '/good').encode() + b'\\0', (sys.argv[1] + '/evil').encode() + b'\\0'
word, path = ctypes.create_string_buffer(good), ctypes.create_string_buffer(b'/usr/bin/touch')
argv = (ctypes.c_char_p * 3)(b'touch', ctypes.cast(word, ctypes.c_char_p), None)
other = b'/usr/bin/mkdir'
def flip():
    while True:
        ctypes.memmove(word, bad, len(bad)); ctypes.memmove(path, other, 14)
        ctypes.memmove(word, good, len(good)); ctypes.memmove(path, b'/usr/bin/touch', 14)
sys.setswitchinterval(1e-6)
for _ in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        threading.Thread(target=flip, daemon=True).start()
        os.dup2(os.open('/dev/null', os.O_WRONLY), 2)
        libc.execve(path, argv, None)
        os._exit(7)
    os.waitpid(child, 0)
print('done')
"""


async def race(url: str, workspace: Path, outside: Path, count: int) -> None:
    """Nothing appears outside but what the rule allows."""
    wanted = rules(rule("allow", "/usr/bin/touch", f"{outside}/good"))
    done = await run(url, [PYTHON, "-c", RACE, str(outside), str(count)], workspace, wanted)
    assert done.stdout == b"done\n", done.stderr
    assert set(os.listdir(outside)) <= {"good"}
    assert not (outside / "good").is_dir()
    assert told(done, ESCALATED)


async def test_where_nothing_may_be_let_out_it_runs_inside(user: int, ground: Path, workspace: Path) -> None:
    wanted = rules(rule("allow", "touch"))
    refusals: dict[str, dict[str, Any]] = {
        "allow_escalation": {},
        "require_sandbox": {"allow_escalation": True, "require_sandbox": True},
        "max_profile": {"allow_escalation": True, "max_profile": ":workspace"},
    }
    for name, settings in refusals.items():
        with user_server(user, ground, **settings) as url:
            done = await run(url, ["sh", "-c", "touch x; true"], workspace, wanted, profile=":read-only")
        assert told(done, paddock.Verdict.RUN) == ["touch"]
        assert done.ending.execs is not None
        assert name in str(done.ending.execs.notes[0].not_escalated)


async def test_an_answer_lets_a_program_out_without_harmful_variables(
    url: str, workspace: Path, outside: Path
) -> None:
    def answer(_: ExecApprovalParams) -> ExecApprovalResult:
        return ExecApprovalResult(verdict=ESCALATED)

    wanted = rules(rule("prompt", "printenv"), on_prompt="ask")
    script = "LD_LIBRARY_PATH=$PWD BASH_ENV=x TAR_OPTIONS=y LC_ALL=C exec printenv"
    done = await run(url, ["sh", "-c", script], workspace, wanted, answer=answer)
    assert b"LC_ALL=C\n" in done.stdout, (done.stdout, done.stderr)
    assert told(done, ESCALATED) == ["printenv"], done.ending.execs
    assert b"LD_LIBRARY_PATH" not in done.stdout
    assert b"BASH_ENV" not in done.stdout
    assert b"TAR_OPTIONS" not in done.stdout


LINES = {
    "a link to its interpreter": ("#!{0}/link", "#!{1}/link"),
    "a path for env": ("#!/usr/bin/env {0}/link", "#!/usr/bin/env {1}/link"),
    "options for env": ("#!/usr/bin/env -S -u FOO {0}/link", "#!/usr/bin/env sh"),
    "a program for another": ("#!/usr/bin/setsid {0}/link", "#!/bin/sh -e"),
}


@pytest.mark.parametrize("attack", LINES)
async def test_script_whose_first_line_leads_into_the_sandbox_stays_inside(
    url: str, workspace: Path, outside: Path, attack: str
) -> None:
    """The link leads to a sound program while that is looked at, and anywhere else afterwards."""
    for directory in (workspace, outside):
        (directory / "link").symlink_to("/bin/sh")
    tool = outside / "tool"
    for line, is_sound in zip(LINES[attack], (False, True), strict=True):
        tool.write_text(f"{line.format(workspace, outside)}\n: > {outside}/got-out\n")
        tool.chmod(0o755)
        done = await run(url, ["bash", "-c", f"{tool}; true"], workspace, rules(rule("allow", str(tool))))
        assert told(done, ESCALATED) == (["tool"] if is_sound else []), (done.stderr, done.ending.execs)
        assert (outside / "got-out").exists() == is_sound


async def test_a_variable_of_the_sandbox_makes_no_allowed_program_run_another(
    url: str, workspace: Path, outside: Path
) -> None:
    evil = workspace / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {outside}/got-out\n")
    evil.chmod(0o755)
    script = f"tar cf x.tar evil; TAR_OPTIONS=-I{evil} tar tf x.tar; tar tf x.tar"
    done = await run(url, ["sh", "-c", script], workspace, rules(rule("allow", "tar", "tf")))
    assert told(done, ESCALATED) == ["tar", "tar"], (done.stderr, done.ending.execs)
    assert done.stdout == b"evil\nevil\n"
    assert os.listdir(outside) == []


OWN_VIEWS = {
    "working directory": "PATH=/proc/self/cwd:$PATH",
    "directory of the thread": "PATH=/proc/thread-self/cwd:$PATH",
    "directory behind the root": "PATH=/proc/self/root/proc/self/cwd:$PATH",
    "descriptor": "PATH=/proc/self/fd/9:$PATH",
    "descriptor by its device": "PATH=/dev/fd/9:$PATH",
    "a word that is evaluated": "COLUMNS='a[$(bash helper)]'",
}


@pytest.mark.parametrize("attack", OWN_VIEWS)
async def test_no_variable_leads_an_allowed_program_to_what_the_sandbox_wrote(
    url: str, user: int, workspace: Path, outside: Path, attack: str
) -> None:
    """Of directories that are others for each process, those of the program outside are the sandbox's."""
    tool = outside / "tool"
    tool.write_text(f"#!/bin/bash\nhelper\n[[ $COLUMNS -gt 80 ]]\ntouch {outside}/ran\n")
    tool.chmod(0o755)
    os.chown(tool, user, user)
    helper = workspace / "helper"
    helper.write_text(f"#!/bin/sh\ntouch {outside}/got-out\n")
    helper.chmod(0o755)
    script = f"exec 9< .; {OWN_VIEWS[attack]} {tool}"
    wanted = rules(rule("allow", str(tool)))
    done = await run(url, ["bash", "-c", script], workspace, wanted, env={"PATH": "/usr/bin:/bin"})
    assert told(done, ESCALATED) == ["tool"], done.stderr
    assert sorted(os.listdir(outside)) == ["ran", "tool"], done.stderr


async def test_a_path_that_a_program_is_called_by_leads_it_to_nothing_that_the_sandbox_wrote(
    url: str, workspace: Path, outside: Path
) -> None:
    """Python takes its modules from beside the path in its first argument, whatever was executed."""
    version = HOST_PYTHON.name
    library = workspace / "lib" / version
    (library / "encodings").mkdir(parents=True)
    (library / "os.py").touch()
    evil = f"import posix; posix.system('touch {outside}/got-out')"
    (library / "encodings/__init__.py").write_text(evil)
    code = f"open('{outside}/ran', 'w')"
    script = f'(exec -a $PWD/bin/{version} {HOST_PYTHON} -c "$0"); exec {HOST_PYTHON} -c "$0"'
    wanted = rules(rule("allow", str(HOST_PYTHON), "-c", code))
    done = await run(url, ["bash", "-c", script, code], workspace, wanted, env={"PATH": "/usr/bin:/bin"})
    assert told(done, ESCALATED) == [version], done.ending.execs
    assert os.listdir(outside) == ["ran"], done.stderr


async def test_a_program_outside_leaves_no_image_of_its_memory(url: str, workspace: Path) -> None:
    script = "ulimit -c unlimited; ulimit -c; sh -c 'ulimit -c; kill -SEGV $$'; echo $?"
    done = await run(
        url, ["bash", "-c", script], workspace, rules(rule("allow", "sh"), rule("allow", "dash"))
    )
    assert done.stdout.splitlines()[1:] == [b"0", b"139"], (done.stdout, done.stderr)
    assert os.listdir(workspace) == []


# --- the end of one is the end of the others --------------------------------

PATIENT = 'trap "echo got term; exit 9" TERM; echo $$; while :; do sleep 0.05; done'


async def _pid(process: paddock.Process) -> int:
    async for chunk in process.output():
        return int(chunk.data)
    raise AssertionError


async def test_signals_from_within_reach_it_and_its_status_comes_back(url: str, workspace: Path) -> None:
    script = f"sh -c '{PATIENT}' > out & while ! [ -s out ]; do :; done; kill -TERM $!; wait $!; echo $?"
    wanted = rules(rule("allow", "sh"), rule("allow", "dash"))
    done = await run(url, ["bash", "-c", script], workspace, wanted)
    assert done.stdout == b"9\n", done.stderr
    assert (workspace / "out").read_text().endswith("got term\n")


@pytest.mark.parametrize("how", ["caller", "command"])
async def test_when_its_caller_or_the_command_is_killed_it_ends(url: str, workspace: Path, how: str) -> None:
    wanted = rules(rule("allow", "sh"), rule("allow", "dash"))
    script = f"sh -c '{PATIENT}' & read x; kill -9 $!; echo killed; read y"
    async with paddock.connect(url) as box:
        process = await box.start(
            ["bash", "-c", script], cwd=workspace, sandbox=":workspace", intercept=wanted, stdin=True
        )
        async with asyncio.timeout(60):
            ending = os.pidfd_open(await _pid(process))
            if how == "caller":
                await process.write(b"x\n")
            else:
                await process.terminate()
                await process.wait()
            assert await asyncio.to_thread(has_ended, ending, 30)
            os.close(ending)
            if how == "caller":
                await process.terminate()


async def test_when_the_server_is_killed_it_ends(user: int, ground: Path, workspace: Path) -> None:
    wanted = rules(rule("allow", "sh"), rule("allow", "dash"))
    script = f"sh -c '{PATIENT}'; true"
    with (
        suppress(AssertionError, paddock.PaddockError),
        user_server(user, ground, allow_escalation=True) as url,
    ):
        async with paddock.connect(url, reconnect=None) as box:
            process = await box.start(
                ["bash", "-c", script], cwd=workspace, sandbox=":workspace", intercept=wanted
            )
            ending = os.pidfd_open(await _pid(process))
            os.kill(int(url.rpartition("-")[2]), signal.SIGKILL)
    assert await asyncio.to_thread(has_ended, ending, 30)
    os.close(ending)


async def test_a_shell_stops_and_continues_it_on_a_terminal(url: str, workspace: Path) -> None:
    await require_job_control(url, workspace, rules(rule("allow", "sh"), rule("allow", "dash")))

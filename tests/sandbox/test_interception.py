"""Each program that a confined command executes is run or denied, as rules and answers say."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import paddock
from paddock.protocol.question import ExecApprovalParams, ExecApprovalResult
from tests.sandbox.identity import PYTHON, directory_of
from tests.sandbox.intercepted import denied, rule, rules, run, told
from tests.sandbox.user_server import user_server

NO_UNAME = rule("forbidden", "uname", justification="it is nobody's business")
MESSAGE = (
    b"Execution denied: Execution forbidden by policy: "
    b"`/usr/bin/uname` is forbidden by /etc/test.rules:7: it is nobody's business\n"
)
STRICT = pytest.mark.parametrize("strict", [False, True], ids=["native", "strict"])


@pytest.fixture(scope="module")
def url(user: int, ground: Path) -> Iterator[str]:
    """A server of that user."""
    with user_server(user, ground) as url:
        yield url


@pytest.fixture(name="workspace")
def workspace_of_the_user(ground: Path, user: int) -> Iterator[Path]:
    with directory_of(user, ground) as directory:
        yield directory


def planted(workspace: Path, user: int, name: str, text: str) -> Path:
    """A script in the workspace."""
    script = workspace / name
    script.write_text(text)
    script.chmod(0o755)
    os.chown(script, user, user)
    return script


@STRICT
async def test_a_forbidden_program_is_denied_and_all_others_run(
    url: str, workspace: Path, strict: bool
) -> None:
    script = "echo one; uname; echo $?; true && echo two; exec uname"
    done = await run(url, ["sh", "-c", script], workspace, rules(NO_UNAME, strict=strict))
    assert (done.returncode, done.stdout, done.stderr) == (1, b"one\n1\ntwo\n", MESSAGE * 2)
    assert denied(done) == ["uname", "uname"]
    without = await run(url, ["sh", "-c", "uname"], workspace, None)
    assert (without.returncode, without.stdout, without.ending.execs) == (0, b"Linux\n", None)


CALLERS = {
    "subprocess": "import subprocess; print(subprocess.run(['uname']).returncode)",
    "posix_spawn": "import os; i = os.posix_spawnp('uname', ['uname'], {}); print(os.waitpid(i, 0)[1] >> 8)",
    "descriptor": """
import os
f = os.open('/usr/bin/uname', os.O_RDONLY)
i = os.fork() or os.execve(f, ['uname'], {})
print(os.waitpid(i, 0)[1] >> 8)
""",
    "thread": """
import os, threading
i = os.fork()
if not i:
    threading.Thread(target=os.execv, args=('/usr/bin/uname', ['uname'])).start()
    threading.Event().wait()
print(os.waitpid(i, 0)[1] >> 8)
""",
    "relative": "import os, subprocess; os.chdir('/usr'); print(subprocess.run(['bin/uname']).returncode)",
    "another name": "import subprocess; print(subprocess.run(['sh'], executable='/bin/uname').returncode)",
    "few descriptors": """
import resource, subprocess
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
print(subprocess.run(['uname']).returncode)
""",
    "no input": "import os; i = os.fork() or (os.close(0), os.execv('/bin/uname', ['u']));"
    "print(os.waitpid(i, 0)[1] >> 8)",
}


@STRICT
@pytest.mark.parametrize("caller", CALLERS)
async def test_whoever_executes_it_is_denied_and_others_run(
    url: str, workspace: Path, caller: str, strict: bool
) -> None:
    code = CALLERS[caller]
    done = await run(url, [PYTHON, "-c", code], workspace, rules(NO_UNAME, strict=strict))
    assert (done.stdout, done.stderr, done.returncode) == (b"1\n", MESSAGE, 0)
    done = await run(url, [PYTHON, "-c", code], workspace, rules(strict=strict))
    assert done.stdout.endswith(b"0\n"), done.stderr
    assert denied(done) == []


EXCHANGE = """
import os, subprocess, sys
def point(name):
    os.symlink(f'/usr/bin/{name}', 'new')
    os.rename('new', 'link')
point('true')
if not os.fork():
    while os.getppid() != 1 and not os.path.exists('over'):
        point('touch'); point('true')
    os._exit(0)
for _ in range(int(sys.argv[1])):
    if os.path.exists('made'):
        break
    subprocess.run(['./link', 'made'], stderr=subprocess.DEVNULL)
open('over', 'w').close()
os.wait()
"""


@pytest.mark.parametrize(("strict", "tries"), [(True, 40), (False, 5000)], ids=["strict", "native"])
async def test_in_strict_mode_a_link_that_is_exchanged_leads_to_nothing_else(
    url: str, workspace: Path, strict: bool, tries: int
) -> None:
    """Without it the kernel looks at the link again, and soon finds what is forbidden."""
    forbidden = rules(rule("forbidden", "touch"), strict=strict)
    await run(url, [PYTHON, "-c", EXCHANGE, str(tries)], workspace, forbidden)
    assert (workspace / "made").exists() is not strict


REACH = """
import ctypes, os, sys
word = ctypes.create_string_buffer(b'judged')
reader, writer = os.pipe()
child = os.fork()
if not child:
    os.read(reader, 1)
    os._exit(word.value == b'other')
try:
    memory = os.open(f'/proc/{child}/mem', os.O_RDWR)
    os.pwrite(memory, b'other\\0', ctypes.addressof(word))
except OSError as error:
    print(error.errno)
os.write(writer, b'.')
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@STRICT
async def test_in_strict_mode_no_process_changes_the_arguments_of_another(
    url: str, workspace: Path, user: int, strict: bool
) -> None:
    """The stub holds what was judged in its memory, and can't forbid the way there from its first moment."""
    done = await run(url, [PYTHON, "-c", REACH], workspace, rules(strict=strict))
    is_closed = strict or user == 0
    assert (done.returncode, done.stdout) == ((0, b"%d\n" % errno.EROFS) if is_closed else (1, b""))


SPAWNERS = """
import subprocess, sys, threading
found = []
def spawn():
    for _ in range(5):
        found.append(subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE))
threads = [threading.Thread(target=spawn) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print({(one.returncode, one.stdout, one.stderr != b'') for one in found}, len(found))
"""


@STRICT
async def test_many_threads_may_execute_at_once(url: str, workspace: Path, strict: bool) -> None:
    wanted = rules(NO_UNAME, strict=strict)
    done = await run(url, [PYTHON, "-c", SPAWNERS, "uname"], workspace, wanted)
    assert done.stdout == b"{(1, b'', True)} 80\n"
    assert done.ending.execs is not None
    assert done.ending.execs.total == 80
    done = await run(url, [PYTHON, "-c", SPAWNERS, "echo", "x"], workspace, wanted)
    assert done.stdout == b"{(0, b'x\\n', False)} 80\n"


@STRICT
async def test_programs_get_what_their_callers_say(
    url: str, workspace: Path, user: int, strict: bool
) -> None:
    planted(workspace, user, "script", '#!/bin/sh\necho "$0" "$@" $V\n')
    planted(workspace, user, "plain", "echo no line, $1\n")
    code = """
import os, subprocess
os.environ['V'] = 'v'
run = lambda *a, **k: print(subprocess.run(a, stdout=subprocess.PIPE, **k).stdout)
run(b'printf', b'%s|', b'\\xff\\xfe', b'')
run('./script', 'a b')
run('-x', '-c', 'echo $0', executable='/bin/sh')
run('sh', '-c', './plain here')
run('printf', '%s', 'x' * 100000)
try: run('./nothing')
except OSError as error: print(error.errno)
try: run('.')
except OSError as error: print(error.errno)
"""
    done = await run(
        url, [PYTHON, "-c", code], workspace, rules(strict=strict), env={"PATH": "/usr/bin:/bin"}
    )
    lines = done.stdout.decode().splitlines()
    assert lines == [
        str(b"\xff\xfe||"),
        str(b"./script a b v\n"),
        str(b"-x\n"),
        str(b"no line, here\n"),
        str(b"x" * 100000),
        "2",
        "13",
    ], done.stderr


async def test_a_program_of_the_sandbox_is_judged_by_its_name_and_stays_inside(
    url: str, user: int, workspace: Path
) -> None:
    """An allow lets nothing out of this server; a planted file has the name alone."""
    outside = workspace.with_name(f"{workspace.name}-outside")
    planted(workspace, user, "git", f"#!/bin/sh\necho x > {outside}; echo ran\n")
    done = await run(url, ["sh", "-c", "./git; true"], workspace, rules(rule("allow", "git")))
    assert done.stdout == b"ran\n"
    assert not outside.exists()
    assert told(done, paddock.Verdict.RUN) == ["git"]
    assert done.ending.execs is not None
    assert done.ending.execs.notes[0].not_escalated is not None


# --- answers ----------------------------------------------------------------


class Answers:
    """Answers every question alike, and keeps them."""

    def __init__(self, verdict: paddock.Verdict, **more: object) -> None:
        self.asked: list[ExecApprovalParams] = []
        self._answer = ExecApprovalResult(verdict=verdict, **more)  # type: ignore[arg-type]

    def __call__(self, params: ExecApprovalParams) -> ExecApprovalResult:
        self.asked.append(params)
        return self._answer


ASK = rules(rule("prompt", "uname"), on_prompt="ask")


async def test_what_a_rule_leaves_open_is_asked_and_waits(url: str, workspace: Path) -> None:
    refusing = Answers(paddock.Verdict.DENY, reason="not today")
    done = await run(url, ["sh", "-c", "uname; echo $?"], workspace, ASK, answer=refusing)
    assert done.stdout == b"1\n"
    assert done.stderr.startswith(b"Execution denied: not today (")
    (asked,) = refusing.asked
    assert (asked.program, asked.argv, asked.cwd) == ("/usr/bin/uname", ["uname"], str(workspace))
    running = Answers(paddock.Verdict.RUN, remember=paddock.Remember.PROCESS)
    done = await run(url, ["sh", "-c", "uname; uname"], workspace, ASK, answer=running)
    assert (done.stdout, len(running.asked)) == (b"Linux\nLinux\n", 1)


async def test_no_answer_in_time_is_not_a_refusal(url: str, workspace: Path) -> None:
    async def never(_: ExecApprovalParams) -> ExecApprovalResult:
        await asyncio.Event().wait()
        raise AssertionError

    wanted = rules(rule("prompt", "uname"), on_prompt="ask", prompt_timeout_ms=50)
    done = await run(url, ["sh", "-c", "uname; echo $?"], workspace, wanted, answer=never)  # type: ignore[arg-type]
    assert done.stdout == b"1\n"
    assert b"timed out" in done.stderr
    assert b"refused" not in done.stderr


async def test_a_caller_that_is_killed_needs_no_answer_and_others_do_not_wait(
    url: str, workspace: Path
) -> None:
    """The first caller is killed while its question is open; that is withdrawn, and the command goes on."""
    cancelled, was_asked = asyncio.Event(), asyncio.Event()

    async def never(_: ExecApprovalParams) -> ExecApprovalResult:
        was_asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    script = "uname & echo go; read x; kill -9 $!; wait $!; echo $?; true; echo end; read y"
    async with paddock.connect(url, on_request={"process/execApproval": never}) as box:
        process = await box.start(
            ["sh", "-c", script], cwd=workspace, sandbox=":workspace", intercept=ASK, stdin=True
        )
        async with asyncio.timeout(30):
            await was_asked.wait()
            await process.write(b"x\n")
            await cancelled.wait()
            await process.write(b"y\n")
            assert await process.wait() == 0
        output = b"".join([chunk.data async for chunk in process.output()])
    assert output.endswith(b"137\nend\n"), output


# --- a caller that changes its mind -----------------------------------------

RACE = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None)
path = ctypes.create_string_buffer(b'/bin/uname')
good, bad = b'/bin/true\\0', b'/bin/uname'
argv = (ctypes.c_char_p * 2)(b'x', None)
def flip():
    while True:
        ctypes.memmove(path, bad, 10)
        ctypes.memmove(path, good, 10)
sys.setswitchinterval(1e-6)
counts = {}
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if not child:
        threading.Thread(target=flip, daemon=True).start()
        os.dup2(os.open('/dev/null', os.O_WRONLY), 2)
        libc.execve(path, argv, None)
        os._exit(7)
    status = os.waitpid(child, 0)[1] >> 8
    counts[status] = counts.get(status, 0) + 1
print(set(counts) <= {0, 1, 7}, sum(counts.values()))
"""


async def test_in_strict_mode_nothing_runs_but_what_was_decided(url: str, workspace: Path) -> None:
    done = await run(url, [PYTHON, "-c", RACE, "150"], workspace, rules(NO_UNAME, strict=True))
    assert done.stdout == b"True 150\n", done.stderr


# --- when things go wrong ---------------------------------------------------


async def test_what_can_not_be_intercepted_does_not_start(url: str, workspace: Path) -> None:
    async with paddock.connect(url) as box:
        with pytest.raises(paddock.InvalidParams, match="only what runs in a sandbox"):
            await box.run(["touch", "x"], cwd=workspace, intercept=rules())
        with pytest.raises(paddock.InvalidParams, match="does not answer"):
            await box.run(["touch", "x"], cwd=workspace, sandbox=":workspace", intercept=ASK)
    assert not (workspace / "x").exists()


async def test_a_storm_of_executions_keeps_no_other_client_waiting(url: str, workspace: Path) -> None:
    loop = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; echo done"
    async with paddock.connect(url) as stormy, paddock.connect(url) as other:
        storm = asyncio.create_task(
            stormy.run(["sh", "-c", loop], cwd=workspace, sandbox=":workspace", intercept=rules(NO_UNAME))
        )
        answered = 0
        while not storm.done():
            assert (await other.run(["echo", "hello"])).stdout == b"hello\n"
            answered += 1
    assert (await storm).stdout == b"done\n"
    assert answered > 3


LONG = """
import ctypes, os
text = ctypes.create_string_buffer(b"x" * (120 << 10))
def execute(count):
    argv = (ctypes.c_void_p * (count + 1))(*[ctypes.addressof(text)] * count, None)
    ctypes.CDLL(None, use_errno=True).execve(b"/usr/bin/true", argv, None)
    return ctypes.get_errno()
print(execute(400_000), flush=True)
print(execute(8), flush=True)
"""


@STRICT
async def test_arguments_that_are_too_long_are_refused_as_by_the_kernel(
    url: str, workspace: Path, strict: bool
) -> None:
    # They would be 46 GiB, from 3 MiB of the caller's memory.
    command = [PYTHON, "-c", LONG]
    for intercept in (rules(NO_UNAME, strict=strict), None):
        done = await run(url, command, workspace, intercept)
        assert (done.returncode, done.stdout) == (0, b"%d\n" % errno.E2BIG), done.stderr


async def test_calls_that_wait_for_answers_hold_a_bounded_part_of_memory(url: str, workspace: Path) -> None:
    """Those that would hold more are denied; those that wait run when they are answered."""
    said = bytearray()
    are_denied = asyncio.Event()

    async def later(params: ExecApprovalParams) -> ExecApprovalResult:
        await are_denied.wait()
        return ExecApprovalResult(verdict=paddock.Verdict.RUN)

    # Each has variables of 1.6 MiB.
    script = (
        "word=$(head -c 100000 /dev/zero | tr '\\0' x); for i in $(seq 16); do eval export V$i=$word; done; "
        "for i in $(seq 20); do uname & done; wait"
    )
    async with paddock.connect(url, on_request={"process/execApproval": later}) as box:
        process = await box.start(["sh", "-c", script], cwd=workspace, sandbox=":workspace", intercept=ASK)
        async with asyncio.timeout(60):
            async for chunk in process.output():
                said += chunk.data
                if said.count(b"too many executions") >= 20 - 10:
                    are_denied.set()
    assert 2 <= said.count(b"Linux\n") == 20 - said.count(b"too many executions")


ABANDONED = """
import os, signal, sys
for _ in range(40):
    child = os.fork()
    if not child:
        os.execv("/usr/bin/uname", ["uname", str(_)])
    sys.stdin.buffer.raw.read(1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.write(1, b"killed\\n")
"""


def has_open(process: str, path: str) -> bool:
    """Tell whether a process has a file open, or names it by a descriptor."""
    for file in Path("/proc", process, "fd").iterdir():
        with suppress(FileNotFoundError):
            if os.readlink(file) == path:
                return True
    return False


async def test_executions_whose_process_dies_leave_no_descriptors_open(url: str, workspace: Path) -> None:
    """The process is killed while its execution waits for an answer; nothing of it stays in the server."""
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def never(params: ExecApprovalParams) -> ExecApprovalResult:
        asked.put_nowait(params.argv[1])
        await asyncio.Event().wait()
        raise AssertionError

    server = url.rpartition("-")[2]
    async with paddock.connect(url, on_request={"process/execApproval": never}) as box:
        process = await box.start(
            [PYTHON, "-c", ABANDONED], cwd=workspace, sandbox=":workspace", intercept=ASK, stdin=True
        )
        async with asyncio.timeout(60):
            for _ in range(40):
                await asked.get()
                await process.write(b"x")
            assert await process.wait() == 0
            # Its end is told before all of it is cleared away.
            while has_open(server, "/usr/bin/uname"):
                await run(url, ["true"], workspace, rules())


@STRICT
async def test_a_program_that_only_the_task_finds_does_not_run_undecided(
    url: str, workspace: Path, strict: bool
) -> None:
    """In /proc of the sandbox there is a `self` for its own processes only."""
    (workspace / "link").symlink_to("/proc/self/root/usr/bin")
    paths = ("/proc/self/root/usr/bin/uname", "/proc/thread-self/cwd/link/uname", "link/uname")
    script = "".join(f"{path}; echo $?; " for path in paths) + "/usr/bin/true; echo $?; missing; echo $?"
    done = await run(url, ["sh", "-c", script], workspace, rules(NO_UNAME, strict=strict))
    assert done.stdout.split() == [b"127", b"127", b"127", b"0", b"127"], done.stderr


TERMINAL = """
import contextlib, fcntl, os, struct, subprocess, termios
TIOCGSID = 0x5429
master, slave = os.openpty()
def session():
    try: return struct.unpack("i", fcntl.ioctl(master, TIOCGSID, bytes(4)))[0]
    except OSError: return None
for name, text in (("script", f"#!{os.ttyname(slave)}\\n"), ("link", None)):
    os.mkdir(name)
    if text is None:
        os.symlink(os.ttyname(slave), name + "/uname")
    else:
        with open(os.open(name + "/uname", os.O_WRONLY | os.O_CREAT, 0o755), "w") as file:
            file.write(text)
    with contextlib.suppress(PermissionError): subprocess.run([name + "/uname"])
    print(session(), flush=True)
if not os.fork():
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    print(session() == os.getpid(), flush=True)
    os._exit(0)
os.wait()
"""


@STRICT
async def test_a_terminal_that_is_executed_does_not_become_the_servers(ground: Path, strict: bool) -> None:
    """A private server leads a session without a terminal; the keys of one would be its signals."""
    wanted = rules(rule("allow", "uname"), strict=strict)
    async with paddock.connect() as box:
        with directory_of(os.geteuid(), ground) as workspace:
            argv = [PYTHON, "-c", TERMINAL]
            done = await box.run(argv, cwd=workspace, sandbox=":workspace", intercept=wanted, timeout_s=60)
    assert (done.stdout, done.returncode) == (b"None\nNone\nTrue\n", 0), done.stderr

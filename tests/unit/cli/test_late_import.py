"""A module that is imported late is the same to whoever uses it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paddock.cli.late_import import SELDOM_USED
from tests.operators import PATIENCE_S

BEGINNING = """\
import sys
from paddock.cli.late_import import SELDOM_USED, LateModule, import_asyncio, postpone
postpone()
import_asyncio()
def late():
    names = ("asyncio.sslproto", *SELDOM_USED)
    return [name for name in names if type(sys.modules[name]) is LateModule]
import asyncio
from paddock.cli.quick_import import import_msgspec
import_msgspec()
import msgspec, pybase64
"""


def told(script: str) -> str:
    """Run a script in an interpreter of its own, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + script], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_asyncio_and_msgspec_need_none_of_them_to_start() -> None:
    script = (
        "from paddock.cli.interruptible import run_interruptible; run_interruptible(asyncio.sleep(0))\n"
        "msgspec.json.encode({}); print(*late())"
    )
    assert told(script).split() == ["asyncio.sslproto", *SELDOM_USED]


@pytest.mark.parametrize(
    ("use", "name"),
    [
        ("asyncio.iscoroutinefunction(print)", "inspect"),
        ("asyncio.base_events.ssl.SSLContext(asyncio.base_events.ssl.PROTOCOL_TLS_CLIENT)", "ssl"),
        ("asyncio.sslproto.SSLProtocol", "asyncio.sslproto"),
        ("from asyncio.sslproto import SSLProtocol", "asyncio.sslproto"),
        ("from asyncio import sslproto; sslproto.SSLProtocol", "asyncio.sslproto"),
        ("msgspec.json.schema(int)", "msgspec.inspect"),
        ("pybase64.b64encode(b'x')", "pybase64"),
    ],
)
def test_using_one_imports_the_real_one(use: str, name: str) -> None:
    script = f"{use}; assert {name!r} not in late(); import {name} as real; print(real.__spec__.name)"
    assert told(script) == name


def test_names_imported_from_one_are_those_of_the_real_one() -> None:
    script = (
        "from inspect import isawaitable as early; stand_in = asyncio.coroutines.inspect\n"
        "import inspect; print(early is inspect.isawaitable is stand_in.isawaitable, inspect is stand_in)"
    )
    assert told(script) == "True False"


def test_tls_works_in_a_loop_that_was_made_before() -> None:
    script = """
async def main():
    context = asyncio.base_events.ssl.create_default_context()
    async def serve(reader, writer):
        writer.write(b"this is no TLS\\n")
        writer.close()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        try:
            await asyncio.open_connection("127.0.0.1", port, ssl=context)
        except OSError as error:
            import ssl
            print(isinstance(error, ssl.SSLError), error.reason)
asyncio.run(main())
"""
    assert told(script) == "True WRONG_VERSION_NUMBER"


def test_threads_that_use_one_at_the_same_time_all_find_the_whole_of_it() -> None:
    script = """
from threading import Barrier, Thread
barrier, found = Barrier(8), []
def use():
    barrier.wait()
    found.append(asyncio.coroutines.inspect.Signature)
threads = [Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
import inspect
print(found.count(inspect.Signature))
"""
    assert told(script) == "8"


def test_what_does_not_exist_is_an_ordinary_attribute_error() -> None:
    script = "print(hasattr(asyncio.coroutines.inspect, 'nonsense'))"
    assert told(script) == "False"


def test_to_look_at_all_modules_imports_none() -> None:
    script = "found = [getattr(m, '__file__', None) for m in list(sys.modules.values())]; print(*late())"
    assert told(script).split() == ["asyncio.sslproto", *SELDOM_USED]


def test_moments_that_msgspec_reads_are_those_of_the_real_module() -> None:
    script = (
        "print('datetime' in sys.modules)\n"
        "import datetime; moment = msgspec.json.decode(b'\"2026-01-02T03:04:05Z\"', type=datetime.datetime)\n"
        "print(type(moment) is datetime.datetime, moment.tzinfo is datetime.UTC, moment.strftime('%d %b'))"
    )
    assert told(script).splitlines() == ["False", "True True 02 Jan"]

"""How the stock Codex CLI finds our server, keeps it over a broken connection, and leaves it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.interop.codex import WITH_CODE, Mode, codex_cli, new_ground
from tests.interop.model import LAST_ANSWER, Call
from tests.interop.tap import Tap
from tests.sandbox.helper_process import wait_until
from tests.serving import serving

TOKEN = "open-sesame"


async def test_the_cli_works_and_ends_well_in_an_empty_workspace_which_stays_clean(server_url: str) -> None:
    with new_ground() as ground:
        async with Tap(server_url) as tap, codex_cli(ground, Mode.WORKSPACE_WRITE, url=tap.url) as codex:
            reply = await codex.run("exit 3")
            await codex.patch("*** Add File: new.txt", "+made")
            status, printed = await codex.finish()

        assert reply.exit_code == 3
        assert (status, printed.strip()) == (0, LAST_ANSWER)
        # The server ends the sandbox of the patch once the CLI has gone, and nobody waits for that.
        wait_until(lambda: os.listdir(ground.workspace) == ["new.txt"])
        assert (ground.workspace / "new.txt").read_text() == "made\n"
        assert tap.connections == 1
        assert ["error" in watched.answer for watched in tap.exchanges("fs/watchMissing")] == [False]


async def test_a_command_goes_on_over_a_broken_connection_and_nothing_of_it_is_lost(server_url: str) -> None:
    with new_ground() as ground:
        async with Tap(server_url) as tap, codex_cli(ground, Mode.WORKSPACE_WRITE, url=tap.url) as codex:
            before, after = ground.gate(), ground.gate()
            session = await codex.begin(f"echo one; cat {before.path}; cat {after.path}; exit 6")
            await before.reached()
            tap.cut()
            before.open("two\n")
            await after.reached()
            after.open("three\n")

            assert await session.end() == 6
            assert session.output == "one\ntwo\nthree\n"
            assert (await codex.run("echo four")).output == "four\n"
        first, second = tap.exchanges("initialize")
        assert second.params["resumeSessionId"] == first.result["sessionId"] == second.result["sessionId"]


async def test_the_cli_is_told_of_a_server_and_its_token_by_a_file(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    flags = ("--ws-auth", "capability-token", "--ws-token-file", str(token_file))
    with new_ground() as ground, serving(*flags) as server:
        async with Tap(server.url) as tap:
            place = f'url = "{tap.url}"\nauth_bearer_token = "{TOKEN}"\n'
            async with codex_cli(ground, Mode.WORKSPACE_WRITE, environment=_environment(place)) as codex:
                assert (await codex.run("echo hello")).output == "hello\n"
        assert len(tap.starts("echo hello")) == 1


async def test_the_cli_starts_the_server_itself() -> None:
    arguments = ["-P", "-m", "paddock", "serve", "--listen", "stdio"]
    with new_ground() as ground:
        variables = f'{{ PATH = "{os.environ["PATH"]}", HOME = "{ground.home}" }}'
        place = f'program = "{sys.executable}"\nargs = {json.dumps(arguments)}\nenv = {variables}\n'
        async with codex_cli(ground, Mode.WORKSPACE_WRITE, environment=_environment(place)) as codex:
            denied = await codex.run(f"echo x > {ground.outside}/file")
            session = await codex.begin("read -r line; echo got $line; exit 5", tty=True)
            await session.type("beta\n")

            assert "Read-only file system" in denied.output
            assert await session.end() == 5
            assert "got beta" in session.output
            assert (await codex.finish())[0] == 0


async def test_a_model_that_writes_programs_uses_the_same_tools(server_url: str) -> None:
    program = """\
const first = await tools.exec_command({cmd: "echo sum-$((6*7)); exit 3", login: false});
const second = await tools.exec_command(
  {cmd: "read -r line; echo got $line; exit 5", tty: true, login: false, yield_time_ms: 250});
const third = await tools.write_stdin(
  {session_id: second.session_id, chars: "beta\\n", yield_time_ms: 10000});
await tools.apply_patch("*** Begin Patch\\n*** Add File: made.txt\\n+by a program\\n*** End Patch\\n");
text(JSON.stringify([first.output, first.exit_code, third.output, third.exit_code]));
"""
    with new_ground() as ground:
        async with codex_cli(ground, Mode.WORKSPACE_WRITE, url=server_url, model_name=WITH_CODE) as codex:
            (reply,) = await codex.use(Call("exec", program))

        results = json.loads(reply.text.splitlines()[-1])
        assert results[:2] == ["sum-42\n", 3]
        assert "got beta" in results[2]
        assert results[3] == 5
        assert (ground.workspace / "made.txt").read_text() == "by a program\n"


def _environment(place: str) -> str:
    """The file that tells the CLI of one environment, and of no other."""
    return f'default = "box"\ninclude_local = false\n[[environments]]\nid = "box"\n{place}'

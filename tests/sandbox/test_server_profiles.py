"""Profiles that a server knows by name, and the one that caps all requests, over the wire."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from paddock.config import make_settings
from paddock.errors import ConfigError
from paddock.sandbox.host.tree_memory import Tree
from paddock.sandbox.host.tree_search import TreeSearch
from paddock.server.app import serve
from tests.http_origin import origin, say_ok
from tests.sandbox.profiles import READ_ONLY, ROOT, entry, sandbox, workspace_write
from tests.wire import WireClient, WireError, attach, encode, served, session, shell, start_params

Json = dict[str, Any]

DISABLED = {"permissions": {"type": "disabled"}, "windowsSandboxLevel": "disabled"}
EXTERNAL = {"permissions": {"type": "external", "network": "restricted"}, "windowsSandboxLevel": "disabled"}


@pytest.fixture(name="workspace")
def workspace_of_the_test(new_directory: Path) -> Path:
    """With a file that only some may read."""
    (new_directory / "file").write_text("hello")
    (new_directory / "secret").write_text("hunter2")
    return new_directory


def tables(workspace: Path, **more: Any) -> Json:
    """One profile, `dev`: everything can be read but a secret, and a workspace written."""
    filesystem = {":root": "read", str(workspace): "write", f"{workspace}/secret": "deny"}
    return {"dev": {"filesystem": filesystem, **more}}


async def status(client: WireClient, script: str, wanted: Json, cwd: Path) -> int | None:
    await client.start("p", *shell(script), cwd=str(cwd), sandbox=wanted)
    return (await client.finish("p")).exit_code


async def refusal(client: WireClient, method: str, params: Json) -> WireError:
    with pytest.raises(WireError) as refused:
        await client.call(method, params)
    return refused.value


# --- by name ----------------------------------------------------------------


async def test_a_profile_of_the_settings_can_be_asked_for_by_its_name(workspace: Path) -> None:
    async with session(permissions=tables(workspace)) as client:
        await client.start(
            "p", *shell("echo x > new; cat secret"), cwd=str(workspace), sandbox={"profile": "dev"}
        )
        confined = await client.finish("p")
        assert (confined.exit_code, (workspace / "new").exists()) == (1, True)
        read = {"path": str(workspace / "secret"), "sandbox": {"profile": "dev"}}
        assert (await refusal(client, "fs/readFile", read)).code == -32600
        assert await client.call("fs/readFile", read | {"path": str(workspace / "file")})


@pytest.mark.parametrize(
    ("name", "is_written"), [(":read-only", False), (":workspace", True), (":danger-full-access", True)]
)
async def test_built_in_profiles_have_names_on_every_server(
    workspace: Path, name: str, is_written: bool
) -> None:
    async with session() as client:
        await client.start("p", *shell("echo x > new"), cwd=str(workspace), sandbox={"profile": name})
        await client.finish("p")
    assert (workspace / "new").exists() == is_written


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (
            {"profile": "nobody"},
            "profile nobody: .*; there are dev, :read-only, :workspace, :danger-full-access",
        ),
        ({"profile": ""}, "it is empty"),
        ({"profile": "dev"} | DISABLED, "one or the other"),
        ({"profile": "dev", "policy": {"type": "read-only"}}, "give one of them"),
    ],
)
async def test_a_name_that_is_not_known_or_not_alone_is_refused(
    workspace: Path, wanted: Json, reason: str
) -> None:
    async with session(permissions=tables(workspace)) as client:
        with pytest.raises(WireError, match=reason) as refused:
            await client.start("p", "/bin/true", sandbox=wanted)
        assert refused.value.code == -32602


async def test_a_profile_about_workspaces_needs_to_know_them_for_files(workspace: Path) -> None:
    write = {"path": str(workspace / "new"), "dataBase64": encode(b"x")}
    async with session() as client:
        refused = await refusal(client, "fs/writeFile", write | {"sandbox": {"profile": ":workspace"}})
        assert (refused.code, "workspaceRoots" in refused.message) == (-32602, True)
        within = {"profile": ":workspace", "workspaceRoots": [workspace.as_uri()]}
        await client.call("fs/writeFile", write | {"sandbox": within})
    assert (workspace / "new").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"permissions": {"dev": {"filesystem": {"relative": "read"}}}}, "permissions.dev"),
        ({"permissions": {":mine": {}}}, "permissions.:mine"),
        ({"max_profile": "nobody"}, "max_profile"),
        ({"permissions": {"dev": 1}}, "permissions"),
    ],
)
async def test_a_server_with_profiles_that_make_no_sense_does_not_start(table: Json, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        async with serve(make_settings(table)):
            pass


# --- the cap ----------------------------------------------------------------


async def test_what_the_cap_grants_can_be_asked_for_in_any_words(workspace: Path) -> None:
    async with session(permissions=tables(workspace), max_profile="dev") as client:
        within = sandbox(entry(ROOT, "read"), entry(workspace, "write"), entry(workspace / "secret", "deny"))
        for number, wanted in enumerate(({"profile": "dev"}, within)):
            process = f"p{number}"
            await client.start(
                process, *shell("echo x > new; cat secret"), cwd=str(workspace), sandbox=wanted
            )
            assert (await client.finish(process)).exit_code == 1
            (workspace / "new").unlink()
            read = {"path": str(workspace / "file"), "sandbox": wanted}
            assert await client.call("fs/readFile", read)


def beyond(workspace: Path) -> list[tuple[Json | None, str]]:
    """Sandboxes that grant more than `dev` does, and what is said to be too much."""
    narrow = (entry(ROOT, "read"), entry(workspace / "secret", "deny"))
    return [
        (None, "without a sandbox|outside of a sandbox"),
        (DISABLED, "without a sandbox|outside of a sandbox"),
        (EXTERNAL, "write access to /,|outside of a sandbox"),
        ({"profile": ":danger-full-access"}, "without a sandbox|outside of a sandbox"),
        (READ_ONLY, f"read access to {workspace}/secret, where the most is none"),
        (sandbox(*narrow, entry(Path("/etc"), "write")), "write access to /etc, where the most is read"),
        (sandbox(*narrow, network="loopback"), "the network loopback, where the most is restricted"),
        (sandbox(*narrow, limits={"openFiles": 65}), "the limit openFiles of 65, where the most is 64"),
        (sandbox(*narrow), "no limit openFiles, where the most is 64"),
    ]


@pytest.mark.parametrize("index", range(9))
async def test_more_than_the_cap_grants_is_refused_by_starts_and_files_alike(
    workspace: Path, index: int
) -> None:
    wanted, reason = beyond(workspace)[index]
    if wanted is not None and "limit" not in reason and "file_system" in wanted.get("permissions", {}):
        # Of a copy: some are everybody's.
        wanted = {**wanted, "permissions": {**wanted["permissions"], "limits": {"openFiles": 64}}}
    permissions = tables(workspace, limits={"openFiles": 64})
    async with session(permissions=permissions, max_profile="dev") as client:
        with pytest.raises(WireError, match=reason) as refused:
            await client.start("p", "/bin/true", sandbox=wanted)
        assert (refused.value.code, "'dev'" in refused.value.message) == (-32600, True)
        for method, more in (("fs/readFile", {}), ("fs/writeFile", {"dataBase64": ""}), ("fs/walk", WALK)):
            params = {"path": str(workspace / "file"), "sandbox": wanted, **more}
            with pytest.raises(WireError, match=reason):
                await client.call(method, params)
        assert (await client.call("process/list"))["processes"] == []
    assert (workspace / "file").read_text() == "hello"


WALK: Json = {
    "options": {
        "maxDepth": 1,
        "maxDirectories": 1,
        "maxEntries": 1,
        "followDirectorySymlinks": False,
        "pruneHiddenDirectories": False,
    }
}


async def test_a_request_can_not_widen_the_cap_by_its_own_workspace_roots(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    monkeypatch.delenv("TMPDIR", raising=False)
    outside = workspace.parent / f"{workspace.name}-outside"
    outside.mkdir()
    async with session(max_profile=":workspace") as client:
        inside = {"profile": ":workspace", "cwd": workspace.as_uri()}
        assert await status(client, "echo x > new", inside, workspace) == 0
        for wanted in (
            {"profile": ":workspace", "cwd": outside.as_uri()},
            workspace_write(outside),
            {"policy": {"type": "workspace-write"}, "cwd": outside.as_uri()},
        ):
            with pytest.raises(WireError, match=f"write access to {outside}, where the most is read"):
                await client.start("q", "/bin/true", sandbox=wanted)
        await client.start(
            "t", "/bin/sh", "-c", f"echo x > {outside}/new", env={"TMPDIR": str(outside)}, sandbox=inside
        )
        assert (await client.finish("t")).exit_code != 0
        assert not (outside / "new").exists()


async def test_a_link_leads_no_further_than_the_cap(workspace: Path) -> None:
    (workspace / "link").symlink_to("/etc")
    async with session(permissions=tables(workspace), max_profile="dev") as client:
        through = sandbox(
            entry(ROOT, "read"), entry(workspace / "secret", "deny"), entry(workspace / "link", "write")
        )
        with pytest.raises(WireError, match="write access to /etc, where the most is read"):
            await client.start("p", "/bin/true", sandbox=through)


@pytest.fixture
def denied(workspace: Path) -> Path:
    """A directory beside the workspace with a name of each kind."""
    directory = workspace.parent / f"{workspace.name}-denied"
    (directory / "directory").mkdir(parents=True)
    (directory / "file").write_text("hunter2")
    (directory / "out").symlink_to("/usr/lib")
    (directory / "in").symlink_to(workspace)
    return directory


HIDDEN_NAMES = ("directory", "missing", "file", "out", "in", "missing/../../..", "directory/../in")


def denying(workspace: Path, denied: Path) -> Json:
    files = {":root": "read", str(workspace): "write", str(denied): "deny"}
    return {"dev": {"filesystem": files, "workspace_roots": {str(workspace): True}}}


async def test_a_start_tells_nothing_of_a_denied_directory(workspace: Path, denied: Path) -> None:
    within = (entry(ROOT, "read"), entry(denied, "deny"))
    async with session(permissions=denying(workspace, denied), max_profile="dev") as client:
        answers: dict[str, set[str]] = {kind: set() for kind in ("cwd", "both", "root", "entry")}
        for name in HIDDEN_NAMES:
            path = f"{denied}/{name}"
            asked = {
                "cwd": {"cwd": path, "sandbox": {"profile": "dev", "workspaceRoots": [workspace.as_uri()]}},
                "both": {"cwd": path, "sandbox": {"profile": "dev"}},
                "root": {"cwd": "/", "sandbox": {"profile": "dev", "workspaceRoots": [f"file://{path}"]}},
                "entry": {"cwd": "/", "sandbox": sandbox(*within, entry(Path(path), "read"))},
            }
            if ".." in name:
                # These are taken as written.
                del asked["entry"], asked["root"]
            for kind, params in asked.items():
                with pytest.raises(WireError) as refused:
                    await client.start("p", "/bin/true", **params)
                answers[kind].add(refused.value.message.replace(path, "PATH"))
        assert {len(said) for said in answers.values()} == {1}, answers
        assert "the working directory PATH can't be read under the profile" in answers["cwd"].pop()
        for kind in ("both", "root", "entry"):
            assert "access to PATH, where the most is none" in answers[kind].pop()
        assert await status(client, "pwd", {"profile": "dev"}, workspace) == 0


async def test_a_denial_in_a_denied_directory_does_not_show_where_a_link_leads(
    workspace: Path, denied: Path
) -> None:
    within = (entry(ROOT, "read"), entry(denied, "deny"))
    wanted = sandbox(*within, entry(denied / "out", "deny"), entry(denied / "missing" / "x", "deny"))
    async with session(permissions=denying(workspace, denied), max_profile="dev") as client:
        assert await status(client, f"ls /usr/lib && ! ls {denied}", wanted, workspace) == 0


async def test_a_missing_working_directory_in_sight_is_told(workspace: Path) -> None:
    async with session(permissions=denying(workspace, workspace / "secret"), max_profile="dev") as client:
        for name, problem in (("missing", "No such file"), ("file", "Not a directory")):
            with pytest.raises(WireError, match=problem):
                await client.start("p", "/bin/true", cwd=f"{workspace}/{name}", sandbox={"profile": "dev"})


async def test_a_linked_directory_in_sight_can_be_worked_in(workspace: Path) -> None:
    (workspace / "place").mkdir()
    link = workspace.parent / f"{workspace.name}-link"
    link.symlink_to(workspace)
    minimal = {"filesystem": {":minimal": "read", ":workspace_roots": "write"}}
    async with session(permissions={"dev": minimal}) as client:
        wanted = {"profile": "dev", "workspaceRoots": [link.as_uri()]}
        assert await status(client, "echo x > new", wanted, link / "place") == 0
    assert (workspace / "place" / "new").exists()


async def test_files_that_the_cap_denies_by_pattern_must_be_denied_by_everybody(workspace: Path) -> None:
    (workspace / "local.env").write_text("KEY=1")
    filesystem = {":root": "read", str(workspace): {"**/*.env": "deny"}}
    async with session(permissions={"p": {"filesystem": filesystem}}, max_profile="p") as client:
        assert await status(client, "cat file", {"profile": "p"}, workspace) == 0
        refused = await refusal(
            client, "fs/readFile", {"path": str(workspace / "local.env"), "sandbox": READ_ONLY}
        )
        assert f"read access to {workspace}/local.env" in refused.message


async def test_prepared_starts_and_the_servers_own_requests_are_capped_too(workspace: Path) -> None:
    prepared = {"argv": ["/bin/true"], "cwd": "/", "env": {}}
    start = {"processId": "p", "tty": False, "prepared": prepared}
    async with origin(say_ok) as remote:
        fetch = {"method": "GET", "url": remote.url, "requestId": "r"}
        offline = tables(workspace)
        async with session(permissions=offline, max_profile="dev", allow_prepared_exec=True) as client:
            for method, params in (("process/start", start), ("http/request", fetch)):
                assert "max_profile" in (await refusal(client, method, params)).message
            assert "max_profile" in (await refusal(client, "fs/watch", {"path": str(workspace)})).message
        assert remote.requests == []
        online = tables(workspace, network="enabled")
        async with session(permissions=online, max_profile="dev") as client:
            assert (await client.call("http/request", fetch))["status"] == 200


async def test_settings_of_codex_are_read_within_the_cap(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "config.toml").write_text('model = "hunter2"\n')
    monkeypatch.setenv("CODEX_HOME", str(workspace))
    asked = {"cwd": workspace.as_uri(), "configPaths": [["model"]], "requirementsPaths": []}
    readable = {"filesystem": {":root": "read"}}
    denied = {"filesystem": {":root": "read", f"{workspace}/config.toml": "deny"}}
    async with session(permissions={"p": readable}, max_profile="p") as client:
        assert "hunter2" in str(await client.call("environmentConfig/read", asked))
    async with session(permissions={"p": denied}, max_profile="p") as client:
        refused = await refusal(client, "environmentConfig/read", asked)
        assert (refused.code, "Permission denied" in refused.message) == (-32603, True)


async def test_a_cap_that_grants_everything_caps_nothing(workspace: Path) -> None:
    async with session(max_profile=":danger-full-access") as client:
        await client.start("p", "/bin/true")
        assert (await client.finish("p")).exit_code == 0
        assert await client.call("fs/readFile", {"path": str(workspace / "file")})


async def test_a_cap_that_speaks_of_no_workspace_has_none(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a service manager starts a server. In a project root the links /bin and /lib could be a command's.
    monkeypatch.chdir("/")
    cap = {"cap": {"filesystem": {":minimal": "read", str(workspace): "write"}}}
    async with session(permissions=cap, max_profile="cap") as client:
        wanted = {"profile": "cap", "cwd": str(workspace)}
        assert await status(client, f"echo x > new; ! echo x > {workspace}x", wanted, workspace) == 0
        read = {"path": str(workspace / "file"), "sandbox": wanted}
        assert await client.call("fs/readFile", read) == {"dataBase64": encode(b"hello")}
    assert (workspace / "new").exists()
    assert workspace.name + "x" not in [path.name for path in workspace.parent.iterdir()]


async def test_nobody_waits_for_the_searches_of_another_client(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client whose patterns take long to search for holds up neither starts without patterns nor the
    searches of others."""
    has_begun, may_end = threading.Event(), threading.Event()
    run = TreeSearch.run

    def slow(search: TreeSearch) -> Tree:
        if search._bounds.top == str(workspace / "slow"):
            has_begun.set()
            assert may_end.wait(60)
        return run(search)

    monkeypatch.setattr(TreeSearch, "run", slow)
    (workspace / "slow").mkdir()
    (workspace / "quick").mkdir()
    async with served() as server:
        hostile, other = attach(server), attach(server)
        await hostile.initialize()
        await other.initialize()
        starts = [
            hostile.request(
                "process/start",
                start_params(f"h{number}", *shell("true"), sandbox=denied_in(workspace, f"slow/*.{number}")),
            )
            for number in range(20)
        ]
        try:
            async with asyncio.timeout(30):
                await asyncio.to_thread(has_begun.wait)
                assert await status(other, "true", READ_ONLY, workspace) == 0
                await other.start("q", *shell("true"), sandbox=denied_in(workspace, "quick/*.x"))
                assert (await other.finish("q")).exit_code == 0
                assert not hostile.unread
        finally:
            may_end.set()
        for number, start in enumerate(starts):
            await hostile.answer(start)
            assert (await hostile.finish(f"h{number}")).exit_code == 0


def denied_in(workspace: Path, pattern: str) -> Json:
    hidden = {"path": {"type": "glob_pattern", "pattern": f"{workspace}/{pattern}"}, "access": "deny"}
    return sandbox(entry(ROOT, "read"), hidden)

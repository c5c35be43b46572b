"""Where paths lead is told by the host, and a link that leads out of sight leads nowhere."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

import pytest

from paddock.errors import FileForbidden, FileMissing, InvalidRequest
from paddock.mcp_server.path_lookup import Location, locate
from paddock.sandbox.profile.path import ancestors


@dataclass
class Host:
    """A host with these paths and links, of which some directories can't be entered."""

    paths: set[str]
    links: dict[str, str] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    capabilities: tuple[str, ...] = ("fsLinks",)
    protected: set[str] = field(default_factory=set)

    def has(self, capability: str) -> bool:
        return capability in self.capabilities

    async def canonicalize(self, path: str) -> str:
        for above in (path, *ancestors(path)):
            if above in self.links:
                path = self.links[above] + path[len(above) :]
                break
        if any(above in self.closed for above in ancestors(path)):
            raise FileForbidden("closed", errno.EACCES, path)
        if path not in self.paths:
            raise FileMissing("missing", errno.ENOENT, path)
        return path

    async def is_read_only(self, path: str) -> bool:
        return any(above in self.protected for above in (await self.canonicalize(path), *ancestors(path)))

    async def metadata(self, path: str, *, follow_symlinks: bool = True) -> object:
        assert not follow_symlinks
        if path in self.links:
            raise InvalidRequest("a link")
        raise FileMissing("missing", errno.ENOENT, path)


HOST = Host({"/", "/a", "/a/b", "/shut"}, {"/l": "/a", "/a/away": "/unseen"}, {"/shut"})


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/", Location("/")),
        ("/a/b", Location("/a/b")),
        ("/l/b", Location("/a/b")),
        ("/l/new/file", Location("/a/new/file", is_missing=True)),
        ("/shut", Location("/shut")),
        ("/shut/file", None),
        ("/a/away", None),
        ("/a/away/file", None),
    ],
)
async def test_path_leads_where_the_host_says(path: str, location: Location | None) -> None:
    assert (await locate(HOST, [path])).get(path) == location


async def test_host_that_knows_no_links_can_not_tell_where_a_missing_file_would_be() -> None:
    assert await locate(Host({"/", "/a"}, capabilities=()), ["/a", "/a/new"]) == {"/a": Location("/a")}


async def test_paths_are_asked_for_once() -> None:
    asked: list[str] = []

    class Counting(Host):
        async def canonicalize(self, path: str) -> str:
            asked.append(path)
            return await super().canonicalize(path)

    await locate(Counting({"/", "/a"}), ["/a/x/1", "/a/x/2", "/a"])
    assert sorted(asked) == ["/a", "/a/x", "/a/x/1", "/a/x/2"]


@pytest.mark.parametrize(
    ("path", "is_read_only"),
    [("/a", False), ("/a/b", True), ("/a/b/new/file", True), ("/l/b", True), ("/a/new", False), ("/", False)],
)
async def test_host_tells_what_the_cap_protects(path: str, is_read_only: bool) -> None:
    host = Host({"/", "/a", "/a/b"}, {"/l": "/a"}, protected={"/a/b"})
    assert (await locate(host, [path], [path]))[path].is_read_only is is_read_only
    assert not (await locate(host, [path]))[path].is_read_only

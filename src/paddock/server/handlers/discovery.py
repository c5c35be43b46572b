"""`environmentConfig/read`, `capabilityRoots/discoverV1` and `capabilities/discoverV2`."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from paddock.errors import InvalidParams, InvalidRequest, RequestError
from paddock.fs import operation as engine
from paddock.fs.operations import Operations
from paddock.protocol import discovery as wire
from paddock.protocol.call import Call
from paddock.protocol.envelope import write_result
from paddock.protocol.path import HostPath, file_uri
from paddock.protocol.structure import Result
from paddock.server.connection import ClientConnection, HandlerTable
from paddock.server.dispatch import Encoded
from paddock.server.environment import user_home
from paddock.server.handlers.file_operations import local_path, operations_for, own_operations

if TYPE_CHECKING:
    from paddock.discovery.files import Reader, TextFile, Tree
    from paddock.discovery.root import FoundRoot, Plugin
    from paddock.discovery.settings import Home, Layers
    from paddock.discovery.skill import Skill
    from paddock.discovery.standard import Installed
    from paddock.fs.answer import Walked

MAX_ROOTS = 128
MAX_DIRECTORIES = 10_000
MAX_ENTRIES = 50_000
MAX_PATH_BYTES = 4 * 1024 * 1024
"""The limits of `fs/walk`: what a client could list itself."""


class _Files:
    """The file system of discovery: the same operations that clients have."""

    def __init__(self, operations: Operations, connection: ClientConnection) -> None:
        self._operations = operations
        self.compute = connection.compute

    async def is_directory(self, path: bytes) -> bool:
        return (await self._operations.perform(engine.GetMetadata(path=path))).is_directory

    async def is_file(self, path: bytes) -> bool:
        try:
            return (await self._operations.perform(engine.GetMetadata(path=path))).is_file
        except RequestError:
            return False

    async def list_tree(self, path: bytes, max_depth: int) -> Tree:
        walked = await self._operations.perform(
            engine.Walk(
                path=path,
                max_depth=max_depth,
                max_directories=MAX_DIRECTORIES,
                max_entries=MAX_ENTRIES,
                max_bytes=MAX_PATH_BYTES,
                follow_directory_links=True,
                prune_hidden=False,
            )
        )
        return await self.compute(partial(_tree, path, walked))

    async def read(self, path: bytes, limit_bytes: int) -> bytes:
        opened = await self._operations.perform(engine.Open(path=path, prefetch_bytes=limit_bytes))
        if opened.handle is not None:
            await self._operations.perform(engine.Close(handle=opened.handle))
        return opened.beginning


def _tree(path: bytes, walked: Walked) -> Tree:
    from paddock.discovery.files import Tree

    tree = Tree([path] if walked.directories else [], [], [error.message for error in walked.errors])
    for directory in walked.directories:
        for name, is_directory in zip(directory.names, directory.are_directories, strict=True):
            found = directory.path + b"/" + name
            (tree.directories if is_directory else tree.files).append(found)
    if walked.is_truncated:
        tree.problems.append(
            f"capability discovery in {os.fsdecode(path)!r} is incomplete: it has more than "
            f"{MAX_ENTRIES} entries or {MAX_DIRECTORIES} directories"
        )
    return tree


async def _answered(
    connection: ClientConnection,
    call: Call[Any],
    look: Callable[[], Coroutine[Any, Any, Callable[[], Result]]],
) -> Encoded:
    """Return the answer of a request that reads many files, once the client has taken enough of the earlier
    ones. `look` reads the files and returns what describes them, which takes long too.
    """
    from paddock.discovery.files import MAX_TOTAL_BYTES

    grant = await connection.room_for(MAX_TOTAL_BYTES)
    try:
        describe = await look()
        return Encoded(await connection.compute(lambda: write_result(call.id, describe())), grant)
    except BaseException:
        grant.release()
        raise


def _home() -> Home:
    from paddock.discovery.settings import Home

    home = os.fsencode(user_home())
    codex_home = os.environb.get(b"CODEX_HOME") or os.path.join(home, b".codex")
    return Home(user_home=home, codex_home=os.path.abspath(codex_home))


# --- settings ---------------------------------------------------------------


async def read_config(
    connection: ClientConnection, call: Call[wire.EnvironmentConfigParams]
) -> wire.EnvironmentConfigResult:
    """Return what Codex's files on this host say about some keys."""
    params = call.params
    from paddock.discovery.settings import read_settings

    if params.cwd.is_foreign:
        raise InvalidParams(f"params.cwd: {params.cwd.text!r} does not name a directory of this Linux host")
    home = _home()
    files = _Files(own_operations(connection), connection)
    config, requirements = await read_settings(home, params.config_paths, params.requirements_paths, files)
    return wire.EnvironmentConfigResult(
        user_home_dir=_uri(home.user_home),
        codex_home_dir=_uri(home.codex_home),
        hostname=os.uname().nodename,
        config=_layers(config),
        requirements=_layers(requirements),
    )


def _layers(found: Layers) -> wire.ConfigLayers:
    return wire.ConfigLayers(
        layers=[
            wire.ConfigLayer(source=layer.source, base_dir=_uri(layer.directory), toml=layer.toml)
            for layer in found.layers
        ],
        cloud_insertion_index=found.insertion_index,
    )


# --- directories ------------------------------------------------------------


async def discover_roots(connection: ClientConnection, call: Call[wire.CapabilityRootsParams]) -> Encoded:
    """Return what each of some directories offers."""
    roots = call.params.roots
    if len(roots) > MAX_ROOTS:
        raise InvalidRequest(
            f"capability root discovery accepts at most {MAX_ROOTS} roots; there are {len(roots)}"
        )
    return await _answered(connection, call, partial(_look_into, connection, roots))


async def _look_into(
    connection: ClientConnection, roots: Sequence[wire.CapabilityRoot]
) -> Callable[[], wire.CapabilityRootsResult]:
    from paddock.discovery.files import MAX_TOTAL_BYTES

    left_bytes = MAX_TOTAL_BYTES
    found = []
    for root in roots:
        describe, left_bytes = await _discover(connection, root, left_bytes)
        found.append(describe)
    return lambda: wire.CapabilityRootsResult(roots=[describe() for describe in found])


async def _discover(
    connection: ClientConnection, root: wire.CapabilityRoot, left_bytes: int
) -> tuple[Callable[[], wire.DiscoveredRoot], int]:
    """Return who describes a root, and how much may be read of the others."""
    from paddock.discovery.files import Reader
    from paddock.discovery.root import look_into

    failed = wire.DiscoveredRoot(
        id=root.id,
        path=root.path.text,
        plugin=None,
        skills=[],
        namespace_manifests=[],
        warnings=[],
        error=None,
    )
    try:
        path = local_path(root.path)
        files = _Files(operations_for(connection, root.sandbox), connection)
    except RequestError as error:
        problem = f"failed to inspect capability root {root.path}: {error}"
        return partial(structs.replace, failed, error=problem), left_bytes
    reader = Reader(files, root.path.like, left_bytes=left_bytes)
    try:
        found = await look_into(path, reader)
    except RequestError as error:
        return partial(structs.replace, failed, error=str(error)), left_bytes
    return partial(_described_root, root, found, reader), reader.left_bytes


def _described_root(root: wire.CapabilityRoot, found: FoundRoot, reader: Reader) -> wire.DiscoveredRoot:
    return wire.DiscoveredRoot(
        id=root.id,
        path=root.path.text,
        plugin=_plugin_files(root.path, found.plugin) if found.plugin is not None else None,
        skills=[
            wire.SkillFiles(
                instructions=_file(root.path, skill.instructions),
                metadata=_optional_file(root.path, skill.metadata),
            )
            for skill in found.skills
        ],
        namespace_manifests=[_file(root.path, manifest) for manifest in found.namespace_manifests],
        warnings=reader.warnings,
        error=None,
    )


# --- what is installed ------------------------------------------------------


async def discover_installed(connection: ClientConnection, call: Call[wire.CapabilitiesParams]) -> Encoded:
    """Return the skills and plugins of the user of this host."""
    return await _answered(connection, call, partial(_find_installed, connection, call.params))


async def _find_installed(
    connection: ClientConnection, params: wire.CapabilitiesParams
) -> Callable[[], wire.CapabilitiesResult]:
    from paddock.discovery.files import Reader
    from paddock.discovery.standard import find_installed

    operations = operations_for(connection, params.sandbox)
    reader = Reader(_Files(operations, connection), params.cwd.like)
    return partial(_described, params.cwd, await find_installed(_home(), reader), reader.warnings)


def _described(like: HostPath, installed: Installed, warnings: list[str]) -> wire.CapabilitiesResult:
    return wire.CapabilitiesResult(
        plugins=[
            wire.DiscoveredPlugin(
                id=plugin.id,
                display_name=plugin.name,
                remote_plugin_id=None,
                version=plugin.version,
                root=like.like(plugin.root),
                files=_plugin_files(like, plugin.files),
                skills=[
                    wire.PluginSkill(
                        name=skill.name,
                        description=skill.description,
                        short_description=skill.short_description,
                        path=like.like(skill.path),
                        dependencies=_dependencies(skill),
                        policy=_policy(skill),
                    )
                    for skill in plugin.skills
                ],
            )
            for plugin in installed.plugins
        ],
        skills=[
            wire.DiscoveredSkill(
                name=skill.name,
                description=skill.description,
                short_description=skill.short_description,
                path=like.like(skill.path),
                discovery_root=wire.DiscoveryRoot(id=root.id, path=like.like(root.path)),
                dependencies=_dependencies(skill),
                policy=_policy(skill),
            )
            for root, skill in installed.skills
        ],
        warnings=warnings,
    )


def _dependencies(skill: Skill) -> wire.SkillDependencies | None:
    if skill.dependencies is None:
        return None
    tools = [wire.SkillTool(**structs.asdict(tool)) for tool in skill.dependencies.tools]
    return wire.SkillDependencies(tools=tools)


def _policy(skill: Skill) -> wire.SkillPolicy | None:
    return wire.SkillPolicy(**structs.asdict(skill.policy)) if skill.policy is not None else None


# --- parts of answers -------------------------------------------------------


def _plugin_files(like: HostPath, plugin: Plugin) -> wire.PluginFiles:
    return wire.PluginFiles(
        manifest=_file(like, plugin.manifest),
        mcp_config=_optional_file(like, plugin.mcp_config),
        apps_config=_optional_file(like, plugin.apps_config),
    )


def _file(like: HostPath, found: TextFile) -> wire.CapabilityFile:
    return wire.CapabilityFile(path=like.like(found.path), contents=found.contents)


def _optional_file(like: HostPath, found: TextFile | None) -> wire.CapabilityFile | None:
    return _file(like, found) if found is not None else None


def _uri(path: bytes) -> str:
    return file_uri(os.fsdecode(path))


HANDLERS: HandlerTable = {
    "environmentConfig/read": read_config,
    "capabilityRoots/discoverV1": discover_roots,
    "capabilities/discoverV2": discover_installed,
}

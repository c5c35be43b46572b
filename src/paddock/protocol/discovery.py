"""`environmentConfig/read`, `capabilityRoots/discoverV1`, `capabilities/discoverV2`: what a host offers."""

from __future__ import annotations

from paddock.protocol.bound import Name
from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import Params, Result


class EnvironmentConfigParams(Params, frozen=True, kw_only=True):
    """Read these keys of the host's Codex configuration."""

    cwd: HostPath
    """The agent's working directory; the server does not read a project's own configuration."""
    config_paths: list[list[str]]
    """Keys of `config.toml`, each with the tables that lead to it."""
    requirements_paths: list[list[str]]
    """The same for `requirements.toml`."""


class ConfigLayer(Result, frozen=True, kw_only=True):
    """What one file says about the requested keys."""

    source: str
    """The file that it comes from."""
    base_dir: str
    """The URI of its directory."""
    toml: str
    """Its content, as TOML."""


class ConfigLayers(Result, frozen=True, kw_only=True):
    """What all files say, weakest first, without those that say nothing."""

    layers: list[ConfigLayer]
    """Weakest first."""
    cloud_insertion_index: int
    """The index at which a client inserts layers that it has from elsewhere."""


class EnvironmentConfigResult(Result, frozen=True, kw_only=True):
    """The host's Codex configuration."""

    user_home_dir: str
    """The URI of the user's home."""
    codex_home_dir: str
    """The URI of the directory with Codex's own files."""
    hostname: str
    """The name of the host."""
    config: ConfigLayers
    """From `config.toml`."""
    requirements: ConfigLayers
    """From `requirements.toml`."""


class CapabilityRoot(Params, frozen=True, kw_only=True):
    """A directory that may hold plugins or skills."""

    id: Name
    """Its name in the answer."""
    path: HostPath
    """The directory."""
    sandbox: SandboxContext | None = None
    """What may be read."""


class CapabilityRootsParams(Params, frozen=True, kw_only=True):
    """Look into these directories."""

    roots: list[CapabilityRoot]
    """At most 128."""


class CapabilityFile(Result, frozen=True, kw_only=True):
    """A file of at most 1 MiB, and its text."""

    path: str
    """Where it is."""
    contents: str
    """Its text."""


class PluginFiles(Result, frozen=True, kw_only=True):
    """The files of a plugin."""

    manifest: CapabilityFile
    """Its `plugin.json`."""
    mcp_config: CapabilityFile | None
    """The file that the manifest's `mcpServers` names, or `.mcp.json`."""
    apps_config: CapabilityFile | None
    """The file that the manifest's `apps` names, or `.app.json`."""


class SkillFiles(Result, frozen=True, kw_only=True):
    """The files of a skill."""

    instructions: CapabilityFile
    """Its `SKILL.md`."""
    metadata: CapabilityFile | None
    """Its `agents/openai.yaml`."""


class DiscoveredRoot(Result, frozen=True, kw_only=True):
    """What a directory holds, down to six levels below it."""

    id: str
    """As in the request."""
    path: str
    """As in the request."""
    plugin: PluginFiles | None
    """The plugin that the directory is."""
    skills: list[SkillFiles]
    """Sorted by path."""
    namespace_manifests: list[CapabilityFile]
    """The manifests of plugins in and above the directory, whose names are part of their skills' names."""
    warnings: list[str]
    """What was left out, and why."""
    error: str | None
    """Why the server can't read the directory; absent if it can."""


class CapabilityRootsResult(Result, frozen=True, kw_only=True):
    """What each directory holds. A failure of one does not affect the others."""

    roots: list[DiscoveredRoot]
    """In the order of the request."""


class CapabilitiesParams(Params, frozen=True, kw_only=True):
    """Find what the user of the host has installed."""

    cwd: HostPath
    """The agent's working directory; the server does not look for what a project brings along."""
    sandbox: SandboxContext | None = None
    """What may be read."""


class SkillTool(Result, frozen=True, kw_only=True):
    """A tool that a skill needs, in the words of its author."""

    type: str
    """Its kind."""
    value: str
    """Its identity."""
    description: str | None
    """What it is for."""
    transport: str | None
    """The transport that reaches it."""
    command: str | None
    """The command that starts it."""
    url: str | None
    """Where it is."""
    oauth_callback_port: int | None
    """The port to which its sign-in returns."""


class SkillDependencies(Result, frozen=True, kw_only=True):
    """What a skill needs."""

    tools: list[SkillTool]
    """Tools."""


class SkillPolicy(Result, frozen=True, kw_only=True):
    """When a skill may be used."""

    allow_implicit_invocation: bool | None
    """Whether the model may use it without being asked for it by name."""
    products: list[str]
    """The products that may use it; an empty list means all."""


class PluginSkill(Result, frozen=True, kw_only=True):
    """A skill of a plugin."""

    name: str
    """Its name, after that of the plugin."""
    description: str
    """What it is for."""
    short_description: str | None
    """The same, in a few words."""
    path: str
    """Its `SKILL.md`."""
    dependencies: SkillDependencies | None
    """What it needs."""
    policy: SkillPolicy | None
    """When it may be used."""


class DiscoveryRoot(Result, frozen=True, kw_only=True):
    """A standard place for skills."""

    id: str
    """`codex-home-skills` or `user-agent-skills`."""
    path: str
    """Where it is."""


class DiscoveredSkill(Result, frozen=True, kw_only=True):
    """A skill of the user."""

    name: str
    """Its name."""
    description: str
    """What it is for."""
    short_description: str | None
    """The same, in a few words."""
    path: str
    """Its `SKILL.md`."""
    discovery_root: DiscoveryRoot
    """The place that it was found in."""
    dependencies: SkillDependencies | None
    """What it needs."""
    policy: SkillPolicy | None
    """When it may be used."""


class DiscoveredPlugin(Result, frozen=True, kw_only=True):
    """A plugin that is installed and enabled."""

    id: str
    """`name@marketplace`."""
    display_name: str
    """Its name."""
    remote_plugin_id: str | None
    """Null: this server does not know the plugin's names elsewhere."""
    version: str
    """The installed version; the newest if there are several."""
    root: str
    """Where it is."""
    files: PluginFiles
    """Its files."""
    skills: list[PluginSkill]
    """Its skills."""


class CapabilitiesResult(Result, frozen=True, kw_only=True):
    """What the user of the host has installed."""

    plugins: list[DiscoveredPlugin]
    """Plugins that Codex's configuration enables."""
    skills: list[DiscoveredSkill]
    """Skills in the standard places."""
    warnings: list[str]
    """What was left out, and why."""

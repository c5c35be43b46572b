"""`environmentConfig/read`, `capabilityRoots/discoverV1`, `capabilities/discoverV2`: what a host offers."""

from __future__ import annotations

from paddock.protocol.bound import Name
from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import Params, Result


class EnvironmentConfigParams(Params, frozen=True, kw_only=True):
    """Which keys of the host's Codex configuration are wanted."""

    cwd: HostPath
    """Where the agent works; a project's own configuration is not read."""
    config_paths: list[list[str]]
    """Keys of `config.toml`, each with the tables that lead to it."""
    requirements_paths: list[list[str]]
    """The same for `requirements.toml`."""


class ConfigLayer(Result, frozen=True, kw_only=True):
    """What one file says about the keys in question."""

    source: str
    """Which file it is."""
    base_dir: str
    """The URI of its directory."""
    toml: str
    """What it says, as TOML."""


class ConfigLayers(Result, frozen=True, kw_only=True):
    """What all files say, weakest first; those that say nothing are left out."""

    layers: list[ConfigLayer]
    """Weakest first."""
    cloud_insertion_index: int
    """Before which of them a client puts what it has from elsewhere."""


class EnvironmentConfigResult(Result, frozen=True, kw_only=True):
    """The host's Codex configuration."""

    user_home_dir: str
    """The URI of the user's home."""
    codex_home_dir: str
    """The URI of the directory with Codex's own files."""
    hostname: str
    """What the host calls itself."""
    config: ConfigLayers
    """From `config.toml`."""
    requirements: ConfigLayers
    """From `requirements.toml`."""


class CapabilityRoot(Params, frozen=True, kw_only=True):
    """A directory that may hold plugins or skills."""

    id: Name
    """What the answer calls it."""
    path: HostPath
    """The directory."""
    sandbox: SandboxContext | None = None
    """What may be read."""


class CapabilityRootsParams(Params, frozen=True, kw_only=True):
    """Look into these directories."""

    roots: list[CapabilityRoot]
    """At most 128."""


class CapabilityFile(Result, frozen=True, kw_only=True):
    """A file of at most 1 MiB, and what it says."""

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
    """Why the directory can't be looked into, if it can't."""


class CapabilityRootsResult(Result, frozen=True, kw_only=True):
    """What each directory holds. One that fails does not hinder the others."""

    roots: list[DiscoveredRoot]
    """In the order of the request."""


class CapabilitiesParams(Params, frozen=True, kw_only=True):
    """Look for what the user of the host has installed."""

    cwd: HostPath
    """Where the agent works; what a project brings along is not looked for."""
    sandbox: SandboxContext | None = None
    """What may be read."""


class SkillTool(Result, frozen=True, kw_only=True):
    """A tool that a skill needs, in the words of its author."""

    type: str
    """Of which kind it is."""
    value: str
    """Which one it is."""
    description: str | None
    """What it is for."""
    transport: str | None
    """How it is reached."""
    command: str | None
    """What starts it."""
    url: str | None
    """Where it is."""
    oauth_callback_port: int | None
    """Where its sign-in comes back to."""


class SkillDependencies(Result, frozen=True, kw_only=True):
    """What a skill needs."""

    tools: list[SkillTool]
    """Tools."""


class SkillPolicy(Result, frozen=True, kw_only=True):
    """When a skill may be used."""

    allow_implicit_invocation: bool | None
    """Whether without being asked for by name."""
    products: list[str]
    """In which products; in all if there are none."""


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
    """In which place it was found."""
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
    """Null: what other places call it is not known here."""
    version: str
    """Which one is installed; the newest if there are several."""
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

"""The policies that came before profiles, in the shape in which they are written.

`paddock.sandbox.profile.legacy` translates each into a profile.
"""

from __future__ import annotations

from paddock.model.profile import Grant, NetworkMode


class ReadOnly(Grant, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="read-only"):
    """Everything may be read, nothing written."""

    network_access: bool = False


class WorkspaceWrite(
    Grant, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="workspace-write"
):
    """Everything may be read; the workspace, some more directories and temporary ones may be written."""

    writable_roots: tuple[str, ...] = ()
    network_access: bool = False
    exclude_tmpdir_env_var: bool = False
    exclude_slash_tmp: bool = False


class DangerFullAccess(Grant, frozen=True, kw_only=True, tag_field="type", tag="danger-full-access"):
    """No sandbox."""


class ExternalSandbox(Grant, frozen=True, kw_only=True, tag_field="type", tag="external-sandbox"):
    """Something outside Paddock already confines files."""

    network_access: NetworkMode = NetworkMode.RESTRICTED


LegacyPolicy = ReadOnly | WorkspaceWrite | DangerFullAccess | ExternalSandbox

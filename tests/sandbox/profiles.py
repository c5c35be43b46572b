"""The `sandbox` object of requests, as clients write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Json = dict[str, Any]

ROOT: Json = {"type": "special", "value": {"kind": "root"}}
MINIMAL: Json = {"type": "special", "value": {"kind": "minimal"}}
PROJECT_ROOTS: Json = {"type": "special", "value": {"kind": "project_roots"}}
SLASH_TMP: Json = {"type": "special", "value": {"kind": "slash_tmp"}}


def entry(path: Path | Json, access: str, **more: Any) -> Json:
    """One entry of a profile."""
    place = {"type": "path", "path": path.as_uri()} if isinstance(path, Path) else path
    return {"path": place, "access": access, **more}


def sandbox(*entries: Json, network: str = "restricted", limits: Json | None = None, **context: Any) -> Json:
    """A restricted profile in its context."""
    permissions: Json = {
        "type": "managed",
        "file_system": {"type": "restricted", "entries": list(entries)},
        "network": network,
    }
    if limits is not None:
        permissions["limits"] = limits
    return {"permissions": permissions, "windowsSandboxLevel": "disabled", **context}


READ_ONLY = sandbox(entry(ROOT, "read"))


def workspace_write(workspace: Path) -> Json:
    """Everything can be read, a workspace written but for its metadata, as Codex asks for it."""
    protected = [
        entry(
            {"type": "special", "value": {"kind": "project_roots", "subpath": name}},
            "read",
            missing_path_behavior="skip",
        )
        for name in (".git", ".agents", ".codex", ".aws")
    ]
    return sandbox(
        entry(ROOT, "read"),
        entry(PROJECT_ROOTS, "write"),
        *protected,
        cwd=workspace.as_uri(),
        workspaceRoots=[workspace.as_uri()],
    )

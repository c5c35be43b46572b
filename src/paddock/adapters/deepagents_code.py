"""Paddock as a sandbox of Deep Agents Code: `dcode --sandbox paddock`, found by an entry point.

The agent works in the project where `dcode` was started. `PADDOCK_URL` and `PADDOCK_DIRECTORY` name a server
and a directory on it instead. The provider makes no directory and removes none.
"""

from __future__ import annotations

import os
from typing import Any, Final

from deepagents_code.integrations.sandbox_provider import (
    SandboxInstallHint,
    SandboxNotFoundError,
    SandboxProvider,
    SandboxProviderMetadata,
)

from paddock.adapters.deepagents import PaddockSandbox
from paddock.adapters.server_choice import URL_VARIABLE, server_target
from paddock.client.workspace import PROFILE
from paddock.errors import NotFound

DIRECTORY_VARIABLE: Final = "PADDOCK_DIRECTORY"
PROJECT_VARIABLE: Final = "DEEPAGENTS_CODE_SERVER_CWD"
"""Where the program was started, in the process that runs its agent."""


class PaddockProvider(SandboxProvider):
    """Makes the sandboxes of `dcode`, and ends them."""

    def __init__(self) -> None:
        self._open: dict[str, PaddockSandbox] = {}

    @property
    def metadata(self) -> SandboxProviderMetadata:
        """Return what the program knows before there is a sandbox: above all its directory."""
        return SandboxProviderMetadata(
            name="paddock",
            working_dir=os.environ.get(DIRECTORY_VARIABLE) or _project(),
            install=SandboxInstallHint(kind="package", name="paddock-exec"),
            backend_module="paddock",
        )

    def get_or_create(
        self,
        *,
        sandbox_id: str | None = None,
        url: str | None = None,
        token_file: str | None = None,
        tls_ca: str | None = None,
        directory: str | None = None,
        profile: str | dict[str, Any] = PROFILE,
    ) -> PaddockSandbox:
        """Return a sandbox, or the one that `sandbox_id` names. Arguments are `params` of the program's
        configuration.

        Raises SandboxNotFoundError for an id whose directory is gone, and ValueError for a server without a
        directory.
        """
        wanted_url = url or os.environ.get(URL_VARIABLE) or None
        target = server_target(wanted_url, token_file, tls_ca)
        if sandbox_id is not None:
            sandbox = _attached(sandbox_id, target)
        else:
            chosen = directory or os.environ.get(DIRECTORY_VARIABLE)
            if chosen is None and wanted_url is not None:
                raise ValueError(f"name a directory on {wanted_url}: {DIRECTORY_VARIABLE}=/path")
            sandbox = PaddockSandbox(target, directory=chosen or _project(), profile=profile)
        self._open[sandbox.id] = sandbox
        return sandbox

    def delete(self, *, sandbox_id: str, **options: Any) -> None:
        """End the commands of a sandbox and its connection; its directory stays. Raises
        SandboxNotFoundError."""
        sandbox = self._open.pop(sandbox_id, None)
        if sandbox is None:
            raise SandboxNotFoundError(f"no sandbox of this program has the id {sandbox_id}")
        sandbox.close()


def _attached(sandbox_id: str, target: Any) -> PaddockSandbox:
    try:
        sandbox = PaddockSandbox.attach(sandbox_id, target)
        sandbox.workspace.open()
    except (NotFound, ValueError) as error:
        raise SandboxNotFoundError(str(error)) from error
    return sandbox


def _project() -> str:
    return os.environ.get(PROJECT_VARIABLE) or os.getcwd()

"""Paddock as an environment of mini-swe-agent.

    environment:
      environment_class: paddock.adapters.mini_swe_agent.PaddockEnvironment
      cwd: /srv/project

Without a `cwd` the environment has a directory of its own, which `close` removes.
"""

from __future__ import annotations

import platform
from typing import Any, Final

from minisweagent.exceptions import Submitted
from pydantic import BaseModel, ConfigDict

from paddock.adapters.outcome import run_line
from paddock.adapters.server_choice import server_target
from paddock.client.workspace import PROFILE
from paddock.sync.workspace import Workspace

DONE: Final = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""The line that an agent prints first, with status 0, when it submits its work."""

KILLED: Final = -1
"""The status that the framework's own environment gives a command that timed out."""


class PaddockEnvironmentConfig(BaseModel):
    """The settings of the environment."""

    model_config = ConfigDict(extra="forbid")

    cwd: str = ""
    env: dict[str, str] = {}
    timeout: int = 30
    url: str | None = None
    """The server; None is a private one."""
    token_file: str | None = None
    """A file with the token for the server."""
    tls_ca: str | None = None
    """A file of certificates to trust, for wss://."""
    profile: str = PROFILE


class PaddockEnvironment:
    """Runs the commands of an agent in a sandbox, each in a shell of its own."""

    def __init__(self, **options: Any) -> None:
        self.config = PaddockEnvironmentConfig(**options)
        self.workspace = Workspace(
            server_target(self.config.url, self.config.token_file, self.config.tls_ca),
            directory=self.config.cwd or None,
            profile=self.config.profile,
            env=self.config.env,
        )

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Run the command of an action. Raises Submitted when the agent hands in its work."""
        timeout_s = timeout or self.config.timeout
        line = str(action.get("command", ""))
        done = self.workspace.call(run_line(self.workspace.inner, line, timeout_s=timeout_s, cwd=cwd))
        lines = done.output.lstrip().splitlines(keepends=True) or [""]
        if done.exit_code == 0 and lines[0].strip() == DONE:
            work = "".join(lines[1:])
            extra = {"exit_status": "Submitted", "submission": work}
            raise Submitted({"role": "exit", "content": work, "extra": extra})
        if done.exit_code is None:
            return {"output": done.output, "returncode": KILLED, "exception_info": " ".join(done.notes)}
        return {"output": done.text, "returncode": done.exit_code, "exception_info": ""}

    def get_template_vars(self, **more: Any) -> dict[str, Any]:
        """Return the variables for prompts: the configuration and the host, but no variable of this
        process."""
        return {**self.config.model_dump(), **platform.uname()._asdict(), **more}

    def serialize(self) -> dict[str, Any]:
        """Return the environment's entry in a trajectory."""
        kind = f"{type(self).__module__}.{type(self).__name__}"
        config = {"environment": self.config.model_dump(mode="json"), "environment_type": kind}
        return {"info": {"config": config}}

    def close(self) -> None:
        """Remove the directory, if the environment has made it, and end the connection."""
        self.workspace.__exit__(None, None, None)

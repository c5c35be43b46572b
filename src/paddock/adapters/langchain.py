"""Paddock as an execution policy of LangChain's `ShellToolMiddleware`.

from langchain.agents.middleware import ShellToolMiddleware
from paddock.adapters.langchain import PaddockExecutionPolicy

middleware = ShellToolMiddleware("/srv/project", execution_policy=PaddockExecutionPolicy())
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from langchain.agents.middleware.shell_tool import BaseExecutionPolicy

from paddock.adapters import relayed_shell
from paddock.client.workspace import PROFILE


@dataclass
class PaddockExecutionPolicy(BaseExecutionPolicy):
    """Runs the shell in a sandbox on this host, whose workspace is the middleware's.

    A model reads behind a command what the sandbox denied it.
    """

    profile: str = PROFILE

    def spawn(
        self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]
    ) -> subprocess.Popen[str]:
        """Start the shell."""
        # Isolated: the variables are the shell's, and none of them tells our own Python what to import.
        launcher = [sys.executable, "-I", "-m", relayed_shell.__name__, self.profile]
        return subprocess.Popen(
            [*launcher, *command],
            cwd=workspace,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            bufsize=1,
            start_new_session=True,
        )

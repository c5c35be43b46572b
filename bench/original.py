"""The original of interception: an MCP server with a patched Bash, which `make peer` fetches.

It answers JSON-RPC on its standard streams, a line for each message. Its Bash asks the server about each
program that it executes; without rules everything runs.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.errors import BenchError
from bench.line_client import LineClient
from bench.servers import REPOSITORY

VENDOR = Path(".peer", "node_modules", "@openai", "codex-shell-tool-mcp", "vendor")


class OriginalShell:
    """A running server of the original, with its own wrapper and shell or with others. `close` it."""

    def __init__(
        self,
        vendor: Path,
        *,
        wrapper: Path | None = None,
        shell: Path | None = None,
        rules: Sequence[str] = (),
    ) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="paddock-bench-", dir="/var/tmp")
        Path(self._home.name, "rules").mkdir()
        Path(self._home.name, "rules", "default.rules").write_text("".join(f"{rule}\n" for rule in rules))
        programs = (
            "--execve",
            wrapper or vendor / "codex-execve-wrapper",
            "--bash",
            shell or bash_of(vendor),
        )
        home = self._home.name
        self._client = LineClient(
            "the original",
            [vendor / "codex-exec-mcp-server", *programs],
            {"PATH": os.defpath, "HOME": home, "CODEX_HOME": home},
        )
        state = {"sandboxPolicy": {"type": "danger-full-access"}, "sandboxCwd": home}
        self._client.request("codex/sandbox-state/update", **state, useLinuxSandboxBwrap=False)

    @classmethod
    def find(cls) -> OriginalShell | None:
        """Start it; None if it is not installed."""
        vendor = vendor_directory()
        return cls(vendor) if vendor.exists() else None

    def run(self, command: str, timeout_s: float) -> str:
        """Give the output of a script that succeeds. Raises BenchError."""
        status, output = self.end_of(command, timeout_s)
        if status:
            raise BenchError(f"the original's shell ended with {status}: {output[-200:]}")
        return output

    def end_of(self, command: str, timeout_s: float) -> tuple[int, str]:
        """Give the exit status and the output of a script. Raises BenchError."""
        arguments = {
            "command": command,
            "workdir": self._home.name,
            "timeout_ms": int(timeout_s * 1000),
            "login": False,
        }
        result = self._client.request("tools/call", name="shell", arguments=arguments)
        done = json.loads(result["content"][0]["text"])
        return int(done["exit_code"]), str(done["output"])

    def close(self) -> None:
        """End it."""
        self._client.close()
        self._home.cleanup()


def vendor_directory() -> Path:
    """Where `make peer` puts the programs for this machine."""
    return REPOSITORY / VENDOR / f"{platform.machine()}-unknown-linux-musl"


def bash_of(vendor: Path) -> Path:
    """The first of its shells that runs here; each is for another distribution. Raises BenchError."""
    for shell in sorted(vendor.glob("bash/*/bash")):
        if subprocess.run([shell, "-c", ":"], capture_output=True, check=False).returncode == 0:
            return shell
    raise BenchError("none of the original's shells runs here")

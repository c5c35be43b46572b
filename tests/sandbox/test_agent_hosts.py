"""An agent's retry that may reach one host more, and nothing else, through the real proxy."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.sandbox.network_ground import GOOD, OTHER, NetworkGround


@pytest.mark.parametrize("answer", ["approved", "denied"])
def test_denied_host_is_asked_for_and_reached_when_approved(new_directory: Path, answer: str) -> None:
    network = NetworkGround(new_directory)
    done = network.run(
        sys.executable, "-m", "tests.sandbox.agent_hosts", str(network.work), answer, GOOD, OTHER
    )
    told = json.loads(done.stdout or "{}")
    assert told, done.stderr
    # Each question is about its own host and port, also after the first was answered.
    assert told["changes"][::2] == [f"It may reach {OTHER}:80.", f"It may reach {OTHER}:8080."]
    assert (told["exit"] == 0) == (answer == "approved")
    assert (f"{OTHER} GET /b" in told["output"]) == (answer == "approved")
    # Outside it is there.
    assert f"{OTHER} GET /b" in network.run("curl", "-sS", f"http://{OTHER}/b").stdout

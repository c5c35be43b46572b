"""An agent of mini-swe-agent with its deterministic model, in a Paddock environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from minisweagent.agents.default import DefaultAgent
from minisweagent.models.test_models import DeterministicModel, make_output

from paddock.adapters.mini_swe_agent import PaddockEnvironment
from tests.ecosystem.conftest import Server
from tests.ecosystem.pages import run_page
from tests.ecosystem.refusal import is_refusal


@pytest.fixture
def environment(server: Server) -> Iterator[PaddockEnvironment]:
    environment = PaddockEnvironment(**asdict(server))
    yield environment
    environment.close()


def test_an_agent_is_told_of_the_refusal_and_submits_its_work(environment: PaddockEnvironment) -> None:
    lines = ["touch /etc/paddock-no", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the work"]
    model = DeterministicModel(outputs=[make_output("", [{"command": line}]) for line in lines])
    agent = DefaultAgent(model, environment, system_template="s", instance_template="i", cost_limit=10)

    ended = agent.run("begin")

    assert ended == {"exit_status": "Submitted", "submission": "the work\n"}
    assert any(is_refusal(str(message["content"])) for message in agent.messages)
    assert not Path("/etc/paddock-no").exists()


def test_a_command_whose_time_is_over_gives_its_output_so_far(environment: PaddockEnvironment) -> None:
    done = environment.execute({"command": "echo before; sleep 600"}, timeout=1)
    assert (done["output"], done["returncode"]) == ("before\n", -1)
    assert "did not end within 1 s" in done["exception_info"]


def test_a_directory_that_exists_is_used_and_stays(tmp_path: Path, server: Server) -> None:
    environment = PaddockEnvironment(cwd=str(tmp_path), **asdict(server))
    assert environment.execute({"command": "pwd; echo > here"})["output"] == f"{tmp_path}\n"
    environment.close()
    assert (tmp_path / "here").exists()
    assert environment.serialize()["info"]["config"]["environment"]["cwd"] == str(tmp_path)


def test_a_command_costs_one_request_and_no_file_is_touched_for_it(
    environment: PaddockEnvironment, requests: Counter[str]
) -> None:
    environment.workspace.open()
    requests.clear()
    assert environment.execute({"command": "echo hello > note; cat note"})["output"] == "hello\n"
    assert requests["process/start"] == 1
    assert not [method for method in requests if method.startswith("fs/")]


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="profil"):
        PaddockEnvironment(profil=":read-only")


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    run_page("mini-swe-agent", tmp_path)

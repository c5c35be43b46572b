"""Which rule the "always" of `paddock run --rules` offers to add."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.cli.run_rules import RunRules
from paddock.protocol.question import ExecApprovalParams

GH = "/usr/bin/gh"


@pytest.mark.parametrize(
    ("stricter", "is_offered"),
    [
        ("", True),
        ('prefix_rule(["gh", "pr", "merge"], decision="forbidden")', False),
        ('prefix_rule(["gh", "repo", "delete"], decision="forbidden")', True),
    ],
)
def test_always_hides_no_stricter_rule(tmp_path: Path, stricter: str, is_offered: bool) -> None:
    file = tmp_path / "team.rules"
    file.write_text(f'prefix_rule(["gh"], decision="prompt")\n{stricter}\n')
    params = ExecApprovalParams(
        question_id="q",
        process_id="p",
        exec_id="1",
        program=GH,
        argv=["gh", "pr", "view"],
        cwd="/w",
        matches=[],
        reason="ask first",
    )
    offered = RunRules([file]).amendment(params)
    assert (offered is not None) is is_offered
    if offered is not None:
        assert offered[0] == f"{GH} pr"

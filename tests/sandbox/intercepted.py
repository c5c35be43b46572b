"""Commands whose programs are decided on, run by a real client on a real server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import paddock
from paddock.model.decision import Action
from paddock.protocol.question import EXEC_APPROVAL, ExecApprovalParams, ExecApprovalResult

RULES_FILE = "/etc/test.rules"


def rule(action: str, *words: str, **more: Any) -> paddock.InterceptRule:
    """A rule about commands that begin with these words."""
    return paddock.InterceptRule(
        pattern=[[word] for word in words], action=Action(action), path=RULES_FILE, line=7, **more
    )


def rules(*given: paddock.InterceptRule, **more: Any) -> paddock.InterceptParams:
    """What a start brings; nobody is asked unless `on_prompt` says so."""
    return paddock.InterceptParams(rules=list(given), **({"on_prompt": "deny"} | more))


async def run(
    url: str,
    argv: Sequence[str],
    cwd: Path,
    intercept: paddock.InterceptParams | None,
    *,
    profile: str = ":workspace",
    answer: Callable[[ExecApprovalParams], ExecApprovalResult] | None = None,
    **more: Any,
) -> paddock.CompletedProcess[bytes]:
    """Run a command in a sandbox to its end."""
    on_request = None if answer is None else {EXEC_APPROVAL: answer}
    async with paddock.connect(url, on_request=on_request) as box:
        done: paddock.CompletedProcess[bytes] = await box.run(
            argv, cwd=cwd, sandbox=profile, intercept=intercept, timeout_s=60, **more
        )
        return done


def denied(done: paddock.CompletedProcess[bytes]) -> list[str]:
    """The programs that were denied."""
    return told(done, paddock.Verdict.DENY)


def told(done: paddock.CompletedProcess[bytes], verdict: paddock.Verdict) -> list[str]:
    """The names of the programs that had this verdict, by a rule or an answer."""
    assert done.ending.execs is not None
    return [note.program.rpartition("/")[2] for note in done.ending.execs.notes if note.verdict is verdict]

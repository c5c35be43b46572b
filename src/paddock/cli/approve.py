"""`paddock approve`: the questions of agents and servers, and their answers."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli import exit_status
from paddock.cli.message import failed
from paddock.cli.options import Verbs, add_verb
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.cli.approval_survey import Question

DESCRIPTION = """\
List the questions of your agents and servers, show one in full, or answer it. The first answer
counts, whoever gives it.
"""

EXAMPLES = """\
examples:
  paddock approve                               what waits for an answer
  paddock approve 3f2a                          that question in full
  paddock approve 3f2a --once                   yes, this time
  paddock approve 3f2a --session                yes, and to the same question from now on
  paddock approve 3f2a --always                 yes, and a rule allows such commands
  paddock approve 3f2a --decline 'use a branch' no, and why
  paddock approve --watch                       show questions as they come

exit status:
  0 if the answer counts, 1 if the question is not open, or no longer.
"""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs,
        "approve",
        run,
        help="list what agents and servers ask, and answer",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--once", action="store_true", help="allow it this time")
    choice.add_argument(
        "--session", action="store_true", help="allow it until the agent, or the session, ends"
    )
    choice.add_argument(
        "--always",
        action="store_true",
        help="add a rule that allows such commands; only for an agent's question",
    )
    choice.add_argument(
        "--decline", metavar="REASON", nargs="?", const="", help="do not allow it; the asker reads the reason"
    )
    choice.add_argument("--watch", action="store_true", help="show questions as they come, until interrupted")
    parser.add_argument("question", metavar="QUESTION", nargs="?", help="id of a question, or the beginning")


def run(arguments: argparse.Namespace) -> int:
    """List, show, watch or answer."""
    import asyncio

    is_answer = arguments.once or arguments.session or arguments.always or arguments.decline is not None
    if is_answer and arguments.question is None:
        arguments.usage_error("name the question that you answer; `paddock approve` lists them")
    try:
        if is_answer:
            asyncio.run(_answer(arguments))
        elif arguments.watch:
            asyncio.run(_watch())
        else:
            asyncio.run(_show(arguments.question))
    except PaddockError as error:
        return failed(str(error), "approve", exit_status.FAILURE)
    return 0


async def _show(wanted: str | None) -> None:
    from paddock.cli.approval_survey import find, survey

    found = await survey()
    if wanted is not None:
        _print(find(found, wanted))
        return
    for question in found.questions:
        print(f"{question.short_id}  {question.summary}")
    if not found.questions:
        print("nothing waits for an answer")


async def _watch() -> None:
    import asyncio

    from paddock.cli.approval_survey import WATCH_INTERVAL_S, survey

    known: dict[str, Question] = {}
    while True:
        told = await survey()
        found = {question.id: question for question in told.questions}
        for question_id, question in known.items():
            if question_id not in found:
                outcome = told.closed.get(question_id, "whoever asked it is gone, or has its answer")
                print(f"{question.short_id}  no longer needs an answer: {outcome}\n", flush=True)
        for question_id, question in found.items():
            if question_id not in known:
                _print(question)
        known = found
        await asyncio.sleep(WATCH_INTERVAL_S)


def _print(question: Question) -> None:
    print(f"{question.short_id}  from {question.asker}")
    for line in question.lines:
        print(f"  {line}")
    always = "--always, " if question.has_always else ""
    print(f"  answer: paddock approve {question.short_id} --once, --session, {always}or --decline REASON")
    print(flush=True)


async def _answer(arguments: argparse.Namespace) -> None:
    from paddock.agent.approval import Approval
    from paddock.cli.approval_survey import find, survey

    if arguments.decline is not None:
        approval = Approval.DENIED
    elif arguments.always:
        approval = Approval.APPROVED_ALWAYS
    else:
        approval = Approval.APPROVED_FOR_SESSION if arguments.session else Approval.APPROVED
    question = find(await survey(), arguments.question)
    await question.answer(approval, arguments.decline or None)

"""`paddock answer`: answer a question of a server in place of its client."""

from __future__ import annotations

import argparse
from typing import Any

from paddock.cli import exit_status
from paddock.cli.message import failed
from paddock.cli.options import Verbs, add_server_option, add_verb
from paddock.errors import PaddockError, SelectionError

DESCRIPTION = """\
Answer an open question, whoever the server has asked. Answer `run`, `escalate` or `deny` about a
program that a process wants to execute, and `allow` or `deny` about a host that it wants to
reach, or give the whole result as a JSON object. The first answer counts.
"""

EXAMPLES = """\
examples:
  paddock answer 3f2a91c0 run                     run the program in its sandbox
  paddock answer 3f2a91c0 deny --reason 'not now' tell its caller why it may not run
  paddock answer 3f2a91c0 allow --remember rule   let it reach the host, and everybody from now on
  paddock answer 3f2a91c0 '{"verdict": "run"}'    in JSON

exit status:
  0 if the answer counts, 1 if the question is not open, or no longer.
"""

CLIENT_NAME = "paddock-answer"
VERDICTS = ("run", "escalate", "deny")
DECISIONS = ("allow", "deny")
"""About hosts."""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs,
        "answer",
        run,
        help="answer a question of a server",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("--reason", metavar="TEXT", help="the reason, for whoever gets the verdict")
    parser.add_argument(
        "--remember",
        choices=("process", "session", "rule"),
        help="let the answer stand for the same command or host in the rest of the process or session; about "
        "a host also as a rule in the server's network_rules_file",
    )
    add_server_option(parser)
    parser.add_argument("question", metavar="QUESTION", help="id of a question, or the beginning of one")
    parser.add_argument("answer", metavar="ANSWER", help="run, escalate, allow, deny or a JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Send the answer."""
    import asyncio

    spoken = _json_answer(arguments)
    try:
        asyncio.run(_answer(arguments, spoken))
    except PaddockError as error:
        return failed(str(error), "answer", exit_status.FAILURE)
    return 0


def _json_answer(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Return the answer if it is written as JSON; None for a word."""
    import json

    if arguments.answer in (*VERDICTS, *DECISIONS):
        return None
    try:
        said = json.loads(arguments.answer)
    except ValueError:
        said = None
    result: dict[str, Any] = said if isinstance(said, dict) else {}
    if said is not result:
        arguments.usage_error(f"{arguments.answer!r} is neither run, escalate, allow, deny nor a JSON object")
    if arguments.reason is not None or arguments.remember is not None:
        arguments.usage_error("--reason and --remember go with a word; say them in the JSON object")
    return result


def _result(arguments: argparse.Namespace, method: str) -> dict[str, Any]:
    """Put a word into the form that the question wants. Raises SelectionError if it is no answer to it."""
    from paddock.protocol.network import POLICY_REQUEST

    is_host = method == POLICY_REQUEST
    words = DECISIONS if is_host else VERDICTS
    if arguments.answer not in words:
        raise SelectionError(f"{arguments.answer!r} is not an answer to {method}; say one of", words)
    if arguments.remember == "rule" and not is_host:
        raise SelectionError("only answers about hosts are remembered as a rule; use `paddock rules add`")
    reason = {} if arguments.reason is None else {"reason": arguments.reason}
    remember = {} if arguments.remember is None else {"remember": arguments.remember}
    if not is_host:
        return {"verdict": arguments.answer, **reason, **remember}
    return {"decision": {"type": arguments.answer, **reason}, **remember}


async def _answer(arguments: argparse.Namespace, spoken: dict[str, Any] | None) -> None:
    from paddock.cli.question_selection import select
    from paddock.cli.question_survey import open_questions
    from paddock.client.operator import operate

    chosen = select(await open_questions(arguments.server, CLIENT_NAME), arguments.question)
    result = _result(arguments, chosen.question.method) if spoken is None else spoken
    async with await operate(chosen.control, CLIENT_NAME) as control:
        await control.answer(chosen.question.question_id, result)

"""`paddock rules check`: print what the rules say about one command, for programs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from paddock.cli.options import Verbs, add_verb
from paddock.cli.rules_choice import add_rules_options, chosen_policy, command_of

if TYPE_CHECKING:
    from paddock.model.decision import Decision, RuleMatch

DESCRIPTION = """\
Print what the rules say about a command, as JSON in the shape of `codex execpolicy check`:
every rule that fits, and the strictest decision. This neither runs the command nor looks into
shells in it. If no rule fits, the JSON has no `decision`.
"""

EXAMPLES = """\
examples:
  paddock rules check -- git push origin
  paddock rules check --rules team.rules --rules mine.rules --pretty -- rm -rf build
  paddock rules check --resolve-host-executables -- /usr/bin/git push

exit status:
  0 whatever the decision, 1 if a file given with --rules is broken, 2 if the command line is
  wrong.
"""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs, "check", run, help="judge one command", description=DESCRIPTION, examples=EXAMPLES
    )
    parser.usage = "paddock rules check [-r FILE]... [OPTION]... -- COMMAND [ARG]..."
    add_rules_options(parser)
    parser.add_argument(
        "--resolve-host-executables",
        action="store_true",
        help="judge a program given by its path by its name, unless a rule names the path",
    )
    parser.add_argument("--pretty", action="store_true", help="spread the JSON over several lines")
    parser.add_argument(
        "command", metavar="COMMAND", nargs=argparse.REMAINDER, help="the command and its arguments"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the decision."""
    import json
    import os

    command = command_of(arguments)
    decision = chosen_policy(arguments).decide(
        command,
        os.getcwd(),
        home=os.path.expanduser("~"),
        resolves_paths=arguments.resolve_host_executables,
    )
    layout: dict[str, Any] = {"indent": 2} if arguments.pretty else {"separators": (",", ":")}
    print(json.dumps(decision_json(decision), ensure_ascii=False, **layout))
    return 0


def decision_json(decision: Decision) -> dict[str, Any]:
    """Return the decision in the shape of the peer."""
    answer: dict[str, Any] = {"matchedRules": [_match_json(match) for match in decision.matches]}
    if decision.action is not None:
        answer["decision"] = decision.action
    return answer


def _match_json(match: RuleMatch) -> dict[str, Any]:
    found: dict[str, Any] = {"matchedPrefix": list(match.prefix), "decision": match.action}
    if match.resolved_program is not None:
        found["resolvedProgram"] = match.resolved_program
    if match.justification is not None:
        found["justification"] = match.justification
    return {"prefixRuleMatch": found}

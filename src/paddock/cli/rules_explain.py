"""`paddock rules explain`: show what the rules say about each program of a script, and which line says it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from paddock.cli.options import Verbs, add_verb
from paddock.cli.rules_choice import add_rules_options, chosen_policy

if TYPE_CHECKING:
    from paddock.model.decision import Action, Decision, RuleMatch
    from paddock.rules.policy import Policy
    from paddock.rules.script import Script, ScriptCommand

    Judged = tuple[ScriptCommand, Decision | None]
    """A command, with None where its program is not known, or not found."""

DESCRIPTION = """\
Take a shell script apart and show what the rules say about each program in it, with the line of
the rule. This looks into scripts within the script, as in `bash -c '…'`. It shows a word that
depends on the moment, such as a variable or a pattern of file names, as it is written; such a
word fits no rule. It can't see what programs such as `make` and `xargs` start in turn.

With --exec, look programs up in PATH, as the shell does, and judge the files found there, as
interception judges what a command executes.
"""

EXAMPLES = """\
examples:
  paddock rules explain 'make && git push --force'
  paddock rules explain --rules team.rules "$(cat deploy.sh)"
  paddock rules explain --json 'rm -rf build' | jq .decision
  paddock rules explain --exec 'awk -f x.awk'     by /usr/bin/awk, and by the file that it leads to
"""

NO_RULE = "no rule"
UNKNOWN = "unknown"
SHELL_ITSELF = "shell"


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs,
        "explain",
        run,
        help="judge each program of a script",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    add_rules_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.add_argument(
        "--exec", action="store_true", dest="is_executed", help="judge the files that PATH leads to"
    )
    parser.add_argument("script", metavar="SCRIPT", help="the script itself, in one argument")


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation."""
    import json

    from paddock.rules.script_reading import read_script

    script = read_script(arguments.script)
    policy = chosen_policy(arguments)
    judge = _judge_execution if arguments.is_executed else _judge
    judged = [(command, judge(policy, command)) for command in script.commands]
    action = _overall(judged)
    if arguments.json:
        print(json.dumps(_json(script, judged, action), ensure_ascii=False, indent=2))
    else:
        _print(script, judged, action)
    return 0


def _judge(policy: Policy, command: ScriptCommand) -> Decision | None:
    import os

    argv = command.argv
    return None if argv is None else policy.decide(argv, os.getcwd(), home=os.path.expanduser("~"))


def _judge_execution(policy: Policy, command: ScriptCommand) -> Decision | None:
    """Judge the file that would be executed; None if there is none.

    For a builtin the shell executes nothing.
    """
    import os
    import shutil

    from paddock.intercept.execution import Execution
    from paddock.intercept.verdict import decision_of
    from paddock.model.decision import Decision

    argv = command.argv
    if argv is None:
        return None
    if command.is_internal:
        return Decision(None, argv)
    found = shutil.which(argv[0])
    if found is None:
        return None
    cwd = os.getcwd()
    called = os.path.join(cwd, found)
    execution = Execution(
        id="",
        program=os.path.realpath(called),
        called=called,
        argv=argv,
        cwd=cwd,
        is_genuine=True,
    )
    # The future sandbox is not known here; without one, no path is in a sandbox's reach.
    return decision_of(execution, policy.decide, lambda _: False)


def _overall(judged: list[Judged]) -> Action | None:
    """Return the strictest action of all. The whole is allowed only if nothing in it is left open."""
    from paddock.model.decision import Action, strictest

    action = strictest(
        decision.action for _, decision in judged if decision is not None and decision.action is not None
    )
    is_open = any(_verdict(command, decision) in (NO_RULE, UNKNOWN) for command, decision in judged)
    return None if action is Action.ALLOW and is_open else action


def _print(script: Script, judged: list[Judged], action: Action | None) -> None:
    from paddock.cli.rendering import Colour, Palette
    from paddock.model.decision import Action
    from paddock.printable import printable

    palette = Palette.of(sys.stdout)
    colours = {
        str(Action.ALLOW): Colour.GREEN,
        str(Action.PROMPT): Colour.YELLOW,
        str(Action.FORBIDDEN): Colour.RED,
    }
    width = max(map(len, Action))
    for command, decision in judged:
        verdict = _verdict(command, decision)
        painted = palette.paint(f"{verdict:{width}}", colours.get(verdict, Colour.DIM))
        print(f"{painted}  line {command.line}: {printable(str(command))}")
        for note in _notes(command, decision):
            print(f"{'':{width}}    {printable(note)}")
    if script.error_line is not None:
        print(f"line {script.error_line} is not understood: what comes after it may be missing here")
    if not judged:
        print("there is no command in it")
    elif len(judged) > 1:
        print(f"\nthe whole: {palette.paint(action or NO_RULE, colours.get(action or '', Colour.DIM))}")


def _verdict(command: ScriptCommand, decision: Decision | None) -> str:
    if decision is None:
        return UNKNOWN
    if decision.action is not None:
        return decision.action
    return SHELL_ITSELF if command.is_internal else NO_RULE


def _notes(command: ScriptCommand, decision: Decision | None) -> list[str]:
    notes = []
    if decision is not None:
        notes += [_match_note(match) for match in decision.matches]
        if decision.broken_files:
            notes.append(
                f"no rule is about it, and these rules are broken: {', '.join(decision.broken_files)}"
            )
    elif command.argv is not None:
        notes.append("there is no such program in PATH")
    if command.unknown:
        notes.append(f"depends on the moment: {', '.join(command.unknown)}")
    return notes


def _match_note(match: RuleMatch) -> str:
    note = f"{match.origin}: {match.action} {' '.join(match.prefix)}"
    if match.resolved_program is not None:
        note += f" ({match.resolved_program})"
    return f"{note} - {match.justification}" if match.justification is not None else note


def _json(script: Script, judged: list[Judged], action: Action | None) -> dict[str, Any]:
    return {
        "decision": action,
        "commands": [_command_json(command, decision) for command, decision in judged],
        "errorLine": script.error_line,
    }


def _command_json(command: ScriptCommand, decision: Decision | None) -> dict[str, Any]:
    return {
        "line": command.line,
        "command": str(command),
        "unknownWords": list(command.unknown),
        "isInternal": command.is_internal,
        "decision": decision.action if decision is not None else None,
        "reason": decision.reason if decision is not None else "the program is not known, or not found",
        "rules": [_match_json(match) for match in decision.matches] if decision is not None else [],
    }


def _match_json(match: RuleMatch) -> dict[str, Any]:
    return {
        "matchedPrefix": list(match.prefix),
        "decision": match.action,
        "justification": match.justification,
        "resolvedProgram": match.resolved_program,
        "file": match.origin.path,
        "line": match.origin.line,
    }

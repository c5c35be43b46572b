"""docs/reference/cli.md: every command with its options.

The parser is walked and not asked for its help, whose layout differs between versions of
Python and between terminals.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from paddock.cli.main import build_parser
from scripts.reference.markdown import anchor, code, document, fence, table

APPENDED_DEFAULT = " (default: %(default)s)"
"""What BooleanOptionalAction puts behind a help text before Python 3.13, and not since."""


def page() -> str:
    """The whole page."""
    parser = build_parser()
    verbs = list(commands(parser))
    links = [f"[{code(verb.prog)}]({anchor(verb.prog)})" for verb, _ in verbs]
    purposes = [purpose for _, purpose in verbs]
    contents = table(("command", "purpose"), zip(links, purposes, strict=True))
    return document(
        "Command line",
        parser.description or "",
        contents,
        _options(parser),
        fence(parser.epilog or ""),
        *(_section(verb) for verb, _ in verbs),
    )


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """Every command with its purpose, those below it behind it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            purposes = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, verb in action.choices.items():
                yield verb, purposes.get(name, "")
                yield from commands(verb)


def _section(parser: argparse.ArgumentParser) -> str:
    parts = [
        f"## {parser.prog}",
        fence(usage(parser)),
        parser.description or "",
        _options(parser),
        fence(parser.epilog) if parser.epilog else "",
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part)


def usage(parser: argparse.ArgumentParser) -> str:
    """Return how it is called."""
    if parser.usage:
        return parser.usage % {"prog": parser.prog}
    words = [parser.prog]
    if any(action.option_strings and _is_shown(action) for action in parser._actions):
        words.append("[OPTION]...")
    words += [_positional(action) for action in parser._actions if not action.option_strings]
    return " ".join(words)


def _positional(action: argparse.Action) -> str:
    name = _metavar(action)
    match action.nargs:
        case "?":
            return f"[{name}]"
        case "*" | argparse.REMAINDER:
            return f"[{name}]..."
        case "+":
            return f"{name}..."
    return name


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return action.dest.upper()


def _options(parser: argparse.ArgumentParser) -> str:
    """The arguments in the groups in which they were declared; `--help`, which all have, left out."""
    parts = []
    for title, actions in argument_groups(parser):
        if title:
            parts.append(f"**{title}**")
        rows = ((", ".join(map(code, signature_words(each))), help_of(each)) for each in actions)
        parts.append(table(("argument", "meaning"), rows))
    return "\n\n".join(parts)


def argument_groups(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[argparse.Action]]]:
    """Give the arguments in the groups in which they were declared, with their titles, which may be empty."""
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if _is_shown(action)]
        if not actions:
            continue
        # The title of the groups that every parser has differs between versions of Python.
        is_own = group not in (parser._optionals, parser._positionals)
        described = f"{group.title}: {group.description}" if group.description else f"{group.title}"
        yield described if is_own else "", actions


def _is_shown(action: argparse.Action) -> bool:
    is_hidden = action.help == argparse.SUPPRESS
    return not is_hidden and not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)


def signature_words(action: argparse.Action) -> list[str]:
    """Return how an argument is written, each spelling of an option by itself."""
    if not action.option_strings:
        return [_positional(action)]
    value = (
        ""
        if action.nargs == 0
        else f" [{_metavar(action)}]"
        if action.nargs == "?"
        else f" {_metavar(action)}"
    )
    return [f"{flag}{value}" for flag in action.option_strings]


def help_of(action: argparse.Action) -> str:
    """Return what an argument means, on one line."""
    if isinstance(action, argparse._VersionAction):
        # Its own text is argparse's, and is translated.
        return "print the version and exit"
    text = (action.help or "").removesuffix(APPENDED_DEFAULT)
    return " ".join((text % {**vars(action), "prog": "paddock"}).split())

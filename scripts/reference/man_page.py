"""docs/reference/man/: a manual page for each command, made from the parser like cli.md."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from functools import partial

from paddock.cli.main import build_parser
from scripts.reference.command_line import argument_groups, commands, help_of, signature_words, usage

FOLDER = "man"


def pages() -> dict[str, Callable[[], str]]:
    """What makes each page, by its path below docs/reference."""
    parser = build_parser()
    made: dict[str, Callable[[], str]] = {_path(parser): partial(_page, parser, "run commands for AI agents")}
    for verb, purpose in commands(parser):
        made[_path(verb)] = partial(_page, verb, purpose)
    return made


def _path(parser: argparse.ArgumentParser) -> str:
    return f"{FOLDER}/{_name(parser)}.1"


def _name(parser: argparse.ArgumentParser) -> str:
    return parser.prog.replace(" ", "-")


def _page(parser: argparse.ArgumentParser, purpose: str) -> str:
    lines = [
        '.\\" Made by `make reference` from the code. Do not edit: `make check` compares.',
        f'.TH "{_name(parser).upper()}" "1" "" "Paddock" "Paddock manual"',
        ".SH NAME",
        f"{_text(_name(parser))} \\- {_text(purpose)}",
        ".SH SYNOPSIS",
        *_verbatim(usage(parser)),
        ".SH DESCRIPTION",
        *_paragraphs(parser.description or ""),
    ]
    below = list(commands(parser))
    if below:
        lines.append(".SH COMMANDS")
        for verb, verb_purpose in below:
            lines += [".TP", f".BR {_name(verb)} (1)", _text(verb_purpose)]
    lines += _options(parser)
    if parser.epilog:
        lines += _epilog(parser.epilog)
    if parser.prog != "paddock":
        lines += [".SH SEE ALSO", ".BR paddock (1)"]
    return "\n".join(lines) + "\n"


def _options(parser: argparse.ArgumentParser) -> list[str]:
    lines: list[str] = []
    for title, actions in argument_groups(parser):
        section = "OPTIONS" if actions[0].option_strings else "ARGUMENTS"
        lines.append(f".SS {_text(title)}" if title else f".SH {section}")
        for action in actions:
            lines += [".TP", rf"\fB{_text(', '.join(signature_words(action)))}\fR", _text(help_of(action))]
    return lines


def _epilog(text: str) -> list[str]:
    """Sections with a title in small letters and a colon, and indented lines, as --help prints them."""
    lines: list[str] = []
    body: list[str] = []
    for line in [*text.splitlines(), "end:"]:
        if line.endswith(":") and not line.startswith(" "):
            lines += _verbatim(inspect.cleandoc("\n" + "\n".join(body))) if body else []
            lines.append(f".SH {_text(line[:-1].upper())}")
            body = []
        elif line.strip() and not line.startswith(" "):
            lines += _verbatim(inspect.cleandoc("\n" + "\n".join(body))) if body else []
            lines += [".PP", _text(line)]
            body = []
        else:
            body.append(line)
    return lines[:-1]


def _paragraphs(text: str) -> list[str]:
    lines: list[str] = []
    for part in text.strip().split("\n\n"):
        lines += [".PP", *(_text(line) for line in part.splitlines())]
    return lines


def _verbatim(text: str) -> list[str]:
    return [".nf", *(_text(line) for line in text.strip("\n").splitlines()), ".fi"]


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped

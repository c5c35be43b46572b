"""Completion scripts for shells, made from an argument parser. Pure.

The parser is the only source: a metavar tells what kind of value an argument takes (see `options`). The
scripts ask `paddock completion --list` for what only the host knows, such as process ids, when it is needed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from signal import Signals

from msgspec import Struct


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script for one of SHELLS."""
    scripts: dict[str, Callable[[list[Verb]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    return scripts[shell](list(_verbs(parser)))


# --- what the parser knows --------------------------------------------------


class Argument(Struct, frozen=True):
    """An option with its spellings, or without any a positional argument."""

    spellings: tuple[str, ...]
    help: str
    kind: str
    """What it takes: a metavar such as ID, nothing for a flag, or CHOICES."""
    choices: tuple[str, ...]

    @property
    def names_file(self) -> bool:
        """Return whether the value is a file of this host, or may be."""
        return self.kind == "FILE" or self.kind.startswith("[URL:]")


class Verb(Struct, frozen=True):
    """A command and its arguments. One that is below another has both names: `rules check`."""

    name: str
    help: str
    arguments: tuple[Argument, ...]
    below: tuple[str, ...]
    """The names of the commands below it; then its positional argument is one of them."""

    @property
    def is_below(self) -> bool:
        """Return whether this is a command of another command."""
        return " " in self.name

    @property
    def options(self) -> list[Argument]:
        """Return what begins with a dash."""
        return [argument for argument in self.arguments if argument.spellings]

    @property
    def positional(self) -> Argument | None:
        """Return what stands for itself; all of our verbs have one kind at most."""
        return next((argument for argument in self.arguments if not argument.spellings), None)


def _verbs(parser: argparse.ArgumentParser, above: str = "") -> Iterator[Verb]:
    """Yield every verb, each followed by those below it."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, verb in action.choices.items():
            below = list(_verbs(verb, f"{above}{name} "))
            names = tuple(each.name.rpartition(" ")[2] for each in below)
            arguments = tuple(map(_argument, verb._actions))
            yield Verb(f"{above}{name}", helps[name], arguments, names)
            yield from below


def _argument(action: argparse.Action) -> Argument:
    kind = str(action.metavar or "") if action.nargs != 0 else ""
    choices = tuple(str(choice) for choice in action.choices or ())
    return Argument(tuple(action.option_strings), action.help or "", "CHOICES" if choices else kind, choices)


def _asked_list(verb: Verb, argument: Argument) -> str:
    """Return the list of `paddock completion --list` that has its values; empty if none has."""
    match argument.kind:
        case "ID":
            # A user may want the output of a process that has ended.
            return "all-ids" if verb.name == "logs" else "ids"
        case "SERVER":
            return "servers"
        case "PROFILE":
            return "profiles"
        case "GROUP":
            return "groups"
        case _:
            return ""


def _signal_names() -> list[str]:
    return [number.name.removeprefix("SIG") for number in Signals]


# --- bash -------------------------------------------------------------------

_BASH = """\
# bash completion for paddock; made by `paddock completion bash`
_paddock() {{
    # Not COMP_WORDS: readline breaks words at colons, which names of profiles and locations have.
    local words line=${{COMP_LINE:0:COMP_POINT}}
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    local last=$(( ${{#words[@]}} - 1 ))
    local word=${{words[last]}} previous=${{words[last-1]}} verb=${{words[1]}} options= positional=
    COMPREPLY=()
    if (( last == 1 )); then
        COMPREPLY=($(compgen -W '{verbs} --help --version' -- "$word"))
        return
    fi
    local index
    for (( index = 2; index < last; index++ )); do
        # What follows is another program's command line.
        if [[ ${{words[index]}} == -- ]]; then
            (( index == last - 1 )) && COMPREPLY=($(compgen -c -- "$word"))
            return
        fi
    done
    case $verb in
        {nesting}) (( last > 2 )) && verb+=" ${{words[2]}}" ;;
    esac
    case $verb in
{cases}
        *) return ;;
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
    elif [[ -n $positional ]]; then
        _paddock_offer $positional
    fi
}}
# _paddock_offer COMMAND...: those of the lines that it prints that begin like the word to be completed.
_paddock_offer() {{
    local offered quoted
    # Not compgen -W, which expands what it is given. Others choose some of these names, so each goes into the
    # command line quoted.
    while IFS= read -r offered; do
        printf -v quoted %q "$offered"
        [[ $offered == "$word"* || $quoted == "$word"* ]] && COMPREPLY+=("$quoted")
    done < <("$@")
    # readline has the part up to the last colon already.
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${{COMPREPLY[@]#"${{word%"${{word##*:}}"}}"}}")
    fi
}}
_paddock_words() {{ printf '%s\\n' "$@"; }}
_paddock_list() {{ paddock completion --list "$1" 2>/dev/null; }}
complete -o default -F _paddock paddock
"""


def _bash(verbs: list[Verb]) -> str:
    return _BASH.format(
        verbs=" ".join(verb.name for verb in verbs if not verb.is_below),
        nesting="|".join(verb.name for verb in verbs if verb.below),
        cases="\n".join(_bash_case(verb) for verb in verbs),
    )


def _bash_case(verb: Verb) -> str:
    options = " ".join(spelling for option in verb.options for spelling in option.spellings)
    lines = [f"        '{verb.name}')", f"            options='{options}'"]
    if verb.positional is not None and (words := _bash_words(verb, verb.positional)):
        lines.append(f"            positional='{words}'")
    values = [option for option in verb.options if option.kind]
    if values:
        lines.append("            case $previous in")
        for option in values:
            spellings = "|".join(option.spellings)
            lines.append(f"                {spellings}) {_bash_values(verb, option)}return ;;")
        lines.append("            esac")
    lines.append("            ;;")
    return "\n".join(lines)


def _bash_words(verb: Verb, argument: Argument) -> str:
    """Return the command that prints the possible words; empty where bash knows better, which is files."""
    if asked := _asked_list(verb, argument):
        return f"_paddock_list {asked}"
    match argument.kind:
        case "CHOICES":
            return f"_paddock_words {' '.join(argument.choices)}"
        case "SIGNAL":
            return f"_paddock_words {' '.join(_signal_names())}"
        case _:
            return ""


def _bash_values(verb: Verb, option: Argument) -> str:
    if option.kind == "DIR":
        return '_paddock_offer compgen -d -- "$word"; '
    words = _bash_words(verb, option)
    return f"_paddock_offer {words}; " if words else ""


# --- zsh --------------------------------------------------------------------

_ZSH = """\
#compdef paddock
# zsh completion for paddock; made by `paddock completion zsh`
_paddock() {{
    local -a verbs
    verbs=(
{verbs}
    )
    if (( CURRENT == 2 )); then
        _describe -t commands command verbs
        return
    fi
    local verb=$words[2]
    shift words
    (( CURRENT-- ))
    case $verb in
        {nesting})
            if (( CURRENT > 2 )); then
                verb+=" $words[2]"
                shift words
                (( CURRENT-- ))
            fi ;;
    esac
    case $verb in
{cases}
    esac
}}
# _paddock_list OPTION... LIST: _arguments puts options for compadd before the word that is given here.
_paddock_list() {{
    local -a listed
    listed=(${{(f)"$(paddock completion --list "${{@[-1]}}" 2>/dev/null)"}})
    compadd "${{@[1,-2]}}" -a listed
}}
_paddock_profiles() {{ _paddock_list "$@" profiles; _files -g '*.(toml|json)'; }}
_paddock_command() {{
    if [[ $words[1] == -- ]]; then
        shift words
        (( CURRENT-- ))
    fi
    _normal
}}
if [[ $funcstack[1] == _paddock ]]; then _paddock "$@"; else compdef _paddock paddock; fi
"""


def _zsh(verbs: list[Verb]) -> str:
    return _ZSH.format(
        verbs="\n".join(
            f"        '{verb.name}:{_zsh_text(verb.help)}'" for verb in verbs if not verb.is_below
        ),
        nesting="|".join(verb.name for verb in verbs if verb.below),
        cases="\n".join(_zsh_case(verb) for verb in verbs),
    )


def _zsh_case(verb: Verb) -> str:
    specs = []
    for option in verb.options:
        value = f":{_zsh_text(option.kind.lower())}:{_zsh_action(verb, option)}" if option.kind else ""
        specs += [f"'{spelling}[{_zsh_text(option.help)}]{value}'" for spelling in option.spellings]
    if verb.positional is not None:
        # With two colons the command's own completion sees its own words alone.
        rest = "*::" if verb.positional.kind == "COMMAND" else "*:"
        kind = _zsh_text(verb.positional.kind.lower())
        specs.append(f"'{rest}{kind}:{_zsh_action(verb, verb.positional)}'")
    joined = " \\\n                ".join(specs)
    return f"        '{verb.name}')\n            _arguments -S \\\n                {joined} ;;"


def _zsh_action(verb: Verb, argument: Argument) -> str:
    if argument.kind == "PROFILE":
        return "_paddock_profiles"
    if asked := _asked_list(verb, argument):
        return f"_paddock_list {asked}"
    if argument.names_file:
        return "_files"
    match argument.kind:
        case "CHOICES":
            return f"({' '.join(argument.choices)})"
        case "SIGNAL":
            return f"({' '.join(_signal_names())})"
        case "DIR":
            return "_files -/"
        case "COMMAND":
            return "_paddock_command"
        case _:
            return ""


def _zsh_text(text: str) -> str:
    for special in ("\\", "[", "]", ":"):
        text = text.replace(special, f"\\{special}")
    return text.replace("'", "'\\''")


# --- fish -------------------------------------------------------------------

_FISH_HEAD = """\
# fish completion for paddock; made by `paddock completion fish`
complete -c paddock -f
complete -c paddock -n __fish_use_subcommand -l help -d 'show a help message'
complete -c paddock -n __fish_use_subcommand -l version -d 'show the version'
# After -- stands another program's command line.
function __paddock_is_own; not contains -- -- (commandline -opc); end
function __paddock_command
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words); or return
    complete -C (string join ' ' -- (string escape -- $words[(math $at + 1)..]) (commandline -ct))
end
complete -c paddock -n 'not __paddock_is_own' -a '(__paddock_command)'
"""


def _fish(verbs: list[Verb]) -> str:
    lines = [
        f"complete -c paddock -n __fish_use_subcommand -a {verb.name} -d {_fish_text(verb.help)}"
        for verb in verbs
        if not verb.is_below
    ]
    for verb in verbs:
        condition = f"complete -c paddock -n '__paddock_is_own; and {_fish_condition(verb)}'"
        for option in verb.options:
            spellings = " ".join(_fish_spelling(spelling) for spelling in option.spellings)
            value = f" -r{_fish_values(verb, option)}" if option.kind else ""
            lines.append(f"{condition} {spellings}{value} -d {_fish_text(option.help)}")
        if verb.positional is not None and (values := _fish_values(verb, verb.positional)):
            lines.append(f"{condition}{values}")
    return _FISH_HEAD + "\n".join(lines) + "\n"


def _fish_condition(verb: Verb) -> str:
    seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in verb.name.split())
    return f"{seen}; and not __fish_seen_subcommand_from {' '.join(verb.below)}" if verb.below else seen


def _fish_spelling(spelling: str) -> str:
    return f"-l {spelling[2:]}" if spelling.startswith("--") else f"-s {spelling[1:]}"


def _fish_values(verb: Verb, argument: Argument) -> str:
    if asked := _asked_list(verb, argument):
        files = " -F" if argument.kind == "PROFILE" else ""
        return f"{files} -a '(paddock completion --list {asked} 2>/dev/null)'"
    if argument.names_file:
        return " -F"
    match argument.kind:
        case "CHOICES":
            return f" -a '{' '.join(argument.choices)}'"
        case "SIGNAL":
            return f" -a '{' '.join(_signal_names())}'"
        case "DIR":
            return " -a '(__fish_complete_directories)'"
        case _:
            return ""


def _fish_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"

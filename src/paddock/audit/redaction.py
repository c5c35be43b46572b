"""Secrets out, and sizes bounded, before an event is written. Pure.

Names show what is secret: those of variables, of flags, of headers, of parameters in URLs. The
redactor replaces a value whose name looks secret, wherever it is: in the environment, as a word
of argv, and inside a word, because a whole shell script is one word. It also removes the value
of a secret variable from every other place. It does not recognise a secret without such a name.

A client chooses the secrets and the texts to search, so the time is bounded: the redactor looks for the
beginnings of secrets only, in texts that are cut, and shows no arguments at all next to very many secrets.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct, structs

from paddock.audit.event import Event
from paddock.excerpt import excerpt
from paddock.wildcard import SimpleWildcard

REDACTED = "[redacted]"

LIST_LIMIT_CHARS = 256 * 1024
"""Limit for argv, or the environment, in one record: twice MAX_ARG_STRLEN (execve(2)), the longest
single argument there can be."""

FIELD_LIMIT_CHARS = 4096
"""Limit for any other text of a record: a path of PATH_MAX."""

PROPAGATED_CHARS = 8
"""The shortest value of a secret variable to search for elsewhere: `1` or `yes` is everywhere."""

SEARCHED_CHARS = 96
"""How much of a long secret to search for. What follows it in a text is hidden as far as it is the secret.
CPython's search takes time in proportion to the text for less than 100 characters, however alike they are."""

SEARCHED_SECRETS = 256
"""Most secrets to search for in lists, each of which takes half a millisecond in a list of full length. Next
to more, a record has neither arguments nor values of variables."""

LARGE_CHARS = 16 * 1024
"""An event with more text takes milliseconds to redact."""

LARGE_ITEMS = 256
"""The same for the words of argv and variables."""

ITEM_CHARS = 3
"""What an item of a list takes in addition to its text: quotes and a comma."""

REMEMBERED_NAMES = 1024
"""Number of names with a remembered judgement: nearly every start brings the same ones."""

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|PASSCODE|PASS(?:_|$)|_PWD$|KEY|CREDENTIAL|CREDS?$"
    # Not GIT_AUTHOR_NAME, but AUTHORIZATION.
    r"|AUTH(?!OR(?!I))|COOKIE|BEARER|JWT|SESSION_?ID|PRIVATE|SIGNATURE|CONNECTION_?STRING",
    re.IGNORECASE,
)

# A name begins only where a word does, quantifiers are possessive, and only a value after a secret name
# is examined: the time is linear in the text, which a client chooses.
_NAME = r"(?<![\w.-])(?P<name>[-A-Za-z_][\w.-]*+)"
_QUOTED = r"\"(?:[^\"\\]|\\.)*+\"?+|'[^']*+'?+"
_USER_INFORMATION = re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]*+://)[^/?#\s\"']*@")
_WHOLE_WORD = re.compile(rf"{_NAME}(?P<gap>=|:\s)(?P<value>.++)", re.DOTALL)
_SCRIPT_FLAG = re.compile(r"-\w*[ce]|--eval|--command")
_USER_FLAGS = ("-u", "--user", "-U", "--proxy-user")


class Secrets(Struct, frozen=True):
    """The values of secret variables."""

    rests: Mapping[str, Sequence[str]]
    """What follows SEARCHED_CHARS, by what they begin with; if nothing, all that follows is hidden."""
    are_too_many: bool = False
    """Whether there are too many to search for in lists."""


NO_SECRETS: Final = Secrets({})


class _Form(Struct, frozen=True):
    """How a name and its value may be written: the mark that must be there, what introduces, the value."""

    mark: str
    introduction: re.Pattern[str]
    value: re.Pattern[str]


_FORMS = (
    # TOKEN=… and --token=… in scripts, ?token=… in URLs
    _Form("=", re.compile(rf"{_NAME}="), re.compile(rf"{_QUOTED}|[^\s;&|<>()]++", re.DOTALL)),
    # Authorization: Bearer …, "password": "…", Cookie: a=…; b=…
    _Form(
        ":",
        re.compile(rf"{_NAME}[\"']?+\s*+:(?!//)\s*+"),
        re.compile(
            rf"{_QUOTED}|(?:(?:Bearer|Basic|Token|Digest|Negotiate)\s++)?+[^\s\"';&|<>()]++"
            r"(?:;\s*+[\w.-]++=[^\s\"';&|<>()]++)*+",
            re.DOTALL | re.IGNORECASE,
        ),
    ),
    # --token …
    _Form(
        "-",
        re.compile(r"(?<![\w.-])(?P<name>--?[A-Za-z][\w.-]*+)\s++"),
        re.compile(rf"{_QUOTED}|(?!--)[^\s;&|<>()]++", re.DOTALL),
    ),
)


class Redactor:
    """Redacts events.

    `extra_names` are patterns of further names whose values are secret: `*` stands for anything.
    """

    def __init__(self, extra_names: Iterable[str] = ()) -> None:
        self._extra = [SimpleWildcard(name) for name in extra_names]
        self._judge = lru_cache(REMEMBERED_NAMES)(self._is_secret)

    def is_secret(self, name: str) -> bool:
        """Return whether to hide the value of a variable, flag or header of this name."""
        # An absurdly long name is not worth remembering; judge it by its end.
        return self._judge(name[-FIELD_LIMIT_CHARS:])

    def _is_secret(self, name: str) -> bool:
        plain = name.strip("-").replace("-", "_").replace(".", "_")
        if _SECRET_NAME.search(plain) is not None:
            return True
        bare = name.lstrip("-")
        return any(wildcard.matches(bare) for wildcard in self._extra)

    def redact(self, event: Event) -> Event:
        """Return the event in the form that may be written.

        If it `is_large`, this takes a while: a thread that others wait for should not do it.
        """
        changes: dict[str, Any] = {}
        secrets = self._secrets_of(getattr(event, "env", {}))
        for name in event.__struct_fields__:
            value = getattr(event, name)
            if name == "env":
                changes[name] = self.environment(value, secrets)
            elif isinstance(value, tuple):
                changes[name] = self.arguments(value, secrets)
            elif isinstance(value, str):
                changes[name] = self.text(value, secrets)
        return structs.replace(event, **changes)

    def environment(self, env: Mapping[str, str], secrets: Secrets = NO_SECRETS) -> dict[str, str]:
        """Return variables with their values, without secrets. Names stay."""
        kept: dict[str, str] = {}
        room = LIST_LIMIT_CHARS
        found = _found_in([value for name, value in env.items() if not self.is_secret(name)], secrets)
        for name, value in env.items():
            if room <= 0:
                kept["…"] = f"(+{len(env) - len(kept)} more)"
                break
            is_hidden = secrets.are_too_many or self.is_secret(name)
            kept[excerpt(name, FIELD_LIMIT_CHARS)] = REDACTED if is_hidden else self.text(value, found, room)
            room -= len(name) + len(value) + ITEM_CHARS
        return kept

    def arguments(self, argv: Sequence[str], secrets: Secrets = NO_SECRETS) -> tuple[str, ...]:
        """Return words of a command line, without secrets."""
        if secrets.are_too_many:
            more = (f"{REDACTED} (+{len(argv) - 1} more)",) if len(argv) > 1 else ()
            return (*(self.text(word, secrets) for word in argv[:1]), *more)
        found = _found_in(argv, secrets)
        kept: list[str] = []
        room = LIST_LIMIT_CHARS
        previous = ""
        for word in argv:
            if room <= 0:
                kept.append(f"… (+{len(argv) - len(kept)} more)")
                break
            kept.append(self._word(word, previous, found, room))
            room -= len(word) + ITEM_CHARS
            previous = word
        return tuple(kept)

    def _word(self, word: str, previous: str, secrets: Secrets, limit_chars: int) -> str:
        is_value = previous.startswith("-") and "=" not in previous and not word.startswith("--")
        if is_value and self.is_secret(previous):
            return REDACTED
        if previous in _USER_FLAGS and ":" in word:
            return f"{excerpt(word.partition(':')[0], FIELD_LIMIT_CHARS)}:{REDACTED}"
        # A word may hold blanks, and all of it is the value; a script may begin in this way and go on.
        whole = None if _SCRIPT_FLAG.fullmatch(previous) else _WHOLE_WORD.match(word)
        if whole is not None and self.is_secret(whole["name"]):
            return f"{excerpt(whole['name'], FIELD_LIMIT_CHARS)}{whole['gap']}{REDACTED}"
        return self.text(word, secrets, limit_chars)

    def text(self, text: str, secrets: Secrets = NO_SECRETS, limit_chars: int = FIELD_LIMIT_CHARS) -> str:
        """Cut any text, and hide `secrets` and those of assignments, flags, headers and URLs."""
        searched = text[: limit_chars + SEARCHED_CHARS]
        for beginning, rests in secrets.rests.items():
            if beginning in searched:
                searched = _without(searched, beginning, rests)
        if len(text) <= limit_chars + SEARCHED_CHARS:
            text = excerpt(searched, limit_chars)
        else:
            # The end may be the beginning of a secret that is cut.
            text = f"{searched[:-SEARCHED_CHARS][:limit_chars]}… (+{len(text) - limit_chars})"
        if "://" in text:
            text = _USER_INFORMATION.sub(rf"\g<1>{REDACTED}@", text)
        for form in _FORMS:
            if form.mark in text:
                text = self._hide(text, form)
        return text

    def _hide(self, text: str, form: _Form) -> str:
        kept: list[str] = []
        copied_to = at = 0
        while found := form.introduction.search(text, at):
            at = found.end()
            if self.is_secret(found["name"]) and (value := form.value.match(text, at)):
                kept += text[copied_to:at], REDACTED
                copied_to = at = value.end()
        return "".join((*kept, text[copied_to:])) if kept else text

    def _secrets_of(self, env: Mapping[str, str]) -> Secrets:
        values = {
            value for name, value in env.items() if len(value) >= PROPAGATED_CHARS and self.is_secret(name)
        }
        are_too_many = len(values) > SEARCHED_SECRETS
        rests: dict[str, list[str]] = {}
        # Replace the longest first: one may be the beginning of another.
        for value in sorted(values, key=len, reverse=True):
            same = rests.setdefault(value[:SEARCHED_CHARS], [])
            if not are_too_many:
                same.append(value[SEARCHED_CHARS:])
        return Secrets(rests, are_too_many)


def is_large(event: Event) -> bool:
    """Return whether it takes long to redact an event."""
    items = chars = 0
    for texts in (getattr(event, "argv", ()), getattr(event, "env", {}).values()):
        items += len(texts)
        if items > LARGE_ITEMS:
            return True
        chars += sum(map(len, texts))
    return chars > LARGE_CHARS


def _found_in(texts: Collection[str], secrets: Secrets) -> Secrets:
    """Return the secrets to search for in each text of a list. Few are in any, and the texts may be many."""
    if not secrets.rests or secrets.are_too_many:
        return NO_SECRETS
    kept, room = list[str](), LIST_LIMIT_CHARS
    for text in texts:
        if room <= 0:
            break
        kept.append(text[: room + SEARCHED_CHARS])
        room -= len(text) + ITEM_CHARS
    everything = "\0".join(kept)
    return Secrets({start: rests for start, rests in secrets.rests.items() if start in everything})


def _without(text: str, beginning: str, rests: Sequence[str]) -> str:
    """Return the text without the secrets that begin in this way."""
    first, *others = text.split(beginning)
    if not rests:
        return first + REDACTED
    shown = (other[max(_common_chars(other, rest) for rest in rests) :] for other in others)
    return REDACTED.join((first, *shown))


def _common_chars(text: str, other: str) -> int:
    """Return the number of characters with which both begin."""
    same, different = 0, min(len(text), len(other)) + 1
    while different - same > 1:
        middle = (same + different) // 2
        if text.startswith(other[same:middle], same):
            same = middle
        else:
            different = middle
    return same

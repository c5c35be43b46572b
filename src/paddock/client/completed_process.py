"""A command that has ended, with everything it wrote."""

from __future__ import annotations

from typing import AnyStr, Generic

from msgspec import Struct

from paddock.client.ending import Ending
from paddock.errors import CommandFailed


class CompletedProcess(Struct, Generic[AnyStr], frozen=True):
    """A command that has ended, with everything it wrote. A terminal's output is all stdout."""

    argv: tuple[str, ...]
    returncode: int
    stdout: AnyStr
    stderr: AnyStr
    ending: Ending
    """What its sandbox denied, what ended it and what it used, as far as the server reports it."""
    is_output_complete: bool = True
    """False if the command left something behind that holds its output open, and may write more to it."""

    def check(self) -> None:
        """Raise CommandFailed unless the status is 0."""
        if self.returncode != 0:
            raise CommandFailed(self.argv, self.returncode, _bytes(self.stdout), _bytes(self.stderr))

    def as_text(self) -> CompletedProcess[str]:
        """Return the same with the output as text. Bytes that are not UTF-8 become U+FFFD."""
        return CompletedProcess(
            self.argv,
            self.returncode,
            _text(self.stdout),
            _text(self.stderr),
            self.ending,
            self.is_output_complete,
        )


def _bytes(output: bytes | str) -> bytes:
    return output.encode() if isinstance(output, str) else output


def _text(output: bytes | str) -> str:
    return output if isinstance(output, str) else output.decode("utf-8", "replace")

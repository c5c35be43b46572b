"""Formats and writes the log of a server: one event, one line, text or JSON.

`configure` is for the owner of the process, which is the command line; a program that embeds a server
configures `logging` as it likes. No line is longer than a pipe takes in one piece, and writing one never
waits for the reader: a log that nobody reads must not stop the server. The log counts and reports the lines
it had to drop.
"""

from __future__ import annotations

import logging
import os
import select
import time
import traceback

import msgspec

from paddock.journal import FIELD_LIMIT_CHARS, Event, Value, cut
from paddock.model.log_setting import LogFormat, LogLevel
from paddock.printable import printable

LINE_LIMIT_BYTES = 4096
"""PIPE_BUF (pipe(7)): a line up to this is written whole or not at all, and a pipe that poll(2) calls
writable takes it without waiting."""

TRACEBACK_FACTOR = 8
"""How many times the limit of a field the end of a traceback may have: about twenty frames."""

_LIMITS_CHARS = (FIELD_LIMIT_CHARS, 32, 4)
"""Tried in this order until a line fits. The last fits always: a character is at most six bytes once it
is escaped, so that even 32 strings of a tuple and twenty fields come to less than 3000 bytes."""


def configure(log_format: LogFormat, level: LogLevel, fd: int = 2) -> None:
    """Send all log output of this process to a descriptor. Call this once, before the server starts."""
    handler = LineHandler(fd)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)


def set_level(level: LogLevel) -> None:
    """Log events of this severity and above from now on."""
    logging.getLogger().setLevel(level.value.upper())


class LineFormatter(logging.Formatter):
    """One line for each record, within LINE_LIMIT_BYTES, without a line end inside."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        line = ""
        for limit_chars in _LIMITS_CHARS:
            line = self.line(record, event_of(record), limit_chars)
            if len(line.encode("utf-8", "backslashreplace")) < LINE_LIMIT_BYTES:
                break
        return line

    def line(self, record: logging.LogRecord, event: Event, limit_chars: int) -> str:
        """Return the line with no field over the limit."""
        raise NotImplementedError


class TextFormatter(LineFormatter):
    """`2026-03-04T05:06:07.890Z INFO process started connection=1 session=0f3a9c2e …`."""

    def line(self, record: logging.LogRecord, event: Event, limit_chars: int) -> str:
        """Return the line as printable text."""
        words = [_time(record), record.levelname, event.text(limit_chars)]
        if fault := _fault(record, limit_chars):
            words.append(Event("failed with", fault).text(limit_chars * TRACEBACK_FACTOR))
        return " ".join(words)


class JsonFormatter(LineFormatter):
    """An object with `time`, `level`, `logger`, `event`, then the fields of the event."""

    def line(self, record: logging.LogRecord, event: Event, limit_chars: int) -> str:
        """Return JSON without characters that a reader takes for a line end, or a terminal for a command."""
        members: dict[str, Value] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": cut(event.name, limit_chars),
        }
        members |= {
            name: cut(value, limit_chars) for name, value in event.fields.items() if value is not None
        }
        members |= _fault(record, limit_chars)
        try:
            encoded = msgspec.json.encode(members)
        except UnicodeEncodeError:
            # A lone surrogate, from a file name that is not UTF-8, has no JSON.
            encoded = msgspec.json.encode({name: _encodable(value) for name, value in members.items()})
        # Unprintable characters stand only inside of strings, where an escape is as good.
        return printable(encoded.decode())


def event_of(record: logging.LogRecord) -> Event:
    """Return the event of a record; the message of a library is one without fields."""
    if isinstance(record.msg, Event):
        return record.msg
    return Event(record.getMessage(), {})


def _fault(record: logging.LogRecord, limit_chars: int) -> dict[str, Value]:
    if not record.exc_info or record.exc_info[1] is None:
        return {}
    error = record.exc_info[1]
    frames = "".join(traceback.format_exception(error))
    return {
        "error": cut(f"{type(error).__name__}: {error}", limit_chars),
        "traceback": frames[-limit_chars * TRACEBACK_FACTOR :],
    }


def _encodable(value: Value) -> Value:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return tuple(str(_encodable(item)) for item in value) if isinstance(value, tuple) else value


def _time(record: logging.LogRecord) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{moment}.{int(record.created * 1000) % 1000:03d}Z"


class LineHandler(logging.Handler):
    """Writes lines to a descriptor that it does not own, and never waits for the reader."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._dropped = 0
        self._is_cut = False
        """Whether the line that was written last has no end."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, or count it as dropped while nobody reads."""
        try:
            line = self.format(record)
            if self._dropped and self._write(self.format(self._about_dropped())):
                self._dropped = 0
            if self._dropped or not self._write(line):
                self._dropped += 1
        except Exception:
            self.handleError(record)

    def _write(self, line: str) -> bool:
        if not any(event & select.POLLOUT for _, event in self._poll.poll(0)):
            return False
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        if self._is_cut:
            data = b"\n" + data
        try:
            written = os.write(self._fd, data)
        except OSError:
            # The reader has closed its end (EPIPE), or the disk is full: there is nowhere to report it.
            return False
        # A disk that is nearly full takes a part, and so does a pipe that another process made non-blocking.
        self._is_cut = written < len(data)
        return not self._is_cut

    def _about_dropped(self) -> logging.LogRecord:
        event = Event("log lines dropped", {"count": self._dropped})
        return logging.LogRecord(__name__, logging.WARNING, __file__, 0, event, None, None)

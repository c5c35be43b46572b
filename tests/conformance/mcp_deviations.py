"""THE list of what `paddock mcp` deliberately does otherwise than the peer's MCP shell server.

Each entry has what stands, and why, in place of the last recorded message of the server. An entry whose
recorded message holds after all is an error.
"""

from __future__ import annotations

from typing import Any


def _result(exit_code: int, output: str, *, timed_out: bool = False) -> dict[str, Any]:
    text = {"exit_code": exit_code, "output": output, "timed_out": timed_out}
    return {"result": {"content": [{"type": "text", "text_json": text}], "isError": False}}


DEVIATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "call_without_sandbox_state": (
        _result(0, "hi\n"),
        "Paddock needs no helper from its client, so it runs the command, in the server's own profile",
    ),
    "call_timeout": (
        _result(124, "a\n", timed_out=True),
        "a time-out is a result with the output so far, not an error that loses it",
    ),
    "call_timeout_escalated": (
        _result(124, "", timed_out=True),
        "a time-out is a result; and the program that was let out ends too",
    ),
    "escalated_signal": (
        _result(0, "rc=137\n@SHELL: line 1: <int> Killed                  sh -c 'kill -9 $$'\n"),
        "the true status of a program that was killed, which Bash tells",
    ),
    "escalated_process_substitution": (_result(0, "hi\nrc=0\n"), "an escalated program has every descriptor"),
    "escalated_extra_descriptor": (_result(0, "rc=0\nto3\n"), "an escalated program has every descriptor"),
    "escalated_umask_rlimit": (_result(0, "0077\n99\n"), "umask and limits are those of the caller"),
    "escalated_environment": (
        _result(0, "\n"),
        "a program outside gets nothing that the sandbox set, and nothing of the server's is added",
    ),
    "escalated_relative_program": (_result(0, "rel\n/\n"), "a program may be called by a relative path"),
    "run_environment": (_result(1, ""), "the interception has no variables that a program could see"),
    "run_no_shebang": (_result(0, "from script\nrc=0\n"), "the shell's own way with such scripts works"),
    "run_login_argv0": (_result(0, "x\nrc=0\n"), "argv[0] is what its caller says"),
    "run_non_utf8_argument": (_result(0, "\ufffd\nrc=0\n"), "arguments are bytes"),
    "run_non_utf8_environment": (_result(0, "x\nrc=0\n"), "variables are bytes"),
    "sandbox_workspace_write": (
        _result(
            0, "rc=0\nrc=1\nrc=0\n/bin/cp: cannot create regular file '@OUT/ww2': Read-only file system\n"
        ),
        "what may not be written is mounted read-only, and the kernel's error says so",
    ),
    "elicit_error": (
        _result(0, "rc=1\nExecution denied: the client could not ask\n"),
        "a client that can't answer is a clear denial",
    ),
}

"""What a model reads of a command."""

from __future__ import annotations

from paddock.agent.reply import ExecReply, Reply


def test_ended_command() -> None:
    reply = ExecReply("done\n", wall_time_s=0.25, chunk_id="0a1b2c", exit_code=3, original_tokens=2)
    assert (
        str(reply) == "Chunk: 0a1b2c\nTime: 0.2500 s\nExit code: 3\nTokens of all output: 2\nOutput:\ndone\n"
    )


def test_running_command_has_a_number_and_no_exit_code() -> None:
    reply = ExecReply("", wall_time_s=10.0, chunk_id="0a1b2c", session_id=1000, original_tokens=0)
    assert reply.text == (
        "Chunk: 0a1b2c\nTime: 10.0000 s\nStill running, session_id: 1000\nTokens of all output: 0\nOutput:\n"
    )


def test_notes_stand_before_the_output() -> None:
    reply = ExecReply("x", wall_time_s=0.0, notes=("the sandbox denied writing /etc/hosts",))
    assert reply.text == "Time: 0.0000 s\nNote: the sandbox denied writing /etc/hosts\nOutput:\nx"


def test_reply_of_any_tool_has_the_fields_of_a_command() -> None:
    reply = Reply("M app.py")
    assert (str(reply), reply.fields, reply.exit_code, reply.is_error) == (
        "M app.py",
        {"output": "M app.py"},
        None,
        False,
    )

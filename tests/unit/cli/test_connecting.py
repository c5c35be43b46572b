"""How the verbs that take a URL tell what is wrong with it, or with what goes with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.cli.main import main
from paddock.cli.server_choice import MAX_TOKEN_CHARACTERS, read_token
from paddock.errors import PaddockError


@pytest.mark.parametrize(
    ("url", "option", "content", "problem"),
    [
        ("ws://127.0.0.1:1", "--tls-ca", "", "the address is ws://, which has no TLS; did you mean wss://?"),
        ("unix:///run/x.sock", "--tls-ca", "", "TLS is for wss://; a unix socket needs none"),
        ("unix:///run/x.sock", "--token-file", "secret", "a unix socket needs neither"),
        ("ws://127.0.0.1:1", "--token-file", "se cret", "the token must be printable ASCII without spaces"),
        ("ws://127.0.0.1:1", "--token-file", "se\ncret", "the token must be printable ASCII without spaces"),
        ("ws://127.0.0.1:1", "--token-file", "\n", "is empty; write the token into it"),
    ],
)
def test_options_that_can_not_work_are_told_in_one_sentence_by_every_verb(
    url: str, option: str, content: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    for status, verb, *arguments in (
        (125, "run", "--url", url, "--", "true"),
        (1, "ls", f"{url}:/"),
        (1, "cat", f"{url}:/x"),
        (1, "cp", f"{url}:/x", str(tmp_path)),
    ):
        assert main([verb, option, str(file), *arguments]) == status
        written = capsys.readouterr()
        assert written.out == ""
        assert problem in written.err
        assert written.err.startswith("paddock")
        assert written.err.count("\n") == 1
        assert "cret" not in written.err


def test_a_file_that_is_no_token_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x" * MAX_TOKEN_CHARACTERS)
    assert read_token(str(file)) == file.read_text()
    with pytest.raises(PaddockError, match="/dev/zero has more than 16384 characters; is it the right file"):
        read_token("/dev/zero")

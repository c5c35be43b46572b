"""Secrets stay outside: real programs fetch what is private, and none of them ever sees the token.

The server reads the token, and its proxy adds it to what goes to one host. That host is verified by its
certificate, and shown to the command with one of the session's own.
"""

from __future__ import annotations

import base64
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.certificate import TestAuthority
from tests.sandbox.network_ground import GOOD, OTHER, NetworkGround
from tests.sandbox.network_packages import make_package, make_repository, make_wheel

PADDOCK = str(Path(sys.executable).parent / "paddock")
TOKEN = "t0k3n-that-nobody-sees"
BASIC = "Basic " + base64.b64encode(f"robot:{TOKEN}".encode()).decode()

SERVED = """
mkfifo ../url
{paddock} serve --config ../server.toml >../url 2>../journal &
read -r url <../url
{paddock} run --url "$url" --cwd "$PWD" --profile :workspace --allow-host {good} --allow-host {other} \\
    {flags} -- sh -c {script}
status=$?
kill $!
wait
exit $status
"""


class Ground(NetworkGround):
    """The network of a server that has a secret, in a file and in a variable."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        authority = TestAuthority(directory)
        for host in (GOOD, OTHER):
            authority.host_file(host)
        self._trusted = authority.file
        self.token = directory / "token"
        self.token.write_text(f"{TOKEN}\n")
        self.token.chmod(0o600)
        (directory / "server.toml").write_text(
            f"""
            audit_log = "{directory}/audit"
            [network_secrets.registry]
            hosts = ["https://{GOOD}", "http://{GOOD}"]
            file = "{self.token}"
            basic_user = "robot"
            [network_secrets.key]
            hosts = ["http://{GOOD}"]
            variable = "REGISTRY_KEY"
            header = "X-Key"
            """
        )

    def confined(self, script: str, *flags: str) -> subprocess.CompletedProcess[str]:
        """Run a script under the server, with these flags of `paddock run`."""
        said = SERVED.format(
            paddock=shlex.quote(PADDOCK),
            good=GOOD,
            other=OTHER,
            flags=shlex.join(flags),
            script=shlex.quote(script),
        )
        return self.run("sh", "-c", said, SSL_CERT_FILE=str(self._trusted), REGISTRY_KEY=TOKEN)

    @property
    def requests(self) -> list[str]:
        """What the servers were asked: host, path and authorization."""
        log = self.directory / "requests"
        return log.read_text().splitlines() if log.exists() else []

    def written(self) -> bytes:
        """Everything that the server has written down."""
        files = [self.directory / "journal", *(self.directory / "audit").rglob("*")]
        return b"".join(file.read_bytes() for file in files if file.is_file())


@pytest.fixture
def ground(new_directory: Path) -> Ground:
    return Ground(new_directory)


def test_clients_fetch_what_is_private_and_never_see_the_token(ground: Ground) -> None:
    private = ground.files / "private"
    make_repository(ground.directory / "source", private / "repository.git")
    make_wheel(private / "simple" / "tiny")
    pip = f"{shlex.quote(sys.executable)} -m pip install -q --disable-pip-version-check --no-cache-dir"
    code = f'import urllib.request as r; print("python", r.urlopen("https://{GOOD}/private/p").status)'
    lines = [
        f"curl -sS https://{GOOD}/private/simple/tiny/ && echo curl ok",
        f"git clone -q https://{GOOD}/private/repository.git clone && echo git ok",
        "export PIP_CONFIG_FILE=/dev/null",
        f"{pip} --retries 0 --target site --index-url https://{GOOD}/private/simple tiny && echo pip ok",
        f"/usr/bin/python3 -c {shlex.quote(code)}",
    ]
    done = ground.confined("\n".join(lines), "--secret", "registry")
    for said in ("curl ok", "git ok", "pip ok", "python 200"):
        assert said in done.stdout, done.stderr
    assert (ground.work / "clone" / "file").read_text() == "content\n"
    assert (ground.work / "site" / "tiny.py").exists()
    assert {line.rsplit(" ", 2)[-2:] == BASIC.split() for line in ground.requests} == {True}
    assert TOKEN not in done.stdout + done.stderr
    assert TOKEN.encode() not in ground.written()
    assert base64.b64encode(f"robot:{TOKEN}".encode()) not in ground.written()


NODE_FETCH = """
const tls = require('tls'), http = require('http'), { hostname, port } = new URL(process.env.HTTPS_PROXY);
const host = process.argv[1];
http.request({ host: hostname, port, method: 'CONNECT', path: `${host}:443` }).on('connect', (_, socket) => {
  const inside = tls.connect({ socket, servername: host }, () =>
    inside.end(`GET /private/simple/tiny/ HTTP/1.1\\r\\nHost: ${host}\\r\\nConnection: close\\r\\n\\r\\n`));
  inside.on('data', (data) => console.log('node', String(data).split(' ')[1])).on('error', console.log);
}).end();
"""


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_node_and_npm_trust_whom_they_are_told_to(ground: Ground) -> None:
    make_wheel(ground.files / "private" / "simple" / "tiny")
    make_package(ground.files / "private" / "npm", f"https://{GOOD}/private/npm")
    npm = "npm install tiny --no-audit --no-fund --fetch-retries=0 --cache=cache"
    lines = [
        f"node -e {shlex.quote(NODE_FETCH)} {GOOD}",
        f"{npm} --registry=https://{GOOD}/private/npm/ && echo npm ok",
    ]
    done = ground.confined("\n".join(lines), "--secret", "registry")
    assert "node 200" in done.stdout, done.stderr
    assert "npm ok" in done.stdout, done.stderr
    assert (ground.work / "node_modules" / "tiny" / "index.js").exists()
    assert all(line.endswith(BASIC) for line in ground.requests)


def test_command_finds_no_token_wherever_it_looks(ground: Ground) -> None:
    looks = [
        f"cat {ground.token}",
        f"cp {ground.token} copy",
        "env",
        "cat /proc/*/environ /proc/*/cmdline /proc/self/maps | tr '\\0' '\\n'",
        # What the host has of the session: certificates, and no key.
        "cat $SSL_CERT_FILE; grep -c BEGIN $SSL_CERT_FILE",
        "rm -f $SSL_CERT_FILE; echo mine >$SSL_CERT_FILE; test -s $SSL_CERT_FILE && echo it stays",
        f"curl -sS http://{GOOD}/private/ -o /dev/null -v",
    ]
    done = ground.confined("\n".join(looks), "--secret", "registry", "--secret", "key")
    said = done.stdout + done.stderr
    assert TOKEN not in said
    assert BASIC.split()[1] not in said
    assert "PRIVATE KEY" not in said
    assert "it stays" in said
    assert "Permission denied" in done.stderr
    # It was there all the time.
    assert ground.requests == [f"{GOOD} /private/ {BASIC}"]
    assert TOKEN in ground.run("cat", str(ground.token)).stdout
    assert TOKEN.encode() not in ground.written()


def test_nobody_else_gets_the_token_and_others_verify_as_ever(ground: Ground) -> None:
    lines = [
        # Followed to another host, which is allowed as well.
        f"curl -sSL http://{GOOD}/redirect-to-other",
        f"curl -sSL https://{GOOD}/redirect-to-other",
        f"curl -sS https://{OTHER}/own-certificate",
        f"curl -sS --resolve {OTHER}:80:127.0.0.1 -H 'Host: {GOOD}' http://{OTHER}/host",
        f"curl -sS --connect-to {GOOD}:443:{OTHER}:443 https://{GOOD}/sni",
        f"curl -sS -H 'Authorization: mine' http://{GOOD}/replaced -o /dev/null",
    ]
    done = ground.confined("\n".join(lines), "--secret", "registry")
    asked = {line.split(" ", 2)[1]: line.split(" ", 2)[2] for line in ground.requests if OTHER in line}
    assert asked == {"/from-there": "", "/own-certificate": ""}
    assert f"{GOOD} /replaced {BASIC}" in ground.requests
    assert not any("/sni" in line or "/host" in line for line in ground.requests)
    assert f"{OTHER} GET /own-certificate" in done.stdout
    # Without the name of the secret nothing is opened, and nothing added.
    (ground.directory / "url").unlink()
    plain = ground.confined(f"curl -sS -k -v https://{GOOD}/plain")
    assert f"{GOOD} /plain " in ground.requests
    assert "issuer: CN=an authority of tests" in plain.stderr.replace("CN = ", "CN=")


def test_secret_that_can_not_be_had_starts_nothing(ground: Ground) -> None:
    done = ground.confined("echo started", "--secret", "other")
    assert "there is no secret 'other'" in done.stderr
    (ground.directory / "url").unlink()
    ground.token.unlink()
    missing = ground.confined("echo started", "--secret", "registry")
    assert f"the secret 'registry' can't be read from {ground.token}" in missing.stderr
    assert "started" not in done.stdout + missing.stdout

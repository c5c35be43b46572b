"""Commands whose network is proxied: real programs reach allowed hosts by name, and nothing else.

Servers have addresses of the documentation ranges, in a network namespace of the test's own, and names in a
hosts file of its own. So the proxy resolves and connects as it does anywhere, and local addresses stay
blocked.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.network_ground import ADDRESSES, GOOD, LOCAL, OTHER, PRIVATE, NetworkGround
from tests.sandbox.network_packages import make_package, make_repository, make_wheel

PADDOCK = str(Path(sys.executable).parent / "paddock")


@pytest.fixture
def network(new_directory: Path) -> NetworkGround:
    return NetworkGround(new_directory)


def run(network: NetworkGround, *words: str, allow: str = GOOD) -> subprocess.CompletedProcess[str]:
    return network.run(PADDOCK, "run", "--profile", ":workspace", "--allow-host", allow, "--", *words)


def test_curl_reaches_an_allowed_host_and_no_other(network: NetworkGround) -> None:
    done = run(network, "curl", "-sS", f"http://{GOOD}/a", f"http://{OTHER}/b")
    assert f"{GOOD} GET /a" in done.stdout
    assert '"reason": "not_allowed"' in done.stdout
    assert f"the sandbox denied network access to {OTHER}:80 (network.allow does not name it)" in done.stderr
    assert f"--allow-host {OTHER} allows it" in done.stderr
    # Outside both are there.
    outside = network.run("curl", "-sS", f"http://{GOOD}/a", f"http://{OTHER}/b")
    assert f"{OTHER} GET /b" in outside.stdout


def test_curl_speaks_tls_and_socks_to_an_allowed_host(network: NetworkGround) -> None:
    done = run(network, "sh", "-c", f"curl -sS -k https://{GOOD}/t && curl -sS -x $ALL_PROXY http://{GOOD}/s")
    assert done.stdout.splitlines() == [f"{GOOD} GET /t ", f"{GOOD} GET /s "]


def test_blocked_tls_and_socks_are_denials_too(network: NetworkGround) -> None:
    script = f"curl -sS -k https://{OTHER}/; curl -sS -x $ALL_PROXY http://{OTHER}:8080/"
    done = run(network, "sh", "-c", script)
    assert done.returncode == 97
    assert "response 403" in done.stderr
    assert f"denied network access to {OTHER}:443" in done.stderr
    assert f"denied network access to {OTHER}:8080" in done.stderr


def test_local_addresses_stay_out_of_reach(network: NetworkGround) -> None:
    targets = (f"http://{PRIVATE}/", f"http://{LOCAL}/", "http://0x7f.1/", "http://[::ffff:10.1.2.3]/")
    for target in targets:
        # Not even if curl asks its proxy for them, which it would not by itself.
        said = run(network, "curl", "-sS", "--noproxy", "", target, allow="*").stdout
        assert "not_allowed_local" in said
        assert "GET /" in network.run("curl", "-sS", target).stdout
    followed = run(network, "curl", "-sSL", f"http://{GOOD}/redirect-to-private", allow="*")
    assert "not_allowed_local" in followed.stdout


def test_program_that_ignores_its_proxy_is_refused_at_once_and_told_what_to_use(
    network: NetworkGround,
) -> None:
    address = ADDRESSES[GOOD]
    for target in (address, "nowhere.test"):
        done = run(network, "curl", "-sS", "--noproxy", "*", f"http://{target}/")
        assert done.returncode in (6, 7)
        assert "HTTP_PROXY" in done.stderr
    assert run(network, "curl", "-sS", f"http://{GOOD}/").returncode == 0


def test_git_clones_over_http_through_the_proxy(network: NetworkGround) -> None:
    source = network.directory / "source"
    make_repository(source, network.files / "repository.git")
    done = run(network, "git", "clone", "-q", f"http://{GOOD}/repository.git", "clone")
    assert done.returncode == 0, done.stderr
    assert (network.work / "clone" / "file").read_text() == "content\n"
    refused = run(network, "git", "clone", "-q", f"http://{OTHER}/repository.git", "other")
    assert "403" in refused.stderr
    assert f"denied network access to {OTHER}:80" in refused.stderr


def test_pip_installs_through_the_proxy(network: NetworkGround) -> None:
    make_wheel(network.files / "simple" / "tiny")
    words: tuple[str, ...] = (
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--target",
        "site",
        "--trusted-host",
        GOOD,
    )
    words = (
        *words,
        "--trusted-host",
        OTHER,
        "--disable-pip-version-check",
        "--no-cache-dir",
        "--retries",
        "0",
    )
    words = ("env", "PIP_CONFIG_FILE=/dev/null", *words)
    done = run(network, *words, "--index-url", f"http://{GOOD}/simple", "tiny")
    assert done.returncode == 0, done.stderr
    assert (network.work / "site" / "tiny.py").exists()
    refused = run(network, *words, "--index-url", f"http://{OTHER}/simple", "tiny")
    assert refused.returncode != 0
    assert f"denied network access to {OTHER}:80" in refused.stderr


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npm_installs_through_the_proxy(network: NetworkGround) -> None:
    make_package(network.files / "npm", f"http://{GOOD}/npm")
    words = ("npm", "install", "tiny", "--no-audit", "--no-fund", "--fetch-retries=0", "--cache=cache")
    done = run(network, *words, f"--registry=http://{GOOD}/npm/")
    assert done.returncode == 0, done.stderr
    assert (network.work / "node_modules" / "tiny" / "index.js").exists()
    refused = run(network, *words, "--prefix=other", f"--registry=http://{OTHER}/npm/")
    assert refused.returncode != 0
    assert f"denied network access to {OTHER}:80" in refused.stderr


PYTHON_CLIENT = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1]).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.headers["x-proxy-error"])
"""


def test_python_client_uses_the_proxy(network: NetworkGround) -> None:
    for host, answer in ((GOOD, f"{GOOD} GET /p"), (OTHER, "403 blocked-by-allowlist")):
        done = run(network, "/usr/bin/python3", "-c", PYTHON_CLIENT, f"http://{host}/p")
        assert answer in done.stdout


NODE_CLIENT = """
const { hostname, port } = new URL(process.env.HTTP_PROXY);
const http = require('http');
const headers = { Host: new URL(process.argv[1]).host };
http.get({ host: hostname, port, path: process.argv[1], headers }, (res) => {
  let body = ''; res.on('data', (d) => body += d); res.on('end', () => console.log(res.statusCode, body));
});
const worker = new (require('worker_threads').Worker)('1', { eval: true });
require('child_process').execFileSync('true');
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_node_works_without_netlink_and_uses_the_proxy(network: NetworkGround) -> None:
    for host, answer in ((GOOD, f"200 {GOOD} GET /n"), (OTHER, "403 {")):
        done = run(network, "node", "-e", NODE_CLIENT, f"http://{host}/n")
        assert answer in done.stdout, done.stderr


def test_sandbox_without_a_server_has_a_proxy_too(network: NetworkGround) -> None:
    words = ("sandbox", "--allow-host", GOOD, "--", "curl", "-sS", f"http://{GOOD}/a", f"http://{OTHER}/b")
    done = network.run(PADDOCK, *words)
    assert f"{GOOD} GET /a" in done.stdout
    assert '"reason": "not_allowed"' in done.stdout
    assert f"paddock sandbox: the sandbox denied network access to {OTHER}:80" in done.stderr


def test_profile_without_hosts_reaches_nobody(network: NetworkGround) -> None:
    profile = {"type": "managed", "file_system": {"type": "unrestricted"}, "network": {"type": "proxied"}}
    for written in (profile, {**profile, "network": "proxied"}):
        done = network.run(
            PADDOCK, "run", "--profile", json.dumps(written), "--", "curl", "-sS", f"http://{GOOD}/"
        )
        assert "network.allow does not name it" in done.stdout


def test_group_stands_for_the_hosts_of_its_ecosystem(network: NetworkGround) -> None:
    urls = ("-o", "/dev/null", "http://pypi.org/", "-o", "/dev/null", f"http://{OTHER}/")
    fetch = ("curl", "-s", "-w", "%{http_code}\n", *urls)
    done = network.run(PADDOCK, "run", "--profile", ":workspace", "--allow-group", "python", "--", *fetch)
    # The one is allowed, and nobody is there under that name; the other is there, and blocked.
    assert done.stdout.split() == ["502", "403"]
    unknown = network.run(PADDOCK, "run", "--profile", ":workspace", "--allow-group", "snakes", "--", "true")
    assert unknown.returncode != 0
    assert "there is no group '@snakes'" in unknown.stderr


def test_rules_about_hosts_feed_the_proxy(network: NetworkGround) -> None:
    rules = network.directory / "hosts.rules"
    rules.write_text(
        f'network_rule("{OTHER}", "http", "allow")\n'
        f'network_rule("{GOOD}", "http", "deny")\n'
        f'network_rule("{PRIVATE}", "http", "prompt")\n'
    )
    fetch = ("curl", "-sS", f"http://{OTHER}:8080/o", f"http://{GOOD}/g", f"http://{PRIVATE}/p")
    words = ("run", "--profile", ":workspace", "--allow-host", GOOD, "--rules", str(rules), "--", *fetch)
    done = network.run(PADDOCK, *words)
    assert f"{OTHER}:8080 GET /o" in done.stdout
    assert f"the sandbox denied network access to {GOOD}:80 ({rules}:2)" in done.stderr
    assert (
        f"the sandbox denied network access to {PRIVATE}:80 ({rules}:3 (nobody can be asked))" in done.stderr
    )


def test_proxy_alone_decides_for_whoever_connects(network: NetworkGround) -> None:
    script = (
        f"coproc {PADDOCK} proxy --allow-host {GOOD}; read -r url <&${{COPROC[0]}}; "
        f"curl -sS -x $url http://{GOOD}/a http://{OTHER}/b; kill $COPROC_PID; wait $COPROC_PID"
    )
    done = network.run("bash", "-c", script)
    assert f"{GOOD} GET /a" in done.stdout
    assert '"reason": "not_allowed"' in done.stdout
    assert f"paddock proxy: blocked {OTHER}:80 (http): network.allow does not name it" in done.stderr
    assert done.returncode == 0

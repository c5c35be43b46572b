"""What a model reads of a denial: the permission that would help, and none where none does."""

from __future__ import annotations

import pytest

from paddock.client.ending import Ending
from paddock.mcp_server.shell_reply import ShellOutput, shell_reply
from paddock.model.denial import NOT_NAMED, OWN, Denial, DenialKind
from paddock.model.endpoint import Endpoint, NetworkProtocol

READ_ONLY = '"/" = "read"'
HOST = Endpoint("git.example.com", 443, NetworkProtocol.HTTPS_CONNECT)
DATAGRAM = Endpoint("git.example.com", 53, NetworkProtocol.SOCKS5_UDP)


def denied(kind: DenialKind, target: str, rule: str | None, **more: object) -> Denial:
    return Denial(kind, target, rule, is_certain=True, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("denial", "permission"),
    [
        (denied(DenialKind.WRITE, "/srv/new", READ_ONLY, grant="/srv"), '"/srv" = "write"'),
        (denied(DenialKind.WRITE, "/srv/new", READ_ONLY), None),
        (denied(DenialKind.READ, '/srv/a"b', READ_ONLY, grant='/srv/a"b'), '"/srv/a\\"b" = "read"'),
        (denied(DenialKind.EXEC, "/srv/tool", READ_ONLY, grant="/srv/tool"), '"/srv/tool" = "read"'),
        (denied(DenialKind.WRITE, "/opt/paddock", f"{OWN}: read", grant="/opt/paddock"), None),
        (denied(DenialKind.WRITE, "/srv/new", None, grant="/srv"), None),
        (denied(DenialKind.NETWORK, "192.0.2.1:80", "network = restricted"), 'network = "enabled"'),
        (denied(DenialKind.NETWORK, "192.0.2.1:80", "network = proxied (use the proxy)"), None),
        (
            denied(DenialKind.NETWORK, str(HOST), NOT_NAMED, endpoint=HOST),
            'network.allow = ["git.example.com:443"]',
        ),
        (
            denied(
                DenialKind.NETWORK, str(HOST), "network.allowLocal is not set for 10.0.0.1", endpoint=HOST
            ),
            "network.allowLocal = true",
        ),
        (denied(DenialKind.NETWORK, str(HOST), "network.deny = *.example.com", endpoint=HOST), None),
        (denied(DenialKind.NETWORK, str(DATAGRAM), NOT_NAMED, endpoint=DATAGRAM), None),
        (denied(DenialKind.SYSCALL, "mount", "no profile allows it"), None),
    ],
)
def test_denial_names_just_the_permission_that_would_help(denial: Denial, permission: str | None) -> None:
    reply = shell_reply(
        ShellOutput(), Ending(1, denials=(denial,)), duration_s=0.1, timed_out=False, limit_tokens=100
    )
    [told] = reply.fields["denials"]
    assert told.get("permission") == permission
    assert told["target"] == denial.target

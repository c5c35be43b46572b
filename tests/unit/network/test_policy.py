"""Whom a policy lets a command reach: a table, and properties."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.endpoint import Endpoint, NetworkProtocol
from paddock.model.host_pattern import HostPattern, normal_host
from paddock.network.judge import CHANGED_LIMIT, ChangeBudget, PolicyJudge
from paddock.network.policy import Decision, HostRule, Policy, Reason, policy_of

HTTP, CONNECT = NetworkProtocol.HTTP, NetworkProtocol.HTTPS_CONNECT
ALLOWED, NOT_ALLOWED = Reason.ALLOWED, Reason.NOT_ALLOWED
LOCAL, DENIED = Reason.NOT_ALLOWED_LOCAL, Reason.DENIED

# allow, deny, host, port, what comes of it
CASES: list[tuple[list[str], list[str], str, int, Reason]] = [
    # An empty list allows nobody.
    ([], [], "example.com", 443, NOT_ALLOWED),
    ([], ["example.com"], "example.com", 443, DENIED),
    ([], ["example.com"], "other.com", 443, NOT_ALLOWED),
    # By exact name.
    (["example.com"], [], "example.com", 443, ALLOWED),
    (["example.com"], [], "example.com", 80, ALLOWED),
    (["example.com"], [], "EXAMPLE.com", 443, ALLOWED),
    (["example.com"], [], "example.com.", 443, ALLOWED),
    (["Example.COM."], [], "example.com", 443, ALLOWED),
    (["example.com"], [], "www.example.com", 443, NOT_ALLOWED),
    (["example.com"], [], "example.com.evil.net", 443, NOT_ALLOWED),
    (["example.com"], [], "notexample.com", 443, NOT_ALLOWED),
    (["example.com"], [], "example.co", 443, NOT_ALLOWED),
    (["www.example.com"], [], "example.com", 443, NOT_ALLOWED),
    # Names below a host.
    (["*.example.com"], [], "www.example.com", 443, ALLOWED),
    (["*.example.com"], [], "a.b.example.com", 443, ALLOWED),
    (["*.example.com"], [], "example.com", 443, NOT_ALLOWED),
    (["*.example.com"], [], "evilexample.com", 443, NOT_ALLOWED),
    (["*.example.com"], [], "www.example.com.evil.net", 443, NOT_ALLOWED),
    (["*.example.com"], [], "WWW.Example.Com.", 443, ALLOWED),
    # Both.
    (["**.example.com"], [], "example.com", 443, ALLOWED),
    (["**.example.com"], [], "www.example.com", 443, ALLOWED),
    (["**.example.com"], [], "a.b.c.example.com", 443, ALLOWED),
    (["**.example.com"], [], "myexample.com", 443, NOT_ALLOWED),
    # Everybody.
    (["*"], [], "anything.test", 443, ALLOWED),
    (["*"], [], "anything.test", 8080, NOT_ALLOWED),
    (["*:*"], [], "anything.test", 8080, ALLOWED),
    (["*"], [], "203.0.113.7", 443, ALLOWED),
    (["*"], [], "127.0.0.1", 80, LOCAL),
    # Ports.
    (["example.com"], [], "example.com", 22, NOT_ALLOWED),
    (["example.com"], [], "example.com", 8443, NOT_ALLOWED),
    (["example.com:22"], [], "example.com", 22, ALLOWED),
    (["example.com:22"], [], "example.com", 443, NOT_ALLOWED),
    (["example.com:*"], [], "example.com", 1, ALLOWED),
    (["example.com:*"], [], "example.com", 65535, ALLOWED),
    (["*.example.com:8080"], [], "a.example.com", 8080, ALLOWED),
    (["*.example.com:8080"], [], "a.example.com", 443, NOT_ALLOWED),
    (["example.com", "example.com:22"], [], "example.com", 22, ALLOWED),
    # What is denied wins.
    (["example.com"], ["example.com"], "example.com", 443, DENIED),
    (["*"], ["example.com"], "example.com", 443, DENIED),
    (["*"], ["example.com"], "example.com.", 443, DENIED),
    (["*"], ["example.com"], "eXample.com", 443, DENIED),
    (["*"], ["*.example.com"], "www.example.com", 443, DENIED),
    (["*"], ["*.example.com"], "example.com", 443, ALLOWED),
    (["*"], ["**.example.com"], "example.com", 443, DENIED),
    (["www.example.com"], ["**.example.com"], "www.example.com", 443, DENIED),
    (["example.com:*"], ["example.com:22"], "example.com", 22, DENIED),
    (["example.com:*"], ["example.com:22"], "example.com", 443, ALLOWED),
    (["example.com:*"], ["example.com"], "example.com", 8080, DENIED),
    (["*"], ["*"], "example.com", 443, DENIED),
    (["*:*"], ["*:25"], "mail.example.com", 25, DENIED),
    # Addresses in place of names.
    (["203.0.113.7"], [], "203.0.113.7", 443, ALLOWED),
    (["203.0.113.7"], [], "203.0.113.8", 443, NOT_ALLOWED),
    (["203.0.113.7"], [], "0xcb007107", 443, ALLOWED),
    (["203.0.113.7"], [], "3405803783", 443, ALLOWED),
    (["*"], ["203.0.113.7"], "0313.0.0161.7", 443, DENIED),
    (["*"], ["203.0.113.7"], "203.0.28935", 443, DENIED),
    (["*"], ["203.0.113.7"], "::ffff:203.0.113.7", 443, DENIED),
    (["[2001:db8::1]"], [], "2001:db8:0:0:0:0:0:1", 443, ALLOWED),
    (["2001:db8::1"], [], "[2001:DB8::1]", 443, ALLOWED),
    (["[2001:db8::1]:8080"], [], "2001:db8::1", 8080, ALLOWED),
    (["[2001:db8::1]:8080"], [], "2001:db8::1", 443, NOT_ALLOWED),
    # Local ones, however they are written, and whatever is allowed.
    (["127.0.0.1"], [], "127.0.0.1", 80, LOCAL),
    (["127.0.0.1"], [], "127.1", 80, LOCAL),
    (["*"], [], "2130706433", 80, LOCAL),
    (["*"], [], "0177.0.0.1", 80, LOCAL),
    (["*"], [], "0x7f.0.0.1", 80, LOCAL),
    (["*"], [], "0", 80, LOCAL),
    (["*"], [], "[::1]", 80, LOCAL),
    (["*"], [], "[::ffff:127.0.0.1]", 80, LOCAL),
    (["*"], [], "[::ffff:7f00:1]", 80, LOCAL),
    (["*"], [], "[64:ff9b::127.0.0.1]", 80, LOCAL),
    (["*"], [], "[2002:7f00:1::]", 80, LOCAL),
    (["*"], [], "[::127.0.0.1]", 80, LOCAL),
    (["*"], [], "[::ffff:0:127.0.0.1]", 80, LOCAL),
    (["*"], [], "10.0.0.1", 80, LOCAL),
    (["*"], [], "172.31.255.255", 80, LOCAL),
    (["*"], [], "192.168.1.1", 80, LOCAL),
    (["*"], [], "100.64.0.1", 80, LOCAL),
    (["*"], [], "169.254.169.254", 80, LOCAL),
    (["169.254.169.254"], [], "169.254.169.254", 80, LOCAL),
    (["*"], [], "[fe80::1]", 80, LOCAL),
    (["*"], [], "[fd00:ec2::254]", 80, LOCAL),
    (["*"], [], "[fc00::1]", 80, LOCAL),
    (["*"], [], "224.0.0.1", 80, LOCAL),
    (["*"], [], "255.255.255.255", 80, LOCAL),
    (["*"], [], "198.18.0.1", 80, LOCAL),
    (["*"], [], "[ff02::1]", 80, LOCAL),
]


@pytest.mark.parametrize(("allow", "deny", "host", "port", "reason"), CASES)
def test_policy_decides_as_its_lists_say(
    allow: list[str], deny: list[str], host: str, port: int, reason: Reason
) -> None:
    ruling = policy_of(allow, deny, allows_local=False).judge(Endpoint(normal_host(host), port, CONNECT))
    assert ruling.reason is reason
    assert ruling.is_allowed is (reason is ALLOWED)


LOCAL_CASES = [
    (["127.0.0.1"], "127.0.0.1", 80, True),
    (["127.0.0.1:8080"], "127.0.0.1", 8080, True),
    (["127.0.0.1:8080"], "127.0.0.1", 80, False),
    (["10.1.2.3"], "10.1.2.3", 443, True),
    (["*"], "127.0.0.1", 80, False),
    (["*:*"], "10.1.2.3", 80, False),
    (["169.254.169.254"], "169.254.169.254", 80, False),
    (["fe80::1"], "fe80::1", 80, False),
    (["0.0.0.0"], "0.0.0.0", 80, False),
    (["224.0.0.1"], "224.0.0.1", 80, False),
    (["100.100.100.200"], "100.100.100.200", 80, False),
    (["168.63.129.16"], "168.63.129.16", 80, False),
    (["168.63.129.17"], "168.63.129.17", 80, True),
]


@pytest.mark.parametrize(("allow", "host", "port", "is_allowed"), LOCAL_CASES)
def test_local_addresses_need_a_switch_and_a_name(
    allow: list[str], host: str, port: int, is_allowed: bool
) -> None:
    policy = policy_of(allow, [], allows_local=True)
    assert policy.judge(Endpoint(host, port, HTTP)).is_allowed is is_allowed


@pytest.mark.parametrize(
    ("allow", "reason"),
    [
        (["127.0.0.1"], "network.allow does not name port 8000 of the loopback address 127.0.0.1"),
        (["*:*"], "network.allow = * does not mean the loopback address 127.0.0.1"),
    ],
)
def test_a_refused_address_is_told_with_what_the_list_lacks(allow: list[str], reason: str) -> None:
    endpoint = Endpoint("127.0.0.1", 8000, CONNECT)
    ruling = policy_of(allow, [], allows_local=True).judge(endpoint)
    assert (ruling.reason, ruling.rule) == (LOCAL, reason)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fe80::1", "::ffff:10.0.0.1", "0.0.0.0"]
)
def test_allowed_name_does_not_lead_to_a_local_address(address: str) -> None:
    policy = policy_of(["example.com", "*"], [], allows_local=False)
    endpoint = Endpoint("example.com", 443, CONNECT)
    assert policy.judge(endpoint).is_allowed
    refused = policy.judge_address(endpoint, ip_address(address))
    assert refused is not None
    assert refused.reason is LOCAL
    assert policy.judge_address(endpoint, ip_address("203.0.113.1")) is None


@pytest.mark.parametrize(
    "address", ["203.0.113.1", "::ffff:203.0.113.1", "64:ff9b::203.0.113.1", "2002:cb00:7101::1"]
)
def test_denied_address_is_not_reached_by_a_name(address: str) -> None:
    policy = policy_of(["example.com"], ["203.0.113.1"], allows_local=False)
    refused = policy.judge_address(Endpoint("example.com", 443, CONNECT), ip_address(address))
    assert refused is not None
    assert refused.reason is DENIED


def test_rule_of_a_verdict_is_the_one_that_decided() -> None:
    policy = policy_of(["a.test", "*.b.test"], ["c.b.test"], allows_local=False)
    assert policy.judge(Endpoint("x.b.test", 80, HTTP)).rule == "network.allow = *.b.test"
    assert policy.judge(Endpoint("c.b.test", 80, HTTP)).rule == "network.deny = c.b.test"
    assert policy.judge(Endpoint("d.test", 80, HTTP)).rule == "network.allow does not name it"


def test_rule_for_one_protocol_says_nothing_of_others() -> None:
    rule = policy_of(["a.test"], [], allows_local=False).allow[0]
    policy = Policy(allow=(HostRule(rule.pattern, rule.origin, frozenset({HTTP})),))
    assert policy.judge(Endpoint("a.test", 80, HTTP)).is_allowed
    assert not policy.judge(Endpoint("a.test", 80, CONNECT)).is_allowed


def test_what_is_to_be_asked_stands_between_denied_and_allowed() -> None:
    lists = policy_of(["a.test", "b.test"], ["b.test"], allows_local=False)
    asked = policy_of(["a.test", "b.test", "c.test"], [], allows_local=False).allow
    policy = Policy(allow=lists.allow, ask=asked, deny=lists.deny)
    assert policy.judge(Endpoint("a.test", 80, HTTP)).decision is Decision.ASK
    assert policy.judge(Endpoint("b.test", 80, HTTP)).decision is Decision.DENY
    assert policy.judge(Endpoint("c.test", 80, HTTP)).decision is Decision.ASK


def test_change_takes_its_opposite_away_and_nothing_else() -> None:
    before = policy_of(["a.test"], ["b.test", "**.c.test"], allows_local=False)
    more = policy_of(["b.test", "x.c.test"], ["a.test"], allows_local=False)
    after = before.changed([more])
    assert after.judge(Endpoint("b.test", 80, HTTP)).is_allowed
    assert not after.judge(Endpoint("a.test", 80, HTTP)).is_allowed
    assert after.judge(Endpoint("x.c.test", 80, HTTP)).reason is DENIED


@pytest.mark.parametrize("allowed", ["evil.test:*", "evil.test", "*:*", "**.test:*"])
def test_no_change_takes_a_rule_of_a_file_away(allowed: str) -> None:
    """Rules of the server's own file are among them, and a client sends the change."""
    forbidden = HostRule(HostPattern("evil.test", has_any_port=True), "rules:1", frozenset({HTTP}))
    before = Policy(deny=(forbidden,))
    more = policy_of([allowed], [], allows_local=False)
    ruling = before.changed([more]).judge(Endpoint("evil.test", 80, HTTP))
    assert (ruling.decision, ruling.rule) == (Decision.DENY, "rules:1")


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{}", "{:#x}", "0{:o}"]))
def test_however_an_address_is_written_it_is_judged_alike(value: int, form: str) -> None:
    assert normal_host(form.format(value)) == str(IPv4Address(value))


LISTS = st.lists(st.sampled_from(["a.test", "b.test", "*.b.test", "c.test:*"]), max_size=3)


@given(LISTS, LISTS, st.lists(st.tuples(LISTS, LISTS), max_size=4))
def test_changes_together_mean_what_they_mean_one_after_the_other(
    allow: list[str], deny: list[str], changes: list[tuple[list[str], list[str]]]
) -> None:
    before = policy_of(allow, deny, allows_local=False)
    read = [policy_of(*change, allows_local=False) for change in changes]
    stepwise = before
    for change in read:
        stepwise = stepwise.changed([change])
    for host in ("a.test", "b.test", "x.b.test", "c.test"):
        endpoint = Endpoint(host, 80, HTTP)
        assert before.changed(read).judge(endpoint).decision is stepwise.judge(endpoint).decision


async def test_change_costs_each_command_nothing_before_its_next_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judges = [PolicyJudge([policy_of((), (), allows_local=False)]) for _ in range(100)]
    more = ChangeBudget().take([f"h{number}.test" for number in range(1024)], ["b.test"])
    looked: list[Policy] = []
    change = Policy.changed

    def changed(policy: Policy, changes: Iterable[Policy]) -> Policy:
        looked.append(policy)
        return change(policy, changes)

    monkeypatch.setattr(Policy, "changed", changed)
    for judge in judges:
        judge.change(more)
    assert looked == []
    for _ in range(2):
        assert (await judges[0].decide(Endpoint("h7.test", 80, HTTP))).is_allowed
    assert len(looked) == 1
    assert not (await judges[1].decide(Endpoint("b.test", 80, HTTP))).is_allowed


def test_changes_are_bounded_together() -> None:
    budget = ChangeBudget()
    half = [f"h{number}.test" for number in range(CHANGED_LIMIT // 2)]
    budget.take(half, ())
    with pytest.raises(ValueError, match="is invalid"):
        budget.take(["http://x"], ())
    budget.take((), half)
    with pytest.raises(ValueError, match="0 are left"):
        budget.take(["a.test"], ())

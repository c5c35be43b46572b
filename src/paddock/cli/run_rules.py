"""The rules that `paddock run` brings along, in the form in which a server takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import structs
from msgspec.structs import replace

from paddock.agent.program_rules import intercept_params
from paddock.errors import AmendmentRefused
from paddock.installation import obey
from paddock.protocol.intercept import InterceptParams
from paddock.protocol.question import ExecApprovalParams
from paddock.quotation import quoted_words
from paddock.rules.amendment import add_rule, check_prefix
from paddock.rules.loader import load_sound_policy
from paddock.rules.network import as_host_rules
from paddock.rules.policy import Policy
from paddock.sandbox.profile.enforced import is_enforced, proxied_network
from paddock.sandbox.profile.table import WrittenProfile

SUFFIX = ".rules"
AMENDED_FILE = "default.rules"
"""Where "always" goes, in a directory of rules."""


class RunRules:
    """The rules in some files, and in those of directories, as they are when one command needs them first."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    @cached_property
    def _policy(self) -> Policy:
        return load_sound_policy(rule_files(self._paths))

    def intercept(self, *, asks: bool) -> InterceptParams:
        """Return what the server gets. Raises RulesFileError if a file is not in order."""
        return intercept_params(self._policy, on_prompt="ask" if asks else "deny")

    def amendment(self, params: ExecApprovalParams) -> tuple[str, Callable[[], None]] | None:
        """Return what "always" would let out, in words, and what adds that rule to the first path.

        None if such a rule would allow too much, hide a stricter one, or change nothing: rules about the path
        of a program come before those about its name, and the strictest of either kind decides.
        """
        words = [params.program]
        if len(params.argv) > 1 and not params.argv[1].startswith("-"):
            words.append(params.argv[1])
        by_path = any(match.prefix[:1] == [params.program] for match in params.matches)
        # Another character stands for bytes that are not UTF-8: a rule about it would be about others.
        if by_path or any("\ufffd" in word for word in words) or self._policy.hidden_by(words) is not None:
            return None
        try:
            check_prefix(words)
        except AmendmentRefused:
            return None
        path = self._paths[0]
        file = path / AMENDED_FILE if path.is_dir() else path

        def add() -> None:
            add_rule(file, words)

        return quoted_words(words), add


def with_host_rules(written: WrittenProfile, paths: Sequence[Path]) -> WrittenProfile:
    """Return a profile with what files of rules say about hosts, if its network is proxied.

    Raises RulesFileError if one is not in order.
    """
    profile = written.profile
    if not is_enforced(profile) or (network := proxied_network(profile)) is None:
        return written
    rules = as_host_rules(load_sound_policy(rule_files(paths)).network_rules)
    network = structs.replace(network, rules=(*network.rules, *rules))
    return replace(written, profile=structs.replace(profile, network=network))


def rule_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files that are named, and those in the directories that are.

    No command that this process confines may put another there.
    """
    obey(*paths)
    return files_in(paths)


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Return the files that are named, and those in the directories that are."""
    return [file for path in paths for file in _files(path)]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix == SUFFIX and not file.is_symlink())

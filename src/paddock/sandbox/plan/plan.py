"""Turns a profile and the facts of a host into a plan: what confines a command.

Pure: the same profile and the same facts give the same plan. A plan says what to do, in which order; `bwrap`
translates it for bubblewrap.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.errors import ProfileRefused
from paddock.model.denial import OWN
from paddock.model.profile import Access, Limits, NetworkMode
from paddock.sandbox.host.look import KernelFile, Kind, Link, Look
from paddock.sandbox.host.placeholder import Placeholder, PlaceholderKind
from paddock.sandbox.plan.extent import Extent
from paddock.sandbox.plan.git_metadata import replaceable_by_link
from paddock.sandbox.plan.metadata import Protection
from paddock.sandbox.plan.mount import Bind, Devices, Mask, MaskKind, Mount
from paddock.sandbox.plan.view import View
from paddock.sandbox.plan.visibility import Visibility
from paddock.sandbox.profile.access import SLASH_TMP, AccessTable, Grants, Rule, Surroundings, resolve
from paddock.sandbox.profile.enforced import EnforcedProfile, limits_of, network_mode, restricted_files
from paddock.sandbox.profile.glob import Pattern
from paddock.sandbox.profile.path import ROOT, ancestors, is_within, parent

PATTERN: Final = "deny pattern"
"""The origin of the rules that come from the profile's patterns."""

PRIVATE: Final = "private to paddock"
"""The origin of the rules that hide what Paddock itself keeps."""


KERNELS: Final = "a file system of the kernel's own"
"""The origin of the rules that hide one that is mounted elsewhere than usual."""


class PlanInput(Struct, frozen=True):
    """Everything that the plan for a command depends on besides the profile and the files."""

    surroundings: Surroundings
    cwd: str
    """Absolute and resolved."""
    cwd_name: str | None = None
    """The name by which it was asked for, if that is another."""
    denied_matches: tuple[str, ...] = ()
    """What the deny patterns of the profile match, resolved."""
    has_proc: bool = True
    """Whether a new /proc can be mounted."""
    is_root: bool = False
    """Whether root runs the command, which may write what others may not."""
    is_strict: bool = False
    """Whether only approved programs run, so that no process may change another's memory."""
    closed: tuple[KernelFile, ...] = ()
    """The kernel's own files that a command has no use for."""
    kernel_mounts: tuple[str, ...] = ()
    """Where the kernel's own file systems are mounted outside of /proc, /sys and /dev."""
    owned_nodes: tuple[str, ...] = ()
    """The device nodes in every sandbox that the command would own."""


class Plan(Struct, frozen=True):
    """What confines a command."""

    mounts: tuple[Mount, ...]
    """The view of the file system, in the order in which it is built."""
    placeholders: tuple[Placeholder, ...]
    """Mount points that must exist on the host while the command runs."""
    rules: tuple[Rule, ...]
    """What is granted, resolved; shallow paths first."""
    network: NetworkMode
    limits: Limits
    cwd: str
    has_proc: bool
    denied_patterns: tuple[Pattern, ...] = ()
    """What the rules of origin PATTERN come from."""
    masks: tuple[Mask, ...] = ()
    """Grouped by directory."""
    read_only: tuple[str, ...] = ()
    """Host paths that must already be read-only when the view is built."""
    adopted_placeholders: tuple[str, ...] = ()
    """Placeholders of a kind that this plan would not have chosen: other commands held them."""
    uncertain_paths: tuple[str, ...] = ()
    """Masks and placeholders that a name in another case may get around (host/letter_case.py)."""

    @property
    def shown_placeholders(self) -> tuple[str, ...]:
        """Return the placeholders that the first process of the sandbox can see, and so can lock."""
        shown = self._bound
        return tuple(
            placeholder.path
            for placeholder in self.placeholders
            if placeholder.path in shown and placeholder.kind != PlaceholderKind.SOCKET
        )

    @property
    def covered_placeholders(self) -> tuple[str, ...]:
        """Return the placeholders that it can't see."""
        shown = self._bound
        return tuple(placeholder.path for placeholder in self.placeholders if placeholder.path not in shown)

    @property
    def own_placeholders(self) -> dict[str, str]:
        """Return the placeholders that the plan needs itself, and their kinds.

        It needs others only as long as other commands have them, or have them of that kind (plan/view.py).
        """
        masked = {mask.path for mask in self.masks} - {*self.adopted_placeholders}
        return {each.path: each.kind for each in reversed(self.placeholders) if each.path in masked}

    @property
    def _bound(self) -> frozenset[str]:
        return frozenset(mount.path for mount in self.mounts if isinstance(mount, Bind))

    @property
    def extent(self) -> Extent:
        """Return how far the plan lets the command reach."""
        return Extent(self.rules, self.network, self.limits)

    @property
    def grants(self) -> dict[str, bool]:
        """Return whether a path may be written, for each that has a rule; the nearest rule above decides."""
        return {rule.path: rule.access is Access.WRITE for rule in AccessTable(self.rules).rules}

    @property
    def has_ready_devices(self) -> bool:
        """Return whether the devices must exist before the view is built."""
        return any(isinstance(mount, Devices) and mount.is_ready for mount in self.mounts)

    @property
    def has_own_network(self) -> bool:
        """Return whether the command gets a network namespace of its own."""
        return self.network is not NetworkMode.ENABLED


def confine(profile: EnforcedProfile, given: PlanInput, look: Look) -> Plan:
    """Plan the order of confinement. Raises ProfileRefused for what can't be enforced on these files."""
    grants = grants_of(profile, given.surroundings)
    table, links = _access_table(grants, given, look)
    _refuse_hidden_directory(given, look, table, links)
    view = View(table, look)
    view.show_root(links)
    view.add_devices()
    view.add_processes(given.has_proc, is_root=given.is_root, is_strict=given.is_strict)
    view.close_kernel(given.closed, given.has_proc)
    for rule in table.rules:
        view.apply(rule)
    view.seal()
    read_only = view.keep_nodes(given.owned_nodes)
    return Plan(
        mounts=tuple(view.mounts),
        placeholders=tuple(view.placeholders),
        rules=tuple(table.rules),
        network=network_mode(profile),
        limits=limits_of(profile),
        cwd=given.cwd,
        has_proc=given.has_proc,
        denied_patterns=grants.denied_patterns,
        masks=_masks(view.masks, table),
        read_only=read_only,
        adopted_placeholders=tuple(view.adopted),
    )


def reach_of(profile: EnforcedProfile, given: PlanInput, look: Look) -> tuple[Extent, Visibility]:
    """Return what the profile grants on these files, and what can be seen. Raises as `confine`."""
    table, links = _access_table(grants_of(profile, given.surroundings), given, look)
    extent = Extent(tuple(table.rules), network_mode(profile), limits_of(profile))
    return extent, _visibility(given, look, table, links)


@lru_cache(maxsize=32)
def grants_of(profile: EnforcedProfile, surroundings: Surroundings) -> Grants:
    """Return what the profile says about files, with its special paths resolved."""
    files = restricted_files(profile)
    if files is None:
        return Grants((Rule(ROOT, Access.WRITE, "unrestricted"),), (), is_unrestricted=True)
    return resolve(files.entries, surroundings)


def _masks(paths: list[str], table: AccessTable) -> tuple[Mask, ...]:
    kinds: dict[str, MaskKind] = {}
    for rule in table.rules:
        # Whatever stands in place of a program of ours, the user has put there.
        if rule.access is Access.READ and rule.origin != OWN:
            # A directory above it could be made anew with everything in it.
            kinds |= dict.fromkeys((rule.path, *ancestors(rule.path)), MaskKind.GUARD)
    kinds |= {rule.path: MaskKind.PRIVATE for rule in table.rules if rule.origin == PRIVATE}
    beside_each_other = sorted(paths, key=lambda path: path.rpartition("/"))
    return tuple(Mask(path, kinds.get(path, MaskKind.MASK)) for path in beside_each_other)


def _access_table(grants: Grants, given: PlanInput, look: Look) -> tuple[AccessTable, list[Link]]:
    """Return the access of every path, and the links by which the profile's own paths are reached."""
    rules, links = _resolved_rules(grants, given, look)
    _refuse_kernel_grants(given, rules)
    table = AccessTable(rules)
    _refuse_replaceable_links(links, table)
    _refuse_unsteady_roots(given, look, table)
    _refuse_unsteady_private_names(given, look, table)
    _refuse_links_of_others(links, given, look)
    return table, [link for _, link in links]


def _resolved_rules(
    grants: Grants, given: PlanInput, look: Look
) -> tuple[list[Rule], list[tuple[Rule, Link]]]:
    """Return all rules, about paths without links, and the links that led there."""
    written = list(grants.rules)
    written += [Rule(path, Access.DENY, PATTERN) for path in given.denied_matches]
    written += [Rule(path, Access.DENY, PRIVATE) for path in given.surroundings.private]
    written += [Rule(path, Access.DENY, KERNELS) for path in given.kernel_mounts]
    rules, links = _without_links(written, look)
    table = AccessTable(rules)
    roots = () if grants.is_unrestricted else given.surroundings.project_roots
    implied = list(Protection(table, look, roots, _temporary(given, look)).rules())
    implied += _own_programs(table, given.surroundings)
    implied += _own_rules(table, given.surroundings, look)
    implied += _names_of_own_files(table, given, look)
    implied_rules, implied_links = _without_links(implied, look)
    # A path that is protected as a whole is not granted, although of two rules about one path the wider
    # counts.
    protected = {rule.path for rule in implied_rules}
    rules = [rule for rule in rules if rule.access is not Access.WRITE or rule.path not in protected]
    # These come first because they know more: of two equal rules about one path, the first is kept.
    return implied_rules + rules, links + implied_links + _pattern_links(grants, look)


def _refuse_kernel_grants(given: PlanInput, rules: list[Rule]) -> None:
    """Refuse write access to what looks like files, but is controls and state of the kernel."""
    for rule in rules:
        for mount in given.kernel_mounts if rule.access is Access.WRITE else ():
            if is_within(rule.path, mount):
                raise ProfileRefused(
                    f"write access to {rule.path}",
                    f"would let the command change the host itself: {KERNELS} is mounted at {mount}",
                    "grant another directory",
                )


def _temporary(given: PlanInput, look: Look) -> list[str]:
    """Return the temporary directories, without links."""
    return [look.at(path).real for path in (SLASH_TMP, given.surroundings.tmpdir) if path]


def _own_programs(table: AccessTable, surroundings: Surroundings) -> Iterator[Rule]:
    """Return read-only rules for what Paddock runs outside of the sandbox. Raises ProfileRefused.

    If the profile grants everything around them, they are left out of the grant. A profile that grants
    exactly this, or something in it, is refused, because it can't mean anything else. A link can't be left
    out, because nothing can be mounted on it. A grant of everything includes the links of the system.
    """
    if table.access_of(ROOT) is not Access.WRITE:
        for directory, reason, remedy in surroundings.own_searched:
            is_kept = any(is_within(directory, path) for path in surroundings.own)
            if table.access_of(directory) is Access.WRITE and not is_kept:
                raise ProfileRefused(
                    f"write access to {directory}",
                    f"would let the command provide modules for Paddock itself, because {reason}",
                    remedy,
                )
        for link in surroundings.own_links:
            is_kept = any(is_within(link, path) for path in surroundings.own)
            if table.access_of(link) is Access.WRITE and not is_kept:
                raise ProfileRefused(
                    f"write access to {parent(link)}",
                    f"would let the command replace the link {link}, by which Paddock itself is reached",
                    f"start Paddock by the path that {link} leads to, or grant another directory",
                )
    for path in surroundings.own:
        for rule in table.rules:
            if rule.access is Access.WRITE and is_within(rule.path, path):
                raise ProfileRefused(
                    f"write access to {rule.path}",
                    f"would let the command change {path}, which Paddock runs outside of the sandbox",
                    "install Paddock elsewhere, or grant another directory",
                )
        if table.access_of(path) is Access.WRITE:
            yield Rule(path, Access.READ, OWN, is_metadata=True)


def _own_rules(table: AccessTable, surroundings: Surroundings, look: Look) -> Iterator[Rule]:
    """Yield read-only rules for where Paddock looks for its user's rules, including what is missing there.

    A rule may let a program out of the sandbox. Raises ProfileRefused for a profile that grants exactly this,
    or a link that leads there.
    """
    may_write_everything = table.access_of(ROOT) is Access.WRITE
    for directory in surroundings.rules_directories:
        fact = look.at(directory)
        for link in () if may_write_everything else fact.links:
            if table.access_of(link.path) is Access.WRITE:
                raise ProfileRefused(
                    f"write access to {parent(link.path)}",
                    f"would let the command replace the link {link.path}, by which Paddock finds its rules",
                    "grant another directory, or replace the link by what it leads to",
                )
        for rule in table.rules:
            if rule.access is Access.WRITE and is_within(rule.path, fact.real):
                raise ProfileRefused(
                    f"write access to {rule.path}",
                    f"would let the command write rules that Paddock obeys, in {directory}",
                    "grant another directory",
                )
        # A command that may write everything may create it, and replace the links that lead there.
        is_left_alone = may_write_everything and (fact.kind is Kind.MISSING or fact.links)
        if table.access_of(fact.real) is Access.WRITE and not is_left_alone:
            yield Rule(directory, Access.READ, OWN, is_metadata=True)


def _names_of_own_files(table: AccessTable, given: PlanInput, look: Look) -> Iterator[Rule]:
    """Raise ProfileRefused if a command could change a file of Paddock's under another name.

    A directory that can't be searched for such names is read-only, because an earlier command may have closed
    it.
    """
    for name in given.surroundings.own_names:
        if table.access_of(name) is not Access.WRITE:
            continue
        if look.at(name).kind is not Kind.DIRECTORY:
            raise ProfileRefused(
                f"write access to {name}",
                "would let the command change a file that Paddock runs or obeys outside of the sandbox:"
                " it is a hard link to it",
                "give Paddock files of its own (`uv tool install --reinstall --link-mode=copy paddock-exec`)",
            )
        yield Rule(name, Access.READ, OWN, is_metadata=True)


def _pattern_links(grants: Grants, look: Look) -> list[tuple[Rule, Link]]:
    """Return the links that lead to where patterns search."""
    rules = [Rule(pattern.base, Access.DENY, str(pattern)) for pattern in grants.denied_patterns]
    return _without_links(rules, look)[1]


def _without_links(rules: list[Rule], look: Look) -> tuple[list[Rule], list[tuple[Rule, Link]]]:
    resolved, links = [], []
    for rule in rules:
        fact = look.at(rule.path)
        if fact.is_circle:
            raise ProfileRefused(rule.path, f"is behind {fact.real}, a circular link", "remove the link")
        resolved.append(rule if fact.real == rule.path else replace(rule, path=fact.real))
        links += [(rule, link) for link in fact.links]
    return resolved, links


def _refuse_replaceable_links(links: list[tuple[Rule, Link]], table: AccessTable) -> None:
    """Refuse links that the command could replace: a rule must mean the same for the next command."""
    for rule, link in links:
        if table.access_of(link.path) is Access.WRITE:
            raise ProfileRefused(
                rule.path,
                f"crosses the symlink {link.path}, which the command could replace",
                "name the path that it points to",
            )


def _refuse_links_of_others(links: list[tuple[Rule, Link]], given: PlanInput, look: Look) -> None:
    """Refuse a rule whose meaning an earlier command could have changed."""
    for rule, link in links:
        if _may_be_of_others(link, given, look):
            raise ProfileRefused(
                rule.path,
                f"crosses the symlink {link.path}, which an earlier command may have made",
                "name the path that it points to",
            )


def _may_be_of_others(link: Link, given: PlanInput, look: Look) -> bool:
    """Return whether an earlier command, perhaps under another profile, may have made a link.

    The usual profiles grant the project roots and the temporary directories.
    """
    shared = [*given.surroundings.project_roots, *_temporary(given, look)]
    is_common = link.is_exposed or any(is_within(link.path, directory) for directory in shared)
    return is_common and look.can_grow(parent(link.path))


def _refuse_unsteady_private_names(given: PlanInput, look: Look, table: AccessTable) -> None:
    """Refuse to let a command choose what Paddock takes for its own private files, now or at its next start.

    A command that may write everything may replace all links.
    """
    if table.access_of(ROOT) is Access.WRITE:
        return
    for name in given.surroundings.private_names:
        links = look.at(name).links
        replaceable = (link.path for link in links if table.access_of(link.path) is Access.WRITE)
        left = next(replaceable, None) or replaceable_by_link(name, "", table, look)
        if left is not None:
            raise ProfileRefused(
                f"write access to {parent(left)}",
                f"would let the command lead Paddock to private files of the command's, by a link at {left}",
                "grant another directory, or name these files without links and `..` (`XDG_RUNTIME_DIR`,"
                " `PADDOCK_RUNTIME_DIR`, settings)",
            )
        for link in links:
            if _may_be_of_others(link, given, look):
                raise ProfileRefused(
                    f"the link {link.path}",
                    "leads Paddock to its private files, and an earlier command may have made it",
                    "remove it, or name these files without it (`XDG_RUNTIME_DIR`, `PADDOCK_RUNTIME_DIR`,"
                    " settings)",
                )


def _refuse_unsteady_roots(given: PlanInput, look: Look, table: AccessTable) -> None:
    """Refuse a project root that another command, earlier or running now, could have pointed elsewhere."""
    surroundings = given.surroundings
    # Roots were resolved before. The grant is for where they lead at this look.
    for name, real in (*surroundings.linked_roots, *((root, root) for root in surroundings.project_roots)):
        if look.at(name).real != real:
            raise ProfileRefused(
                f"the project root {name}",
                "leads somewhere else each time",
                "run the command when nothing changes it",
            )
    if table.access_of(ROOT) is Access.WRITE:
        # Then no root grants anything.
        return
    for name, _ in surroundings.linked_roots:
        rule = Rule(f"the project root {name}", Access.WRITE, name)
        _refuse_replaceable_links([(rule, link) for link in look.at(name).links], table)


def _refuse_hidden_directory(given: PlanInput, look: Look, table: AccessTable, links: list[Link]) -> None:
    """Refuse a working directory by its name, without saying what is there or where it leads."""
    name = given.cwd_name or given.cwd
    visibility = _visibility(given, look, table, links)
    if not (visibility.has_way_to(name) and visibility.has_way_to(given.cwd)):
        raise ProfileRefused(
            f"the working directory {name}", "can't be read under the profile", "run the command elsewhere"
        )


def _visibility(given: PlanInput, look: Look, table: AccessTable, links: list[Link]) -> Visibility:
    return Visibility(table, look, links, [name for name, _ in given.surroundings.linked_roots])

"""From a profile to a sandbox that is there before its command, and from that to a command in it.

`prepare` makes such a sandbox like every other (`launch`). `take` puts a command into it, if a sandbox that
is made now would be the very same. It compares the plan and the facts that both rest on; the caller compares
what holds for all sandboxes of this process, such as the host's mounts. Loaded when the first spare is made.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Final

from msgspec.structs import replace

from paddock.sandbox.enforce import bwrap
from paddock.sandbox.enforce.assembly import assemble, assemble_taken
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.enforce.confined import Confined
from paddock.sandbox.enforce.janitor import NotMasked, PlaceholderTaken, locate
from paddock.sandbox.enforce.mount_source import FileMoved, shown_placeholders, verify_directories
from paddock.sandbox.enforce.spare import Spare, Unsuitable, facts_of, needs_group, without_placeholders
from paddock.sandbox.host import limit
from paddock.sandbox.host.letter_case import refuse_other_spellings
from paddock.sandbox.launch import Sandbox
from paddock.sandbox.profile.enforced import EnforcedProfile, limits_of


class Spares:
    """Makes spare sandboxes of one `Sandbox`, and prepares commands for them. May be used from any thread."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox: Final = sandbox

    def prepare(self, profile: EnforcedProfile, command: Command) -> Spare:
        """Make a sandbox ready for a command like this one that comes later. Blocks as `Sandbox.prepare`.

        Start its `confined`, and `settle` it when it waits. Raises Unsuitable when only a command that is
        there can have such a sandbox, FileMoved when files change meanwhile, or as `Sandbox.prepare`.
        """
        sandbox = self.sandbox
        if not sandbox.has_namespaces or limit.unenforceable(limits_of(profile), sandbox.host):
            raise Unsuitable
        bubblewrap = sandbox.bubblewrap()
        plan = sandbox.planner.plan(profile, command)
        bwrap.refuse_own_program(bubblewrap, plan)
        facts = facts_of(plan)
        try:
            located = locate(plan.placeholders)
        except PlaceholderTaken as error:
            raise FileMoved(str(error)) from error
        verify_directories(located, facts.mounted)
        idle = without_placeholders(plan)
        # A group counts what is in it, and it is made for one command.
        if needs_group(idle.limits, has_pids=sandbox.host.pids_cgroup is not None):
            raise Unsuitable
        nothing = replace(command, argv=(), environment={}, arg0=None)
        script = sandbox.script(idle, bubblewrap, nothing, is_traced=False, is_spare=True)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        waiting = theirs.detach()
        try:
            confined = assemble(
                script,
                bubblewrap,
                sandbox.enforcement,
                janitor=sandbox.janitor,
                placeholders=(),
                mounted=facts.mounted,
                locks=(),
                waiting=waiting,
            )
        except BaseException:
            os.close(waiting)
            ours.close()
            raise
        return Spare(facts, confined, ours, located)

    def begin_taking(self, spare: Spare) -> None:
        """Begin what others have to do for `take`, without waiting: it finds most of it done then.

        `take` or `leave` must follow.
        """
        if spare.placeholders:
            spare.begin(self.sandbox.janitor.begin_masking(spare.placeholders, spare.namespaces))

    def leave(self, spare: Spare) -> None:
        """Undo `begin_taking`, unless `take` has done that. Blocks until it is done."""
        if (masking := spare.take_masking()) is not None:
            self.sandbox.janitor.undo_masking(masking)

    def take(self, spare: Spare, profile: EnforcedProfile, command: Command) -> Confined | None:
        """Make a command ready for a sandbox that waits; None if it would not get the very same one now.

        Call it once. The result has one descriptor, which the caller sends to `spare`. Raises as
        `Sandbox.prepare`.
        """
        sandbox, janitor = self.sandbox, self.sandbox.janitor
        # It may have to be made again, because it takes long.
        plan = sandbox.planner.plan(profile, command)
        located = spare.placeholders
        masking = spare.take_masking()
        try:
            if not spare.fits(plan):
                raise FileMoved(plan.cwd)
        except BaseException as error:
            if masking is not None:
                janitor.undo_masking(masking)
            if isinstance(error, FileMoved):
                return None
            raise
        if located:
            masking = masking or janitor.begin_masking(located, spare.namespaces, waits=True)
            if masking is None:
                return None
            try:
                janitor.finish_masking(masking)
            except (PlaceholderTaken, NotMasked):
                return None
        with contextlib.ExitStack() as undone:
            undone.callback(janitor.release, located, was_killed=False)
            refuse_other_spellings(plan.uncertain_paths)
            try:
                mounted = [*spare.facts.mounted, *shown_placeholders(plan)]
            except FileMoved:
                return None
            report = spare.confined.leave_reports()
            undone.callback(os.close, report)
            confined = assemble_taken(
                plan,
                sandbox.enforcement,
                command,
                janitor=janitor,
                placeholders=located,
                mounted=mounted,
                report=report,
            )
            undone.pop_all()
        return confined

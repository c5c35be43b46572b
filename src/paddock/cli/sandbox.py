"""`paddock sandbox`: run a command under a profile, here and without a server."""

from __future__ import annotations

import os

from paddock.cli import remembered_start
from paddock.cli.message import failed, os_error_text, tell
from paddock.cli.options import Verbs, add_verb
from paddock.cli.quick_import import import_msgspec
from paddock.errors import PaddockError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from paddock.model.profile import Profile
    from paddock.sandbox.enforce.command import Command
    from paddock.sandbox.launch import Sandbox
    from paddock.sandbox.plan.plan import Plan
    from paddock.sandbox.profile.table import WrittenProfile

DESCRIPTION = """\
Run a command with exactly the files, network and kernel features that a profile
grants. It has the streams of paddock, through pipes unless they are a terminal, and
signals reach it. When it ends, so does everything that it has started. Paddock does
not start a command if it can't enforce the profile.
"""

EXAMPLES = """\
examples:
  paddock sandbox -- make test                        read everything, write here and in /tmp, no network
  paddock sandbox --profile :read-only -- ls -l
  paddock sandbox --profile strict.toml#ci -- pytest
  paddock sandbox --profile '{"type": "managed", "file_system": {"type": "unrestricted"},
                             "network": "loopback"}' -- ./server-test
  paddock sandbox --explain                           what would be enforced, and why

profiles:
  :workspace, :read-only, :danger-full-access; JSON; or a file in JSON or TOML, of which
  FILE#NAME chooses one of several profiles.

exit status:
  the command's own, 128+n if signal n ended it, 127 if it was not found, 126 if it
  could not be executed, 125 if it was not confined and so not started, or not any more
  and so killed, or if its output could not be written, 124 if its time was over, and 2
  if the command line or the profile makes no sense.
"""

DEFAULT_PROFILE = ":workspace"
VERB = "sandbox"

PLAIN_OPTIONS = {"--profile": "profile"}
PLAIN_ARGUMENTS = {
    "policy_cwd": None,
    "profile": DEFAULT_PROFILE,
    "env": (),
    "allow_host": (),
    "allow_group": (),
    "deny_host": (),
    "allow_local": False,
    "managed_network": None,
    "no_proc": False,
    "use_legacy_landlock": False,
    "trace": False,
    "explain": False,
}
"""See `plain_command_line`."""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    from argparse import REMAINDER

    from paddock.cli.network_choice import add_network_options
    from paddock.cli.variable import add_variable_option

    parser = add_verb(
        verbs,
        VERB,
        run,
        help="run a command under a profile",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.usage = "paddock sandbox [--policy-cwd DIR]... [--profile PROFILE] [OPTION]... -- COMMAND [ARG]..."
    parser.add_argument(
        "--policy-cwd",
        metavar="DIR",
        action="append",
        help="a project root of the profile; may be repeated (default: this directory)",
    )
    parser.add_argument(
        "--profile",
        metavar="PROFILE",
        default=DEFAULT_PROFILE,
        help=f"a name, a file or JSON (default {DEFAULT_PROFILE})",
    )
    add_variable_option(parser, "your own")
    add_network_options(parser)
    parser.add_argument(
        "--managed-network",
        metavar="JSON",
        help="let its only way out be the proxies on this host's loopback that its variables, such as "
        'HTTP_PROXY, name: {"loopbackPorts": [PORT, ...], "allowLocalBinding": false}, as of Codex',
    )
    parser.add_argument("--no-proc", action="store_true", help="leave /proc empty, where none can be mounted")
    parser.add_argument(
        "--use-legacy-landlock",
        action="store_true",
        help="enforce with Landlock alone, without bubblewrap, where Landlock can express the profile",
    )
    parser.add_argument(
        "--trace",
        action="store_true",
        help="list at the end what the sandbox refused; the command then runs slower",
    )
    parser.add_argument(
        "--explain", action="store_true", help="print what paddock would enforce, and run nothing"
    )
    parser.add_argument("command", metavar="COMMAND", nargs=REMAINDER, help="the program and its arguments")


def run(arguments: argparse.Namespace) -> int:
    """Run the command, and return the exit status."""
    argv = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not argv and not arguments.explain:
        arguments.usage_error("give a command to run after --")
    try:
        start = remembered_start.start_of(arguments)
        status = None if start.scene is None else remembered_start.run(start.scene, arguments, argv)
        if status is not None:
            return status
        import_msgspec()
        return _run(arguments, argv, start)
    except PaddockError as error:
        from paddock.errors import InvalidProfile

        if isinstance(error, InvalidProfile):
            arguments.usage_error(str(error))
        return failed(str(error), VERB)
    except BrokenPipeError:
        raise
    except OSError as error:
        # Too few descriptors, a full disk: all that comes before the command is started.
        return failed(os_error_text(error), VERB)


def _run(arguments: argparse.Namespace, argv: list[str], start: remembered_start.Start) -> int:
    from msgspec.structs import replace

    from paddock.cli.confined import run_confined
    from paddock.cli.network_choice import with_network
    from paddock.cli.sandbox_network import sandbox_network
    from paddock.model.secret_name import without_secrets
    from paddock.sandbox.enforce.held_script import Groundwork
    from paddock.sandbox.profile.source import read_profile

    written = with_network(read_profile(arguments.profile, start.profile), arguments)
    environment = without_secrets(os.environ) | dict(arguments.env)
    network = sandbox_network(written.profile, environment, arguments.managed_network)
    written = replace(written, profile=network.profile)
    command = _command(arguments, argv, written, network.environment)
    has_proc = not arguments.no_proc
    sandbox = _sandbox(command, arguments.use_legacy_landlock)
    groundwork = Groundwork()
    try:
        if arguments.explain:
            print(_explanation(sandbox, written.profile, command, has_proc), end="")
            return 0
        confined = sandbox.prepare(
            written.profile,
            command,
            has_proc=has_proc,
            is_traced=arguments.trace,
            proxy_ports=() if network.served is None else network.served.ports,
            groundwork=None if start.scene is None else groundwork,
        )
        is_told = _tell_of_tmpdir(sandbox, written.profile, confined.plan)

        def keep() -> None:
            if start.scene is not None and network.served is None and not is_told:
                remembered_start.keep(start.scene, groundwork)

        ended = run_confined(confined, network.served, keep, must_return=arguments.trace)
        status = ended.status
        if not ended.may_tell:
            return status
        if confined.has_starved and status != 0:
            tell("the limit totalMemoryBytes of its profile ended it; raise it if that is too low", VERB)
        if network.denials:
            from paddock.cli.denial_text import explanation

            for denial in network.denials:
                tell(explanation(denial), VERB)
        if arguments.trace:
            from paddock.cli.denial_text import trace_explanations

            for line in trace_explanations(confined.trace):
                tell(line, VERB)
        return status
    finally:
        sandbox.close()


def _command(
    arguments: argparse.Namespace, argv: list[str], written: WrittenProfile, environment: Mapping[str, str]
) -> Command:
    from paddock.sandbox.enforce.command import Command

    try:
        cwd = os.getcwd()
    except FileNotFoundError as error:
        raise PaddockError("the current directory is gone; go to another") from error
    # We are in it, wherever its path leads by the time that it is granted.
    here = os.stat(".")
    return Command(
        argv=argv,
        cwd=cwd,
        project_roots=(*(arguments.policy_cwd or [cwd]), *written.workspace_roots),
        environment=environment,
        root_id=None if arguments.policy_cwd else (here.st_dev, here.st_ino),
    )


def _sandbox(command: Command, use_legacy_landlock: bool) -> Sandbox:
    from paddock.sandbox.host import probe
    from paddock.sandbox.launch import Sandbox
    from paddock.transport import runtime_directory

    directory = runtime_directory.provide(runtime_directory.candidates(os.environ, os.getuid()), os.getuid())
    directories = runtime_directory.everywhere(os.environ, os.getuid())
    runtime_directory.reserve(directories, os.getuid())
    return Sandbox(
        probe.host(workspaces=(command.cwd, *command.project_roots), memory_directory=directory),
        directory,
        private=directories,
        use_legacy_landlock=use_legacy_landlock,
    )


def _explanation(sandbox: Sandbox, profile: Profile, command: Command, has_proc: bool) -> str:
    from paddock.sandbox.plan.explain import explain
    from paddock.sandbox.profile.enforced import is_enforced

    if not is_enforced(profile):
        return "nothing is enforced, because the profile asks for nothing\n"
    plan = sandbox.planner.plan(profile, command, has_proc=has_proc)
    problem = sandbox.planner.tmpdir_problem(profile, plan)
    text = explain(plan, sandbox.enforcement, sandbox.ruleset_alone(plan))
    return f"{text}\n{problem}\n" if problem else text


def _tell_of_tmpdir(sandbox: Sandbox, profile: Profile, plan: Plan | None) -> bool:
    """Say why temporary files can't be made, where the command itself only finds that they can't; return
    whether there was something to say."""
    from paddock.sandbox.profile.enforced import is_enforced

    problem = (
        sandbox.planner.tmpdir_problem(profile, plan) if plan is not None and is_enforced(profile) else None
    )
    if problem is not None:
        tell(problem)
    return problem is not None

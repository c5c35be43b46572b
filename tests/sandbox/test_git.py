"""Git on the host obeys nothing that a confined command leaves in the places that are promised.

Each attack leaves configuration that runs a program. It is judged by git itself, run by the owner
afterwards where he would run it, and must succeed when the same commands run without a sandbox.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest

from tests.sandbox.helper_process import wait_until
from tests.sandbox.identity import drop_to
from tests.sandbox.launcher import Launcher, Outcome

T = TypeVar("T")

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

EVIL = "printf '[core]\\n\\tfsmonitor = touch %s; false\\n\\trepositoryformatversion = 0\\n' \"$RAN\""
"""Writes a configuration; git runs the program when it looks for changes."""

HOOK = "printf '#!/bin/sh\\ntouch %s\\n' \"$RAN\""

REPOSITORY = "echo 'ref: refs/heads/main' > HEAD; mkdir -p objects refs/heads; "
"""Makes a repository of the current directory."""

BARE = REPOSITORY + "{ " + EVIL + "; printf '\\tbare = false\\n\\tworktree = .\\n'; } > config"


ELSEWHERE = (
    f'mkdir x; (cd x; {REPOSITORY} {EVIL} > config; echo " sshCommand = touch $RAN" >> config);'
    "cp x/HEAD .; echo x > commondir"
)
"""Makes a repository of the current directory whose configuration is in another."""


@dataclass
class Site:
    """Directories of one user: the project, another that can be written, and a file for what ran."""

    launcher: Launcher
    top: Path

    @property
    def project(self) -> Path:
        return self.top / "project"

    @property
    def other(self) -> Path:
        return self.top / "other"

    @property
    def ran(self) -> Path:
        return self.top / "ran"

    def shell(self, script: str, cwd: Path | None = None) -> str:
        """Run something as the owner, without a sandbox."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.top),
            "RAN": str(self.ran),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        done: subprocess.CompletedProcess[str] = subprocess.run(
            ["/bin/bash", "-c", script],
            cwd=cwd or self.project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            **drop_to(self.launcher.user),
        )
        return done.stdout

    def confined(
        self,
        script: str,
        *writable: Path,
        cwd: Path | None = None,
        access: str | None = "write",
        everything: str = "read",
        roots: Sequence[Path] = (),
    ) -> Outcome:
        """Run something confined to the project and `roots`, to which it has this access, and `writable`."""
        project = {"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": access}
        entries = [
            {"path": {"type": "special", "value": {"kind": "root"}}, "access": everything},
            *([project] if access else []),
            *({"path": {"type": "path", "path": str(path)}, "access": "write"} for path in writable),
        ]
        profile = {"type": "managed", "file_system": {"type": "restricted", "entries": entries}}
        words = ["sandbox", "--profile", json.dumps(profile)]
        for root in (cwd or self.project, *roots):
            words += ["--policy-cwd", str(root)]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.top), "RAN": str(self.ran)}
        return self.launcher.run([*words, "--", "/bin/bash", "-c", script], cwd=cwd or self.project, env=env)


@pytest.fixture
def site(launcher: Launcher, workspace: Path) -> Site:
    site = Site(launcher, workspace)
    for directory in (site.project, site.other):
        directory.mkdir()
        os.chown(directory, launcher.user, launcher.user)
    site.shell(
        "git config --global user.name n; git config --global user.email a@b;"
        "git config --global protocol.file.allow always; git config --global init.defaultBranch main"
    )
    return site


@dataclass(frozen=True)
class Trap:
    """What a command leaves, and how the owner steps into it."""

    name: str
    attack: str
    judge: str = "git status"
    setup: str = ":"
    where: str = "project"
    """The directory below the top in which the attack and the judge run."""
    writable: tuple[str, ...] = ()
    access: str | None = "write"
    """To the project, if the profile says so."""
    project: str = "project"
    everything: str = "read"
    """The access to all other files."""
    roots: tuple[str, ...] = ()
    """Directories below the top that are project roots as well."""


IN_GIT = f"mkdir -p .git && cd .git && {REPOSITORY} {EVIL} > config"
SUBMODULE = (
    "git init -q ../lib; git -C ../lib commit -q --allow-empty -m x; git init -q .;"
    "git submodule -q add ../lib libs/sub; git commit -qm x"
)
SPARSE_INDEX = (
    "git init -q ../lib; git -C ../lib commit -q --allow-empty -m x; git init -q .;"
    "mkdir keep libs; touch keep/k libs/l; git add .; git commit -qm one; git checkout -q -b two;"
    "git submodule -q add ../lib libs/sub; git commit -qm two; git checkout -q main; rm -rf libs/sub;"
    "git sparse-checkout set --cone --sparse-index keep; git checkout -q two"
)
"""The submodule came when its directory was left out already: the index names only the directory."""
BEHIND_LINK = "git init -q --separate-git-dir ../other/r .; ln -s ../other link; echo gitdir: link/r > .git"
REPLACED_LINK = f"mkdir m; cp -r link/r m; {EVIL} > m/r/config; rm link; mv m link"
NESTED = (
    "for name in lib mid; do git init -q ../$name; git -C ../$name commit -q --allow-empty -m x; done;"
    " git -C ../mid submodule -q add ../lib inner; git -C ../mid commit -qm x; git init -q .;"
    " git submodule -q add ../mid libs/mid; git commit -qm x; git submodule -q update --init --recursive"
)
WORKTREE = (
    "git init -q ../other; git -C ../other commit -q --allow-empty -m x; rmdir ../project;"
    "git -C ../other worktree add -q ../project"
)

TRAPS = [
    Trap("bare repository in a project without one", BARE),
    Trap("bare repository by moving one there", f"mkdir x; cd x; {BARE}; mv * .."),
    Trap("bare repository by another name for HEAD", BARE.replace("> HEAD", "> h; ln h HEAD")),
    Trap(
        "bare repository whose parts are elsewhere",
        ELSEWHERE,
        "git ls-remote ssh://localhost/x",
    ),
    Trap(
        "bare repository by another name of what an earlier command left like a place",
        "chmod 600 sub/h; echo 'ref: refs/heads/main' > sub/h; " + BARE.partition("HEAD; ")[2],
        setup=": > HEAD; chmod 1400 HEAD; mkdir sub; ln HEAD sub/h",
    ),
    Trap("bare repository beside an empty .git", BARE, setup="mkdir .git"),
    Trap(
        "bare repository in a project that is a part of a repository",
        BARE,
        setup="git init -q ..",
    ),
    Trap(
        "bare repository whose parts are elsewhere in a part of a repository",
        ELSEWHERE,
        "git ls-remote ssh://localhost/x",
        setup="git init -q ..",
    ),
    Trap("bare repository in a second root", BARE, where="other", writable=("other",)),
    Trap("repository in a second root", IN_GIT, where="other", writable=("other",)),
    Trap(
        "configuration of a repository in a second root",
        f"{EVIL} > .git/config",
        setup="git init -q ../other",
        where="other",
        writable=("other",),
    ),
    Trap(
        "configuration of the repository of a linked worktree",
        f"{EVIL} > ../other/.git/config",
        setup=WORKTREE,
        writable=(".",),
    ),
    Trap(
        "hook of the repository of a linked worktree",
        f"{HOOK} > ../other/.git/hooks/pre-commit; chmod 755 ../other/.git/hooks/pre-commit",
        "git commit -q --allow-empty -m x",
        setup=WORKTREE,
        writable=(".",),
    ),
    Trap(
        "repository of a linked worktree moved away",
        f"cd ../other; mv .git x; cp -r x .git; {EVIL} > .git/config",
        setup=WORKTREE,
        writable=(".",),
    ),
    Trap("link by which the repository is found", REPLACED_LINK, setup=BEHIND_LINK),
    Trap(
        "link by which the repository around the project is found",
        REPLACED_LINK,
        setup=f"{BEHIND_LINK}; echo gitdir: project/link/r > ../.git; rm .git",
    ),
    Trap(
        "repository that a directory refers to",
        f"{EVIL} > common/config",
        setup="git init -q .; mv .git common; mkdir .git; mv common/HEAD .git;"
        "echo ../common > .git/commondir",
    ),
    Trap(
        "directory by which the repository is found and which the way leaves again",
        f"mkdir -p a/b; cp -r r a/r; {EVIL} > a/r/config; rmdir d; ln -s a/b d",
        setup="git init -q --separate-git-dir r .; mkdir d; echo gitdir: d/../r > .git",
    ),
    *(
        Trap(
            f"configuration of a repository with {what} in its name",
            f"{EVIL} > {name}/config",
            setup=f"git init -q --separate-git-dir {name} .",
        )
        for what, name in (("a blank at the end", "'r '"), ("a tab", "$'r\\t'"), ("a new line", "$'r\\nx'"))
    ),
    Trap(
        "configuration of the repository of a linked worktree with a new line in its name",
        f"{EVIL} > $'../a\\nb/.git/config'",
        setup="git init -q $'../a\\nb'; cd $'../a\\nb'; git commit -q --allow-empty -m x; rmdir ../project;"
        " git worktree add -q ../project",
        writable=(".",),
    ),
    Trap(
        "repository with a new line in its name that a directory refers to",
        f"{EVIL} > $'com\\nmon/config'",
        setup="git init -q .; mv .git $'com\\nmon'; mkdir .git; mv com*/HEAD .git;"
        " printf '../com\\nmon' > .git/commondir",
    ),
    Trap(
        "repository behind a link in place of the .git around the project",
        f"{EVIL} > ../other/r/config",
        setup="git init -q --separate-git-dir ../other/r ..; ln -sf other/r ../.git",
        writable=("other",),
    ),
    Trap(
        "file behind a link in place of the .git around the project",
        f"mkdir x; cd x; {REPOSITORY} {EVIL} > config; echo gitdir: $PWD > ../../other/file",
        setup="git init -q --separate-git-dir ../r ..; mv ../.git ../other/file; ln -s other/file ../.git",
        writable=("other",),
    ),
    Trap(
        "configuration of a submodule whose pointer can't be written",
        f"{EVIL} > ../other/sub/config",
        setup=f"{SUBMODULE}; mkdir part; mv .git/modules/libs/sub ../other;"
        " echo gitdir: ../../../other/sub > libs/sub/.git",
        writable=("project/part", "other"),
        access="read",
    ),
    Trap(
        "submodule in a submodule",
        f"cd libs/mid/inner; rm .git; mkdir .git; cd .git; {REPOSITORY} {EVIL} > config",
        setup=NESTED,
    ),
    Trap(
        "submodule in a submodule that is not checked out",
        f"mkdir -p libs/mid/inner/.git; cd libs/mid/inner/.git; {REPOSITORY} {EVIL} > config",
        setup=f"{NESTED}; git -C libs/mid submodule -q deinit -f inner",
    ),
    Trap(
        "submodule in a submodule of a linked worktree",
        f"cd libs/mid/inner; rm .git; mkdir .git; cd .git; {REPOSITORY} {EVIL} > config",
        setup=f"{NESTED}; git worktree add -q ../tree; cd ../tree;"
        " git submodule -q update --init --recursive",
        where="tree",
        project="tree",
    ),
    Trap(
        "pointer of a submodule",
        f"cd libs/sub; rm .git; mkdir .git; cd .git; {REPOSITORY} {EVIL} > config",
        setup=SUBMODULE,
    ),
    Trap(
        "pointer of a submodule to another place",
        f"mkdir x; (cd x; {REPOSITORY} {EVIL} > config); echo gitdir: $PWD/x > libs/sub/.git",
        setup=SUBMODULE,
    ),
    Trap(
        "directory of a submodule exchanged",
        f"mv libs/sub x; mkdir -p libs/sub/.git; cd libs/sub/.git; {REPOSITORY} {EVIL} > config",
        setup=SUBMODULE,
    ),
    Trap(
        "directory above a submodule exchanged",
        f"mv libs x; mkdir -p libs/sub/.git; cd libs/sub/.git; {REPOSITORY} {EVIL} > config",
        setup=SUBMODULE,
    ),
    Trap(
        "submodule that is not checked out",
        f"mkdir -p libs/sub/.git; cd libs/sub/.git; {REPOSITORY} {EVIL} > config",
        setup=SUBMODULE + "; git submodule -q deinit -f libs/sub",
    ),
    Trap(
        "submodule in a working tree that the settings name",
        f"mkdir -p tree/sub/.git; cd tree/sub/.git; {REPOSITORY} {EVIL} > config",
        "cd tree; git status",
        setup="git init -q ../lib; git -C ../lib commit -q --allow-empty -m x; git init -q .; mkdir tree;"
        " git config core.worktree ../tree; cd tree; git submodule -q add ../../lib sub; git commit -qm x;"
        " git submodule -q deinit -f sub",
    ),
    Trap(
        "submodule in a working tree that the settings name by a value of several parts",
        f"mkdir -p tree/sub/.git; cd tree/sub/.git; {REPOSITORY} {EVIL} > config",
        "cd tree; git status",
        setup="git init -q ../lib; git -C ../lib commit -q --allow-empty -m x; git init -q .; mkdir tree;"
        " printf '[x][core]worktree = \"../tr\"ee\\n' >> .git/config; cd tree;"
        " git submodule -q add ../../lib sub; git commit -qm x; git submodule -q deinit -f sub",
    ),
    Trap(
        "submodule whose directory is gone",
        f"mkdir -p libs/sub/.git; cd libs/sub/.git; {REPOSITORY} {EVIL} > config",
        setup=SUBMODULE + "; rm -r libs",
    ),
    Trap(
        "submodule that is missing in .gitmodules",
        f"rm libs/sub/.git; mkdir -p libs/sub/.git; cd libs/sub/.git; {REPOSITORY} {EVIL} > config",
        setup=SUBMODULE + "; rm .gitmodules",
    ),
    Trap(
        "submodule that is left out by a sparse checkout",
        f"mkdir -p libs/sub/.git; cd libs/sub/.git; {REPOSITORY} {EVIL} > config",
        setup=SUBMODULE + "; mkdir keep; touch keep/k; git add keep; git commit -qm k;"
        "git submodule -q deinit -f libs/sub; git sparse-checkout set keep; rm -rf libs",
    ),
    Trap(
        "submodule in a directory that a sparse index leaves out",
        f"mkdir -p libs/sub/.git && cd libs/sub/.git && {REPOSITORY} {EVIL} > config",
        setup=SPARSE_INDEX,
    ),
    Trap(
        "submodule in a directory that is there though a sparse index leaves it out",
        f"mkdir -p libs/sub/.git && cd libs/sub/.git && {REPOSITORY} {EVIL} > config",
        setup=f"{SPARSE_INDEX}; mkdir libs; touch libs/built",
    ),
    Trap(
        "submodule of a repository of which the project is a part",
        f"cd sub; rm .git; mkdir .git; cd .git; {REPOSITORY} {EVIL} > config",
        setup="git init -q ../lib; git -C ../lib commit -q --allow-empty -m x; cd ..; git init -q .;"
        'git submodule -q add "$PWD/lib" project/sub; git commit -qm x',
    ),
    Trap(
        "submodule in the only part of the project that can be written",
        f"cd libs/sub; rm .git; mkdir .git; cd .git; {REPOSITORY} {EVIL} > config",
        setup=SUBMODULE,
        writable=("project/libs",),
        access="read",
    ),
    Trap(
        "configuration of the repository of a linked worktree of which the project is a part",
        f"{EVIL} > ../m/main/.git/config",
        setup="mkdir ../m; git init -q ../m/main; git -C ../m/main commit -q --allow-empty -m x;"
        "git -C ../m/main worktree add -q ../../w; mv ../w/.git ../.git; rmdir ../w",
        writable=("m",),
    ),
    *(
        replace(trap, name=f"{trap.name} below a grant", writable=(".",), access=None)
        for trap in (
            Trap("configuration", f"{EVIL} > .git/config", setup="git init -q ."),
            Trap("new repository", IN_GIT),
            Trap("bare repository", BARE),
            Trap("configuration of a linked worktree", f"{EVIL} > ../other/.git/config", setup=WORKTREE),
            Trap(
                "pointer of a submodule",
                f"cd libs/sub; rm .git; mkdir .git; cd .git; {REPOSITORY} {EVIL} > config",
                setup=SUBMODULE,
            ),
            Trap(
                "configuration of the repository around the project",
                f"{EVIL} > ../../.git/config",
                setup="mkdir -p ../outer/a/b; git init -q ../outer",
                where="outer/a/b",
                project="outer/a/b",
            ),
            Trap(
                "repository between the project and the one around it",
                f"cd ..; {IN_GIT}",
                setup="mkdir -p ../outer/a/b; git init -q ../outer",
                where="outer/a/b",
                project="outer/a/b",
            ),
        )
    ),
    *(
        replace(
            trap, name=f"{trap.name} below a project to read", writable=("project",), access=None, project="."
        )
        for trap in (Trap("new repository", IN_GIT), Trap("bare repository", BARE))
    ),
    *(
        replace(trap, name=f"{trap.name} in another project", roots=("other",), project=trap.where)
        for trap in (
            Trap(
                "repository above the project",
                f"cd ..; {IN_GIT}",
                setup="mkdir -p ../other/a/b",
                where="other/a/b",
            ),
            Trap(
                "bare repository above the project",
                f"cd ..; {BARE}",
                setup="mkdir -p ../other/a/b",
                where="other/a/b",
            ),
            Trap(
                "configuration of the repository around the project",
                f"{EVIL} > ../../.git/config",
                setup="mkdir -p ../other/a/b/c; git init -q ../other/a",
                where="other/a/b/c",
            ),
            Trap(
                "pointer of a submodule of the repository around the project",
                f"cd sub; rm .git; mkdir .git; cd .git; {REPOSITORY} {EVIL} > config",
                "cd ..; git status",
                setup="git init -q ../lib; git -C ../lib commit -q --allow-empty -m x; mkdir -p ../other/a/b;"
                ' lib=$PWD/../lib; cd ../other/a; git init -q .; git submodule -q add "$lib" b/sub;'
                " git commit -qm x",
                where="other/a/b",
            ),
        )
    ),
    *(
        replace(trap, name=f"{trap.name} where everything is granted", everything="write", access=None)
        for trap in (
            Trap("configuration", f"{EVIL} > .git/config", setup="git init -q ."),
            Trap("new repository", IN_GIT),
            Trap(
                "configuration of the repository around the project",
                f"{EVIL} > ../.git/config",
                setup="mkdir -p ../outer/a; git init -q ../outer",
                where="outer/a",
                project="outer/a",
            ),
        )
    ),
]


def _spring(site: Site, trap: Trap, run: Callable[[str], object]) -> bool:
    """Set up, attack, and tell whether the owner's git runs a program."""
    site.shell(trap.setup)
    run(f"cd {site.top}/{trap.where}; {trap.attack}")
    site.shell(trap.judge, site.top / trap.where)
    return site.ran.exists()


@pytest.mark.parametrize("trap", TRAPS, ids=[trap.name for trap in TRAPS])
def test_git_obeys_nothing_that_a_command_left(site: Site, trap: Trap) -> None:
    writable = [site.top / name for name in trap.writable]

    # The second command finds what the first has left.
    def run(script: str) -> None:
        for _ in range(2):
            project = site.top / trap.project
            site.confined(
                script,
                *writable,
                cwd=project,
                access=trap.access,
                everything=trap.everything,
                roots=[site.top / name for name in trap.roots],
            )

    assert not _spring(site, trap, run)


@pytest.mark.parametrize("trap", TRAPS, ids=[trap.name for trap in TRAPS])
def test_git_obeys_what_a_command_without_a_sandbox_left(site: Site, trap: Trap) -> None:
    assert _spring(site, trap, site.shell)


def test_repository_can_be_made_and_used_below_the_project(site: Site) -> None:
    script = (
        "git init -q sub && cd sub && echo x > f && git add f && git commit -qm one && git clone -q . ../copy"
    )
    assert site.confined(script).status == 0
    done = site.confined("cd copy && echo y >> f && git commit -qam two && git log --format=%s")
    assert (done.status, done.stdout) == (0, "two\none\n")
    assert sorted(path.name for path in site.project.iterdir()) == ["copy", "sub"]


def test_git_works_in_a_project_that_is_a_part_of_a_repository(site: Site) -> None:
    site.shell("git init -q ..; cd ..; git commit -q --allow-empty -m one")
    done = site.confined("git log --format=%s HEAD && git diff HEAD")
    assert (done.status, done.stdout) == (0, "one\n"), done


def test_submodule_can_still_be_worked_on(site: Site) -> None:
    site.shell(SUBMODULE)
    done = site.confined(
        "echo x > libs/sub/f && mkdir libs/sub/d && mv libs/sub/f libs/sub/d && cat libs/sub/d/f"
    )
    assert (done.status, done.stdout) == (0, "x\n"), done


def test_project_with_submodules_in_submodules_can_be_worked_on(site: Site) -> None:
    site.shell(NESTED)
    done = site.confined("touch libs/mid/f libs/mid/inner/f && git submodule status --recursive | wc -l")
    assert (done.status, done.stdout) == (0, "2\n"), done


@pytest.mark.parametrize("pointer", ["gitdir: r\\0", "gitdir: r%8192s"])
def test_pointer_that_can_not_be_followed_is_refused(site: Site, pointer: str) -> None:
    site.shell(f"git init -q --separate-git-dir r .; printf '{pointer}' > .git")
    done = site.confined("touch file")
    assert done.status == 125
    assert f"{site.project}/.git names a repository" in done.stderr
    site.shell("echo gitdir: r > .git")
    assert site.confined("touch file").status == 0


def test_bare_repository_does_not_come_about_in_the_project_itself(site: Site) -> None:
    site.confined("git init -q --bare .; git symbolic-ref HEAD refs/heads/x; ls -d HEAD")
    assert not (site.project / "HEAD").exists()
    assert site.shell("git rev-parse --git-dir") == ""
    site.shell("git init -q --bare .")
    assert site.shell("git rev-parse --git-dir") == ".\n"


def test_bare_repository_that_is_the_project_can_not_be_changed(site: Site) -> None:
    site.shell("git init -q --bare .")
    before = (site.project / "config").read_text()
    site.confined(f"{EVIL} > config; rm -rf hooks; mkdir x; echo x > commondir; {EVIL} > x/config; mv HEAD y")
    assert (site.project / "config").read_text() == before
    names = {path.name for path in site.project.iterdir()}
    assert {"HEAD", "hooks"} <= names
    assert names.isdisjoint(("commondir", "x", "y"))


def test_git_works_in_a_bare_repository_meanwhile(site: Site) -> None:
    site.shell("git init -q --bare .")
    assert site.confined("git rev-parse --git-dir && ls").stdout.startswith(".\n")


def test_what_keeps_a_bare_repository_from_being_made_is_no_directory_of_the_project(site: Site) -> None:
    """Tools take every directory for a package, and read every file."""
    site.shell("mkdir package; touch file")
    done = site.confined("ls -d */ && mkdir copy && cp $(ls -p | grep -v /) copy && wc -l copy/file")
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout == "package/\n0 copy/file\n"


def test_git_does_not_see_what_keeps_a_bare_repository_from_being_made(site: Site) -> None:
    site.shell("git init -q ..; touch file")
    done = site.confined("git status --porcelain --untracked-files=all .; ls -d refs commondir")
    assert done.stdout == "?? project/file\ncommondir\nrefs\n"
    # Nor does anything that looks for packages or for files to read.
    assert site.confined("find . -type f -o -type d -not -name '.*'").stdout == "./file\n"
    assert sorted(path.name for path in site.project.iterdir()) == ["file"]


def _while_confined(site: Site, script: str, host: Callable[[], T]) -> tuple[T, Outcome]:
    """Do something on the host while a command that has run a script waits in the sandbox."""
    os.mkfifo(site.project / "done")
    os.mkfifo(site.project / "go")
    for name in ("done", "go"):
        os.chown(site.project / name, site.launcher.user, site.launcher.user)
    with ThreadPoolExecutor() as pool:
        outcome = pool.submit(site.confined, f"{script}; echo > done; cat go")
        (site.project / "done").read_text()
        try:
            result = host()
        finally:
            (site.project / "go").write_text("")
        return result, outcome.result()


def test_git_of_the_owner_leaves_alone_what_keeps_a_bare_repository_from_being_made(site: Site) -> None:
    site.shell("git init -q ..; echo x > file; git add file; git commit -qm one")

    def work() -> str:
        return site.shell(
            "echo y > new; git status --porcelain .; git clean -fxn;"
            "git add -A .; git commit -qm two; git show --format= --name-only; git diff HEAD"
        )

    told, done = _while_confined(site, "ls -d refs commondir", work)
    assert told == "?? project/new\nWould remove new\nproject/new\n"
    assert (done.status, done.stdout) == (0, "commondir\nrefs\n"), done
    assert sorted(path.name for path in site.project.iterdir()) == ["done", "file", "go", "new"]


def test_git_obeys_no_bare_repository_while_the_command_runs(site: Site) -> None:
    site.shell("git init -q ..")
    attack = f"{BARE}; echo x > commondir; rm -rf refs commondir; mkdir refs"

    def judge() -> None:
        # Without the other name, too: they are removed one after the other.
        site.shell("git status; mkdir ../copy; cp -r HEAD objects config refs ../copy")
        site.shell("git status", site.top / "copy")

    _while_confined(site, attack, judge)
    site.shell("git status")
    assert not site.ran.exists()


def test_what_stands_beside_git_goes_though_the_owner_takes_git(site: Site) -> None:
    site.shell("git init -q ..")
    _while_confined(site, "true", lambda: site.shell("git init -q ."))
    assert sorted(path.name for path in site.project.iterdir()) == [".git", "done", "go"]
    assert site.shell("git rev-parse --git-dir") == ".git\n"


@pytest.mark.parametrize(("everything", "writable"), [("write", False), ("read", True)])
def test_metadata_of_a_project_below_a_grant_can_not_be_made(
    site: Site, everything: str, writable: bool
) -> None:
    attempt = (
        "for name in .git .codex .agents .aws .paddock; do mkdir $name; touch $name/y; done; touch other"
    )
    directories = [site.top] if writable else []
    site.confined(attempt, *directories, access=None, everything=everything)
    assert [path.name for path in site.project.iterdir()] == ["other"]


def test_metadata_that_the_profile_names_is_open_below_a_grant(site: Site) -> None:
    site.shell("git init -q .; git commit -q --allow-empty -m one")
    done = site.confined("git commit -q --allow-empty -m two", site.top, site.project / ".git", access=None)
    assert (done.status, site.shell("git log --format=%s")) == (0, "two\none\n"), done


@pytest.mark.parametrize("place", ["lib", "libs/sub"])
def test_a_file_in_place_of_a_submodule_is_protected(site: Site, place: str) -> None:
    top = place.partition("/")[0]
    site.shell(
        "git init -q .; git commit -q --allow-empty -m x;"
        f"git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),{place}; echo x > {top}"
    )
    done = site.confined(f"touch other; rm {top}; echo y > {top}")
    assert (site.project / "other").exists(), done.stderr
    assert (site.project / top).read_text() == "x\n"


@pytest.mark.parametrize("outer", ["git init -q ..", ":"], ids=["part", "alone"])
def test_command_that_closes_its_project_leaves_nothing_for_good(site: Site, outer: str) -> None:
    """As read-only exports do. The next sandbox works, and clears away what could not be removed."""
    site.shell(outer)
    site.shell("touch file")
    assert site.confined("chmod 500 . && echo done").stdout == "done\n"
    assert stat.S_IMODE(site.project.stat().st_mode) == 0o500
    site.shell("chmod 755 .")
    outcome = site.confined("echo works")
    assert (outcome.stdout, outcome.stderr) == ("works\n", "")
    wait_until(lambda: os.listdir(site.project) == ["file"])

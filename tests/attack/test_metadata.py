"""What programs of the owner obey when they are used in his project: repositories above all.

A command leaves something, the owner then runs git, and what he runs must not run what the command left.
"""

from __future__ import annotations

from tests.attack.attempt import Attempt, Scene, each_attempt, is_changed
from tests.attack.conftest import Arena

GIT = "env GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null git -c user.name=o -c user.email=o@o"
TRAP = "printf '#!/bin/sh\\n: > %s/victim/ran\\n' $OUT > $ROOT/trap; chmod 755 $ROOT/trap"
"""A program that shows that somebody outside has run it."""
MONITOR = "[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = $ROOT/trap\\n"
STATUS = f"cd $ROOT; {GIT} status || true; {GIT} commit --allow-empty -m x || true"
"""What the owner does."""

OWN = f"cd $ROOT; {GIT} init -q . && touch file && {GIT} add file"
LINKED = (
    f"mkdir $SECOND/main; cd $SECOND/main; {GIT} init -q . && {GIT} commit -q --allow-empty -m x &&"
    f" {GIT} worktree add -q $ROOT/tree"
)


def _attempt(
    name: str, script: str, owner: str = OWN, *, look: str = STATUS, profile: str = "strict"
) -> Attempt:
    return Attempt(
        name,
        f"{TRAP}; cd $ROOT; {script}",
        is_changed,
        profile=profile,
        host_script=owner,
        afterwards=look,
        is_alone=True,
    )


REPOSITORIES = [
    _attempt("a hook in the repository", "cp trap .git/hooks/pre-commit"),
    _attempt("a setting of the repository", "git config core.fsmonitor $ROOT/trap"),
    _attempt("a setting that replaces another file", f'printf "{MONITOR}" > config; mv config .git/config'),
    _attempt(
        "another repository in the place of the old one",
        "mv .git old || rm -rf .git; git init -q .; git config core.fsmonitor $ROOT/trap",
    ),
    _attempt(
        "an exchange with another repository",
        "git init -q other; git -C other config core.fsmonitor $ROOT/trap;"
        " $PROBE exchange other/.git $ROOT/.git",
    ),
    _attempt(
        "a link in the place of the repository",
        "git init -q other; git -C other config core.fsmonitor $ROOT/trap;"
        " mv .git old; ln -s other/.git .git",
    ),
    _attempt("a setting through another name of the file", f'ln .git/config name; printf "{MONITOR}" > name'),
    _attempt(
        "a setting through a descriptor that was opened for reading",
        f'exec 5< .git/config; printf "{MONITOR}" > /proc/self/fd/5',
    ),
    _attempt(
        "a setting in the file of one worktree",
        f'git config extensions.worktreeConfig true; printf "{MONITOR}" > .git/config.worktree',
    ),
    _attempt(
        "a common directory elsewhere",
        f"git init -q other; git -C other config core.fsmonitor $ROOT/trap; echo {'$ROOT'}/other/.git"
        " > .git/commondir",
    ),
    _attempt(
        "the mode of the repository and then a setting",
        f'chmod -R u+w .git; printf "{MONITOR}" > .git/config',
    ),
    _attempt(
        "a repository where there was none",
        "git init -q .; git config core.fsmonitor $ROOT/trap",
        owner="true",
    ),
    _attempt(
        "a repository where there was none, made elsewhere and moved",
        "mkdir d; cd d; git init -q .; git config core.fsmonitor $ROOT/trap; mv .git $ROOT/",
        owner="true",
    ),
    _attempt(
        "a file that points to a repository where there was none",
        "git init -q --separate-git-dir=$ROOT/hidden d; git -C d config core.fsmonitor $ROOT/trap;"
        " echo gitdir: $ROOT/hidden > .git",
        owner="true",
    ),
    _attempt(
        "a repository by the name that Paddock keeps one under",
        "git init -q d; git -C d config core.fsmonitor $ROOT/trap; mv d/.git .git-paddock;"
        " mv .git-paddock .git",
        owner="true",
    ),
    _attempt(
        "the repository of a directory above the project",
        "cd ..; git init -q .; git config core.fsmonitor $ROOT/trap",
        owner="true",
    ),
]


def _has_instructions(scene: Scene) -> bool:
    root = scene.cell.inside.parent
    names = (".codex", ".agents", ".aws", ".paddock")
    return any((root / name).exists() for name in names)


INSTRUCTIONS = [
    Attempt(
        "instructions for agents, credentials and settings of Paddock",
        "cd $ROOT; for d in .codex .agents .aws .paddock; do mkdir $d; echo x > $d/config; done",
        _has_instructions,
        is_alone=True,
    ),
    Attempt(
        "instructions that are made elsewhere and moved",
        "mkdir d; echo x > d/config; for d in .codex .agents .aws .paddock; do mv d $ROOT/$d && break; done",
        _has_instructions,
        is_alone=True,
    ),
    Attempt(
        "links to instructions",
        "mkdir d; for d in .codex .agents .aws .paddock; do ln -s $PWD/d $ROOT/$d; done",
        _has_instructions,
        is_alone=True,
    ),
    Attempt(
        "instructions that are files",
        "for d in .codex .agents .aws .paddock; do echo x > $ROOT/$d; done",
        _has_instructions,
        is_alone=True,
    ),
]

BARE = (
    "mkdir -p objects refs; echo ref: refs/heads/x > HEAD;"
    f' printf "{MONITOR}\\tbare = false\\n\\tworktree = $ROOT\\n" > config'
)

NOT_ITS_OWN = [
    _attempt("a bare repository in the project itself", BARE, owner="true"),
    _attempt("a bare repository beside one with an empty HEAD", BARE, owner=f"{OWN}; : > .git/HEAD"),
    _attempt("a bare repository beside one without refs", BARE, owner=f"{OWN}; rm -r .git/refs"),
    _attempt(
        "the repository of a second root",
        "git -C $SECOND config core.fsmonitor $ROOT/trap",
        owner=f"cd $SECOND; {GIT} init -q . && touch file && {GIT} add file",
        look=f"cd $SECOND; {GIT} status || true",
        profile="second",
    ),
    _attempt(
        "a repository in a second root that had none",
        "git init -q $SECOND; git -C $SECOND config core.fsmonitor $ROOT/trap",
        owner="true",
        look=f"cd $SECOND; {GIT} status || true",
        profile="second",
    ),
    _attempt(
        "the common directory of a linked worktree",
        "git -C $SECOND/main config core.fsmonitor $ROOT/trap",
        owner=f"{LINKED}; cp $ROOT/tree/.git $ROOT/.git",
        look=f"cd $ROOT; {GIT} status || true",
        profile="second",
    ),
    _attempt(
        "the file by which a submodule finds its repository",
        "git init -q other; git -C other config core.fsmonitor $ROOT/trap;"
        " echo gitdir: $ROOT/other/.git > module/.git",
        owner=(
            f"mkdir $SECOND/m; cd $SECOND/m; {GIT} init -q . && {GIT} commit -q --allow-empty -m x;"
            f" {OWN}; {GIT} -c protocol.file.allow=always submodule --quiet add $SECOND/m module"
        ),
        look=f"cd $ROOT; {GIT} status || true; {GIT} diff || true; cd module; {GIT} status || true",
    ),
    _attempt(
        "the repository of a submodule",
        "git -C module config core.fsmonitor $ROOT/trap",
        owner=(
            f"mkdir $SECOND/m; cd $SECOND/m; {GIT} init -q . && {GIT} commit -q --allow-empty -m x;"
            f" {OWN}; {GIT} -c protocol.file.allow=always submodule --quiet add $SECOND/m module"
        ),
        look=f"cd $ROOT; {GIT} status || true; cd module; {GIT} status || true",
    ),
]


@each_attempt(REPOSITORIES)
def test_git_of_the_owner_runs_nothing_that_a_command_left(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, REPOSITORIES, user)


@each_attempt(INSTRUCTIONS)
def test_command_leaves_no_instructions(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, INSTRUCTIONS, user)


@each_attempt(NOT_ITS_OWN)
def test_git_runs_nothing_from_repositories_around_the_project(
    attempt: Attempt, user: int, arena: Arena
) -> None:
    arena.judge(attempt, NOT_ITS_OWN, user)

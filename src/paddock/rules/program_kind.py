"""Programs that are more than they seem: those that run other programs or code. Pure.

The lists can't be complete. They keep people from allowing too much by accident; nothing that is
enforced depends on them.
"""

from __future__ import annotations

# Packed, because people read each list as a whole.
# fmt: off
SHELLS = frozenset({
    "ash", "bash", "cmd", "csh", "dash", "fish", "ksh", "mksh", "powershell", "pwsh", "rbash", "sh",
    "tcsh", "xonsh", "zsh",
})

INTERPRETERS = frozenset({
    "awk", "bun", "deno", "elixir", "erl", "expect", "gawk", "gdb", "ghci", "gjs", "groovy", "guile", "iex",
    "ipython", "irb", "java", "jshell", "julia", "lua", "luajit", "mawk", "node", "nodejs", "ocaml",
    "octave", "osascript", "perl", "php", "pypy", "python", "qjs", "R", "racket", "Rscript", "ruby",
    "runghc", "sbcl", "scala", "sqlite3", "tclsh", "ts-node", "tsx", "wish",
})

PRIVILEGED = frozenset({
    "chroot", "doas", "machinectl", "nsenter", "pkexec", "run0", "runuser", "setpriv", "su", "sudo",
    "systemd-run",
})
"""They run another program with other rights."""

OPEN_ENDED = frozenset({
    "eval", "find", "flock", "parallel", "script", "ssh", "watch",
})
"""They run a program that any later argument may name."""

LAUNCHERS = frozenset({
    "busybox", "chrt", "command", "env", "exec", "firejail", "ionice", "nice", "nohup", "setsid", "stdbuf",
    "strace", "taskset", "time", "timeout", "toybox", "unshare", "xargs",
})
"""They run the program that their first argument names."""

BROAD = frozenset({
    "aws", "chmod", "chown", "curl", "dd", "docker", "gcloud", "gh", "git", "hatch", "kubectl", "make",
    "npm", "npx", "pdm", "pip", "pipenv", "pipx", "pixi", "pnpm", "podman", "poetry", "rm", "uv", "uvx",
    "wget", "yarn",
})
"""A subcommand or an operand decides whether these are harmless or harmful."""

SCRIPT_RUNNERS = frozenset({
    "bun", "hatch", "npm", "pdm", "pipenv", "pipx", "pixi", "pnpm", "poetry", "uv", "yarn",
})
SCRIPT_RUNNER_VERBS = frozenset({"dlx", "exec", "run", "x"})
"""After a program of SCRIPT_RUNNERS, these verbs run scripts that a project names."""

BUILTINS = frozenset({
    ".", ":", "[", "alias", "bg", "break", "cd", "continue", "declare", "dirs", "disown", "echo", "eval",
    "exit", "export", "false", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "local",
    "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set",
    "shift", "shopt", "source", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask",
    "unalias", "unset", "wait",
})
"""Commands that bash carries out itself, without starting a program."""
# fmt: on

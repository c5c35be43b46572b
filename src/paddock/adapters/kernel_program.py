"""A persistent Python interpreter: runs pieces of code in one namespace, and answers with the result of each.

Paddock sends this file unchanged to a sandbox and runs it there with `python -c`, so it needs only the
standard library. A request is a line of JSON with `code` and a `mark`; the answer is a line that begins with
the mark, after everything that the code has written.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import traceback
from typing import Any

FINAL_ANSWER = "FinalAnswerException"


def run(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run a piece of code. If it ends with an expression, the result is that expression's value."""
    try:
        tree = ast.parse(code, "<code>")
        last = tree.body.pop() if tree.body else ast.Pass()
        if not isinstance(last, ast.Expr):
            tree.body.append(last)
        exec(compile(tree, "<code>", "exec"), names)
        if not isinstance(last, ast.Expr):
            return {"value": None}
        value = eval(compile(ast.Expression(last.value), "<code>", "eval"), names)
        return {"value": None if value is None else repr(value)}
    except BaseException as error:  # SystemExit and KeyboardInterrupt end the code and not the interpreter.
        if type(error).__name__ == FINAL_ANSWER:
            return {"final": getattr(error, "value", "")}
        frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
        text = "".join(traceback.format_exception(type(error), error, frames))
        return {"error": text}


def main() -> None:
    """Answer requests until there are no more."""
    # The code gets no input, or it would read the requests, and one stream for all that it writes.
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(1, 2)
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    for line in requests:
        request = json.loads(line)
        answer = run(request["code"], names)
        sys.stdout.flush()
        sys.stderr.flush()
        rest = f"{request['mark']} {json.dumps(answer)}\n".encode()
        while rest:
            rest = rest[os.write(1, rest) :]


if __name__ == "__main__":
    main()

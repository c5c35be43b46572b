"""The strings below fields and constants, which Python itself forgets, read from the source."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from itertools import pairwise
from types import ModuleType


def one_line(text: str) -> str:
    """The text of a docstring on one line."""
    return " ".join(text.split())


def paragraphs(described: object) -> list[str]:
    """The paragraphs of the docstring of a class or function, each on one line."""
    return [one_line(part) for part in inspect.cleandoc(described.__doc__ or "").split("\n\n")]


def summary(described: object) -> str:
    """The whole docstring of a class or function."""
    return "\n\n".join(paragraphs(described))


def field_meanings(kind: type) -> dict[str, str]:
    """The meaning of each field of a class that has one, base classes included."""
    meanings: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        module = inspect.getmodule(base)
        if module is not None and module.__name__.startswith("paddock."):
            meanings |= _class_meanings(module).get(base.__name__, {})
    return meanings


def constant_meanings(module: ModuleType) -> dict[str, str]:
    """The meaning of each constant of a module that has one."""
    return _meanings(tree_of(module).body)


@cache
def tree_of(module: ModuleType) -> ast.Module:
    """Return the source of a module as a tree."""
    return ast.parse(inspect.getsource(module))


@cache
def _class_meanings(module: ModuleType) -> dict[str, dict[str, str]]:
    return {
        node.name: _meanings(node.body) for node in tree_of(module).body if isinstance(node, ast.ClassDef)
    }


def _meanings(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for statement, following in pairwise(body):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                pass
            case _:
                continue
        match following:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                found[name] = one_line(inspect.cleandoc(text))
    return found

"""docs/reference/python.md: every public name of the package, from its source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module

import paddock
from scripts.reference.docstring import constant_meanings, one_line, tree_of
from scripts.reference.markdown import anchor, code, document, table

INTRODUCTION = """\
Everything in `paddock.__all__`. `paddock.sync` is the same for programs that block: what is a coroutine or an
asynchronous iterator here is a plain call or loop there."""

AREAS = (
    ("Clients", "paddock.client"),
    ("Agents", "paddock.agent"),
    ("Servers", "paddock.server"),
    ("Settings", "paddock.config"),
    ("Errors", "paddock.errors"),
    ("Values", "paddock"),
)
"""The title of each part, and the package whose names are in it; the first that fits counts."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def page() -> str:
    """The whole page."""
    homes = {name: home for home, names in paddock._HOMES.items() for name in names}
    parts: dict[str, list[str]] = {title: [] for title, _ in AREAS}
    for name in sorted(homes, key=str.lower):
        area = next(title for title, package in AREAS if f"{homes[name]}.".startswith(f"{package}."))
        parts[area].append(name)
    sections = []
    for title, names in parts.items():
        sections.append(f"## {title}\n\n" + " · ".join(f"[{code(name)}]({anchor(name)})" for name in names))
        sections += [_section(name, homes[name]) for name in names]
    return document("Python API", INTRODUCTION, *sections)


def _section(name: str, home: str) -> str:
    described = getattr(paddock, name)
    # A name may come from a module that gathers others.
    module = import_module(getattr(described, "__module__", None) or home)
    node = _definition(name, module.__name__) or _definition(name, home)
    parts = [f"### {name}"]
    match node:
        case ast.ClassDef():
            bases = [ast.unparse(base) for base in node.bases if not isinstance(base, ast.Subscript)]
            # How a value is made is no business of its reader.
            bases = [base for base in bases if base != "Struct"]
            parts.append(code(f"class {name}({', '.join(bases)})" if bases else f"class {name}"))
            parts.append(_docstring(node))
            parts.append(table(("field", "type", "meaning"), _fields(node)))
            parts += [_method(method) for method in _methods(node)]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            parts.append(code(_signature(node)))
            parts.append(_docstring(node))
        case _:
            parts.append(constant_meanings(import_module(home)).get(name, ""))
    return "\n\n".join(part for part in parts if part)


def _definition(name: str, module: str) -> ast.stmt | None:
    for node in tree_of(import_module(module)).body:
        if isinstance(node, ast.ClassDef | Function) and node.name == name:
            return node
    return None


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if not name.startswith("_"):
                kind = ast.unparse(annotation)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("_"):
                kind = ast.unparse(value)
            case _:
                continue
        match following:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                meaning = one_line(inspect.cleandoc(text))
            case _:
                meaning = ""
        yield code(name), code(kind), meaning


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    for each in node.body:
        if not isinstance(each, Function) or each.name.startswith("_"):
            continue
        decorators = {ast.unparse(decorator) for decorator in each.decorator_list}
        if not decorators & {"overload", "abstractmethod"}:
            yield each


def _method(node: Function) -> str:
    text = ast.get_docstring(node) or ""
    return f"- {code(_signature(node))}\n\n  {one_line(text)}" if text else f"- {code(_signature(node))}"


def _signature(node: Function) -> str:
    if any(ast.unparse(decorator) in ("property", "cached_property") for decorator in node.decorator_list):
        return f"{node.name}: {ast.unparse(node.returns)}" if node.returns is not None else node.name
    arguments = ast.unparse(node.args).removeprefix("self, ").removeprefix("cls, ")
    arguments = "" if arguments in ("self", "cls") else arguments
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    returned = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{prefix}{node.name}({arguments}){returned}"


def _docstring(node: ast.ClassDef | Function) -> str:
    return "\n\n".join(one_line(part) for part in (ast.get_docstring(node) or "").split("\n\n"))

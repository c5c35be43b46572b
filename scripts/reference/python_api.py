"""docs/reference/python.md: every public name of the package, from its source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from importlib import import_module

import paddock
from scripts.reference.docstring import constant_meanings, one_line, tree_of
from scripts.reference.markdown import anchor, code, document, fence, table

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

CONSTRUCTED = frozenset({"Agent", "ConsoleApprover", "FakeExecutor", "TerminalApprover", "Workspace"})
"""Classes with a constructor for callers. Paddock makes the objects of the others."""

OWN_METHODS = frozenset(
    {
        *("EventReader.put", "Process.is_handle_of", "Server.open", "Server.quiet", "Server.spawner_lost"),
        *("Watch.lose", "Watch.receive"),
    }
)
"""Methods that only Paddock itself calls, across its modules."""

FRAGMENT = "<!-- not run: a part of a program -->"
"""What tells the tests, which run the examples of every page, to leave the next one out."""

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
            maker = _constructor(node)
            if name in CONSTRUCTED and maker is not None:
                parts.append(code(_signature(maker).replace("__init__", name).removesuffix(" -> None")))
            parts.append(_docstring(node))
            is_error = isinstance(described, type) and issubclass(described, BaseException)
            attributes = _attributes(maker) if is_error and maker is not None else ()
            parts.append(table(("field", "type", "meaning"), [*_fields(node), *attributes]))
            parts += [_method(each) for each in _methods(node) if f"{name}.{each.name}" not in OWN_METHODS]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            parts.append(code(_signature(node)))
            parts.append(_docstring(node))
        case _:
            parts.append(code(f"{name} = {_value(name, home)}"))
            parts.append(constant_meanings(import_module(home)).get(name, ""))
    return "\n\n".join(part for part in parts if part)


def _definition(name: str, module: str) -> ast.stmt | None:
    for node in tree_of(import_module(module)).body:
        if isinstance(node, ast.ClassDef | Function) and node.name == name:
            return node
    return None


def _value(name: str, module: str) -> str:
    for node in tree_of(import_module(module)).body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=each), value=ast.expr() as value) if each == name:
                return ast.unparse(value)
    raise ValueError(f"{module} does not declare {name} with its type")


def _constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    makers = (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    return next(makers, None)


def _attributes(maker: ast.FunctionDef) -> Iterator[tuple[str, str, str]]:
    """What an error holds: the arguments that its constructor keeps under their own names."""
    kept = {each.attr for each in ast.walk(maker) if isinstance(each, ast.Attribute)}
    for argument in (*maker.args.args, *maker.args.kwonlyargs):
        if argument.arg in kept and argument.annotation is not None:
            yield code(argument.arg), code(ast.unparse(argument.annotation)), ""


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
    return "\n\n".join(map(_paragraph, (ast.get_docstring(node) or "").split("\n\n")))


def _paragraph(text: str) -> str:
    """A paragraph on one line, and an indented one as a block of code that need not be whole."""
    if not text.startswith("    "):
        return one_line(text)
    return f"{FRAGMENT}\n\n{fence(textwrap.dedent(text), 'python')}"

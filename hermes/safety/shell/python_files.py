"""Files that a Python text opens anew, and whether anything is written into them."""

import ast
from collections.abc import Collection, Iterator

from hermes.safety.shell.words import words

_LEAVING = frozenset({"close", "flush", "truncate"})
"""Methods of a file that put nothing into it."""


_INERT = words(
    """
    json re math cmath random statistics string textwrap datetime time calendar zoneinfo collections itertools functools
    operator dataclasses typing enum decimal fractions numbers copy pprint hashlib hmac base64 binascii uuid bisect
    heapq difflib unicodedata html abc contextlib types warnings colorsys secrets struct sys __future__ collections.abc
    """
)
_REACHING = words(
    "open exec eval compile __import__ getattr setattr vars globals locals breakpoint help __builtins__ __loader__"
)


def touches_nothing(tree: ast.AST) -> bool:
    """Whether a program can only compute and print: the paths that stand in it are words."""
    return not any(map(_reaches, ast.walk(tree)))


def _reaches(node: ast.AST) -> bool:
    match node:
        case ast.Import():
            return any(alias.name not in _INERT for alias in node.names)
        case ast.ImportFrom():
            return bool(node.level) or node.module not in _INERT
        case ast.Name():
            return node.id in _REACHING
        case ast.Attribute():
            return node.attr.startswith("__") or node.attr in ("modules", "_getframe")
    return False


def left_empty(tree: ast.AST, opened: Collection[ast.Call]) -> bool:
    """Whether nothing is put into any of the files that these calls open: they are emptied.

    A file that is handed to anything else may be filled by that.
    """
    nodes = list(ast.walk(tree))
    placed, names = _held(nodes, opened)
    if placed is None:
        return False
    idle = {id(one) for one in _idle(nodes)}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names and id(node) not in idle:
            return False
    return all(id(one) in placed or id(one) in idle for one in opened)


def _held(nodes: Collection[ast.AST], opened: Collection[ast.Call]) -> tuple[set[int] | None, set[str]]:
    """The calls that stand alone or are given a name, and those names; None where a name cannot be followed."""
    wanted = {id(one) for one in opened}
    placed: set[int] = set()
    names: set[str] = set()
    for node in nodes:
        match node:
            case ast.Expr(value=value) if id(value) in wanted:
                placed.add(id(value))
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if id(value) in wanted:
                placed.add(id(value))
                names.add(name)
            case ast.withitem(context_expr=value, optional_vars=target) if id(value) in wanted:
                if target is not None and not isinstance(target, ast.Name):
                    return None, names
                placed.add(id(value))
                names |= {target.id} if isinstance(target, ast.Name) else set()
    return placed, names


def _idle(nodes: Collection[ast.AST]) -> Iterator[ast.expr]:
    """What only such methods are called of that write nothing."""
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        empty = all(isinstance(one, ast.Constant) and not one.value for one in node.args)
        if node.func.attr in _LEAVING or (node.func.attr.startswith("write") and empty):
            yield node.func.value

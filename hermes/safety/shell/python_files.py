"""Finds files that a Python text opens for writing and leaves empty."""

import ast
from collections.abc import Collection, Iterator

from hermes.safety.shell.words import word_set

_EMPTY_METHODS = frozenset({"close", "flush", "truncate"})
"""Methods of a file that write nothing into it."""


_COMPUTING_MODULES = word_set(
    """
    json re math cmath random statistics string textwrap datetime time calendar zoneinfo collections itertools functools
    operator dataclasses typing enum decimal fractions numbers copy pprint hashlib hmac base64 binascii uuid bisect
    heapq difflib unicodedata html abc contextlib types warnings colorsys secrets struct sys __future__ collections.abc
    """
)
_REACHING_NAMES = word_set(
    "open exec eval compile __import__ getattr setattr vars globals locals breakpoint help __builtins__ __loader__"
)


def is_pure_computation(tree: ast.AST) -> bool:
    """Return whether a program can only compute and print, so that the paths in it are mere text."""
    return not any(map(_is_reaching_out, ast.walk(tree)))


def _is_reaching_out(node: ast.AST) -> bool:
    match node:
        case ast.Import():
            return any(alias.name not in _COMPUTING_MODULES for alias in node.names)
        case ast.ImportFrom():
            return bool(node.level) or node.module not in _COMPUTING_MODULES
        case ast.Name():
            return node.id in _REACHING_NAMES
        case ast.Attribute():
            return node.attr.startswith("__") or node.attr in ("modules", "_getframe")
    return False


def is_left_empty(tree: ast.AST, opened: Collection[ast.Call]) -> bool:
    """Return whether nothing is written into any of the files that these calls open: they are emptied.

    A file that is handed to anything else may be filled by that.
    """
    nodes = list(ast.walk(tree))
    placed, names = _find_bound_names(nodes, opened)
    if placed is None:
        return False
    idle = {id(one) for one in _iter_idle_receivers(nodes)}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names and id(node) not in idle:
            return False
    return all(id(one) in placed or id(one) in idle for one in opened)


def _find_bound_names(nodes: Collection[ast.AST], opened: Collection[ast.Call]) -> tuple[set[int] | None, set[str]]:
    """Return the calls that are not nested or are assigned to a name, and those names; None where a name
    cannot be followed.
    """
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


def _iter_idle_receivers(nodes: Collection[ast.AST]) -> Iterator[ast.expr]:
    """Yield expressions on which only methods are called that write nothing."""
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        empty = all(isinstance(one, ast.Constant) and not one.value for one in node.args)
        if node.func.attr in _EMPTY_METHODS or (node.func.attr.startswith("write") and empty):
            yield node.func.value

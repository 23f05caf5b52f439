"""Evaluates expressions of a Python program text, as far as they are constant: names, texts, paths, sizes."""

import ast
from collections.abc import Callable, Sequence

from hermes.safety.shell.scripts import decode_base64_text
from hermes.safety.shell.words import word_set

_MAX_TEXT = 20_000
_STAR_IMPORTS = {
    "os": "system popen remove unlink rmdir removedirs rename replace truncate kill killpg fork execv execvp chmod "
    "chown environ getenv spawnl spawnlp symlink link",
    "os.path": "expanduser join abspath",
    "subprocess": "run call check_call check_output Popen getoutput getstatusoutput",
    "shutil": "rmtree move copy copyfile copy2 copytree chown",
    "pathlib": "Path PosixPath",
    "socket": "socket create_connection",
    "urllib.request": "urlopen urlretrieve Request",
    "requests": "get post put delete patch request",
}
"""The relevant names that `from MODULE import *` brings."""
_PATH_CALLS = ("Path", "PosixPath", "expanduser", "abspath", "realpath", "resolve", "expandvars", "absolute")
_HUGE_SIZE = 1 << 32
"""Bytes or elements that no program makes at once without taking the machine's memory."""
_SIZED_TYPES = word_set("bytearray bytes list tuple set")


class PythonValues:
    """The known names and constants of a program text, followed through imports and simple assignments."""

    def __init__(self, given: Sequence[str]) -> None:
        self.given = given
        self.names: dict[str, str] = {}
        self.texts: dict[str, str] = {}

    def add_star_import(self, module: str) -> None:
        """Record the names that `from module import *` brings."""
        for name in _STAR_IMPORTS.get(module, "").split():
            self.names[name] = f"{module}.{name}"

    def dotted_name(self, node: ast.expr) -> str:
        """Return the full name of an expression, imports resolved; empty when it has none."""
        match node:
            case ast.Name(id=name):
                return self.names.get(name, name)
            case ast.Attribute(value=value, attr=attr):
                return f"{self.dotted_name(value) or '?'}.{attr}"
            case ast.Call(func=func, args=args):
                return self._call_name(self.dotted_name(func), args)
            case ast.Subscript(value=value, slice=inner):
                return self._lookup_name(self.dotted_name(value), self.constant_text(inner))
            case _:
                return ""

    def _lookup_name(self, name: str, key: str | None) -> str:
        """Return the name for `sys.modules["os"]` or `os.__dict__["system"]`."""
        if key is None:
            return ""
        if name == "sys.modules":
            return key
        return f"{name.removesuffix('.__dict__')}.{key}" if name.endswith(".__dict__") else ""

    def _call_name(self, name: str, args: Sequence[ast.expr]) -> str:
        if name in ("__import__", "importlib.import_module") and args:
            return self.constant_text(args[0]) or "?"
        if name == "getattr" and len(args) > 1:
            return f"{self.dotted_name(args[0])}.{self.constant_text(args[1]) or '?'}"
        return name + "()" if name.endswith("Path") else "?"

    def constant_text(self, node: ast.expr | None) -> str | None:
        """Return the constant text of an expression, or None."""
        match node:
            case ast.Constant(value=str(value)):
                return value
            case ast.Constant(value=bytes(data)):
                return data.decode("utf-8", "replace")
            case ast.Name(id=name):
                return self.texts.get(name)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _concatenate_texts([self.constant_text(left), self.constant_text(right)], "")
            case ast.JoinedStr(values=values):
                inner = [one.value if isinstance(one, ast.FormattedValue) else one for one in values]
                return _concatenate_texts([self.constant_text(one) for one in inner], "")
            case ast.Subscript(value=value, slice=inner):
                return self._sliced_text(value, inner)
            case ast.Call():
                return self._computed_text(node)
            case _:
                return None

    def _sliced_text(self, value: ast.expr, inner: ast.expr) -> str | None:
        if self.dotted_name(value) == "sys.argv":
            at = inner.value if isinstance(inner, ast.Constant) and isinstance(inner.value, int) else 0
            return self.given[at - 1] if 0 < at <= len(self.given) else None
        text = self.constant_text(value)
        if text is not None and isinstance(inner, ast.Slice) and inner.step is not None:
            return text[::-1] if inner.lower is None and inner.upper is None else None
        return None

    def _computed_text(self, node: ast.Call) -> str | None:
        name, args = self.dotted_name(node.func), node.args
        if name == "chr" and args:
            number = constant_number(args[0])
            return chr(number) if number is not None and 0 < number < 0x110000 else None
        decoder = _DECODERS.get(name)
        if decoder is not None and args:
            text = self.constant_text(args[0])
            return decoder(text) if text is not None else None
        if not isinstance(node.func, ast.Attribute):
            return None
        inner = self.constant_text(node.func.value)
        return self._method_text(inner, node.func.attr, args) if inner is not None else None

    def _method_text(self, text: str, method: str, args: Sequence[ast.expr]) -> str | None:
        match method, len(args):
            case ("format", 0) | (("decode" | "encode" | "strip" | "rstrip" | "lstrip"), _):
                return text
            case ("lower", 0):
                return text.lower()
            case ("upper", 0):
                return text.upper()
            case ("join", 1) if isinstance(args[0], ast.List | ast.Tuple):
                return _concatenate_texts([self.constant_text(one) for one in args[0].elts], text)
            case ("replace", 2) if len(text) < _MAX_TEXT:
                old, new = self.constant_text(args[0]), self.constant_text(args[1])
                return text.replace(old, new) if old and new is not None else None
            case _:
                return None

    def constant_path(self, node: ast.expr | None) -> str | None:
        """Return the path that an expression names, or None."""
        if node is None:
            return None
        text = self.constant_text(node)
        if text is not None:
            return text
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add):
            return _concatenate_texts([self.constant_path(node.left), self.constant_path(node.right)], "/")
        return self._path_of_call(node) if isinstance(node, ast.Call) else None

    def _path_of_call(self, node: ast.Call) -> str | None:
        name = self.dotted_name(node.func)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name.endswith("Path.home"):
            return "~"
        if name.endswith("path.join"):
            return _concatenate_texts([self.constant_path(one) for one in node.args], "/")
        if name.endswith(".joinpath") and owner is not None:
            return _concatenate_texts([self.constant_path(one) for one in (owner, *node.args)], "/")
        if name.endswith(_PATH_CALLS):
            inner = node.args[0] if node.args else owner
            return self.constant_path(inner) if inner is not None else "."
        return None

    def is_huge(self, node: ast.BinOp | ast.Call) -> bool:
        """Return whether an expression allocates more than a machine's memory."""
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            made = any(isinstance(one, ast.List | ast.Tuple) or self.constant_text(one) for one in sides)
            return made and any(map(_is_huge, sides))
        name = self.dotted_name(node.func)
        if name not in _SIZED_TYPES or not node.args:
            return False
        inner = node.args[-1]
        if isinstance(inner, ast.Call):
            return self.dotted_name(inner.func) == "range" and bool(inner.args) and _is_huge(inner.args[-1])
        return _is_huge(inner)


def _is_huge(node: ast.expr) -> bool:
    return (constant_number(node) or 0) >= _HUGE_SIZE


def constant_number(node: ast.expr) -> int | None:
    """Return the number that a constant expression evaluates to, or None."""
    match node:
        case ast.Constant(value=int(value) | float(value)):
            return int(value) if abs(value) < 1e30 else 1 << 90
        case ast.BinOp(left=left, op=op, right=right):
            one, other = constant_number(left), constant_number(right)
            return None if one is None or other is None else _combine_numbers(op, one, other)
        case _:
            return None


def _combine_numbers(op: ast.operator, one: int, other: int) -> int | None:
    if isinstance(op, ast.Mult):
        return min(one * other, 1 << 90)
    if isinstance(op, ast.Add):
        return one + other
    if isinstance(op, ast.Pow | ast.LShift) and other >= 0:
        base = one if isinstance(op, ast.Pow) else 2
        grown = 1 << 90 if other > 90 and base > 1 else base**other
        return min(grown if isinstance(op, ast.Pow) else one * grown, 1 << 90)
    return None


def _concatenate_texts(parts: Sequence[str | None], separator: str) -> str | None:
    known = [part for part in parts if part is not None]
    text = separator.join(known) if len(known) == len(parts) else None
    return text if text is not None and len(text) < _MAX_TEXT else None


def _decode_hex(text: str) -> str | None:
    try:
        return bytes.fromhex(text).decode("utf-8", "replace")
    except ValueError:
        return None


_DECODERS: dict[str, Callable[[str], str | None]] = {
    "base64.b64decode": decode_base64_text,
    "base64.standard_b64decode": decode_base64_text,
    "base64.urlsafe_b64decode": decode_base64_text,
    "base64.decodebytes": decode_base64_text,
    "binascii.a2b_base64": decode_base64_text,
    "bytes.fromhex": _decode_hex,
    "bytearray.fromhex": _decode_hex,
    "binascii.unhexlify": _decode_hex,
    "binascii.a2b_hex": _decode_hex,
}

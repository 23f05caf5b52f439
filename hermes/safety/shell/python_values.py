"""What the expressions of a Python program text come to, as far as they are constant: names, texts, paths, sizes."""

import ast
from collections.abc import Callable, Sequence

from hermes.safety.shell.scripts import plain_base64
from hermes.safety.shell.words import words as word_set

_LONGEST = 20_000
_STARRED = {
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
"""What `from MODULE import *` brings, of that which matters."""
_PATH_CALLS = ("Path", "PosixPath", "expanduser", "abspath", "realpath", "resolve", "expandvars", "absolute")
_HUGE = 1 << 32
"""Bytes or elements that no program makes at once without taking the machine's memory."""
_SIZED = word_set("bytearray bytes list tuple set")


class Values:
    """Names and constants of a program text, followed through imports and simple assignments."""

    def __init__(self, given: Sequence[str]) -> None:
        self.given = given
        self.names: dict[str, str] = {}
        self.texts: dict[str, str] = {}

    def starred(self, module: str) -> None:
        """Take over what `from module import *` brings."""
        for name in _STARRED.get(module, "").split():
            self.names[name] = f"{module}.{name}"

    def dotted(self, node: ast.expr) -> str:
        """The full name that an expression stands for, imports resolved; empty when it has none."""
        match node:
            case ast.Name(id=name):
                return self.names.get(name, name)
            case ast.Attribute(value=value, attr=attr):
                return f"{self.dotted(value) or '?'}.{attr}"
            case ast.Call(func=func, args=args):
                return self._called(self.dotted(func), args)
            case ast.Subscript(value=value, slice=inner):
                return self._looked_up(self.dotted(value), self.text(inner))
            case _:
                return ""

    def _looked_up(self, name: str, key: str | None) -> str:
        """`sys.modules["os"]`, `os.__dict__["system"]`."""
        if key is None:
            return ""
        if name == "sys.modules":
            return key
        return f"{name.removesuffix('.__dict__')}.{key}" if name.endswith(".__dict__") else ""

    def _called(self, name: str, args: Sequence[ast.expr]) -> str:
        if name in ("__import__", "importlib.import_module") and args:
            return self.text(args[0]) or "?"
        if name == "getattr" and len(args) > 1:
            return f"{self.dotted(args[0])}.{self.text(args[1]) or '?'}"
        return name + "()" if name.endswith("Path") else "?"

    def text(self, node: ast.expr | None) -> str | None:
        """The constant text that an expression comes to."""
        match node:
            case ast.Constant(value=str(value)):
                return value
            case ast.Constant(value=bytes(data)):
                return data.decode("utf-8", "replace")
            case ast.Name(id=name):
                return self.texts.get(name)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _concatenated([self.text(left), self.text(right)], "")
            case ast.JoinedStr(values=values):
                inner = [one.value if isinstance(one, ast.FormattedValue) else one for one in values]
                return _concatenated([self.text(one) for one in inner], "")
            case ast.Subscript(value=value, slice=inner):
                return self._sliced(value, inner)
            case ast.Call():
                return self._computed(node)
            case _:
                return None

    def _sliced(self, value: ast.expr, inner: ast.expr) -> str | None:
        if self.dotted(value) == "sys.argv":
            at = inner.value if isinstance(inner, ast.Constant) and isinstance(inner.value, int) else 0
            return self.given[at - 1] if 0 < at <= len(self.given) else None
        text = self.text(value)
        if text is not None and isinstance(inner, ast.Slice) and inner.step is not None:
            return text[::-1] if inner.lower is None and inner.upper is None else None
        return None

    def _computed(self, node: ast.Call) -> str | None:
        name, args = self.dotted(node.func), node.args
        if name == "chr" and args:
            number = size(args[0])
            return chr(number) if number is not None and 0 < number < 0x110000 else None
        decoder = _DECODERS.get(name)
        if decoder is not None and args:
            text = self.text(args[0])
            return decoder(text) if text is not None else None
        if not isinstance(node.func, ast.Attribute):
            return None
        inner = self.text(node.func.value)
        return self._method(inner, node.func.attr, args) if inner is not None else None

    def _method(self, text: str, method: str, args: Sequence[ast.expr]) -> str | None:
        match method, len(args):
            case ("format", 0) | (("decode" | "encode" | "strip" | "rstrip" | "lstrip"), _):
                return text
            case ("lower", 0):
                return text.lower()
            case ("upper", 0):
                return text.upper()
            case ("join", 1) if isinstance(args[0], ast.List | ast.Tuple):
                return _concatenated([self.text(one) for one in args[0].elts], text)
            case ("replace", 2) if len(text) < _LONGEST:
                old, new = self.text(args[0]), self.text(args[1])
                return text.replace(old, new) if old and new is not None else None
            case _:
                return None

    def path(self, node: ast.expr | None) -> str | None:
        """The path that an expression names."""
        if node is None:
            return None
        text = self.text(node)
        if text is not None:
            return text
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add):
            return _concatenated([self.path(node.left), self.path(node.right)], "/")
        return self._path_called(node) if isinstance(node, ast.Call) else None

    def _path_called(self, node: ast.Call) -> str | None:
        name = self.dotted(node.func)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name.endswith("Path.home"):
            return "~"
        if name.endswith("path.join"):
            return _concatenated([self.path(one) for one in node.args], "/")
        if name.endswith(".joinpath") and owner is not None:
            return _concatenated([self.path(one) for one in (owner, *node.args)], "/")
        if name.endswith(_PATH_CALLS):
            inner = node.args[0] if node.args else owner
            return self.path(inner) if inner is not None else "."
        return None

    def huge(self, node: ast.BinOp | ast.Call) -> bool:
        """Whether an expression makes more than a machine's memory holds."""
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            made = any(isinstance(one, ast.List | ast.Tuple) or self.text(one) for one in sides)
            return made and any(map(_is_huge, sides))
        name = self.dotted(node.func)
        if name not in _SIZED or not node.args:
            return False
        inner = node.args[-1]
        if isinstance(inner, ast.Call):
            return self.dotted(inner.func) == "range" and bool(inner.args) and _is_huge(inner.args[-1])
        return _is_huge(inner)


def _is_huge(node: ast.expr) -> bool:
    return (size(node) or 0) >= _HUGE


def size(node: ast.expr) -> int | None:
    """The number that an expression of constants comes to."""
    match node:
        case ast.Constant(value=int(value) | float(value)):
            return int(value) if abs(value) < 1e30 else 1 << 90
        case ast.BinOp(left=left, op=op, right=right):
            one, other = size(left), size(right)
            return None if one is None or other is None else _combined(op, one, other)
        case _:
            return None


def _combined(op: ast.operator, one: int, other: int) -> int | None:
    if isinstance(op, ast.Mult):
        return min(one * other, 1 << 90)
    if isinstance(op, ast.Add):
        return one + other
    if isinstance(op, ast.Pow | ast.LShift) and other >= 0:
        base = one if isinstance(op, ast.Pow) else 2
        grown = 1 << 90 if other > 90 and base > 1 else base**other
        return min(grown if isinstance(op, ast.Pow) else one * grown, 1 << 90)
    return None


def _concatenated(parts: Sequence[str | None], separator: str) -> str | None:
    known = [part for part in parts if part is not None]
    text = separator.join(known) if len(known) == len(parts) else None
    return text if text is not None and len(text) < _LONGEST else None


def _hex(text: str) -> str | None:
    try:
        return bytes.fromhex(text).decode("utf-8", "replace")
    except ValueError:
        return None


_DECODERS: dict[str, Callable[[str], str | None]] = {
    "base64.b64decode": plain_base64,
    "base64.standard_b64decode": plain_base64,
    "base64.urlsafe_b64decode": plain_base64,
    "base64.decodebytes": plain_base64,
    "binascii.a2b_base64": plain_base64,
    "bytes.fromhex": _hex,
    "bytearray.fromhex": _hex,
    "binascii.unhexlify": _hex,
    "binascii.a2b_hex": _hex,
}

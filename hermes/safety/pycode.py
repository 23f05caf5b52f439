"""What a Python program text would do, by its syntax tree."""

import ast
import re
from collections.abc import Sequence

from hermes.safety.code import Code, plain_base64
from hermes.safety.loading import LOADED

_SPAWNS = re.compile(
    r"(os\.(system|popen\w*|exec\w+|spawn\w+|posix_spawn\w*|startfile)|subprocess\.\w+|pty\.(spawn|fork)|commands\.\w+|"
    r"asyncio\.create_subprocess_\w+|pexpect\.\w+|sh\.\w+|fabric\.\w+|runpy\.\w+|multiprocessing\.\w+|"
    r"webbrowser\.open\w*)$"
)
_DELETES = re.compile(
    r"(shutil\.(rmtree|move)|os\.(remove|unlink|rmdir|removedirs|truncate|rename|renames|replace)|(^|"
    r".*\.)(unlink|rmdir|rmtree|rename|touch_none)|send2trash\.\w+)$"
)
_CHANGES = re.compile(
    r"(os\.(chmod|chown|lchown|link|symlink|mkfifo|mknod|chroot|setuid|setgid|setresuid|seteuid|setegid|kill|"
    r"killpg|abort|fork|forkpty|"
    r"putenv|setxattr|ptrace|mount)|signal\.pthread_kill|shutil\.(chown|copy\w*|unpack_archive|make_archive)|"
    r"ctypes\.\w+(\.\w+)*|resource\.setrlimit|.*\.(chmod|symlink_to|hardlink_to))$"
)
_FETCHES = re.compile(
    r"(urllib\.request\.(urlopen|urlretrieve|Request)|urllib2?\.urlopen|urlopen|urlretrieve|(requests|"
    r"httpx2?)\.(get|head|options|Session|Client|request)|"
    r"aiohttp\.\w+|http\.client\.\w+|wget\.\w+|urllib3\.\w+)$"
)
_SENDS = re.compile(
    r"((requests|httpx2?)\.(post|put|patch|delete|request)|socket\.(socket|create_connection|getaddrinfo|"
    r"gethostbyname)|smtplib\.\w+|ftplib\.\w+|paramiko\.\w+|telnetlib\.\w+|.*\.(sendall|sendto|sendmail|storbinary))$"
)
_EVALUATES = re.compile(
    r"(exec|eval|compile|__import__|builtins\.(exec|eval|__import__)|marshal\.loads|pickle\.loads?|"
    r"importlib\.\w+|codecs\.decode|types\.(FunctionType|CodeType)|code\.\w+|zlib\.decompress|dill\.loads)$"
)
_DECODES = re.compile(r"(base64\.\w*decode\w*|bytes\.fromhex|binascii\.\w+|codecs\.decode|zlib\.decompress)$")
_URL = re.compile(r"^https?://([\w.-]+)")
_WRITING = re.compile(r"[wax+]")


def python_code(text: str, given: Sequence[str] = ()) -> Code:
    """What a Python text would do. `given` are its arguments."""
    code = Code()
    try:
        tree = ast.parse(text.replace("\x00", "").strip("\n"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _unparsed(text, code)
    reader = _Reader(code, given)
    try:
        reader.visit(tree)
    except RecursionError:
        code.harmful.append(("the program text is nested too deeply", True))
    return code


_SUSPICIOUS = re.compile(
    r"rmtree|unlink|remove|rmdir|subprocess|system|popen|spawn|exec|eval|socket|urlopen|requests|__import__|"
    r"b64decode|fromhex|fork|write|chmod|kill|"
    r"shutil|ctypes|environ|open\s*\("
)


def _unparsed(text: str, code: Code) -> Code:
    """A text that is no whole program, because parts of it are only known when it runs."""
    if _SUSPICIOUS.search(text):
        code.harmful.append(
            ("the program text cannot be read, and starts programs, deletes, or opens connections", False)
        )
    return code


class _Reader(ast.NodeVisitor):
    """Collects what calls would do; names are followed through imports and simple assignments."""

    def __init__(self, code: Code, given: Sequence[str]) -> None:
        self.code = code
        self.given = given
        self.names: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.loops = 0

    def visit_Import(self, node: ast.Import) -> None:
        """Note what a module is called here."""
        for alias in node.names:
            self.names[alias.asname or alias.name.split(".")[0]] = (
                alias.name if alias.asname else alias.name.split(".")[0]
            )
            self._imported(alias.name)
            if alias.name.split(".")[0] == "hermes":
                self.code.harmful.append(("the program text reaches into Hermes", False))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Note what is taken out of a module."""
        for alias in node.names:
            self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        self._imported(node.module or ".")
        if (node.module or "").split(".")[0] == "hermes":
            self.code.harmful.append(("the program text reaches into Hermes", False))

    def _imported(self, name: str) -> None:
        """A module of the folder may stand in for any other one, and for what those import."""
        if name not in LOADED:
            self.code.loads.add(".")

    def visit_Assign(self, node: ast.Assign) -> None:
        """Note constant values and names of functions."""
        self.generic_visit(node)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            text, dotted = self.text(node.value), self.dotted(node.value)
            if text is not None:
                self.values[name] = text
            elif dotted:
                self.names[name] = dotted
        for target in node.targets:
            if self.dotted(target) == "sys.path":
                self._searched(node.value)
            if isinstance(target, ast.Subscript) and self.dotted(target.value) == "os.environ":
                self.code.harmful.append(("the program text changes variables of what it starts", True))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Folders that are added to those with modules."""
        if self.dotted(node.target) == "sys.path":
            self._searched(node.value)
        self.generic_visit(node)

    def _searched(self, *nodes: ast.expr) -> None:
        """Folders in which modules are looked for."""
        for node in nodes:
            inner = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
            self.code.loads |= {
                self._path(one) or "." for one in inner if not isinstance(one, ast.Constant) or one.value
            }

    def visit_While(self, node: ast.While) -> None:
        """Loops count for what is started without end."""
        self.loops += 1
        self.generic_visit(node)
        self.loops -= 1

    def visit_Constant(self, node: ast.Constant) -> None:
        """Paths and hosts that are spelled out."""
        if isinstance(node.value, str):
            text = node.value
            if len(text) < 400 and ("/" in text or text.startswith((".", "~"))):
                self.code.paths |= {
                    part for part in re.findall(r"[~\w./*$-]+", text) if "/" in part or part.startswith((".", "~"))
                }
            found = _URL.match(text)
            if found:
                self.code.hosts.add(found[1])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """`os.environ` as a whole, and ways around names."""
        if self.dotted(node) == "os.environ":
            self.code.environment = True
        if node.attr in ("__subclasses__", "__globals__", "__builtins__", "__code__", "__reduce__", "f_globals"):
            self.code.harmful.append(("the program text reaches around names", True))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """One variable of the environment is no secret unless its name says so."""
        if self.dotted(node.value) == "os.environ" and (name := self.text(node.slice)) is not None:
            self._variable(name)
            return
        self.generic_visit(node)

    def _variable(self, name: str) -> None:
        from hermes.safety.environment import holds_secret

        if holds_secret(name):
            self.code.environment = True

    def visit_Call(self, node: ast.Call) -> None:
        """What a call does."""
        name = self.dotted(node.func)
        if name in ("os.environ.get", "os.getenv") and node.args:
            self._variable(self.text(node.args[0]) or "TOKEN")
            return
        self._call(name, node)
        self.generic_visit(node)

    def _call(self, name: str, node: ast.Call) -> None:
        code = self.code
        if name in ("site.addsitedir", "sys.path.insert", "sys.path.append", "sys.path.extend") and node.args:
            self._searched(node.args[-1] if name.startswith("sys.path") else node.args[0])
        if _SPAWNS.match(name):
            self._spawned(name, node)
        elif _DELETES.match(name):
            self._deleted(name, node)
        elif name == "os.fork" and self.loops:
            code.bomb = True
        elif _CHANGES.match(name):
            self._changed(name, node)
        elif _SENDS.match(name):
            code.sends = True
            if name.startswith("socket."):
                code.harmful.append(("the program text opens connections", False))
        elif _FETCHES.match(name):
            self._fetched(name, node)
        elif _EVALUATES.match(name):
            self._evaluated(name, node)
        else:
            self._filed(name, node)

    def _fetched(self, name: str, node: ast.Call) -> None:
        carries = any(keyword.arg in ("data", "json", "files") for keyword in node.keywords)
        carries = carries or (name.endswith(("urlopen", "Request")) and len(node.args) > 1)
        built = any(self.text(arg) is None and self._computed(arg) for arg in node.args[:1])
        self.code.fetches = True
        self.code.sends = self.code.sends or carries or built

    def _filed(self, name: str, node: ast.Call) -> None:
        if name in ("open", "io.open", "codecs.open", "os.open") or name.endswith(".open"):
            self._opened(name, node)
        elif name.endswith((".write_text", ".write_bytes", ".touch", ".mkdir")):
            self._method_write(node)
        elif name in ("getattr", "vars", "globals", "locals") and not (len(node.args) > 1 and self.text(node.args[1])):
            self.code.harmful.append(("the program text reaches around names", True))

    def _computed(self, node: ast.expr) -> bool:
        return not isinstance(node, ast.Name | ast.Attribute)

    def _spawned(self, name: str, node: ast.Call) -> None:
        first = (
            node.args[0]
            if node.args
            else next((word.value for word in node.keywords if word.arg in ("args", "cmd")), None)
        )
        if name.startswith(("multiprocessing.", "webbrowser.")):
            return
        if name.endswith((".PIPE", ".DEVNULL", ".CalledProcessError", ".list2cmdline")):
            return
        if isinstance(first, ast.List | ast.Tuple):
            argv = [self.text(one) for one in first.elts]
            if argv and all(one is not None for one in argv):
                self.code.spawned.append([one for one in argv if one is not None])
                return
        text = self.text(first) if first is not None else None
        if text is not None and not name.startswith(("os.exec", "os.spawn", "os.posix")):
            self.code.shelled.append(text)
            return
        rest = [self.text(one) for one in node.args]
        self.code.spawned += [[one for one in rest if one]] if any(rest) else []
        self.code.harmful.append(("the program text starts programs", True))

    def _deleted(self, name: str, node: ast.Call) -> None:
        code = self.code
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        method = name.rpartition(".")[0] not in ("os", "shutil", "send2trash")
        target = self._path(owner) if method and owner is not None else self._path(node.args[0]) if node.args else None
        code.recursive = code.recursive or "rmtree" in name or "removedirs" in name
        moves = name.endswith(("rename", "renames", "replace", "move"))
        if method and not _is_path(owner) and name.endswith(".remove"):
            return
        if method and name.endswith((".replace", ".rename")) and (target is None or not _is_path(owner)):
            return
        if target is not None:
            code.deleted.append(target)
            if moves:
                code.written += [path for path in [self._path(node.args[-1]) if node.args else None] if path]
        else:
            code.harmful.append(("the program text deletes or moves files", False))

    def _changed(self, name: str, node: ast.Call) -> None:
        code = self.code
        if name.startswith("shutil.copy") and len(node.args) > 1:
            target, source = self._path(node.args[1]), self._path(node.args[0])
            if target is not None and source is not None:
                code.written.append(target)
                return
        if (
            name in ("os.kill", "os.killpg")
            and len(node.args) == 2
            and isinstance(node.args[1], ast.Constant)
            and node.args[1].value == 0
        ):
            return
        code.harmful.append(("the program text changes rights, links or processes", True))

    def _evaluated(self, name: str, node: ast.Call) -> None:
        text = self.text(node.args[0]) if node.args else None
        if name in ("__import__", "importlib.import_module", "builtins.__import__") and text is not None:
            self._imported(text)
            return
        if name.startswith("importlib.") and not name.endswith("import_module"):
            return
        if name in ("eval", "exec", "builtins.exec", "builtins.eval") and text is not None:
            if not isinstance(node.args[0], ast.Constant):
                self.code.harmful.append(("the program text makes code out of data", True))
            inner = python_code(text, self.given)
            for field in ("harmful", "deleted", "written", "spawned", "shelled"):
                getattr(self.code, field).extend(getattr(inner, field))
            self.code.sends |= inner.sends
            self.code.recursive |= inner.recursive
            self.code.loads |= inner.loads
            return
        if name == "compile" and text is not None:
            return
        if name in {"codecs.decode", "zlib.decompress"}:
            return
        self.code.harmful.append(("the program text makes code out of data", True))

    def _opened(self, name: str, node: ast.Call) -> None:
        method = name not in ("open", "io.open", "codecs.open", "os.open")
        if name.split(".", maxsplit=1)[0] in (
            "webbrowser",
            "zipfile",
            "tarfile",
            "gzip",
            "wave",
            "Image",
            "PIL",
            "dbm",
            "shelve",
        ):
            return
        arguments = node.args if method else node.args[1:]
        mode = (
            self.text(arguments[0])
            if arguments
            else next((self.text(one.value) for one in node.keywords if one.arg == "mode"), "r")
        )
        owner = node.func.value if method and isinstance(node.func, ast.Attribute) else None
        path = self._path(owner) if owner is not None else self._path(node.args[0]) if node.args else None
        if mode is not None and not _WRITING.search(mode) and name != "os.open":
            return
        if path is not None:
            self.code.written.append(path)
        else:
            self.code.harmful.append(("the program text writes files", True))

    def _method_write(self, node: ast.Call) -> None:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        path = self._path(owner) if owner is not None else None
        if path is not None:
            self.code.written.append(path)
        elif not (isinstance(node.func, ast.Attribute) and node.func.attr == "mkdir"):
            self.code.harmful.append(("the program text writes files", True))

    def _path(self, node: ast.expr | None) -> str | None:
        """The path that an expression names."""
        if node is None:
            return None
        text = self.text(node)
        if text is not None:
            return text
        if isinstance(node, ast.Call):
            name = self.dotted(node.func)
            if name.endswith(("Path", "PosixPath", "expanduser", "abspath", "realpath", "resolve", "expandvars")):
                inner = node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else None
                return self._path(inner) if inner is not None else "."
            if name.endswith("Path.home"):
                return "~"
            if name.endswith("path.join"):
                parts = [self._path(one) for one in node.args]
                return "/".join(part for part in parts if part) if all(part is not None for part in parts) else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            one, other = self._path(node.left), self._path(node.right)
            return f"{one}/{other}" if one is not None and other is not None else None
        return None

    def dotted(self, node: ast.expr) -> str:
        """The full name that an expression stands for, imports resolved; empty when it has none."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            return f"{self.dotted(node.value) or '?'}.{node.attr}"
        if isinstance(node, ast.Call):
            name = self.dotted(node.func)
            if name in ("__import__", "importlib.import_module") and node.args:
                return self.text(node.args[0]) or "?"
            if name == "getattr" and len(node.args) > 1:
                return f"{self.dotted(node.args[0])}.{self.text(node.args[1]) or '?'}"
            return name + "()" if name.endswith("Path") else "?"
        return ""

    def text(self, node: ast.expr | None) -> str | None:
        """The constant text that an expression comes to."""
        match node:
            case ast.Constant(value=str(value)):
                return value
            case ast.Constant(value=bytes(data)):
                return data.decode("utf-8", "replace")
            case ast.Name(id=name):
                return self.values.get(name)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                one, other = self.text(left), self.text(right)
                return one + other if one is not None and other is not None and len(one) + len(other) < 20_000 else None
            case ast.JoinedStr(values=values):
                parts = [self.text(one.value if isinstance(one, ast.FormattedValue) else one) for one in values]
                return "".join(part for part in parts if part) if all(part is not None for part in parts) else None
            case ast.Subscript(value=value, slice=inner):
                return self._sliced(value, inner)
            case ast.Call():
                return self._computed_text(node)
            case _:
                return None

    def _sliced(self, value: ast.expr, inner: ast.expr) -> str | None:
        if self.dotted(value) == "sys.argv" and isinstance(inner, ast.Constant) and isinstance(inner.value, int):
            return self.given[inner.value - 1] if 0 < inner.value <= len(self.given) else None
        text = self.text(value)
        if (
            text is not None
            and isinstance(inner, ast.Slice)
            and inner.lower is None
            and inner.upper is None
            and inner.step is not None
        ):
            return text[::-1]
        return None

    def _computed_text(self, node: ast.Call) -> str | None:
        name = self.dotted(node.func)
        if (
            name == "chr"
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, int)
        ):
            return chr(node.args[0].value) if 0 < node.args[0].value < 0x110000 else None
        if _DECODES.match(name) and node.args:
            text = self.text(node.args[0])
            return _decoded(name, text) if text is not None else None
        if isinstance(node.func, ast.Attribute):
            inner = self.text(node.func.value)
            if (
                inner is not None
                and node.func.attr in ("decode", "encode", "strip", "lower", "format")
                and not (node.func.attr == "format" and node.args)
            ):
                return inner.lower() if node.func.attr == "lower" else inner
            if (
                inner is not None
                and node.func.attr == "join"
                and node.args
                and isinstance(node.args[0], ast.List | ast.Tuple)
            ):
                parts = [self.text(one) for one in node.args[0].elts]
                return (
                    inner.join(part for part in parts if part is not None)
                    if all(part is not None for part in parts)
                    else None
                )
            if inner is not None and node.func.attr == "replace" and len(node.args) == 2:
                old, new = self.text(node.args[0]), self.text(node.args[1])
                return inner.replace(old, new) if old and new is not None and len(inner) < 4000 else None
        return None


def _is_path(node: ast.expr | None) -> bool:
    """Whether an expression is a path rather than a text or a list."""
    return (
        isinstance(node, ast.Call)
        or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div))
        or isinstance(node, ast.Name)
    )


def _decoded(name: str, text: str) -> str | None:
    if name.startswith("base64."):
        return plain_base64(text)
    if "fromhex" in name or "unhexlify" in name:
        try:
            return bytes.fromhex(text).decode("utf-8", "replace")
        except ValueError:
            return None
    return None

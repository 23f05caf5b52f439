"""Analyzes Python program texts by their syntax tree: what is called, under which full name, with which constants.

Names are followed through imports and plain assignments only. What a call is given is known when it is written there as
a constant; a deletion, a start or a file whose argument is made at run time is asked about.
"""

import ast
import re
from collections.abc import Callable, Sequence

from hermes.safety.environment import is_secret_variable
from hermes.safety.shell.loading import PRELOADED_MODULES
from hermes.safety.shell.scripts import UNKNOWN_HOST, CodeAnalysis, find_exhaustion
from hermes.safety.shell.words import word_set

_COMPUTING_MODULES = word_set("""
    json re math cmath random statistics string textwrap datetime time calendar zoneinfo collections itertools functools
    operator dataclasses typing enum decimal fractions numbers copy pprint hashlib hmac base64 binascii uuid bisect
    heapq difflib unicodedata html abc contextlib types warnings colorsys secrets struct sys __future__ collections.abc
""")
_REACHING_NAMES = word_set(
    "open exec eval compile __import__ getattr setattr vars globals locals breakpoint help __builtins__ __loader__"
)
_SPAWNS = re.compile(
    r"(?!subprocess\.(?:PIPE|list2cmdline|CalledProcessError))(?:os\.(system|popen\w*|exec\w+|spawn\w+|posix_spawn\w*|startfile)$|subprocess\.[a-zP]\w+|pty\.(spawn|fork)|"
    r"asyncio\.create_subprocess_\w+|(commands|pexpect|sh|fabric|runpy)\.\w+)"
)
_DELETES = re.compile(
    r"(os|shutil)\.(rmtree|remove|unlink|rmdir|removedirs|truncate|rename|renames|replace|move)$|send2trash\.|"
    r"(.*Path\(\)|\?).*\.(unlink|rmdir|rmtree|rename)$|\w+\.(unlink|rmdir|rmtree)$|.*Path\(\)\.replace$"
)
_CHANGES = re.compile(
    r"os\.(l?ch(mod|own)|link|symlink|mkfifo|mknod|chroot|sete?[ug]id|setres\w+|kill|killpg|abort|fork|forkpty|putenv|"
    r"setxattr|mount|ptrace)$|signal\.pthread_kill|shutil\.(chown|copy\w*|unpack_archive|make_archive)|ctypes\.|"
    r"resource\.setrlimit|.*\.(chmod|symlink_to|hardlink_to)$"
)
_FETCHES = re.compile(
    r"(urllib\d?\.(request\.)?)?(urlopen|urlretrieve|Request)$|(requests|httpx2?)\.(get|head|options|Session|Client)|"
    r"(aiohttp|http\.client|wget|urllib3)\.\w+"
)
_SENDS = re.compile(
    r"(requests|httpx2?)\.(post|put|patch|delete|request)|socket\.(socket|create_connection|get\w+by\w+|getaddrinfo)|"
    r"(smtplib|ftplib|paramiko|telnetlib|dns)\.\w+|.*\.(sendall|sendto|sendmail|storbinary)$"
)
_EVALUATES = re.compile(
    r"(builtins\.)?(exec|eval|compile|__import__|vars|globals|locals)$|(marshal|pickle|dill)\.loads?|importlib\.|"
    r"types\.(FunctionType|CodeType)|code\.\w+|codecs\.decode|zlib\.decompress|.*\?.*getattr$|getattr$"
)
_HANDED_OVER = re.compile(r"(os|shutil|subprocess)\.\w+$|(exec|eval)$")
_REFLECTION = word_set("__subclasses__ __globals__ __builtins__ __code__ __reduce__ f_globals __dict__")
_DATABASE_METHODS = word_set(
    "execute executescript executemany exec exec_driver_sql query run run_query raw text read_sql read_sql_query sql "
    "statement prepare command do fetch fetchall fetchval fetchrow"
)
_PATH_MAKERS = ("Path", "expanduser", "abspath", "realpath", "resolve", "expandvars", "absolute", "Path.home", "join")
_FILLS = re.compile(r"""(write\w*\((?!\s*["']["']\s*\)))|print\(.*file=|dump|copy|save|map\(|\w\(\s*f\w*\s*[,)]""")
"""What may put something into a file."""
_OPENERS = word_set("open io.open codecs.open os.open")
_PATHS = re.compile(r"[~\w./*$-]+")
_URL = re.compile(r"^https?://([\w.-]+)")
_MAKES_CODE = ("the program text makes code out of data", True)
_CANNOT_BE_READ = ("the program text cannot be read, and starts programs, deletes, or opens connections", False)
_SUSPICIOUS = re.compile(
    r"rmtree|unlink|remove|rmdir|subprocess|system|popen|spawn|exec|eval|socket|urlopen|requests|__import__|"
    r"b64decode|fromhex|fork|write|chmod|kill|shutil|ctypes|environ|open\s*\("
)


def analyze_python(text: str, given: Sequence[str] = ()) -> CodeAnalysis:
    """Analyze a Python text. `given` are its arguments."""
    code = CodeAnalysis()
    try:
        tree = ast.parse(text.replace("\x00", "").strip("\n"))
        reader = _PythonReader(code, given)
        reader.visit(tree)
        if not any(map(_is_reaching_out, ast.walk(tree))):
            code.paths.clear()  # it can only compute and print: the paths in it are mere text
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        code.harmful += [_CANNOT_BE_READ] if _SUSPICIOUS.search(text) else []
        return code
    if reader.opened and not _FILLS.search(text):
        code.emptied += reader.opened
    if reason := find_exhaustion(text):
        code.bomb = code.bomb or "processes" in reason
        code.harmful.append((reason, True))
    return code


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


class _PythonReader(ast.NodeVisitor):
    """Collects the constants of a text, and the effects of its calls."""

    def __init__(self, code: CodeAnalysis, given: Sequence[str]) -> None:
        self.code = code
        self.given = given
        self.names: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.opened: list[str] = []
        """Files that are opened and lose what they held."""

    def visit_Import(self, node: ast.Import) -> None:
        """Note modules, and the names that they get."""
        for alias in node.names:
            first = alias.name.split(".")[0]
            self.names[alias.asname or first] = alias.name if alias.asname else first
            self._note_import(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Note the names that come from a module."""
        module = node.module or "."
        for alias in node.names:
            if alias.name == "*" and module not in _COMPUTING_MODULES:
                self.code.harmful.append(("the program text takes in names that are not written there", True))
            self.names[alias.asname or alias.name] = f"{module}.{alias.name}"
        self._note_import(module)

    def _note_import(self, name: str) -> None:
        """Note an import: a module of the folder may replace any other one, and what those import."""
        if name not in PRELOADED_MODULES:
            self.code.loads.add(".")
        if name.split(".", maxsplit=1)[0] == "hermes":
            self.code.harmful.append(("the program text reaches into Hermes", False))

    def visit_Assign(self, node: ast.Assign) -> None:
        """Follow a name that stands for a text or a function."""
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.texts[target.id] = self.text_of(node.value) or ""
                self.names[target.id] = self.name_of(node.value) or target.id
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Collect paths and hosts that are written there."""
        text = node.value
        if isinstance(text, str) and len(text) < 400:
            self.code.paths |= {one for one in _PATHS.findall(text) if "/" in one or one.startswith((".", "~"))}
            if found := _URL.match(text):
                self.code.hosts.add(found[1])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Judge `os.environ` as a whole, and ways around names."""
        self.code.environment = self.code.environment or self.name_of(node) == "os.environ"
        if node.attr in _REFLECTION:
            self.code.harmful.append(("the program text reaches around names", True))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Judge one variable of the environment by its name."""
        if self.name_of(node.value) == "os.environ" and (name := self.text_of(node.slice)):
            self.code.environment = self.code.environment or is_secret_variable(name)
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Judge a call."""
        name = self.name_of(node.func)
        if name in ("os.environ.get", "os.getenv"):
            asked = self._first_text(node) or "TOKEN"
            self.code.environment = self.code.environment or is_secret_variable(asked)
            return
        if name.rpartition(".")[2] in _DATABASE_METHODS:
            self.code.statements += self._texts_of(node.args)
        if name.startswith(("sys.path.", "site.addsitedir")):
            self.code.loads.add(next(iter(self._texts_of(node.args[-1:])), "."))
        named = (self.name_of(one) for one in node.args if isinstance(one, ast.Attribute | ast.Name))
        if any(map(_HANDED_OVER.match, named)):
            self.code.harmful.append(("the program text hands over what deletes or starts programs", True))
        self._judge_by_name(name, node)
        self.generic_visit(node)

    def _judge_by_name(self, name: str, node: ast.Call) -> None:
        judges = (judge for pattern, judge in _CALL_JUDGES if pattern.match(name))
        next(judges, _PythonReader.judge_file_call)(self, name, node)

    def _texts_of(self, nodes: Sequence[ast.expr]) -> list[str]:
        """Return the constant texts among some expressions."""
        return [text for text in map(self.text_of, nodes) if text]

    def _first_text(self, node: ast.Call) -> str | None:
        return self.text_of(node.args[0]) if node.args else None

    def judge_spawn(self, name: str, node: ast.Call) -> None:
        """Judge the start of a program."""
        named = (one.value for one in node.keywords if one.arg in ("args", "cmd"))
        first = node.args[0] if node.args else next(named, None)
        words = first.elts if isinstance(first, ast.List | ast.Tuple) else []
        argv, text = self._texts_of(words), self._first_text(node)
        if argv and len(argv) == len(words):
            self.code.spawned.append(argv)
        elif text is not None and not name.startswith(("os.exec", "os.spawn", "os.posix")):
            self.code.shelled.append(text)
        else:
            self.code.spawned.append(self._texts_of(node.args) or ["?"])
            self.code.harmful.append(("the program text starts programs", True))

    def judge_deletion(self, name: str, node: ast.Call) -> None:
        """Judge a deletion or a move."""
        target = self.path_of(_find_subject(name, node))
        self.code.recursive = self.code.recursive or "rmtree" in name or "removedirs" in name
        if target is None:
            self.code.harmful.append(("the program text deletes or moves files", False))
            return
        self.code.deleted.append(target)
        if name.endswith(("rename", "renames", "replace", "move")):
            self.code.written += filter(None, map(self.path_of, node.args[-1:]))

    def judge_change(self, name: str, node: ast.Call) -> None:
        """Judge a change of rights, links or processes, or a copy of files."""
        if name.startswith("shutil.copy") and None not in (paths := [self.path_of(one) for one in node.args[:2]]):
            self.code.written += filter(None, paths[1:])
            return
        signal = node.args[-1] if name in ("os.kill", "os.killpg") and node.args else None
        if not (isinstance(signal, ast.Constant) and signal.value == 0):
            self.code.harmful.append(("the program text changes rights, links or processes", True))

    def judge_connection(self, name: str, node: ast.Call) -> None:
        """Judge a connection; an address that is made at run time may carry keys."""
        address = self._first_text(node)
        carries = any(keyword.arg in ("data", "json", "files") for keyword in node.keywords) or (
            name.endswith(("urlopen", "Request")) and len(node.args) > 1
        )
        is_made = address is None and not isinstance(next(iter(node.args), None), ast.Name | ast.Attribute | None)
        self.code.fetches = True
        self.code.sends = self.code.sends or carries or is_made or _SENDS.match(name) is not None
        self.code.hosts |= {UNKNOWN_HOST} if address is None else set()
        if name in ("socket.socket", "socket.create_connection"):
            self.code.harmful.append(("the program text opens connections", False))

    def judge_evaluation(self, name: str, node: ast.Call) -> None:
        """Judge a call that makes code out of data."""
        text = self._first_text(node)
        if text is not None and name.endswith(("__import__", "import_module")):
            self._note_import(text)
        elif not (name == "getattr" and len(node.args) > 1 and self.text_of(node.args[1])) and not (
            name in ("codecs.decode", "zlib.decompress") or (name == "compile" and text is not None)
        ):
            self.code.harmful.append(_MAKES_CODE)

    def judge_file_call(self, name: str, node: ast.Call) -> None:
        """Judge a call that opens, writes or empties a file."""
        method = name.rpartition(".")[2]
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name in _OPENERS or (method == "open" and name.startswith(("?", "pathlib", "Path"))):
            self._judge_open(name, node, node.args[0] if name in _OPENERS and node.args else owner)
        elif method in ("write_text", "write_bytes", "touch", "truncate"):
            self._judge_method(method, node, owner)
        elif name == "fileinput.input" and any(one.arg == "inplace" for one in node.keywords):
            self._note_written(next(iter(node.args), None))

    def _judge_method(self, method: str, node: ast.Call, owner: ast.expr | None) -> None:
        """Judge a method of a path, or of a file that was opened just there, by which it is written or emptied."""
        opened = owner.args[0] if isinstance(owner, ast.Call) and owner.args else None
        if method == "truncate":
            self.code.emptied += filter(None, [self.path_of(opened)])
            return
        if method != "touch" and self._first_text(node) == "":
            self.code.emptied += filter(None, [self.path_of(owner)])
        self._note_written(owner)

    def _judge_open(self, name: str, node: ast.Call, opened: ast.expr | None) -> None:
        at = 1 if name in _OPENERS else 0
        mode = next((self.text_of(one.value) for one in node.keywords if one.arg == "mode"), "r")
        mode = self.text_of(node.args[at]) if len(node.args) > at else mode
        if mode is None or name == "os.open" or any(letter in mode for letter in "wax+"):
            self._note_written(opened)
        if mode is not None and "w" in mode:
            self.opened += filter(None, [self.path_of(opened)])

    def _note_written(self, node: ast.expr | None) -> None:
        path = self.path_of(node)
        if path is None:
            self.code.harmful.append(("the program text writes files", True))
        else:
            self.code.written.append(path)

    def name_of(self, node: ast.expr | None) -> str:
        """Return the full name of an expression, imports resolved; `?` stands for what is only known at run time."""
        match node:
            case ast.Name(id=name):
                return self.names.get(name, name)
            case ast.Attribute(value=value, attr=attr):
                return f"{self.name_of(value) or '?'}.{attr}"
            case ast.Call():
                return self._name_of_call(node)
            case ast.Subscript(value=value, slice=inner) if self.name_of(value) == "sys.modules":
                return self.text_of(inner) or "?"
        return ""

    def _name_of_call(self, node: ast.Call) -> str:
        """Return the name of what a call gives: an imported module, an attribute by its name, a path."""
        name = self.name_of(node.func)
        if name in ("__import__", "importlib.import_module") and node.args:
            return self._first_text(node) or "?"
        if name == "getattr" and len(node.args) > 1:
            return f"{self.name_of(node.args[0])}.{self.text_of(node.args[1]) or '?'}"
        return name + "()" if name.endswith("Path") else "?"

    def text_of(self, node: ast.expr | None) -> str | None:
        """Return the constant text of an expression; None where it is only known at run time."""
        match node:
            case ast.Constant(value=str(value)):
                return value
            case ast.Name(id=name):
                return self.texts.get(name) or None
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return _join([self.text_of(left), self.text_of(right)], "")
            case ast.JoinedStr(values=values):
                return _join(
                    [self.text_of(one.value if isinstance(one, ast.FormattedValue) else one) for one in values], ""
                )
            case ast.Subscript(value=value, slice=ast.Constant(value=int(at))) if self.name_of(value) == "sys.argv":
                return self.given[at - 1] if 0 < at <= len(self.given) else None
        return None

    def path_of(self, node: ast.expr | None) -> str | None:
        """Return the path that an expression names; None where it is only known at run time."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return _join([self.path_of(node.left), self.path_of(node.right)], "/")
        if not isinstance(node, ast.Call) or not self.name_of(node.func).endswith(_PATH_MAKERS):
            return self.text_of(node)
        if self.name_of(node.func).endswith("Path.home"):
            return "~"
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        parts = [self.path_of(one) for one in node.args]
        if owner is not None and "Path" in self.name_of(owner):
            parts.insert(0, self.path_of(owner))
        return _join(parts, "/") if parts else "."


def _find_subject(name: str, node: ast.Call) -> ast.expr | None:
    """Return the expression of the file that a call is about: its first argument, or what a method is called on."""
    of_module = name.startswith(("os.", "shutil.", "send2trash."))
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return next(iter(node.args), None) if of_module or owner is None else owner


_CallJudge = Callable[[_PythonReader, str, ast.Call], None]
_CALL_JUDGES: tuple[tuple[re.Pattern[str], _CallJudge], ...] = (
    (_SPAWNS, _PythonReader.judge_spawn),
    (_DELETES, _PythonReader.judge_deletion),
    (_CHANGES, _PythonReader.judge_change),
    (_SENDS, _PythonReader.judge_connection),
    (_FETCHES, _PythonReader.judge_connection),
    (_EVALUATES, _PythonReader.judge_evaluation),
)
"""The judge of a call, by its full name; the first that matches."""


def _join(parts: Sequence[str | None], separator: str) -> str | None:
    known = [part for part in parts if part is not None]
    return separator.join(known) if len(known) == len(parts) else None

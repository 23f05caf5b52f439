"""Analyzes Python program texts by their syntax tree.

Finds files that a Python text opens for writing and leaves empty.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterator, Sequence

from hermes.safety.environment import is_secret_variable
from hermes.safety.shell.loading import PRELOADED_MODULES
from hermes.safety.shell.python_values import PythonValues, constant_number
from hermes.safety.shell.scripts import UNKNOWN_HOST, CodeAnalysis
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


_SPAWNS = re.compile(
    r"(os\.(system|popen\w*|exec\w+|spawn\w+|posix_spawn\w*|startfile)|subprocess\.\w+|pty\.(spawn|fork)|commands\.\w+|"
    r"asyncio\.create_subprocess_\w+|pexpect\.\w+|sh\.\w+|fabric\.\w+|runpy\.\w+|multiprocessing\.\w+|"
    r"webbrowser\.open\w*)$"
)
_HARMLESS_SPAWN_NAMES = re.compile(
    r"(multiprocessing|webbrowser)\.|.*\.(PIPE|DEVNULL|STDOUT|CalledProcessError|list2cmdline)$"
)
_ARGV_CALLS = ("os.exec", "os.spawn", "os.posix")
_DELETES = re.compile(
    r"(shutil\.(rmtree|move)|os\.(remove|unlink|rmdir|removedirs|truncate|rename|renames|replace)|"
    r"(^|.*\.)(unlink|rmdir|rmtree|rename|touch_none)|send2trash\.\w+)$"
)
_DELETING_MODULES = ("os", "shutil", "send2trash", "")
_HANDED_OVER = re.compile(
    r"os\.(system|popen|exec\w+|spawn\w+|remove|unlink|rmdir|removedirs)$|shutil\.rmtree$|(exec|eval)$|"
    r"subprocess\.(run|call|check_call|check_output|Popen|getoutput)$"
)
_MOVES = ("rename", "renames", "replace", "move")
_CHANGES = re.compile(
    r"(os\.(chmod|chown|lchown|link|symlink|mkfifo|mknod|chroot|setuid|setgid|setresuid|seteuid|setegid|kill|"
    r"killpg|abort|fork|forkpty|putenv|setxattr|ptrace|mount)|signal\.pthread_kill|"
    r"shutil\.(chown|copy\w*|unpack_archive|make_archive)|"
    r"ctypes\.\w+(\.\w+)*|resource\.setrlimit|.*\.(chmod|symlink_to|hardlink_to))$"
)
_FETCHES = re.compile(
    r"(urllib\.request\.(urlopen|urlretrieve|Request)|urllib2?\.urlopen|urlopen|urlretrieve|"
    r"(requests|httpx2?)\.(get|head|options|Session|Client|request)|"
    r"aiohttp\.\w+|http\.client\.\w+|wget\.\w+|urllib3\.\w+)$"
)
_SENDS = re.compile(
    r"((requests|httpx2?)\.(post|put|patch|delete|request)|socket\.(socket|create_connection)|"
    r"smtplib\.\w+|ftplib\.\w+|paramiko\.\w+|telnetlib\.\w+|.*\.(sendall|sendto|sendmail|storbinary))$"
)
_LOOKS_UP = re.compile(r"(socket|loop|dns\.resolver)\.(getaddrinfo|gethostby\w+|getfqdn|getnameinfo|query|resolve)$")
_EVALUATES = re.compile(
    r"(exec|eval|compile|__import__|builtins\.(exec|eval|__import__)|marshal\.loads|pickle\.loads?|"
    r"importlib\.\w+|codecs\.decode|types\.(FunctionType|CodeType)|code\.\w+|zlib\.decompress|dill\.loads)$"
)
_STARTERS = re.compile(
    r"(subprocess\.(Popen|run|call)|os\.(fork|spawn\w+|popen|system)|.*\bThread|.*\bProcess|.*\.start)$"
)
_VARIABLE_READERS = word_set("os.environ.get os.getenv")
_PATH_ADDERS = word_set("site.addsitedir sys.path.insert sys.path.append sys.path.extend")
_OPENERS = word_set("open io.open codecs.open os.open")
_OTHER_OPENERS = word_set("webbrowser zipfile tarfile gzip wave Image PIL dbm shelve")
"""Modules whose `open` opens no file, or opens for reading by default."""
_IMPORTERS = word_set("__import__ importlib.import_module builtins.__import__")
_EVALUATORS = word_set("eval exec builtins.exec builtins.eval")
_GROWING_METHODS = word_set("append extend add insert update push put appendleft write writelines setdefault")
_PAUSING_CALLS = word_set(
    "sleep input readline recv accept get wait exit acquire select poll communicate listen _exit quit"
)
_COUNTERS = re.compile(r"itertools\.(count|cycle|repeat)$|iter$")
_DATABASE_METHODS = word_set(
    "execute executescript executemany exec exec_driver_sql query run run_query raw text read_sql read_sql_query sql "
    "statement prepare command do fetch fetchall fetchval fetchrow"
)
"""Names of methods that pass a statement to a database."""
_MANY_ROUNDS = 10_000
"""Rounds from which on a loop counts as endless, for what it starts."""
_REFLECTION_NAMES = word_set("__subclasses__ __globals__ __builtins__ __code__ __reduce__ f_globals")
_REFLECTION_CALLS = word_set("getattr vars globals locals")
_URL = re.compile(r"^https?://([\w.-]+)")
_WRITING = re.compile(r"[wax+]")
_PATHS = re.compile(r"[~\w./*$-]+")
_SUSPICIOUS = re.compile(
    r"rmtree|unlink|remove|rmdir|subprocess|system|popen|spawn|exec|eval|socket|urlopen|requests|__import__|"
    r"b64decode|fromhex|fork|write|chmod|kill|shutil|ctypes|environ|open\s*\("
)


def analyze_python(text: str, given: Sequence[str] = ()) -> CodeAnalysis:
    """Analyze a Python text. `given` are its arguments."""
    code = CodeAnalysis()
    try:
        tree = ast.parse(text.replace("\x00", "").strip("\n"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _judge_unparsed(text, code)
    reader = _PythonReader(code, given)
    try:
        reader.visit(tree)
        if reader.opened and is_left_empty(tree, reader.opened):
            code.emptied += reader.opened.values()
        if code.paths and is_pure_computation(tree):
            code.paths.clear()
    except RecursionError:
        code.harmful.append(("the program text is nested too deeply", True))
    return code


def _judge_unparsed(text: str, code: CodeAnalysis) -> CodeAnalysis:
    """Judge a text that is no whole program, because parts of it are only known at run time."""
    if _SUSPICIOUS.search(text):
        reason = "the program text cannot be read, and starts programs, deletes, or opens connections"
        code.harmful.append((reason, False))
    return code


class _NameTracker(ast.NodeVisitor):
    """Follows names through imports and assignments."""

    def __init__(self, code: CodeAnalysis, given: Sequence[str]) -> None:
        self.code = code
        self.values = PythonValues(given)
        self.loops = 0
        """Endless loops, and functions that call themselves, around the current node."""

    def visit_Import(self, node: ast.Import) -> None:
        """Record the name of a module here."""
        for alias in node.names:
            first = alias.name.split(".")[0]
            self.values.names[alias.asname or first] = alias.name if alias.asname else first
            self._note_import(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Record the names imported from a module."""
        module = node.module or "."
        for alias in node.names:
            if alias.name == "*":
                self.values.add_star_import(module)
            else:
                self.values.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        self._note_import(module)

    def _note_import(self, name: str) -> None:
        """Record an import: a module of the folder may replace any other one, and what those import."""
        if name not in PRELOADED_MODULES:
            self.code.loads.add(".")
        if name.split(".", maxsplit=1)[0] == "hermes":
            self.code.harmful.append(("the program text reaches into Hermes", False))

    def visit_Assign(self, node: ast.Assign) -> None:
        """Record constant values and names of functions."""
        self.generic_visit(node)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            text, dotted = self.values.constant_text(node.value), self.values.dotted_name(node.value)
            if text is not None:
                self.values.texts[name] = text
            elif dotted:
                self.values.names[name] = dotted
        for target in node.targets:
            if self.values.dotted_name(target) == "sys.path":
                self._note_module_folders(node.value)
            if isinstance(target, ast.Subscript) and self.values.dotted_name(target.value) == "os.environ":
                self.code.harmful.append(("the program text changes variables of what it starts", True))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Record folders that are added to the module search path."""
        if self.values.dotted_name(node.target) == "sys.path":
            self._note_module_folders(node.value)
        self.generic_visit(node)

    def _note_module_folders(self, *nodes: ast.expr) -> None:
        """Record folders in which modules are searched for."""
        for node in nodes:
            inner = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
            self.code.loads |= {self.values.constant_path(one) or "." for one in inner}


class _LoopTracker(_NameTracker):
    """Finds loops that exhaust a resource."""

    def visit_While(self, node: ast.While) -> None:
        """Judge a `while` loop."""
        self._visit_loop(node, node.body, endless=isinstance(node.test, ast.Constant) and bool(node.test.value))

    def visit_For(self, node: ast.For) -> None:
        """Judge a loop over an endless or very long iterable."""
        self._visit_loop(node, node.body, endless=self._is_unending(node.iter))

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> None:
        """Judge comprehensions as loops."""
        many = any(self._is_unending(one.iter) for one in node.generators)
        self.loops += many
        self.generic_visit(node)
        self.loops -= many

    visit_GeneratorExp = visit_SetComp = visit_ListComp  # noqa: N815 - names of the syntax tree

    def _visit_loop(self, node: ast.While | ast.For, body: Sequence[ast.stmt], *, endless: bool) -> None:
        if endless and not _is_pausing(body):
            self.code.bomb = self.code.bomb or any(_STARTERS.match(name) for name in self._called_names(body))
            if not self.code.bomb and _is_growing(body):
                self.code.harmful.append(("the program text takes memory or disk without end", True))
        self.loops += endless
        self.generic_visit(node)
        self.loops -= endless

    def _called_names(self, body: Sequence[ast.stmt]) -> Iterator[str]:
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Call):
                    yield self.values.dotted_name(node.func)

    def _is_unending(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call):
            return False
        name = self.values.dotted_name(node.func)
        counted = (
            name == "range"
            and node.args
            and (constant_number(node.args[min(1, len(node.args) - 1)]) or 0) >= _MANY_ROUNDS
        )
        return bool(counted) or _COUNTERS.match(name) is not None

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Judge a function that starts itself concurrently and so never ends."""
        called = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
        again = any(isinstance(one, ast.Name) and one.id == node.name for one in called)
        self.loops += again
        self.generic_visit(node)
        self.loops -= again

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Judge texts and lists that exceed the memory."""
        if isinstance(node.op, ast.Mult) and self.values.is_huge(node):
            self.code.harmful.append(("the program text takes all of the machine's memory", True))
        self.generic_visit(node)


class _PythonReader(_LoopTracker):
    """Collects the constants in a text, and the effects of its calls."""

    def __init__(self, code: CodeAnalysis, given: Sequence[str]) -> None:
        super().__init__(code, given)
        self.opened: dict[ast.Call, str] = {}
        """Calls that open a file for writing and truncate it, with its path."""

    def visit_Constant(self, node: ast.Constant) -> None:
        """Collect paths and hosts that are spelled out."""
        text = node.value
        if not isinstance(text, str):
            return
        if len(text) < 400 and ("/" in text or text.startswith((".", "~"))):
            parts = _PATHS.findall(text)
            self.code.paths |= {part for part in parts if "/" in part or part.startswith((".", "~"))}
        found = _URL.match(text)
        if found:
            self.code.hosts.add(found[1])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Judge `os.environ` as a whole, and reflection."""
        if self.values.dotted_name(node) == "os.environ":
            self.code.environment = True
        if node.attr in _REFLECTION_NAMES:
            self.code.harmful.append(("the program text reaches around names", True))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Judge a read of one environment variable, which is a secret only if its name says so."""
        if (
            self.values.dotted_name(node.value) == "os.environ"
            and (name := self.values.constant_text(node.slice)) is not None
        ):
            self.code.environment = self.code.environment or is_secret_variable(name)
            return
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Judge a call."""
        name, args = self.values.dotted_name(node.func), node.args
        self._note_statements(name, args)
        if name in _VARIABLE_READERS and args:
            asked = self.values.constant_text(args[0]) or "TOKEN"
            self.code.environment = self.code.environment or is_secret_variable(asked)
            return
        if name in _PATH_ADDERS:
            self._note_module_folders(*(args[-1:] if name.startswith("sys.path") else args[:1]))
        if self.values.is_huge(node):
            self.code.harmful.append(("the program text takes all of the machine's memory", True))
        if name == "os.fork" and self.loops:
            self.code.bomb = True
            return
        self._note_handed_functions(args)
        judges = (judge for pattern, judge in _CALL_JUDGES if pattern.match(name))
        next(judges, _PythonReader.judge_file_call)(self, name, node)
        self.generic_visit(node)

    def _note_statements(self, name: str, args: Sequence[ast.expr]) -> None:
        """Collect texts that may be database statements."""
        if name.rpartition(".")[2] in _DATABASE_METHODS:
            self.code.statements += self._constant_texts(args)

    def _note_handed_functions(self, args: Sequence[ast.expr]) -> None:
        """Judge functions that delete or start something, passed to another one: `map(os.remove, paths)`."""
        named = (self.values.dotted_name(one) for one in args if isinstance(one, ast.Attribute | ast.Name))
        if any(map(_HANDED_OVER.match, named)):
            self.code.harmful.append(("the program text hands over what deletes or starts programs", True))

    def judge_spawn(self, name: str, node: ast.Call) -> None:
        """Judge the start of a program."""
        if _HARMLESS_SPAWN_NAMES.match(name):
            return
        keywords = (word.value for word in node.keywords if word.arg in ("args", "cmd"))
        first = node.args[0] if node.args else next(keywords, None)
        argv = self._constant_texts(first.elts) if isinstance(first, ast.List | ast.Tuple) else []
        if argv and len(argv) == len(getattr(first, "elts", ())):
            self.code.spawned.append(argv)
            return
        text = self.values.constant_text(first)
        if text is not None and not name.startswith(_ARGV_CALLS):
            self.code.shelled.append(text)
            return
        rest = self._constant_texts(node.args)
        self.code.spawned += [rest] if rest else []
        self.code.harmful.append(("the program text starts programs", True))

    def _constant_texts(self, nodes: Sequence[ast.expr]) -> list[str]:
        """Return the constant texts among the expressions."""
        return [text for text in map(self.values.constant_text, nodes) if text is not None]

    def judge_deletion(self, name: str, node: ast.Call) -> None:
        """Judge a deletion or a move."""
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name.rpartition(".")[0] in _DELETING_MODULES:
            target = self.values.constant_path(next(iter(node.args), None))
        else:
            target = self.values.constant_path(owner)
            # Lists and texts have methods of these names too.
            if name.endswith((".replace", ".rename")) and target is None:
                return
            if name.endswith((".remove", ".replace", ".rename")) and not _is_path(owner):
                return
        self.code.recursive = self.code.recursive or "rmtree" in name or "removedirs" in name
        if target is None:
            self.code.harmful.append(("the program text deletes or moves files", False))
            return
        self.code.deleted.append(target)
        if name.endswith(_MOVES):
            self.code.written += filter(None, map(self.values.constant_path, node.args[-1:]))

    def judge_change(self, name: str, node: ast.Call) -> None:
        """Judge a change of rights, links or processes, or a copy of files."""
        args = node.args
        if name.startswith("shutil.copy") and len(args) > 1:
            target = self.values.constant_path(args[1])
            if target is not None and self.values.constant_path(args[0]) is not None:
                self.code.written.append(target)
                return
        asks_only = len(args) == 2 and isinstance(args[1], ast.Constant) and args[1].value == 0
        if not (asks_only and name in ("os.kill", "os.killpg")):
            self.code.harmful.append(("the program text changes rights, links or processes", True))

    def judge_send(self, name: str, _: ast.Call) -> None:
        """Judge a call that sends something."""
        self.code.sends = True
        if name.startswith("socket."):
            self.code.harmful.append(("the program text opens connections", False))

    def judge_lookup(self, _: str, node: ast.Call) -> None:
        """Judge a name lookup: the name carries its content to the owner of its zone."""
        self.code.sends = True
        self.code.hosts.add((self.values.constant_text(node.args[0]) if node.args else None) or UNKNOWN_HOST)

    def judge_fetch(self, name: str, node: ast.Call) -> None:
        """Judge a fetch; a URL that is built at run time may carry secrets."""
        carries = any(keyword.arg in ("data", "json", "files") for keyword in node.keywords)
        carries = carries or (name.endswith(("urlopen", "Request")) and len(node.args) > 1)
        built = any(
            self.values.constant_text(one) is None and not isinstance(one, ast.Name | ast.Attribute)
            for one in node.args[:1]
        )
        self.code.fetches = True
        if not node.args or self.values.constant_text(node.args[0]) is None:
            self.code.hosts.add(UNKNOWN_HOST)
        self.code.sends = self.code.sends or carries or built

    def judge_evaluation(self, name: str, node: ast.Call) -> None:
        """Judge a call that makes code from data."""
        text = self.values.constant_text(node.args[0]) if node.args else None
        if text is not None and name in _IMPORTERS:
            self._note_import(text)
            return
        if text is not None and name in _EVALUATORS:
            if not isinstance(node.args[0], ast.Constant):
                self.code.harmful.append(("the program text makes code out of data", True))
            self.code.merge(analyze_python(text, self.values.given))
            return
        other = name.startswith("importlib.") and not name.endswith("import_module")
        if not (other or name in ("codecs.decode", "zlib.decompress") or (name == "compile" and text is not None)):
            self.code.harmful.append(("the program text makes code out of data", True))

    def judge_file_call(self, name: str, node: ast.Call) -> None:
        """Judge a call that opens, writes or empties a file."""
        if name in _OPENERS or name.endswith(".open"):
            self._note_open(name, node)
        elif name.endswith((".write_text", ".write_bytes", ".touch", ".mkdir")):
            self._note_method_write(node)
        elif name == "fileinput.input":
            self._note_inplace_edit(node)
        elif name == "?.truncate":
            self._note_truncate(node)
        elif name in _REFLECTION_CALLS and not (len(node.args) > 1 and self.values.constant_text(node.args[1])):
            self.code.harmful.append(("the program text reaches around names", True))

    def _note_inplace_edit(self, node: ast.Call) -> None:
        """Judge `fileinput.input(PATH, inplace=True)`."""
        if any(one.arg == "inplace" for one in node.keywords):
            self._note_written(next(iter(node.args), None))

    def _note_truncate(self, node: ast.Call) -> None:
        """Judge `open(PATH, "r+").truncate()`."""
        opened = node.func.value if isinstance(node.func, ast.Attribute) else None
        if not isinstance(opened, ast.Call) or any(map(self._is_filled, node.args)):
            return
        if self.values.dotted_name(opened.func) in _OPENERS and opened.args:
            path = self.values.constant_path(opened.args[0])
            self.code.emptied += [path] if path is not None else []

    @staticmethod
    def _is_filled(node: ast.expr) -> bool:
        """Return whether an expression is more than an empty text, or zero."""
        return not (isinstance(node, ast.Constant) and not node.value)

    def _note_open(self, name: str, node: ast.Call) -> None:
        if name.split(".", maxsplit=1)[0] in _OTHER_OPENERS:
            return
        method = name not in _OPENERS
        mode = self._open_mode(node.args if method else node.args[1:], node)
        owner = node.func.value if method and isinstance(node.func, ast.Attribute) else next(iter(node.args), None)
        if mode is not None and "w" in mode and (path := self.values.constant_path(owner)) is not None:
            self.opened[node] = path
        if mode is not None and not _WRITING.search(mode) and name != "os.open":
            return
        self._note_written(owner)

    def _open_mode(self, args: Sequence[ast.expr], node: ast.Call) -> str | None:
        named = (self.values.constant_text(one.value) for one in node.keywords if one.arg == "mode")
        return self.values.constant_text(args[0]) if args else next(named, "r")

    def _note_written(self, node: ast.expr | None) -> None:
        path = self.values.constant_path(node)
        if path is not None:
            self.code.written.append(path)
        else:
            self.code.harmful.append(("the program text writes files", True))

    def _note_method_write(self, node: ast.Call) -> None:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        attr = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if attr.startswith("write") and node.args and not self._is_filled(node.args[0]):
            path = self.values.constant_path(owner)
            self.code.emptied += [path] if path is not None else []
        if not (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "mkdir"
            and self.values.constant_path(owner) is None
        ):
            self._note_written(owner)


_CallJudge = Callable[[_PythonReader, str, ast.Call], None]
_CALL_JUDGES: tuple[tuple[re.Pattern[str], _CallJudge], ...] = (
    (_SPAWNS, _PythonReader.judge_spawn),
    (_DELETES, _PythonReader.judge_deletion),
    (_CHANGES, _PythonReader.judge_change),
    (_SENDS, _PythonReader.judge_send),
    (_LOOKS_UP, _PythonReader.judge_lookup),
    (_FETCHES, _PythonReader.judge_fetch),
    (_EVALUATES, _PythonReader.judge_evaluation),
)
"""The judge of a call, by its full name; the first that matches."""


def _is_pausing(body: Sequence[ast.stmt]) -> bool:
    """Return whether a loop ends, or waits for something."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Break | ast.Return | ast.Raise | ast.Await | ast.Yield):
                return True
            if isinstance(node, ast.Call):
                func = node.func
                name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
                if name in _PAUSING_CALLS:
                    return True
    return False


def _is_growing(body: Sequence[ast.stmt]) -> bool:
    """Return whether a loop holds more with each round."""
    for statement in body:
        for node in ast.walk(statement):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in _GROWING_METHODS
            ):
                return True
            if isinstance(node, ast.AugAssign) and not isinstance(node.value, ast.Constant):
                return True
            if isinstance(node, ast.Assign) and any(isinstance(one, ast.Subscript) for one in node.targets):
                return True
    return False


def _is_path(node: ast.expr | None) -> bool:
    """Return whether an expression is a path rather than a text or a list."""
    return isinstance(node, ast.Call | ast.Name) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div))

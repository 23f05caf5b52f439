"""What a Python program text would do, by its syntax tree."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from hermes.safety.environment import holds_secret
from hermes.safety.shell.loading import LOADED
from hermes.safety.shell.python_files import left_empty, touches_nothing
from hermes.safety.shell.python_values import Values, size
from hermes.safety.shell.scripts import UNTOLD_HOST, Code
from hermes.safety.shell.words import words as word_set

_SPAWNS = re.compile(
    r"(os\.(system|popen\w*|exec\w+|spawn\w+|posix_spawn\w*|startfile)|subprocess\.\w+|pty\.(spawn|fork)|commands\.\w+|"
    r"asyncio\.create_subprocess_\w+|pexpect\.\w+|sh\.\w+|fabric\.\w+|runpy\.\w+|multiprocessing\.\w+|"
    r"webbrowser\.open\w*)$"
)
_NO_SPAWN = re.compile(r"(multiprocessing|webbrowser)\.|.*\.(PIPE|DEVNULL|STDOUT|CalledProcessError|list2cmdline)$")
_BY_ARGV = ("os.exec", "os.spawn", "os.posix")
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
"""Modules whose `open` is none of a file's, or reads unless told otherwise."""
_IMPORTERS = word_set("__import__ importlib.import_module builtins.__import__")
_EVALUATORS = word_set("eval exec builtins.exec builtins.eval")
_GROWING = word_set("append extend add insert update push put appendleft write writelines setdefault")
_PAUSING = word_set("sleep input readline recv accept get wait exit acquire select poll communicate listen _exit quit")
_COUNTERS = re.compile(r"itertools\.(count|cycle|repeat)$|iter$")
_SPEAKING = word_set(
    "execute executescript executemany exec exec_driver_sql query run run_query raw text read_sql read_sql_query sql "
    "statement prepare command do fetch fetchall fetchval fetchrow"
)
"""What calls that hand a statement to a database are called."""
_MANY = 10_000
"""Rounds of a loop from which on it counts as one without end, for what it starts."""
_AROUND_NAMES = word_set("__subclasses__ __globals__ __builtins__ __code__ __reduce__ f_globals")
_AROUND = word_set("getattr vars globals locals")
_URL = re.compile(r"^https?://([\w.-]+)")
_WRITING = re.compile(r"[wax+]")
_PATHS = re.compile(r"[~\w./*$-]+")
_SUSPICIOUS = re.compile(
    r"rmtree|unlink|remove|rmdir|subprocess|system|popen|spawn|exec|eval|socket|urlopen|requests|__import__|"
    r"b64decode|fromhex|fork|write|chmod|kill|shutil|ctypes|environ|open\s*\("
)


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
        if reader.opened and left_empty(tree, reader.opened):
            code.emptied += reader.opened.values()
        if code.paths and touches_nothing(tree):
            code.paths.clear()
    except RecursionError:
        code.harmful.append(("the program text is nested too deeply", True))
    return code


def _unparsed(text: str, code: Code) -> Code:
    """A text that is no whole program, because parts of it are only known when it runs."""
    if _SUSPICIOUS.search(text):
        reason = "the program text cannot be read, and starts programs, deletes, or opens connections"
        code.harmful.append((reason, False))
    return code


class _Names(ast.NodeVisitor):
    """Follows names through imports and assignments."""

    def __init__(self, code: Code, given: Sequence[str]) -> None:
        self.code = code
        self.known = Values(given)
        self.loops = 0
        """Loops without end, and functions that call themselves, around what is looked at."""

    def visit_Import(self, node: ast.Import) -> None:
        """Note what a module is called here."""
        for alias in node.names:
            first = alias.name.split(".")[0]
            self.known.names[alias.asname or first] = alias.name if alias.asname else first
            self._imported(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Note what is taken out of a module."""
        module = node.module or "."
        for alias in node.names:
            if alias.name == "*":
                self.known.starred(module)
            else:
                self.known.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        self._imported(module)

    def _imported(self, name: str) -> None:
        """A module of the folder may stand in for any other one, and for what those import."""
        if name not in LOADED:
            self.code.loads.add(".")
        if name.split(".", maxsplit=1)[0] == "hermes":
            self.code.harmful.append(("the program text reaches into Hermes", False))

    def visit_Assign(self, node: ast.Assign) -> None:
        """Note constant values and names of functions."""
        self.generic_visit(node)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            text, dotted = self.known.text(node.value), self.known.dotted(node.value)
            if text is not None:
                self.known.texts[name] = text
            elif dotted:
                self.known.names[name] = dotted
        for target in node.targets:
            if self.known.dotted(target) == "sys.path":
                self._searched(node.value)
            if isinstance(target, ast.Subscript) and self.known.dotted(target.value) == "os.environ":
                self.code.harmful.append(("the program text changes variables of what it starts", True))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Folders that are added to those with modules."""
        if self.known.dotted(node.target) == "sys.path":
            self._searched(node.value)
        self.generic_visit(node)

    def _searched(self, *nodes: ast.expr) -> None:
        """Folders in which modules are looked for."""
        for node in nodes:
            inner = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
            self.code.loads |= {self.known.path(one) or "." for one in inner}


class _Loops(_Names):
    """Notes what takes all there is of something."""

    def visit_While(self, node: ast.While) -> None:
        """Loops count for what is started without end."""
        self._loop(node, node.body, endless=isinstance(node.test, ast.Constant) and bool(node.test.value))

    def visit_For(self, node: ast.For) -> None:
        """Loops over what never ends, or ends late."""
        self._loop(node, node.body, endless=self._unending(node.iter))

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> None:
        """Comprehensions are loops."""
        many = any(self._unending(one.iter) for one in node.generators)
        self.loops += many
        self.generic_visit(node)
        self.loops -= many

    visit_GeneratorExp = visit_SetComp = visit_ListComp  # noqa: N815 - names of the syntax tree

    def _loop(self, node: ast.While | ast.For, body: Sequence[ast.stmt], *, endless: bool) -> None:
        if endless and not _pauses(body):
            self.code.bomb = self.code.bomb or any(_STARTERS.match(name) for name in self._names(body))
            if not self.code.bomb and _grows(body):
                self.code.harmful.append(("the program text takes memory or disk without end", True))
        self.loops += endless
        self.generic_visit(node)
        self.loops -= endless

    def _names(self, body: Sequence[ast.stmt]) -> Iterator[str]:
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Call):
                    yield self.known.dotted(node.func)

    def _unending(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call):
            return False
        name = self.known.dotted(node.func)
        counted = name == "range" and node.args and (size(node.args[min(1, len(node.args) - 1)]) or 0) >= _MANY
        return bool(counted) or _COUNTERS.match(name) is not None

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A function that starts itself beside itself never ends."""
        called = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
        again = any(isinstance(one, ast.Name) and one.id == node.name for one in called)
        self.loops += again
        self.generic_visit(node)
        self.loops -= again

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Texts and lists that no memory holds."""
        if isinstance(node.op, ast.Mult) and self.known.huge(node):
            self.code.harmful.append(("the program text takes all of the machine's memory", True))
        self.generic_visit(node)


class _Reader(_Loops):
    """Collects what stands in a text, and what calls would do."""

    def __init__(self, code: Code, given: Sequence[str]) -> None:
        super().__init__(code, given)
        self.opened: dict[ast.Call, str] = {}
        """Calls that open a file anew, with its path."""

    def visit_Constant(self, node: ast.Constant) -> None:
        """Paths and hosts that are spelled out."""
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
        """`os.environ` as a whole, and ways around names."""
        if self.known.dotted(node) == "os.environ":
            self.code.environment = True
        if node.attr in _AROUND_NAMES:
            self.code.harmful.append(("the program text reaches around names", True))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """One variable of the environment is no secret unless its name says so."""
        if self.known.dotted(node.value) == "os.environ" and (name := self.known.text(node.slice)) is not None:
            self.code.environment = self.code.environment or holds_secret(name)
            return
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """What a call does."""
        name, args = self.known.dotted(node.func), node.args
        self._said(name, args)
        if name in _VARIABLE_READERS and args:
            asked = self.known.text(args[0]) or "TOKEN"
            self.code.environment = self.code.environment or holds_secret(asked)
            return
        if name in _PATH_ADDERS:
            self._searched(*(args[-1:] if name.startswith("sys.path") else args[:1]))
        if self.known.huge(node):
            self.code.harmful.append(("the program text takes all of the machine's memory", True))
        if name == "os.fork" and self.loops:
            self.code.bomb = True
            return
        self._hands_over(args)
        judges = (judge for pattern, judge in _JUDGES if pattern.match(name))
        next(judges, _Reader.filed)(self, name, node)
        self.generic_visit(node)

    def _said(self, name: str, args: Sequence[ast.expr]) -> None:
        """What may be a statement for a database."""
        if name.rpartition(".")[2] in _SPEAKING:
            self.code.statements += self._texts(args)

    def _hands_over(self, args: Sequence[ast.expr]) -> None:
        """Functions that delete or start something, given to another one: `map(os.remove, paths)`."""
        named = (self.known.dotted(one) for one in args if isinstance(one, ast.Attribute | ast.Name))
        if any(map(_HANDED_OVER.match, named)):
            self.code.harmful.append(("the program text hands over what deletes or starts programs", True))

    def spawned(self, name: str, node: ast.Call) -> None:
        """A program is started."""
        if _NO_SPAWN.match(name):
            return
        keywords = (word.value for word in node.keywords if word.arg in ("args", "cmd"))
        first = node.args[0] if node.args else next(keywords, None)
        argv = self._texts(first.elts) if isinstance(first, ast.List | ast.Tuple) else []
        if argv and len(argv) == len(getattr(first, "elts", ())):
            self.code.spawned.append(argv)
            return
        text = self.known.text(first)
        if text is not None and not name.startswith(_BY_ARGV):
            self.code.shelled.append(text)
            return
        rest = self._texts(node.args)
        self.code.spawned += [rest] if rest else []
        self.code.harmful.append(("the program text starts programs", True))

    def _texts(self, nodes: Sequence[ast.expr]) -> list[str]:
        """Those of the expressions that are constant texts."""
        return [text for text in map(self.known.text, nodes) if text is not None]

    def deleted(self, name: str, node: ast.Call) -> None:
        """Something is deleted or moved."""
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name.rpartition(".")[0] in _DELETING_MODULES:
            target = self.known.path(next(iter(node.args), None))
        else:
            target = self.known.path(owner)
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
            self.code.written += filter(None, map(self.known.path, node.args[-1:]))

    def changed(self, name: str, node: ast.Call) -> None:
        """Rights, links or processes are changed, or files copied."""
        args = node.args
        if name.startswith("shutil.copy") and len(args) > 1:
            target = self.known.path(args[1])
            if target is not None and self.known.path(args[0]) is not None:
                self.code.written.append(target)
                return
        asks_only = len(args) == 2 and isinstance(args[1], ast.Constant) and args[1].value == 0
        if not (asks_only and name in ("os.kill", "os.killpg")):
            self.code.harmful.append(("the program text changes rights, links or processes", True))

    def sends(self, name: str, _: ast.Call) -> None:
        """Something is sent."""
        self.code.sends = True
        if name.startswith("socket."):
            self.code.harmful.append(("the program text opens connections", False))

    def looks_up(self, _: str, node: ast.Call) -> None:
        """A name is looked up: it carries what stands in it to whom it belongs."""
        self.code.sends = True
        self.code.hosts.add((self.known.text(node.args[0]) if node.args else None) or UNTOLD_HOST)

    def fetches(self, name: str, node: ast.Call) -> None:
        """Something is fetched; an address that is put together may carry what should not leave."""
        carries = any(keyword.arg in ("data", "json", "files") for keyword in node.keywords)
        carries = carries or (name.endswith(("urlopen", "Request")) and len(node.args) > 1)
        built = any(
            self.known.text(one) is None and not isinstance(one, ast.Name | ast.Attribute) for one in node.args[:1]
        )
        self.code.fetches = True
        if not node.args or self.known.text(node.args[0]) is None:
            self.code.hosts.add(UNTOLD_HOST)
        self.code.sends = self.code.sends or carries or built

    def evaluated(self, name: str, node: ast.Call) -> None:
        """Code is made out of something."""
        text = self.known.text(node.args[0]) if node.args else None
        if text is not None and name in _IMPORTERS:
            self._imported(text)
            return
        if text is not None and name in _EVALUATORS:
            if not isinstance(node.args[0], ast.Constant):
                self.code.harmful.append(("the program text makes code out of data", True))
            self.code.add(python_code(text, self.known.given))
            return
        other = name.startswith("importlib.") and not name.endswith("import_module")
        if not (other or name in ("codecs.decode", "zlib.decompress") or (name == "compile" and text is not None)):
            self.code.harmful.append(("the program text makes code out of data", True))

    def filed(self, name: str, node: ast.Call) -> None:
        """Files are opened, written or emptied."""
        if name in _OPENERS or name.endswith(".open"):
            self._opened(name, node)
        elif name.endswith((".write_text", ".write_bytes", ".touch", ".mkdir")):
            self._method_write(node)
        elif name == "fileinput.input":
            self._edited(node)
        elif name == "?.truncate":
            self._cut_off(node)
        elif name in _AROUND and not (len(node.args) > 1 and self.known.text(node.args[1])):
            self.code.harmful.append(("the program text reaches around names", True))

    def _edited(self, node: ast.Call) -> None:
        """`fileinput.input(PATH, inplace=True)`."""
        if any(one.arg == "inplace" for one in node.keywords):
            self._written(next(iter(node.args), None))

    def _cut_off(self, node: ast.Call) -> None:
        """`open(PATH, "r+").truncate()`."""
        opened = node.func.value if isinstance(node.func, ast.Attribute) else None
        if not isinstance(opened, ast.Call) or any(map(self._filled, node.args)):
            return
        if self.known.dotted(opened.func) in _OPENERS and opened.args:
            path = self.known.path(opened.args[0])
            self.code.emptied += [path] if path is not None else []

    @staticmethod
    def _filled(node: ast.expr) -> bool:
        """Whether an expression is more than an empty text, or zero."""
        return not (isinstance(node, ast.Constant) and not node.value)

    def _opened(self, name: str, node: ast.Call) -> None:
        if name.split(".", maxsplit=1)[0] in _OTHER_OPENERS:
            return
        method = name not in _OPENERS
        mode = self._mode(node.args if method else node.args[1:], node)
        owner = node.func.value if method and isinstance(node.func, ast.Attribute) else next(iter(node.args), None)
        if mode is not None and "w" in mode and (path := self.known.path(owner)) is not None:
            self.opened[node] = path
        if mode is not None and not _WRITING.search(mode) and name != "os.open":
            return
        self._written(owner)

    def _mode(self, args: Sequence[ast.expr], node: ast.Call) -> str | None:
        named = (self.known.text(one.value) for one in node.keywords if one.arg == "mode")
        return self.known.text(args[0]) if args else next(named, "r")

    def _written(self, node: ast.expr | None) -> None:
        path = self.known.path(node)
        if path is not None:
            self.code.written.append(path)
        else:
            self.code.harmful.append(("the program text writes files", True))

    def _method_write(self, node: ast.Call) -> None:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        attr = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if attr.startswith("write") and node.args and not self._filled(node.args[0]):
            path = self.known.path(owner)
            self.code.emptied += [path] if path is not None else []
        if not (isinstance(node.func, ast.Attribute) and node.func.attr == "mkdir" and self.known.path(owner) is None):
            self._written(owner)


_Judge = Callable[[_Reader, str, ast.Call], None]
_JUDGES: tuple[tuple[re.Pattern[str], _Judge], ...] = (
    (_SPAWNS, _Reader.spawned),
    (_DELETES, _Reader.deleted),
    (_CHANGES, _Reader.changed),
    (_SENDS, _Reader.sends),
    (_LOOKS_UP, _Reader.looks_up),
    (_FETCHES, _Reader.fetches),
    (_EVALUATES, _Reader.evaluated),
)
"""What judges a call, by its full name; the first that fits."""


def _pauses(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop ends, or waits for something."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Break | ast.Return | ast.Raise | ast.Await | ast.Yield):
                return True
            if isinstance(node, ast.Call):
                func = node.func
                name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
                if name in _PAUSING:
                    return True
    return False


def _grows(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop holds more with each round."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWING:
                return True
            if isinstance(node, ast.AugAssign) and not isinstance(node.value, ast.Constant):
                return True
            if isinstance(node, ast.Assign) and any(isinstance(one, ast.Subscript) for one in node.targets):
                return True
    return False


def _is_path(node: ast.expr | None) -> bool:
    """Whether an expression is a path rather than a text or a list."""
    return isinstance(node, ast.Call | ast.Name) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div))

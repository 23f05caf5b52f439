"""Analyzes program texts in languages other than shell and Python, by the calls in them."""

import re
from dataclasses import dataclass, field

from hermes.safety.shell.loading import find_loaded_code


@dataclass(slots=True)
class CodeAnalysis:
    """The findings of the analysis of a program text."""

    harmful: list[tuple[str, bool]] = field(default_factory=list)
    """Reasons, each with whether a sandbox prevents the harm."""
    deleted: list[str] = field(default_factory=list)
    recursive: bool = False
    written: list[str] = field(default_factory=list)
    spawned: list[list[str]] = field(default_factory=list)
    shelled: list[str] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    sends: bool = False
    fetches: bool = False
    environment: bool = False
    bomb: bool = False
    drops: bool = False
    """True if it deletes tables, or all rows, by the methods of a library."""
    loads: set[str] = field(default_factory=set)
    """Folders and files from which it loads more code; `.` is the folder that it runs in."""
    emptied: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    """Constant texts that it may pass to a database."""


_STRING_LITERAL = re.compile(
    r"'((?:[^'\\\n]|\\.){0,2000})'|\"((?:[^\"\\\n]|\\.){0,2000})\"|`((?:[^`\\]|\\.){0,2000})`|<([~/$*][^<>\n]{0,200})>"
)
_PATHS = re.compile(r"[~\w./$*-]+")
_URL = re.compile(r"\bhttps?://([\w.-]+)")

_SPAWN_CALLS: dict[str, str] = {
    "perl": r"\bsystem\b|\bexec\b|`|\bqx\b|\bfork\b|open\s*\(?[^;]{0,80}(\"|')?\s*(\||-\||\|-)|popen|\bsyscall\b|IPC::",
    "ruby": r"\bsystem\b|\bexec\b|`|%x|\bfork\b|\bspawn\b|popen|Open3|PTY\.|Kernel\.|IO\.popen|instance_eval|"
    r"\.send\b|Process\.",
    "node": r"child_process|\bexec(Sync|File|FileSync)?\s*\(|\bspawn(Sync)?\s*\(|process\.(kill|binding|dlopen)|"
    r"Bun\.(spawn|\$)|Deno\.(run|Command)|cluster\.fork|worker_threads|\$`",
    "php": r"\b(system|exec|shell_exec|passthru|popen|proc_open|pcntl_\w+|posix_kill|mail)\s*\(|`",
    "lua": r"os\.execute|io\.popen|loadstring|package\.loadlib|\bload\s*\(",
    "tclsh": r"\bexec\b|\bopen\s+[\"{]?\||\bsocket\b",
    "osascript": r"do shell script|system events|tell application",
    "pwsh": r"Invoke-Expression|\biex\b|Start-Process|Invoke-Command|\bcmd\b|&\s*['\"(]|DownloadString|"
    r"DownloadFile|Add-Type|\bsaps\b",
    "expect": r"\bspawn\b|\bexec\b|\bsystem\b",
}
_SPAWN_ELSEWHERE = (
    r"\bsystem2?\b|\bexec\b|`|popen|\bspawn|\b(shell|pipe|run|unix)\s*\(|ccall|\.execute\(|ProcessBuilder|Runtime|"
    r"sys\.process|System\.(cmd|Process)|os[:.](cmd|execute)|open_port|Port\.open|process_create|run-program|subprocess|"
    r"java\.shell|callCommand|%x|ffi|Deno\.(run|Command)|child_process"
)
"""What starts programs in other languages."""
_DELETES = re.compile(
    r"rmtree|\bunlink(Sync)?\b|\brmdir(Sync)?\b|\brmSync\b|\brm\s*\(|rm_rf?\b|remove_(dir|entry|tree)|File\.delete|"
    r"FileUtils\.(rm|remove)\w*|Dir\.(delete|rmdir)|remove(_tree|Sync|dirs)?\s*\(|os\.remove|os\.rename|Remove-Item|"
    r"\bdel\b\s|\bri\b\s|Clear-Content|Deno\.remove|file\.remove|unlink\(|file\s+delete|truncate(Sync)?\s*\(|"
    r"\.delete\s*(if|\()|deleteDirectory|rimraf|Format-Volume|Clear-Disk|Stop-Computer|Restart-Computer|\brm\(|"
    r"delete_file|deltree|RemoveAll",
    re.IGNORECASE,
)
_WRITES = re.compile(
    r"writeFile(Sync)?\s*\(\s*(['\"`])([^'\"`]+)\2|appendFile(Sync)?\s*\(\s*(['\"`])([^'\"`]+)\5|"
    r"createWriteStream\s*\(\s*(['\"`])([^'\"`]+)\7|"
    r"File\.write\s*\(?\s*(['\"])([^'\"]+)\9|file_put_contents\s*\(\s*(['\"])([^'\"]+)\11|"
    r"(?:open|File\.open|File\.new|fopen|"
    r"io\.open)\s*\(?\s*(?:[\w$]+\s*,\s*)?(['\"])([^'\"]+)\13\s*,\s*['\"](?:[rb]*[wa+]|>)"
)
_WRITES_ANY = re.compile(
    r"(writeFile|appendFile|createWriteStream|file_put_contents|File\.write|copyFile|renameSync|symlink|(?<![\w/'\"\\-])ch(?:mod|own)\b(?!\\)|"
    r"Set-Content|Out-File|FileUtils\.(cp|mv|ln)|IO\.write|fs\.rename|open\s*\(?[^;]{0,120}['\"]\s*(\+?>|w|a)|"
    r"cpSync|writeSync|Deno\.write|Bun\.write|writeLines)"
)
_SENDS = re.compile(
    r"\bsocket\b|TCPSocket|net\.(connect|Socket|createConnection)|tls\.connect|dgram|IO::Socket|fsockopen|"
    r"stream_socket|curl_(init|exec)|method\s*:\s*['\"`](POST|PUT|PATCH)|Net::HTTP\.(post|put)|Net::SMTP|LWP::|"
    r"HTTP::Tiny|\.post\s*\(|Invoke-RestMethod|Invoke-WebRequest|\biwr\b|socket\.|XMLHttpRequest|sendBeacon|System\.Net",
    re.IGNORECASE,
)
_FETCHES = re.compile(
    r"\bfetch\s*\(|https?\.(get|request)|file_get_contents\s*\(\s*['\"]https?:|open-uri|URI\.open|Net::HTTP|LWP|"
    r"HTTP::Tiny|urlopen|axios|WebClient",
    re.IGNORECASE,
)
_LOOKUP_CALLS = re.compile(
    r"gethostby\w+|getaddrinfo|getnameinfo|\bdns\.(lookup|resolve|reverse|promises)|['\"](node:)?dns(/promises)?['\"]|"
    r"Resolv\b|\bgetaddress\b|inet_aton|dns_get_record|checkdnsrr|dns_check_record|getmxrr|Net::DNS|resolveDns|"
    r"nslookup|GetHost(Addresses|Entry)|Resolve-DnsName",
    re.IGNORECASE,
)
_FETCHES_ANY = re.compile(
    r"\bfetch\s*\(\s*[^'\"`\s)]|https?\.(?:get|request)\s*\(\s*[^'\"`\s)]|URI\.open\s*\(\s*[^'\"]"
)
UNKNOWN_HOST = "?"
"""The name for hosts that a program text reaches and that cannot be determined."""
_EVALUATES = re.compile(
    r"\beval\b|new Function|Function\s*\(|vm\.run|instance_eval|class_eval|assert\s*\(\s*\$|create_function|"
    r"call_user_func|include\s*\(?\s*['\"$]|require\s*\(?\s*['\"]https?:|fromCharCode|"
    r"\bloadstring\b|pack\s*\(?\s*['\"][Hhumw]|unpack\s*\(|decode64|base64_decode|atob\s*\(|"
    r"from\s*\([^)]*['\"](base64|hex)|FromBase64String|str_rot13|gzinflate|chr\s*\(|\.pack\b|MIME::Base64",
    re.IGNORECASE,
)
_ENVIRONMENT = re.compile(
    r"process\.env(?!\.(HOME|PATH|USER|NODE_ENV|PWD|SHELL|LANG|TERM|CI|PORT)\b)|ENV(?!\[['\"](HOME|PATH|USER|"
    r"LANG)['\"]\])\b|getenv|%ENV|\$_ENV|\$_SERVER|os\.getenv|Get-ChildItem env:|gci env:|environ"
)
_FORKS = re.compile(
    r"(loop\s*(do|\{)|while\s*\(?\s*(1|true)|for\s*\(\s*;;|\bwhile\s*\(1\)|until\s+false).{0,60}\bfork\b|"
    r"fork\s+while|\bfork\b\s*(\(\))?\s*while|spawn\(process\.(execPath|argv)|fork\(__filename",
    re.IGNORECASE | re.DOTALL,
)
_KILLS = re.compile(
    r"\bkill\b\s*\(?\s*['\"\d:%-]|process\.kill|posix_kill|Stop-Process|Process\.kill|setuid|setgid|POSIX::set|"
    r"\$[<>(]\s*=\s*0|mlock|ctypes|dlopen|syscall|ptrace"
)
_COMMAND = re.compile(
    r"(?:\bsystem|\bexec|execSync|spawnSync|shell_exec|passthru|popen|os\.execute|qx|%x|do shell "
    r"script)\s*\(?\s*(?:'((?:[^'\\]|\\.){1,500})'|\"((?:[^\"\\]|\\.){1,500})\"|\{([^}]{1,300})\}|\(([^)]{1,300})\))|`([^`]{1,500})`"
)
_DESTROYS_HERE = re.compile(r"rmtree|rm_rf|rmSync|remove_entry|recursive", re.IGNORECASE)


_LOOPS = re.compile(
    r"while\s*\(?\s*(1|[tT]rue)\b\s*\)?|for\s*\(\s*;;|\bloop\s*(do\b|\{)|\bwhile\s+(1|true)\b|until\s*\(?(0|false)\b|"
    r"\d[\d_]{3,}\.times|\b(1\s*\.\.|each\s*\()?\d{5,}\b.{0,20}\bfork|setInterval"
)
_GROWS = re.compile(
    r"\bpush\b|<<|\.=|\+=|\[\]\s*=|\.(push|append|extend|concat|write)\b|\w\[\w+\]\s*=[^=]|\[#\w+\s*\+\s*1\]|\b(\w+)\s*=\s*\2\s*\.?\s*[\w\"']|print\s*\{?\$?F\b"
)
_STARTS = re.compile(
    r"\bfork\b|Thread\.new|\bspawn\b|pcntl_fork|\bexec(File)?\s*\(|new Worker|\bsystem\b|Popen|\bThread\(|\bProcess\("
)
_PAUSES = re.compile(
    r"\b(sleep|usleep|last|break|exit|return|gets|STDIN|readline|accept|await|getline|wait|yield|setTimeout|recv|die|next)\b",
    re.IGNORECASE,
)
_CONCURRENT_BLOCK = re.compile(
    r"(?:Thread\.new|\bfork)\s*(?:\{[^{}]{0,400}\}|do\b.{0,400}?\bend\b)|\bThread\((?:[^()]|\([^()]*\)){0,400}\)"
)
"""Blocks that run concurrently with the loop that starts them."""
_ENDLESS_PROCESSES = "the program text starts processes without end"
_NUMBER = r"((?:\d[\d_]*(?:\.\d+)?(?:e\d{1,3})?)(?:\s*(?:\*\*|\^|<<)\s*\d{1,4})?)"
_MADE_AT_ONCE = re.compile(
    r"['\"\])]\s*(?:x|\*)\s*\(?"
    + _NUMBER
    + r"|(?:string\.rep|str_repeat|array_fill|range)\s*\([^()]{0,80}?,\s*"
    + _NUMBER
    + r"|(?:\.repeat|Array|Buffer\.alloc(?:Unsafe)?|ArrayBuffer|String\.new|Array\.new)\s*\(\s*"
    + _NUMBER,
    re.IGNORECASE,
)
_HUGE_BYTES = 4e9
"""Bytes that no program allocates at once without exhausting the machine's memory."""
_PRINT_ONLY = re.compile(
    r"(?:\s*(?:print|puts|p|say|echo|console\.(?:log|error)|io\.write|printf|cat|putStrLn)\b\s*\(?\s*"
    r"(?:'(?:[^'\\]|\\.){0,4000}'|\"(?:[^\"\\$@#`]|\\.){0,4000}\")\s*\)?\s*(?:;|\n|$))+\s*"
)
"""A program text that only prints constant texts."""
_COMMENTS = {
    **dict.fromkeys(("node", "php", "deno"), r"(?m)^\s*//.*$"),
    **dict.fromkeys(("perl", "ruby", "r", "Rscript", "julia", "tclsh"), r"(?m)^\s*#(?!!).*$"),
}

_INCLUDES = re.compile(
    r"\b(?:source|sys\.source|source_url|include|include_once|require|require_once|import|importScripts|load|dofile|"
    r"loadstring|instance_eval|eval)\b[\s(]{0,4}(?:\w+(?:\.\w+)?[\s(]{1,3})?['\"`](?:https?|ftp)://"
)
"""Statements that load code from a URL."""

_HARMFUL: tuple[tuple[re.Pattern[str], str, bool], ...] = (
    # What stands in it, what it does, and whether a sandbox takes the harm out of it.
    (_KILLS, "the program text ends processes, or changes who it is", True),
    (_EVALUATES, "the program text makes code out of data", True),
    (_INCLUDES, "the program text runs what it downloads", True),
)


def analyze_script(text: str, language: str) -> CodeAnalysis:
    """Analyze a text of perl, ruby, node, php, lua and similar languages."""
    code = CodeAnalysis()
    if len(text) < 8_000 and _PRINT_ONLY.fullmatch(text):
        return code
    text = re.sub(_COMMENTS[language], "", text) if language in _COMMENTS else text
    _find_started_programs(text, language, code)
    if _DELETES.search(text):
        code.recursive = _DESTROYS_HERE.search(text) is not None
        code.deleted += [path for path in _find_strings(text) if path.startswith(("/", "~")) and len(path) < 200]
        code.harmful.append(("the program text deletes", False))
    code.harmful += [(reason, contained) for pattern, reason, contained in _HARMFUL if pattern.search(text)]
    _find_written_files(text, code)
    _find_emptied_files(text, code)
    _find_statements(text, code)
    if reason := find_exhaustion(text):
        code.bomb = code.bomb or reason is _ENDLESS_PROCESSES
        code.harmful.append((reason, True))
    _find_connections(text, code)
    code.loads |= find_loaded_code(text, language)
    return code


_DATABASE_CALL = re.compile(
    r"(?:\.|->|::|\b(?:mysqli|pg|sqlite|odbc|db)_\w{0,20})\$?(?:exec\w*|query\w*|do|run|raw|prepare|unprepared|statement|batch|"
    r"select\w*|update|delete|sql)\b"
)
_QUOTED = re.compile(
    r"\bqq?\s?[{(]([^{}()]{0,2000})[})]|<<[~-]?['\"]?([A-Z]{2,20})['\"]?[^\n]{0,80}\n(.{0,4000}?)\n\s*\2", re.DOTALL
)


def _find_statements(text: str, code: CodeAnalysis) -> None:
    """Collect the texts that it may pass to a database."""
    if _DATABASE_CALL.search(text):
        code.statements += _find_strings(text)
        code.statements += [found[1] or found[3] or "" for found in _QUOTED.finditer(text[:30_000])]


_EMPTY = r"\s*,\s*(?:''|\"\"|``)"
_EMPTIES = re.compile(
    r"(?:writeFile(?:Sync)?|writeTextFile(?:Sync)?|File\.write|IO\.write|file_put_contents|Bun\.write)\s*\(?\s*"
    r"(['\"`])([^'\"`]{1,300})\1"
    + _EMPTY
    + r"|(?:\btruncate|truncateSync|File\.truncate)\s*\(?\s*(['\"`])([^'\"`]{1,300})\3"
)
_OPENED = re.compile(
    r"(?:\bopen|File\.open|File\.new|\bfopen|io\.open|openSync|createWriteStream)\s*\(?\s*(?:(?:my\s+)?\$?\w+\s*,\s*)?"
    r"(?:(['\"`])([^'\"`>|&]{1,300})\1\s*,\s*['\"][rb]*w|['\"]\s*>\s*(?:['\"]\s*,\s*['\"])?([^'\">&|]{1,300})['\"])"
)
_PUTS = re.compile(
    r"print|puts|write(?!File|Stream)|\bsay\b|<<|dump|copy|pipe|stream_|syswrite|\.end\(|append|encode|save"
)


def _find_emptied_files(text: str, code: CodeAnalysis) -> None:
    """Collect files that it empties: written with an empty text, truncated, or opened for writing and left so."""
    text = text[:30_000]
    code.emptied += [found[2] or found[4] for found in _EMPTIES.finditer(text)]
    if not _PUTS.search(text):
        code.emptied += [(found[2] or found[3]).strip() for found in _OPENED.finditer(text)]


def _find_connections(text: str, code: CodeAnalysis) -> None:
    """Collect the hosts and paths that it reaches, and whether it may send the environment there."""
    code.paths |= {token for token in _PATHS.findall(text) if "/" in token or token.startswith((".", "~"))}
    code.environment = _ENVIRONMENT.search(text) is not None
    code.hosts |= set(_URL.findall(text))
    code.sends = _SENDS.search(text) is not None
    code.fetches = _FETCHES.search(text) is not None
    if code.sends and not code.hosts:
        code.harmful.append(("the program text opens connections", False))
    looks = _LOOKUP_CALLS.search(text) is not None
    code.sends = code.sends or looks
    if looks or _FETCHES_ANY.search(text):
        code.hosts.add(UNKNOWN_HOST)


def _find_started_programs(text: str, language: str, code: CodeAnalysis) -> None:
    """Collect the programs that it starts."""
    spawns = _SPAWN_CALLS.get(language, _SPAWN_ELSEWHERE)
    for found in _COMMAND.finditer(text[:30_000]):
        command = next((one for one in found.groups() if one), "")
        if command and not (found[5] and language in ("node", "deno", "pwsh")):
            code.shelled.append(command.replace('\\"', '"'))
    code.bomb = _FORKS.search(text) is not None
    if re.search(spawns, text, re.IGNORECASE if language == "pwsh" else 0):
        code.harmful.append(("the program text starts programs", True))


def find_exhaustion(text: str) -> str:
    """Return the reason why a program text exhausts processes, memory or disk; empty when it does not."""
    text = text[:30_000]
    if any(
        _parse_amount(one) >= _HUGE_BYTES for found in _MADE_AT_ONCE.finditer(text) for one in found.groups() if one
    ):
        return "the program text takes all of the machine's memory"
    loop = _LOOPS.search(text)
    if loop is None or _PAUSES.search(_CONCURRENT_BLOCK.sub("", text), min(loop.start(), len(text))):
        return ""
    if _STARTS.search(text):
        return _ENDLESS_PROCESSES
    return "the program text takes memory or disk without end" if _GROWS.search(text) else ""


def _parse_amount(text: str) -> float:
    """Parse a number such as `1e9`, `10**9`, `1 << 40` or `1_000`."""
    base, sign, power = re.fullmatch(r"([\d_.e]+)\s*(\*\*|\^|<<)?\s*(\d*)", text.lower()).groups()  # type: ignore[union-attr]
    try:
        number = float(base.replace("_", ""))
        return number if not sign else number * 2.0 ** int(power) if sign == "<<" else number ** int(power)
    except (OverflowError, ValueError):
        return float("inf")


def _find_strings(text: str) -> list[str]:
    found = _STRING_LITERAL.finditer(text[:30_000])
    return [next((one for one in match.groups() if one is not None), "") for match in found][:200]


def _find_written_files(text: str, code: CodeAnalysis) -> None:
    """Collect the files that it writes: in a match the last group that is no quotation mark is the path."""
    written = [[one for one in found.groups() if one and len(one) > 1] for found in _WRITES.finditer(text[:30_000])]
    paths = [[one for one in groups if one != "Sync"][-1:] for groups in written]
    code.written += [path for some in paths for path in some]
    if not code.written and _WRITES_ANY.search(text):
        code.harmful.append(("the program text writes files", True))

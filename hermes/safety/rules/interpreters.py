"""Interpreters: programs given on the command line or by a pipe, and the files they run."""

import re
from collections.abc import Callable, Sequence

from hermes.safety import flow
from hermes.safety.call import Call, names_secret, resolve
from hermes.safety.code import Code, other_code
from hermes.safety.findings import EffectKind
from hermes.safety.loading import given_modules
from hermes.safety.pycode import python_code
from hermes.safety.rules import own
from hermes.safety.words import DECODED, FETCHED, NOTHING, SECRET, UNTOLD, Stream, Word
from hermes.safety.words import words as word_set

Rule = Callable[[Call], Stream | None]

_LANGUAGES: dict[str, tuple[str, str, str]] = {
    # By program: the letters whose value is a program, the other letters with a value, the long names for a program.
    "python": ("c", "WXQ", ""),
    "pypy": ("c", "WX", ""),
    "python2": ("c", "WXQ", ""),
    "perl": ("eE", "IMmFx", ""),
    "ruby": ("e", "rIECTKFx", ""),
    "node": ("ep", "rC", "eval print"),
    "deno": ("", "", ""),
    "bun": ("ep", "r", "eval print"),
    "php": ("rBRE", "cdzfF", "run"),
    "lua": ("e", "l", ""),
    "luajit": ("e", "l", ""),
    "tclsh": ("", "", ""),
    "osascript": ("e", "l", ""),
    "pwsh": ("cC", "fFx", "command encodedcommand"),
    "powershell": ("cC", "fFx", "command encodedcommand"),
    "r": ("e", "", ""),
    "Rscript": ("e", "", ""),
    "julia": ("eE", "L", "eval"),
    "groovy": ("e", "", ""),
    "scala": ("e", "", ""),
    "elixir": ("e", "r", "eval"),
    "ghc": ("e", "", ""),
    "guile": ("c", "l", ""),
    "sbcl": ("", "", "eval"),
    "clojure": ("e", "", "eval"),
    "jshell": ("", "", ""),
    "ts-node": ("ep", "r", "eval print"),
    "tsx": ("ep", "r", "eval print"),
    "expect": ("c", "f", ""),
    "racket": ("e", "", "eval"),
    "swipl": ("g", "", ""),
    "erl": ("", "", "eval"),
    "cscript": ("", "", ""),
    "gdb-python": ("", "", ""),
    "octave": ("", "", "eval"),
    "irb": ("e", "r", ""),
    "micropython": ("c", "", ""),
}


def interpreter(call: Call) -> Stream | None:
    """python, perl, ruby, node, php, lua and their like."""
    name = call.name if call.name in _LANGUAGES else call.name.rstrip("0123456789.") or call.name
    language = {
        "python2": "python",
        "pypy": "python",
        "micropython": "python",
        "ts-node": "node",
        "tsx": "node",
        "bun": "node",
        "powershell": "pwsh",
    }.get(name, name)
    if language == "pwsh" and any(re.match(r"-e(nc?\w*|c)?$", text, re.IGNORECASE) for text in call.args):
        call.ask("program-text", "its program is hidden")
        return None
    for path in sorted(given_modules(call.args, language)):
        call.effect(EffectKind.RUNS, (resolve(path, call.cwd, call.host.places),))
    codes, script, rest = _programs(call, name)
    labels = frozenset(label for word in codes for label in word.labels)
    if labels & {FETCHED, DECODED}:
        call.ask("remote-exec", "it runs what it downloads or decodes")
        return UNTOLD
    for word in codes:
        judge_code(call, language, word, rest)
    if codes:
        return Stream(None, call.stdin.labels | labels)
    if script is None:
        return _from_input(call, language) if call.fed else None
    return _script(call, language, script, rest)


def _programs(call: Call, name: str) -> tuple[list[Word], Word | None, list[Word]]:
    """(program texts, the script, what is given to either)."""
    spoken, valued, longs = _LANGUAGES[name]
    codes: list[Word] = []
    words = list(call.words)
    at = 0
    while at < len(words):
        text = words[at].text
        at += 1
        if text == "-m" and name.startswith(("python", "pypy")):
            return [], Word("-m " + (words[at].text if at < len(words) else "")), words[at + 1 :]
        if text.startswith("-m") and name.startswith(("python", "pypy")) and len(text) > 2:
            return [], Word("-m " + text[2:]), words[at:]
        if text == "--" or not text.startswith("-") or text == "-":
            rest = words[at:] if text != "--" else words[at + 1 :]
            if codes or (name in ("perl", "ruby") and _is_code(codes)):
                return codes, None, words[at - 1 :]
            if name in ("deno", "bun", "osascript") and text in ("eval", "run", "repl"):
                return (
                    ([rest[0]] if text == "eval" and rest else []),
                    (rest[0] if text == "run" and rest else Word("-m repl")),
                    rest[1:],
                )
            return [], words[at - 1] if text != "--" else (words[at] if at < len(words) else None), rest
        if text.startswith("--"):
            long, equals, value = text[2:].partition("=")
            if long in longs.split():
                codes.append(
                    Word(value, words[at - 1].dynamic, labels=words[at - 1].labels)
                    if equals
                    else words[at]
                    if at < len(words)
                    else Word("")
                )
                at += not equals
            elif long in ("require", "import", "loader") and not equals:
                at += 1
            continue
        if name in ("pwsh", "powershell") and re.match(r"-c(ommand)?$", text, re.IGNORECASE):
            return [Word(" ".join(word.text for word in words[at:]))], None, []
        at += _letters(words, at, (spoken, valued), codes)
    return codes, None, []


def _is_code(codes: Sequence[Word]) -> bool:
    return bool(codes)


def _letters(words: Sequence[Word], at: int, letters: tuple[str, str], codes: list[Word]) -> int:
    """Read a group of short options; how many further words it takes."""
    spoken, valued = letters
    word = words[at - 1]
    group = word.text[1:]
    for place, letter in enumerate(group):
        rest = group[place + 1 :]
        if letter in spoken:
            if rest and (spoken not in ("eE", "ep", "eEp") or not rest.isalpha()):
                codes.append(Word(rest, word.dynamic, labels=word.labels))
                return 0
            codes.append(words[at] if at < len(words) else Word(""))
            return 1
        if letter in valued:
            return 0 if rest or letter in "xTKF" else 1
        if letter == "i" and rest:
            return 0
    return 0


def _from_input(call: Call, language: str) -> Stream | None:
    if call.stdin.labels & {FETCHED, DECODED}:
        call.ask("remote-exec", "it runs what it downloads or decodes")
    elif call.stdin.text is None:
        call.ask("unknown-command", "what the interpreter is given is only known when it runs")
        call.effect(EffectKind.UNKNOWN)
    else:
        judge_code(call, language, Word(call.stdin.text), [])
    return UNTOLD


def _script(call: Call, language: str, script: Word, rest: Sequence[Word]) -> Stream | None:
    if script.text.startswith("-m "):
        return _module(call, script.text[3:], rest)
    if script.text in ("-", "/dev/stdin"):
        return _from_input(call, language) if call.fed else None
    if script.text.startswith("/dev/fd/"):
        held = call.state.files.get(script.text, UNTOLD)
        inner = Call(call.name, [], call.state, held, call.host)
        return _from_input(inner, language)
    if script.dynamic and re.fullmatch(r"\$\{\w+\}|\$\(\)", script.text):
        call.ask("unknown-command", "which script runs is only known when it runs")
        return None
    if script.text.endswith("manage.py") and any(
        word.text in ("flush", "reset_db", "sqlflush", "drop_db") for word in rest[:1]
    ):
        call.ask("sql", "it deletes tables or rows without a condition")
    path = call.path(script)
    # Beside a script lie the modules that it may take in.
    call.effect(EffectKind.RUNS, (path, path.rpartition("/")[0] or "/"))
    held_file = flow.runs_file(call, path, script=False)
    if held_file is not None and held_file.text is not None:
        judge_code(call, language, Word(held_file.text), rest)
    call.reads([script])
    return None


_OURSELVES = re.compile(r"hermes(\.__main__|\.cli.*)?$")
_QUIET_MODULES = word_set(
    "json.tool http.server venv timeit this calendar zipfile tarfile gzip base64 platform site sysconfig "
    "compileall py_compile tokenize ast dis pydoc ensurepip cProfile"
)


def _module(call: Call, module: str, rest: Sequence[Word]) -> Stream | None:
    """`python -m NAME`: some are programs with rules of their own; all look into the folder first."""
    if _OURSELVES.match(module):
        return own.judge(Call("hermes", rest, call.state, None, call.host))
    call.effect(EffectKind.RUNS, (call.cwd,))
    if module in ("pip", "pytest", "mypy", "ruff", "black", "poetry", "pipenv", "tox", "nox", "ansible"):
        return call.run([Word(module), *rest])
    if module in ("timeit", "cProfile", "profile", "trace"):
        for word in rest:
            if re.search(r"[\s(.]", word.text):
                judge_code(call, "python", word, [])
    if module == "http.server" and any(text.text in ("-d", "--directory") for text in rest):
        where = rest[
            [word.text for word in rest].index("-d" if "-d" in [w.text for w in rest] else "--directory") + 1 :
        ][:1]
        if any(call.path(word) in ("/", call.host.places.home) for word in where):
            call.ask("raw-connection", "it opens files to others")
    return None


def judge_code(call: Call, language: str, word: Word, rest: Sequence[Word]) -> None:
    """What speaks against a program text."""
    text = word.text
    if word.dynamic:
        if re.fullmatch(r"\s*(\$\(\)|\$\{[\w@]+\})\s*", text):
            call.ask("unknown-command", "the program is only known when it runs")
            return
        text = re.sub(r"\$\(\)|\$\{\w+\}", "_given_", text)
    if len(text) > 60_000:
        call.ask("program-text", "the program text is too long to be judged")
        return
    given = [one.text for one in rest]
    code = python_code(text, given) if language == "python" else other_code(text, language)
    _judge(call, code)


def _judge(call: Call, code: Code) -> None:
    places = call.host.places
    for finding, contained in code.harmful:
        call.ask("program-text", finding, contained=contained)
    if code.loads:
        call.effect(EffectKind.RUNS, sorted({resolve(path, call.cwd, places) for path in code.loads}))
    if code.bomb:
        call.deny("fork-bomb", "it starts itself without end")
    for path in code.deleted:
        full = resolve(path, call.cwd, places)
        call.effect(EffectKind.DELETES, (full,))
        if code.recursive and _root(call, full):
            call.deny("rm-root", f"it deletes {full}")
        elif not call.writes(full, how="deletes", kind=EffectKind.DELETES):
            call.ask("program-text", f"it deletes {full}", contained=not full.startswith(places.workspace))
    for path in code.emptied:
        call.ask("emptied", f"it empties {resolve(path, call.cwd, places)}")
    for path in code.written:
        call.writes(resolve(path, call.cwd, places), kind=EffectKind.OVERWRITES)
    _leaks(call, code)
    _starts(call, code)


def _starts(call: Call, code: Code) -> None:
    for argv in code.spawned:
        before = len(getattr(call.host, "findings", ()))
        call.run([Word(text) for text in argv], lost=True, stdin=NOTHING)
        if not _reader(argv) and len(getattr(call.host, "findings", ())) == before:
            call.ask("program-text", f"the program text starts {argv[0]}")
    for text in code.shelled:
        before = len(getattr(call.host, "findings", ()))
        call.script(text, lost=True, stdin=NOTHING)
        if not _reader(text.split()) and len(getattr(call.host, "findings", ())) == before:
            call.ask("program-text", "the program text starts a shell")


def _root(call: Call, path: str) -> bool:
    from hermes.safety.call import root_like

    return root_like(path, call.host.places)


_READERS = word_set(
    "ls cat echo pwd date uname whoami id hostname true git which wc head tail grep find df du ps "
    "python3-config nproc arch printf env-none"
)


def _reader(argv: Sequence[str]) -> bool:
    return bool(argv) and argv[0].rpartition("/")[2] in _READERS


def _leaks(call: Call, code: Code) -> None:
    secret = code.environment
    for path in sorted(code.paths):
        if reason := names_secret(Word(path), call.cwd, call.host.places):
            secret = True
            call.effect(EffectKind.READS, (resolve(path, call.cwd, call.host.places),))
            call.ask("reads-secret", reason)
            break
    from hermes.safety.call import private

    secret = secret or any(private(path) for path in code.paths)
    if code.hosts or code.sends:
        call.effect(EffectKind.SENDS if code.sends else EffectKind.FETCHES, sorted(code.hosts))
    if (secret or (call.fed and SECRET in call.stdin.labels)) and (code.sends or code.fetches):
        call.ask("exfiltration", "it sends keys or the environment away")


RULES: dict[str, Rule] = dict.fromkeys(_LANGUAGES, interpreter)

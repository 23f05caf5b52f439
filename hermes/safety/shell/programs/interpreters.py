"""Interpreters: programs given on the command line or by a pipe, and the files they run."""

import re
from collections.abc import Callable, Sequence
from functools import partial

from hermes.i18n.messages import N_
from hermes.safety.shell import dataflow
from hermes.safety.shell.call import (
    CommandOptions,
    ProgramCall,
    Rule,
    is_root_like_path,
    resolve_path,
    secret_read_reason,
)
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.key_files import is_key_file, is_private_file, key_read_reason
from hermes.safety.shell.loading import find_option_modules
from hermes.safety.shell.programs import cloud_clis, databases, network, own, windows
from hermes.safety.shell.python import analyze_python
from hermes.safety.shell.scripts import CodeAnalysis, analyze_script
from hermes.safety.shell.words import (
    EMPTY_STREAM,
    NO_LABELS,
    UNKNOWN_STREAM,
    Label,
    ShellStream,
    Word,
    is_bare_word,
    word_set,
)

_LOADED = "require import loader"
"""Long names of options with a value that is no program."""
_LANGUAGES: dict[str, tuple[str, str, str]] = {
    # By program: the letters whose value is a program, the other letters with a value, the long names for a program.
    **dict.fromkeys(("python", "python2", "pypy", "micropython"), ("c", "WXQ", "")),
    "perl": ("eE", "IMmFx", ""),
    "ruby": ("e", "rIECTKFx", ""),
    **dict.fromkeys(("node", "bun", "ts-node", "tsx"), ("ep", "rC", "eval print")),
    "php": ("rBRE", "cdz", "run"),
    "julia": ("eE", "L", "eval"),
    **dict.fromkeys(word_set("lua luajit osascript"), ("e", "l", "")),
    **dict.fromkeys(word_set("r Rscript groovy scala ghc"), ("e", "", "")),
    **dict.fromkeys(word_set("elixir irb clojure racket"), ("e", "r", "eval")),
    **dict.fromkeys(word_set("guile expect"), ("c", "lf", "")),
    "swipl": ("g", "", ""),
    **dict.fromkeys(word_set("sbcl erl octave"), ("", "", "eval")),
    **dict.fromkeys(word_set("deno tclsh jshell cscript gdb-python pwsh powershell"), ("", "", "")),
}


_ENCODED = re.compile(r"-e(nc?\w*|c)?$", re.IGNORECASE)
_SPOKEN_AS = {
    **dict.fromkeys(("python2", "pypy", "micropython"), "python"),
    **dict.fromkeys(("ts-node", "tsx", "bun"), "node"),
    "powershell": "pwsh",
}


def unversioned(name: str) -> str:
    """`python` for `python3.11`, `gcc` for `gcc-12`."""
    return name.rstrip("0123456789.-") or name


def interpreter(call: ProgramCall) -> ShellStream | None:
    """python, perl, ruby, node, php, lua and their like."""
    return None if call.name in _CHECKING and _only_checks(call) else _interpreted(call)


def _interpreted(call: ProgramCall) -> ShellStream | None:
    name = call.name if call.name in _LANGUAGES else unversioned(call.name)
    language = _SPOKEN_AS.get(name, name)
    if language == "pwsh" and any(map(_ENCODED.match, call.args)):
        call.ask("program-text", "its program is hidden")
        return None
    _judge_perl_options(call, language)
    for path in sorted(find_option_modules(call.args, language)):
        call.add_effect(EffectKind.RUNS, (resolve_path(path, call.cwd, call.host.places),))
    codes, script, rest = _programs(call.words, name, language)
    labels = NO_LABELS.union(*(word.labels for word in codes))
    if call.ask_about_origin(labels):
        return UNKNOWN_STREAM
    for word in codes:
        judge_code(call, language, word, rest)
    if codes:
        _edited_in_place(call, codes, rest if language in ("perl", "ruby") else [])
        return ShellStream(None, call.stdin.labels | labels)
    if script is None:
        return _from_input(call, language) if call.fed else None
    return _script(call, language, script, rest)


_CODE_IN_OPTION = re.compile(r"-[Mm]['\w:]+?[ ;(]|-d:\S*=|-d:?[^\w=]")


def _judge_perl_options(call: ProgramCall, language: str) -> None:
    """Judge the options of perl that hold a program text."""
    for text in filter(_CODE_IN_OPTION.match, call.args[:20]) if language == "perl" else ():
        judge_code(call, "perl", Word(re.sub(r"^-[Mm]", "use ", text)), [])


_CHECKING: dict[str, tuple[str, str, frozenset[str]]] = {
    # By program: what says that a text is only checked, the letters with a value, and the long names it goes with.
    "node": ("c", "repC", word_set("check")),
    "ruby": ("c", "rIECTKFxe", NO_LABELS),
    "php": ("l", "rBREcdzfFStT", NO_LABELS),
}
_LOADING = word_set("r d B R E z e p S")
"""Letters that run something all the same."""


def _only_checks(call: ProgramCall) -> bool:
    """Whether it only looks whether a text can be read. Perl's `-c` is none: it runs what stands in `BEGIN`."""
    said, valued, longs = _CHECKING[call.name]
    options = CommandOptions(call.words, valued, stop=True)
    return options.has_option(said, *longs) and _LOADING.isdisjoint(options.letters) and longs.issuperset(options.longs)


_Programs = tuple[list[Word], Word | None, list[Word]]
_ATTACHED = {"perl": "xFi", "ruby": "xTKFi"}
"""Letters whose value, if they have one, stands in the same word."""
_DENO_RUNS = word_set("run test bench install x serve compile cache")
_ELSEWHERE = re.compile(r"(https?|ftp|git|ssh)://", re.IGNORECASE)


def _programs(words: Sequence[Word], name: str, language: str) -> _Programs:
    """(program texts, the script, what is given to either)."""
    if language == "pwsh":
        return windows.programs(name, words)
    spoken, valued, longs = _LANGUAGES[name]
    last = "cm" if language == "python" else ""
    options = CommandOptions(
        [Word("-e") if word.text == "-pe" and language == "node" else word for word in words],
        spoken + valued + last,
        f"{_LOADED} {longs}",
        attached=_ATTACHED.get(name, ""),
        last=last,
        stop=True,
    )
    codes, operands = options.option_values(*spoken, *longs.split()), options.operands
    if last and "m" in options.values:
        return [], Word("-m " + options.values["m"][0].text), operands
    return (codes, None, operands) if codes or not operands else _operated(name, *operands)


def _operated(name: str, first: Word, *rest: Word) -> _Programs:
    """What the operands of an interpreter name, some of which have verbs."""
    verb = first.text if name in ("deno", "bun") else ""
    if verb == "eval":
        return list(rest[:1]), None, list(rest[1:])
    if name == "deno" and verb in _DENO_RUNS:
        rest = tuple(CommandOptions(rest, stop=True).operands)
    elif verb not in ("run", "repl"):
        return [], first, list(rest)
    return [], (rest[0] if rest else Word("-m repl")), list(rest[1:])


def _from_input(call: ProgramCall, language: str) -> ShellStream | None:
    if call.ask_about_origin(call.stdin.labels):
        return UNKNOWN_STREAM
    if call.stdin.text is None:
        call.ask("unknown-command", "the program text is only known at run time", effect=EffectKind.UNKNOWN)
    else:
        judge_code(call, language, Word(call.stdin.text), [])
    return UNKNOWN_STREAM


def _script(call: ProgramCall, language: str, script: Word, rest: Sequence[Word]) -> ShellStream | None:
    if script.text.startswith("-m "):
        return _module(call, script.text[3:], rest)
    if script.text in ("-", "/dev/stdin"):
        return _from_input(call, language) if call.fed else None
    if script.text.startswith("/dev/fd/"):
        held = call.state.files.get(script.text, UNKNOWN_STREAM)
        inner = ProgramCall(call.name, [], call.state, held, call.host)
        return _from_input(inner, language)
    if is_bare_word(script):
        call.ask("unknown-command", "which script runs is only known at run time")
        return None
    if script.text.startswith(("npm:", "jsr:")):
        call.add_effect(EffectKind.FETCHES, ("registry",))
        return None
    if _ELSEWHERE.match(script.text):
        call.add_effect(EffectKind.FETCHES, (script.text.split("/")[2],))
        call.ask("remote-exec", "it runs what it downloads")
        return None
    cloud_clis.migrations(ProgramCall(script.text.rpartition("/")[2], rest, call.state, None, call.host))
    path = call.resolve_path(script)
    # Beside a script lie the modules that it may take in.
    call.add_effect(EffectKind.RUNS, (path, path.rpartition("/")[0] or "/"))
    held_file = dataflow.judge_run_file(call, path, script=False)
    if held_file is not None and held_file.text is not None:
        judge_code(call, language, Word(held_file.text), rest)
    return None


_CODE_WORDS = 128
"""A program text costs as much as so many words of a command, and more when it is long."""
_OURSELVES = re.compile(r"hermes(\.__main__|\.cli.*)?$")


_JUDGED_MODULES = word_set("pip pytest mypy ruff black poetry pipenv tox nox ansible uv")


def _module(call: ProgramCall, module: str, rest: Sequence[Word]) -> ShellStream | None:
    """`python -m NAME`: some are programs with rules of their own; all look into the folder first."""
    if _OURSELVES.match(module):
        return own.judge(ProgramCall("hermes", rest, call.state, None, call.host))
    call.add_effect(EffectKind.RUNS, (call.cwd,))
    if module in _JUDGED_MODULES:
        return call.judge_program([Word(module), *rest])
    if module == "timeit":
        options = CommandOptions(rest, "nrsu", "setup number repeat unit", stop=True)
        texts = [word.text for word in (*options.option_values("s", "setup"), *options.operands)]
        judge_code(call, "python", Word("\n".join(texts)), [])
    elif module == "http.server":
        _served(call, rest)
    return None


def _served(call: ProgramCall, rest: Sequence[Word]) -> None:
    for word in CommandOptions(rest, "bdp", "bind directory protocol").option_values("d", "directory"):
        if is_root_like_path(call.resolve_path(word), call.host.places) or call.secret_reason(word):
            call.ask("raw-connection", "it opens files to others")


def judge_code(call: ProgramCall, language: str, word: Word, rest: Sequence[Word]) -> None:
    """What speaks against a program text."""
    text = word.text
    if word.dynamic:
        if re.fullmatch(r"\s*(\$\(\)|\$\{[\w@]+\})\s*", text):
            call.ask("unknown-command", "the program is only known at run time")
            return
        text = re.sub(r"\$\(\)|\$\{\w+\}", "_given_", text)
    if len(text) > 60_000 or not call.host.budget.spend_step(_CODE_WORDS + len(text) // 8):
        call.ask("program-text", "the program text is too long to be judged")
        return
    if language == "pwsh":
        windows.judge_text(call, text)
    given = [one.text for one in rest]
    code = analyze_python(text, given) if language == "python" else analyze_script(text, language)
    code.drops = cloud_clis.drops_rows(text)
    _judge(call, code)


def _judge(call: ProgramCall, code: CodeAnalysis) -> None:
    for finding, contained in code.harmful:
        call.ask("program-text", finding, contained=contained)
    if code.bomb:
        call.deny("fork-bomb", "it starts itself without end")
    if code.loads:
        call.add_effect(
            EffectKind.RUNS, sorted({resolve_path(path, call.cwd, call.host.places) for path in code.loads})
        )
    _files(call, code)
    if databases.spoken_loses(code.statements) or code.drops:
        call.ask("sql", databases.LOSES, effect=EffectKind.DESTROYS)
    _leaks(call, code)
    for argv in code.spawned:
        reason = N_("the program text starts {argv}", argv=argv[0])
        follow = partial(call.judge_program, [Word(text) for text in argv], lost=True, stdin=EMPTY_STREAM)
        _started(call, argv, reason, follow)
    for text in code.shelled:
        follow = partial(call.judge_script, text, lost=True, stdin=EMPTY_STREAM)
        _started(call, text.split(), "the program text starts a shell", follow)


def _files(call: ProgramCall, code: CodeAnalysis) -> None:
    places = call.host.places
    for path in code.deleted:
        full = resolve_path(path, call.cwd, places)
        call.add_effect(EffectKind.DELETES, (full,))
        if code.recursive and is_root_like_path(full, places):
            call.deny("rm-root", N_("it deletes {full}", full=full))
        elif not call.judge_write(full, how="deletes", kind=EffectKind.DELETES):
            call.ask(
                "program-text", N_("it deletes {full}", full=full), contained=not full.startswith(places.workspace)
            )
    for path in dict.fromkeys(resolve_path(path, call.cwd, places) for path in code.emptied):
        if path not in call.state.files and not dataflow.is_disposable(path, call.host):
            call.ask("emptied", N_("it empties {path}", path=path), effect=EffectKind.OVERWRITES, targets=(path,))
    for path in code.written:
        call.judge_write(resolve_path(path, call.cwd, places), kind=EffectKind.OVERWRITES)


def _started(call: ProgramCall, argv: Sequence[str], reason: str, follow: Callable[[], ShellStream]) -> None:
    """What a program text starts: asked about when following it says nothing, unless it only reads."""
    before = len(getattr(call.host, "findings", ()))
    follow()
    is_reader = bool(argv) and argv[0].rpartition("/")[2] in _READERS
    if not is_reader and len(getattr(call.host, "findings", ())) == before:
        call.ask("program-text", reason)


_READERS = word_set(
    "ls cat echo pwd date uname whoami id hostname true git which wc head tail grep find df du ps nproc arch printf"
)


def _names_keys(call: ProgramCall, code: CodeAnalysis) -> bool:
    """Whether a program text names a file that holds keys, which is asked about."""
    for path in sorted(code.paths):
        full = resolve_path(path, call.cwd, call.host.places)
        if reason := secret_read_reason(Word(path), call.cwd, call.host.places):
            call.add_effect(EffectKind.READS, (full,))
            call.report_secret_read(full, reason)
            return True
        if is_key_file(full, call.host.places):
            call.ask("reads-secret", key_read_reason(full), effect=EffectKind.READS, targets=(full,))
            return True
    return False


def _leaks(call: ProgramCall, code: CodeAnalysis) -> None:
    named = _names_keys(call, code)
    secret = named or code.environment or any(map(is_private_file, code.paths))
    if code.hosts or code.sends or code.fetches:
        call.add_effect(EffectKind.SENDS if code.sends else EffectKind.FETCHES, sorted(code.hosts))
    given = call.fed and Label.SECRET in call.stdin.labels
    if (secret or given) and (code.sends or code.fetches):
        call.ask("exfiltration", "it sends keys or the environment away")
    network.judge_hosts(call, sorted(code.hosts))


_SWITCH = re.compile(r"-[acdfhlnpsStTuUvwWX0-9]*i")
_PRINTING = re.compile(r"-(?!-)[acdfhlnsStTuUvwWX0-9i]*p")
_PUTS_NOTHING = re.compile(r"""\s*(\$_\s*=\s*(''|""|undef)|undef\s*\(?\$_\)?|0|)\s*;?\s*""")


def _edited_in_place(call: ProgramCall, codes: Sequence[Word], rest: Sequence[Word]) -> None:
    """`perl -i`, `ruby -i`: the files behind the program text are what it prints."""
    if not any(map(_SWITCH.match, call.args[:12])):
        return
    for word in [one for one in rest if one.text[:1] != "-"][:50]:
        call.judge_write(call.resolve_path(word), kind=EffectKind.OVERWRITES)
    silent = not any(map(_PRINTING.match, call.args[:12]))
    code = ";".join(word.text for word in codes)
    if rest and _PUTS_NOTHING.fullmatch(code) and (silent or "$_" in code):
        call.ask("emptied", "it deletes what files hold")


RULES: dict[str, Rule] = dict.fromkeys(_LANGUAGES, interpreter)

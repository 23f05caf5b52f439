"""Programs that run other programs: what they would run is judged like any other command."""

import re
from collections.abc import Sequence

from hermes.safety.globs import quote_argv
from hermes.safety.shell.call import CommandOptions, ProgramCall, Rule
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs.shells import SHELLS, given, held
from hermes.safety.shell.words import DELETING, UNKNOWN_STREAM, AnalysisState, Label, ShellStream, Word, word_set

_RIGHTS = "it runs with another user's rights"

_PEELED: dict[str, tuple[str, str]] = {
    # By program: letters with a value, and long names with a value.
    "sudo": ("ugpCrtTUDRhcP", "user group prompt chdir host other-user role type chroot close-from command-timeout"),
    "doas": ("uCa", ""),
    "nice": ("n", "adjustment"),
    "ionice": ("cnpPu", "class classdata pid"),
    **dict.fromkeys(("timeout", "gtimeout"), ("sk", "signal kill-after")),
    "exec": ("a", ""),
    "time": ("of", "output format"),
    "stdbuf": ("ioe", "input output error"),
    "chroot": ("", "userspec groups"),
    "unshare": ("SGRw", "root wd map-user map-group propagation setuid setgid"),
    "nsenter": ("tSGrw", "target setuid setgid"),
    **dict.fromkeys(("strace", "ltrace"), ("oepsunalbEaISPxX", "output trace attach expr env")),
    "dtruss": ("p", ""),
    "chrt": ("Tpd", ""),
    "numactl": ("Nmic", "cpunodebind membind physcpubind"),
    "prlimit": ("p", "pid"),
    "systemd-run": ("puMHE", "property unit description uid gid working-directory setenv slice on-calendar on-active"),
    "systemd-inhibit": ("", "what who why mode"),
    "caffeinate": ("tw", ""),
    "proot": ("rbwq0", ""),
    "fakeroot": ("lsib", ""),
    "dbus-run-session": ("", "config-file"),
    "xvfb-run": ("nsefp", "server-args"),
    "runuser": ("ugGc", "user group command"),
    "setpriv": ("", "reuid regid"),
    "cpulimit": ("lpe", "limit"),
    "perf": ("e", ""),
    **dict.fromkeys(("proxychains", "proxychains4"), ("f", "")),
    "retry": ("td", "times delay"),
    "softlimit": ("mcd", ""),
    "wsl": ("deu", "distribution exec user cd"),
    "chpst": ("uUbem", ""),
}
_PEELED_AT_ONCE = word_set("""
    nohup command builtin unbuffer setsid busybox toybox taskset dbus-launch faketime catchsegv firejail bwrap valgrind
    torsocks tsocks coproc ts chronic ifne envdir linux32 linux64 eatmydata noglob nocorrect then do else rlwrap winpty
    wine tini dumb-init
""")
"""Wrappers none of whose options takes a value."""
_SKIPPING = word_set("timeout gtimeout chroot chrt taskset faketime perf envdir")
"""Wrappers that take a word of their own before the program."""
_ELSEWHERE = word_set("chroot nsenter unshare proot systemd-run bwrap firejail")


def peeled(call: ProgramCall) -> ShellStream | None:
    """The wrappers that take options, a few words of their own, and then a program."""
    letters, named = _PEELED.get(call.name, ("", ""))
    options = CommandOptions(call.words, letters, named, stop=True)
    rest = options.operands[call.name in _SKIPPING :]
    if call.name in ("sudo", "doas"):
        return _raised(call, options, rest)
    if call.name == "command" and options.has_option("v", "V"):
        return None
    _wrapped(call, options)
    if call.name == "runuser" and options.option_values("c", "command"):
        return call.judge_script(options.option_values("c", "command")[0].text, lost=True)
    return _past_functions(call, rest, lost=call.name in _ELSEWHERE or options.has_option("chdir"))


def _past_functions(call: ProgramCall, rest: Sequence[Word], *, lost: bool) -> ShellStream:
    """Follow a program that a wrapper starts: it knows none of the shell's functions."""
    name = rest[0].text if rest else ""
    body = call.state.functions.pop(name, None)
    out = call.judge_program(rest, lost=lost)
    if body is not None:
        call.state.functions[name] = body
    return out


_AS_OTHERS: dict[str, tuple[str, ...]] = {
    # Wrappers that run with other rights, with the options that say so; none means always.
    "runuser": (),
    "systemd-run": ("uid", "gid", "property", "p", "pty", "t", "shell", "S"),
    "setpriv": ("reuid", "ruid", "euid", "regid", "init-groups", "ambient-caps"),
    "chpst": ("u", "U"),
}


_TIMERS = ("on-calendar", "on-active", "on-boot", "on-startup", "on-unit-active", "timer-property")
_ATTACHING = ("strace", "ltrace", "perf")


def _wrapped(call: ProgramCall, options: CommandOptions) -> None:
    """What a wrapper does besides starting a program."""
    if _as_other(call, options):
        call.ask("privilege", _RIGHTS, effect=EffectKind.ESCALATES)
    if call.name in _ELSEWHERE:
        _elsewhere(call, options)
    if call.name in _ATTACHING and options.option_values("p", "attach"):
        call.ask("kill-unknown", "it takes control of other processes")


def _as_other(call: ProgramCall, options: CommandOptions) -> bool:
    """Whether the program gets other rights than the caller's."""
    names = _AS_OTHERS.get(call.name)
    if names is None or (call.name == "systemd-run" and options.has_option("user")):
        return False
    return not names or options.has_option(*names)


def _elsewhere(call: ProgramCall, options: CommandOptions) -> None:
    """A program in another root, in other name spaces, or at another time."""
    call.add_effect(EffectKind.ESCALATES)
    if call.name in ("chroot", "nsenter") and not options.has_option("help", "version"):
        call.ask("system", "it changes the running system")
    if call.name == "systemd-run" and options.has_option(*_TIMERS):
        call.ask("time", "it changes what runs later by itself", effect=EffectKind.PERSISTS)


def _raised(call: ProgramCall, options: CommandOptions, rest: Sequence[Word]) -> ShellStream | None:
    if options.has_option("V", "version", "h", "help", "l", "list", "v", "validate", "k", "K") and not rest:
        return None
    call.ask("privilege", _RIGHTS, effect=EffectKind.ESCALATES)
    words = list(rest)
    while words and re.match(r"\w+=", words[0].text):
        words.pop(0)
    if words and options.has_option("chdir", "D"):
        state = call.state.copy(_in_folder(call, options, call.state.copy()).where)
        return call.host.judge_command(words, state, call.piped_input())
    return call.judge_program(words, lost=options.has_option("R", "chroot"))


def env(call: ProgramCall) -> ShellStream | None:
    """env: variables, a folder, and a program; alone it shows every variable."""
    from hermes.safety.shell import variables

    options = CommandOptions(call.words, "uCS", "unset chdir split-string", stop=True)
    words = list(options.operands)
    state = call.state.copy()
    while words and re.match(r"[A-Za-z_]\w*=", words[0].text):
        name, _, value = words[0].text.partition("=")
        variables.set_variable(call.host, name, Word(value, words[0].dynamic, labels=words[0].labels), state)
        words.pop(0)
    split = options.option_values("S", "split-string")
    if split:
        text = f"{split[0].text} {quote_argv(word.text for word in words)}"
        return call.host.judge_script(text, _in_folder(call, options, state), call.piped_input())
    if not words:
        return ShellStream(None, frozenset({Label.SECRET})) if not options.has_option("help", "version") else None
    return call.host.judge_command(words, _in_folder(call, options, state), call.piped_input())


def _in_folder(call: ProgramCall, options: CommandOptions, state: AnalysisState) -> AnalysisState:
    """The state of a program that a wrapper starts in another folder."""
    for word in options.option_values("C", "D", "chdir")[-1:]:
        state.where = (state.where if word.dynamic else state.where.change_folder(call.resolve_path(word))).lose_track()
    return state


def multiplied(call: ProgramCall) -> ShellStream | None:
    """xargs, parallel: a program with what it is given as further arguments."""
    rest, marks, values = (_xargs if call.name != "parallel" else _parallel)(call)
    if values is not None:
        return _over(call, rest, values)
    if not rest:
        return given(call) if call.name == "parallel" else None
    if call.fed and _runs_text(rest) and call.ask_about_origin(call.stdin.labels):
        _deletes_given(call, rest)
        return UNKNOWN_STREAM
    remade = Label.REGENERABLE in call.stdin.labels and call.state.where.is_known and _by_input(call)
    if not remade:
        _deletes_given(call, rest)
    return _filled(call, rest, _values(call, lines=bool(marks)), marks, lost=not remade)


_MAX_GIVEN = 4_000
"""Characters of the longest input whose words are followed one by one."""


def _values(call: ProgramCall, *, lines: bool) -> list[Word]:
    """What it is given: the words, or the lines, of a text that is known."""
    text = call.stdin.text if call.fed else None
    if text is None or len(text) >= _MAX_GIVEN:
        return [Word("$()", dynamic=True, labels=call.stdin.labels)]
    return [Word(piece, labels=call.stdin.labels) for piece in _split_args(text, lines)]


_Given = tuple[list[Word], list[str], Sequence[Word] | None]


def _xargs(call: ProgramCall) -> _Given:
    options = CommandOptions(
        call.words, "InPLdasE", "max-args max-procs arg-file delimiter replace max-lines max-chars", stop=True
    )
    all_at_once = any(word.text == "0" for word in options.option_values("P", "max-procs"))
    if all_at_once and call.fed and call.stdin.labels & {Label.MANY, Label.ENDLESS}:
        call.ask("bomb", "it starts processes without end")
    marks = [word.text for word in options.option_values("I", "replace")] or (
        ["{}"] if options.has_option("i", "replace") else []
    )
    return list(options.operands), marks, None


def _parallel(call: ProgramCall) -> _Given:
    options = CommandOptions(
        call.words, "jIaNnPSS", "jobs max-procs colsep delay joblog results sshlogin arg-file", stop=True
    )
    rest = list(options.operands)
    for at, word in enumerate(rest):
        if word.text in (":::", "::::", ":::+"):
            return rest[:at], ["{}"], rest[at + 1 :]
    return rest, ["{}"], None


def _deletes_given(call: ProgramCall, rest: Sequence[Word]) -> None:
    name = rest[0].text.rpartition("/")[2]
    if name not in DELETING or (call.fed and call.stdin.text is not None):
        return
    call.add_effect(EffectKind.DELETES)
    if Label.EVERYTHING in call.stdin.labels:
        call.deny("find-delete", "it deletes everything that it is given")
    else:
        call.ask("deletes-given", "it deletes everything that it is given")


def _runs_text(rest: Sequence[Word]) -> bool:
    return rest[0].text.rpartition("/")[2] in SHELLS or any(word.text == "-c" for word in rest)


def _by_input(call: ProgramCall) -> bool:
    """Whether what is given comes by the input, and not out of a file that is named."""
    return call.name != "parallel" and not any(re.match(r"-\w*a|--arg-f", text) for text in call.args)


def _filled(
    call: ProgramCall, rest: Sequence[Word], values: Sequence[Word], marks: Sequence[str], *, lost: bool
) -> ShellStream | None:
    out: ShellStream | None = None
    if marks:
        for value in values[:8]:
            words = [_replaced(word, marks[0] or "{}", value) for word in rest]
            if len(words) > 1 or " " not in words[0].text:
                out = call.judge_program(words, lost=lost, stdin=UNKNOWN_STREAM)
            else:
                out = call.judge_script(words[0].text, lost=True)
        return out
    return call.judge_program([*rest, *values[:50]], lost=lost, stdin=UNKNOWN_STREAM)


def _split_args(text: str, lines: bool) -> list[str]:
    return [line for line in text.splitlines() if line] if lines else text.replace("'", "").replace('"', "").split()


def _replaced(word: Word, mark: str, value: Word) -> Word:
    if mark not in word.text:
        return word
    return Word(word.text.replace(mark, value.text), word.dynamic or value.dynamic, labels=word.labels | value.labels)


def _over(call: ProgramCall, rest: Sequence[Word], values: Sequence[Word]) -> ShellStream | None:
    if not rest:
        for word in values:
            call.judge_script(word.text, lost=True)
        return None
    if len(rest) == 1 and " " in rest[0].text:
        for value in values[:8]:
            call.judge_script(rest[0].text.replace("{}", value.text), lost=True)
        return None
    out = None
    for value in values[:8]:
        marked = any("{}" in word.text for word in rest)
        words = [_replaced(word, "{}", value) for word in rest] if marked else [*rest, value]
        out = call.judge_program(words, lost=True, stdin=UNKNOWN_STREAM)
    return out


_SSH_VALUED = "bcDEeFIiJLlmOopQRSWwB"
_SSH_PROGRAMS = re.compile(
    r"(ProxyCommand|LocalCommand|KnownHostsCommand|ProxyUseFdpass)[= ]|PermitLocalCommand", re.IGNORECASE
)


def remote(call: ProgramCall) -> ShellStream | None:
    """ssh, mosh: what runs on the other machine is judged as if it ran here; options may run something here."""
    options = CommandOptions(call.words, _SSH_VALUED, "ssh port", stop=True)
    _ssh_options(call, options)
    hosts = options.operands[:1]
    call.add_effect(
        EffectKind.SENDS if call.fed else EffectKind.FETCHES, [word.text.rpartition("@")[2] for word in hosts]
    )
    rest = [word for word in options.operands[1:] if word.text != "--"]
    if call.fed and Label.SECRET in call.stdin.labels:
        call.ask("exfiltration", "it sends keys, dumps or the environment away")
    if not rest:
        return given(call) if call.fed and hosts else None
    call.judge_script(" ".join(map(held, rest)), lost=True)
    return ShellStream(None, frozenset({Label.FETCHED}))


def _ssh_options(call: ProgramCall, options: CommandOptions) -> None:
    for word in options.option_values("o"):
        if _SSH_PROGRAMS.search(word.text):
            value = re.split(r"[= ]", word.text, maxsplit=1)[-1]
            call.ask("nested-program", "ssh starts a command here")
            call.judge_script(value, lost=True)
    if options.has_option("R", "w"):
        call.add_effect(EffectKind.SENDS, [word.text for word in options.operands[:1]])
        call.ask("tunnel", "it opens this machine to others")


def as_user(call: ProgramCall) -> ShellStream | None:
    """su: another user's shell, or one command of theirs."""
    options = call.parse_options("csg", "command shell session-command group")
    if options.has_option("help", "version"):
        return None
    call.ask("privilege", _RIGHTS, effect=EffectKind.ESCALATES)
    for word in options.option_values("c", "command", "session-command"):
        call.judge_script(word.text, lost=True)
    return None


def watched(call: ProgramCall) -> ShellStream | None:
    """watch text."""
    options = CommandOptions(call.words, "nq", "interval equexit", stop=True)
    rest = options.operands
    if any(re.match(r"0?\.0", word.text) for word in options.option_values("n", "interval")) and rest:
        call.ask("flood", "it starts something many times a second")
    return call.judge_script(" ".join(word.text for word in rest)) if rest else None


def locked(call: ProgramCall) -> ShellStream | None:
    """flock FILE program, flock FILE -c text."""
    options = CommandOptions(call.words, "wEc", "timeout wait conflict-exit-code command", stop=True)
    for word in options.option_values("c", "command"):
        return call.judge_script(word.text)
    rest = options.operands[1:]
    if rest[:1] and rest[0].text == "-c" and len(rest) > 1:
        return call.judge_script(rest[1].text)
    return call.judge_program(rest)


_NEW_WINDOWS = word_set(
    "new-session new new-window neww split-window splitw run-shell run if-shell respawn-pane pipe-pane"
)
_KILLS = word_set("kill-server kill-session kill-window kill-pane")


def tmux(call: ProgramCall) -> ShellStream | None:
    """tmux: what is typed into a window, or starts in a new one."""
    args = call.args
    verb = next((text for text in args if not text.startswith("-")), "")
    rest = call.words[args.index(verb) + 1 :] if verb else []
    options = CommandOptions(rest, "tsncxyFeSl", stop=True)
    if verb in _KILLS:
        call.ask("kill-unknown", "it ends sessions; one may be Hermes' own")
    elif verb in ("send-keys", "send"):
        keys = " ".join(text.text for text in options.operands if text.text not in ("Enter", "C-m"))
        call.judge_script(keys, lost=True)
    elif verb in _NEW_WINDOWS and len(options.operands) == 1:
        call.judge_script(options.operands[0].text, lost=True)
    elif verb in _NEW_WINDOWS and options.operands:
        call.judge_program(options.operands, lost=True)
    return None


_SHELLED = re.compile(r"^\s*(?:!|shell\s|pipe\s|make\s|platform shell\s|process launch.*--\s)\s*(.+)")
_COMMANDED = ("-ex", "-iex", "-o", "-O", "--eval-command", "--one-line")
_CODED = re.compile(r"^\s*(python|py|script|source|guile|gu)\b")


def debugger(call: ProgramCall) -> ShellStream | None:
    """gdb, lldb: other processes taken hold of, and commands given to them."""
    options = CommandOptions(call.words, "pcxd", "pid ex eval-command command core args batch", stop=False)
    args = call.args
    if options.has_option("pid", "p", "attach-pid") or "attach" in args:
        call.ask("kill-unknown", "it takes control of other processes")
    given_texts = [args[at + 1] for at, text in enumerate(args[:-1]) if text in _COMMANDED]
    for text in given_texts:
        found = _SHELLED.match(text)
        if found:
            call.ask("nested-program", "a debugger starts a command")
            call.judge_script(found[1], lost=True)
        elif _CODED.match(text) or re.search(r"\bcall\s.*system|attach\s+\d", text):
            call.ask("nested-program", "a debugger runs code")
    if "--args" in args:
        return call.judge_program(call.words[args.index("--args") + 1 :])
    return None


RULES: dict[str, Rule] = {
    **dict.fromkeys((*_PEELED, *_PEELED_AT_ONCE), peeled),
    "env": env,
    "xargs parallel gxargs": multiplied,
    "ssh mosh rsh autossh sshpass-ssh": remote,
    "su": as_user,
    "watch": watched,
    "flock": locked,
    "tmux": tmux,
    "gdb lldb rust-gdb cgdb": debugger,
}

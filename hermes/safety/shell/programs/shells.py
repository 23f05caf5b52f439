"""Shells: the program texts, the files and the input that they run."""

import re
from collections.abc import Sequence

from hermes.safety.shell import dataflow
from hermes.safety.shell.call import ProgramCall, Rule
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.words import EMPTY_STREAM, UNKNOWN_STREAM, Label, ShellStream, Word, is_bare_word, word_set

SHELLS = word_set("sh bash dash zsh ksh ash fish rbash mksh csh tcsh yash elvish nu")
_OTHER_N = ("nu", "elvish")
"""Shells to which `-n` means something else than to read a text without running it."""
_TURNED = re.compile(r"\+|(--?)?_*e_*x_*e_*c_*$", re.IGNORECASE)
_ONLY_READS = ("--no-execute", "--noexec", "--no-exec")
_SHELL_VALUED = ("--rcfile", "--init-file", "-O", "+O", "-o", "+o")


def shell(call: ProgramCall) -> ShellStream | None:
    """sh -c text, sh file, something | sh, sh <<< text."""
    letters, words = _shell_options(call)
    if letters is None or ("n" in letters and _only_reads(call, letters)):
        return None
    if "c" in letters or (call.name in ("fish", "nu") and "--command" in call.args):
        return _text(call, words[0], words[1:]) if words else None
    if words and words[0].text not in ("-", "/dev/stdin") and "s" not in letters:
        return _file(call, words[0])
    return given(call)


def _only_reads(call: ProgramCall, letters: set[str]) -> bool:
    """Whether `-n` holds: no shell for a person, and nothing that turns it off again."""
    turned = any(_TURNED.match(text) for text in call.args[:20])
    return "i" not in letters and call.name not in _OTHER_N and not turned


def _shell_options(call: ProgramCall) -> tuple[set[str] | None, list[Word]]:
    """The letters given to a shell, and what follows; None when it only shows something."""
    letters: set[str] = set()
    words = list(call.words)
    while words:
        text = words[0].text
        if text in _SHELL_VALUED and len(words) > 1:
            if text.endswith("file"):
                _file(call, words[1])
            elif text == "-o" and words[1].text == "noexec":
                letters.add("n")
            words = words[2:]
        elif text in ("--version", "--help"):
            return None, []
        elif text.startswith("--"):
            letters |= {"n"} if text in _ONLY_READS else set()
            words = words[1:]
        elif re.match(r"[-+][a-zA-Z]+$", text):
            letters |= set(text[1:]) if text[0] == "-" else set(text[1:]) - {"n"}
            words = words[1:]
        else:
            break
    return letters, words


def _text(call: ProgramCall, text: Word, rest: Sequence[Word]) -> ShellStream | None:
    """A program text: constant, or made of pieces that are only known when it runs."""
    if call.ask_about_origin(text.labels) and text.dynamic:
        return UNKNOWN_STREAM
    state = call.state.copy()
    if rest:
        state.positional = list(rest[1:])
        state.variables["0"] = rest[0]
    if text.dynamic and re.fullmatch(r"\s*(\$\(\)|\$\{\w+\}|\$\{@\})\s*.*", text.text):
        call.ask("unknown-command", "the text that runs is only known at run time", effect=EffectKind.UNKNOWN)
        return UNKNOWN_STREAM
    return call.host.judge_script(held(text), state, call.piped_input())


def held(text: Word) -> str:
    """A text with unknown pieces as a shell text in which they stay unknown."""
    return text.text.replace("$()", "${_unknown_}") if text.dynamic else text.text


def _file(call: ProgramCall, word: Word) -> ShellStream | None:
    if word.text.startswith("/dev/fd/"):
        held = call.state.files.get(word.text, UNKNOWN_STREAM)
        if call.ask_about_origin(held.labels):
            return None
        if held.text is not None:
            return call.judge_script(held.text, stdin=EMPTY_STREAM)
        call.ask("unknown-command", "the shell's commands are only known at run time")
        return None
    if word.dynamic:
        call.ask("unknown-command", "which script runs is only known at run time")
        return None
    path = call.resolve_path(word)
    call.add_effect(EffectKind.RUNS, (path,))
    dataflow.judge_run_file(call, path, script=True)
    return None


def given(call: ProgramCall) -> ShellStream | None:
    """A shell that reads its program from its input."""
    if not call.fed:
        return None
    stream = call.stdin
    if call.ask_about_origin(stream.labels):
        return call.judge_script(stream.text, stdin=EMPTY_STREAM) if stream.text is not None else UNKNOWN_STREAM
    if stream.text is None:
        call.ask("unknown-command", "the shell's commands are only known at run time", effect=EffectKind.UNKNOWN)
        return UNKNOWN_STREAM
    return call.judge_script(stream.text, stdin=EMPTY_STREAM)


def evaluated(call: ProgramCall) -> ShellStream | None:
    """eval."""
    if not call.words:
        return None
    labels = frozenset(label for word in call.words for label in word.labels)
    text = " ".join(word.text for word in call.words)
    call.ask_about_origin(labels)
    if any(word.dynamic for word in call.words):
        if re.fullmatch(r"\$\(\)", text) and Label.HOOK in labels:
            return None
        call.ask("unknown-command", "the text that runs is only known at run time", effect=EffectKind.UNKNOWN)
        return UNKNOWN_STREAM
    before = call.state.where
    out = call.host.judge_script(text, call.state, call.piped_input())
    if call.state.where is not before:
        call.state.where = call.state.where.lose_track()
    return out


def sourced(call: ProgramCall) -> ShellStream | None:
    """source, `.`: a file that runs in this shell."""
    if not call.words:
        return None
    word = call.words[0]
    if word.text in ("${0}", "$0", "${BASH_SOURCE}"):
        call.deny("fork-bomb", "it starts itself without end")
        return None
    if call.ask_about_origin(word.labels):
        return None
    if word.text == "/dev/stdin":
        return given(call)
    if word.text.startswith("/dev/fd/"):
        return _file(call, word)
    if word.dynamic:
        # A script beside a variable folder (`. "$NVM_DIR/nvm.sh"`) is a set-up file; a bare variable is anything.
        if is_bare_word(word):
            call.ask("unknown-command", "which script runs is only known at run time")
        return None
    path = call.resolve_path(word)
    call.add_effect(EffectKind.RUNS, (path,))
    held = dataflow.judge_run_file(call, path, script=False)
    if held is not None and held.text is not None:
        return call.host.judge_script(held.text, call.state, UNKNOWN_STREAM)
    return None


RULES: dict[str, Rule] = {**dict.fromkeys(SHELLS, shell), "eval": evaluated, "source .": sourced}

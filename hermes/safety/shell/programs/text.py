"""Programs whose output is a text that may be constant, and what of it is secret or decoded."""

import base64
import binascii
import re
from collections.abc import Sequence

from hermes.safety.environment import is_secret_variable
from hermes.safety.shell import dataflow, variables
from hermes.safety.shell.call import ProgramCall, Rule
from hermes.safety.shell.expand import decode_ansi_string
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs.disks import size_of
from hermes.safety.shell.words import EMPTY_STREAM, NO_LABELS, UNKNOWN_STREAM, Label, ShellStream, Word

_MOST = 100_000


def _labels(call: ProgramCall) -> frozenset[str]:
    labels = NO_LABELS
    for word in call.words:
        labels |= word.labels
    return labels


def echo(call: ProgramCall) -> ShellStream:
    """echo."""
    words = list(call.words)
    escapes = False
    while words and re.fullmatch(r"-[neE]+", words[0].text):
        escapes = escapes or "e" in words.pop(0).text
    text = " ".join(word.text for word in words)
    dynamic = any(word.dynamic for word in words)
    return ShellStream(
        None if dynamic or len(text) > _MOST else (decode_ansi_string(text) if escapes else text) + "\n", _labels(call)
    )


def printf(call: ProgramCall) -> ShellStream:
    """printf: formats with `%s`, `%b`, `%d`, `%c` and `%x`."""
    words = list(call.words)
    if words[:1] and words[0].text.startswith("-v") and len(words) > 1:
        return _printed_into(call, words)
    if words[:1] and words[0].text == "--":
        words = words[1:]
    if not words or any(word.dynamic for word in words):
        return ShellStream(None, _labels(call))
    text = _printed(words[0].text, [word.text for word in words[1:]])
    return ShellStream(text if len(text) < _MOST else None, _labels(call))


def _printed_into(call: ProgramCall, words: Sequence[Word]) -> ShellStream:
    """`printf -v NAME`."""
    glued = words[0].text[2:]
    name, rest = (glued, words[1:]) if glued else (words[1].text, words[2:])
    made = printf(ProgramCall("printf", rest, call.state, None, call.host))
    if made.text is None:
        variables.set_unknown_variable(call.host, name, made.labels, call.state)
    else:
        variables.set_variable(call.host, name, Word(made.text, labels=made.labels), call.state)
    return EMPTY_STREAM


_FORMAT = re.compile(r"(%[-+ #0]*\d*(?:\.\d+)?[a-zA-Z%])")


def _printed(form: str, given: list[str]) -> str:
    pieces = _FORMAT.split(form)
    out: list[str] = []
    for _ in range(500):
        used = _formatted(pieces, given, out)
        if not given or not used:
            break
    return "".join(out)


def _formatted(pieces: Sequence[str], given: list[str], out: list[str]) -> bool:
    used = False
    for piece in pieces:
        if not (piece.startswith("%") and len(piece) > 1):
            out.append(decode_ansi_string(piece))
        elif piece[-1] == "%":
            out.append("%")
        else:
            used = True
            value = given.pop(0) if given else ""
            out.append(_one(piece[-1], value))
    return used


def _one(kind: str, value: str) -> str:
    if kind == "b":
        return decode_ansi_string(value)
    if kind == "c":
        return value[:1]
    if kind in "xXo" and value.isdigit() and len(value) < 10:
        return format(int(value), kind)
    return value


def located(call: ProgramCall) -> ShellStream:
    """which, `type -P`: where a program is."""
    names = call.parse_options().operands
    if len(names) != 1 or names[0].dynamic:
        return UNKNOWN_STREAM
    return ShellStream(f"/usr/bin/{names[0].text}\n")


_VALUED = {"head": "nc", "tail": "nc", "cut": "dfbc", "fold": "w", "nl": "bhfvwsni"}
_WHOLE = frozenset({"cat", "tac", "less", "more", "zcat", "tail", "bat"})


def cat(call: ProgramCall) -> ShellStream:
    """cat, tac, head, tail and others that show files: what those hold, as far as this line knows."""
    if call.name in ("less", "more"):
        _paged(call)
    operands = call.parse_options(_VALUED.get(call.name, "")).operands
    if any(dataflow.is_endless_file(word.text) for word in operands) and _endless(call):
        return ShellStream(None, frozenset({Label.ENDLESS}))
    # Without a pipe what is given is unknown.
    streams = [dataflow.file_content(call, word) for word in operands] or [call.stdin]
    out = EMPTY_STREAM
    for stream in streams:
        out = dataflow.join_streams(out, stream)
    return _part(call, out)


def _endless(call: ProgramCall) -> bool:
    """Judge a program that shows what has no end; whether its output has none."""
    if call.name in ("tail", "tac"):
        call.ask("bomb", "it takes all of the machine's processes or memory")
        return False
    amounts = call.parse_options("nc").option_values("c", "n")
    is_huge = call.name == "head" and any(size_of(word.text) > 8 << 30 for word in amounts)
    endless = call.name == "cat" or is_huge
    if endless:
        call.add_effect(EffectKind.EXHAUSTS)
    return endless


def _part(call: ProgramCall, out: ShellStream) -> ShellStream:
    """What a program shows of what it reads."""
    if call.name == "rev" and out.text is not None:
        return ShellStream("\n".join(line[::-1] for line in out.text.split("\n")), out.labels)
    if call.name in _WHOLE or (call.name == "head" and not call.args):
        return out
    return ShellStream(None, out.labels - {Label.ENDLESS} if call.name == "head" else out.labels)


def _paged(call: ProgramCall) -> None:
    for text in call.args:
        if text.startswith("+") and "!" in text:
            call.ask("nested-program", "a pager starts a command")
            call.judge_script(text.partition("!")[2], lost=True)


def translate(call: ProgramCall) -> ShellStream:
    """tr: one set of characters put in the place of another."""
    options = call.parse_options()
    text = call.stdin.text if call.fed else None
    if text is None or len(options.operands) < 2 or options.has_option("c", "C", "complement", "d", "delete", "s"):
        return ShellStream(None, call.stdin.labels)
    old, new = (_characters(word.text) for word in options.operands[:2])
    table = dict(zip(old, new + new[-1:] * len(old), strict=False))
    return ShellStream("".join(table.get(char, char) for char in text), call.stdin.labels)


def _characters(text: str) -> str:
    """Return the characters of a set such as `a-zA-Z`."""
    for name, chars in (("[:upper:]", "A-Z"), ("[:lower:]", "a-z"), ("[:digit:]", "0-9"), ("[:space:]", " \t\n")):
        text = text.replace(name, chars)

    def spell_range(found: re.Match[str]) -> str:
        return "".join(map(chr, range(ord(found[1]), min(ord(found[2]), ord(found[1]) + 500) + 1)))

    return re.sub(r"(.)-(.)", spell_range, decode_ansi_string(text), flags=re.DOTALL)


def decode(call: ProgramCall) -> ShellStream:
    """base64, base32, xxd, uudecode, gpg: what they decode is followed when it is constant."""
    options = call.parse_options({"base64": "w", "base32": "w", "xxd": "lcgso"}.get(call.name, "o"))
    if call.name.startswith("gpg") and any(text.startswith("--delete-") for text in call.args):
        call.ask("remote-loss", "it deletes keys")
    decodes = options.has_option("d", "D", "r", "decode", "revert") or call.name in ("uudecode", "ascii2uni")
    operands = [word for word in options.operands if word.text != "-"]
    source = dataflow.file_content(call, operands[0]) if operands else call.stdin
    if not decodes:
        return ShellStream(None, source.labels)
    for word in options.option_values("o", "output"):
        path = call.resolve_path(word)
        call.judge_write(path)
        call.state.files[path] = ShellStream(None, source.labels | {Label.DECODED})
    if source.text is None:
        return ShellStream(None, source.labels | {Label.DECODED})
    return decoded(
        source.text, {"xxd": "hex", "base32": "base32"}.get(call.name, "base64"), source.labels | {Label.DECODED}
    )


def decoded(text: str, form: str, labels: frozenset[str]) -> ShellStream:
    """A decoded text; one that cannot be read keeps the label."""
    raw = re.sub(r"\s", "", text)
    try:
        if form == "hex":
            data = bytes.fromhex(raw[2:] if raw.startswith("0x") else raw.replace("\\x", ""))
        elif form == "base32":
            data = base64.b32decode(raw)
        else:
            data = base64.b64decode(raw + "=" * (-len(raw) % 4))
        return ShellStream(data.decode(), labels)
    except (ValueError, binascii.Error):
        return ShellStream(None, labels | {Label.DECODED})


def printed(call: ProgramCall) -> ShellStream:
    """printenv: every variable, or some; keys may be among them."""
    named = call.parse_options().operands
    if not named:
        return ShellStream(None, frozenset({Label.SECRET}))
    labels = frozenset({Label.SECRET}) if any(is_secret_variable(word.text) for word in named) else NO_LABELS
    known = call.state.variables.get(named[0].text)
    return ShellStream(known.text if known and not known.dynamic else None, labels)


def read(call: ProgramCall) -> ShellStream:
    """read, mapfile: variables out of the input."""
    options = call.parse_options("dinNptua" if call.name == "read" else "dnOsucC")
    names = [word.text for word in options.operands] or ["REPLY"]
    text = call.stdin.text if call.fed else None
    if call.name != "read" or options.has_option("a"):
        name = (options.option_values("a") or options.operands or [Word("MAPFILE")])[0].text
        variables.set_unknown_variable(call.host, name, call.stdin.labels, call.state)
        if text is None:
            call.state.arrays[name] = [Word("${" + name + "}", dynamic=True, labels=call.stdin.labels)]
        else:
            pieces = text.split() if call.name == "read" else text.splitlines()
            call.state.arrays[name] = [Word(piece, labels=call.stdin.labels) for piece in pieces[:200]]
        call.state.variables.pop(name, None)
        return EMPTY_STREAM
    variables.read_variables(call.host, names, text, call.stdin.labels, call.state)
    return EMPTY_STREAM


_VAST = 1 << 33
"""Numbers that no disk holds, one on a line."""


def repeated(call: ProgramCall) -> ShellStream:
    """seq, yes: what only repeats. `yes` into a file never ends."""
    numbers = [int(text) for text in call.args if text.isdigit() and len(text) < 15]
    many = frozenset({Label.MANY}) if call.name == "seq" and numbers and max(numbers) >= 10_000 else NO_LABELS
    vast = (call.name == "jot" and "0" in call.args[-2:-1]) or max(numbers, default=0) > _VAST or "inf" in call.args
    return ShellStream(None, frozenset({Label.ENDLESS}) if call.name == "yes" or vast else many)


RULES: dict[str, Rule] = {
    "echo": echo,
    "printf": printf,
    "cat tac head tail rev cut less more zcat nl fold bat strings": cat,
    "tr": translate,
    "which": located,
    "base64 base32 xxd uudecode basenc gpg gpg2 ascii2uni": decode,
    "printenv": printed,
    "read mapfile readarray": read,
    "seq yes jot": repeated,
}

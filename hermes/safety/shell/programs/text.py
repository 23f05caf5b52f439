"""Programs whose output is a text that may be constant, and what of it is secret or decoded."""

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Sequence

from hermes.safety.environment import holds_secret
from hermes.safety.shell import dataflow, variables
from hermes.safety.shell.call import Call, Options
from hermes.safety.shell.expand import ansi
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs.disks import size_of
from hermes.safety.shell.words import DECODED, ENDLESS, NONE, NOTHING, SECRET, UNTOLD, Stream, Word

Rule = Callable[[Call], Stream | None]
_MOST = 100_000


def _labels(call: Call) -> frozenset[str]:
    labels = NONE
    for word in call.words:
        labels |= word.labels
    return labels


def echo(call: Call) -> Stream:
    """echo."""
    words = list(call.words)
    escapes = False
    while words and re.fullmatch(r"-[neE]+", words[0].text):
        escapes = escapes or "e" in words.pop(0).text
    text = " ".join(word.text for word in words)
    dynamic = any(word.dynamic for word in words)
    return Stream(None if dynamic or len(text) > _MOST else (ansi(text) if escapes else text) + "\n", _labels(call))


def printf(call: Call) -> Stream:
    """printf: formats with `%s`, `%b`, `%d`, `%c` and `%x`."""
    words = list(call.words)
    if words[:1] and words[0].text.startswith("-v") and len(words) > 1:
        return _printed_into(call, words)
    if words[:1] and words[0].text == "--":
        words = words[1:]
    if not words or any(word.dynamic for word in words):
        return Stream(None, _labels(call))
    text = _printed(words[0].text, [word.text for word in words[1:]])
    return Stream(text if len(text) < _MOST else None, _labels(call))


def _printed_into(call: Call, words: Sequence[Word]) -> Stream:
    """`printf -v NAME`."""
    glued = words[0].text[2:]
    name, rest = (glued, words[1:]) if glued else (words[1].text, words[2:])
    made = printf(Call("printf", rest, call.state, None, call.host))
    if made.text is None:
        variables.bind_given(call.host, name, made.labels, call.state)
    else:
        variables.bind(call.host, name, Word(made.text, labels=made.labels), call.state)
    return NOTHING


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
            out.append(ansi(piece))
        elif piece[-1] == "%":
            out.append("%")
        else:
            used = True
            value = given.pop(0) if given else ""
            out.append(_one(piece[-1], value))
    return used


def _one(kind: str, value: str) -> str:
    if kind == "b":
        return ansi(value)
    if kind == "c":
        return value[:1]
    if kind in "xXo" and value.isdigit() and len(value) < 10:
        return format(int(value), kind)
    return value


def located(call: Call) -> Stream:
    """which, `type -P`: where a program is."""
    names = call.options().operands
    if len(names) != 1 or names[0].dynamic:
        return UNTOLD
    return Stream(f"/usr/bin/{names[0].text}\n")


_VALUED = {"head": "nc", "tail": "nc", "cut": "dfbc", "fold": "w", "nl": "bhfvwsni"}
_WHOLE = frozenset({"cat", "tac", "less", "more", "zcat", "tail", "bat"})


def cat(call: Call) -> Stream:
    """cat, tac, head, tail and others that show files: what those hold, as far as this line knows."""
    if call.name in ("less", "more"):
        _paged(call)
    operands = call.options(_VALUED.get(call.name, "")).operands
    if any(dataflow.fills(word.text) for word in operands) and _endless(call):
        return Stream(None, frozenset({ENDLESS}))
    out = NOTHING
    for stream in [dataflow.looked_up(call, word) for word in operands] or [call.stdin if call.fed else UNTOLD]:
        out = dataflow.joined(out, stream)
    return _part(call, out)


def _endless(call: Call) -> bool:
    """Judge a program that shows what has no end; whether its output has none."""
    if call.name in ("tail", "tac"):
        call.ask("bomb", "it takes all of the machine's processes or memory")
        return False
    endless = call.name == "cat" or (call.name == "head" and _huge(call))
    if endless:
        call.effect(EffectKind.EXHAUSTS)
    return endless


def _part(call: Call, out: Stream) -> Stream:
    """What a program shows of what it reads."""
    if call.name == "head" and any(word.text == "0" for word in call.options("nc").all("c", "n")):
        return NOTHING
    if call.name == "rev" and out.text is not None:
        return Stream("\n".join(line[::-1] for line in out.text.split("\n")), out.labels)
    if call.name in _WHOLE or (call.name == "head" and not call.args):
        return out
    return _shortened(call, out)


def _paged(call: Call) -> None:
    for text in call.args:
        if text.startswith("+") and "!" in text:
            call.ask("nested-program", "a pager is told to start a command")
            call.script(text.partition("!")[2], lost=True)


def _huge(call: Call) -> bool:
    return any(size_of(word.text) > 8 << 30 for word in call.options("nc").all("c", "n"))


def _shortened(call: Call, out: Stream) -> Stream:
    if call.name == "head":
        out = Stream(out.text, out.labels - {ENDLESS})
    if out.text is None or call.name not in ("head", "cut"):
        return Stream(None, out.labels) if out.text is not None else out
    options = call.options("nc" if call.name == "head" else "dfbc")
    if call.name == "cut":
        return _cut(options, out, out.text)
    counts = [word.text for word in options.all("c", "b") if word.text.lstrip("-").isdigit()]
    if counts and int(counts[0][:6]) >= 0:
        return Stream(out.text[: int(counts[0][:6])], out.labels)
    return Stream(None, out.labels)


def _cut(options: Options, out: Stream, text: str) -> Stream:
    spans = [re.fullmatch(r"(\d{1,5})(-)?(\d{1,5})?", word.text) for word in options.all("c", "b")]
    if not spans or spans[0] is None or options.all("d"):
        return _column(options.all("d"), options.all("f"), out)
    first, dash, last = spans[0].groups()
    end = int(last) if last else (_MOST if dash else int(first))
    return Stream("\n".join(line[int(first) - 1 : end] for line in text.split("\n")), out.labels)


def _column(separators: Sequence[Word], fields: Sequence[Word], out: Stream) -> Stream:
    if not fields or not fields[0].text.isdigit() or len(fields[0].text) > 3 or out.text is None:
        return Stream(None, out.labels)
    separator = separators[0].text if separators else "\t"
    at = int(fields[0].text) - 1
    lines = [line.split(separator) if separator else [line] for line in out.text.split("\n")]
    return Stream(
        "\n".join(line[at] if at < len(line) else line[0] if len(line) == 1 else "" for line in lines), out.labels
    )


def translate(call: Call) -> Stream:
    """tr."""
    operands = call.options().operands
    text = call.stdin.text if call.fed else None
    if text is None or not operands:
        return Stream(None, call.stdin.labels)
    one = _span(operands[0].text)
    options = call.options()
    if options.has("d", "delete"):
        return Stream("".join(char for char in text if char not in one), call.stdin.labels)
    if len(operands) < 2 or options.has("c", "C", "complement", "s"):
        return Stream(None, call.stdin.labels)
    other = _span(operands[1].text) or [""]
    other += other[-1:] * (len(one) - len(other))
    table = dict(zip(one, other, strict=False))
    return Stream("".join(table.get(char, char) for char in text), call.stdin.labels)


def _span(text: str) -> list[str]:
    text = ansi(text)
    for name, chars in (("[:upper:]", "A-Z"), ("[:lower:]", "a-z"), ("[:digit:]", "0-9"), ("[:space:]", " \t\n")):
        text = text.replace(name, chars)
    out: list[str] = []
    at = 0
    while at < len(text) and len(out) < 1000:
        if at + 2 < len(text) and text[at + 1] == "-":
            out += [chr(code) for code in range(ord(text[at]), min(ord(text[at + 2]), ord(text[at]) + 500) + 1)]
            at += 3
        else:
            out.append(text[at])
            at += 1
    return out


def decode(call: Call) -> Stream:
    """base64, base32, xxd, uudecode, gpg: what they decode is followed when it is constant."""
    options = call.options({"base64": "w", "base32": "w", "xxd": "lcgso"}.get(call.name, "o"))
    if call.name.startswith("gpg") and any(text.startswith("--delete-") for text in call.args):
        call.ask("remote-loss", "it deletes keys")
    decodes = options.has("d", "D", "r", "decode", "revert") or call.name in ("uudecode", "ascii2uni")
    operands = [word for word in options.operands if word.text != "-"]
    source = dataflow.looked_up(call, operands[0]) if operands else call.stdin
    if not decodes:
        return Stream(None, source.labels)
    for word in options.all("o", "output"):
        path = call.path(word)
        call.writes(path)
        call.state.files[path] = Stream(None, source.labels | {DECODED})
    if source.text is None:
        return Stream(None, source.labels | {DECODED})
    return decoded(source.text, {"xxd": "hex", "base32": "base32"}.get(call.name, "base64"), source.labels | {DECODED})


def decoded(text: str, form: str, labels: frozenset[str]) -> Stream:
    """A decoded text; one that cannot be read keeps the label."""
    raw = re.sub(r"\s", "", text)
    try:
        if form == "hex":
            data = bytes.fromhex(raw[2:] if raw.startswith("0x") else raw.replace("\\x", ""))
        elif form == "base32":
            data = base64.b32decode(raw)
        else:
            data = base64.b64decode(raw + "=" * (-len(raw) % 4))
        return Stream(data.decode(), labels)
    except (ValueError, binascii.Error):
        return Stream(None, labels | {DECODED})


def rot13(call: Call) -> Stream:
    """rot13, caesar."""
    text = call.stdin.text
    return Stream(codecs.encode(text, "rot13") if text is not None else None, call.stdin.labels)


def printed(call: Call) -> Stream:
    """printenv: every variable, or some; keys may be among them."""
    named = call.options().operands
    if not named:
        return Stream(None, frozenset({SECRET}))
    labels = frozenset({SECRET}) if any(holds_secret(word.text) for word in named) else NONE
    known = call.state.variables.get(named[0].text)
    return Stream(known.text if known and not known.dynamic else None, labels)


def declared(call: Call) -> Stream | None:
    """declare, export: variables set; `-p` and nothing show every one of them."""
    options = call.options()
    operands = options.operands
    if not operands:
        return Stream(None, frozenset({SECRET})) if not call.words or call.options().has("p", "x") else None
    for word in operands:
        name, equals, value = word.text.partition("=")
        if equals and options.has("n") and call.name != "export":
            variables.refer(name, Word(value, word.dynamic), call.state)
        elif equals:
            variables.bind(call.host, name, Word(value, word.dynamic, labels=word.labels), call.state)
    return None


def read(call: Call) -> Stream:
    """read, mapfile: variables out of the input."""
    options = call.options("dinNptua" if call.name == "read" else "dnOsucC")
    names = [word.text for word in options.operands] or ["REPLY"]
    text = call.stdin.text if call.fed else None
    if call.name != "read" or options.has("a"):
        name = (options.all("a") or options.operands or [Word("MAPFILE")])[0].text
        variables.bind_given(call.host, name, call.stdin.labels, call.state)
        if text is None:
            call.state.arrays[name] = [Word("${" + name + "}", dynamic=True, labels=call.stdin.labels)]
        else:
            pieces = text.split() if call.name == "read" else text.splitlines()
            call.state.arrays[name] = [Word(piece, labels=call.stdin.labels) for piece in pieces[:200]]
        call.state.variables.pop(name, None)
        return NOTHING
    variables.read_into(call.host, names, text, call.stdin.labels, call.state)
    return NOTHING


_VAST = 1 << 33
"""Numbers that no disk holds, one on a line."""


def repeated(call: Call) -> Stream:
    """seq, yes: what only repeats. `yes` into a file never ends."""
    numbers = [int(text) for text in call.args if text.isdigit() and len(text) < 15]
    many = frozenset({"many"}) if call.name == "seq" and numbers and max(numbers) >= 10_000 else NONE
    vast = (call.name == "jot" and "0" in call.args[-2:-1]) or max(numbers, default=0) > _VAST or "inf" in call.args
    return Stream(None, frozenset({ENDLESS}) if call.name == "yes" or vast else many)


RULES: dict[str, Rule] = {
    "echo": echo,
    "printf": printf,
    **dict.fromkeys(
        ("cat", "tac", "head", "tail", "rev", "cut", "less", "more", "zcat", "nl", "fold", "bat", "strings"), cat
    ),
    "tr": translate,
    "which": located,
    **dict.fromkeys(("base64", "base32", "xxd", "uudecode", "basenc", "gpg", "gpg2", "ascii2uni"), decode),
    "rot13": rot13,
    "printenv": printed,
    **dict.fromkeys(("declare", "typeset", "export", "local", "readonly"), declared),
    **dict.fromkeys(("read", "mapfile", "readarray"), read),
    **dict.fromkeys(("seq", "yes", "jot"), repeated),
}

"""Programs whose output is a text that may be constant, and what of it is secret or decoded."""

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Sequence

from hermes.safety import flow, variables
from hermes.safety.call import Call
from hermes.safety.expand import ansi
from hermes.safety.findings import EffectKind
from hermes.safety.words import DECODED, ENDLESS, NONE, NOTHING, SECRET, UNTOLD, Stream, Word

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
    if words[:1] and words[0].text == "-v" and len(words) > 2:
        inner = printf(Call("printf", words[2:], call.state, None, call.host))
        value = Word(inner.text or "${" + words[1].text + "}", inner.text is None, labels=inner.labels)
        call.state.variables[words[1].text] = value
        return NOTHING
    if words[:1] and words[0].text == "--":
        words = words[1:]
    if not words or any(word.dynamic for word in words):
        return Stream(None, _labels(call))
    given = [word.text for word in words[1:]]
    pieces = re.split(r"(%[-+ #0]*\d*(?:\.\d+)?[a-zA-Z%])", words[0].text)
    out: list[str] = []
    rounds = 0
    while rounds < 500:
        rounds += 1
        used = _formatted(pieces, given, out)
        if not given or not used:
            break
    text = "".join(out)
    return Stream(text if len(text) < _MOST else None, _labels(call))


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


def cat(call: Call) -> Stream:
    """cat, tac, head, tail and others that show files: what those hold, as far as this line knows."""
    for text in call.args if call.name in ("less", "more") else []:
        if text.startswith("+") and "!" in text:
            call.ask("nested-program", "a pager is told to start a command")
            call.script(text.partition("!")[2], lost=True)
    valued = {"head": "nc", "tail": "nc", "cut": "dfbc", "fold": "w", "nl": "bhfvwsni"}.get(call.name, "")
    operands = call.options(valued).operands
    if call.name == "tail" and any(flow.fills(word.text) for word in operands):
        call.ask("bomb", "it takes all of the machine's processes or memory")
    if any(flow.fills(word.text) for word in operands) and call.name == "cat":
        call.effect(EffectKind.EXHAUSTS)
        return Stream(None, frozenset({ENDLESS}))
    if call.name == "head" and any(flow.fills(word.text) for word in operands) and _huge(call):
        return Stream(None, frozenset({ENDLESS}))
    streams = [flow.looked_up(call, word) for word in operands] or [call.stdin if call.fed else UNTOLD]
    out = NOTHING
    for stream in streams:
        out = flow.joined(out, stream)
    if call.name == "rev" and out.text is not None:
        return Stream("\n".join(line[::-1] for line in out.text.split("\n")), out.labels)
    if call.name in ("cat", "tac", "less", "more", "zcat", "tail") or (call.name == "head" and not call.args):
        return out
    return _shortened(call, out)


def _huge(call: Call) -> bool:
    from hermes.safety.rules.files import size_of

    return any(size_of(word.text) > 8 << 30 for word in call.options("nc").all("c", "n"))


def _shortened(call: Call, out: Stream) -> Stream:
    if call.name == "head":
        out = Stream(out.text, out.labels - {ENDLESS})
    if out.text is None:
        return out
    options = call.options("nc" if call.name == "head" else "dfbc")
    counts = [word.text for word in options.all("c", "b") if word.text.lstrip("-").isdigit()]
    if call.name == "head" and counts and int(counts[0][:6]) >= 0:
        return Stream(out.text[: int(counts[0][:6])], out.labels)
    spans = [re.fullmatch(r"(\d{1,5})(-)?(\d{1,5})?", word.text) for word in options.all("c", "b")]
    if call.name == "cut" and spans and spans[0] is not None and not options.all("d"):
        first, dash, last = spans[0].groups()
        end = int(last) if last else (_MOST if dash else int(first))
        return Stream("\n".join(line[int(first) - 1 : end] for line in out.text.split("\n")), out.labels)
    return _column(options.all("d"), options.all("f"), out) if call.name == "cut" else Stream(None, out.labels)


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
    decodes = options.has("d", "D", "r", "decode", "revert") or call.name in ("uudecode", "ascii2uni")
    operands = [word for word in options.operands if word.text != "-"]
    source = flow.looked_up(call, operands[0]) if operands else call.stdin
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


def environment(call: Call) -> Stream | None:
    """printenv, declare -p, export -p: every variable, keys among them."""
    if call.name == "printenv" and call.options().operands:
        from hermes.safety.environment import holds_secret

        named = call.options().operands
        labels = frozenset({SECRET}) if any(holds_secret(word.text) for word in named) else NONE
        known = call.state.variables.get(named[0].text)
        return Stream(known.text if known and not known.dynamic else None, labels)
    if call.name in ("declare", "typeset", "export", "local", "readonly") and not call.options().operands:
        return Stream(None, frozenset({SECRET})) if call.words == [] or call.options().has("p", "x") else None
    if call.name == "printenv":
        return Stream(None, frozenset({SECRET}))
    if call.name != "printenv":
        for word in call.options().operands:
            name, equals, value = word.text.partition("=")
            if equals:
                variables.bind(call.host, name, Word(value, word.dynamic, labels=word.labels), call.state)
    return None


def read(call: Call) -> Stream:
    """read, mapfile: variables out of the input."""
    options = call.options("dinNptuaOsSCc")
    names = [word.text for word in options.operands] or ["REPLY"]
    text = call.stdin.text if call.fed else None
    if call.name != "read" or options.has("a"):
        name = (options.all("a") or options.operands or [Word("MAPFILE")])[0].text
        if text is None:
            call.state.arrays[name] = [Word("${" + name + "}", dynamic=True, labels=call.stdin.labels)]
        else:
            pieces = text.split() if call.name == "read" else text.splitlines()
            call.state.arrays[name] = [Word(piece, labels=call.stdin.labels) for piece in pieces[:200]]
        call.state.variables.pop(name, None)
        return NOTHING
    variables.read_into(names, text, call.stdin.labels, call.state)
    return NOTHING


def repeated(call: Call) -> Stream:
    """seq, yes: what only repeats. `yes` into a file never ends."""
    return Stream(None, frozenset({ENDLESS}) if call.name == "yes" else NONE)


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
    **dict.fromkeys(("printenv", "declare", "typeset", "export", "local", "readonly"), environment),
    **dict.fromkeys(("read", "mapfile", "readarray"), read),
    **dict.fromkeys(("seq", "yes"), repeated),
}

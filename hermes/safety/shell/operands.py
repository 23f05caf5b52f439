"""Protected places among the words of any program: what it is told to write, and texts of its own in which they stand.

Rules know what the operands of their programs mean. For all others, and for options by which a program is told where to
put something, a word that resolves to a protected place asks, whatever the program, unless it only looks.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from hermes.i18n.messages import N_
from hermes.safety.home_places import CLOSED_FILES
from hermes.safety.paths import Places, write_refusal
from hermes.safety.shell.call import ProgramCall, map_to_person_home, resolve_path
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.words import Word, word_set

_OUTPUT = re.compile(
    r"-[oOw]$|--?(?:out|output|outfile|write|save|dump|export|log|once|target|dest|destination|to)(?:[-_]?\w+)*$"
)
"""What options are called by which a program is told where to put something."""
_ATTACHED = re.compile(r"-[a-zA-Z](?=[~/.$])")
_IN_TEXT = re.compile(r"(?<![\w/.])(?:~|\$\{HOME\}|/(?:home|root|Users)/)[\w./~-]*|(?<![\w/])/etc/[\w./-]+")
_IN_PLACE = re.compile(r"(?:-i|-w|--in-?place|--write|--fix|--overwrite)(?:=.*)?$")
_TEXT_PROGRAMS = word_set("sqlite3 duckdb psql mysql mariadb clickhouse-local usql gnuplot octave bc gp maxima R")
"""Programs whose words may be program texts of their own that read and write files."""
_MAKES_FOLDER = re.compile(r"(?:-\S+ \S+ )*(?:clone|worktree|bundle|init|archive|format-patch)\b")
_UNPACKERS = word_set("tar bsdtar gtar cpio patch unzip 7z pax ar git unrar")
_MOST = 60
_LEAST = 4


def names_output(call: ProgramCall) -> bool:
    """Return whether the operands of a program with a rule of its own may be what it writes."""
    if call.name in ("docker", "podman"):
        return "cp" in call.args[:2]
    return call.name == "xxd" or (call.name == "git" and _MAKES_FOLDER.match(" ".join(call.args[:6])) is not None)


def judge_operands(call: ProgramCall, *, is_known: bool) -> None:
    """Judge the words of a program. `is_known`: a rule says what its operands mean, so only its options count."""
    places = call.host.places
    for path in dict.fromkeys(_written(call, is_known=is_known)):
        reason = _protected(path, places, of_home=not is_known)
        if reason:
            call.add_effect(EffectKind.WRITES, (path,))
            call.ask("protected-path", N_("it may write {path}: {reason}", path=path, reason=reason))
            return
    if call.name in _TEXT_PROGRAMS:
        call.judge_reads(list(map(Word, _paths_in_texts(call.words))))


def _written(call: ProgramCall, *, is_known: bool) -> Iterator[str]:
    """Yield the paths (absolute) that a program may write, as far as its words say."""
    words = call.words[:_MOST]
    in_place = any(_IN_PLACE.match(word.text) for word in words)
    texts = [_output(words, at, is_known=is_known) for at in range(len(words))]
    texts += [word.text for word in words if word.text[:1] != "-"] if in_place or not is_known else []
    texts += [f"{one}/.profile" for one in _folders(call, words)]
    texts += _paths_in_texts(words) if call.name in _TEXT_PROGRAMS else []
    for text in filter(None, texts):
        yield resolve_path(text, call.cwd, call.host.places)


def _paths_in_texts(words: Sequence[Word]) -> list[str]:
    return [found[0] for word in words for found in _IN_TEXT.finditer(word.text)]


def _folders(call: ProgramCall, words: Sequence[Word]) -> Iterator[str]:
    """Yield the folders into which a program puts files whose names are not told here: a start file may be one."""
    for before, word in pairwise(words):
        if call.name in _UNPACKERS and before.text in ("-C", "-D", "-d", "--directory", "--one-top-level"):
            yield word.text


def _output(words: Sequence[Word], at: int, *, is_known: bool) -> str:
    """Return what an option of a program names as the place for its output; empty when it is no such option."""
    text = words[at].text
    option, equals, value = text.partition("=")
    attached = _ATTACHED.match(text)
    if attached:
        option, value = attached[0], text[attached.end() :]
    elif not equals and at + 1 < len(words):
        value = words[at + 1].text
    if not value or not (_OUTPUT.match(option) or (attached and not is_known)):
        return ""
    folder = next((words[place + 1].text for place, one in enumerate(words[:-1]) if one.text == "--output-dir"), "")
    return f"{folder}/{value}" if folder and value[0] not in "/~$" else value


def _protected(path: str, places: Places, *, of_home: bool) -> str:
    """Return why a path may not be written; of places of the system only where the program was told to write there."""
    named = map_to_person_home(path, places)
    below = named[len(places.home) + 1 :] if named.startswith(f"{places.home}/") else ""
    if len(below) > _LEAST and any(one.startswith(below) and len(one) - len(below) < _LEAST for one in CLOSED_FILES):
        return "it holds keys or runs at the start of other programs"  # programs add letters to the names of pieces
    if of_home and not below and not path.startswith("/etc/"):
        return ""
    return write_refusal(path, places) or write_refusal(named, places)

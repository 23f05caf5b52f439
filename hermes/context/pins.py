"""What of a conversation is kept word for word: what the person said, their standing instructions, the files named.

All of it is found anew in the original messages at each compaction, so it cannot drift from one to the next.
"""

import bisect
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct, structs

from hermes.context.boundaries import tokens
from hermes.context.pointing import Lookup
from hermes.core.messages import Message, Role
from hermes.core.parts import Source, TextPart
from hermes.store.rows import StoredMessage
from hermes.util.text import head_and_tail, one_line

PASTE = 2_000
"""Characters of a message from which on it is a paste: of it only beginning and end stay when room is short."""
_PASTE_HEAD = 1_600
_PASTE_RULES = 4_000
_LONGEST_RULE = 600
_PATHS = 4_000
"""Characters of the list of files."""
_LONGEST_PATH = 200
_MAX_SCANNED = 20_000
"""Characters of one call or message in which files' names are looked for."""

# Texts, which are compiled when there is something to condense.
_RULE = (
    r"\b(?:always|never|from now on|henceforth|in (?:the )?future|must(?:n't|n’t)?|(?:do not|don't|don’t)|"
    r"ask me|check with me|tell me before|without (?:asking|my)|unless i|make sure|ensure|remember|whenever|"
    r"(?:every|each) time|at all times|only (?:ever|use|with)|no matter|under no circumstances|keep in mind|"
    r"siempre|nunca|toujours|jamais|immer|niemals|sempre|mai)\b"
    r"|总是|始终|永远|永不|从不|绝不|以后|今后|从现在|必须|务必|一定要|不要|不许|不准|不能|禁止|不得|每次|每当|先问|问过我|"
    r"记住|只能|切勿|千万|別|别(?![的人处墅])|必ず|絶対|常に|今後|しないで"
)
_END = ".!?;\u3002\uff01\uff1f\uff1b"
_SENTENCE = rf"[^\n{_END}]*(?:[.!?;](?!\s|$)[^\n{_END}]*)*(?:[{_END}]+|$|(?=\n))"
_PATH = (
    r"(?<![\w:/\\.~@+-])(?:(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:[\w.@+-]+[/\\])*|(?:[\w.@+-]+[/\\])+)[\w.@+-]*\w"
    r"|(?<![\w:/.@-])[\w-][\w.-]*\.(?:py|js|ts|tsx|jsx|go|rs|c|h|cc|cpp|hpp|java|kt|rb|php|sh|sql|md|txt|rst|json|"
    r"ya?ml|toml|ini|cfg|conf|env|csv|tsv|html?|css|xml|lock|log|ipynb|pdf|docx?|xlsx?|png|jpe?g|svg)(?![\w/])"
)


class Said(Struct, frozen=True):
    """Something that the person said: the number of its message, its words, whether an answer followed."""

    number: int
    text: str
    answered: bool
    done: bool = False
    """Whether a summary's model called it finished, and an answer followed."""


class Rule(Struct, frozen=True):
    """A standing instruction, as it stands in the message of that number."""

    number: int
    text: str


def person_text(message: Message) -> str:
    """The person's own words in a message."""
    if message.synthetic or message.role is Role.ASSISTANT:
        return ""
    own = (Source.PERSON,) if message.role is Role.TOOL else (Source.PERSON, None)
    texts = (
        part.text
        for part in message.parts
        if isinstance(part, TextPart) and (part.provenance.source if part.provenance else None) in own
    )
    return "\n".join(texts).strip()


def said_in(rows: Sequence[StoredMessage], finished: Collection[int] = ()) -> list[Said]:
    """What the person said in these rows, the oldest first."""
    found: list[Said] = []
    answered = False
    for row in reversed(rows):
        message = row.message
        if message.role is Role.ASSISTANT:
            answered = answered or (not message.synthetic and bool(message.text.strip()) and not any(message.calls()))
        elif text := person_text(message):
            found.append(Said(row.id, text, answered, answered and row.id in finished))
    return found[::-1]


def rules_in(said: Iterable[Said], quotes: Mapping[int, Sequence[tuple[int, int]]]) -> list[Rule]:
    """The standing instructions: sentences that sound like one, and those that a model has named a place in (`quotes`).

    Always the whole sentence: a piece of it may say the opposite. What the person only quotes, instructs nobody.
    """
    found: dict[str, Rule] = {}
    for one in said:
        room = _PASTE_RULES if len(one.text) > PASTE else 1 << 30
        spans = _spans(_without_quoted(one.text))
        named = _named_by(quotes.get(one.number, ()), spans)
        for place, (start, end) in enumerate(spans):
            sentence = one.text[start:end]
            if room < len(sentence) or len(sentence) > _longest(one.text):
                continue
            if place in named or re.search(_RULE, sentence, re.IGNORECASE):
                found.setdefault(sentence, Rule(one.number, sentence))
                room -= len(sentence)
    return list(found.values())


def _without_quoted(text: str) -> str:
    """The text with blanks in place of quoted lines (after `>`) and blocks of code, so that places stay the same."""
    if ">" not in text and "```" not in text and "~~~" not in text:
        return text
    lines = text.split("\n")
    fence = ""
    for number, line in enumerate(lines):
        bare = line.strip()
        mark = re.match("`{3,}|~{3,}", bare)
        if fence or mark or bare.startswith(">"):
            lines[number] = " " * len(line)
        if fence:
            # It ends with a line of nothing but its own mark, at least as long.
            fence = "" if bare.startswith(fence) and not bare.strip(fence[0]) else fence
        elif mark:
            fence = mark[0]
    return "\n".join(lines)


def _named_by(quotes: Iterable[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> set[int]:
    """The numbers of the sentences that these places are in."""
    starts = [start for start, _ in spans]
    ends = [end for _, end in spans]
    return {
        place
        for start, end in quotes
        for place in range(bisect.bisect_right(ends, start), bisect.bisect_left(starts, end))
    }


def _longest(text: str) -> int:
    """Characters of a sentence that can be an instruction: in a paste long lines are data."""
    return _LONGEST_RULE if len(text) > PASTE else PASTE


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text."""
    return [text[start:end] for start, end in _spans(text)]


def _spans(text: str) -> list[tuple[int, int]]:
    """Where its sentences and lines begin and end, without the blanks around them."""
    spans: list[tuple[int, int]] = []
    for match in re.finditer(_SENTENCE, text, re.MULTILINE):
        if sentence := match[0].strip():
            start = match.end() - len(match[0].lstrip())
            spans.append((start, start + len(sentence)))
    return spans


def kept_words(said: Sequence[Said], budget: int, most: int, lookup: Lookup) -> tuple[list[Said], int]:
    """What stays of the person's words, the oldest first, and how many messages were shortened against the rule.

    All of it within `budget` tokens. Beyond that what is done goes first, the oldest first; then pastes lose their
    middles. What is left stays even so, until it is more than `most`: then the oldest that were answered are shortened.
    """
    kept = list(said)
    over = sum(tokens(one.text) for one in kept) - budget
    for one in said:
        if over > 0 and one.done:
            kept.remove(one)
            over -= tokens(one.text)
    for place, one in enumerate(kept):
        if over > 0 and len(one.text) > PASTE:
            kept[place] = _shown(one, _PASTE_HEAD, lookup)
            over -= tokens(one.text) - tokens(kept[place].text)
    excess = sum(tokens(one.text) for one in kept) - most
    shortened = 0
    for place, one in enumerate(kept[:-1]):
        if excess > 0 and len(one.text) > 160:
            kept[place] = _shown(one, 120, lookup)
            excess -= tokens(one.text) - tokens(kept[place].text)
            shortened += 1
    return kept, shortened


def _shown(one: Said, limit: int, lookup: Lookup) -> Said:
    note = f"[... {len(one.text)} characters in all: {lookup.one(one.number)}]"
    text = head_and_tail(one.text, limit) if limit > 200 else one_line(one.text, limit)
    return structs.replace(one, text=f"{text}\n{note}")


def paths_in(rows: Sequence[StoredMessage]) -> list[str]:
    """The files that calls and the person named, the newest first."""
    found: dict[str, None] = {}
    room = _PATHS
    for row in reversed(rows):
        for path in _named(row.message):
            if path not in found and len(path) <= _LONGEST_PATH:
                room -= len(path) + 1
                if room < 0:
                    return list(found)
                found[path] = None
    return list(found)


def _named(message: Message) -> Iterable[str]:
    """The files that one message names, each once."""
    named: dict[str, None] = {}
    for call in message.calls():
        for text in _strings(call.arguments):
            named |= dict.fromkeys(re.findall(_PATH, text[:_MAX_SCANNED]))
    named |= dict.fromkeys(re.findall(_PATH, person_text(message)[:_MAX_SCANNED]))
    return named


def _strings(arguments: str) -> list[str]:
    """The texts in a call's arguments."""
    try:
        decoded: object = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):  # Not JSON, or nested too deeply to be read.
        return [arguments]
    values = list(decoded.values()) if isinstance(decoded, dict) else [decoded]
    texts = [value for value in values if isinstance(value, str)]
    lists = [value for value in values if isinstance(value, list)]
    return texts + [one for value in lists for one in value if isinstance(one, str)]

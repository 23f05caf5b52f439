"""Finds what of a conversation stays when the rest is condensed: the messages at its beginning and end, by sizes; and
word for word the user's words, standing instructions and files named. Says where condensed messages can be read again.

All of it is found afresh in the original messages at each compaction, so it cannot drift from one to the next.
"""

import bisect
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct, structs

from hermes.context.engine import SEARCH_TOOL
from hermes.core.messages import ImagePart, Message, Role, Source, TextPart, ToolCallPart, ToolResultPart
from hermes.store.records import StoredMessage
from hermes.util.text import to_one_line, truncate_middle

_BYTES_PER_TOKEN = 4
_TOKENS_PER_IMAGE = 1_500
_MESSAGE_OVERHEAD = 10
"""Tokens that surround a message's text."""


class RetentionLimits(Struct, frozen=True, kw_only=True):
    """How much of a conversation stays uncompressed, in messages and estimated tokens."""

    first: int
    """Messages at the beginning."""
    first_tokens: int
    """What they may take together; fewer stay when they would take more."""
    last: int
    """Messages at the end, however few their tokens are."""
    last_tokens: int
    """What the end is filled up to with more messages."""
    most: int
    """What the end may take; fewer than `last` messages stay when they would take more."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return size // _BYTES_PER_TOKEN


def estimate_message_tokens(message: Message) -> int:
    """Estimate the tokens of a message."""
    total = _MESSAGE_OVERHEAD
    for part in message.parts:
        if isinstance(part, TextPart):
            total += estimate_tokens(part.text)
        elif isinstance(part, ToolCallPart):
            total += estimate_tokens(part.arguments) + estimate_tokens(part.name) + _MESSAGE_OVERHEAD
        elif isinstance(part, ToolResultPart):
            total += estimate_tokens(part.text) + _MESSAGE_OVERHEAD + _TOKENS_PER_IMAGE * len(part.images)
        elif isinstance(part, ImagePart):
            total += _TOKENS_PER_IMAGE
        else:
            total += estimate_tokens(part.text) + estimate_tokens(part.opaque)
    return total


def find_middle(
    rows: Sequence[StoredMessage], sizes: Sequence[int], limits: RetentionLimits, replacement_ids: Collection[int]
) -> tuple[int, int]:
    """Return where the part between beginning and end begins and ends; both are the same when there is none.

    No batch of results is cut off from its calls. A message that replaces others (`replacement_ids`) never stays at the
    beginning.
    """
    end = _find_tail_start(rows, sizes, limits)
    start = _count_head_messages(rows, sizes, limits, replacement_ids)
    return (start, end) if start < end else (end, end)


def find_turn_start(rows: Sequence[StoredMessage], turns: int) -> int:
    """Return where the last `turns` turns begin; 0 where there are not more than that."""
    ids = [row.turn_id for row in rows]
    starts = [place for place, one in enumerate(ids) if one is not None and (not place or ids[place - 1] != one)]
    return starts[-turns] if 0 < turns <= len(starts) else 0 if turns else len(rows)


def _is_group_boundary(rows: Sequence[StoredMessage], place: int) -> bool:
    """Return whether a cut before this place leaves every call with its results."""
    return place >= len(rows) or rows[place].message.role is not Role.TOOL


def _find_tail_start(rows: Sequence[StoredMessage], sizes: Sequence[int], limits: RetentionLimits) -> int:
    """Return where the part at the end begins; at least the last group is in it."""
    newest = next((place for place in range(len(rows) - 1, -1, -1) if _is_group_boundary(rows, place)), 0)
    place, used = _fill_tail(sizes, limits)
    if place >= newest:
        return newest
    back = place
    while not _is_group_boundary(rows, back):
        back -= 1
    if back and rows[back].message.role is Role.USER and rows[back - 1].message.role is Role.ASSISTANT:
        back -= 1  # the summary is a user's message: an assistant's should follow it
    if used + sum(sizes[back:place]) <= limits.most:
        return back
    while not _is_group_boundary(rows, place):
        place += 1
    return min(place, newest)


def _fill_tail(sizes: Sequence[int], limits: RetentionLimits) -> tuple[int, int]:
    """Return where the part at the end begins by number and tokens alone, and its tokens."""
    place, used = len(sizes), 0
    while place:
        more = used + sizes[place - 1]
        if more > limits.most or (len(sizes) - place >= limits.last and more > limits.last_tokens):
            break
        place, used = place - 1, more
    return place, used


def _count_head_messages(
    rows: Sequence[StoredMessage], sizes: Sequence[int], limits: RetentionLimits, replacement_ids: Collection[int]
) -> int:
    """Return how many messages stay at the beginning."""
    place, used = 0, 0
    wanted = min(limits.first, len(rows))
    while place < len(rows) and rows[place].id not in replacement_ids and used + sizes[place] <= limits.first_tokens:
        if place >= wanted and _is_group_boundary(rows, place):
            break
        used += sizes[place]
        place += 1
    while not _is_group_boundary(rows, place):
        place -= 1
    return place


class OriginalsLookup(Struct, frozen=True):
    """How the originals of one session are reached: by the model itself, where it has the tool, else by the user."""

    session_id: str
    searchable: bool = False

    def describe_message(self, number: int) -> str:
        """Say where the message of that number is."""
        if self.searchable:
            return f"{SEARCH_TOOL} with session_id {self.session_id} and around_message_id {number} shows it"
        return f"message {number} in what `hermes sessions show {self.session_id}` prints"

    def describe_all(self) -> str:
        """Say where every message is."""
        if self.searchable:
            return (
                f"`{SEARCH_TOOL}` with session_id {self.session_id} finds any message by words, and shows it by "
                f"its number "
                "as around_message_id"
            )
        return f"`hermes sessions show {self.session_id}` has them all; the user can look there"


PASTE_LENGTH = 2_000
"""Characters of a message from which on it is a paste: of it only beginning and end stay when room is short."""
_PASTE_HEAD = 1_600
_PASTE_RULES = 4_000
_LONGEST_RULE = 600
_PATHS_LIMIT = 4_000
"""Characters of the list of files."""
_LONGEST_PATH = 200
_MAX_SCANNED = 20_000
"""Characters of one call or message in which files' names are looked for."""

# Texts, which are compiled when there is something to condense.
_INSTRUCTION_PATTERN = (
    r"\b(?:always|never|from now on|henceforth|in (?:the )?future|must(?:n't|n’t)?|(?:do not|don't|don’t)|"
    r"ask me|check with me|tell me before|without (?:asking|my)|unless i|make sure|ensure|remember|whenever|"
    r"(?:every|each) time|at all times|only (?:ever|use|with)|no matter|under no circumstances|keep in mind|"
    r"siempre|nunca|toujours|jamais|immer|niemals|sempre|mai)\b"
    r"|总是|始终|永远|永不|从不|绝不|以后|今后|从现在|必须|务必|一定要|不要|不许|不准|不能|禁止|不得|每次|每当|先问|问过我|"
    r"记住|只能|切勿|千万|別|别(?![的人处墅])|必ず|絶対|常に|今後|しないで"
)
_SENTENCE_END = ".!?;\u3002\uff01\uff1f\uff1b"
_SENTENCE_PATTERN = rf"[^\n{_SENTENCE_END}]*(?:[.!?;](?!\s|$)[^\n{_SENTENCE_END}]*)*(?:[{_SENTENCE_END}]+|$|(?=\n))"
_PATH_PATTERN = (
    r"(?<![\w:/\\.~@+-])(?:(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:[\w.@+-]+[/\\])*|(?:[\w.@+-]+[/\\])+)[\w.@+-]*\w"
    r"|(?<![\w:/.@-])[\w-][\w.-]*\.(?:py|js|ts|tsx|jsx|go|rs|c|h|cc|cpp|hpp|java|kt|rb|php|sh|sql|md|txt|rst|json|"
    r"ya?ml|toml|ini|cfg|conf|env|csv|tsv|html?|css|xml|lock|log|ipynb|pdf|docx?|xlsx?|png|jpe?g|svg)(?![\w/])"
)


class UserStatement(Struct, frozen=True):
    """One message of the user: its number, its text, and whether an answer followed."""

    number: int
    text: str
    answered: bool
    done: bool = False
    """Whether the summarizing model called it finished, and an answer followed."""


class StandingInstruction(Struct, frozen=True):
    """A standing instruction of the user, word for word, with the number of its message."""

    number: int
    text: str


def extract_user_text(message: Message) -> str:
    """Return the user's own words in a message."""
    if message.synthetic or message.role is Role.ASSISTANT:
        return ""
    own = (Source.PERSON,) if message.role is Role.TOOL else (Source.PERSON, None)
    texts = (
        part.text
        for part in message.parts
        if isinstance(part, TextPart) and (part.provenance.source if part.provenance else None) in own
    )
    return "\n".join(texts).strip()


def collect_statements(rows: Sequence[StoredMessage], finished: Collection[int] = ()) -> list[UserStatement]:
    """Return the user's statements in these rows, oldest first."""
    found: list[UserStatement] = []
    answered = False
    for row in reversed(rows):
        message = row.message
        if message.role is Role.ASSISTANT:
            answered = answered or (
                not message.synthetic and bool(message.text.strip()) and not any(message.tool_calls())
            )
        elif text := extract_user_text(message):
            found.append(UserStatement(row.id, text, answered, answered and row.id in finished))
    return found[::-1]


def find_instructions(
    statements: Iterable[UserStatement], quotes: Mapping[int, Sequence[tuple[int, int]]]
) -> list[StandingInstruction]:
    """Return the standing instructions: sentences that sound like one, and those that a model pointed to (`quotes`).

    Always the whole sentence: a piece of it may say the opposite. Text that the user only quotes is no instruction.
    """
    found: dict[str, StandingInstruction] = {}
    for one in statements:
        room = _PASTE_RULES if len(one.text) > PASTE_LENGTH else 1 << 30
        spans = _sentence_spans(_blank_quoted(one.text))
        named = _find_quoted_sentences(quotes.get(one.number, ()), spans)
        for place, (start, end) in enumerate(spans):
            sentence = one.text[start:end]
            if room < len(sentence) or len(sentence) > _max_instruction_length(one.text):
                continue
            if place in named or re.search(_INSTRUCTION_PATTERN, sentence, re.IGNORECASE):
                found.setdefault(sentence, StandingInstruction(one.number, sentence))
                room -= len(sentence)
    return list(found.values())


def _blank_quoted(text: str) -> str:
    """Return the text with blanks in place of quoted lines (after `>`) and code blocks, so that offsets
    stay the same.
    """
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


def _find_quoted_sentences(quotes: Iterable[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> set[int]:
    """Return the numbers of the sentences that these spans lie in."""
    starts = [start for start, _ in spans]
    ends = [end for _, end in spans]
    return {
        place
        for start, end in quotes
        for place in range(bisect.bisect_right(ends, start), bisect.bisect_left(starts, end))
    }


def _max_instruction_length(text: str) -> int:
    """Return the most characters of a sentence that can be an instruction: long lines of a paste are data."""
    return _LONGEST_RULE if len(text) > PASTE_LENGTH else PASTE_LENGTH


def _sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return where the text's sentences and lines begin and end, without surrounding blanks."""
    spans: list[tuple[int, int]] = []
    for match in re.finditer(_SENTENCE_PATTERN, text, re.MULTILINE):
        if sentence := match[0].strip():
            start = match.end() - len(match[0].lstrip())
            spans.append((start, start + len(sentence)))
    return spans


def fit_statements(
    statements: Sequence[UserStatement], budget: int, most: int, lookup: OriginalsLookup
) -> tuple[list[UserStatement], int]:
    """Return the statements that stay, oldest first, and how many were shortened against the rule.

    All of them stay within `budget` tokens. Beyond that, finished ones are dropped first, oldest first;
    then pastes lose their middles. The rest stays even so, until it is more than `most`: then the oldest
    that were answered are shortened.
    """
    kept = list(statements)
    over = sum(estimate_tokens(one.text) for one in kept) - budget
    for one in statements:
        if over > 0 and one.done:
            kept.remove(one)
            over -= estimate_tokens(one.text)
    for place, one in enumerate(kept):
        if over > 0 and len(one.text) > PASTE_LENGTH:
            kept[place] = _shorten_statement(one, _PASTE_HEAD, lookup)
            over -= estimate_tokens(one.text) - estimate_tokens(kept[place].text)
    excess = sum(estimate_tokens(one.text) for one in kept) - most
    shortened = 0
    for place, one in enumerate(kept[:-1]):
        if excess > 0 and len(one.text) > 160:
            kept[place] = _shorten_statement(one, 120, lookup)
            excess -= estimate_tokens(one.text) - estimate_tokens(kept[place].text)
            shortened += 1
    return kept, shortened


def _shorten_statement(one: UserStatement, limit: int, lookup: OriginalsLookup) -> UserStatement:
    note = f"[... {len(one.text)} characters in all: {lookup.describe_message(one.number)}]"
    text = truncate_middle(one.text, limit) if limit > 200 else to_one_line(one.text, limit)
    return structs.replace(one, text=f"{text}\n{note}")


def collect_paths(rows: Sequence[StoredMessage]) -> list[str]:
    """Return the files that calls and the user named, newest first."""
    found: dict[str, None] = {}
    room = _PATHS_LIMIT
    for row in reversed(rows):
        for path in _paths_in_message(row.message):
            if path not in found and len(path) <= _LONGEST_PATH:
                room -= len(path) + 1
                if room < 0:
                    return list(found)
                found[path] = None
    return list(found)


def _paths_in_message(message: Message) -> Iterable[str]:
    """Return the files that one message names, each once."""
    named: dict[str, None] = {}
    for call in message.tool_calls():
        for text in _argument_strings(call.arguments):
            named |= dict.fromkeys(re.findall(_PATH_PATTERN, text[:_MAX_SCANNED]))
    named |= dict.fromkeys(re.findall(_PATH_PATTERN, extract_user_text(message)[:_MAX_SCANNED]))
    return named


def _argument_strings(arguments: str) -> list[str]:
    """Return the strings in a call's arguments."""
    try:
        decoded: object = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):  # Not JSON, or nested too deeply to be read.
        return [arguments]
    values = list(decoded.values()) if isinstance(decoded, dict) else [decoded]
    texts = [value for value in values if isinstance(value, str)]
    lists = [value for value in values if isinstance(value, list)]
    return texts + [one for value in lists for one in value if isinstance(one, str)]

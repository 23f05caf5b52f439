"""Makes a conversation shorter: old results are cleared first, then the middle gives way to a record with notes.

The notes are a model's, or a digest made without one. Work over the whole conversation runs in a thread, so that other
sessions of the process go on meanwhile.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec import Struct, structs

from hermes.context.engine import (
    ASSUMED_WINDOW,
    Compaction,
    CompactionPreview,
    CompactionRequest,
    CompactionTrigger,
    ContextLoad,
    EngineSetup,
    MessageReplacement,
    NoCompaction,
)
from hermes.context.pins import (
    OriginalsLookup,
    RetentionLimits,
    StandingInstruction,
    UserStatement,
    collect_paths,
    collect_statements,
    estimate_message_tokens,
    estimate_tokens,
    find_instructions,
    find_middle,
    find_turn_start,
    fit_statements,
)
from hermes.context.summary import SummaryNotes, SummaryRequest, cut_at_line, summarize_messages
from hermes.core.encoding import to_json
from hermes.core.messages import PROGRAM, Message, Role, TextPart, ToolResultPart
from hermes.core.outcomes import FailureKind
from hermes.core.stream import Failure
from hermes.i18n.messages import N_
from hermes.llm.exchange import Emit
from hermes.safety.fencing import TAG, fence_untrusted_text
from hermes.store.records import MessageState, StoredMessage
from hermes.tools.taint import inherit_provenance
from hermes.util.text import end_sentence, to_one_line, truncate_middle

SHORT_RESULT = 200
"""Characters up to which a result is left as it is."""


CLEARED_MARK = "[Old tool output cleared to save context space]"


def clear_old_results(rows: Sequence[StoredMessage], lookup: OriginalsLookup) -> tuple[MessageReplacement, ...]:
    """Return the rows whose results are cleared, each with its replacement."""
    return tuple(
        MessageReplacement((row.id,), _clear_results(row, lookup), row.turn_id)
        for row in rows
        if row.message.role is Role.TOOL and any(_is_clearable(result) for result in row.message.tool_results())
    )


def shorten_long_results(
    rows: Sequence[StoredMessage], limit: int, lookup: OriginalsLookup
) -> tuple[MessageReplacement, ...]:
    """Return the rows with results over `limit` characters, each with only their beginnings and ends."""
    return tuple(
        MessageReplacement(
            (row.id,), _shorten_results(row.message, limit, lookup.describe_message(row.id)), row.turn_id
        )
        for row in rows
        if row.message.role is Role.TOOL and any(len(result.text) > limit for result in row.message.tool_results())
    )


def is_cleared(text: str) -> bool:
    """Return whether a result was cleared before."""
    return text.startswith(CLEARED_MARK)


def _is_clearable(result: ToolResultPart) -> bool:
    return len(result.text) > SHORT_RESULT and not is_cleared(result.text)


def _clear_results(row: StoredMessage, lookup: OriginalsLookup) -> Message:
    """Return the message without its results. Their provenance stays: what was said about them is still there."""
    note = f"{CLEARED_MARK} ({lookup.describe_message(row.id)})"
    parts = tuple(
        structs.replace(part, text=note, images=())
        if isinstance(part, ToolResultPart) and _is_clearable(part)
        else part
        for part in row.message.parts
    )
    return structs.replace(row.message, parts=parts)


def _shorten_results(message: Message, limit: int, where: str) -> Message:
    note = f"\n[shortened; {where}]"
    parts = tuple(
        structs.replace(part, text=truncate_middle(part.text, limit) + note)
        if isinstance(part, ToolResultPart) and len(part.text) > limit
        else part
        for part in message.parts
    )
    return structs.replace(message, parts=parts)


MAX_DIGEST = 8_000
"""Characters."""


_HEAD = "(Made without a model: no summary could be had."


_BEFORE = 3_000


_TEXTS = 3


_TEXT = 800


_LINE = 200


def build_digest(
    rows: Sequence[StoredMessage], previous_notes: str, lookup: OriginalsLookup, max_characters: int = MAX_DIGEST
) -> str:
    """Build a digest of these messages in at most `max_characters` characters; `previous_notes` are the
    notes so far.
    """
    max_characters = max(1_500, min(max_characters, MAX_DIGEST))
    pieces = [f"{_HEAD} What stands here is what was called and said last. {lookup.describe_all()}.)"]
    if previous_notes:
        pieces.append(f"Notes so far:\n{truncate_middle(previous_notes, min(_BEFORE, max_characters // 3))}")
    texts = [row for row in rows if row.message.role is Role.ASSISTANT and row.message.text.strip()][-_TEXTS:]
    last = [f"[{row.id}] {truncate_middle(row.message.text.strip(), min(_TEXT, max_characters // 8))}" for row in texts]
    if last:
        pieces.append("Said by the agent last:\n" + "\n".join(last))
    left = max_characters - sum(len(piece) + 2 for piece in pieces) - 40
    lines: list[str] = []
    for line in reversed(_format_calls(rows)):
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    if lines:
        pieces.append("Calls, the oldest first:\n" + "\n".join(reversed(lines)))
    return "\n\n".join(pieces)[:max_characters]


def is_digest(notes: str) -> bool:
    """Return whether notes were made without a model."""
    return notes.startswith(_HEAD)


def _format_calls(rows: Sequence[StoredMessage]) -> list[str]:
    """Format a line for each call, with its status and the beginning of its result."""
    results = {result.call_id: result for row in rows for result in row.message.tool_results()}
    lines = []
    for row in rows:
        for call in row.message.tool_calls():
            result = results.get(call.call_id)
            came = f"{result.status.value}: {to_one_line(result.text, 80)}" if result else "no result"
            lines.append(
                f"[{row.id}] " + to_one_line(f"{call.name} {to_one_line(call.arguments, 100)} -> {came}", _LINE)
            )
    return lines


RECORD_PREFIX = "[CONTEXT COMPACTION — REFERENCE ONLY]"


_OPENING = """\
{prefix} Messages {first} to {last} of this conversation are condensed here. This is a record, not a message: do not \
answer it, and do nothing again that it says was done or answered. What to do now is said by the newest message of the \
user. Nothing is lost: {lookup}."""


_RULES_HEADING = (
    "## Standing instructions of the user, word for word. They hold until the user takes them back; later ones win."
)


_SAID_HEADING = "## What the user said, word for word, the oldest first (number of the message, and what became of it)"


_PATHS_HEADING = "## Files named, the newest first"


_NOTES_HEADING = "## Notes on what happened"


_HEADING_LOOKALIKE = (
    r"^[^\w\n]{0,20}(?=standing instructions|what the user said|files named|notes on what happened|context compaction)"
)
"""Matches text at the beginning of a line that would look like a heading of the record."""


_FENCED = re.compile(rf"<{TAG} [^\n]*>\n(.*)\n</{TAG} id=[^\n]*>(?:\n\[[^\n]*\])?", re.DOTALL)


class PinnedText(Struct, frozen=True):
    """The content that a compression keeps word for word."""

    rules: Sequence[StandingInstruction]
    statements: Sequence[UserStatement]
    paths: Sequence[str]
    lookup: OriginalsLookup

    def render_pins(self, first: int, last: int) -> str:
        """Return the record up to the notes, for messages `first` to `last`."""
        pieces = [_OPENING.format(prefix=RECORD_PREFIX, first=first, last=last, lookup=self.lookup.describe_all())]
        if self.rules:
            pieces.append("\n".join([_RULES_HEADING, *(f"- ({one.number}) {one.text}" for one in self.rules)]))
        ruled = {one.text for one in self.rules}
        said = [
            f"({one.number}, {_describe_status(one)}) {one.text}" for one in self.statements if one.text not in ruled
        ]
        if said:
            pieces.append("\n".join([_SAID_HEADING, *said]))
        if self.paths:
            pieces.append("\n".join([_PATHS_HEADING, *self.paths]))
        return "\n\n".join(pieces)


def build_record_message(
    pinned: PinnedText, past: Sequence[StoredMessage], notes: str, sources: Iterable[Message]
) -> Message:
    """Build the message that replaces `past`.

    Notes made from untrusted content are fenced as such; the user's own words are not. No notes can pass
    for another part of the record.
    """
    strange = inherit_provenance(sources)
    notes = re.sub(_HEADING_LOOKALIKE, "(in the notes) ", notes, flags=re.IGNORECASE | re.MULTILINE)
    told = notes if strange is None else fence_untrusted_text(notes, strange)
    parts = (
        TextPart(pinned.render_pins(past[0].id, past[-1].id), PROGRAM),
        TextPart(f"\n{_NOTES_HEADING}\n{told}", strange or PROGRAM),
    )
    return Message(role=Role.USER, parts=parts, synthetic=True)


def extract_notes(message: Message) -> str:
    """Return the notes in a record; empty for any other message."""
    if not message.synthetic or len(message.parts) != 2 or not message.text.startswith(RECORD_PREFIX):
        return ""
    part = message.parts[1]
    notes = part.text.partition(f"{_NOTES_HEADING}\n")[2] if isinstance(part, TextPart) else ""
    fenced = _FENCED.fullmatch(notes)
    return fenced[1] if fenced is not None else notes


def _describe_status(one: UserStatement) -> str:
    if one.done:
        return "done"
    return "answered" if one.answered else "not answered yet"


FAILURE_COOLDOWN = 600.0
"""Seconds after a failed summary in which the model is not asked again."""
USER_TEXT_SHARE = 0.1
"""The share of the window that the user's own words may take before any of them are dropped."""
_ENOUGH_CLEARED = 0.6
"""Clearing is enough when the conversation falls below this share of the threshold."""
_CRITICAL_SHARE = 0.9
"""The share of the window from which on waiting is no choice."""
_MIN_NOTES_TOKENS = 2_000
_NOTHING_OLDER = N_("There is nothing older that could be condensed.")


class CompactionMemo(Struct, frozen=True):
    """What the engine remembers from one compaction to the next."""

    finished: tuple[int, ...] = ()
    quotes: tuple[tuple[int, int, int], ...] = ()
    """Standing instructions that a model named: number of the message, and where in the person's words."""
    through: int = 0
    """The last message that a model's notes cover."""


class CompactionPlan(Struct, frozen=True, kw_only=True):
    """The inputs of one compaction. Tokens are estimates."""

    active: list[StoredMessage]
    sizes: list[int]
    start: int
    end: int
    originals: list[StoredMessage]
    """The originals of everything that is condensed, now or before."""
    content_limit: int
    """What all messages may take in the end."""
    user_text_limit: int
    """What the user's words may take."""
    notes_budget: int
    """What the notes may take."""
    lookup: OriginalsLookup


class Condenser:
    """Clears old results, then condenses the middle. `docs/compression.md` describes it.

    `estimate_load` and `compute_threshold` tell in corrected tokens how full the window is, and how full it may be.
    """

    def __init__(
        self,
        setup: EngineSetup,
        estimate_load: Callable[[ContextLoad], int],
        compute_threshold: Callable[[ContextLoad], int],
    ) -> None:
        self._setup = setup
        self._settings = setup.settings
        self._estimate_load = estimate_load
        self._compute_threshold = compute_threshold
        self._ask_from = 0.0
        """When the model may be asked again."""

    async def compress(self, occasion: CompactionRequest, emit: Emit) -> Compaction | NoCompaction:
        """Clear old results if that is enough, else condense the middle."""
        plan, cleared, freed = await asyncio.to_thread(self._plan_clearing, occasion)
        if _is_clearing_enough(plan, cleared, freed, occasion):
            count = len(cleared)
            said = f"{count} old tool {'output was' if count == 1 else 'outputs were'} cleared; the originals are kept."
            return Compaction(changes=cleared, memo=occasion.memo, notice=said)
        if not plan.originals or plan.start == plan.end:
            if occasion.wish.is_given:
                return NoCompaction(_NOTHING_OLDER)
            return await asyncio.to_thread(self._shorten_large_results, plan, occasion)
        found = await self._condense_middle(plan, occasion, emit)
        if isinstance(found, Compaction) and occasion.trigger is CompactionTrigger.OVERFLOW:
            return await asyncio.to_thread(_shorten_rest, plan, found)
        return found

    async def preview(self, occasion: CompactionRequest) -> CompactionPreview | NoCompaction:
        """Return what `compress` would change. No model is asked."""
        plan, cleared, freed = await asyncio.to_thread(self._plan_clearing, occasion)
        before = sum(plan.sizes)
        if _is_clearing_enough(plan, cleared, freed, occasion):
            return CompactionPreview(before=before, after=before - freed, cleared=len(cleared))
        covered = plan.sizes[plan.start : plan.end]
        if not plan.originals or not covered:
            return NoCompaction(_NOTHING_OLDER)
        pins = await asyncio.to_thread(self._collect_pins, plan, _decode_memo(occasion.memo))
        record = estimate_tokens(pins[0].render_pins(plan.originals[0].id, plan.originals[-1].id)) + plan.notes_budget
        return CompactionPreview(
            before=before,
            after=before - sum(covered) + min(record, sum(covered)),
            messages=len(covered),
            first=plan.active[plan.start].id,
            last=plan.active[plan.end - 1].id,
        )

    def _plan_clearing(self, occasion: CompactionRequest) -> tuple[CompactionPlan, tuple[MessageReplacement, ...], int]:
        """Plan the compaction; return the plan, the results that can be cleared, and the tokens that this saves."""
        plan = self._plan_compaction(occasion)
        cleared = clear_old_results(plan.active[plan.start : plan.end], plan.lookup)
        return plan, cleared, _count_freed_tokens(plan, cleared)

    def _plan_compaction(self, occasion: CompactionRequest) -> CompactionPlan:
        """Decide where to cut and how much room there is."""
        load, settings = occasion.load, self._settings
        active = [row for row in occasion.rows if row.state is MessageState.ACTIVE]
        sizes = [estimate_message_tokens(row.message) for row in active]
        content = sum(sizes)
        ratio = max(self._estimate_load(load) / max(1, load.estimated), 0.25)
        window = int((load.window or ASSUMED_WINDOW) / ratio)
        threshold = int(self._compute_threshold(load) / ratio)
        room = max(threshold - load.frame, 200)
        if occasion.trigger is not CompactionTrigger.PREFLIGHT:
            # The provider knows better than anybody's number, and the person wants it shorter than it is.
            room = max(min(room, content // 2), 200)
            threshold = min(threshold, room)
            window = min(window, load.frame + 2 * room)
        kept = RetentionLimits(
            first=settings.protect_first_n,
            first_tokens=room // 4,
            last=settings.protect_last_n,
            last_tokens=int(settings.target_ratio * threshold),
            most=int(0.6 * room),
        )
        start, end = find_middle(active, sizes, kept, occasion.replacement_ids)
        if occasion.wish.kept_turns is not None:
            start, end = 0, find_turn_start(active, occasion.wish.kept_turns)
        covered = sum(sizes[start:end])
        ceiling = max(min(window // 20, settings.summary_max_tokens), min(_MIN_NOTES_TOKENS, window // 8))
        return CompactionPlan(
            active=active,
            sizes=sizes,
            start=start,
            end=end,
            originals=_collect_originals(occasion, active[:start], active[end - 1] if start < end else None),
            content_limit=room,
            user_text_limit=min(int(USER_TEXT_SHARE * window), room // 2),
            notes_budget=min(max(covered // 5, min(_MIN_NOTES_TOKENS, window // 8)), ceiling),
            lookup=OriginalsLookup(self._setup.session_id, occasion.searchable),
        )

    async def _condense_middle(
        self, plan: CompactionPlan, occasion: CompactionRequest, emit: Emit
    ) -> Compaction | NoCompaction:
        """Replace the middle by a record, with a model's notes in it or, as a last resort, a digest."""
        memo = _decode_memo(occasion.memo)
        before = _find_previous_notes(occasion)
        outcome = await self._request_notes(plan, occasion, memo, before, emit)
        if isinstance(outcome, SummaryNotes):
            self._ask_from = 0.0
            learned = await asyncio.to_thread(_update_memo, memo, outcome, plan.originals)
            found = await asyncio.to_thread(self._build_compaction, plan, learned, outcome.text)
            return (
                found
                if isinstance(found, NoCompaction)
                else _add_notice(found, outcome.remark, warning=bool(outcome.remark))
            )
        waits = self._estimate_load(occasion.load) < _CRITICAL_SHARE * (occasion.load.window or ASSUMED_WINDOW)
        if occasion.trigger is CompactionTrigger.ASKED or (occasion.trigger is CompactionTrigger.PREFLIGHT and waits):
            return NoCompaction(
                N_("No summary could be made: {end_sentence}", end_sentence=end_sentence(outcome.message))
            )
        return await asyncio.to_thread(self._compact_with_digest, plan, memo, before, outcome)

    def _compact_with_digest(
        self, plan: CompactionPlan, memo: CompactionMemo, before: str, failure: Failure
    ) -> Compaction | NoCompaction:
        """Compact with a digest, the last resort. A model's notes will cover it the next time."""
        fresh = [row for row in plan.originals if row.id > memo.through]
        pins = self._collect_pins(plan, memo)[0].render_pins(plan.originals[0].id, plan.originals[-1].id)
        room = min(max(MAX_DIGEST - len(pins), MAX_DIGEST // 4), 2 * plan.content_limit)
        found = self._build_compaction(plan, memo, build_digest(fresh, before, plan.lookup, room))
        said = f"No summary could be had ({failure.message}), so a digest made without a model stands for it."
        return found if isinstance(found, NoCompaction) else _add_notice(found, said, warning=True)

    async def _request_notes(
        self, plan: CompactionPlan, occasion: CompactionRequest, memo: CompactionMemo, before: str, emit: Emit
    ) -> SummaryNotes | Failure:
        """Ask a model for notes.

        After a failure no model is asked for a while, unless the user wants it.
        """
        fresh = [row for row in plan.originals if row.id > memo.through]
        now = self._setup.clock.monotonic()
        if now < self._ask_from and occasion.trigger is not CompactionTrigger.ASKED:
            left = int(self._ask_from - now)
            said = N_("after a failure the model is not asked for another {left} seconds", left=left)
            return Failure(kind=FailureKind.BAD_RESPONSE, message=said)
        wish = SummaryRequest(
            rows=fresh,
            previous_notes=before,
            statements=await asyncio.to_thread(collect_statements, plan.originals, memo.finished),
            hints=await occasion.remember([row.message for row in fresh]),
            topic=occasion.wish.topic,
            newest_message=next((one.text for one in reversed(collect_statements(plan.active[plan.end :]))), ""),
            budget=plan.notes_budget,
            window=occasion.load.window or ASSUMED_WINDOW,
        )
        outcome = await summarize_messages(wish, self._setup.summary_task, emit)
        if isinstance(outcome, Failure):
            self._ask_from = self._setup.clock.monotonic() + FAILURE_COOLDOWN
        return outcome

    def _collect_pins(self, plan: CompactionPlan, memo: CompactionMemo) -> tuple[PinnedText, int]:
        """Collect what is kept word for word, and count the user's messages that were shortened for want of room."""
        # Whether something was answered is seen in what follows it, which may stand behind the middle.
        past = {row.id for row in plan.originals}
        said = [
            one
            for one in collect_statements([*plan.originals, *plan.active[plan.end :]], memo.finished)
            if one.number in past
        ]
        quotes: dict[int, list[tuple[int, int]]] = {}
        for number, start, end in memo.quotes:
            quotes.setdefault(number, []).append((start, end))
        kept, shortened_words = fit_statements(said, plan.user_text_limit, plan.content_limit // 2, plan.lookup)
        return PinnedText(
            find_instructions(said, quotes), kept, collect_paths(plan.originals), plan.lookup
        ), shortened_words

    def _build_compaction(self, plan: CompactionPlan, memo: CompactionMemo, notes: str) -> Compaction | NoCompaction:
        """Build the compaction that puts the record in the middle's place, if it is shorter."""
        replaced = sum(plan.sizes[plan.start : plan.end])
        pins, lost = self._collect_pins(plan, memo)
        left = 4 * replaced - len(pins.render_pins(plan.originals[0].id, plan.originals[-1].id))
        if len(notes) > max(left, 400):
            notes = cut_at_line(notes, max(left, 400) * 3 // 4)
        covered = plan.active[plan.start : plan.end]
        message = build_record_message(
            pins, plan.originals, notes, [row.message for row in (*plan.originals, *covered)]
        )
        if estimate_message_tokens(message) >= replaced:
            return NoCompaction("Condensing would not make it shorter.")
        said = f"{lost} older messages of yours were too long to be kept word for word." if lost else ""
        change = MessageReplacement(tuple(row.id for row in covered), message)
        return Compaction(changes=(change,), memo=to_json(memo), notice=said, warning=bool(lost))

    def _shorten_large_results(self, plan: CompactionPlan, occasion: CompactionRequest) -> Compaction | NoCompaction:
        """Cut the middles of results that are too large for the window, when nothing else can be condensed."""
        if occasion.trigger is CompactionTrigger.PREFLIGHT:
            return NoCompaction(_NOTHING_OLDER)
        changes = shorten_long_results(plan.active, max(1_000, plan.content_limit), plan.lookup)
        if not changes or _count_freed_tokens(plan, changes) < sum(plan.sizes) // 10:
            return NoCompaction(_NOTHING_OLDER)
        return Compaction(
            changes=changes, memo=occasion.memo, notice="Long tool outputs were shortened; the originals are kept."
        )


def _is_clearing_enough(
    plan: CompactionPlan, cleared: Sequence[MessageReplacement], freed: int, occasion: CompactionRequest
) -> bool:
    """Return whether the conversation is short enough without old results; not where the person wants it otherwise."""
    short = sum(plan.sizes) - freed <= _ENOUGH_CLEARED * plan.content_limit
    return bool(cleared) and short and not occasion.wish.is_given


def _shorten_rest(plan: CompactionPlan, found: Compaction) -> Compaction:
    """Return the compaction with long results shortened among what it keeps, where that alone is too long."""
    covered = {number for change in found.changes for number in change.covered}
    rest = [row for row in plan.active if row.id not in covered]
    sizes = {row.id: size for row, size in zip(plan.active, plan.sizes, strict=True)}
    if sum(sizes[row.id] for row in rest) <= plan.content_limit:
        return found
    changes = shorten_long_results(rest, max(1_000, plan.content_limit), plan.lookup)
    return structs.replace(found, changes=(*found.changes, *changes))


def _find_previous_notes(occasion: CompactionRequest) -> str:
    """Return the newest notes that a model wrote.

    A digest that took their place since lacks parts of them.
    """
    records = sorted((row for row in occasion.rows if row.id in occasion.replacement_ids), key=lambda row: -row.id)
    found = (notes for row in records if (notes := extract_notes(row.message)) and not is_digest(notes))
    return next(found, "")


def _decode_memo(raw: bytes) -> CompactionMemo:
    try:
        return msgspec.json.decode(raw, type=CompactionMemo)
    except msgspec.DecodeError:
        return CompactionMemo()


def _update_memo(memo: CompactionMemo, notes: SummaryNotes, past: Sequence[StoredMessage]) -> CompactionMemo:
    """Return the memo with what the notes say. Numbers and quotes that are not the user's are ignored."""
    said: dict[int, UserStatement] = {one.number: one for one in collect_statements(past)}
    quotes = dict.fromkeys(memo.quotes)
    for number, quote in notes.quotes:
        start = said[number].text.find(quote) if number in said else -1
        if start >= 0:
            quotes[number, start, start + len(quote)] = None
    finished = sorted({*memo.finished, *(notes.finished & said.keys())})
    return CompactionMemo(tuple(finished), tuple(quotes), max(row.id for row in past))


def _collect_originals(
    occasion: CompactionRequest, head: Sequence[StoredMessage], last: StoredMessage | None
) -> list[StoredMessage]:
    """Return the originals up to the row `last`, without those that stay at the beginning."""
    if last is None:
        return []
    kept = {row.id for row in head}
    place = next(number for number, row in enumerate(occasion.rows) if row.id == last.id)
    return [row for row in occasion.rows[: place + 1] if row.id not in kept and row.id not in occasion.replacement_ids]


def _count_freed_tokens(plan: CompactionPlan, changes: Sequence[MessageReplacement]) -> int:
    """Return the tokens that changes to single messages save."""
    sizes = {row.id: size for row, size in zip(plan.active, plan.sizes, strict=True)}
    return sum(sizes[change.covered[0]] - estimate_message_tokens(change.message) for change in changes)


def _add_notice(found: Compaction, text: str, *, warning: bool) -> Compaction:
    notice = f"{found.notice} {text}".strip()
    return msgspec.structs.replace(found, notice=notice, warning=found.warning or warning)

"""The built-in context engine: clears old results first, then lets a summary stand for the middle.

What goes through the whole conversation runs in a thread: other sessions of the process go on meanwhile.
"""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from hermes.context.assembly import Pins, notes_of, record
from hermes.context.boundaries import Room, middle, weight
from hermes.context.digest import MOST, digest, is_digest
from hermes.context.engine import UNKNOWN_WINDOW, Change, Compaction, Kept, Load, Occasion, Setup, Trigger
from hermes.context.pins import Said, kept_words, paths_in, rules_in, said_in
from hermes.context.pointing import Lookup
from hermes.context.pruning import pruned, shortened
from hermes.context.summary import Notes, Wish, cut_at_line, summarise
from hermes.core.outcomes import FailureKind
from hermes.core.stream import Failure
from hermes.llm.exchange import Emit
from hermes.store.rows import MessageState, StoredMessage
from hermes.tools.tool import Tool
from hermes.util.text import sentence

COOLDOWN = 600.0
"""Seconds after a failed summary in which the model is not asked again."""
WORDS_SHARE = 0.1
"""The part of the window that the person's own words may take before any of them leave."""
_ENOUGH = 0.6
"""The part of the threshold that clearing results must reach to be enough."""
_FULL = 0.9
"""The part of the window from which on waiting is no choice."""
_MIN_NOTES = 2_000


class Memo(Struct, frozen=True):
    """What is known from one compaction to the next."""

    finished: tuple[int, ...] = ()
    quotes: tuple[tuple[int, int, int], ...] = ()
    """Standing instructions that a model named: number of the message, and where in the person's words."""
    through: int = 0
    """The last message that a model's notes know of."""


class Plan(Struct, frozen=True, kw_only=True):
    """What one compaction has to do with. Tokens are estimated ones."""

    active: list[StoredMessage]
    sizes: list[int]
    start: int
    end: int
    past: list[StoredMessage]
    """The originals of everything that is condensed, now or before."""
    room: int
    """What all messages may take in the end."""
    words: int
    """What the person's words may take."""
    budget: int
    """What the notes may have."""
    lookup: Lookup


class Compressor:
    """Clears, then condenses. What it does is told in `docs/compression.md`."""

    name = "compressor"

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._settings = setup.settings
        self._ratio = 1.0
        """Tokens for each estimated one, by the last count."""
        self._ask_from = 0.0
        """When the model may be asked again."""

    def on_usage(self, counted: int, estimated: int) -> None:
        """Learn how the estimate compares with a count."""
        if counted > 0 and estimated > 0:
            self._ratio = min(max(counted / estimated, 0.25), 4.0)

    def should_compress(self, load: Load) -> bool:
        """Whether the threshold is passed, by the provider's count or else by the corrected estimate."""
        return load.window is not None and self._tokens(load) >= self._threshold(load)

    def tools(self) -> Sequence[Tool]:
        """None: what was condensed is found by `session_search`."""
        return ()

    async def compress(self, occasion: Occasion, emit: Emit) -> Compaction | Kept:
        """Clear old results if that is enough, else condense the middle."""
        plan, cleared, freed = await asyncio.to_thread(self._looked, occasion)
        if cleared and sum(plan.sizes) - freed <= _ENOUGH * plan.room:
            count = len(cleared)
            said = f"{count} old tool {'output was' if count == 1 else 'outputs were'} cleared; the originals are kept."
            return Compaction(changes=cleared, memo=occasion.memo, notice=said)
        if not plan.past or plan.start == plan.end:
            return await asyncio.to_thread(self._shortened, plan, occasion)
        return await self._condensed(plan, occasion, emit)

    def _looked(self, occasion: Occasion) -> tuple[Plan, tuple[Change, ...], int]:
        """Where to cut, what can be cleared there, and the tokens that this saves."""
        plan = self._plan(occasion)
        cleared = pruned(plan.active[plan.start : plan.end], plan.lookup)
        return plan, cleared, _freed(plan, cleared)

    def _tokens(self, load: Load) -> int:
        return load.counted if load.counted is not None else int(load.estimated * self._ratio)

    def _threshold(self, load: Load) -> int:
        """Tokens from which on a conversation is condensed; where prompt and tools alone take most of that, what they
        leave of the window counts instead."""
        window = load.window or UNKNOWN_WINDOW
        plain = int(self._settings.threshold * window)
        frame = int(load.frame * self._ratio)
        if 2 * frame <= plain:
            return plain
        return frame + int(self._settings.threshold * max(0, window - frame))

    def _plan(self, occasion: Occasion) -> Plan:
        """Where to cut, and what there is room for."""
        load, settings = occasion.load, self._settings
        active = [row for row in occasion.rows if row.state is MessageState.ACTIVE]
        sizes = [weight(row.message) for row in active]
        content = sum(sizes)
        ratio = max(self._tokens(load) / max(1, load.estimated), 0.25)
        window = int((load.window or UNKNOWN_WINDOW) / ratio)
        threshold = int(self._threshold(load) / ratio)
        room = max(threshold - load.frame, 200)
        if occasion.trigger is not Trigger.PREFLIGHT:
            # The provider knows better than anybody's number, and the person wants it shorter than it is.
            room = max(min(room, content // 2), 200)
            threshold = min(threshold, room)
            window = min(window, load.frame + 2 * room)
        kept = Room(
            first=settings.protect_first_n,
            first_tokens=room // 4,
            last=settings.protect_last_n,
            last_tokens=int(settings.target_ratio * threshold),
            most=int(0.6 * room),
        )
        start, end = middle(active, sizes, kept, occasion.made)
        covered = sum(sizes[start:end])
        ceiling = max(min(window // 20, settings.summary_max_tokens), min(_MIN_NOTES, window // 8))
        return Plan(
            active=active,
            sizes=sizes,
            start=start,
            end=end,
            past=_past(occasion, active[:start], active[end - 1] if start < end else None),
            room=room,
            words=min(int(WORDS_SHARE * window), room // 2),
            budget=min(max(covered // 5, min(_MIN_NOTES, window // 8)), ceiling),
            lookup=Lookup(self._setup.session_id, occasion.searchable),
        )

    async def _condensed(self, plan: Plan, occasion: Occasion, emit: Emit) -> Compaction | Kept:
        """Let a record stand for the middle: a model's notes in it, or as a last resort a digest."""
        memo = _memo(occasion.memo)
        before = _notes_so_far(occasion)
        outcome = await self._notes(plan, occasion, memo, before, emit)
        if isinstance(outcome, Notes):
            self._ask_from = 0.0
            learned = await asyncio.to_thread(_learned, memo, outcome, plan.past)
            found = await asyncio.to_thread(self._assembled, plan, learned, outcome.text)
            return (
                found if isinstance(found, Kept) else _with_notice(found, outcome.remark, warning=bool(outcome.remark))
            )
        waits = self._tokens(occasion.load) < _FULL * (occasion.load.window or UNKNOWN_WINDOW)
        if occasion.trigger is Trigger.ASKED or (occasion.trigger is Trigger.PREFLIGHT and waits):
            return Kept(f"No summary could be had: {sentence(outcome.message)}")
        return await asyncio.to_thread(self._digested, plan, memo, before, outcome)

    def _digested(self, plan: Plan, memo: Memo, before: str, failure: Failure) -> Compaction | Kept:
        """The last resort. What a model's notes do not know of yet they will be told of the next time."""
        fresh = [row for row in plan.past if row.id > memo.through]
        pins = self._pins(plan, memo)[0].text(plan.past[0].id, plan.past[-1].id)
        room = min(max(MOST - len(pins), MOST // 4), 2 * plan.room)
        found = self._assembled(plan, memo, digest(fresh, before, plan.lookup, room))
        said = f"No summary could be had ({failure.message}), so a digest made without a model stands for it."
        return found if isinstance(found, Kept) else _with_notice(found, said, warning=True)

    async def _notes(self, plan: Plan, occasion: Occasion, memo: Memo, before: str, emit: Emit) -> Notes | Failure:
        """A model's notes; a failure begins a time in which nobody is asked, unless the person wants it."""
        fresh = [row for row in plan.past if row.id > memo.through]
        now = self._setup.clock.monotonic()
        if now < self._ask_from and occasion.trigger is not Trigger.ASKED:
            left = int(self._ask_from - now)
            said = f"after a failure the model is not asked for another {left} seconds"
            return Failure(kind=FailureKind.BAD_RESPONSE, message=said)
        wish = Wish(
            rows=fresh,
            before=before,
            said=await asyncio.to_thread(said_in, plan.past, memo.finished),
            hints=await occasion.remember([row.message for row in fresh]),
            now=next((one.text for one in reversed(said_in(plan.active[plan.end :]))), ""),
            budget=plan.budget,
            window=occasion.load.window or UNKNOWN_WINDOW,
        )
        outcome = await summarise(wish, self._setup.condensing, emit)
        if isinstance(outcome, Failure):
            self._ask_from = self._setup.clock.monotonic() + COOLDOWN
        return outcome

    def _pins(self, plan: Plan, memo: Memo) -> tuple[Pins, int]:
        """What is kept word for word, and how many of the person's messages had to be shortened for want of room."""
        # Whether something was answered is seen in what follows it, which may stand behind the middle.
        past = {row.id for row in plan.past}
        said = [one for one in said_in([*plan.past, *plan.active[plan.end :]], memo.finished) if one.number in past]
        quotes: dict[int, list[tuple[int, int]]] = {}
        for number, start, end in memo.quotes:
            quotes.setdefault(number, []).append((start, end))
        kept, shortened_words = kept_words(said, plan.words, plan.room // 2, plan.lookup)
        return Pins(rules_in(said, quotes), kept, paths_in(plan.past), plan.lookup), shortened_words

    def _assembled(self, plan: Plan, memo: Memo, notes: str) -> Compaction | Kept:
        """The record in the middle's place, when it is shorter."""
        replaced = sum(plan.sizes[plan.start : plan.end])
        pins, lost = self._pins(plan, memo)
        left = 4 * replaced - len(pins.text(plan.past[0].id, plan.past[-1].id))
        if len(notes) > max(left, 400):
            notes = cut_at_line(notes, max(left, 400) * 3 // 4)
        covered = plan.active[plan.start : plan.end]
        message = record(pins, plan.past, notes, [row.message for row in (*plan.past, *covered)])
        if weight(message) >= replaced:
            return Kept("What it would be condensed to is no shorter.")
        said = f"{lost} older messages of yours were too long to be kept word for word." if lost else ""
        change = Change(tuple(row.id for row in covered), message)
        return Compaction(changes=(change,), memo=msgspec.json.encode(memo), notice=said, warning=bool(lost))

    def _shortened(self, plan: Plan, occasion: Occasion) -> Compaction | Kept:
        """Where nothing is between beginning and end: results that are too large for the window lose their middles."""
        if occasion.trigger is Trigger.PREFLIGHT:
            return Kept("There is nothing older that could be condensed.")
        changes = shortened(plan.active, max(1_000, plan.room), plan.lookup)
        if not changes or _freed(plan, changes) < sum(plan.sizes) // 10:
            return Kept("There is nothing older that could be condensed.")
        return Compaction(
            changes=changes, memo=occasion.memo, notice="Long tool outputs were shortened; the originals are kept."
        )


def engine(setup: Setup) -> Compressor:
    """The engine for one session."""
    return Compressor(setup)


def _notes_so_far(occasion: Occasion) -> str:
    """The newest notes that a model wrote; a digest that took their place since has forgotten parts of them."""
    records = sorted((row for row in occasion.rows if row.id in occasion.made), key=lambda row: -row.id)
    found = (notes for row in records if (notes := notes_of(row.message)) and not is_digest(notes))
    return next(found, "")


def _memo(raw: bytes) -> Memo:
    try:
        return msgspec.json.decode(raw, type=Memo)
    except msgspec.DecodeError:
        return Memo()


def _learned(memo: Memo, notes: Notes, past: Sequence[StoredMessage]) -> Memo:
    """What is known now. A number or a quote that is not the person's is no news."""
    said: dict[int, Said] = {one.number: one for one in said_in(past)}
    quotes = dict.fromkeys(memo.quotes)
    for number, quote in notes.quotes:
        start = said[number].text.find(quote) if number in said else -1
        if start >= 0:
            quotes[number, start, start + len(quote)] = None
    finished = sorted({*memo.finished, *(notes.finished & said.keys())})
    return Memo(tuple(finished), tuple(quotes), max(row.id for row in past))


def _past(occasion: Occasion, head: Sequence[StoredMessage], last: StoredMessage | None) -> list[StoredMessage]:
    """The originals up to the row `last`, without those that stay at the beginning."""
    if last is None:
        return []
    kept = {row.id for row in head}
    place = next(number for number, row in enumerate(occasion.rows) if row.id == last.id)
    return [row for row in occasion.rows[: place + 1] if row.id not in kept and row.id not in occasion.made]


def _freed(plan: Plan, changes: Sequence[Change]) -> int:
    """The tokens that changes to single messages save."""
    sizes = {row.id: size for row, size in zip(plan.active, plan.sizes, strict=True)}
    return sum(sizes[change.covered[0]] - weight(change.message) for change in changes)


def _with_notice(found: Compaction, text: str, *, warning: bool) -> Compaction:
    notice = f"{found.notice} {text}".strip()
    return msgspec.structs.replace(found, notice=notice, warning=found.warning or warning)

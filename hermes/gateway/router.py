"""What is done about each thing that was said: it is a command, an answer to a question, a message, or not for us."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence

from msgspec import Struct, field

from hermes.commands.command import parse
from hermes.commands.context import Surface
from hermes.commands.registry import registry
from hermes.core.chats import Arrival, Deed, Outgoing, Owed, StoredArrival
from hermes.core.errors import HermesError
from hermes.core.outcomes import AnswerScope
from hermes.gateway import addressing
from hermes.gateway.accounts import Account
from hermes.gateway.chat_session import Conversation, Ground
from hermes.gateway.chat_sessions import Conversations
from hermes.gateway.command_context import ChatDesk
from hermes.gateway.people.command_rights import commands_for, may_use
from hermes.gateway.people.identity import Person, Role
from hermes.gateway.people.pairing import Pairing
from hermes.gateway.people.quotas import Quotas
from hermes.i18n.messages import say, translated

LOOK = 64
"""Rows of a lane that are looked at together."""
_LONGEST_WAIT = 5
"""How many times the batching time a person's pieces are waited for at most."""
_BATCH_MESSAGES, _BATCH_CHARACTERS = 32, 64_000
"""What is one message at most."""
_OBSERVED = 50
_LOOK_AGAIN = 0.1
_PATIENCE = 5.0
_TURNS = frozenset({"retry", "queue", "steer", "interrupt"})
"""Commands that say something to the model: they count as messages do."""
_URGENT = frozenset({"stop", "approve", "deny", "interrupt"})
"""Commands that do not wait behind what takes long."""


class Lane(Struct, eq=False):
    """One chat or thread, as long as something happens there."""

    news: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    """Something came in that no more pieces are waited for."""
    arrived_at: float = 0.0
    """When something came in last, by the loop's clock; 0 for what was there before."""
    seen: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=_OBSERVED))
    """Who said what without addressing the agent."""
    commands: set[asyncio.Task[None]] = field(default_factory=set)
    """Commands that are being carried out."""
    stuck: bool = False
    """Whether what is looked at now takes long."""
    told: str = ""
    """What went wrong last and was said."""


def _speaks(arrival: Arrival) -> bool:
    """Whether these are the sender's own words: only those command."""
    return arrival.verified and not arrival.forwarded


def _counted(person: Person, arrival: Arrival) -> Person:
    """Whose turn it is. What a program says counts as a guest's: two of them could go on for ever."""
    return Person(person.id, Role.GUEST) if arrival.sender.bot else person


def is_urgent(arrival: Arrival) -> bool:
    """Whether something must not wait behind what takes long: it stops, or answers a question."""
    if not _speaks(arrival):
        return False
    if arrival.press:
        return True
    command = parse(arrival.text.strip())
    return command is not None and command[0].lower() in _URGENT


def is_prompt(arrival: Arrival) -> bool:
    """Whether nothing more of it will come: a button, a command."""
    return _speaks(arrival) and (bool(arrival.press) or parse(arrival.text.strip()) is not None)


class Reception:
    """Handles what has come in, once each."""

    def __init__(self, ground: Ground, conversations: Conversations) -> None:
        self._ground = ground
        self._store = ground.app.premises.store.chats
        self._conversations = conversations
        self._quotas = Quotas(ground.app)
        self.pairing = Pairing(ground.app)

    async def handle(self, account: Account, lane: Lane, rows: Sequence[StoredArrival]) -> None:
        """Handle the first of these, and what belongs to it. Raises HermesError; then it was not handled."""
        first = rows[0]
        arrival, settings = first.arrival, account.plan.settings
        person = await self._ground.people.who(settings, account.name, arrival.sender)
        why = addressing.not_for_us(settings, arrival)
        if why or person is None or not arrival.verified:
            if why == "not addressed" and settings.observe:
                lane.seen.append((arrival.sender.name or arrival.sender.id, arrival.text))
            await self._store.dismiss([first.id], why or await self._stranger(account, arrival))
            return
        if is_prompt(arrival):
            await self._act(account, lane, person, first)
            return
        live = self._conversations.live(account, arrival.place, person)
        if _speaks(arrival) and live is not None and live.questions.hears(person, arrival):
            await self._store.dismiss([first.id], "answer")
            return
        await self._words(account, lane, person, rows)

    async def _act(self, account: Account, lane: Lane, person: Person, row: StoredArrival) -> None:
        """A command or a button. It is carried out beside what else is said, since it may ask and wait."""
        if not await self._store.begin_command(row.id):
            return  # somebody was faster: it did not wait behind what takes long
        task = asyncio.create_task(self._acted(account, person, row), name=f"command {row.id}")
        lane.commands.add(task)
        task.add_done_callback(lane.commands.discard)

    async def _acted(self, account: Account, person: Person, row: StoredArrival) -> None:
        arrival = row.arrival
        try:
            if arrival.press:
                await self._press(arrival, person)
            else:
                async with self._conversations.held(account, arrival.place, person) as conversation:
                    await self._command(conversation, person, arrival)
        except HermesError as error:
            self._ground.report(f"{arrival.place.lane}: {error}")
            text = say("(I cannot answer now: {why})", why=translated(str(error)))
            message = Outgoing(place=arrival.place, text=text, key=f"note:{row.id}")
            await self._ground.outbox.owe([Owed(key=message.key, message=message)])
        await self._store.dismiss([row.id], "pressed" if arrival.press else "command")

    async def urgent(self, account: Account, lane: Lane, name: str) -> None:
        """Handle what must not wait behind what takes long in this lane."""
        for row in await self._store.new_arrivals(name, LOOK):
            if is_urgent(row.arrival) and not addressing.not_for_us(account.plan.settings, row.arrival):
                person = await self._ground.people.who(account.plan.settings, account.name, row.arrival.sender)
                if person is not None:
                    await self._act(account, lane, person, row)

    async def _words(self, account: Account, lane: Lane, person: Person, rows: Sequence[StoredArrival]) -> None:
        """A message, with the pieces that follow it closely (row GW-06)."""
        place = rows[0].arrival.place
        await self._quiet(account, lane, rows)
        rows = _together(await self._store.new_arrivals(place.lane, LOOK), account)
        if not rows:
            return
        lane.stuck = True
        try:
            await self._carried_out(lane, place.lane)
            async with self._conversations.held(account, place, person) as conversation:
                await conversation.room()
                await self._post(conversation, lane, person, rows)
        finally:
            lane.stuck = False

    async def _carried_out(self, lane: Lane, name: str) -> None:
        """Wait for commands that were given before: `/new` for one decides where words go. One that asks something
        waits for words itself."""
        while lane.commands and not any(one.questions.asking for one in self._conversations.in_lane(name)):
            await asyncio.wait(lane.commands, timeout=_LOOK_AGAIN, return_when=asyncio.FIRST_COMPLETED)

    async def _post(
        self, conversation: Conversation, lane: Lane, person: Person, rows: Sequence[StoredArrival]
    ) -> None:
        counted = _counted(person, rows[0].arrival)
        refused = await self._quotas.refusal(counted, conversation.person, conversation.spent_at)
        if refused is not None:
            await self._store.dismiss([one.id for one in rows], "no quota left")
            await self._note(rows[0].arrival, person, "refused", "no quota left")
            await conversation.say(refused)
            return
        conversation.reply_to = rows[-1].arrival.message_id
        mode = conversation.account.plan.settings.busy or self._ground.app.premises.settings.display.busy_input_mode
        await self._conversations.post(conversation, rows, mode, observed=self._observed(lane))
        await self._note(rows[0].arrival, person, "message", conversation.binding.session_id)

    async def _no_turn(self, conversation: Conversation, person: Person, arrival: Arrival) -> str | None:
        """Why a person has no turn now; None where they have one, which then counts."""
        refused = await self._quotas.refusal(person, conversation.person, conversation.spent_at)
        what, detail = ("message", conversation.binding.session_id) if refused is None else ("refused", "no quota left")
        await self._note(arrival, person, what, detail)
        return refused

    async def _note(self, arrival: Arrival, person: Person, what: str, detail: str) -> None:
        """Write down what somebody did."""
        await self._store.note(
            Deed(platform=arrival.place.platform, account=arrival.sender.id, person=person.id, what=what, detail=detail)
        )

    async def _quiet(self, account: Account, lane: Lane, rows: Sequence[StoredArrival]) -> None:
        """Wait until nothing more of what a person sends in pieces comes."""
        clock = asyncio.get_running_loop().time
        given = account.plan.settings.batch_seconds
        seconds = account.can.batch_seconds if given is None else given
        until = clock() + seconds * _LONGEST_WAIT
        if is_prompt(rows[-1].arrival) or len(rows) >= _BATCH_MESSAGES:
            return
        lane.hurry.clear()
        with contextlib.suppress(TimeoutError):
            while (wait := min(lane.arrived_at + seconds, until) - clock()) > 0:
                async with asyncio.timeout(wait):
                    await lane.hurry.wait()
                return

    def _observed(self, lane: Lane) -> str:
        said = "\n".join(f"{who}: {text}" for who, text in lane.seen)
        lane.seen.clear()
        return said

    async def _press(self, arrival: Arrival, person: Person) -> None:
        for conversation in self._conversations.in_lane(arrival.place.lane):
            if conversation.questions.knows(arrival.press):
                said = conversation.questions.press(person, arrival.press)
                await self._note(arrival, person, "refused" if said else "answered", conversation.binding.session_id)
                await conversation.say(said)
                return

    async def _stranger(self, account: Account, arrival: Arrival) -> str:
        """Somebody whom nobody knows, or vouches for: they get no answer, unless they send a code made for them."""
        if not arrival.verified:
            # Whoever it says that it is: an answer, and what it costs, is for people whom the platform vouches for.
            await self.pairing.note(account.name, arrival, "sender not verified")
            return "sender not verified"
        paired = await self.pairing.tried(account.name, arrival) if _speaks(arrival) else None
        if paired is None:
            where = arrival.place.lane
            self._ground.watch.note("turned_away", account=account.name, lane=where, text=arrival.sender.id[:100])
            return "unknown sender"
        async with self._conversations.held(account, arrival.place, paired) as conversation:
            role = paired.role.value
            await conversation.say(say("You are known here now, as {role}. Write what you want.", role=role))
        return "paired"

    async def _command(self, conversation: Conversation, person: Person, arrival: Arrival) -> None:
        name, text = parse(arrival.text.strip()) or ("", "")
        desk = ChatDesk(self._conversations, conversation, person)
        try:
            if name in ("approve", "deny"):
                desk.tell(await self._answered(conversation, person, arrival, _scope(name, text)))
            elif not may_use(person, name):
                desk.tell(say("/{name} is not for you here.", name=name))
            elif _is_turn(name) and (why := await self._no_turn(conversation, person, arrival)) is not None:
                desk.tell(why)
            elif (there := conversation.remote) is not None and _travels(name):
                await there.command(name, text, desk)
            else:
                await _when_idle(conversation, name)
                await commands_for(person.role).run(desk, name, text)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return  # the session in which it asked something is gone, by `/new` for one
        except HermesError as error:
            desk.tell(translated(str(error)))
        await desk.flush()

    async def _answered(
        self, conversation: Conversation, person: Person, arrival: Arrival, scope: AnswerScope | None
    ) -> str:
        """Answer the question that waits here: the person's own, else one of somebody else's that they may answer."""
        others = [one for one in self._conversations.in_lane(arrival.place.lane) if one.may_answer(person)]
        asking = next((one for one in (conversation, *others) if one.questions.approving), conversation)
        said = asking.questions.answer(person, scope)
        await self._note(arrival, person, "refused" if said else "answered", asking.binding.session_id)
        return said


async def _when_idle(conversation: Conversation, name: str) -> None:
    """Let a turn that is about to end come to its end, before a command that cannot be carried out while one runs."""
    command = registry(Surface.CHAT).find(name)
    if command is not None and not command.while_busy:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await conversation.actor.idle()


def _scope(name: str, text: str) -> AnswerScope | None:
    if name == "deny":
        return AnswerScope.DENY
    word = text.strip().lower() or "once"
    return AnswerScope(word) if word in ("once", "session", "always") else None


def _is_turn(name: str) -> bool:
    command = registry(Surface.CHAT).find(name)
    return command is not None and command.name in _TURNS


def _travels(name: str) -> bool:
    command = registry(Surface.CHAT).find(name)
    return command is not None and command.travels


def _together(rows: Sequence[StoredArrival], account: Account) -> list[StoredArrival]:
    """The beginning of what was said that is one message: one person's words in a row, none of them a command."""
    found: list[StoredArrival] = []
    size = 0
    for row in rows:
        arrival = row.arrival
        other = found and (arrival.sender.id, arrival.place) != (found[0].arrival.sender.id, found[0].arrival.place)
        if other or not arrival.verified or is_prompt(arrival) or addressing.not_for_us(account.plan.settings, arrival):
            break
        if found and (len(found) >= _BATCH_MESSAGES or size + len(arrival.text) > _BATCH_CHARACTERS):
            break
        found.append(row)
        size += len(arrival.text)
    return found

"""What is said in each chat, looked at strictly in order there: commands, answers to questions, and messages."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from hermes.app.command import parse
from hermes.app.desk import Surface
from hermes.app.slash import registry
from hermes.core.chats import Arrival, Deed, Outgoing, Owed, StoredArrival
from hermes.core.errors import BusyError, HermesError, StoreError
from hermes.core.ids import new_letter_id
from hermes.core.outcomes import AnswerScope
from hermes.gateway import rules
from hermes.gateway.accounts import Account
from hermes.gateway.conversation import Conversation, GatewayError, Ground
from hermes.gateway.conversations import Conversations
from hermes.gateway.desk import ChatDesk
from hermes.gateway.pairing import Pairing
from hermes.gateway.people import Person, Role
from hermes.util.say import say, translated

_LOG = logging.getLogger(__name__)
_LOOK = 64
_LONGEST_WAIT = 5
"""How many times the batching time a person's pieces are waited for at most."""
_BATCH_MESSAGES, _BATCH_CHARACTERS = 8, 4_000
_BUSY_PAUSE = 2.0
_OBSERVED = 50
_USERS = frozenset(
    {
        "help",
        "new",
        "stop",
        "steer",
        "queue",
        "interrupt",
        "retry",
        "undo",
        "redo",
        "compress",
        "status",
        "usage",
        "title",
    }
)
_GUESTS = frozenset({"help", "new", "stop"})


class _Lane(Struct, eq=False):
    news: asyncio.Event = field(default_factory=asyncio.Event)
    arrived_at: float = 0.0
    """When something came in last, by the loop's clock; 0 for what was there before."""
    seen: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=_OBSERVED))
    """Who said what without addressing the agent."""
    task: asyncio.Task[None] | None = None
    told: str = ""
    """What went wrong last and was said."""


class Lanes:
    """Everything that has come in and that nobody has looked at yet. One lane is looked at by one task at a time."""

    def __init__(self, ground: Ground, conversations: Conversations, accounts: Mapping[str, Account]) -> None:
        self._ground = ground
        self._store = ground.app.premises.store
        self._conversations = conversations
        self._accounts = accounts
        self._lanes: dict[str, _Lane] = {}
        self._turns: dict[str, deque[float]] = {}
        """By person, when turns of theirs began, by the loop's clock."""
        self._commands: set[asyncio.Task[None]] = set()
        self.pairing = Pairing(ground.app)

    def wake(self, name: str, *, fresh: bool = True) -> None:
        """Have somebody look at a lane; `fresh`: something was said there just now."""
        lane = self._lanes.setdefault(name, _Lane())
        if fresh:
            lane.arrived_at = asyncio.get_running_loop().time()
        lane.news.set()
        if lane.task is None:
            lane.task = asyncio.create_task(self._run(name, lane), name=f"lane {name}")

    async def close(self) -> None:
        """Look at nothing more; what was not looked at stays in the journal."""
        tasks = [one.task for one in self._lanes.values() if one.task is not None] + list(self._commands)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, name: str, lane: _Lane) -> None:
        try:
            while lane.news.is_set():
                lane.news.clear()
                await self._look(name, lane)
        finally:
            lane.task = None
            if not lane.seen:
                self._lanes.pop(name, None)

    async def _look(self, name: str, lane: _Lane) -> None:
        while rows := await self._store.new_arrivals(name, _LOOK):
            account = self._accounts.get(rows[0].arrival.place.platform)
            if account is None:
                return  # it is not set up now; what was said stays in the journal
            try:
                await self._handle(account, lane, rows)
                lane.told = ""
            except (BusyError, StoreError) as error:
                self._ground.report(f"{name}: {error}")
                await asyncio.sleep(_BUSY_PAUSE)
            except HermesError as error:
                await self._fail(lane, rows[0], error)
            except Exception as error:  # noqa: BLE001 - one message must not stop what comes behind it
                _LOG.exception("a message could not be handled")
                await self._fail(lane, rows[0], GatewayError(type(error).__name__))

    async def _fail(self, lane: _Lane, row: StoredArrival, error: HermesError) -> None:
        """A message gets an error for an answer; the same error is said once in a row."""
        self._ground.report(f"{row.arrival.place.lane}: {error}")
        await self._store.dismiss([row.id], str(error))
        if str(error) != lane.told:
            lane.told = str(error)
            key = f"note:{new_letter_id()}"
            text = say("(I cannot answer now: {why})", why=translated(str(error)))
            message = Outgoing(place=row.arrival.place, text=text, key=key)
            await self._ground.outbox.owe([Owed(key=key, message=message)])

    async def _handle(self, account: Account, lane: _Lane, rows: Sequence[StoredArrival]) -> None:
        first = rows[0]
        arrival, settings = first.arrival, account.plan.settings
        person = await self._ground.people.who(settings, account.name, arrival.sender)
        why = rules.not_for_us(settings, arrival)
        if why or person is None:
            if why == "not addressed" and settings.observe:
                lane.seen.append((arrival.sender.name or arrival.sender.id, arrival.text))
            if not why:
                why = await self._stranger(account, arrival)
            await self._store.dismiss([first.id], why)
            return
        if arrival.press:
            await self._press(arrival, person)
            await self._store.dismiss([first.id], "pressed")
            return
        conversation = await self._conversations.get(account, arrival.place, person)
        if conversation.questions.hears(person, arrival):
            await self._store.dismiss([first.id], "answer")
            return
        command = parse(arrival.text.strip())
        if command is not None:
            await self._store.begin_command(first.id)
            task = asyncio.create_task(self._run_command(conversation, person, first, command), name=f"/{command[0]}")
            self._commands.add(task)
            task.add_done_callback(self._commands.discard)
            return
        await self._words(conversation, lane, person, rows)

    async def _words(
        self, conversation: Conversation, lane: _Lane, person: Person, rows: Sequence[StoredArrival]
    ) -> None:
        """A message, with the pieces that follow it closely (row GW-06)."""
        name = rows[0].arrival.place.lane
        await self._quiet(conversation.account, lane, rows)
        rows = _together(await self._store.new_arrivals(name, _LOOK), conversation.account)
        if not rows:
            return
        await conversation.room()
        if self._too_many(person):
            await self._store.dismiss([one.id for one in rows], "too many turns")
            await conversation.say(say("That was the last turn of this hour. Try again later."))
            return
        conversation.reply_to = rows[-1].arrival.message_id
        mode = conversation.account.plan.settings.busy or self._ground.app.premises.settings.display.busy_input_mode
        observed = self._observed(conversation, lane)
        await self._conversations.post(conversation, rows, mode, observed=observed)
        await self._store.note(
            Deed(
                platform=conversation.account.name,
                account=rows[0].arrival.sender.id,
                person=person.id,
                what="message",
                detail=conversation.binding.session_id,
            )
        )

    async def _quiet(self, account: Account, lane: _Lane, rows: Sequence[StoredArrival]) -> None:
        """Wait until nothing more of what a person sends in pieces comes."""
        clock = asyncio.get_running_loop().time
        given = account.plan.settings.batch_seconds
        seconds = account.can.batch_seconds if given is None else given
        began = clock()
        while (wait := lane.arrived_at + seconds - clock()) > 0 and clock() - began < seconds * _LONGEST_WAIT:
            await asyncio.sleep(wait)
            if len(rows) >= _BATCH_MESSAGES:
                return

    def _observed(self, conversation: Conversation, lane: _Lane) -> str:
        said = "\n".join(f"{who}: {text}" for who, text in lane.seen)
        lane.seen.clear()
        return said

    def _too_many(self, person: Person) -> bool:
        """Whether a person has had their turns of this hour; counts one where not."""
        most = self._ground.people.rights(person.role).turns_per_hour
        if not most:
            return False
        now = asyncio.get_running_loop().time()
        turns = self._turns.setdefault(person.id, deque())
        while turns and turns[0] < now - 3600:
            turns.popleft()
        if len(turns) >= most:
            return True
        turns.append(now)
        return False

    async def _press(self, arrival: Arrival, person: Person) -> None:
        for conversation in self._conversations.in_lane(arrival.place.lane):
            if conversation.questions.knows(arrival.press):
                await conversation.say(conversation.questions.press(person, arrival.press))
                return

    async def _stranger(self, account: Account, arrival: Arrival) -> str:
        """Somebody whom nobody knows: they get no answer, unless what they say is a code that was made for them."""
        paired = await self.pairing.tried(account.name, arrival)
        if paired is None:
            return "unknown sender"
        conversation = await self._conversations.get(account, arrival.place, paired)
        await conversation.say(say("You are known here now, as {role}. Write what you want.", role=paired.role.value))
        return "paired"

    async def _run_command(
        self, conversation: Conversation, person: Person, row: StoredArrival, command: tuple[str, str]
    ) -> None:
        """Carry a command out beside what else is said: it may ask something and wait for the answer."""
        name, text = command
        desk = ChatDesk(self._conversations, conversation, person)
        try:
            if name in ("approve", "deny"):
                desk.tell(conversation.questions.answer(person, _scope(name, text)))
            elif not _may(person, name):
                desk.tell(say("/{name} is not for you here.", name=name))
            else:
                await registry(Surface.CHAT).run(desk, name, text)
        except HermesError as error:
            desk.tell(translated(str(error)))
        await desk.flush()
        await self._store.dismiss([row.id], "command")


def _scope(name: str, text: str) -> AnswerScope | None:
    if name == "deny":
        return AnswerScope.DENY
    word = text.strip().lower() or "once"
    return AnswerScope(word) if word in ("once", "session", "always") else None


def _may(person: Person, name: str) -> bool:
    """Whether a person may use a command: those that look into other sessions or change settings are for who leads."""
    if person.leads:
        return True
    command = registry(Surface.CHAT).find(name)
    allowed = _USERS if person.role is Role.USER else _GUESTS
    return command is not None and command.name in allowed


def _together(rows: Sequence[StoredArrival], account: Account) -> list[StoredArrival]:
    """The beginning of what was said that is one message: one person's words in a row, none of them a command."""
    found: list[StoredArrival] = []
    size = 0
    for row in rows:
        arrival = row.arrival
        odd = (
            arrival.press or parse(arrival.text.strip()) is not None or rules.not_for_us(account.plan.settings, arrival)
        )
        other = found and (arrival.sender.id != found[0].arrival.sender.id or arrival.place != found[0].arrival.place)
        if odd or other or len(found) >= _BATCH_MESSAGES * 4 or (found and size > _BATCH_CHARACTERS * 16):
            break
        found.append(row)
        size += len(arrival.text)
    return found

"""The gateway: accounts, conversations and what is owed, put together; from its start over restarts to its end."""

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import structs

from hermes.app.cron import scheduler_of
from hermes.app.cron_base import CronBase
from hermes.app.http import client_session, tls_of
from hermes.app.leaving import leaving
from hermes.app.wiring import App
from hermes.core.chats import Batch, Outgoing, Owed, Sender, Unanswered
from hermes.core.errors import BusyError, ConfigError, HermesError, StoreError
from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.cron.scheduler import Scheduler
from hermes.gateway.accounts import Account, Plan, plans_of
from hermes.gateway.conversation import Conversation, Ground
from hermes.gateway.conversations import Conversations
from hermes.gateway.courier import GatewayCourier
from hermes.gateway.front import Wish
from hermes.gateway.lanes import Lanes
from hermes.gateway.outbox import Outbox
from hermes.gateway.people import People
from hermes.gateway.platform import Surroundings
from hermes.gateway.reception import Reception
from hermes.gateway.sessions import Sessions
from hermes.gateway.wording import answer_of, let_out, pieces
from hermes.runtime.actor import SessionActor
from hermes.runtime.locks import session_lock
from hermes.util.say import phrase, say

_LOG = logging.getLogger(__name__)
KEEP_SECONDS = 7 * 24 * 3600.0
"""How long the journal remembers what it has seen: longer than any platform delivers something again."""
TIDY_SECONDS = 3600.0
LOCK = "gateway"


class Gateway:
    """One process's gateway; an async context. `report` says a line to whoever looks after it."""

    def __init__(self, app: App, report: Callable[[str], None]) -> None:
        self.app = app
        self.report = report
        self._store = app.premises.store
        self._settings = app.premises.settings
        self._accounts: dict[str, Account] = {}
        self.outbox = Outbox(app, self._accounts, report)
        self.people = People(app)
        chosen = self._settings.gateway
        self.sessions = Sessions(app, idle_seconds=chosen.idle_minutes * 60, most=chosen.max_live)
        ground = Ground(app=app, outbox=self.outbox, people=self.people, report=report, broken=self._broken)
        media = app.premises.home.root / "media"
        self.conversations = Conversations(ground, self.sessions, self._accounts, media)
        self.reception = Reception(ground, self.conversations)
        self.lanes = Lanes(ground, self.reception, self._accounts)
        self._media = media
        self._stack = AsyncExitStack()
        self._held: dict[str, AsyncExitStack] = {}
        """By account, the lock on what two gateways must not use at once."""
        self._tasks: list[asyncio.Task[None]] = []
        self._jobs: Scheduler | None = None
        self.wrong: Sequence[str] = ()
        """What is wrong with accounts that cannot be started, a line each."""

    async def __aenter__(self) -> "Gateway":
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(_alone(self.app.premises.home.locks))
            self._http = client_session(self.app.premises.environ, self._settings.model.ca_bundle)
            stack.push_async_callback(self._http.close)
            os.makedirs(self._cwd, mode=0o700, exist_ok=True)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    @property
    def accounts(self) -> Mapping[str, Account]:
        """The accounts by name."""
        return self._accounts

    async def start(self) -> None:
        """Start every account that is set up, and go on with what was under way when the process before ended."""
        self.sessions.start()
        plans, self.wrong = plans_of(self._settings.platforms, self.app.premises.environ)
        for line in self.wrong:
            self.report(line)
        for plan in plans:
            await self._begin(plan)
        await self._recover()
        for lane in await self._store.waiting_lanes():
            self.lanes.wake(lane)
        for name in self._accounts:
            await self.outbox.start(name)
        for account in self._accounts.values():
            account.start()
        self._tasks.append(asyncio.create_task(self._tidy(), name="tidy"))
        self._jobs = self._scheduler()
        self._tasks.append(asyncio.create_task(self._jobs.run(), name="jobs"))

    async def drain(self, seconds: float) -> bool:
        """Take nothing more in, and let what runs come to its end; False when that takes longer. What is not done then
        goes on at the next start."""
        for account in self._accounts.values():
            await account.pause()
        await self.lanes.close()
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for entry in self.sessions.live:
                    await entry.actor.idle()
                if self._jobs is not None:
                    await self._jobs.idle()
        await self._end_tasks()
        done = not self.sessions.working
        return await self.outbox.settled(min(10.0, max(until - clock(), 1.0))) and done

    async def close(self) -> None:
        """Stop everything; nothing that is on disk is lost."""
        await self._end_tasks()
        for account in self._accounts.values():
            await account.pause()
        await self.lanes.close()
        await self.conversations.close()
        await self.sessions.close()
        await self.outbox.close()
        for name in list(self._accounts):
            await self._end(name)
        await self._stack.aclose()

    async def owe(self, owed: Sequence[Owed]) -> None:
        """Owe messages to chats of any account."""
        await self.outbox.owe(owed)

    @contextlib.asynccontextmanager
    async def session(self, wish: Wish) -> AsyncIterator[SessionActor]:
        """A live session, held while the context lasts; see `Front`."""

        async def opening() -> SessionActor:
            return await self.app.open_session(
                wish.session_id,
                create=wish.create,
                system=wish.system,
                history=wish.history,
                options=wish.options,
            )

        async with self.sessions.hold(wish.session_id, opening) as entry:
            yield entry.actor

    def health(self) -> Mapping[str, object]:
        """How things stand."""
        return {
            "accounts": {
                name: {"platform": one.plan.descriptor.title, "state": one.health.value, "why": one.why}
                for name, one in self._accounts.items()
            },
            "sessions": {"live": len(self.sessions), "working": self.sessions.working},
            "sent": self.outbox.sent,
            "failed": self.outbox.failed,
        }

    def metrics(self) -> str:
        """The same for Prometheus."""
        return ""

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()

    def _scheduler(self) -> Scheduler:
        """Who lets jobs run, each in a Hermes of its own."""
        on = self.app.premises
        base = CronBase(
            home=on.home,
            settings=on.settings,
            process=on.environ,
            store=on.store,
            redactor=on.redactor,
            clock=on.clock,
        )
        courier = GatewayCourier(self._accounts, self.outbox)
        return scheduler_of(base, courier, lambda options: App(on.environ, options, clock=on.clock), cwd=self._cwd)

    async def _begin(self, plan: Plan) -> None:
        """Make an account ready. One whose token another gateway of this user uses is left alone, with a line."""
        home = self.app.premises.home
        async with AsyncExitStack() as stack:
            try:
                if plan.descriptor.identity is not None:
                    mark = hashlib.sha256(f"{plan.name}\0{plan.descriptor.identity(plan.options)}".encode()).hexdigest()
                    await stack.enter_async_context(session_lock(self._shared_locks, f"account-{mark[:32]}"))
            except BusyError:
                self.report(phrase("{name}: another gateway uses this account; it is left alone here.", name=plan.name))
                return
            surroundings = Surroundings(
                name=plan.name,
                http=self._http,
                clock=self.app.premises.clock,
                media=self._media / plan.name,
                cursors=await self._store.chat_cursors(plan.name),
                report=self.report,
                front=self,
                knows=self._knower(plan),
                tls=lambda: tls_of(self.app.premises.environ, self._settings.model.ca_bundle),
            )
            for secret in plan.descriptor.secrets:
                self.app.premises.redactor.learn(f"{plan.name}_{secret}", str(getattr(plan.options, secret)))
            self._accounts[plan.name] = Account(plan, surroundings, self._take_in)
            self._held[plan.name] = stack.pop_all()
        home.ensure()

    def _knower(self, plan: Plan) -> Callable[[str], Awaitable[bool]]:
        async def knows(sender: str) -> bool:
            return await self.people.who(plan.settings, plan.name, Sender(sender)) is not None

        return knows

    async def _end(self, name: str) -> None:
        await self._accounts.pop(name).close()
        await self._held.pop(name).aclose()

    async def _take_in(self, account: Account, batch: Batch) -> None:
        """Write down what came in; when this returns the platform may forget it."""
        redact = self.app.redact
        arrivals = tuple(
            structs.replace(one, text=redact(one.text), place=structs.replace(one.place, platform=account.name))
            for one in batch.arrivals
        )
        fresh = await self._store.take_in(account.name, structs.replace(batch, arrivals=arrivals))
        for one in fresh:
            self.lanes.wake(one.arrival.place.lane, one.arrival)

    async def _recover(self) -> None:
        """What the process before left: answers that nobody owes yet, turns under way, words that wait, commands."""
        await self._store.lost_arrivals()
        for row in await self._store.begun_commands():
            text = say(
                "(The gateway ended while it carried out {what}. Look whether it was done.)", what=row.arrival.text
            )
            key = f"begun:{row.id}"
            await self._store.owe([Owed(key=key, message=Outgoing(place=row.arrival.place, text=text, key=key))])
            await self._store.dismiss([row.id], "the process ended")
        sessions: dict[str, None] = {}
        for one in await self._store.unanswered():
            try:
                if one.over:
                    await self._answer(one)
                else:
                    sessions[one.session_id] = None
            except HermesError as error:
                self.report(f"{one.session_id}: {error}")
        for session_id in sessions:
            try:
                conversation = await self._conversation(session_id)
            except HermesError as error:
                self.report(f"{session_id}: {error}")
            else:
                if conversation is not None:
                    conversation.actor.resume()

    async def _answer(self, one: Unanswered) -> None:
        """Owe the answer of a turn that had ended before anybody owed it."""
        conversation = await self._conversation(one.session_id)
        if conversation is None:
            return
        text = await self._store.last_answer(one.turn_id)
        ended = TurnEnded(turn_id=one.turn_id, reason=ExitReason(one.reason), text=text, error=one.error)
        out = leaving(self.app.premises, self.app.live(conversation.actor))
        answer = let_out(answer_of(ended), out, conversation.can)
        opened = await self._store.open_delivery(one.turn_id)
        owed = []
        for number, piece in enumerate(pieces(answer.text, conversation.can)):
            key = opened.key if opened is not None and not number else f"{one.turn_id}:late:{number}"
            message = Outgoing(place=one.arrivals[-1].place, text=piece, key=key)
            owed.append(Owed(key=key, message=message, session_id=one.session_id, turn_id=one.turn_id))
        await self._store.owe(owed, answered=one.turn_id, outcome=answer.outcome)

    async def _conversation(self, session_id: str) -> Conversation | None:
        """The conversation of a session that was at work, live again; None where its account is not set up any more."""
        for binding in await self._store.bindings_of(session_id):
            conversation = await self.conversations.of_binding(binding)
            if conversation is not None:
                return conversation
        return None

    def _broken(self, conversation: Conversation) -> None:
        self.conversations.broken(conversation)

    async def _tidy(self) -> None:
        while True:
            with contextlib.suppress(StoreError):  # it is tried again in an hour
                before = self.app.premises.clock.now() - KEEP_SECONDS
                while await self._store.forget_chats(before):
                    pass
            await asyncio.sleep(TIDY_SECONDS)

    @property
    def _cwd(self) -> str:
        named = self._settings.gateway.cwd
        return str(Path(named).expanduser()) if named else str(self.app.premises.home.root / "workspace")

    @property
    def _shared_locks(self) -> Path:
        """Where gateways of this user with other homes see each other's locks."""
        environ = self.app.premises.environ
        base = environ.get("XDG_STATE_HOME") or f"{environ.get('HOME') or '~'}/.local/state"
        return Path(base).expanduser() / "hermes" / "accounts"


@contextlib.asynccontextmanager
async def _alone(folder: Path) -> AsyncIterator[None]:
    """Be the only gateway of this home. Raises BusyError that says who is."""
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(session_lock(folder, LOCK))
        except BusyError as error:
            _, _, who = error.message.partition("(")
            raise BusyError(
                phrase("A gateway runs in this home already ({who}.", who=who.rstrip(".")),
                phrase("`hermes gateway status` shows it, `hermes gateway stop` ends it."),
            ) from None
        yield


def check_settings(app: App) -> None:
    """Raise ConfigError when there is nothing for a gateway to do."""
    if not app.premises.settings.platforms:
        raise ConfigError(
            phrase("No platform is set up."),
            phrase("Write one under `platforms:` in config.yaml; see docs/gateway.md."),
        )

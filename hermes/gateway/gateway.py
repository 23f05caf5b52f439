"""The gateway: accounts, conversations and what is owed, put together; from its start over restarts to its end."""

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from msgspec import structs

from hermes.admin.cron import scheduler_of
from hermes.admin.service.log import GatewayLog
from hermes.core.chats import Batch, Owed, Sender
from hermes.core.errors import BusyError, ConfigError, HermesError
from hermes.cron.scheduler import Scheduler
from hermes.gateway import metrics
from hermes.gateway.accounts import Account, Plan, plans_of
from hermes.gateway.chat_queues import Lanes
from hermes.gateway.chat_session import Conversation, Ground
from hermes.gateway.chat_sessions import Conversations
from hermes.gateway.control_socket import LocalSocket
from hermes.gateway.job_delivery import GatewayCourier
from hermes.gateway.maintenance import Chores
from hermes.gateway.metrics import Standing
from hermes.gateway.metrics_server import opened_meters
from hermes.gateway.outbox import Outbox
from hermes.gateway.people.identity import People
from hermes.gateway.platform import Surroundings
from hermes.gateway.recovery import Recovery
from hermes.gateway.reload import read_anew
from hermes.gateway.request_sessions import Wish
from hermes.gateway.router import Reception
from hermes.gateway.send import Saying, owed_for, said_to
from hermes.gateway.session_pool import Sessions
from hermes.gateway.telemetry import Watch
from hermes.i18n.messages import phrase
from hermes.runtime.actor import SessionActor
from hermes.runtime.locks import session_lock
from hermes.sessions.app import App
from hermes.sessions.features.cron_deps import CronBase
from hermes.sessions.http_client import client_session, tls_of

_LOG = logging.getLogger(__name__)
LOCK = "gateway"


class Gateway:
    """One process's gateway; an async context. `report` says a line to whoever looks after it."""

    def __init__(self, app: App, report: Callable[[str], None]) -> None:
        self.app = app
        self.watch = Watch(GatewayLog(app.premises.home.logs, app.redact), report)
        self.report = report = self.watch.report
        self._store = app.premises.store.chats
        self._settings = app.premises.settings
        self._accounts: dict[str, Account] = {}
        self.outbox = Outbox(app, self._accounts, self.watch)
        self.people = People(app)
        chosen = self._settings.gateway
        self.sessions = Sessions(app, self.watch, idle_seconds=chosen.idle_minutes * 60, most=chosen.max_live)

        def broken(one: Conversation) -> None:
            self.conversations.broken(one)

        ground = Ground(app=app, outbox=self.outbox, people=self.people, watch=self.watch, report=report, broken=broken)
        media = app.premises.home.root / "media"
        self.conversations = Conversations(ground, self.sessions, self._accounts, media)
        self.recovery = Recovery(app, self.conversations, self.outbox, report)
        self.conversations.on_mended = self.recovery.mended
        self.reception = Reception(ground, self.conversations)
        self.lanes = Lanes(ground, self.reception, self._accounts)
        self._media = media
        self._stack = AsyncExitStack()
        self._held: dict[str, AsyncExitStack] = {}
        """By account, the lock on what two gateways must not use at once."""
        self._tasks: list[asyncio.Task[None]] = []
        self._jobs: Scheduler | None = None
        self._chores = Chores(app)
        self.measures_port = 0
        """Where health and measures are served; 0: nowhere."""
        self.local = LocalSocket(self, self.reload)
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
        self.watch.start()
        plans, self.wrong = plans_of(self._settings.platforms, self.app.premises.environ)
        for line in self.wrong:
            self.report(line)
        for plan in plans:
            await self._begin(plan)
        await self.recovery.recover()
        await self._go(list(self._accounts))
        self._tasks += self._chores.start()
        courier = GatewayCourier(self._accounts, self.outbox, self.app)
        self._jobs = _scheduler(self.app, courier, self._cwd)
        self._tasks.append(asyncio.create_task(self._jobs.run(), name="jobs"))
        try:
            self.local.start()
            if (meters := await opened_meters(self.app, self)) is not None:
                self._stack.push_async_callback(meters.close)
                self.measures_port = meters.port
        except HermesError as error:
            self.report(str(error))

    async def _go(self, names: Sequence[str]) -> None:
        """Have these accounts send what they owe, and receive."""
        for lane in await self._store.waiting_lanes():
            self.lanes.wake(lane)
        for name in names:
            await self.outbox.start(name)
            self._accounts[name].start()

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
                await self.local.oneshots.idle()
        await self._end_tasks()
        done = not self.sessions.working
        return await self.outbox.settled(min(10.0, max(until - clock(), 1.0))) and done

    async def close(self) -> None:
        """Stop everything; nothing that is on disk is lost."""
        await self._end_tasks()
        await self.local.close()
        for account in self._accounts.values():
            await account.pause()
        await self.lanes.close()
        await self.conversations.close()
        await self.sessions.close()
        await self.outbox.close()
        for name in list(self._accounts):
            await self._end(name)
        await self._stack.aclose()
        await self.watch.close()

    async def owe(self, owed: Sequence[Owed]) -> None:
        """Owe messages to chats of any account."""
        await self.outbox.owe(owed)

    async def send(self, to: str, text: str, file: str = "") -> str:
        """Say something to a chat that is named as a target of deliveries; where it goes. Raises NotFoundError."""
        plans = {name: one.plan for name, one in self._accounts.items()}
        owed = owed_for(to, Saying(text=self.app.redact(text), file=file), plans)
        await self.outbox.owe(owed)
        return said_to(owed)

    async def reload(self) -> str:
        """Read the settings of the accounts anew; what came of it, in English. Accounts that did not change are not
        touched; settings that cannot be used change nothing."""
        try:
            change = read_anew(self.app, self._accounts)
        except ConfigError as error:
            said = phrase("The settings cannot be used, and nothing was changed: {why}", why=str(error))
            self.report(said)
            return said
        self._settings, self.wrong = self.app.premises.settings, change.wrong
        for line in self.wrong:
            self.report(line)
        sessions = [one for name in change.gone for one in await self.conversations.leave(name)]
        for name in change.gone:
            await self._end(name)
        for plan in change.fresh:
            await self._begin(plan)
        for session_id in sessions:
            await self.recovery.resume(session_id)
        await self._go([plan.name for plan in change.fresh if plan.name in self._accounts])
        names = ", ".join(change.names) or phrase("none")
        said = phrase("The accounts were read anew; changed: {names}.", names=names)
        self.report(said)
        return said

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
            yield entry.local

    async def measure(self) -> None:
        """Bring what `health` and `metrics` say of the store up to date."""
        await self._chores.measure()

    async def deliver(self, target: str, text: str, *, key: str) -> None:
        """Owe a text to a target of deliveries."""
        courier = GatewayCourier(self._accounts, self.outbox, self.app)
        await courier.deliver(target, text, (), key=key)

    async def drop(self, session_id: str) -> None:
        """Take a session out of memory."""
        await self.sessions.drop(session_id)

    def health(self) -> Mapping[str, object]:
        """How things stand, with the store as it was at the last `measure`."""
        return metrics.health(self._standing)

    def metrics(self) -> str:
        """The same and more, for Prometheus."""
        return metrics.prometheus(self._standing)

    @property
    def _standing(self) -> Standing:
        return Standing(
            accounts=self._accounts,
            sessions=self.sessions,
            watch=self.watch,
            owing=self._chores.owing,
            wrong=self.wrong,
        )

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()

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
                report=partial(self.report, account=plan.name),
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
            self.watch.arrived(account.name, one.arrival.place.lane, one.id)
            self.lanes.wake(one.arrival.place.lane, one.arrival)

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


def _scheduler(app: App, courier: GatewayCourier, cwd: str) -> Scheduler:
    """Who lets jobs run, each in a Hermes of its own."""
    on = app.premises
    base = CronBase(
        home=on.home,
        settings=on.settings,
        process=on.environ,
        store=on.store,
        redactor=on.redactor,
        clock=on.clock,
    )
    return scheduler_of(base, courier, lambda options: App(on.environ, options, clock=on.clock), cwd=cwd)


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


async def check_settings(app: App) -> None:
    """Raise ConfigError when there is nothing for a gateway to do: neither a platform nor a job."""
    if not app.premises.settings.platforms and not await app.premises.store.jobs():
        raise ConfigError(
            phrase("No platform is set up."),
            phrase("Write one under `platforms:` in config.yaml; see docs/gateway.md."),
        )

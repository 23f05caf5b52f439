"""The gateway: accounts, chats and the outbox, put together, from start over reloads to the end."""

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from hermes.admin.cron import build_scheduler
from hermes.admin.people.identity import PersonResolver
from hermes.admin.service.gateway_log import GatewayLog
from hermes.admin.session_retention import SessionRetentionPolicy
from hermes.admin.webhooks import WebhookAdmin
from hermes.config.chat_targets import TargetBook
from hermes.config.settings import Settings
from hermes.core.chats import Place
from hermes.core.errors import BusyError, ConfigError, HermesError, StoreError
from hermes.cron.scheduler import JobScheduler
from hermes.gateway import metrics
from hermes.gateway.accounts import AccountPlan, PlatformAccount, compare_plans, plan_accounts
from hermes.gateway.chat_messenger import ChatMessenger
from hermes.gateway.chat_session import GatewayDeps
from hermes.gateway.control_socket import ControlSocket
from hermes.gateway.introductions import introduce_account
from hermes.gateway.metrics import BacklogCounts, GatewayStatus, open_metrics_server, read_backlog
from hermes.gateway.outbox import Outbox, SendOutcome
from hermes.gateway.pairing_requests import make_note
from hermes.gateway.platform import PlatformContext, SessionRequest
from hermes.gateway.platform_menus import REFRESH_SECONDS, PlatformMenus
from hermes.gateway.reload import ReloadOutcome, describe_reload, reject_settings
from hermes.gateway.return_place import take_return_place, write_return_place
from hermes.gateway.router import Router
from hermes.gateway.send import ChatJobDelivery, SendContent, build_outbox_items, describe_targets, find_places
from hermes.gateway.session_pool import SessionPool, require_local
from hermes.gateway.sub_agents.chat_reports import ChatReports
from hermes.gateway.telemetry import Telemetry
from hermes.i18n.messages import N_, tr
from hermes.runtime.actor import SessionActor
from hermes.runtime.locks import session_lock
from hermes.sessions.app import App
from hermes.sessions.features.cron_deps import CronDeps
from hermes.sessions.features.send_tool import SendTool
from hermes.sessions.http_client import create_client_session, create_tls_context
from hermes.sessions.plugins.gateway_hooks import GatewayHooks
from hermes.util.cancellation import cancel_tasks

JOURNAL_SECONDS = 7 * 24 * 3600.0
"""How long the journal remembers inbound events: longer than any platform redelivers one."""
RUN_SECONDS = 30 * 24 * 3600.0
"""How long ended runs and API responses are found by their ids; their messages stay in sessions."""
TIDY_SECONDS = 3600.0
RETENTION_SECONDS = 24 * 3600.0
MEASURE_SECONDS = 15.0
SEND_WAIT_SECONDS = 20.0
"""How long `hermes send` waits for the platform's answer."""
_LOG = logging.getLogger(__name__)
LOCK_NAME = "gateway"
PlatformTable = Mapping[str, Mapping[str, object]]
SelectPlatforms = Callable[[PlatformTable], PlatformTable]


class Gateway:
    """The gateway of one process; an async context. `report` takes a line for the operator; `select_platforms` returns
    which of the configured accounts are opened, with the settings that they have here.
    """

    def __init__(
        self, app: App, report: Callable[[str], None], select_platforms: SelectPlatforms = lambda given: given
    ) -> None:
        self.app = app
        self._select_platforms = select_platforms
        self.telemetry = Telemetry(GatewayLog(app.services.home.logs, app.redact_text), report)
        self.report = self.telemetry.report_line
        self._store = app.services.store
        self._accounts: dict[str, PlatformAccount] = {}
        self.outbox = Outbox(app, self._accounts, self.telemetry)
        self.people = PersonResolver(app)
        self._media = app.services.home.root / "media"
        self._hooks = GatewayHooks(app.services, self._cwd)
        deps = GatewayDeps(
            app=app,
            outbox=self.outbox,
            people=self.people,
            telemetry=self.telemetry,
            media=self._media,
            hooks=self._hooks,
        )
        self.pool = SessionPool(deps, self._accounts)
        app.person_reports = ChatReports(deps, self._accounts)
        self.router = Router(deps, self.pool, self._accounts)
        self.menus = PlatformMenus(app, self._accounts, self.telemetry)
        self._job_delivery = ChatJobDelivery(self._accounts, self.outbox, app)
        self.pool.send_tool = SendTool(ChatMessenger(self.pool, self._job_delivery))
        self._stack = AsyncExitStack()
        self._account_locks: dict[str, AsyncExitStack] = {}
        """By account, the lock on what two gateways must not use at once."""
        self._tasks: list[asyncio.Task[None]] = []
        self._jobs: JobScheduler | None = None
        self._backlog = BacklogCounts()
        self.deliver_jobs: Callable[[], None] = lambda: None
        """Has the output of jobs that another process ran delivered now, and not at the scheduler's next look."""
        self.metrics_port = 0
        """The port that serves health and metrics; 0 when none does."""
        self.control_socket = ControlSocket(self, self.reload_settings)
        self.config_problems: Sequence[str] = ()
        """A line for each account that cannot be started."""

    async def __aenter__(self) -> "Gateway":
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(_lock_home(self.app.services.home.locks))
            self._http = create_client_session(self.app.services.environ, self._settings.model.ca_bundle)
            stack.push_async_callback(self._http.close)
            os.makedirs(self._cwd, mode=0o700, exist_ok=True)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    @property
    def _settings(self) -> Settings:
        return self.app.services.settings

    @property
    def accounts(self) -> Mapping[str, PlatformAccount]:
        """The accounts by name."""
        return self._accounts

    async def start(self) -> None:
        """Start every configured account, and go on with what was under way when the process before ended."""
        self.pool.evictor.start()
        self.telemetry.start()
        plans, self.config_problems = plan_accounts(
            self._select_platforms(self._settings.platforms), self.app.services.environ
        )
        for line in self.config_problems:
            self.report(line)
        for plan in plans:
            await self._open_account(plan)
        await self.pool.recovery.recover()
        if (place := take_return_place(self.app.services.home)) is not None:
            await self._store.outbox.enqueue([make_note(place, tr("I am back."))])
        await self._start_accounts(list(self._accounts))
        for line in await _find_wrong_targets(self.app, await self._job_delivery.load_book()):
            self.report(line)
        self._start_task("sub-agents", self.pool.recovery.resume_sub_agents())
        self._start_task("tidy", _repeat(partial(_delete_old_rows, self.app), TIDY_SECONDS))
        self._start_task("retention", _repeat(partial(_delete_expired_sessions, self), RETENTION_SECONDS))
        self._start_task("menus", _repeat(self.menus.refresh, REFRESH_SECONDS))
        self._start_task("measuring", _repeat(self.measure_backlog, MEASURE_SECONDS))
        self._jobs = _make_scheduler(self.app, self._job_delivery, self._cwd)
        self._start_task("jobs", self._jobs.run())
        self.deliver_jobs = self._jobs.notify_changed
        try:
            self.control_socket.start()
            if (meters := await open_metrics_server(self.app, self)) is not None:
                self._stack.push_async_callback(meters.close)
                self.metrics_port = meters.port
        except HermesError as error:
            self.report(str(error))
        self._start_task("startup hooks", self._hooks.tell_started(list(self._accounts)))

    def offer_restart(self, begin: Callable[[], None]) -> None:
        """Let the owner restart the gateway from a chat: `begin` ends this process and starts the next one, which says
        in that chat that it is back.
        """

        def restart(place: Place) -> None:
            write_return_place(self.app.services.home, place)
            begin()

        self.pool.restart = restart

    def _start_task(self, name: str, work: Coroutine[object, object, None]) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    async def _start_accounts(self, names: Sequence[str]) -> None:
        """Start sending and receiving on these accounts."""
        for lane in await self._store.chats.list_waiting_lanes():
            self.router.wake_lane(lane)
        for name in names:
            await self.outbox.start_account(name)
            account = self._accounts[name]
            account.start()
            report = partial(self.report, account=name)
            self._start_task(f"introduction of {name}", introduce_account(self.app, account, report))

    async def drain(self, seconds: float) -> bool:
        """Take in nothing more, and let running work end; return False when that takes longer. What is not done then
        goes on at the next start.
        """
        for account in self._accounts.values():
            await account.pause()
        await self.router.close()
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for entry in self.pool.live_sessions:
                    await entry.actor.idle()
                for chat in self.pool.list_chats():
                    await chat.finish_output()
                if self._jobs is not None:
                    await self._jobs.idle()
                await self.control_socket.oneshots.drain()
        await cancel_tasks(self._tasks)
        done = not self.pool.working_count
        return await self.outbox.wait_until_idle(min(10.0, max(until - clock(), 1.0))) and done

    async def close(self) -> None:
        """Stop everything; nothing that is on disk is lost."""
        await cancel_tasks(self._tasks)
        await self.control_socket.close()
        for account in self._accounts.values():
            await account.pause()
        await self.router.close()
        await self._hooks.close()
        await self.pool.close()
        await self.outbox.close()
        for name in list(self._accounts):
            await self._close_account(name)
        await self._stack.aclose()
        await self.telemetry.close()

    async def send_message(self, to: str, text: str, file: str = "") -> tuple[str, SendOutcome]:
        """Send a message to a target; return where it goes, and what is known of it after some seconds.

        Raises NotFoundError and UsageError for a target that reaches nobody.
        """
        plans = {name: one.plan for name, one in self._accounts.items()}
        book = await self._job_delivery.load_book()
        content = SendContent(text=self.app.redact_text(text), file=file)
        items = build_outbox_items(find_places(to, plans, book), content, plans)
        return describe_targets(items, to, book), await self.outbox.enqueue_and_wait(items, SEND_WAIT_SECONDS)

    async def reload_settings(self) -> ReloadOutcome:
        """Read `config.yaml` and `.env` again: accounts that did not change are not touched, sessions have the rest
        from their next turn on. Settings that cannot be used change nothing.
        """
        before = self._settings
        try:
            loaded, concerns_sessions = await self.app.services.reload()
        except ConfigError as error:
            outcome = reject_settings(error)
            self.report(outcome.said)
            return outcome
        change = compare_plans(self.app, self._accounts, self._select_platforms(self._settings.platforms))
        self.config_problems = change.config_problems
        sessions = [one for name in change.gone for one in await self.pool.drop_account(name)]
        for name in change.gone:
            await self._close_account(name)
        for plan in change.fresh:
            await self._open_account(plan)
        working = await self.pool.renewal.apply_settings() if concerns_sessions else 0
        for session_id in sessions:
            await self.pool.recovery.resume_session(session_id)
        await self._start_accounts([plan.name for plan in change.fresh if plan.name in self._accounts])
        wrong = [
            *loaded.warnings,
            *change.config_problems,
            *await _find_wrong_targets(self.app, await self._job_delivery.load_book()),
        ]
        outcome = describe_reload(before, self._settings, accounts=change.names, wrong=wrong, working=working)
        for line in (*outcome.notices, outcome.said):
            self.report(line)
        return outcome

    @contextlib.asynccontextmanager
    async def hold_session(self, request: SessionRequest) -> AsyncIterator[SessionActor]:
        """Hold a live session while the context lasts; see `GatewayFacade`."""

        async def open_session() -> tuple[SessionActor, None]:
            actor = await self.app.open_session(
                request.session_id,
                create=request.create,
                system=request.system,
                history=request.history,
                options=request.options,
            )
            return actor, None

        async with self.pool.hold(request.session_id, open_session) as entry:
            yield require_local(entry.actor)

    async def measure_backlog(self) -> None:
        """Refresh the store's part of `health_report` and `metrics_text`; send what other processes have stored."""
        for name in self._accounts:
            await self.outbox.start_account(name)
        await self.router.requests.close_settled()
        self._backlog = await read_backlog(self.app)

    async def deliver_text(self, target: str, text: str, *, key: str) -> None:
        """Put a text for a delivery target into the outbox."""
        await self._job_delivery.deliver(target, text, (), key=key)

    async def deliver_to_place(self, place: Place, text: str, *, key: str) -> None:
        """Put a text for a place of an account into the outbox; the same key again adds nothing."""
        plans = {name: one.plan for name, one in self._accounts.items()}
        await self.outbox.enqueue(build_outbox_items([place], SendContent(text=text), plans, key=key))

    async def drop_session(self, session_id: str) -> None:
        """Remove a session from memory."""
        await self.pool.drop_session(session_id)

    def health_report(self) -> Mapping[str, object]:
        """Return the gateway's state, with the store as of the last `measure_backlog`."""
        return metrics.build_health_report(self._status)

    def metrics_text(self) -> str:
        """Return the same and more, for Prometheus."""
        return metrics.format_prometheus(self._status)

    @property
    def _status(self) -> GatewayStatus:
        return GatewayStatus(
            accounts=self._accounts,
            pool=self.pool,
            telemetry=self.telemetry,
            backlog=self._backlog,
            config_problems=self.config_problems,
        )

    async def _open_account(self, plan: AccountPlan) -> None:
        """Prepare an account. One whose token another gateway of this user uses is left alone, with a line."""
        home = self.app.services.home
        async with AsyncExitStack() as stack:
            try:
                if plan.descriptor.identity is not None:
                    mark = hashlib.sha256(f"{plan.name}\0{plan.descriptor.identity(plan.options)}".encode()).hexdigest()
                    await stack.enter_async_context(session_lock(self._shared_locks, f"account-{mark[:32]}"))
            except BusyError:
                self.report(N_("{name}: another gateway uses this account; it is left alone here.", name=plan.name))
                return
            context = PlatformContext(
                name=plan.name,
                http=self._http,
                clock=self.app.services.clock,
                media=self._media / plan.name,
                cursors=await self._store.chats.get_cursors(plan.name),
                report=partial(self.report, account=plan.name),
                gateway=self,
                is_known_sender=partial(self.people.is_known, plan.settings, plan.name),
                tls=lambda: create_tls_context(self.app.services.environ, self._settings.model.ca_bundle),
            )
            for secret in plan.descriptor.secrets:
                self.app.services.redactor.add_secret(f"{plan.name}_{secret}", str(getattr(plan.options, secret)))
            self._accounts[plan.name] = PlatformAccount(plan, context, self.router.receive_batch)
            self._account_locks[plan.name] = stack.pop_all()
        home.ensure_exists()

    async def _close_account(self, name: str) -> None:
        await self._accounts.pop(name).close()
        await self._account_locks.pop(name).aclose()

    @property
    def _cwd(self) -> str:
        named = self._settings.gateway.cwd
        return str(Path(named).expanduser()) if named else str(self.app.services.home.root / "workspace")

    @property
    def _shared_locks(self) -> Path:
        """The folder of locks that gateways of this user with other homes share."""
        environ = self.app.services.environ
        base = environ.get("XDG_STATE_HOME") or f"{environ.get('HOME') or '~'}/.local/state"
        return Path(base).expanduser() / "hermes" / "accounts"


async def _find_wrong_targets(app: App, book: TargetBook) -> list[str]:
    """Return a line for each webhook of the settings whose answer would reach nobody."""
    services = app.services
    try:
        return await asyncio.to_thread(WebhookAdmin(services.home).find_wrong_targets, services.environ, book)
    except ConfigError:
        return []  # that was said when the settings were read


def _make_scheduler(app: App, courier: ChatJobDelivery, cwd: str) -> JobScheduler:
    """Make the scheduler of jobs; each job runs in an App of its own."""
    services = app.services
    base = CronDeps(
        home=services.home,
        settings=services.settings,
        process=services.environ,
        store=services.store,
        redactor=services.redactor,
        clock=services.clock,
    )
    return build_scheduler(base, courier, lambda options: App(services.environ, options, clock=services.clock), cwd=cwd)


async def _repeat(work: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Do the work again and again, after each pause; what the store does not take is tried the next time."""
    while True:
        with contextlib.suppress(StoreError):
            await work()
        await asyncio.sleep(seconds)


async def _delete_expired_sessions(gateway: Gateway) -> None:
    """Delete sessions of jobs and programs that are kept no longer, and say so."""
    services = gateway.app.services
    policy = SessionRetentionPolicy(services.store, services.home, services.settings)
    gone = await policy.delete_expired(services.clock.now())
    if gone.total:
        said = N_(
            "Old sessions were deleted (session_retention): {jobs} of jobs, {api} of programs.",
            jobs=gone.jobs,
            api=gone.api,
        )
        gateway.report(said)


async def _delete_old_rows(app: App) -> None:
    """Delete rows of the journal, of runs and of responses that are remembered no longer."""
    store, now = app.services.store, app.services.clock.now()
    while await store.chats.prune(now - JOURNAL_SECONDS):
        pass
    while await store.api.prune(now - RUN_SECONDS):
        pass


@contextlib.asynccontextmanager
async def _lock_home(folder: Path) -> AsyncIterator[None]:
    """Hold the lock that makes this the only gateway of the home. Raises BusyError that names the other one."""
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(session_lock(folder, LOCK_NAME))
        except BusyError as error:
            _, _, who = error.message.partition("(")
            raise BusyError(
                N_("A gateway runs in this home already ({who}.", who=who.rstrip(".")),
                N_("`hermes gateway status` shows it, `hermes gateway stop` ends it."),
            ) from None
        yield


async def check_settings(app: App) -> None:
    """Raise ConfigError when there is nothing for a gateway to do: neither a platform nor a job."""
    if not app.services.settings.platforms and not await app.services.store.jobs.list_all():
        raise ConfigError(
            N_("No platform and no job is set up."),
            N_(
                "Write a platform under `platforms:` in config.yaml (docs/gateway.md), or make a job with "
                "`hermes cron add`."
            ),
        )

"""The router: each inbound event becomes a command, an answer to a question, a message, or is ignored.

Events of a lane, which is a chat or thread, are routed strictly in order, with lanes side by side.
"""

import asyncio
import contextlib
import logging
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field, structs

from hermes.admin.people.identity import PersonIdentity, PersonRole
from hermes.commands.command import parse_command_line
from hermes.commands.context import Surface
from hermes.commands.named_prompts import find_named_prompt, list_named_prompts
from hermes.commands.registry import command_registry
from hermes.config.gateway import AccountSettings
from hermes.core.chats import (
    AuditEntry,
    Batch,
    ChatKind,
    InboundEvent,
    OutboxItem,
    Outgoing,
    Place,
    StoredInboundEvent,
)
from hermes.core.errors import BusyError, HermesError, NotFoundError, StoreError, UsageError
from hermes.core.ids import new_queued_message_id
from hermes.core.outcomes import AnswerScope
from hermes.gateway.accounts import PlatformAccount, channel_settings
from hermes.gateway.chat_session import ChatSession, GatewayDeps, GatewayError
from hermes.gateway.command_context import ChatCommandContext, can_use_command, commands_for
from hermes.gateway.group_hints import GroupHints
from hermes.gateway.pairing_requests import PairingRequests, StrangerReports, is_pairing_button, may_ask
from hermes.gateway.people import PairingCodes, Quotas
from hermes.gateway.session_pool import ChatAddress, SessionPool, find_address
from hermes.i18n.messages import N_, localize, tr
from hermes.util.cancellation import cancel_tasks

_LOG = logging.getLogger(__name__)
ROWS_AT_ONCE = 64
"""Rows of a lane that are read together."""
_MAX_BATCH_WAITS = 5
"""The longest wait for further pieces, as a multiple of the batching time."""
_BATCH_MESSAGES, _BATCH_CHARACTERS = 32, 64_000
"""The largest batch that becomes one message."""
_MAX_OBSERVED = 50
_RECHECK_SECONDS = 0.1
_IDLE_WAIT_SECONDS = 5.0
_BUSY_PAUSE = 2.0
_MAX_HEARD = 10_000
"""How many people are remembered as heard; beyond that they are noted again."""
_FLUSH_SECONDS = 5.0
"""How long an answer waits for what is to be sent before it."""
_TURN_COMMANDS = frozenset({"retry", "queue", "steer", "interrupt"})
"""Commands that send something to the model: they count as messages do."""
ADDRESSED_ELSEWHERE = "addressed in a group that is not ours"
_URGENT_COMMANDS = frozenset({"stop", "approve", "deny", "interrupt"})
"""Commands that do not wait behind long work."""


class ChatLane(Struct, eq=False):
    """The state of one chat or thread while something happens there."""

    name: str
    news: asyncio.Event = field(default_factory=asyncio.Event)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when no further pieces of the message are expected."""
    rows: list[StoredInboundEvent] = field(default_factory=list)
    """Rows of the journal that were read and are not routed yet, in order."""
    is_read: bool = False
    """Whether `rows` is all that waits: nothing has come in since it was read."""
    last_event_at: float = 0.0
    """When the newest event came in, by the loop's clock; 0 for events from before the start."""
    observed: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=_MAX_OBSERVED))
    """Sender and text of messages that did not address the agent."""
    commands: set[asyncio.Task[None]] = field(default_factory=set)
    """The tasks of running commands."""
    is_slow: bool = False
    """Whether the current work takes long."""
    last_error: str = ""
    """The most recent error that was said in the chat."""

    def take_observed(self) -> str:
        """Return what was said without addressing the agent, and forget it."""
        said = "\n".join(f"{who}: {text}" for who, text in self.observed)
        self.observed.clear()
        return said


def _is_own_text(event: InboundEvent) -> bool:
    """Return whether these are the verified sender's own words: only those are commands."""
    return event.verified and not event.forwarded


async def _take_answer(live: ChatSession | None, person: PersonIdentity, event: InboundEvent) -> str:
    """Take a message that answers an open question of its chat, or means to; return what is stored of it, or empty."""
    if live is None or not _is_own_text(event):
        return ""
    if live.questions.take_answer(person, event):
        return "answer"
    said = live.questions.explain_bare_word(person, event)
    if not said:
        return ""
    await live.send_note(said)
    return "a bare yes or no"


def _is_press(event: InboundEvent) -> bool:
    return bool(event.press) and _is_own_text(event)


def _read_command(event: InboundEvent) -> tuple[str, str] | None:
    """Return the name and the rest of a command; None for what is none: a space in front makes it a message."""
    text = event.text.rstrip()
    return parse_command_line(text) if text.startswith("/") and _is_own_text(event) else None


def _quota_person(person: PersonIdentity, event: InboundEvent) -> PersonIdentity:
    """Return the person whose quota counts. Programs count as guests: two of them could talk forever."""
    return PersonIdentity(person.id, PersonRole.GUEST) if event.sender.bot else person


def is_urgent(event: InboundEvent) -> bool:
    """Return whether an event must not wait behind long work: it stops something, or answers a question."""
    command = _read_command(event)
    return _is_press(event) or (command is not None and command[0].lower() in _URGENT_COMMANDS)


def is_complete(event: InboundEvent) -> bool:
    """Return whether no further pieces follow an event, as with a button or a command."""
    return _is_press(event) or _read_command(event) is not None


def ignore_reason(settings: AccountSettings, event: InboundEvent) -> str:
    """Return why an event is not for the agent; empty when it is."""
    place, channel = event.place, channel_settings(settings, event.place)
    if channel.ignore:
        return "ignored channel"
    if place.kind is ChatKind.DM or event.press:
        return ""
    if "*" not in settings.groups and place.chat not in settings.groups:
        return ADDRESSED_ELSEWHERE if is_addressed(settings, event) else "not a group of ours"
    needs = settings.require_mention if channel.require_mention is None else channel.require_mention
    if not needs or is_addressed(settings, event):
        return ""
    return "not addressed"


def is_addressed(settings: AccountSettings, event: InboundEvent) -> bool:
    """Return whether a message addresses the agent: by name, reply, command, or a word of the settings."""
    if event.mentioned or event.text.startswith("/") or (event.reply is not None and event.reply.own):
        return True
    words = event.text.casefold()
    return any(_contains_word(pattern.casefold(), words) for pattern in settings.mention_patterns)


def _contains_word(word: str, text: str) -> bool:
    return bool(word) and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


class Router:
    """Routes each inbound event once: who may speak, to which chat session, and as what. One task at a time works on a
    lane.
    """

    def __init__(self, deps: GatewayDeps, pool: SessionPool, accounts: Mapping[str, PlatformAccount]) -> None:
        self._deps = deps
        self._store = deps.app.services.store
        self._report = deps.telemetry.report_line
        self._pool = pool
        self._accounts = accounts
        self._quotas = Quotas(deps.app)
        self._pairing = PairingCodes(deps.app)
        self.requests = PairingRequests(deps, self._pairing, accounts)
        self._heard: set[tuple[str, Place]] = set()
        """The people who were heard since the start, and where."""
        self._group_hints = GroupHints(deps)
        self._stranger_reports = StrangerReports(deps)
        self._lanes: dict[str, ChatLane] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._urgent: set[asyncio.Task[None]] = set()

    async def receive_batch(self, account: PlatformAccount, batch: Batch) -> None:
        """Store what came in, and have it routed; when this returns the platform may forget it."""
        redact = self._deps.app.redact_text
        events = tuple(
            structs.replace(_redact_event(one, redact), place=structs.replace(one.place, platform=account.name))
            for one in batch.arrivals
        )
        fresh = await self._store.chats.record_batch(account.name, structs.replace(batch, arrivals=events))
        for one in fresh:
            self._deps.telemetry.count_inbound(account.name, one.arrival.place.lane, one.id)
            self.wake_lane(one.arrival.place.lane, one.arrival)

    def wake_lane(self, name: str, event: InboundEvent | None = None) -> None:
        """Have a lane's events routed, where this one came in just now."""
        lane = self._lanes.setdefault(name, ChatLane(name))
        lane.is_read = False
        if event is not None:
            lane.last_event_at = asyncio.get_running_loop().time()
            if is_complete(event):
                lane.complete.set()
            if lane.is_slow and is_urgent(event):
                task = asyncio.create_task(self._route_urgent(lane), name=f"urgent {name}")
                self._urgent.add(task)
                task.add_done_callback(self._urgent.discard)
        lane.news.set()
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(self._run_lane(lane), name=f"lane {name}")

    async def close(self) -> None:
        """Stop routing; what is not routed stays in the journal."""
        commands = [task for lane in self._lanes.values() for task in lane.commands]
        await cancel_tasks([*self._tasks.values(), *commands, *self._urgent])

    async def _run_lane(self, lane: ChatLane) -> None:
        try:
            while lane.news.is_set():
                lane.news.clear()
                try:
                    await self._route_new(lane)
                except StoreError as error:
                    self._report(f"{lane.name}: {error}")
                    await asyncio.sleep(_BUSY_PAUSE)
                    lane.is_read = False
                    lane.news.set()
        finally:
            del self._tasks[lane.name]
            if not lane.observed and not lane.commands:
                self._lanes.pop(lane.name, None)

    async def _route_new(self, lane: ChatLane) -> None:
        while rows := await self._read_rows(lane):
            account = self._accounts.get(rows[0].arrival.place.platform)
            if account is None:
                return  # it is not set up now; what was said stays in the journal
            first = rows[0]
            try:
                handled = await self._route_first(account, lane)
                del lane.rows[:handled]
                lane.last_error = ""
                continue
            except (BusyError, StoreError) as error:
                self._report(f"{lane.name}: {error}")
                await asyncio.sleep(_BUSY_PAUSE)
            except HermesError as error:
                await self._answer_failure(lane, first, error)
            except Exception as error:  # noqa: BLE001 - one message must not stop what comes behind it
                _LOG.exception("a message could not be handled")
                await self._answer_failure(lane, first, GatewayError(type(error).__name__))
            lane.is_read = False  # the journal knows what became of the row

    async def _answer_failure(self, lane: ChatLane, row: StoredInboundEvent, error: HermesError) -> None:
        """Answer a message with an error; the same error is said once in a row."""
        self._report(f"{row.arrival.place.lane}: {error}")
        await self._store.chats.dismiss_events([row.id], str(error))
        if str(error) != lane.last_error:
            lane.last_error = str(error)
            await _send_failure(self._deps, row.arrival.place, error, key=f"note:{new_queued_message_id()}")

    async def _read_rows(self, lane: ChatLane) -> Sequence[StoredInboundEvent]:
        """Return what waits in a lane; the journal is asked only when something came in since it was read."""
        if not lane.is_read:
            lane.is_read = True  # before the query: what comes in during it is looked for again
            lane.rows = await self._store.chats.list_new_events(lane.name, ROWS_AT_ONCE)
            if len(lane.rows) >= ROWS_AT_ONCE:
                lane.is_read = False  # there may be more
        return lane.rows

    async def _route_first(self, account: PlatformAccount, lane: ChatLane) -> int:
        """Route the first of a lane's rows, with those that belong to it; return the number of rows that are handled.

        Raises HermesError; then it was not handled.
        """
        rows = tuple(lane.rows)
        first = rows[0]
        event, settings = first.arrival, account.plan.settings
        person = await self._deps.people.resolve_sender(settings, account.name, event.sender)
        why = ignore_reason(settings, event)
        if why or person is None or not event.verified:
            if why == "not addressed" and settings.observe:
                lane.observed.append((event.sender.name or event.sender.id, event.text))
            elif why == ADDRESSED_ELSEWHERE:
                await self._group_hints.explain_group(account, event, person)
            await self._store.chats.dismiss_events([first.id], why or await self._handle_unknown(account, event))
            return 1
        await self._note_heard(person, event.place)
        address = find_address(account, event.place, person)
        if is_complete(event):
            await self._start_command(lane, address, first)
            return 1
        if taken := await _take_answer(self._pool.find_chat(address.key), address.person, event):
            await self._store.chats.dismiss_events([first.id], taken)
            return 1
        if why := await _review_message(self._deps, event, person):
            await self._store.chats.dismiss_events([first.id], why)
            return 1
        return await self._route_message(lane, address, rows)

    async def _note_heard(self, person: PersonIdentity, place: Place) -> None:
        """Note the first thing that this process hears of somebody in a direct chat: from then on they can be reached
        there. What another process has stored for them, such as that they were let in, is sent before any answer.
        """
        if place.kind is not ChatKind.DM or (person.id, place) in self._heard:
            return
        if len(self._heard) >= _MAX_HEARD:
            self._heard.clear()
        await self._store.chats.record_direct_chat(person.id, place)
        self._heard.add((person.id, place))
        await self._deps.outbox.flush_lane(place.lane, _FLUSH_SECONDS)

    async def _start_command(self, lane: ChatLane, address: ChatAddress, row: StoredInboundEvent) -> None:
        """Start a command or a pressed button in a task of its own, since it may ask and wait."""
        if not await self._store.chats.begin_command(row.id):
            return  # somebody was faster: it did not wait behind what takes long
        task = asyncio.create_task(self._execute_event(address, row), name=f"command {row.id}")
        lane.commands.add(task)
        task.add_done_callback(lane.commands.discard)

    async def _execute_event(self, address: ChatAddress, row: StoredInboundEvent) -> None:
        event, person = row.arrival, address.person
        done_hooks: Sequence[Callable[[], None]] = ()
        try:
            if event.press:
                await self._press_button(event, person)
            else:
                async with self._pool.hold_chat(address) as chat_session:
                    done_hooks = await self._run_command(chat_session, person, event)
        except HermesError as error:
            self._report(f"{event.place.lane}: {error}")
            await _send_failure(self._deps, event.place, error, key=f"note:{row.id}")
        except Exception as error:  # noqa: BLE001 - a command's mistake must not leave its row open
            _LOG.error("a command failed", exc_info=error)
            await _send_failure(self._deps, event.place, GatewayError(type(error).__name__), key=f"note:{row.id}")
        await self._store.chats.dismiss_events([row.id], "pressed" if event.press else "command")
        for hook in done_hooks:
            hook()

    async def _route_urgent(self, lane: ChatLane) -> None:
        """Route the events of this lane that must not wait behind long work."""
        account = self._accounts.get(lane.name.partition(":")[0])
        if account is None:
            return
        settings = account.plan.settings
        for row in await self._store.chats.list_new_events(lane.name, ROWS_AT_ONCE):
            if is_urgent(row.arrival) and not ignore_reason(settings, row.arrival):
                person = await self._deps.people.resolve_sender(settings, account.name, row.arrival.sender)
                if person is not None:
                    await self._start_command(lane, find_address(account, row.arrival.place, person), row)
                    lane.is_read = False  # the row is not new any more

    async def _route_message(self, lane: ChatLane, address: ChatAddress, rows: Sequence[StoredInboundEvent]) -> int:
        """Route a message, together with the pieces that follow it closely; return the number of its rows."""
        account = address.account
        await _wait_for_pieces(account, lane, rows)
        rows = _group_message(await self._read_rows(lane), account)
        if not rows:
            return 0
        lane.is_slow = True
        try:
            await self._wait_for_commands(lane)
            async with self._pool.hold_chat(address) as chat_session:
                await chat_session.wait_for_capacity()
                await self._post_message(chat_session, lane, address.person, rows)
        finally:
            lane.is_slow = False
        return len(rows)

    async def _wait_for_commands(self, lane: ChatLane) -> None:
        """Wait for earlier commands, as `/new` decides where the message goes; not for one that waits for an answer."""
        while lane.commands and not any(one.questions.has_menus for one in self._pool.list_chats(lane.name)):
            await asyncio.wait(lane.commands, timeout=_RECHECK_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    async def _post_message(
        self, chat_session: ChatSession, lane: ChatLane, person: PersonIdentity, rows: Sequence[StoredInboundEvent]
    ) -> None:
        counted = _quota_person(person, rows[0].arrival)
        refused = await self._quotas.claim_turn(counted, chat_session.person, chat_session.spent_at)
        if refused is not None:
            await self._store.chats.dismiss_events([one.id for one in rows], "no quota left")
            await self._write_audit(rows[0].arrival, person, "refused", "no quota left")
            await chat_session.send_note(refused)
            return
        chat_session.reply_to = rows[-1].arrival.message_id
        mode = chat_session.account.plan.settings.busy or self._deps.app.services.settings.display.busy_input_mode
        await chat_session.post_events(rows, mode, observed=lane.take_observed())
        if reminder := chat_session.questions.take_reminder():
            await chat_session.send_note(reminder)
        await self._write_audit(rows[0].arrival, person, "message", chat_session.binding.session_id)

    async def _claim_turn(self, chat_session: ChatSession, person: PersonIdentity, event: InboundEvent) -> str | None:
        """Count a turn for a person and return None, or return why they have none."""
        refused = await self._quotas.claim_turn(person, chat_session.person, chat_session.spent_at)
        what, detail = ("message", chat_session.binding.session_id) if refused is None else ("refused", "no quota left")
        await self._write_audit(event, person, what, detail)
        return refused

    async def _write_audit(self, event: InboundEvent, person: PersonIdentity, what: str, detail: str) -> None:
        """Write an audit entry about what somebody did."""
        await self._store.people.add_audit_entry(
            AuditEntry(
                platform=event.place.platform, account=event.sender.id, person=person.id, what=what, detail=detail
            )
        )

    async def _press_button(self, event: InboundEvent, person: PersonIdentity) -> None:
        if is_pairing_button(event.press):
            await self.requests.press_button(event, person)
            return
        chats = self._pool.list_chats(event.place.lane)
        asking = next((one for one in chats if one.questions.has_token(event.press)), None)
        for chat_session in [asking] if asking is not None else chats:
            if chat_session is asking:
                said: str | None = chat_session.questions.press_button(person, event.press)
            else:
                said = await chat_session.questions.answer_stored(person, event.press)
            if said is not None:
                what = "refused" if said else "answered"
                await self._write_audit(event, person, what, chat_session.binding.session_id)
                await chat_session.send_note(said)
                return

    async def _handle_unknown(self, account: PlatformAccount, event: InboundEvent) -> str:
        """Refuse an unknown or unverified sender without an answer, unless they send a valid pairing code; return the
        reason that is stored.
        """
        if not event.verified:
            # An answer costs money: only senders whom the platform has verified get one, whatever name they give.
            await self._pairing.note_rejection(account.name, event, "sender not verified")
            return "sender not verified"
        paired = await self._pairing.redeem_code(account.name, event) if _is_own_text(event) else None
        if paired is None and _is_own_text(event) and may_ask(account.plan.settings, event):
            return await self.requests.take_request(account, event)
        if paired is None:
            where = event.place.lane
            self._stranger_reports.report_stranger(account, event)
            self._deps.telemetry.log_event("turned_away", account=account.name, lane=where, text=event.sender.id[:100])
            return "unknown sender"
        await self._note_heard(paired, event.place)
        await self.requests.close_settled()
        async with self._pool.hold_chat(find_address(account, event.place, paired)) as chat_session:
            role = paired.role.value
            await chat_session.send_note(tr("You are known here now, as {role}. Write what you want.", role=role))
        return "paired"

    async def _run_command(
        self, chat_session: ChatSession, person: PersonIdentity, event: InboundEvent
    ) -> Sequence[Callable[[], None]]:
        """Run a command; return what is to happen once its row is closed."""
        name, text = _read_command(event) or ("", "")
        command_context = ChatCommandContext(self._pool, chat_session, person)
        try:
            await self._dispatch_command(command_context, event, name, text)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return ()  # the session in which it asked something is gone, by `/new` for one
        except HermesError as error:
            command_context.tell(localize(str(error)))
        await command_context.flush_output()
        return command_context.when_done

    async def _dispatch_command(self, context: ChatCommandContext, event: InboundEvent, name: str, text: str) -> None:
        """Carry out a command where and if the person may use it. Raises what the command raises."""
        chat_session, person = context.chat_session, context.person
        if name in ("approve", "deny"):
            context.tell(await self._answer_approval(chat_session, person, event, _parse_scope(name, text)))
        elif command_registry(Surface.CHAT).find_command(name) is None:
            await self._call_prompt(context, event, name, text)
        elif not can_use_command(person, name):
            context.tell(tr("/{name} is not for you here.", name=name))
        elif _is_turn_command(name, text) and (why := await self._claim_turn(chat_session, person, event)) is not None:
            context.tell(why)
        elif (there := chat_session.remote) is not None and _can_run_remotely(name):
            await there.run_command(name, text, context)
        else:
            await _wait_until_idle(chat_session, name)
            await commands_for(person.role).run_command(context, name, text)

    async def _call_prompt(self, context: ChatCommandContext, event: InboundEvent, name: str, text: str) -> None:
        """Send what a skill's name, or that of an own command, stands for; or say that there is no such command."""
        chat_session, person = context.chat_session, context.person
        scope = context.prompt_scope
        prompt = await find_named_prompt(self._deps.app, name, scope)
        if prompt is None and person.can_administer and command_registry(Surface.TERMINAL).find_command(name):
            raise NotFoundError(N_("/{name} works in a terminal only.", name=name))
        if prompt is None:
            known = [one.name for one in await list_named_prompts(self._deps.app, scope)]
            near = commands_for(person.role).suggest_name(name, known)
            hint = N_("Did you mean /{near}?", near=near) if near else N_("/help shows those there are.")
            raise NotFoundError(N_("There is no command /{name}.", name=name[:40]), hint)
        if (why := await self._claim_turn(chat_session, person, event)) is not None:
            context.tell(why)
            return
        chat_session.reply_to = event.message_id
        mode = chat_session.account.plan.settings.busy or self._deps.app.services.settings.display.busy_input_mode
        await chat_session.post_prompt(event, prompt.format_prompt(text), mode)

    async def _answer_approval(
        self, chat_session: ChatSession, person: PersonIdentity, event: InboundEvent, scope: AnswerScope | None
    ) -> str:
        """Answer the approval question that waits here: the person's own, else one of somebody else that they may
        answer.
        """
        others = [one for one in self._pool.list_chats(event.place.lane) if one.can_answer(person)]
        asking = next((one for one in (chat_session, *others) if one.questions.has_approvals), chat_session)
        said = asking.questions.answer_approval(person, scope)
        await self._write_audit(event, person, "refused" if said else "answered", asking.binding.session_id)
        return said


async def _send_failure(deps: GatewayDeps, place: Place, error: HermesError, *, key: str) -> None:
    text = tr("(I cannot answer now: {why})", why=localize(str(error)))
    await deps.outbox.enqueue([OutboxItem(key=key, message=Outgoing(place=place, text=text, key=key))])


async def _review_message(deps: GatewayDeps, event: InboundEvent, person: PersonIdentity) -> str:
    """Return why hooks want a message not to be handled, and tell the person; empty where it is handled."""
    place = event.place
    why = await deps.hooks.review_message(event.text, platform=place.platform, chat=place.chat, person=person.id)
    if why:
        said = UsageError(N_("your message was not handled: {reason}", reason=why))
        await _send_failure(deps, place, said, key=f"note:{new_queued_message_id()}")
    return why


def _redact_event(event: InboundEvent, redact: Callable[[str], str]) -> InboundEvent:
    """Return an event without secrets in its text and in the message that it quotes."""
    reply = event.reply
    if reply is not None and reply.text:
        reply = structs.replace(reply, text=redact(reply.text))
    return structs.replace(event, text=redact(event.text), reply=reply)


async def _wait_for_pieces(account: PlatformAccount, lane: ChatLane, rows: Sequence[StoredInboundEvent]) -> None:
    """Wait until no further pieces of a person's message come."""
    clock = asyncio.get_running_loop().time
    given = account.plan.settings.batch_seconds
    seconds = account.can.batch_seconds if given is None else given
    until = clock() + seconds * _MAX_BATCH_WAITS
    if is_complete(rows[-1].arrival) or len(rows) >= _BATCH_MESSAGES:
        return
    lane.complete.clear()
    with contextlib.suppress(TimeoutError):
        while (wait := min(lane.last_event_at + seconds, until) - clock()) > 0:
            async with asyncio.timeout(wait):
                await lane.complete.wait()
            return


async def _wait_until_idle(chat_session: ChatSession, name: str) -> None:
    """Let a turn that is about to end do so, before a command that cannot be run during one."""
    command = command_registry(Surface.CHAT).find_command(name)
    if command is not None and not command.while_busy:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_IDLE_WAIT_SECONDS):
                await chat_session.actor.idle()


def _parse_scope(name: str, text: str) -> AnswerScope | None:
    if name == "deny":
        return AnswerScope.DENY
    word = text.strip().lower() or "once"
    return AnswerScope(word) if word in ("once", "session", "always") else None


def _is_turn_command(name: str, text: str) -> bool:
    command = command_registry(Surface.CHAT).find_command(name)
    if command is not None and command.name == "background":
        return text.partition(" ")[0] not in ("", "list", "stop")
    return command is not None and command.name in _TURN_COMMANDS


def _can_run_remotely(name: str) -> bool:
    command = command_registry(Surface.CHAT).find_command(name)
    return command is not None and command.travels


def _group_message(rows: Sequence[StoredInboundEvent], account: PlatformAccount) -> list[StoredInboundEvent]:
    """Return the first rows that make one message: consecutive texts of one person, none of them a command."""
    found: list[StoredInboundEvent] = []
    size = 0
    for row in rows:
        event = row.arrival
        other = found and (event.sender.id, event.place) != (found[0].arrival.sender.id, found[0].arrival.place)
        if other or not event.verified or is_complete(event) or ignore_reason(account.plan.settings, event):
            break
        if found and (len(found) >= _BATCH_MESSAGES or size + len(event.text) > _BATCH_CHARACTERS):
            break
        found.append(row)
        size += len(event.text)
    return found

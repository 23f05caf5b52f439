"""One chat's conversation: its messages go to the session, and what the session says or asks is shown in the chat.

A message is made of inbound events: text, pictures, files, and content that is not the person's own. Output is shown
strictly in order. Questions are shown with buttons where possible, and answered once by somebody who may.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import secrets
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

from msgspec import Struct, structs

from hermes.admin.people.identity import PersonIdentity, PersonResolver
from hermes.commands.event_descriptions import format_epoch_notice
from hermes.config.display import BusyMode
from hermes.config.gateway import AccountSettings
from hermes.core.chats import (
    Attachment,
    Binding,
    Button,
    ChatKind,
    DeliveryState,
    InboundEvent,
    MediaKind,
    OutboxItem,
    Outgoing,
    Place,
    Posting,
    Reply,
    StoredInboundEvent,
)
from hermes.core.errors import BusyError, HermesError, StoreError
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    EpochBegan,
    Event,
    FellBack,
    Level,
    Notice,
    Refused,
    Retrying,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from hermes.core.ids import new_queued_message_id
from hermes.core.messages import ImagePart, TextPart
from hermes.core.outcomes import AnswerScope, ExitReason
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.outbox import Outbox
from hermes.gateway.people import find_working_folder
from hermes.gateway.platform import MEDIA_LIMIT, PlatformError
from hermes.gateway.stream_renderer import StreamRenderer, StreamTarget
from hermes.gateway.telemetry import Telemetry
from hermes.gateway.text.split import split_text
from hermes.i18n.formats import format_duration, format_time
from hermes.i18n.messages import N_, localize, tr
from hermes.ipc.remote_session import RemoteSession
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.egress_filter import EgressFilter, build_egress_filter, build_remote_egress_filter
from hermes.sessions.pictures import read_picture
from hermes.sessions.port import SessionPort
from hermes.sessions.untrusted_text import program_note, untrusted_part
from hermes.util.cancellation import cancel_tasks
from hermes.util.text import (
    end_sentence,
    escape_confusable_characters,
    shorten_command,
    strip_control_characters,
    to_one_line,
)

_LOG = logging.getLogger(__name__)
HYGIENE_SHARE, HYGIENE_MESSAGES = 0.85, 4
"""The share of a model's window, and the number of messages, from which on a session is compressed before a turn."""
QUESTION_SECONDS = 3600.0
"""How long a question of the model waits for its answer (the clarify time-out of 0.19)."""
MAX_PENDING = 64
CLOSE_SECONDS = 20.0
_TOLD_ATTEMPT = 2
"""The new try of a model call from which on a chat is told of it."""
_MAX_QUEUED_WORK = 1_000
"""Limit of queued things to show; a chat session with more of them has stopped working."""
FETCH_SECONDS = 300.0
"""How long an attachment may take to arrive."""
LONGEST_TEXT = 1_000_000
"""Characters of one message; longer ones are cut, and the agent is told."""
_LONGEST_LABEL = 40
_EDIT_SECONDS = 15.0
_NAME = re.compile(r"[^\w.\- ]+")
_KINDS = {
    MediaKind.IMAGE: "picture",
    MediaKind.VOICE: "voice message",
    MediaKind.AUDIO: "audio file",
    MediaKind.VIDEO: "video",
    MediaKind.DOCUMENT: "file",
}


class GatewayError(HermesError):
    """An internal error of the gateway; the log has its details."""

    def __init__(self, what: str) -> None:
        super().__init__(N_("Hermes hit an internal error ({what}).", what=what), N_("`hermes logs` shows it."))


class GatewayDeps(Struct, frozen=True, kw_only=True):
    """What the chats of a gateway share."""

    app: App
    outbox: Outbox
    people: PersonResolver
    telemetry: Telemetry
    media: Path
    """The folder of files that come in."""


def is_shared(settings: AccountSettings, place: Place) -> bool:
    """Return whether several people share one session here."""
    return place.kind is not ChatKind.DM and (settings.shared or bool(place.thread))


async def build_inbound(
    account: PlatformAccount, events: Sequence[InboundEvent], folder: Path, *, shared: bool
) -> InboundMessage:
    """Build one message from consecutive inbound events. The agent is told of attachments that cannot be fetched;
    nothing else is lost.
    """
    words: list[str] = []
    images: list[ImagePart] = []
    quoted: list[TextPart] = []
    for event in events:
        text, title = _truncate_text(event.text), account.plan.descriptor.title
        sender = event.sender.name or event.sender.id
        if event.reply is not None and event.reply.text:
            quoted.append(_quote_reply(event.reply, title))
        if event.forwarded:
            quoted.append(untrusted_part(text, f"{title}: {sender}, forwarded"))
        elif text.strip():
            words.append(f"[{to_one_line(strip_control_characters(sender), 60)}] {text}" if shared else text)
        for number, attachment in enumerate(event.attachments):
            picture, note = await _receive_attachment(
                account, attachment, folder / _safe_file_name(event.event_id), number
            )
            images += [picture] if picture is not None else []
            quoted.append(program_note(note))
    return InboundMessage(text="\n".join(words), images=tuple(images), quoted=tuple(quoted))


def _quote_reply(reply: Reply, title: str) -> TextPart:
    """Quote the message that is replied to: the agent's own, or somebody else's."""
    if reply.own:
        return program_note(f'[This answers your message: "{to_one_line(strip_control_characters(reply.text), 300)}"]')
    return untrusted_part(reply.text, f"{title}: {reply.author or 'somebody'}, quoted")


def _truncate_text(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n[{len(text) - LONGEST_TEXT:,} more characters were cut off.]"


async def _receive_attachment(
    account: PlatformAccount, attachment: Attachment, folder: Path, number: int
) -> tuple[ImagePart | None, str]:
    """Fetch an attachment; return the picture for the model where it is one, and a line about it."""
    what, name = _KINDS[attachment.kind], _safe_file_name(attachment.name) or f"{attachment.kind}-{number}"
    if attachment.problem:
        problem = to_one_line(strip_control_characters(attachment.problem), 200)
        return None, f"[A {what} ({name}) came along and cannot be read: {problem}]"
    try:
        path = (
            Path(attachment.path)
            if attachment.path
            else await _fetch_attachment(account, attachment, folder, number, name)
        )
    except (HermesError, OSError, TimeoutError) as error:
        why = to_one_line(strip_control_characters(str(error) or type(error).__name__), 200)
        return None, f"[A {what} ({name}) came along and could not be fetched: {why}]"
    if attachment.kind is MediaKind.IMAGE:
        try:
            picture = await asyncio.to_thread(read_picture, path)
        except HermesError as error:
            return None, f"[A picture came along, saved as {path}; it cannot be shown: {error.args[0]}]"
        return picture, f"[The picture is saved as {path}.]"
    return None, f"[A {what} came along, saved as {path}.]"


async def _fetch_attachment(
    account: PlatformAccount, attachment: Attachment, folder: Path, number: int, name: str
) -> Path:
    if attachment.size is not None and attachment.size > MEDIA_LIMIT:
        raise PlatformError(N_("it is larger than {MEDIA_LIMIT} MB", MEDIA_LIMIT=MEDIA_LIMIT >> 20))
    target = folder / f"{number}-{name}"
    if await asyncio.to_thread(target.exists):
        return target  # fetched before a restart: it is whole, since it is named last
    await asyncio.to_thread(os.makedirs, folder, mode=0o700, exist_ok=True)
    part = target.with_name(target.name + ".part")
    async with asyncio.timeout(FETCH_SECONDS):
        await account.platform.fetch(attachment, part)
    await asyncio.to_thread(part.rename, target)
    return target


def _safe_file_name(text: str) -> str:
    """Return a single plain file name, whatever the sender called the file."""
    plain = _NAME.sub("_", text.replace("/", "_").replace("\\", "_")).strip(". ")
    stem, dot, suffix = plain.rpartition(".")
    return f"{stem[:80]}{dot}{suffix[:12]}" if stem else plain[:80]


class ChatMenu(Struct, eq=False):
    """A menu that a person answers with the number of a row, or with a text."""

    token: str
    options: tuple[str, ...]
    person: PersonIdentity
    key: str
    chosen: asyncio.Future[int | str]
    typed: bool = False
    """Whether a free text is an answer, too."""
    of_model: bool = False
    """Whether the model asks: then the menu ends with the turn, not with the chat session."""


class ChatApproval(Struct, eq=False):
    """An approval question as it is shown in a chat."""

    event: ApprovalAsked
    key: str
    scopes: tuple[AnswerScope, ...]
    text: str


class ChatQuestions:
    """The open questions of one chat session."""

    def __init__(self, chat_session: "ChatSession") -> None:
        self._chat_session = chat_session
        self._approvals: dict[str, ChatApproval] = {}
        self._menus: list[ChatMenu] = []

    def close(self) -> None:
        """Drop the chat session and ask nothing more. Commands that wait for an answer are cancelled, as others wait
        for their end.
        """
        self._approvals.clear()
        for menu in self._menus:
            if not menu.of_model:
                menu.chosen.cancel()
        del self._chat_session

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is awaited."""
        return bool(self._approvals or self._menus)

    async def show_approval(self, event: ApprovalAsked) -> None:
        """Show that a call waits for approval."""
        labels = [(AnswerScope.ONCE, tr("Allow once"))]
        if event.session_covers:
            labels.append((AnswerScope.SESSION, tr("Allow for this session")))
        if event.always_covers:
            labels.append((AnswerScope.ALWAYS, tr("Allow always")))
        labels.append((AnswerScope.DENY, tr("No")))
        token = hashlib.sha256(event.approval_id.encode()).hexdigest()[:16]  # the same after a restart
        text = _format_approval(event, buttons=self._chat_session.account.can.buttons)
        rows = tuple(
            (Button(label, f"a:{token}:{scope.value}", danger=scope is AnswerScope.ALWAYS),) for scope, label in labels
        )
        key = f"ask:{event.approval_id}"
        self._approvals[token] = ChatApproval(event, key, tuple(scope for scope, _ in labels), text)
        await self._send_question(key, text, rows)

    async def show_decision(self, event: ApprovalAnswered) -> None:
        """Show the answer to an approval question, wherever it was given."""
        token = next((name for name, one in self._approvals.items() if one.event.approval_id == event.approval_id), "")
        one = self._approvals.pop(token, None)
        if one is not None:
            said = tr("Allowed.") if event.allowed else tr("Not allowed ({by}).", by=localize(event.by))
            await self._close_question(one.key, f"{one.text}\n\n**{said}**")

    def answer_approval(self, person: PersonIdentity, scope: AnswerScope | None, token: str = "") -> str:
        """Answer the approval question of this token, or the one that waits longest.

        Return what to say to the person.
        """
        name = token or next(iter(self._approvals), "")
        one = self._approvals.get(name)
        if one is None:
            return tr("No question waits for an answer here.")
        if not self._chat_session.can_answer(person):
            return tr("This question is not yours to answer.")
        if scope is None or scope not in one.scopes or (scope is AnswerScope.ALWAYS and not person.can_administer):
            return tr("This question has no such answer.")
        actor = self._chat_session.actor
        if not actor.approvals.answer(one.event.approval_id, scope=scope, by="person"):
            return tr("The question was withdrawn.")
        return ""

    @property
    def has_approvals(self) -> bool:
        """Whether a call waits for approval."""
        return bool(self._approvals)

    @property
    def has_menus(self) -> bool:
        """Whether a command or the model waits for a person's choice or text."""
        return bool(self._menus)

    def has_token(self, token: str) -> bool:
        """Return whether a button belongs to one of these questions."""
        name = token.partition(":")[2].rpartition(":")[0]
        return name in self._approvals or any(one.token == name for one in self._menus)

    def press_button(self, person: PersonIdentity, token: str) -> str:
        """Handle a pressed button; return what to say to the person."""
        kind, _, rest = token.partition(":")
        name, _, choice = rest.rpartition(":")
        if kind == "a":
            return self.answer_approval(person, AnswerScope(choice) if choice in set(AnswerScope) else None, name)
        menu = next((one for one in self._menus if one.token == name), None)
        if menu is None:
            return tr("This question is closed; its answer is not needed any more.")
        if not menu.person.includes_person(person):
            return tr("This question is not yours to answer.")
        if choice.isdecimal() and int(choice) < len(menu.options) and not menu.chosen.done():
            menu.chosen.set_result(int(choice))
        return ""

    def take_answer(self, person: PersonIdentity, event: InboundEvent) -> bool:
        """Take a message as the answer to the newest menu where it is one; return whether it was."""
        menu = self._menus[-1] if self._menus else None
        if menu is None or not menu.person.includes_person(person) or menu.chosen.done():
            return False
        text = event.text.strip()
        if text.isdecimal() and 0 < int(text) <= len(menu.options):
            menu.chosen.set_result(int(text) - 1)
            return True
        found = [at for at, one in enumerate(menu.options) if one.casefold() == text.casefold()]
        if found:
            menu.chosen.set_result(found[0])
            return True
        if menu.typed and text:
            menu.chosen.set_result(text)
            return True
        return False

    async def ask_person(
        self,
        person: PersonIdentity,
        title: str,
        options: Sequence[str],
        *,
        typed: bool,
        seconds: float,
        of_model: bool = False,
    ) -> int | str | None:
        """Show a menu and return the chosen row's number, or with `typed` a text; None without an answer in that many
        seconds. Raises CancelledError when the chat session ends first, unless the model asks.
        """
        menu = ChatMenu(
            token=secrets.token_hex(8),
            options=tuple(options),
            person=person,
            key=f"menu:{secrets.token_hex(8)}",
            chosen=asyncio.get_running_loop().create_future(),
            typed=typed,
            of_model=of_model,
        )
        lines = [f"{number}. {one}" for number, one in enumerate(options, 1)]
        buttons = tuple(
            (Button(one[:_LONGEST_LABEL], f"m:{menu.token}:{number}"),) for number, one in enumerate(options)
        )
        self._menus.append(menu)
        try:
            await self._send_question(menu.key, "\n".join([title, "", *lines]) if lines else title, buttons)
            async with asyncio.timeout(seconds):
                picked = await menu.chosen
        except TimeoutError:
            picked = None
        finally:
            self._menus.remove(menu)
        shown = options[picked] if isinstance(picked, int) else picked
        if options:
            await self._close_question(menu.key, f"{title}\n\n**{shown if shown is not None else tr('No answer.')}**")
        return picked

    async def _send_question(self, key: str, text: str, buttons: tuple[tuple[Button, ...], ...]) -> None:
        chat_session = self._chat_session
        shown = buttons if chat_session.account.can.buttons else ()
        message = Outgoing(place=chat_session.place, text=text, key=key, buttons=shown)
        await chat_session.enqueue([OutboxItem(key=key, message=message, session_id=chat_session.actor.session_id)])

    async def _close_question(self, key: str, text: str) -> None:
        """Remove the buttons of a question where the platform can edit messages; else do nothing."""
        chat_session = self._chat_session
        if not chat_session.account.can.edit:
            return
        try:
            known = await chat_session.app.services.store.outbox.get_state(key)
            if known is not None and known[0] in (DeliveryState.DELIVERED, DeliveryState.UNCERTAIN) and known[1]:
                async with asyncio.timeout(_EDIT_SECONDS):
                    await chat_session.account.platform.edit(
                        Outgoing(place=chat_session.place, text=text, key=key), known[1]
                    )
        except (PlatformError, StoreError, OSError, TimeoutError):
            return  # the question stays as it is shown; what it was about is answered all the same


def _format_approval(event: ApprovalAsked, *, buttons: bool) -> str:
    """Return the approval question's text: the call, the reason, and what each answer covers."""
    lines = [
        tr("Allow **{tool}**?", tool=escape_confusable_characters(event.tool)),
        _code_block(shorten_command(escape_confusable_characters(event.subject))),
    ]
    if event.cwd:
        lines.append(tr("in `{cwd}`", cwd=escape_confusable_characters(event.cwd).replace("`", "'")))
    lines.append(localize(escape_confusable_characters(event.reason)))
    if event.session_covers:
        lines.append(
            tr("“For this session” allows, until it is closed: {what}", what=_inline_code(event.session_covers))
        )
    if event.always_covers:
        lines.append(tr("“Always” allows, from now on: {what}", what=_inline_code(event.always_covers)))
    if not buttons:
        words = ["/approve"]
        words += ["/approve session"] if event.session_covers else []
        words += ["/approve always"] if event.always_covers else []
        lines.append(tr("Answer with {words}, or /deny.", words=", ".join(words)))
    return "\n".join(lines)


def _code_block(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _inline_code(text: str) -> str:
    return f"`{escape_confusable_characters(text).replace('`', chr(39))}`"


class ChatSession:
    """A chat's conversation while its session is live. The session's output is shown strictly in order."""

    def __init__(
        self,
        deps: GatewayDeps,
        account: PlatformAccount,
        binding: Binding,
        person: PersonIdentity,
        on_broken: Callable[["ChatSession"], None],
    ) -> None:
        self._deps = deps
        self._on_broken = on_broken
        self.app = deps.app
        self.account = account
        self.binding = binding
        self.place = binding.place
        self.person = person
        self.reply_to = ""
        """The id of the message that the next answer replies to."""
        self.questions = ChatQuestions(self)
        self.actor: SessionPort
        self._renderer: StreamRenderer | None = None
        self._work_queue: asyncio.Queue[Coroutine[object, object, None]] = asyncio.Queue(_MAX_QUEUED_WORK)
        self._unshown = 0
        self._worker = asyncio.create_task(self._run_work(), name=f"conversation {binding.key}")
        self._watchdog: asyncio.TimerHandle | None = None
        self._has_told_of_retries = False
        """Whether the running turn was said to wait for a model that fails."""
        self._last_activity = 0.0
        """When the turn last showed activity, by the loop's clock."""
        self._unsubscribe: Callable[[], None] = _do_nothing
        self.spent_at = 0.0
        """When a turn last ended because its spending limit was reached."""
        self._pending = 0
        """The number of messages whose turns have not ended."""
        self._capacity = asyncio.Event()

    @property
    def unfinished(self) -> bool:
        """Whether some output is not shown, or not in the outbox, yet."""
        return self._unshown > 0

    def attach_session(self, actor: SessionPort) -> None:
        """Show this session's output from now on."""
        self.actor = actor
        self._deps.telemetry.set_lane(actor.session_id, self.place.lane)
        # In a group somebody who looks after Hermes may answer for those who may not.
        alone = self.place.kind is ChatKind.DM
        actor.approvals.can_ask = not alone or bool(self._deps.people.role_rights(self.person.role).approve)
        self._unsubscribe = actor.subscribe(self._on_event)

    @property
    def local(self) -> SessionActor | None:
        """The session's actor, or None where the session lives in another process."""
        return self.actor if isinstance(self.actor, SessionActor) else None

    @property
    def remote(self) -> RemoteSession | None:
        """The remote session where it lives in another process, else None."""
        return self.actor if isinstance(self.actor, RemoteSession) else None

    @property
    def egress_filter(self) -> EgressFilter:
        """The filter for what may leave the machine now."""
        services, actor = self.app.services, self.local
        if actor is None:
            return build_remote_egress_filter(
                services, services.settings.gateway.cwd or str(services.home.root / "workspace")
            )
        return build_egress_filter(services, self.app.live_session(actor))

    def can_answer(self, person: PersonIdentity) -> bool:
        """Return whether somebody may answer this session's questions: the person that it works for, the owner, and
        for people who do not administer Hermes anybody who does.
        """
        mine = self.person.includes_person(person) and bool(self._deps.people.role_rights(person.role).approve)
        return mine or person.is_owner or (person.can_administer and not self.person.can_administer)

    async def wait_for_capacity(self) -> None:
        """Wait while too many messages wait for their turns; more stay in the journal meanwhile."""
        while self._pending >= MAX_PENDING:
            self._capacity.clear()
            await self._capacity.wait()

    async def post_events(self, events: Sequence[StoredInboundEvent], mode: BusyMode, *, observed: str = "") -> None:
        """Post inbound events to the session; they are in the session's inbox when this returns, and nowhere else.
        `observed` is what others said before without addressing the agent.
        """
        account = self.account
        folder = self._deps.media / account.name if self.person.is_owner else Path(self._working_folder) / "received"
        heard = [one.arrival for one in events]
        shared = is_shared(account.plan.settings, self.place)
        inbound = await build_inbound(account, heard, folder, shared=shared)
        if observed:
            before = untrusted_part(observed, f"{account.plan.descriptor.title}: said before in this group")
            inbound = structs.replace(inbound, quoted=(before, *inbound.quoted))
        await self.post_inbound(inbound, mode, events=tuple(one.id for one in events))

    async def post_inbound(self, inbound: InboundMessage, mode: BusyMode, *, events: tuple[int, ...] = ()) -> None:
        """Post a message to the session in the person's name; durable when this returns."""
        # A command that posts a message does not know whose folder it is.
        inbound = structs.replace(inbound, text=self.app.redact_text(inbound.text), cwd=self._working_folder)
        letter_id, first = new_queued_message_id(), mode is BusyMode.INTERRUPT and self.actor.busy
        posting = Posting(arrivals=events, letter_id=letter_id, body=inbound.encode(), first=first)
        self.binding = structs.replace(self.binding, last_at=self.app.services.clock.now())
        await self._compress_if_large()
        await self.app.services.store.chats.post_to_inbox(self.binding, posting)
        self._pending += 1
        ended = self.actor.forward(letter_id, inbound, joins=mode is BusyMode.STEER, first=first)
        ended.add_done_callback(self._on_turn_done)

    @property
    def _working_folder(self) -> str:
        return find_working_folder(self.app, self.account.plan.settings, self.person)

    async def _compress_if_large(self) -> None:
        """Compress a conversation that nearly fills its model's window, before a turn begins."""
        actor, settings = self.local, self.app.services.settings.compression
        if actor is None:
            return  # who holds it looks after it
        live = actor.conversation
        if actor.busy or not settings.enabled or len(live.messages) < HYGIENE_MESSAGES:
            return
        window = await self.app.context_length(actor)
        if window is not None and live.lineage.estimated_tokens >= window * HYGIENE_SHARE:
            with contextlib.suppress(BusyError):  # a turn has begun meanwhile: it looks at the window itself
                await actor.compress()

    async def send_note(self, text: str) -> None:
        """Send a message in Hermes' own name, in pieces where the platform takes no longer ones."""
        pieces = (
            [text] if self.account.can.measure(text) <= self.account.can.limit else split_text(text, self.account.can)
        )
        name = new_queued_message_id()
        keyed = {f"note:{name}" + (f":{number}" if number else ""): piece for number, piece in enumerate(pieces)}
        items = [
            OutboxItem(
                key=key, message=Outgoing(place=self.place, text=piece, key=key), session_id=self.binding.session_id
            )
            for key, piece in keyed.items()
            if piece.strip()
        ]
        if items:
            await self.enqueue(items)

    async def enqueue(self, items: Sequence[OutboxItem]) -> None:
        """Put messages of this chat into the outbox."""
        if self._renderer is not None:
            self._renderer.end_segment()
        await self._deps.outbox.enqueue(items)

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask the person whom the session works for, as the `Asker` of its tools; return the answer."""
        title, options = strip_control_characters(question), [strip_control_characters(one) for one in choices]
        picked = await self.questions.ask_person(
            self.person, title, options, typed=True, seconds=QUESTION_SECONDS, of_model=True
        )
        return choices[picked] if isinstance(picked, int) else picked

    async def close(self) -> None:
        """Finish the queued output, then show nothing more; what is in the outbox stays there."""
        self._unsubscribe()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._work_queue.join()
        if self._watchdog is not None:
            self._watchdog.cancel()
        await cancel_tasks([self._worker])
        if self._renderer is not None:
            await self._renderer.close()
        while not self._work_queue.empty():
            self._work_queue.get_nowait().close()
        # Cycles would stay in memory until the garbage collector runs.
        self._unsubscribe = _do_nothing
        self.questions.close()
        del self._worker
        if hasattr(self, "actor"):
            del self.actor

    def _on_turn_done(self, ended: "asyncio.Future[TurnEnded]") -> None:
        self._pending -= 1
        if self._pending < MAX_PENDING:
            self._capacity.set()
        error = None if ended.cancelled() else ended.exception()
        if error is not None:
            self._deps.telemetry.report_line(f"{self.binding.key}: {error}")
            self._on_broken(self)

    def _on_event(self, event: Event) -> None:
        self._note_activity(event)
        match event:
            case TurnStarted() | TurnResumed():
                target = StreamTarget(self.account, self.place, self.reply_to, lambda: self.egress_filter)
                self._renderer = StreamRenderer(
                    self.app, self._deps.outbox, target, self.actor.session_id, event.turn_id
                )
                self._has_told_of_retries = False
                self._enqueue_work(self._renderer.start())
            case TurnEnded():
                if event.reason is ExitReason.SPEND_LIMIT:
                    self.spent_at = self.app.services.clock.now()
                renderer, self._renderer = self._renderer, None
                if renderer is not None and renderer.turn_id == event.turn_id:
                    self._enqueue_work(renderer.finish(event))
            case ApprovalAsked():
                self._enqueue_work(self.questions.show_approval(event))
            case ApprovalAnswered():
                self._enqueue_work(self.questions.show_decision(event))
            case Notice() | Refused() | FellBack() | EpochBegan():
                self._enqueue_work(self.send_note(_format_notice(event, self.person)))
            case Retrying():
                self._tell_of_retries(event)
            case _ if self._renderer is not None:
                self._renderer.handle_event(event)
            case _:
                pass

    def _tell_of_retries(self, event: Retrying) -> None:
        """Say once in a turn that a failing model call is tried again, from its second new try on: most are answered
        at the first.
        """
        if event.attempt < _TOLD_ATTEMPT or self._has_told_of_retries or self._renderer is None:
            return
        self._has_told_of_retries = True
        self._enqueue_work(self.send_note(_format_retries(event, self.person)))

    def _note_activity(self, event: Event) -> None:
        """Note activity of the running turn, which restarts its time limit."""
        self._last_activity = asyncio.get_running_loop().time()
        if isinstance(event, TurnEnded) and self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        elif isinstance(event, TurnStarted | TurnResumed):
            self._schedule_watchdog(self.app.services.settings.gateway.turn_timeout)

    def _schedule_watchdog(self, seconds: float) -> None:
        self._watchdog = asyncio.get_running_loop().call_later(seconds, self._check_activity)

    def _check_activity(self) -> None:
        """Stop a turn that has shown no activity for too long, and say so. It may wait while a person is asked."""
        limit = self.app.services.settings.gateway.turn_timeout
        left = self._last_activity + limit - asyncio.get_running_loop().time()
        if left > 0 or self.questions.is_waiting:
            self._schedule_watchdog(max(left, 1.0))
            return
        self._watchdog = None
        self._deps.telemetry.report_line(f"{self.binding.key}: no sign of life for {limit:g} s; the turn is stopped.")
        self._enqueue_work(
            self.send_note(tr("(Nothing happened for {time}, so the turn was stopped.)", time=format_duration(limit)))
        )
        self.actor.stop()

    def _enqueue_work(self, work: Coroutine[object, object, None]) -> None:
        try:
            self._work_queue.put_nowait(work)
            self._unshown += 1
        except asyncio.QueueFull:
            work.close()
            self._deps.telemetry.report_line(f"{self.binding.key}: too much waits to be shown; some of it was not.")

    async def _run_work(self) -> None:
        while True:
            work = await self._work_queue.get()
            try:
                await work
            except HermesError as error:
                self._deps.telemetry.report_line(f"{self.binding.key}: {error}")
                self._on_broken(self)
            except Exception as error:  # noqa: BLE001 - what comes behind it is shown all the same
                _LOG.exception("something could not be shown")
                self._deps.telemetry.report_line(f"{self.binding.key}: {GatewayError(type(error).__name__)}")
                self._on_broken(self)
            finally:
                self._unshown -= 1
                self._work_queue.task_done()


def _do_nothing() -> None:
    """Do nothing."""


def _format_retries(event: Retrying, person: PersonIdentity) -> str:
    """Return what people are told of new tries; only those who administer Hermes are told what fails."""
    moment = format_time(event.until)
    if not person.can_administer:
        return tr("(The model does not answer. I try again until {moment} at most; /stop ends it.)", moment=moment)
    why = localize(end_sentence(event.message))
    return tr("({why} I try again until {moment} at most; /stop ends it.)", why=why, moment=moment)


def _format_notice(event: Notice | Refused | FellBack | EpochBegan, person: PersonIdentity) -> str:
    """Return the text that people see for an event; people who do not administer Hermes see only their own."""
    match event:
        case Refused():
            return tr("(Not done: {reason})", reason=localize(event.reason))
        case Notice() if person.can_administer and event.level is not Level.INFO:
            return f"({localize(event.text)})"
        case FellBack() if person.can_administer:
            return tr("({why} Going on with {model}.)", why=localize(event.reason), model=event.model)
        case EpochBegan() if person.can_administer and event.number > 1:
            said = format_epoch_notice(event.reason, event.bytes)
            return f"({said})" if said else ""
        case _:
            return ""

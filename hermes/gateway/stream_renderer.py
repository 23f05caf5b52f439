"""Streams a turn's text into a chat where messages can be edited, and enqueues the final answer.

A streamed message is a row of its own from the first piece on (`DeliveryState.OPEN`), so that a process that
comes after this one continues the same message instead of a second one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from msgspec import Struct, field, structs

from hermes.commands.texts.event_descriptions import describe_call
from hermes.config.gateway import Streaming
from hermes.core.chats import DeliveryState, OutboxItem, Outgoing, Place
from hermes.core.errors import StoreError
from hermes.core.events import Event, SubAgentChanged, ToolStarted, TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.core.stream import TextDelta
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.outbox import Outbox
from hermes.gateway.platform import Capabilities, PlatformError, SendError
from hermes.gateway.text.media import MediaRules, SendableFile, extract_media, hide_tags
from hermes.gateway.text.split import split_text
from hermes.i18n.messages import localize, tr
from hermes.markup.links import defuse_links
from hermes.sessions.app import App
from hermes.sessions.egress_filter import EgressFilter
from hermes.util.cancellation import cancel_tasks

_LOG = logging.getLogger(__name__)
CURSOR = " ▉"
FIRST_CHARACTERS = 24
"""Characters of text that exist before any of it is shown."""
PROGRESS_AFTER = 1.5
"""Seconds that a tool runs before its progress line is shown."""
PROGRESS_WIDTH = 80
_LIVE_SECONDS = 15.0
"""How long the platform may take with one edit of a streamed message."""
SILENT = "[SILENT]"
"""The answer of a model that has nothing to say."""


class _StreamedMessage(Struct):
    """A message that is being written. `number` is that of its row, `shown` the text in the chat."""

    key: str
    number: int = 0
    message_id: str = ""
    shown: str = ""


class _Segment(Struct):
    """The text between two tool calls, and the messages in which it is shown."""

    text: str = ""
    progress: str = ""
    """The progress line of a running tool, while there is no text yet."""
    messages: list[_StreamedMessage] = field(default_factory=list)


class StreamTarget(Struct, frozen=True):
    """The target of a turn's output: the account and the place, and the message that it replies to."""

    account: PlatformAccount
    place: Place
    reply_to: str
    egress_filter: Callable[[], EgressFilter]
    is_live: bool = True
    """Whether it is shown while it is written, where the platform can."""


class StreamRenderer:
    """Renders one turn into one chat. `handle_event` takes its events; `finish` enqueues the rest once it has ended."""

    def __init__(self, app: App, outbox: Outbox, target: StreamTarget, session_id: str, turn_id: str) -> None:
        self._app = app
        self._store = app.services.store
        self._outbox = outbox
        self._target = target
        self._account, self._place = target.account, target.place
        self._session_id, self.turn_id = session_id, turn_id
        self._count = 0
        self._segment = _Segment()
        self._finished_segments: list[_Segment] = []
        """Segments that are complete and not in the outbox yet."""
        self._files: list[SendableFile] = []
        """Files that earlier segments name."""
        self._earlier_text = ""
        """The text in earlier segments of the message that the model is writing."""
        self._sub_agents: dict[str, SubAgentChanged] = {}
        """The session's own sub-agents, by their sessions."""
        self._changed = asyncio.Event()
        self._showing = asyncio.Lock()
        streams = target.is_live and self._account.plan.settings.streaming is Streaming.AUTO
        self._live = self._account.can.edit and streams
        self._tasks: list[asyncio.Task[None]] = []

    def _filter_text(self, text: str) -> str:
        """Return a streamed text without what a platform would fetch unasked, and without names of files to send."""
        out = self._target.egress_filter()
        text = hide_tags(text) if self._account.can.media else text
        return defuse_links(text, out.is_host_allowed) if out.tainted else text

    async def start(self) -> None:
        """Start streaming; a message that a dead process has begun is continued."""
        if self._live:
            known = await self._store.outbox.find_open(self.turn_id)
            if known is not None:
                self._count = int(known.key.rpartition(":")[2]) + 1
                self._segment.messages.append(_StreamedMessage(known.key, known.id, known.message_id))
                self._live = bool(known.message_id)  # else it is unknown what is shown of it: the outbox finds out
        if self._live:
            self._tasks.append(asyncio.create_task(self._stream_loop(), name=f"speak {self.turn_id}"))
        await self._set_reaction("👀")
        if self._account.can.typing:
            self._tasks.append(asyncio.create_task(self._keep_typing(), name=f"type {self.turn_id}"))

    def handle_event(self, event: Event) -> None:
        """Handle an event of the turn."""
        match event:
            case TextDelta():
                self._segment.text += event.text
                self._changed.set()
            case ToolStarted() if self._live:
                self.end_segment()
                self._earlier_text = ""
                if self._account.plan.settings.progress:
                    self._segment.progress = f"⚙ {describe_call(event, PROGRESS_WIDTH)}"
                    self._changed.set()
            case SubAgentChanged() if self._live and event.depth == 1 and self._account.plan.settings.progress:
                self._show_sub_agent(event)
            case ToolStarted():
                self._segment.text = ""  # what is said on the way is not an answer
            case _:
                pass

    def _show_sub_agent(self, event: SubAgentChanged) -> None:
        """Show how the sub-agents stand, while there is no text that they would take the place of."""
        from hermes.gateway.text.sub_agents import describe_sub_agents

        self._sub_agents[event.session_id] = event
        line = describe_sub_agents(self._sub_agents.values())
        if not self._segment.text and line != self._segment.progress:
            self._segment.progress = line
            self._changed.set()

    def end_segment(self) -> None:
        """End the current segment, since something else is shown next, such as a question."""
        if self._live and self._segment.text.strip():
            self._finished_segments.append(self._segment)
            self._earlier_text += self._segment.text
            self._segment = _Segment()
            self._changed.set()

    async def finish(self, ended: TurnEnded, more_files: Sequence[SendableFile] = ()) -> None:
        """Enqueue the rest of the answer, with files that belong to it besides those that it names; the turn counts as
        answered once that is on disk.
        """
        await self.close()
        written = (self._earlier_text + self._segment.text).strip()
        answer = filter_answer(build_answer(ended, written), self._target.egress_filter(), self._account.can)
        items = [one for over in self._finished_segments for one in self._segment_items(over, self._take_files(over))]
        last = self._segment_items(
            self._segment, answer.text.lstrip().removeprefix(self._earlier_text.strip()).lstrip()
        )
        if last and not items and self._target.reply_to:
            first = structs.replace(last[0].message, reply_to=self._target.reply_to)
            last[0] = structs.replace(last[0], message=first)
        files = list(dict.fromkeys((*self._files, *answer.files, *more_files)))
        if self._account.can.captions and last and files:
            file = files.pop(0)
            with_file = structs.replace(last[-1].message, file=file.path, kind=file.kind)
            last[-1] = structs.replace(last[-1], message=with_file)
        items += [*last, *(self._file_item(number, file) for number, file in enumerate(files))]
        await self._outbox.enqueue(items, answered=self.turn_id, outcome=answer.outcome)
        await self._set_reaction("✅" if ended.reason.is_completed else "❌")

    async def close(self) -> None:
        """Stop streaming; what is shown stays as it is, and is continued when the turn is."""
        async with self._showing:  # what is on its way is waited for: its id tells it from a second message
            await cancel_tasks(self._tasks)
        self._tasks.clear()

    def _segment_items(self, segment: _Segment, text: str) -> list[OutboxItem]:
        """Return a segment's text as outbox items, each in the place of the message that shows it now."""
        return [
            self._message_item(self._message_at(segment, number), piece, DeliveryState.PENDING)
            for number, piece in enumerate(split_text(self._filter_text(text), self._account.can))
        ]

    def _take_files(self, over: _Segment) -> str:
        """Return the text of a segment that is complete, without the files that it names: they are sent at the end."""
        answer = filter_answer(ChatAnswer(text=over.text, outcome=""), self._target.egress_filter(), self._account.can)
        self._files += [one for one in answer.files if one not in self._files]
        return answer.text

    def _file_item(self, number: int, file: SendableFile) -> OutboxItem:
        key = f"{self.turn_id}:file:{number}"
        message = Outgoing(place=self._place, file=file.path, kind=file.kind, key=key)
        return OutboxItem(key=key, message=message, session_id=self._session_id, turn_id=self.turn_id)

    def _message_item(self, message: _StreamedMessage, text: str, state: DeliveryState) -> OutboxItem:
        out = Outgoing(place=self._place, text=text, key=message.key)
        return OutboxItem(key=message.key, message=out, session_id=self._session_id, turn_id=self.turn_id, state=state)

    def _message_at(self, segment: _Segment, number: int) -> _StreamedMessage:
        """Return the segment's message of this number, a fresh one where it has none yet."""
        while len(segment.messages) <= number:
            segment.messages.append(_StreamedMessage(f"{self.turn_id}:{self._count}"))
            self._count += 1
        return segment.messages[number]

    async def _stream_loop(self) -> None:
        """Show new text at the platform's pace. What cannot be shown now is sent at the end."""
        with contextlib.suppress(PlatformError, StoreError, TimeoutError, OSError):
            while True:
                await self._changed.wait()
                async with self._showing:
                    await self._enqueue_finished()
                if self._segment.progress and not self._segment.text:
                    await asyncio.sleep(PROGRESS_AFTER)
                self._changed.clear()
                if self._finished_segments:  # what ended meanwhile stands above what is shown next
                    self._changed.set()
                elif not self._outbox.is_sending(self._place.lane):
                    async with self._showing:
                        await self._show_segment()
                await asyncio.sleep(self._account.can.edit_seconds)

    async def _enqueue_finished(self) -> None:
        """Have the segments sent that are complete, in front of everything that comes later."""
        while self._finished_segments:
            over = self._finished_segments[0]
            await self._outbox.enqueue(self._segment_items(over, self._take_files(over)))
            del self._finished_segments[0]

    async def _show_segment(self) -> None:
        segment = self._segment
        texts = split_text(self._filter_text(segment.text), self._account.can)
        if not texts and segment.progress:
            texts = [segment.progress]
        elif texts and len(segment.text) < FIRST_CHARACTERS and not segment.messages:
            return
        for number, text in enumerate(texts):
            message = self._message_at(segment, number)
            unfinished = number == len(texts) - 1 and bool(segment.text)
            shown = text + CURSOR if unfinished else text
            if self._account.can.measure(shown) > self._account.can.limit:
                shown = text
            if shown != message.shown:
                await self._show_message(message, shown)

    async def _show_message(self, message: _StreamedMessage, text: str) -> None:
        items = self._message_item(message, text, DeliveryState.OPEN)
        async with asyncio.timeout(_LIVE_SECONDS):
            if message.message_id:
                await self._account.platform.edit(items.message, message.message_id)
            else:
                if not message.number:
                    (message.number,) = await self._store.outbox.enqueue([items])
                try:
                    message.message_id = await self._account.platform.send(items.message)
                except SendError as error:
                    if not error.uncertain:
                        await self._store.outbox.mark_unsent(message.number)
                    raise
                await self._store.outbox.mark_shown(message.number, message.message_id)
        message.shown = text

    async def _set_reaction(self, emoji: str) -> None:
        """Set a reaction on the message that is answered, where the settings ask for it."""
        account = self._account
        if account.plan.settings.reactions and account.can.reactions and self._target.reply_to:
            with contextlib.suppress(PlatformError, TimeoutError, OSError):
                async with asyncio.timeout(_LIVE_SECONDS):
                    await account.platform.react(self._place, self._target.reply_to, emoji)

    async def _keep_typing(self) -> None:
        with contextlib.suppress(PlatformError, TimeoutError, OSError):
            while True:
                async with asyncio.timeout(_LIVE_SECONDS):
                    await self._account.platform.typing(self._place)
                await asyncio.sleep(self._account.can.typing)


class ChatAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a turn as it goes to a chat. `outcome` is its name in the journal."""

    text: str
    outcome: str
    files: tuple[SendableFile, ...] = ()


def build_answer(ended: TurnEnded, written: str = "") -> ChatAnswer:
    """Build the answer of a turn. One that did not complete says so, after its text; of one that was stopped `written`
    is what had come of the message that the model was writing.
    """
    text = ended.text.strip()
    if ended.reason.is_completed:
        return ChatAnswer(text="" if text == SILENT else text, outcome=ended.reason.value)
    if ended.reason is ExitReason.INTERRUPTED:
        text = max(text, written, key=len)
        line = tr("(Stopped.)")
    else:
        why = localize(ended.error) if ended.error else ended.reason.value.replace("_", " ")
        line = tr("(This was not finished: {why})", why=why)
    return ChatAnswer(text=f"{text}\n\n{line}" if text else line, outcome=ended.reason.value)


def filter_answer(answer: ChatAnswer, egress_filter: EgressFilter, can: Capabilities) -> ChatAnswer:
    """Return the answer as it may leave the machine: with its files extracted and, while untrusted content stands in
    the conversation, without anything that a platform would fetch from a host that is not allowed.
    """
    text, files = answer.text, answer.files
    if can.media:
        limit = can.media_limit
        taken = extract_media(
            text,
            MediaRules(
                roots=egress_filter.roots,
                refusal_reason=egress_filter.find_refusal,
                home=egress_filter.home,
                limit=limit,
            ),
        )
        text, files = taken.text, taken.files
    if egress_filter.tainted:
        text = defuse_links(text, egress_filter.is_host_allowed)
    return structs.replace(answer, text=text, files=files)

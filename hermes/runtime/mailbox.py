"""Messages that wait in a session, some for turns of their own, some to join the running turn; and what comes along
with one, frozen into it: what it refers to, what a memory recalls, a note of time and folder where they are new.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence

import msgspec
from msgspec import Struct, structs

from hermes.core.encoding import to_json
from hermes.core.errors import BusyError
from hermes.core.events import TurnEnded
from hermes.core.messages import PROGRAM, ImagePart, Provenance, Source, TextPart, ToolResultPart
from hermes.i18n.messages import N_
from hermes.safety.fencing import reveal_hidden_text, show_control_characters
from hermes.util.cancellation import wait_for_task
from hermes.util.text import clean_surrogates, to_one_line

LIMIT = 256
_MOST_OWN_WORDS = 300
"""Messages of one front-end that may wait for their turns."""


class InboundMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message from a person: text, pictures, and the folder it was sent from."""

    text: str
    images: tuple[ImagePart, ...] = ()
    cwd: str = ""
    quoted: tuple[TextPart, ...] = ()
    """Attached parts that are not the person's own words, each with its provenance."""
    results: tuple[ToolResultPart, ...] = ()
    """What a program has got from the calls with which the turn before has ended."""

    @property
    def has_only_results(self) -> bool:
        """Whether it says nothing of its own: then it is for the calls that wait for it."""
        return bool(self.results) and not (self.text or self.images or self.quoted)

    def encode(self) -> bytes:
        """Encode the message for the store's inbox."""
        return to_json(self)

    @staticmethod
    def decode(body: bytes) -> "InboundMessage":
        """Decode a message from the store's inbox."""
        return msgspec.json.decode(body, type=InboundMessage)


_PIPED = Provenance(Source.FILE, label="standard input", vouched=True)
"""The person's own choice, so it is trusted as a pasted text is; but not the person's words: no `@` in it is a
reference, and hosts in it are not named by the person.
"""
_BACKTICKS = re.compile("`{3,}")


def attach_piped_text(inbound: InboundMessage, piped: str) -> InboundMessage:
    """Return the message with the text behind it, between fences that the text cannot close."""
    if not piped.strip():
        return inbound
    fenced = fence_attached_text(clean_surrogates(piped))
    part = TextPart(f"[Standard input, {fenced.count(chr(10)) - 1} lines]\n{fenced}", _PIPED)
    return structs.replace(inbound, quoted=(*inbound.quoted, part))


def fence_attached_text(text: str) -> str:
    """Return a text between fences that it cannot close, each on a line of its own."""
    fence = "`" * max(3, *(len(one) + 1 for one in _BACKTICKS.findall(text)), 0)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}\n{text}{end}{fence}"


class QueuedMessage:
    """A message on its way; `ended` is the end of the turn that answers it.

    `letter_id` names its row in the store's inbox; empty for one that never had to wait. With `joins_only`
    it is given back, by cancelling `ended`, when it could not join the running turn.
    """

    def __init__(self, inbound: InboundMessage, letter_id: str = "", *, joins_only: bool = False) -> None:
        self.inbound = inbound
        self.letter_id = letter_id
        self.joins_only = joins_only
        self.ended: asyncio.Future[TurnEnded] = asyncio.get_running_loop().create_future()

    @property
    def failed(self) -> bool:
        """Whether it could not be stored; whoever waits knows it already."""
        return self.ended.done() and not self.ended.cancelled() and self.ended.exception() is not None

    def settle(self, ended: TurnEnded) -> None:
        """Tell the waiter how the turn ended."""
        if not self.ended.done():
            self.ended.set_result(ended)

    def fail(self, error: Exception) -> None:
        """Tell the waiter why the turn has no end."""
        if not self.ended.done():
            self.ended.set_exception(error)


class OwnWords:
    """The messages that were posted from one front-end and wait for their turns: all else was said elsewhere."""

    def __init__(self) -> None:
        self._posted: deque[str] = deque(maxlen=_MOST_OWN_WORDS)
        self.unknown = 0
        """Turns to come whose words may be from here: what an earlier process has left."""

    def add(self, text: str) -> None:
        """Note words that are posted from here."""
        self._posted.append(text)

    def take(self, text: str) -> bool:
        """Return whether these words, which begin a turn or join one, are from here; they are forgotten then."""
        if text in self._posted:
            self._posted.remove(text)
            return True
        if self.unknown:
            self.unknown -= 1
            return True
        return False


class SessionMailbox:
    """Queued messages in the order in which they are answered, and those that want to join the running turn."""

    def __init__(self) -> None:
        self._waiting: deque[QueuedMessage] = deque()
        self._steering: deque[QueuedMessage] = deque()
        self._message_added = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._steering)

    def __iter__(self) -> Iterator[QueuedMessage]:
        return iter((*self._steering, *self._waiting))

    def put(self, queued: QueuedMessage, *, first: bool = False) -> None:
        """Queue a message for a turn of its own, behind the others or (`first`) before them."""
        if first:
            self._waiting.appendleft(queued)
        else:
            self._waiting.append(queued)
        self._message_added.set()

    def restore(self, queued: QueuedMessage) -> None:
        """Queue a message that an earlier process has stored, however many there are."""
        self._waiting.append(queued)

    @property
    def has_waiting(self) -> bool:
        """Whether messages wait for turns of their own."""
        return bool(self._waiting)

    def check_room(self) -> None:
        """Raise BusyError when the queue is full; called before a message is stored."""
        if len(self) >= LIMIT:
            raise BusyError(N_("{LIMIT} messages are waiting in this session already.", LIMIT=LIMIT), "Try later.")

    def steer(self, queued: QueuedMessage) -> None:
        """Queue a message for the next boundary of the running turn."""
        self._steering.append(queued)

    def take_newest(self) -> QueuedMessage | None:
        """Take the newest of the messages that wait for a turn of their own, or else of those that would join one."""
        for messages in (self._waiting, self._steering):
            if messages and not messages[-1].joins_only:
                return messages.pop()
        return None

    def take_steering(self) -> list[QueuedMessage]:
        """Take the messages that join the running turn now."""
        taken = list(self._steering)
        self._steering.clear()
        return taken

    def requeue_steering(self) -> None:
        """Requeue messages that could not join the turn, before those that came later, or give them back."""
        for queued in reversed(self._steering):
            if queued.joins_only:
                queued.ended.cancel()
            else:
                self._waiting.appendleft(queued)
        self._steering.clear()
        if self._waiting:
            self._message_added.set()

    async def wait_for_message(self) -> None:
        """Wait until a message for a turn of its own was added, which may have been taken back since."""
        if not self._waiting:
            self._message_added.clear()
            await self._message_added.wait()

    def take_next(self) -> QueuedMessage | None:
        """Take the message that is answered next; None when none waits."""
        return self._waiting.popleft() if self._waiting else None

    def take_all(self) -> list[QueuedMessage]:
        """Take all messages out."""
        queued_messages = list(self)
        self._waiting.clear()
        self._steering.clear()
        return queued_messages


AttachmentProvider = Callable[[InboundMessage], Awaitable[Sequence[ImagePart | TextPart]]]
"""Returns parts to attach to a message. It reports by itself what it could not attach; what it raises ends the turn."""


class AttachmentCollector:
    """Asks every attachment provider in order; a stop cancels the one that is at work."""

    def __init__(self) -> None:
        self.providers: list[AttachmentProvider] = []
        self.refusal = ""
        """Why the message that was collected for last is refused, as a provider has set it; empty where it is not."""
        self._task: asyncio.Task[None] | None = None

    def stop_collecting(self) -> None:
        """Cancel the provider that is at work."""
        if self._task is not None:
            self._task.cancel()

    async def take_pictures(self, images: Sequence[ImagePart]) -> Sequence[ImagePart | TextPart]:
        """Return a message's pictures as the transcript keeps them: small enough for every model, and always the same;
        after a stop, as they came.
        """
        if not images:
            return ()
        from hermes.media.pictures import take_images

        taken: list[ImagePart | TextPart] = []

        async def take_all() -> None:
            taken.extend(await take_images(images))

        await self._run_until_stopped(take_all(), "take pictures")
        return taken or images

    async def collect_parts(self, inbound: InboundMessage) -> list[ImagePart | TextPart]:
        """Return the attached parts; after a stop, those that were collected by then."""
        parts: list[ImagePart | TextPart] = []
        self.refusal = ""

        async def ask_providers() -> None:
            for provider in tuple(self.providers):  # one may be for this message only
                parts.extend(await provider(inbound))
                if self.refusal:
                    return

        if self.providers:
            await self._run_until_stopped(ask_providers(), "ask memory providers")
        return parts

    async def _run_until_stopped(self, work: Coroutine[object, object, None], name: str) -> None:
        """Do something that a stop cancels; what it raises is raised."""
        self._task = asyncio.create_task(work, name=name)
        try:
            await wait_for_task(self._task)
            if not self._task.cancelled():
                self._task.result()
        finally:
            self._task = None


MOVED_SECONDS = 600.0
"""The time is given again when so many seconds have passed since it was last given."""

_PATH = 1_000


def build_turn_note(now: float, *, cwd: str, last_told: float | None, last_cwd: str | None) -> TextPart | None:
    """Build a note with the date, time and zone, and with the working folder when it is new; None when nothing is new.

    `last_told` is when a note was last given in this session (None: never), in seconds since the epoch.
    """
    told = []
    if last_told is None or abs(now - last_told) >= MOVED_SECONDS:
        local = time.localtime(now)
        told.append(time.strftime("%A %Y-%m-%d %H:%M %Z (UTC%z)", local))
    if cwd != last_cwd:
        name = reveal_hidden_text(show_control_characters(cwd)).text  # whoever packed an archive may have named it
        told.append(f"working folder {to_one_line(name, _PATH)}")
    if not told:
        return None
    return TextPart(text=f"[Now: {'; '.join(told)}]", provenance=PROGRAM)

"""What came into a chat becomes one message for its session: text, pictures, files, and what others have said."""

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from hermes.core.chats import Attachment, InboundEvent, MediaKind, Reply
from hermes.core.errors import HermesError
from hermes.core.messages import ImagePart, TextPart
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.platform import MEDIA_LIMIT, PlatformError
from hermes.gateway.text.recordings import RecordingListener
from hermes.i18n.messages import N_
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.pictures import read_picture
from hermes.sessions.untrusted_text import AttachedFiles, program_note, untrusted_part
from hermes.util.text import strip_control_characters, to_one_line

FETCH_SECONDS = 300.0
"""How long an attachment may take to arrive."""
LONGEST_TEXT = 1_000_000
"""Characters of one message; longer ones are cut, and the agent is told."""
_NAME = re.compile(r"[^\w.\- ]+")
_KINDS = {
    MediaKind.IMAGE: "picture",
    MediaKind.VOICE: "voice message",
    MediaKind.AUDIO: "audio file",
    MediaKind.VIDEO: "video",
    MediaKind.DOCUMENT: "file",
}
_UNOPENED = " It is no plain text, and no tool here can open it: say so, and guess nothing of what is in it."
_UNREAD = " No tool here can open it, and {problem}: say so, and guess nothing of what is in it."
_RECORDINGS = (MediaKind.VOICE, MediaKind.AUDIO)


class ReceivedAttachment(Struct, frozen=True, kw_only=True):
    """What came of an attachment: a line about it, and what the model is given of it."""

    note: str
    picture: ImagePart | None = None
    part: TextPart | None = None
    """Its text, marked with where it is from."""
    words: str = ""
    """What the person themselves said in it."""


async def build_inbound(
    account: PlatformAccount,
    events: Sequence[InboundEvent],
    folder: Path,
    *,
    shared: bool,
    listener: RecordingListener,
    files: AttachedFiles | None = None,
) -> InboundMessage:
    """Build one message from consecutive inbound events. The agent is told of attachments that cannot be fetched;
    nothing else is lost. `listener` hears recordings, `files` shows what the session's own tools cannot open.
    """
    words: list[str] = []
    images: list[ImagePart] = []
    quoted: list[TextPart] = []
    for event in events:
        text, title = _truncate_text(event.text), account.plan.descriptor.title
        sender = event.sender.name or event.sender.id
        if event.reply is not None and event.reply.text:
            quoted.append(_quote_reply(event.reply, title))
        speaker = f"[{to_one_line(strip_control_characters(sender), 60)}] " if shared else ""
        forwarded = f"{title}: {sender}, forwarded" if event.forwarded else ""
        if forwarded:
            quoted.append(untrusted_part(text, forwarded))
        elif text.strip():
            words.append(f"{speaker}{text}")
        receiver = AttachmentReceiver(account, event, folder, files=files, listener=listener)
        for number, attachment in enumerate(event.attachments):
            received = await receiver.receive(attachment, number)
            images += filter(None, [received.picture])
            words += [f"{speaker}{one}" for one in (received.words,) if one]
            quoted += filter(None, [program_note(received.note), received.part])
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


class AttachmentReceiver:
    """Receives the attachments of one event."""

    def __init__(
        self,
        account: PlatformAccount,
        event: InboundEvent,
        folder: Path,
        *,
        files: AttachedFiles | None,
        listener: RecordingListener,
    ) -> None:
        self._account = account
        self._event = event
        self._folder = folder / _safe_file_name(event.event_id)
        self._files = files
        self._listener = listener
        self._sender = f"{account.plan.descriptor.title}: {event.sender.name or event.sender.id}"

    async def receive(self, attachment: Attachment, number: int) -> ReceivedAttachment:
        """Fetch an attachment, and return what the model is given of it."""
        what, name = _KINDS[attachment.kind], _safe_file_name(attachment.name) or f"{attachment.kind}-{number}"
        if attachment.problem:
            problem = to_one_line(strip_control_characters(attachment.problem), 200)
            return ReceivedAttachment(note=f"[A {what} ({name}) came along and cannot be read: {problem}]")
        is_recording = attachment.kind in _RECORDINGS
        # Words that count as the person's own come from a file that nobody else could have put there.
        folder = self._listener.folder / self._folder.name if is_recording else self._folder
        try:
            path = (
                Path(attachment.path)
                if attachment.path
                else await _fetch_attachment(self._account, attachment, folder, number, name)
            )
        except (HermesError, OSError, TimeoutError) as error:
            why = to_one_line(strip_control_characters(str(error) or type(error).__name__), 200)
            return ReceivedAttachment(note=f"[A {what} ({name}) came along and could not be fetched: {why}]")
        if is_recording:
            return await self._hear(attachment, path, what)
        if attachment.kind is MediaKind.IMAGE:
            return await _read_picture(path)
        more, part = await _read_attachment(self._files, path, self._forwarded)
        return ReceivedAttachment(note=f"[A {what} came along, saved as {path}.{more}]", part=part)

    @property
    def _forwarded(self) -> str:
        return f"{self._sender}, forwarded" if self._event.forwarded else ""

    async def _hear(self, attachment: Attachment, path: Path, what: str) -> ReceivedAttachment:
        """Write down what is said in a recording. A voice message is the person's own words, as is a sound that comes
        without a text; what is forwarded, or comes along with a text, may be anybody's.
        """
        is_own = attachment.kind is MediaKind.VOICE or not self._event.text.strip()
        is_own = is_own and not self._event.forwarded
        heard = await self._listener.hear_recording(path, what)
        self._listener.was_spoken = self._listener.was_spoken or is_own
        saved = f" It is saved as {path}." if self._listener.shows_paths else ""
        note = f"[A {what} came along. {heard.note}{saved}]"
        if not heard.words or is_own:
            self._listener.spoken_words = "\n".join(filter(None, (self._listener.spoken_words, heard.words)))
            return ReceivedAttachment(note=note, words=heard.words)
        return ReceivedAttachment(
            note=note, part=untrusted_part(heard.words, self._forwarded or f"{self._sender}, a recording")
        )


async def _read_picture(path: Path) -> ReceivedAttachment:
    try:
        picture = await asyncio.to_thread(read_picture, path)
    except HermesError as error:
        said = f"[A picture came along, saved as {path}; it cannot be shown: {error.args[0]}]"
        return ReceivedAttachment(note=said)
    return ReceivedAttachment(note=f"[The picture is saved as {path}.]", picture=picture)


async def _read_attachment(files: AttachedFiles | None, path: Path, forwarded: str) -> tuple[str, TextPart | None]:
    """Return what the model is told of how a file is read, and its text where the session's tools cannot open it."""
    if files is None:
        return "", None
    if files.openers:
        reader = await files.find_reader(path)
        return (f" {reader} reads it." if reader else ""), None
    part = await files.read_text(path, forwarded)
    if part is not None:
        return " No tool here can open it; this is its text:", part
    return (_UNREAD.format(problem=files.problem) if files.problem else _UNOPENED), None


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

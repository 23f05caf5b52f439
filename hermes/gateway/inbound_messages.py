"""What came into a chat becomes one message for its session: text, pictures, files, and what others have said."""

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path

from hermes.core.chats import Attachment, InboundEvent, MediaKind, Reply
from hermes.core.errors import HermesError
from hermes.core.messages import ImagePart, TextPart
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.platform import MEDIA_LIMIT, PlatformError
from hermes.i18n.messages import N_
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.pictures import read_picture
from hermes.sessions.untrusted_text import program_note, untrusted_part
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
_UNHEARD = " Nothing here can hear it: say so, guess nothing, and ask for the words in writing."


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
    unheard = _UNHEARD if attachment.kind in (MediaKind.VOICE, MediaKind.AUDIO) else ""
    return None, f"[A {what} came along, saved as {path}.{unheard}]"


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

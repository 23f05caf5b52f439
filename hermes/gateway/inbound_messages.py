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
_UNHEARD = " Nothing here can hear it: say so, guess nothing, and ask for the words in writing."


async def build_inbound(
    account: PlatformAccount,
    events: Sequence[InboundEvent],
    folder: Path,
    *,
    shared: bool,
    files: AttachedFiles | None = None,
) -> InboundMessage:
    """Build one message from consecutive inbound events. The agent is told of attachments that cannot be fetched;
    nothing else is lost. `files` shows those that the session's own tools cannot open.
    """
    words: list[str] = []
    images: list[ImagePart] = []
    quoted: list[TextPart] = []
    for event in events:
        text, title = _truncate_text(event.text), account.plan.descriptor.title
        sender = event.sender.name or event.sender.id
        if event.reply is not None and event.reply.text:
            quoted.append(_quote_reply(event.reply, title))
        forwarded = f"{title}: {sender}, forwarded" if event.forwarded else ""
        if forwarded:
            quoted.append(untrusted_part(text, forwarded))
        elif text.strip():
            words.append(f"[{to_one_line(strip_control_characters(sender), 60)}] {text}" if shared else text)
        for number, attachment in enumerate(event.attachments):
            place = folder / _safe_file_name(event.event_id)
            picture, note, text_part = await _receive_attachment(account, attachment, place, number, files, forwarded)
            images += [picture] if picture is not None else []
            quoted += [program_note(note)] + ([text_part] if text_part is not None else [])
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
    account: PlatformAccount,
    attachment: Attachment,
    folder: Path,
    number: int,
    files: AttachedFiles | None,
    forwarded: str,
) -> tuple[ImagePart | None, str, TextPart | None]:
    """Fetch an attachment; return the picture for the model where it is one, a line about it, and its text where
    `files` has it. `forwarded` names who forwarded it.
    """
    what, name = _KINDS[attachment.kind], _safe_file_name(attachment.name) or f"{attachment.kind}-{number}"
    if attachment.problem:
        problem = to_one_line(strip_control_characters(attachment.problem), 200)
        return None, f"[A {what} ({name}) came along and cannot be read: {problem}]", None
    try:
        path = (
            Path(attachment.path)
            if attachment.path
            else await _fetch_attachment(account, attachment, folder, number, name)
        )
    except (HermesError, OSError, TimeoutError) as error:
        why = to_one_line(strip_control_characters(str(error) or type(error).__name__), 200)
        return None, f"[A {what} ({name}) came along and could not be fetched: {why}]", None
    if attachment.kind is MediaKind.IMAGE:
        try:
            picture = await asyncio.to_thread(read_picture, path)
        except HermesError as error:
            return None, f"[A picture came along, saved as {path}; it cannot be shown: {error.args[0]}]", None
        return picture, f"[The picture is saved as {path}.]", None
    if attachment.kind in (MediaKind.VOICE, MediaKind.AUDIO):
        return None, f"[A {what} came along, saved as {path}.{_UNHEARD}]", None
    part = await files.read_text(path, forwarded) if files is not None else None
    more = "" if files is None else _UNOPENED if part is None else " No tool here can open it; this is its text:"
    return None, f"[A {what} came along, saved as {path}.{more}]", part


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

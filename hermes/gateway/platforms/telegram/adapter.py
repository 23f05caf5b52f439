"""Telegram: a bot, by long polls or a webhook of the Bot API."""

import contextlib
import re
import zlib
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from hermes.core.chats import Attachment, Batch, MediaKind, Outgoing, Place
from hermes.gateway.platform import (
    MEDIA_LIMIT,
    Capabilities,
    Descriptor,
    Platform,
    PlatformContext,
    PlatformError,
    PlatformOptions,
    PlatformRefusedError,
    SendError,
    SendFault,
    utf16,
)
from hermes.i18n.messages import phrase

if TYPE_CHECKING:
    from hermes.gateway.platforms.telegram.api import Calls
    from hermes.gateway.platforms.telegram.events import User

LIMIT, CAPTION_LIMIT = 4096, 1024
"""UTF-16 code units of a message, and of the text below a file."""
FILE_LIMIT = 50_000_000
"""Bytes of the largest file that a bot can send."""
BATCH = 100
"""Updates that are fetched at once."""
_LATE = 10.0
"""Seconds after the end of a long poll when it counts as dead."""
_FORGOTTEN = 6 * 86_400.0
"""Seconds without news after which Telegram may begin to count anew: a number kept longer would hide what comes."""
_KINDS = ("message", "callback_query", "my_chat_member")
_TOKEN = re.compile(r"[0-9]{1,20}:[\w-]{1,200}")
_METHODS = {
    MediaKind.IMAGE: "photo",
    MediaKind.VOICE: "voice",
    MediaKind.AUDIO: "audio",
    MediaKind.VIDEO: "video",
    MediaKind.DOCUMENT: "document",
}
_PHOTO_LIMIT = 10_000_000
_REACTIONS = {"✅": "👍", "❌": "👎", "⏳": "👀", "⚠️": "🤨"}
"""What bots may not react with, and what stands in for it."""


class TelegramOptions(PlatformOptions, frozen=True, kw_only=True):
    """A bot on Telegram."""

    token: str = ""
    """The bot's token, from @BotFather."""
    base_url: str = "https://api.telegram.org"
    """Where the Bot API is: Telegram's, or a server of one's own."""
    poll_seconds: Annotated[float, Meta(ge=0, le=50)] = 30.0
    """Seconds that a long poll waits for news."""
    edits: bool = True
    """Whether what somebody edits is heard once more."""
    channel_posts: bool = False
    """Whether posts in channels are heard."""
    webhook_url: str = ""
    """The public `https` address at which Telegram reaches this machine; empty: Hermes asks for news by long polls."""
    webhook_listen: str = "127.0.0.1:8443"
    """Where Hermes listens for what that address passes on."""
    webhook_secret: str = ""
    """What Telegram must send along; empty: one is made up at each start."""


class Telegram(Platform):
    """One bot."""

    def __init__(self, options: TelegramOptions, around: PlatformContext, calls: "Calls") -> None:
        self._options = options
        self._around = around
        self._calls = calls
        self._kinds = [*_KINDS]
        self._kinds += ["edited_message"] if options.edits else []
        self._kinds += ["channel_post"] if options.channel_posts else []
        self._offset = 0
        self._heard = 0.0
        """When the newest update came."""
        self._me: User | None = None

    # What comes in.

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Connect, and give what comes in."""
        from hermes.gateway.platforms.telegram.api import refusal
        from hermes.gateway.platforms.telegram.events import User

        offset, _, heard = self._around.cursors.get("updates", "").partition("@")
        if offset.isdigit() and heard.isdigit() and int(offset) > self._offset:
            self._offset, self._heard = int(offset), float(heard)
        try:
            self._me = await self._calls.call("getMe", {}, User)
            source = self._hooked() if self._options.webhook_url else self._polled()
            async with contextlib.aclosing(source) as batches:
                async for batch in batches:
                    yield batch
        except SendError as error:
            raise refusal(error) from None

    async def _polled(self) -> AsyncGenerator[Batch, None]:
        await self._calls.call("deleteWebhook", {}, bool)
        yield Batch()
        seconds = self._options.poll_seconds
        while True:
            values = {"timeout": int(seconds), "limit": BATCH, "allowed_updates": self._kinds}
            if self._offset and self._fresh():
                values["offset"] = self._offset
            updates = await self._calls.call("getUpdates", values, list[msgspec.Raw], seconds=seconds + _LATE)
            if updates:
                batch, presses = self._batch(updates)
                yield batch
                self._offset, self._heard = _cursor(batch)
                await self._answer(presses)

    async def _hooked(self) -> AsyncGenerator[Batch, None]:
        from hermes.gateway.platforms.telegram.webhook import Webhook

        options = self._options
        async with Webhook(options.webhook_url, options.webhook_listen, options.webhook_secret) as hook:
            values = {
                "url": options.webhook_url,
                "secret_token": hook.secret,
                "allowed_updates": self._kinds,
                "max_connections": 1,  # one after the other, in the order in which they happened
            }
            await self._calls.call("setWebhook", values, bool)
            yield Batch()
            while True:
                async with hook.waiting() as updates:
                    batch, presses = self._batch(updates)
                    yield batch
                await self._answer(presses)

    def _batch(self, updates: Sequence[msgspec.Raw]) -> tuple[Batch, list[str]]:
        """What updates mean, and the presses of buttons among them. What cannot be read is left out, and told."""
        from hermes.gateway.platforms.telegram.api import decoded
        from hermes.gateway.platforms.telegram.events import Numbered, Update, User, arrival_of

        arrivals, presses = [], []
        newest = 0
        for raw in updates:
            try:
                update = decoded(raw, Update)
                newest = max(newest, update.update_id)
                arrival = arrival_of(update, self._me or User(id=0), self._around.name)
            except (ValueError, RecursionError, msgspec.DecodeError) as error:
                newest = max(newest, _number(raw, Numbered))
                reason = phrase(
                    "{name}: a message from Telegram cannot be read: {reason}.", name=self._around.name, reason=error
                )
                self._around.report(reason)
                continue
            if update.my_chat_member is not None:
                self._tell_membership(update.my_chat_member.chat.id, update.my_chat_member.new_chat_member.status)
            if update.callback_query is not None:
                presses.append(update.callback_query.id)
            if arrival is not None:
                arrivals.append(arrival)
        offset = max(newest + 1, self._offset) if self._fresh() else newest + 1
        return Batch(tuple(arrivals), (("updates", f"{offset}@{int(self._around.clock.now())}"),)), presses

    def _fresh(self) -> bool:
        """Whether Telegram counts as it did when the newest update came."""
        return self._around.clock.now() - self._heard < _FORGOTTEN

    def _tell_membership(self, chat: int, status: str) -> None:
        name = self._around.name
        if status in ("left", "kicked"):
            self._around.report(phrase("{name}: the bot was put out of the chat {chat}.", name=name, chat=chat))
        elif chat < 0:
            self._around.report(
                phrase(
                    "{name}: the bot was added to the group {chat}; name it under `groups` to have it listen there.",
                    name=name,
                    chat=chat,
                )
            )

    async def _answer(self, presses: Sequence[str]) -> None:
        """Let the buttons rest. Nothing hangs on it, and a press that is older than a minute cannot be answered."""
        for press in presses:
            with contextlib.suppress(SendError):
                await self._calls.call("answerCallbackQuery", {"callback_query_id": press}, bool, seconds=5.0)

    # What goes out.

    async def send(self, message: Outgoing) -> str:
        """Send a message; its id."""
        from hermes.gateway.platforms.telegram.api import Sent

        values = _where(message.place)
        if message.silent:
            values["disable_notification"] = True
        if message.reply_to.isdigit():
            values["reply_parameters"] = {"message_id": int(message.reply_to), "allow_sending_without_reply": True}
        if message.buttons:
            values["reply_markup"] = _keyboard(message)
        if message.file:
            return str(await self._send_file(message, values))
        values |= _words(message)
        return str((await self._calls.call("sendMessage", values, Sent)).message_id)

    async def _send_file(self, message: Outgoing, values: dict[str, object]) -> int:
        from hermes.gateway.text.media import open_attachment

        if message.text:
            words = _words(message)
            if utf16(str(words["text"])) > CAPTION_LIMIT:
                raise SendError(SendFault.TOO_LONG, phrase("The text is too long to stand below a file."))
            values["caption"] = words["text"]
            values["caption_entities"] = words.get("entities", [])
        with open_attachment(message.file, FILE_LIMIT) as file:
            large = file.seek(0, 2) > _PHOTO_LIMIT
            file.seek(0)
            plain = message.plain or (message.kind is MediaKind.IMAGE and (large or message.file.endswith(".bmp")))
            field = "document" if plain else _METHODS[message.kind]
            return await self._calls.upload(f"send{field.title()}", values, field, file, Path(message.file).name)

    async def edit(self, message: Outgoing, message_id: str) -> None:
        """Put `message` in the place of one that was sent."""
        from hermes.gateway.platforms.telegram.api import CallError

        values = {"chat_id": _chat(message.place), "message_id": int(message_id), **_words(message)}
        if message.buttons:
            values["reply_markup"] = _keyboard(message)
        try:
            await self._calls.call("editMessageText", values, msgspec.Raw)
        except CallError as error:
            if not error.unchanged:
                raise

    async def draft(self, message: Outgoing) -> None:
        """Show what is being written."""
        values = _where(message.place) | _words(message)
        values.pop("link_preview_options", None)
        await self._calls.call("sendMessageDraft", {**values, "draft_id": zlib.crc32(message.key.encode()) or 1}, bool)

    async def typing(self, place: Place) -> None:
        """Show that an answer is being written."""
        await self._calls.call("sendChatAction", {**_where(place), "action": "typing"}, bool)

    async def react(self, place: Place, message_id: str, emoji: str) -> None:
        """React to a message."""
        reaction = [{"type": "emoji", "emoji": _REACTIONS.get(emoji, emoji)}] if emoji else []
        values = {"chat_id": _chat(place), "message_id": int(message_id), "reaction": reaction}
        await self._calls.call("setMessageReaction", values, bool)

    async def fetch(self, attachment: Attachment, target: Path) -> None:
        """Save a file that came in."""
        found = await self._calls.call("getFile", {"file_id": attachment.ref}, _Fetched)
        if not found.file_path or ".." in found.file_path:
            raise PlatformError(phrase("Telegram does not say where the file is."))
        await self._calls.download(found.file_path, target, MEDIA_LIMIT)

    async def close(self) -> None:
        """Nothing stays open: what `receive` holds is closed with it."""


class _Fetched(Struct, frozen=True):
    file_path: str = ""


def _number(raw: msgspec.Raw, kind: type["msgspec.Struct"]) -> int:
    try:
        return int(getattr(msgspec.json.decode(raw, type=kind), "update_id", 0))
    except msgspec.DecodeError:
        return 0


def _cursor(batch: Batch) -> tuple[int, float]:
    offset, _, heard = batch.cursors[0][1].partition("@")
    return int(offset), float(heard)


def _chat(place: Place) -> int | str:
    """A chat's number, or the public name of a channel. Raises SendError for what is neither."""
    if place.chat.startswith("@"):
        return place.chat
    try:
        return int(place.chat)
    except ValueError:
        reason = phrase("{chat} is no chat on Telegram: it must be a number, or @ and a name.", chat=place.chat)
        raise SendError(SendFault.NOT_FOUND, reason) from None


def _where(place: Place) -> dict[str, object]:
    found: dict[str, object] = {"chat_id": _chat(place)}
    if place.thread.isdigit() and place.thread != "1":
        found["message_thread_id"] = int(place.thread)
    return found


def _words(message: Outgoing) -> dict[str, object]:
    """The text and its ranges."""
    from hermes.gateway.text.dialect import to_plain_text
    from hermes.gateway.text.entities import to_entity_text

    values: dict[str, object] = {"link_preview_options": {"is_disabled": True}}
    if message.plain:
        text = to_plain_text(message.text)
        return values | {"text": text if text.strip() and utf16(text) <= LIMIT else message.text}
    found = to_entity_text(message.text, LIMIT)
    if not found.text.strip():
        return values | {"text": message.text}
    return values | {"text": found.text, "entities": found.entities}


def _keyboard(message: Outgoing) -> dict[str, object]:
    rows = [[{"text": one.label, "callback_data": one.token} for one in row] for row in message.buttons]
    return {"inline_keyboard": rows}


async def _open(options: PlatformOptions, around: PlatformContext) -> Platform:
    from hermes.gateway.platforms.telegram.api import Calls

    assert isinstance(options, TelegramOptions)
    if not _TOKEN.fullmatch(options.token):
        raise PlatformRefusedError(
            phrase("{name} has no bot token of Telegram's form (`123456:ABC...`).", name=around.name),
            phrase("Get one from @BotFather, and put it into the home's .env file as TELEGRAM_BOT_TOKEN."),
        )
    if not options.base_url.startswith(("https://", "http://")):
        raise PlatformRefusedError(phrase("`base_url` of {name} is not an address.", name=around.name))
    return Telegram(options, around, Calls(around.http, options.base_url, options.token))


def _identity(options: PlatformOptions) -> str:
    assert isinstance(options, TelegramOptions)
    return options.token.partition(":")[0]


PLATFORM = Descriptor(
    title="Telegram",
    options=TelegramOptions,
    can=Capabilities(
        limit=LIMIT,
        measure=utf16,
        edit=True,
        edit_seconds=1.0,
        draft=True,
        typing=4.0,
        reactions=True,
        threads=True,
        media=True,
        media_limit=FILE_LIMIT,
        buttons=True,
    ),
    open=_open,
    variables={"token": "TELEGRAM_BOT_TOKEN", "webhook_secret": "TELEGRAM_WEBHOOK_SECRET"},
    secrets=("token", "webhook_secret"),
    identity=_identity,
    hint="You are in Telegram. Markdown is shown; tables stand in a fixed-width font, so keep them narrow.",
    example="telegram:\n  token: ${TELEGRAM_BOT_TOKEN}\n  owners: ['123456789']\n",
)

"""Telegram: a bot, by long polling or a webhook of the Bot API."""

import asyncio
import contextlib
import re
import zlib
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hermes.admin.people.admin import PAIRING_LINK
from hermes.core.chats import Attachment, Batch, MediaKind, Outgoing, Place
from hermes.gateway.http.client import decode_json
from hermes.gateway.platform import (
    Capabilities,
    Descriptor,
    MenuEntry,
    Platform,
    PlatformContext,
    PlatformError,
    PlatformMenu,
    PlatformOptions,
    PlatformRefusedError,
    SendError,
    SendFault,
    utf16,
)
from hermes.gateway.platforms.telegram.api import (
    TelegramCallError,
    TelegramClient,
    TelegramSentMessage,
    TelegramWebhookServer,
    connection_error,
)
from hermes.gateway.platforms.telegram.events import (
    TelegramUpdate,
    TelegramUpdateNumber,
    TelegramUser,
    inbound_from_update,
)
from hermes.gateway.text.dialect import to_entity_text, to_plain_text
from hermes.gateway.text.media import open_attachment, read_facts
from hermes.i18n.messages import N_

LIMIT, CAPTION_LIMIT = 4096, 1024
"""UTF-16 code units of a message, and of the text below a file."""
FILE_LIMIT = 50_000_000
"""Size in bytes of the largest file that a bot can send."""
UPDATES_AT_ONCE = 100
"""Updates that are fetched at once."""
_POLL_GRACE_SECONDS = 10.0
"""Seconds after the end of a long poll when it counts as dead."""
_OFFSET_SECONDS = 6 * 86_400.0
"""Seconds without updates after which Telegram may renumber them: an older offset would hide new ones."""
_UPDATE_KINDS = ("message", "callback_query", "my_chat_member")
_TOKEN = re.compile(r"[0-9]{1,20}:[\w-]{1,200}")
_MENU_NAME = re.compile(r"[a-z0-9_]{1,32}")
_FILE_FIELDS = {
    MediaKind.IMAGE: "photo",
    MediaKind.VOICE: "voice",
    MediaKind.AUDIO: "audio",
    MediaKind.VIDEO: "video",
    MediaKind.DOCUMENT: "document",
}
_PHOTO_LIMIT = 10_000_000
_REACTION_SUBSTITUTES = {"✅": "👍", "❌": "👎", "⏳": "👀", "⚠️": "🤨"}
"""Reactions that bots may not use, and what is sent instead."""


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


class TelegramPlatform(Platform):
    """One bot."""

    def __init__(self, options: TelegramOptions, context: PlatformContext, client: "TelegramClient") -> None:
        self._options = options
        self._context = context
        self._client = client
        self._update_kinds = [*_UPDATE_KINDS]
        self._update_kinds += ["edited_message"] if options.edits else []
        self._update_kinds += ["channel_post"] if options.channel_posts else []
        self._offset = 0
        self._newest_at = 0.0
        """When the newest update came."""
        self._me: TelegramUser | None = None

    # What comes in.

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Connect, and yield what comes in."""

        offset, _, newest_at = self._context.cursors.get("updates", "").partition("@")
        if offset.isdigit() and newest_at.isdigit() and int(offset) > self._offset:
            self._offset, self._newest_at = int(offset), float(newest_at)
        try:
            self._me = await self._client.call_method("getMe", {}, TelegramUser)
            self.own_name = f"@{self._me.username}" if self._me.username else ""
            source = self._serve_webhook() if self._options.webhook_url else self._poll_updates()
            async with contextlib.aclosing(source) as batches:
                async for batch in batches:
                    yield batch
        except SendError as error:
            raise connection_error(error) from None

    async def _poll_updates(self) -> AsyncGenerator[Batch, None]:
        await self._client.call_method("deleteWebhook", {}, bool)
        yield self._greeting()
        seconds = self._options.poll_seconds
        while True:
            values = {"timeout": int(seconds), "limit": UPDATES_AT_ONCE, "allowed_updates": self._update_kinds}
            if self._offset and self._is_offset_valid():
                values["offset"] = self._offset
            updates = await self._client.call_method(
                "getUpdates", values, list[msgspec.Raw], seconds=seconds + _POLL_GRACE_SECONDS
            )
            if updates:
                batch, presses = self._decode_updates(updates)
                yield batch
                self._offset, self._newest_at = _parse_cursor(batch)
                await self._answer_presses(presses)

    async def _serve_webhook(self) -> AsyncGenerator[Batch, None]:

        options = self._options
        async with TelegramWebhookServer(options.webhook_url, options.webhook_listen, options.webhook_secret) as hook:
            values = {
                "url": options.webhook_url,
                "secret_token": hook.secret,
                "allowed_updates": self._update_kinds,
                "max_connections": 1,  # one after the other, in the order in which they happened
            }
            await self._client.call_method("setWebhook", values, bool)
            yield self._greeting()
            while True:
                async with hook.next_updates() as updates:
                    batch, presses = self._decode_updates(updates)
                    yield batch
                await self._answer_presses(presses)

    def _greeting(self) -> Batch:
        """Return the batch that says that the connection is up, with the address that sends a code to this bot."""
        name = self._me.username if self._me is not None else ""
        return Batch(cursors=((PAIRING_LINK, f"https://t.me/{name}?start={{code}}"),) if name else ())

    def _decode_updates(self, updates: Sequence[msgspec.Raw]) -> tuple[Batch, list[str]]:
        """Return the inbound events of updates, and the ids of the button presses among them.

        Unreadable updates are reported and skipped.
        """

        inbound_events, presses = [], []
        newest = 0
        for raw in updates:
            try:
                update = decode_json(raw, TelegramUpdate)
                newest = max(newest, update.update_id)
                inbound_event = inbound_from_update(update, self._me or TelegramUser(id=0), self._context.name)
            except (ValueError, RecursionError, msgspec.DecodeError) as error:
                newest = max(newest, _update_number(raw, TelegramUpdateNumber))
                reason = N_(
                    "{name}: a message from Telegram cannot be read: {reason}.", name=self._context.name, reason=error
                )
                self._context.report(reason)
                continue
            if update.my_chat_member is not None:
                self._report_membership(update.my_chat_member.chat.id, update.my_chat_member.new_chat_member.status)
            if update.callback_query is not None:
                presses.append(update.callback_query.id)
            if inbound_event is not None:
                inbound_events.append(inbound_event)
        offset = max(newest + 1, self._offset) if self._is_offset_valid() else newest + 1
        return Batch(tuple(inbound_events), (("updates", f"{offset}@{int(self._context.clock.now())}"),)), presses

    def _is_offset_valid(self) -> bool:
        """Return whether Telegram still counts as it did when the newest update came."""
        return self._context.clock.now() - self._newest_at < _OFFSET_SECONDS

    def _report_membership(self, chat: int, status: str) -> None:
        name = self._context.name
        if status in ("left", "kicked"):
            self._context.report(N_("{name}: the bot was removed from the chat {chat}.", name=name, chat=chat))
        elif chat < 0:
            self._context.report(
                N_(
                    "{name}: the bot was added to the group {chat}; name it under `groups` to have it listen there.",
                    name=name,
                    chat=chat,
                )
            )

    async def _answer_presses(self, presses: Sequence[str]) -> None:
        """Stop the buttons' progress indicators.

        Nothing depends on it, and presses older than a minute cannot be answered.
        """
        for press in presses:
            with contextlib.suppress(SendError):
                await self._client.call_method("answerCallbackQuery", {"callback_query_id": press}, bool, seconds=5.0)

    # What goes out.

    async def send(self, message: Outgoing) -> str:
        """Send a message and return its id."""

        values = _place_fields(message.place)
        if message.silent:
            values["disable_notification"] = True
        if message.reply_to.isdigit():
            values["reply_parameters"] = {"message_id": int(message.reply_to), "allow_sending_without_reply": True}
        if message.buttons:
            values["reply_markup"] = _format_keyboard(message)
        if message.file:
            return str(await self._send_file(message, values))
        values |= _text_fields(message)
        return str((await self._client.call_method("sendMessage", values, TelegramSentMessage)).message_id)

    async def _send_file(self, message: Outgoing, values: dict[str, object]) -> int:

        if message.text:
            words = _text_fields(message)
            if utf16(str(words["text"])) > CAPTION_LIMIT:
                raise SendError(SendFault.TOO_LONG, N_("The text is too long for a caption."))
            values["caption"] = words["text"]
            values["caption_entities"] = words.get("entities", [])
        with open_attachment(message.file, FILE_LIMIT) as file:
            large = file.seek(0, 2) > _PHOTO_LIMIT
            file.seek(0)
            plain = message.plain or (message.kind is MediaKind.IMAGE and (large or message.file.endswith(".bmp")))
            if message.kind is MediaKind.VOICE and not plain:
                facts = await asyncio.to_thread(read_facts, file)
                plain = facts is None  # Telegram shows nothing but Opus in Ogg as a voice message
                values |= {"duration": max(1, round(facts.seconds))} if facts is not None else {}
            field = "document" if plain else _FILE_FIELDS[message.kind]
            return await self._client.upload_file(f"send{field.title()}", values, field, file, Path(message.file).name)

    async def edit(self, message: Outgoing, message_id: str) -> None:
        """Replace a message that was sent."""

        values = {"chat_id": _chat_id(message.place), "message_id": int(message_id), **_text_fields(message)}
        if message.buttons:
            values["reply_markup"] = _format_keyboard(message)
        try:
            await self._client.call_method("editMessageText", values, msgspec.Raw)
        except TelegramCallError as error:
            if not error.is_unchanged:
                raise

    async def draft(self, message: Outgoing) -> None:
        """Show a draft of the answer."""
        values = _place_fields(message.place) | _text_fields(message)
        values.pop("link_preview_options", None)
        await self._client.call_method(
            "sendMessageDraft", {**values, "draft_id": zlib.crc32(message.key.encode()) or 1}, bool
        )

    async def typing(self, place: Place) -> None:
        """Show the typing indicator."""
        await self._client.call_method("sendChatAction", {**_place_fields(place), "action": "typing"}, bool)

    async def set_menu(self, menu: PlatformMenu) -> None:
        """Set the commands that are shown behind `/`: for everybody, and in the direct chats of those who may use more.
        Somebody who has not written yet has no such chat; they see what everybody sees.
        """
        await self._client.call_method("setMyCommands", {"commands": _format_menu(menu.everybody)}, bool)
        for person, entries in menu.people.items():
            if not person.isdecimal():
                continue
            scope = {"type": "chat", "chat_id": int(person)}
            values = {"commands": _format_menu(entries), "scope": scope}
            try:
                await self._client.call_method("setMyCommands", values, bool)
            except SendError as error:
                if error.fault not in (SendFault.NOT_FOUND, SendFault.FORBIDDEN):
                    raise

    async def react(self, place: Place, message_id: str, emoji: str) -> None:
        """React to a message."""
        reaction = [{"type": "emoji", "emoji": _REACTION_SUBSTITUTES.get(emoji, emoji)}] if emoji else []
        values = {"chat_id": _chat_id(place), "message_id": int(message_id), "reaction": reaction}
        await self._client.call_method("setMessageReaction", values, bool)

    async def fetch(self, attachment: Attachment, target: Path) -> None:
        """Download an attachment."""
        found = await self._client.call_method("getFile", {"file_id": attachment.ref}, _TelegramFilePath)
        if not found.file_path or ".." in found.file_path:
            raise PlatformError(N_("Telegram does not say where the file is."))
        await self._client.download_file(found.file_path, target)

    async def close(self) -> None:
        """Do nothing: `receive` closes what it opens."""


class _TelegramFilePath(Struct, frozen=True):
    file_path: str = ""


def _format_menu(entries: Sequence[MenuEntry]) -> list[dict[str, str]]:
    """Return a menu in Telegram's form: names of small letters, digits and underscores, each once."""
    named: dict[str, str] = {}
    for one in entries:
        name = one.name.lower().replace("-", "_")
        if _MENU_NAME.fullmatch(name):
            named.setdefault(name, one.about)
    return [{"command": name, "description": about} for name, about in named.items()]


def _update_number(raw: msgspec.Raw, kind: type["msgspec.Struct"]) -> int:
    try:
        return int(getattr(msgspec.json.decode(raw, type=kind), "update_id", 0))
    except msgspec.DecodeError:
        return 0


def _parse_cursor(batch: Batch) -> tuple[int, float]:
    offset, _, heard = batch.cursors[0][1].partition("@")
    return int(offset), float(heard)


def _chat_id(place: Place) -> int | str:
    """Return a chat's number, or the public name of a channel. Raises SendError for anything else."""
    if place.chat.startswith("@"):
        return place.chat
    try:
        return int(place.chat)
    except ValueError:
        reason = N_("{chat} is not a chat on Telegram: it must be a number, or @ and a name.", chat=place.chat)
        raise SendError(SendFault.NOT_FOUND, reason) from None


def _place_fields(place: Place) -> dict[str, object]:
    found: dict[str, object] = {"chat_id": _chat_id(place)}
    if place.thread.isdigit() and place.thread != "1":
        found["message_thread_id"] = int(place.thread)
    return found


def _text_fields(message: Outgoing) -> dict[str, object]:
    """Return the text and its entities."""

    values: dict[str, object] = {"link_preview_options": {"is_disabled": True}}
    if message.plain:
        text = to_plain_text(message.text)
        return values | {"text": text if text.strip() and utf16(text) <= LIMIT else message.text}
    found = to_entity_text(message.text, LIMIT)
    if not found.text.strip():
        return values | {"text": message.text}
    return values | {"text": found.text, "entities": found.entities}


def _format_keyboard(message: Outgoing) -> dict[str, object]:
    rows = [[{"text": one.label, "callback_data": one.token} for one in row] for row in message.buttons]
    return {"inline_keyboard": rows}


async def _open_platform(options: PlatformOptions, context: PlatformContext) -> Platform:

    assert isinstance(options, TelegramOptions)
    if not _TOKEN.fullmatch(options.token):
        raise PlatformRefusedError(
            N_("{name} has no bot token of Telegram's form (`123456:ABC...`).", name=context.name),
            N_("Get one from @BotFather, and put it into the home's .env file as TELEGRAM_BOT_TOKEN."),
        )
    if not options.base_url.startswith(("https://", "http://")):
        raise PlatformRefusedError(N_("`base_url` of {name} is not an address.", name=context.name))
    return TelegramPlatform(options, context, TelegramClient(context.http, options.base_url, options.token))


def _account_identity(options: PlatformOptions) -> str:
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
        menu=True,
    ),
    open=_open_platform,
    variables={"token": "TELEGRAM_BOT_TOKEN", "webhook_secret": "TELEGRAM_WEBHOOK_SECRET"},
    secrets=("token", "webhook_secret"),
    needs_option="token",
    identity=_account_identity,
    hint="Markdown is shown; keep tables narrow.",
    example="telegram:\n  token: ${TELEGRAM_BOT_TOKEN}\n  owners: ['123456789']\n",
    asked=("token",),
    preparation=N_("@BotFather on Telegram makes a bot (/newbot) and says its token."),
)

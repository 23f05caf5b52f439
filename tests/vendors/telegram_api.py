"""The calls of Telegram's Bot API as a server answers them, with the limits and errors that bots meet."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from msgspec import Struct

from hermes.testing.fake_platform import FakeChat, Shown, ShownFile
from tests.vendors.telegram_markup import MarkupError, read, units

Body = dict[str, object]
ME: Mapping[str, object] = {"id": 4242, "is_bot": True, "first_name": "Hermes", "username": "hermes_test_bot"}
TEXT_LIMIT, CAPTION_LIMIT, DATA_LIMIT = 4096, 1024, 64
FILE_LIMIT = 20 * 1024 * 1024
"""Bytes of the largest file that a bot can fetch."""
EMOJI = frozenset(
    "👍👎❤🔥🥰👏😁🤔🤯😱🤬😢🎉🤩🤮💩🙏👌🕊🤡🥱🥴😍🐳🌚🌭💯🤣⚡🍌🏆💔🤨😐🍓🍾💋😈😴😭"
    "🤓👻👀🎃🙈😇😨🤝✍🤗🫡🎅🎄☃💅🤪🗿🆒💘🙉🦄😘💊🙊😎👾🤷😡"
)
"""What a bot may react with."""
_FIELDS = ("photo", "document", "voice", "video", "audio", "animation")


class ApiError(Exception):
    """An answer with `ok: false`."""

    def __init__(self, code: int, description: str, retry_after: float | None = None) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.retry_after = retry_after


def bad(description: str) -> ApiError:
    """A 400."""
    return ApiError(400, f"Bad Request: {description}")


class Upload(Struct, frozen=True):
    """A file in a request."""

    name: str
    content: bytes
    media_type: str = ""


class Params:
    """What a call is given: a form, a query or JSON; values of forms are texts, some of them JSON."""

    def __init__(self, values: Mapping[str, object], files: Mapping[str, Upload]) -> None:
        self._values = values
        self.files = files

    @property
    def names(self) -> set[str]:
        """What is given, but files."""
        return set(self._values)

    def text(self, name: str) -> str:
        """A text; empty when it is not there."""
        value = self._values.get(name, "")
        return value if isinstance(value, str) else str(value)

    def number(self, name: str, default: int = 0) -> int:
        """A number."""
        try:
            return int(self.text(name) or default)
        except ValueError:
            raise bad(f"can't parse {name}") from None

    def flag(self, name: str) -> bool:
        """Whether something is so."""
        return self.text(name).lower() in ("true", "1")

    def value(self, name: str) -> object:
        """An object or a list."""
        value = self._values.get(name)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value) if value else None
        except ValueError:
            raise bad(f"can't parse {name} JSON object") from None

    def table(self, name: str) -> Body:
        """An object."""
        value = self.value(name)
        return value if isinstance(value, dict) else {}

    def rows(self, name: str) -> list[Body]:
        """A list of objects."""
        value = self.value(name)
        return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


class Backend(Protocol):
    """What the calls need of the fake."""

    chats: dict[int, Body]
    bodies: dict[str, Body]
    files: dict[str, Upload]
    drafts: dict[str, list[str]]
    topics: set[tuple[int, int]]
    blocked: set[int]
    voiceless: set[int]
    commands: list[Body]
    chat_commands: dict[str, list[Body]]
    answered: list[Body]

    def next_id(self) -> int:
        """A new message's id."""
        ...

    def keep(self, upload: Upload) -> Body:
        """A file that can be fetched from now on."""
        ...

    @property
    def chat(self) -> FakeChat:
        """The fake itself."""
        ...


def _voice_seconds(content: Body) -> float:
    voice = content.get("voice")
    return float(voice["duration"]) if isinstance(voice, dict) else 0.0


class Calls:
    """All calls but those for news, by their names in small letters."""

    def __init__(self, backend: Backend) -> None:
        self._fake = backend
        self.sends: dict[str, Callable[[Params], Awaitable[object]]] = {
            "sendmessage": self._send_message,
            "sendmediagroup": self._send_group,
            "editmessagetext": self._edit,
            **{f"send{field}": self._sender(field) for field in _FIELDS},
        }
        """Those that fail when the fake is told so."""
        self.others: dict[str, Callable[[Params], Awaitable[object]]] = {
            "getme": self._me,
            "sendmessagedraft": self._draft,
            "deletemessage": self._delete,
            "sendchataction": self._action,
            "setmessagereaction": self._react,
            "answercallbackquery": self._answer,
            "getfile": self._file,
            "setmycommands": self._commands,
            "editmessagereplymarkup": self._edit_buttons,
        }

    async def _me(self, params: Params) -> object:
        return {**ME, "can_join_groups": True, "can_read_all_group_messages": False, "supports_inline_queries": False}

    # What is sent.

    async def _send_message(self, params: Params) -> object:
        text = self._words(params, "text", "entities", TEXT_LIMIT)
        if not text:
            raise bad("message text is empty")
        return self._post(params, {"text": text}, text, ())

    def _sender(self, field: str) -> Callable[[Params], Awaitable[object]]:
        async def send(params: Params) -> object:
            upload = self._upload(params, params.text(field), field)
            caption = self._words(params, "caption", "caption_entities", CAPTION_LIMIT)
            if field == "voice" and self._chat(params)["id"] in self._fake.voiceless:
                raise bad("VOICE_MESSAGES_FORBIDDEN")
            kept = self._fake.keep(upload)
            if field == "voice":
                kept["duration"] = params.number("duration")
            body: Body = {field: [kept] if field == "photo" else kept, **({"caption": caption} if caption else {})}
            return self._post(params, body, caption, (upload,))

        return send

    async def _send_group(self, params: Params) -> object:
        media = params.rows("media")
        if not 2 <= len(media) <= 10:
            raise bad("there must be 2 to 10 media in a group")
        sent: list[object] = []
        for one in media:
            upload = self._upload(params, str(one.get("media", "")), "media")
            kept = self._fake.keep(upload)
            field = str(one.get("type"))
            body: Body = {field: [kept] if field == "photo" else kept, "media_group_id": str(self._fake.next_id())}
            sent.append(self._post(params, body, str(one.get("caption", "")), (upload,)))
        return sent

    def _upload(self, params: Params, named: str, field: str) -> Upload:
        upload = params.files.get(named.removeprefix("attach://") if named.startswith("attach://") else field)
        if upload is None and (known := self._fake.files.get(named)):
            upload = known
        if upload is None:
            raise bad(f"there is no {field} in the request")
        if not upload.content:
            raise bad("file must be non-empty")
        return upload

    def _words(self, params: Params, name: str, ranges: str, limit: int) -> str:
        try:
            text = read(params.text(name), params.text("parse_mode"), params.rows(ranges))
        except MarkupError as error:
            raise bad(str(error)) from None
        if units(text.strip()) > limit:
            raise bad("message is too long" if name == "text" else "message caption is too long")
        return text.strip()

    def _chat(self, params: Params) -> Body:
        named = params.text("chat_id").startswith("@")  # the fake knows no public names
        chat = None if named else self._fake.chats.get(params.number("chat_id"))
        if chat is None:
            raise bad("chat not found")
        if chat["id"] in self._fake.blocked:
            raise ApiError(403, "Forbidden: bot was blocked by the user")
        return chat

    def _thread(self, params: Params, chat: Body) -> int:
        thread = params.number("message_thread_id")
        number = chat["id"]
        assert isinstance(number, int)
        if thread and (number, thread) not in self._fake.topics:
            raise bad("message thread not found")
        return thread

    def _reply(self, params: Params, chat: Body) -> Body | None:
        wanted = params.table("reply_parameters")
        if not wanted:
            return None
        found = self._fake.bodies.get(str(wanted.get("message_id")))
        if found is None or found["chat"] != chat:
            if wanted.get("allow_sending_without_reply"):
                return None
            raise bad("message to be replied not found")
        return {key: value for key, value in found.items() if key != "reply_to_message"}

    def _post(self, params: Params, content: Body, text: str, files: tuple[Upload, ...]) -> Body:
        chat = self._chat(params)
        thread = self._thread(params, chat)
        reply = self._reply(params, chat)
        rows = buttons(params)
        number = self._fake.next_id()
        body: Body = {"message_id": number, "date": 1_700_000_000, "from": dict(ME), "chat": chat, **content}
        if thread:
            body |= {"message_thread_id": thread, "is_topic_message": True}
        if reply:
            body["reply_to_message"] = reply
        self._fake.bodies[str(number)] = body
        self._fake.chat.put(
            Shown(
                message_id=str(number),
                chat=str(chat["id"]),
                thread=str(thread) if thread else "",
                text=text,
                markup=markup_of(params),
                reply_to=str(reply["message_id"]) if reply else "",
                buttons=rows,
                files=tuple(ShownFile(one.name, one.content, one.media_type, _voice_seconds(content)) for one in files),
            )
        )
        return body

    async def _edit(self, params: Params) -> object:
        text = self._words(params, "text", "entities", TEXT_LIMIT)
        number = params.text("message_id")
        chat = self._chat(params)
        body = self._fake.bodies.get(number)
        if body is None or body["chat"] != chat or body["from"] != dict(ME):
            raise bad("message to edit not found")
        if not text:
            raise bad("message text is empty")
        known = self._fake.chat.messages[number]
        rows, markup = buttons(params), markup_of(params)
        if (known.text, known.buttons, known.markup) == (text, rows, markup):
            raise bad(
                "message is not modified: specified new message content and reply markup are exactly the same as a "
                "current content and reply markup of the message"
            )
        body["text"] = text
        self._fake.chat.change(number, text, rows, markup)
        return body

    async def _edit_buttons(self, params: Params) -> object:
        known = self._fake.chat.messages.get(params.text("message_id"))
        if known is None:
            raise bad("message to edit not found")
        self._fake.chat.change(known.message_id, known.text, buttons(params), known.markup)
        return True

    # What is done beside it.

    async def _draft(self, params: Params) -> object:
        chat = self._chat(params)
        if chat["type"] != "private":
            raise bad("drafts can be sent to private chats only")
        if not params.number("draft_id"):
            raise bad("draft_id must be non-zero")
        text = self._words(params, "text", "entities", TEXT_LIMIT)
        self._fake.drafts.setdefault(params.text("draft_id"), []).append(text)
        self._fake.chat.news()
        return True

    async def _delete(self, params: Params) -> object:
        if self._fake.chat.messages.pop(params.text("message_id"), None) is None:
            raise bad("message to delete not found")
        self._fake.bodies.pop(params.text("message_id"), None)
        self._fake.chat.news()
        return True

    async def _action(self, params: Params) -> object:
        chat = self._chat(params)
        self._thread(params, chat)
        self._fake.chat.typings.append(str(chat["id"]))
        self._fake.chat.news()
        return True

    async def _react(self, params: Params) -> object:
        self._chat(params)
        number = params.text("message_id")
        if number not in self._fake.bodies:
            raise bad("message to react not found")
        emoji = tuple(str(one.get("emoji", "")) for one in params.rows("reaction"))
        if not set(emoji) <= EMOJI or len(emoji) > 1:
            raise bad("REACTION_INVALID")
        self._fake.chat.reactions[number] = emoji
        self._fake.chat.news()
        return True

    async def _answer(self, params: Params) -> object:
        if not params.text("callback_query_id"):
            raise bad("query is too old and response timeout expired or query ID is invalid")
        self._fake.answered.append({"id": params.text("callback_query_id"), "text": params.text("text")})
        self._fake.chat.news()
        return True

    async def _file(self, params: Params) -> object:
        found = self._fake.files.get(params.text("file_id"))
        if found is None:
            raise bad("invalid file_id")
        if len(found.content) > FILE_LIMIT:
            raise bad("file is too big")
        number = params.text("file_id")
        return {
            "file_id": number,
            "file_unique_id": number,
            "file_size": len(found.content),
            "file_path": f"in/{number}",
        }

    async def _commands(self, params: Params) -> object:
        rows, scope = params.rows("commands"), params.table("scope")
        if len(rows) > 100:
            raise bad("BOT_COMMANDS_TOO_MUCH")
        for one in rows:
            if not re.fullmatch(r"[a-z0-9_]{1,32}", str(one.get("command", ""))):
                raise bad("BOT_COMMAND_INVALID")
            if not 1 <= len(str(one.get("description", ""))) <= 256:
                raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
        if scope.get("type", "default") == "chat":
            if scope.get("chat_id") not in self._fake.chats:
                raise bad("chat not found")
            self._fake.chat_commands[str(scope["chat_id"])] = rows
        else:
            self._fake.commands[:] = rows
        self._fake.chat.news()
        return True


def buttons(params: Params) -> tuple[tuple[str, str], ...]:
    """The labels and tokens of an inline keyboard. Raises ApiError for what is none."""
    rows = params.table("reply_markup").get("inline_keyboard", [])
    found: list[tuple[str, str]] = []
    for row in rows if isinstance(rows, list) else []:
        for one in row:
            data = str(one.get("callback_data", ""))
            if not 1 <= len(data.encode()) <= DATA_LIMIT:
                raise bad("BUTTON_DATA_INVALID")
            if not one.get("text"):
                raise bad("text of a button must be non-empty")
            found.append((str(one["text"]), data))
    return tuple(found)


def markup_of(params: Params) -> str:
    """How a text was marked."""
    return params.text("parse_mode") or ("entities" if params.rows("entities") else "")

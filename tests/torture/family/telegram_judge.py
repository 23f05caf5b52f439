"""python-telegram-bot reads whatever the bot sends to Telegram: what it does not know or cannot read is invalid."""

import inspect
from collections import Counter
from collections.abc import Iterable

from telegram import (
    Bot,
    BotCommand,
    BotCommandScope,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    Message,
    MessageEntity,
    ReplyParameters,
    TelegramObject,
    Update,
)

from tests.vendors.telegram_api import Body, Params

_CALLS = {name.replace("_", ""): getattr(Bot, name) for name in dir(Bot) if "_" in name and name[0] != "_"}
"""The methods of the Bot API as the library knows them, by their names on the wire in small letters."""
_GIVEN_IN_PYTHON = {"photo", "document", "voice", "video", "audio", "media"}


class TelegramJudge:
    """Keeps what was judged and what was invalid."""

    def __init__(self) -> None:
        self.judged: Counter[str] = Counter()
        self.invalid: list[str] = []
        self.messages: list[Message] = []

    def __call__(self, method: str, params: Params, result: object) -> None:
        """Judge a call that was carried out, and its answer."""
        self.judged[method] += 1
        try:
            self._judge(method, params, result)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            self.invalid.append(f"{method}: {error!r}")

    def _judge(self, method: str, params: Params, result: object) -> None:
        call = _CALLS.get(method)
        if call is None:
            self.invalid.append(f"{method} is no method of the Bot API")
            return
        known = set(inspect.signature(call).parameters) | _GIVEN_IN_PYTHON
        for name in params.names - known:
            self.invalid.append(f"{method} has no parameter {name!r}")
        match method:
            case "getupdates":
                self._updates(result)
            case "setmycommands":
                self._known(method, BotCommand.de_list(params.rows("commands"), None))
                if scope := params.table("scope"):
                    self._known(method, [BotCommandScope.de_json(scope, None)])
            case _ if isinstance(result, dict) and "message_id" in result:
                self._message(method, params, result)

    def _updates(self, result: object) -> None:
        for one in result if isinstance(result, list) else []:
            Update.de_json(one, None)

    def _message(self, method: str, params: Params, result: Body) -> None:
        """A message as it would reach people: with the marks and buttons that were sent along."""
        word = "caption" if "caption" in result else "text"
        marks = "caption_entities" if word == "caption" else "entities"
        whole = result | ({word: params.text(word)} if params.text(word) else {})
        if rows := params.rows(marks):
            whole |= {marks: rows}
        if markup := params.table("reply_markup"):
            whole |= {"reply_markup": markup}
            parsed = InlineKeyboardMarkup.de_json(markup, None)
            self._known(method, [parsed, *(button for row in parsed.inline_keyboard for button in row)])
        if preview := params.table("link_preview_options"):
            self._known(method, [LinkPreviewOptions.de_json(preview, None)])
        if reply := params.table("reply_parameters"):
            self._known(method, [ReplyParameters.de_json(reply, None)])
        message = Message.de_json(whole, None)
        self.messages.append(message)
        self._marks(method, message, message.caption_entities if word == "caption" else message.entities)

    def _marks(self, method: str, message: Message, marks: Iterable[MessageEntity]) -> None:
        found = list(marks)
        self._known(method, found)
        size = len((message.text or message.caption or "").encode("utf-16-le")) // 2
        for one in found:
            if one.type not in MessageEntity.ALL_TYPES:
                self.invalid.append(f"{method}: a mark of the unknown kind {one.type!r}")
            if one.offset < 0 or one.length < 1 or one.offset + one.length > size:
                self.invalid.append(
                    f"{method}: the mark {one.type} of {one.offset}+{one.length} leaves a text of {size}"
                )
        read = message.parse_caption_entities() if message.caption else message.parse_entities() if message.text else {}
        self.invalid += [f"{method}: a mark of nothing" for text in read.values() if not text]
        if len(found) > 100:
            self.invalid.append(f"{method}: {len(found)} marks, and Telegram takes 100")

    def _known(self, method: str, objects: Iterable[TelegramObject]) -> None:
        """Whether the library knows every field of these."""
        for one in objects:
            if one.api_kwargs:
                self.invalid.append(f"{method}: {type(one).__name__} has no {sorted(one.api_kwargs)}")

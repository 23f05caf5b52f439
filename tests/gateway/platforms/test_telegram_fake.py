"""The fake Telegram, judged by python-telegram-bot."""

import asyncio
import warnings
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from telegram import (
    Bot,
    BotCommandScopeChat,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputMediaPhoto,
    ReactionTypeEmoji,
    Update,
)
from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter
from telegram.request import HTTPXRequest

from hermes.testing.fake_platform import Failing
from tests.vendors.telegram import Fake


@pytest.fixture
async def fake() -> AsyncIterator[Fake]:
    async with Fake() as one:
        yield one


def client(fake: Fake, token: str = "") -> Bot:
    request = HTTPXRequest(connection_pool_size=4, httpx_kwargs={"trust_env": False})
    polls = HTTPXRequest(connection_pool_size=4, httpx_kwargs={"trust_env": False})
    return Bot(
        token or fake.token,
        base_url=f"{fake.url}/bot",
        base_file_url=f"{fake.url}/file/bot",
        request=request,
        get_updates_request=polls,
    )


@pytest.fixture
async def bot(fake: Fake) -> AsyncIterator[Bot]:
    async with client(fake) as one:
        yield one


async def test_news_stay_until_a_later_number_confirms_them(fake: Fake, bot: Bot) -> None:
    await fake.say("hello", mention=True)
    await fake.say("/start now", chat="group1", thread="7")
    first = await bot.get_updates(timeout=5)
    assert [one.message.text for one in first] == ["@hermes_test_bot hello", "/start now"]
    assert first[0].message.chat.type == "private"
    assert first[0].message.parse_entities() == {first[0].message.entities[0]: "@hermes_test_bot"}
    assert (first[1].message.chat.type, first[1].message.message_thread_id) == ("supergroup", 7)
    assert first[1].message.entities[0].type == "bot_command"
    assert [one.update_id for one in await bot.get_updates()] == [one.update_id for one in first]
    assert not await bot.get_updates(offset=first[-1].update_id + 1)
    waiting = asyncio.create_task(bot.get_updates(offset=first[-1].update_id + 1, timeout=5))
    await fake.until(lambda: fake.feed.polls == 4)
    await fake.say("later")
    assert [one.message.text for one in await waiting] == ["later"]
    assert not await bot.get_updates(offset=first[-1].update_id + 1, allowed_updates=["callback_query"])


async def test_two_pollers_are_a_conflict(fake: Fake, bot: Bot) -> None:
    waiting = asyncio.create_task(bot.get_updates(timeout=5))
    await fake.until(lambda: fake.feed.polls == 1)
    again = asyncio.create_task(bot.get_updates(timeout=5))
    with pytest.raises(Conflict, match="terminated by other getUpdates"):
        await waiting
    await fake.say("one")
    assert len(await again) == 1


async def test_sending_and_its_errors(fake: Fake, bot: Bot) -> None:
    said = await fake.say("hello")
    sent = await bot.send_message(1001, "*bold* and `x`\\.", parse_mode="MarkdownV2", reply_to_message_id=int(said))
    assert fake.shown("1001")[0].text == "bold and x."
    assert sent.reply_to_message.text == "hello"
    await bot.edit_message_text("now *this*", 1001, sent.message_id, parse_mode="MarkdownV2")
    assert (fake.shown()[0].text, fake.shown()[0].edits) == ("now this", 1)
    for call, words in (
        (bot.edit_message_text("now *this*", 1001, sent.message_id, parse_mode="MarkdownV2"), "not modified"),
        (bot.edit_message_text("x", 1001, 5), "message to edit not found"),
        (bot.send_message(1001, "a.b", parse_mode="MarkdownV2"), "is reserved and must be escaped"),
        (bot.send_message(1001, "*a", parse_mode="MarkdownV2"), "Can't find end"),
        (bot.send_message(1001, "<b>a</i>", parse_mode="HTML"), "Unmatched end tag"),
        (bot.send_message(1001, "<x>a", parse_mode="HTML"), "Unsupported start tag"),
        (bot.send_message(1001, "😀" * 2049), "message is too long"),
        (bot.send_message(99, "x"), "chat not found"),
        (bot.send_message(1001, " "), "message text is empty"),
        (bot.send_message(1001, "x", message_thread_id=3), "thread not found"),
        (bot.send_message(1001, "x", reply_to_message_id=999), "message to be replied not found"),
        (bot.delete_message(1001, 999), "message to delete not found"),
    ):
        with pytest.raises(BadRequest, match=f"(?i){words}"):
            await call
    await bot.send_message(1001, "<b>a &amp; b</b>", parse_mode="HTML")
    assert fake.shown()[-1].text == "a & b"
    await bot.send_message(1001, "😀" * 2048)
    fake.blocked.add(1001)
    with pytest.raises(Forbidden, match="blocked by the user"):
        await bot.send_message(1001, "x")
    async with aiohttp.ClientSession() as session, session.post(f"{fake.url}/botwrong/getMe") as answer:
        assert answer.status == 401
    wrong = client(fake, "4242:wrong")
    with pytest.raises(InvalidToken):
        await wrong.initialize()
    for request in wrong._request:
        await request.shutdown()


async def test_it_fails_as_it_is_told(fake: Fake, bot: Bot) -> None:
    await fake.say("hello")
    fake.failing = [Failing(429, 7), Failing(502), Failing(drop=True), Failing(drop=True, after=True)]
    with warnings.catch_warnings(), pytest.raises(RetryAfter, match="7 seconds"):
        warnings.simplefilter("ignore")  # the client announces a change of its own
        await bot.send_message(1001, "x")
    for _ in range(3):
        with pytest.raises(NetworkError):
            await bot.send_message(1001, "y")
    assert fake.text() == "y"


async def test_buttons_reactions_drafts_and_topics(fake: Fake, bot: Bot) -> None:
    said = await fake.say("hello", chat="group1", thread="7")
    place = int(fake.chat_id("group1"))
    keyboard = InlineKeyboardMarkup(
        [[InlineKeyboardButton("Yes", callback_data="y"), InlineKeyboardButton("No", callback_data="n")]]
    )
    sent = await bot.send_message(place, "Sure?", message_thread_id=7, reply_markup=keyboard)
    assert fake.shown("group1", "7")[0].buttons == (("Yes", "y"), ("No", "n"))
    await fake.press(str(sent.message_id), "y")
    query = (await bot.get_updates())[-1].callback_query
    assert (query.data, query.message.text) == ("y", "Sure?")
    await query.answer("done")
    assert fake.answered[0]["text"] == "done"
    await bot.set_message_reaction(place, int(said), ReactionTypeEmoji("👀"))
    assert fake.reactions[said] == ("👀",)
    with pytest.raises(BadRequest, match=r"(?i)reaction"):
        await bot.set_message_reaction(place, int(said), ReactionTypeEmoji("✅"))
    await bot.send_chat_action(place, "typing", message_thread_id=7)
    assert fake.typings == [str(place)]
    await fake.say("hi")
    await bot.send_message_draft(1001, 5, "wri")
    await bot.send_message_draft(1001, 5, "writing")
    assert fake.drafts == {"5": ["wri", "writing"]}
    with pytest.raises(BadRequest, match="private"):
        await bot.send_message_draft(place, 5, "x")
    await bot.set_my_commands([("help", "what there is")])
    assert fake.commands == [{"command": "help", "description": "what there is"}]
    await fake.say("hello")
    await bot.set_my_commands([("model", "choose one")], scope=BotCommandScopeChat(int(fake.person)))
    assert fake.chat_commands[fake.person] == [{"command": "model", "description": "choose one"}]
    with pytest.raises(BadRequest, match=r"(?i)invalid"):
        await bot.set_my_commands([("reload-mcp", "no hyphens")])
    with pytest.raises(BadRequest, match="not found"):
        await bot.set_my_commands([("model", "x")], scope=BotCommandScopeChat(99))


async def test_files_both_ways(fake: Fake, bot: Bot, tmp_path: Path) -> None:
    content = bytes(range(256)) * 40
    for name in ("a.png", "v.ogg", "d.bin"):
        (tmp_path / name).write_bytes(content)
    await fake.say("look", files=[tmp_path / "a.png", tmp_path / "d.bin"])
    await fake.say("", files=[tmp_path / "v.ogg"])
    first, second, third = [one.message for one in await bot.get_updates()]
    assert first.caption == "look"
    assert first.media_group_id == second.media_group_id is not None
    for attachment in (first.photo[-1], second.document, third.voice):
        assert await (await attachment.get_file()).download_as_bytearray() == content
    await bot.send_document(1001, content, filename="x.pdf", caption="here")
    await bot.send_photo(1001, content)
    assert (fake.shown()[0].text, fake.shown()[0].files[0].name) == ("here", "x.pdf")
    assert fake.shown()[1].files[0].content == content
    group = await bot.send_media_group(1001, [InputMediaPhoto(content), InputMediaPhoto(content)])
    assert len(group) == 2


async def test_a_webhook_is_tried_until_it_takes(fake: Fake, bot: Bot) -> None:
    seen: list[Update] = []
    answers = [500, 200, 200]

    async def take(request: web.Request) -> web.Response:
        assert request.headers["X-Telegram-Bot-Api-Secret-Token"] == "secret"
        seen.append(Update.de_json(await request.json(), bot))
        return web.Response(status=answers.pop(0))

    application = web.Application()
    application.add_routes([web.post("/hook", take)])
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        await fake.say("one")
        await bot.set_webhook(f"http://127.0.0.1:{runner.addresses[0][1]}/hook", secret_token="secret")
        await fake.say("two")
        await fake.until(lambda: not fake.feed.updates)
        assert [one.message.text for one in seen] == ["one", "one", "two"]
        with pytest.raises(Conflict, match="webhook is active"):
            await bot.get_updates()
        assert (await bot.get_webhook_info()).url.endswith("/hook")
        await bot.delete_webhook()
        assert not await bot.get_updates()
    finally:
        await runner.cleanup()


async def test_it_comes_back_where_it_was(fake: Fake, bot: Bot) -> None:
    waiting = asyncio.create_task(bot.get_updates(timeout=5))
    await fake.until(lambda: fake.feed.polls == 1)
    await fake.drop()
    with pytest.raises(NetworkError):
        await waiting
    await fake.down()
    with pytest.raises(NetworkError):
        await bot.get_me()
    await fake.say("while away")
    await fake.up()
    assert [one.message.text for one in await bot.get_updates()] == ["while away"]

"""slack-sdk judges the fake Slack: what it can do with the real one it does with ours."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from hermes.testing.fake_platform import Failing
from tests.vendors.slack import Fake


class Judge:
    """An app that keeps what it is told."""

    def __init__(self, fake: Fake) -> None:
        self.web = AsyncWebClient(token=fake.bot_token, base_url=fake.url + "/api/")
        self.heard: list[SocketModeRequest] = []
        self.deaf = False
        """On: nothing is acknowledged."""
        self.news = asyncio.Event()
        self.socket = SocketModeClient(app_token=fake.app_token, web_client=self.web, ping_interval=0.1)
        self.socket.socket_mode_request_listeners.append(self._hear)

    async def _hear(self, client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        self.heard.append(request)
        if not self.deaf:
            await client.send_socket_mode_response(SocketModeResponse(request.envelope_id))
        self.news.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.heard) < count:
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def judged() -> AsyncIterator[tuple[Fake, Judge]]:
    async with Fake() as fake:
        judge = Judge(fake)
        try:
            await judge.socket.connect()
            await fake.until(lambda: fake.connections == 1)
            yield fake, judge
        finally:
            await judge.socket.disconnect()
            await judge.socket.close()


async def test_it_hears_and_answers(tmp_path: Path) -> None:
    async with judged() as (fake, judge):
        ts = await fake.say("hello", chat="C1", mention=True)
        await judge.until(2)
        assert [one.payload["event"]["type"] for one in judge.heard] == ["message", "app_mention"]
        assert (await judge.web.auth_test())["user_id"] == "U0BOT"
        marks = {"event_type": "said", "event_payload": {"key": "k1"}}
        sent = await judge.web.chat_postMessage(channel="C1", text="*yes*", thread_ts=ts, metadata=marks)
        await judge.web.chat_update(channel="C1", ts=sent["ts"], text="*yes!*")
        shown = fake.messages[sent["ts"]]
        assert (shown.text, shown.thread, shown.edits) == ("*yes!*", ts, 1)
        page = await judge.web.conversations_replies(channel="C1", ts=ts, include_all_metadata=True)
        assert page["messages"][1]["metadata"] == marks
        assert [one["ts"] for one in (await judge.web.conversations_history(channel="C1"))["messages"]] == [ts]
        await judge.web.reactions_add(channel="C1", timestamp=ts, name="eyes")
        await judge.web.assistant_threads_setStatus(channel_id="C1", thread_ts=ts, status="is writing")
        assert fake.typings == ["C1"]
        file = tmp_path / "paper.txt"
        file.write_text("paper")
        await judge.web.files_upload_v2(file=str(file), filename="paper.txt", channel="C1", initial_comment="here")
        assert [one.content for one in fake.shown("C1")[-1].files] == [b"paper"]
        assert not fake.waiting()
        assert not fake.refused


async def test_presses_commands_and_what_is_not_acknowledged() -> None:
    async with judged() as (fake, judge):
        fake.place("C1")
        fake.retry_seconds = 0.05
        words = {"type": "section", "text": {"type": "mrkdwn", "text": "may I?"}}
        button = {"type": "button", "action_id": "y", "value": "y", "text": {"type": "plain_text", "text": "Yes"}}
        blocks = [words, {"type": "actions", "elements": [button]}]
        sent = await judge.web.chat_postMessage(channel="C1", text="may I?", blocks=blocks)
        judge.deaf = True
        await fake.press(sent["ts"], "y")
        await judge.until(2)
        judge.deaf = False
        await fake.until(lambda: not fake.waiting())
        await fake.command("/hermes", "hello")
        await fake.until(lambda: not fake.waiting())
        kinds = [one.type for one in judge.heard]
        assert (kinds[0], kinds[-1]) == ("interactive", "slash_commands")
        judge.deaf = True
        count = len(judge.heard)
        await fake.say("are you there?")
        await judge.until(count + 2)
        assert [one.retry_attempt for one in judge.heard[count : count + 2]] == [0, 1]


async def test_it_connects_again() -> None:
    async with judged() as (fake, judge):
        await fake.tell({"type": "disconnect", "reason": "refresh_requested", "debug_info": {}})
        await fake.until(lambda: fake.connections == 2)
        await fake.drop()
        await fake.say("meanwhile")
        await judge.until(1)
        assert fake.connections == 3


async def test_errors_are_the_real_ones() -> None:
    async with judged() as (fake, judge):
        fake.place("C1")

        async def refusal(**more: object) -> str:
            with pytest.raises(SlackApiError) as told:
                await judge.web.chat_postMessage(**{"channel": "C1", "text": "x", **more})
            return str(told.value.response["error"])

        assert await refusal(channel="C404") == "channel_not_found"
        assert await refusal(text="x" * 40_001) == "msg_too_long"
        assert await refusal(thread_ts="1.0") == "message_not_found"
        assert await refusal(token="nonsense") == "invalid_auth"
        long = {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}
        assert await refusal(blocks=[long]) == "invalid_blocks"
        fake.failing.append(Failing(429, retry_after=3))
        with pytest.raises(SlackApiError) as limited:
            await judge.web.chat_postMessage(channel="C1", text="x")
        assert limited.value.response.headers["Retry-After"] == "3"

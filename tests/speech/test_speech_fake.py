"""The openai client judges the fake speech server."""

from collections.abc import AsyncIterator

import openai
import pytest

from tests.vendors.opus_file import make_opus
from tests.vendors.speech import FakeSpeech


@pytest.fixture
async def fake() -> AsyncIterator[FakeSpeech]:
    async with FakeSpeech(heard="Guten Morgen.", sound=make_opus(0.5)) as server:
        yield server


@pytest.fixture
async def client(fake: FakeSpeech) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key=fake.key, base_url=fake.base, max_retries=0) as judge:
        yield judge


async def test_it_hears_and_speaks(fake: FakeSpeech, client: openai.AsyncOpenAI) -> None:
    sound = make_opus(1.0)
    heard = await client.audio.transcriptions.create(file=("note.ogg", sound), model="gpt-transcribe", language="de")
    assert heard.text == "Guten Morgen."
    (recording,) = fake.recordings
    assert (recording.name, recording.content) == ("note.ogg", sound)
    assert recording.fields == {"model": "gpt-transcribe", "language": "de"}
    spoken = await client.audio.speech.create(
        input="Hello.", model="gpt-4o-mini-tts", voice="alloy", response_format="opus", speed=1.5
    )
    assert spoken.content == fake.sound
    assert fake.texts[0]["input"] == "Hello."


async def test_what_it_refuses(fake: FakeSpeech, client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="Invalid file format"):
        await client.audio.transcriptions.create(file=("note.amr", b"#!AMR"), model="x")
    with pytest.raises(openai.BadRequestError, match="at most 4096"):
        await client.audio.speech.create(input="x" * 4097, model="x", voice="y")
    fake.failing = [(429, "slow down"), (500, "later")]
    with pytest.raises(openai.RateLimitError, match="slow down"):
        await client.audio.speech.create(input="x", model="x", voice="y")
    with pytest.raises(openai.InternalServerError):
        await client.audio.speech.create(input="x", model="x", voice="y")
    async with openai.AsyncOpenAI(api_key="wrong", base_url=fake.base, max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError, match="Incorrect API key"):
            await stranger.audio.speech.create(input="x", model="x", voice="y")

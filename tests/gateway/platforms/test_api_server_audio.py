"""The agent's voice and ears over the API, judged by the official client."""

import base64

import openai
import pytest
from openai.types.chat import ChatCompletionContentPartInputAudioParam

from hermes.testing.script import Say
from tests.gateway.platforms.api_server_rig import api
from tests.vendors.opus_file import make_opus
from tests.vendors.speech import FakeSpeech

pytestmark = pytest.mark.slow


async def test_the_official_client_speaks_and_is_heard() -> None:
    wav = b"RIFF" + bytes(4) + b"WAVE" + bytes(400)
    sound = make_opus(1.0)
    async with FakeSpeech(heard="How is the weather?", sound=sound) as speech:
        more = {"stt": speech.settings(), "tts": speech.settings()}
        async with api([Say("Seven degrees."), Say("With what?")], more=more) as it, it.openai() as client:
            spoken = await client.audio.speech.create(
                input="Hello.", model="hermes-agent", voice="alloy", response_format="opus"
            )
            assert spoken.content == sound
            heard = await client.audio.transcriptions.create(file=("note.ogg", sound), model="hermes-agent")
            assert heard.text == "How is the weather?"
            assert speech.recordings[0].content == sound
            with pytest.raises(openai.BadRequestError, match="response_format"):
                await client.audio.speech.create(input="x", model="x", voice="y", response_format="flac")
            with pytest.raises(openai.BadRequestError, match="1 to 4,096"):
                await client.audio.speech.create(input="x" * 5_000, model="x", voice="y", response_format="opus")
            speech.failing = [(400, "broken file")]
            with pytest.raises(openai.InternalServerError, match="broken file"):
                await client.audio.transcriptions.create(file=("note.ogg", sound), model="x")
            coded = base64.b64encode(wav).decode()
            part = ChatCompletionContentPartInputAudioParam(
                type="input_audio", input_audio={"data": coded, "format": "wav"}
            )
            await client.chat.completions.create(model="hermes-agent", messages=[{"role": "user", "content": [part]}])
            assert it.model.requests[0].last_user_text.startswith("How is the weather?")
            assert "written down by your own server" in it.model.requests[0].body.decode()
            assert speech.recordings[-1].content == wav
            speech.heard = "/help me"  # words, and no command
            part["input_audio"]["data"] = base64.b64encode(wav + bytes(9)).decode()
            await client.chat.completions.create(model="hermes-agent", messages=[{"role": "user", "content": [part]}])
            assert it.model.requests[-1].last_user_text.startswith(" /help me")
            assert not list((it.home.hermes / "media").rglob("*.ogg"))


async def test_without_engines_programs_are_told() -> None:
    more = {"stt": {"enabled": False}, "tts": {"provider": "mistral"}}
    async with api([Say("x")], more=more) as it, it.openai() as client:
        with pytest.raises(openai.InternalServerError, match="Mistral has no key"):
            await client.audio.speech.create(input="x", model="x", voice="y", response_format="opus")
        with pytest.raises(openai.InternalServerError, match="switched off"):
            await client.audio.transcriptions.create(file=("a.ogg", make_opus(1)), model="x")

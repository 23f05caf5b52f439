"""`image_generate` through the executor, against services that speak their vendors' wires."""

import asyncio
import base64
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import openai
import pytest

from hermes.core.errors import ToolError
from hermes.core.messages import ToolStatus
from hermes.gateway.text.media import MediaRules, extract_media
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.egress_filter import build_egress_filter
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from hermes.testing.web_server import Listener
from hermes.tools.pictures.makers import MAKERS, choose_maker
from hermes.tools.registry import ToolRegistry
from hermes.tools.session import ImageGeneration, WebAccess
from tests.tools.sample_pictures import make_png
from tests.tools.tool_session import Session, make_context
from tests.vendors.picture_makers import PictureMakers

PNG, PATTERN = make_png(4, 3), make_png(2, 2, (0, 90, 200))
NAMES = sorted(MAKERS)


@asynccontextmanager
async def making(
    name: str, folder: Path, *, is_open: bool = False, **chosen: object
) -> AsyncIterator[tuple[Session, PictureMakers]]:
    """A session whose pictures this service makes; with `is_open` the server's own files may be fetched."""
    makers = PictureMakers(f"k{secrets.token_hex(12)}", PNG)
    server = Listener(makers.list_routes())
    await server.start()
    base = f"{server.url}/v1" if name == "openai" else server.url
    generation = ImageGeneration(provider=name, base_url=base, folder=folder / "media", **chosen)  # type: ignore[arg-type]
    web = WebAccess(environ={MAKERS[name].key_variables[0]: makers.key})
    context = make_context(folder.resolve(), web=web, image_generation=generation)
    session = Session(context, ToolRegistry().select_tools(["image_gen"]))
    try:
        yield session, makers
    finally:
        await session.close()
        await server.down()


@pytest.mark.parametrize("name", NAMES)
async def test_a_picture_is_made_and_saved(name: str, tmp_path: Path) -> None:
    async with making(name, tmp_path) as (session, makers):
        result = await session.call("image_generate", prompt="a red square", aspect_ratio="portrait")
        assert result.status is ToolStatus.OK and makers.key not in result.text
        (saved,) = (tmp_path / "media").iterdir()
        first, second = result.text.split("\n")
        assert first == f"MEDIA:{saved}" and saved.read_bytes() == PNG and saved.stat().st_mode & 0o777 == 0o600
        assert second.startswith(f"Made by {MAKERS[name].title} {MAKERS[name].model} (image/png, {len(PNG)} bytes).")
        assert ("It cost 0.0387 USD." in second) == (name == "openrouter")
        asked = makers.asked[0].body
        form = {
            "openai": {"model": "gpt-image-2.5-flare", "prompt": "a red square", "size": "1024x1536", "n": 1},
            "fal": {"prompt": "a red square", "aspect_ratio": "9:16", "num_images": 1, "output_format": "png"},
        }
        if name in form:
            assert asked == form[name]
        else:
            assert asked["image_config"] == {"aspect_ratio": "9:16"} and asked["modalities"] == ["image", "text"]


@pytest.mark.parametrize("name", NAMES)
async def test_pictures_are_changed(name: str, tmp_path: Path) -> None:
    async with making(name, tmp_path) as (session, makers):
        (session.cwd / "a.png").write_bytes(PATTERN)
        more = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
        given = {"image_url": "a.png", "reference_image_urls": [more, "a.png"]}
        assert (await session.text("image_generate", prompt="make it blue", **given)).startswith("MEDIA:")
        asked = makers.asked[0]
        urls = [f"data:image/png;base64,{base64.b64encode(one).decode()}" for one in (PATTERN, PNG)]
        if name == "openai":
            assert asked.path == "/v1/images/edits"
            assert asked.files == [("image[]", "image/png", PATTERN), ("image[]", "image/png", PNG)]
            assert asked.body == {"model": "gpt-image-2.5-flare", "prompt": "make it blue", "size": "1536x1024"}
        elif name == "fal":
            assert asked.path == "/fal-ai/nano-banana/edit" and asked.body["image_urls"] == urls
        else:
            (message,) = asked.body["messages"]  # type: ignore[misc]
            assert [part["image_url"]["url"] for part in message["content"][1:]] == urls


async def test_the_official_client_gets_the_same_from_the_same_server(tmp_path: Path) -> None:
    async with making("openai", tmp_path) as (session, makers):
        base = session.context.image_generation.base_url  # type: ignore[union-attr]
        client = openai.AsyncOpenAI(api_key=makers.key, base_url=base, max_retries=0)
        words = {"model": "gpt-image-2.5-flare", "prompt": "a red square"}
        made = await client.images.generate(**words, size="1024x1024", n=1)  # type: ignore[call-overload]
        edited = await client.images.edit(**words, image=[("a.png", PNG), ("b.png", PATTERN)], size="1024x1024")
        assert made.usage.total_tokens == 1065 and edited.data[0].b64_json == made.data[0].b64_json
        await client.close()
        (session.cwd / "a.png").write_bytes(PNG)
        (session.cwd / "b.png").write_bytes(PATTERN)
        await session.text("image_generate", prompt="a red square", aspect_ratio="square")
        given = {"image_url": "a.png", "reference_image_urls": ["b.png"], "aspect_ratio": "square"}
        await session.text("image_generate", prompt="a red square", **given)
        official, own = makers.asked[:2], makers.asked[2:]
        assert [(one.path, one.body, one.files) for one in own] == [(one.path, one.body, one.files) for one in official]


@pytest.mark.parametrize("name", NAMES)
async def test_refusals_and_failures_are_named(name: str, tmp_path: Path) -> None:
    title = MAKERS[name].title
    async with making(name, tmp_path) as (session, makers):
        makers.refusal = "blood"
        said = await session.text("image_generate", prompt="blood")
        assert f"{title} refuses to make this picture because of what it would show" in said
        for status, words in ((401, "is not accepted"), (402, "no credit"), (429, "later"), (500, "status 500")):
            makers.status = status
            result = await session.call("image_generate", prompt="x")
            assert result.status is ToolStatus.ERROR and words in result.text and makers.key not in result.text
        makers.status = 200
        makers.picture = b"<html>"
        assert "no picture" in await session.text("image_generate", prompt="x")
        assert not (tmp_path / "media").exists()


async def test_an_address_of_a_result_is_judged_as_any(tmp_path: Path) -> None:
    async with making("openai", tmp_path) as (session, makers):
        makers.gives_address = True
        assert (await session.text("image_generate", prompt="x")).startswith("MEDIA:")
        assert makers.asked[-1].body == {"authorization": ""}
    async with making("fal", tmp_path) as (session, makers):
        makers.job_base = "http://169.254.169.254"
        assert "not its own" in await session.text("image_generate", prompt="x")
        assert len(makers.asked) == 1


async def test_a_model_that_gives_pictures_alone_is_asked_for_them_alone(tmp_path: Path) -> None:
    async with making("openrouter", tmp_path, model="black-forest-labs/flux.2-pro") as (session, makers):
        makers.only_images = True
        assert (await session.text("image_generate", prompt="x")).startswith("MEDIA:")
        assert [one.body["modalities"] for one in makers.asked] == [["image", "text"], ["image"]]


async def test_a_job_that_takes_too_long_is_ended_at_the_service(tmp_path: Path) -> None:
    async with making("fal", tmp_path, seconds=0.5) as (session, makers):
        makers.looks = -1
        assert "no picture within 0.5 s" in await session.text("image_generate", prompt="x")
        await asyncio.wait_for(makers.cancelled.wait(), 10)


async def test_a_stop_ends_the_job_too(tmp_path: Path) -> None:
    async with making("fal", tmp_path) as (session, makers):
        makers.looks = -1
        running = asyncio.create_task(session.call("image_generate", prompt="x"))
        await asyncio.wait_for(makers.looked.wait(), 10)
        running.cancel()
        await asyncio.wait({running})
        await asyncio.wait_for(makers.cancelled.wait(), 10)


async def test_wrong_calls_are_said(tmp_path: Path) -> None:
    async with making("openai", tmp_path) as (session, makers):
        assert "Say what" in await session.text("image_generate", prompt=" ")
        many = [f"data:image/png;base64,{number:04}" for number in range(6)]
        assert "at most 5" in await session.text("image_generate", prompt="x", reference_image_urls=many)
        assert "does not exist" in await session.text("image_generate", prompt="x", image_url="none.png")
        assert not makers.asked


def test_who_is_asked() -> None:
    assert choose_maker("", {"OPENROUTER_API_KEY": "x"}).title == "OpenRouter"
    assert choose_maker("", {"OPENROUTER_API_KEY": "x", "FAL_KEY": "y"}).title == "FAL"
    for name, environ, said in (
        ("", {}, "one of OPENAI_API_KEY"),
        ("fal", {"OPENAI_API_KEY": "x"}, "FAL_KEY"),
        ("fall", {}, "Did you mean"),
    ):
        with pytest.raises(ToolError, match=said):
            choose_maker(name, environ)
    assert MAKERS["fal"].find_ratio("fal-ai/flux/dev", "square") == ("image_size", "square_hd")


async def test_what_was_made_can_be_looked_at_and_sent() -> None:
    makers = PictureMakers(f"k{secrets.token_hex(12)}", PNG)
    server = Listener(makers.list_routes())
    await server.start()
    made: list[str] = []

    def reply(request: RecordedRequest) -> Reply:
        if request.number == 0:
            return call_tool("image_generate", prompt="a red square")
        if request.number == 1:
            made.extend(re.findall(r"MEDIA:(\S+?\.png)", str(request.results)))
            return call_tool("vision_analyze", image_url=made[0], question="which colour?")
        return Say(f"Here it is.\n\nMEDIA:{made[0]}")

    config = {"image_gen": {"provider": "openai", "base_url": f"{server.url}/v1"}}
    async with ScriptedServer(ScriptedModel(reply)) as model:
        with TempHome.for_server(model.url, more_config=config) as home:
            home.more["OPENAI_API_KEY"] = makers.key
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                ended = await actor.post(InboundMessage(text="a picture, please"))
                egress = build_egress_filter(app.services, app.live_session(actor))
            assert base64.b64encode(PNG).decode() in model.requests[2].body.decode()
            assert Path(made[0]).parent == home.hermes / "media" / "generated"
            rules = MediaRules(roots=egress.roots, refusal_reason=egress.find_refusal, home=egress.home)
            found = extract_media(ended.text, rules)
            assert found.text == "Here it is." and [one.path for one in found.files] == made
    await server.down()


def call_tool(name: str, **arguments: object) -> Say:
    return Say(calls=(Call("tool_call", {"name": name, "arguments": arguments}),))

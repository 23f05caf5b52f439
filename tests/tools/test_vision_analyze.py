"""`vision_analyze`: the pictures that it takes, who looks at them, and what a model without eyes is told."""

import base64
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from hermes.core.errors import ToolError
from hermes.core.events import EpochBegan, Event
from hermes.core.messages import PERSON, ImagePart, Provenance, Source, ToolStatus
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Fail, Reply, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from hermes.tools.registry import ToolRegistry
from hermes.tools.session import SideAnswer, WebAccess
from tests.media.hostile_files import SMALL_HEIC, SMALL_JPEG
from tests.tools.sample_pictures import make_png
from tests.tools.tool_session import Session, make_context
from tests.web.web_sites import page, site

PNG = make_png()
PHOTO = ImagePart(media_type="image/png", data=base64.b64encode(PNG).decode(), provenance=PERSON)
DEEPSEEK = "Failed to deserialize the JSON body: messages[1]: unknown variant `image_url`, expected `text`"


class Eyes:
    """Answers every question about a picture; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Sequence[ImagePart]]] = []

    def is_enabled(self, purpose: str) -> bool:
        return True

    def is_named(self, purpose: str) -> bool:
        return True

    async def ask(
        self, purpose: str, system: str, text: str, *, images: Sequence[ImagePart] = (), max_tokens: int
    ) -> SideAnswer:
        if "blind" in text:
            raise ToolError("all are blind.")
        self.asked.append((text, images))
        return SideAnswer("a red square", "eyes")


@pytest.fixture
def eyes() -> Eyes:
    return Eyes()


@pytest.fixture
def seeing(tmp_path: Path, eyes: Eyes) -> Session:
    context = make_context(tmp_path.resolve(), open_side_models=lambda: eyes)
    return Session(context, ToolRegistry().select_tools(["vision"]))


async def look(session: Session, source: str, question: str = "what is it?") -> str:
    return await session.text("vision_analyze", image_url=source, question=question)


async def test_a_file_and_a_data_url_are_looked_at(seeing: Session, eyes: Eyes) -> None:
    (seeing.cwd / "a.png").write_bytes(PNG)
    for source in ("a.png", f"file://{seeing.cwd}/a.png", f"data:image/png;base64,{PHOTO.data}"):
        assert await look(seeing, source) == "a red square"
    assert [text for text, _ in eyes.asked] == ["what is it?"] * 3
    assert all(images[0].data == PHOTO.data for _, images in eyes.asked)


@pytest.mark.needs("bubblewrap")
async def test_a_picture_goes_out_as_a_session_takes_one_in(seeing: Session, eyes: Eyes) -> None:
    pytest.importorskip("PIL")
    pytest.importorskip("pi_heif")
    place = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x0f\0\x02\0\0\0\x06\0\0\0\x1aPhone\0"
    photo = base64.b64decode(SMALL_JPEG)
    (seeing.cwd / "a.jpg").write_bytes(photo[:2] + b"\xff\xe1" + struct.pack(">H", len(place) + 2) + place + photo[2:])
    (seeing.cwd / "a.heic").write_bytes(base64.b64decode(SMALL_HEIC))
    assert await look(seeing, "a.jpg") == await look(seeing, "a.heic") == "a red square"
    (jpeg,), (heic,) = (images for _, images in eyes.asked)
    assert b"Phone" not in base64.b64decode(jpeg.data)
    assert (jpeg.media_type, heic.media_type) == ("image/jpeg", "image/jpeg")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("none.png", "does not exist"),
        ("text.png", "not a PNG, JPEG, GIF or WebP"),
        ("folder", "is a folder"),
        ("../home/.hermes/.env", "not"),
        ("data:image/png,abc", "is written as"),
        ("data:image/png;base64,%%%", "does not hold base64"),
        ("picture:0123456789abcdef", "in this conversation any more"),
        ("https://example.com/a.png", "no way to the web"),
        (" ", "No picture is named"),
    ],
)
async def test_what_is_no_picture_is_named(source: str, said: str, seeing: Session, eyes: Eyes) -> None:
    (seeing.cwd / "text.png").write_text("no picture")
    (seeing.cwd / "folder").mkdir()
    result = await seeing.call("vision_analyze", image_url=source, question="x")
    assert result.status is not ToolStatus.OK and said in result.text and not eyes.asked


async def test_a_picture_from_the_web_taints_what_is_said_of_it(tmp_path: Path, eyes: Eyes) -> None:
    async with site() as web:
        web.pages["/a.png"] = page(PNG, kind="image/png")
        web.pages["/b.png"] = page("<p>no", kind="text/html")
        web.pages["/c.png"] = page(PNG, kind="image/png", status=404)
        access = WebAccess(private=(f"127.0.0.1:{web.port}",))
        context = make_context(tmp_path.resolve(), open_side_models=lambda: eyes, web=access)
        session = Session(context, ToolRegistry().select_tools(["vision"]))
        result = await session.call("vision_analyze", image_url=web.url("/a.png"), question="what?")
        assert result.provenance == Provenance(Source.WEB, web.url("/a.png"))
        assert result.text.startswith("<untrusted ") and "a red square" in result.text
        assert "is no picture, but text/html" in await look(session, web.url("/b.png"))
        assert "status 404" in await look(session, web.url("/c.png"))
        assert "127.0.0.1 is not a public host" in await look(session, "http://127.0.0.1:1/a.png")
        assert len(eyes.asked) == 1


async def test_a_failure_of_all_models_names_the_setting(seeing: Session) -> None:
    (seeing.cwd / "a.png").write_bytes(PNG)
    said = await look(seeing, "a.png", "blind?")
    assert "No model could look at it: all are blind." in said and "auxiliary.vision" in said
    seeing.context = structs.replace(seeing.context, open_side_models=None)
    assert "no model here that looks at pictures" in await look(seeing, "a.png")


def call_for(reference: str) -> Say:
    arguments = {"image_url": reference, "question": "which colour?"}
    return Say(calls=(Call("tool_call", {"name": "vision_analyze", "arguments": arguments}),))


class Turn:
    """A turn with a picture: how it ended, what was begun anew, and what each server was asked."""

    def __init__(self) -> None:
        self.reason: ExitReason | None = None
        self.epochs: list[str] = []
        self.main: list[RecordedRequest] = []
        self.side: list[RecordedRequest] = []
        self.results: list[str] = []


async def show_photo(
    replies: Sequence[Reply], eyes: Sequence[Reply] | None, provider: str = "custom", mode: str = "auto"
) -> Turn:
    """Send a picture to a session whose model gives these replies; `eyes` are those of `auxiliary.vision`, if any."""
    turn = Turn()
    async with ScriptedServer(ScriptedModel(eyes or (), then=Say("from the spare"))) as side:
        named = {"model": "eyes", "base_url": side.url, "api_key": "x"}
        blind = {"model": "deepseek-v4", "provider": "deepseek", "base_url": side.url, "api_key": "x"}
        chain = {**blind, "fallback_providers": [named, {**named, "model": "spare"}]} if eyes is not None else {}
        async with ScriptedServer(replies) as main:
            model = {"default": "deepseek-v4-pro", "provider": provider, "base_url": main.url, "api_key": "x"}
            agent = {"api_max_retries": 0, "image_input_mode": mode}
            config = {"auxiliary": {"vision": chain}, "agent": agent, "model": model}
            with TempHome.for_server(main.url, more_config=config) as home:
                async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                    actor = await app.open_session()

                    def note(event: Event) -> None:
                        turn.epochs += [event.reason] if isinstance(event, EpochBegan) else []

                    actor.subscribe(note)
                    turn.reason = (await actor.post(InboundMessage(text="look", images=(PHOTO,)))).reason
                    turn.results = [one.text for m in actor.conversation.messages for one in m.tool_results()]
            turn.main, turn.side = main.requests, side.requests
    return turn


@pytest.mark.parametrize(("provider", "mode"), [("deepseek", "auto"), ("custom", "text")])
async def test_a_model_without_eyes_has_another_one_look(provider: str, mode: str) -> None:
    turn = await show_photo([call_for(PHOTO.reference), Say("done")], [Say("red")], provider, mode)
    first = turn.main[0]
    assert 'image_url":' not in first.body.decode() and PHOTO.data not in first.body.decode()
    assert f"vision_analyze can look at it for you: image_url {PHOTO.reference}]" in first.body.decode()
    (asked,) = turn.side
    assert asked.model == "eyes" and PHOTO.data in asked.body.decode() and "which colour?" in asked.body.decode()
    assert turn.results == ["red"] and turn.reason is ExitReason.TEXT_RESPONSE and not turn.epochs


async def test_the_chain_goes_on_where_a_model_fails() -> None:
    turn = await show_photo([call_for(PHOTO.reference), Say("done")], [Fail(401)], "deepseek")
    assert [one.model for one in turn.side] == ["eyes", "spare"] and turn.results == ["from the spare"]


async def test_a_model_that_refuses_pictures_goes_on_without() -> None:
    turn = await show_photo([Fail(400, message=DEEPSEEK), call_for(PHOTO.reference), Say("done")], [Say("red")])
    assert turn.epochs == ["rewritten: no_images"] and turn.reason is ExitReason.TEXT_RESPONSE
    assert [PHOTO.data in one.body.decode() for one in turn.main] == [True, False, False]
    assert turn.results == ["red"]


async def test_a_model_with_eyes_is_shown_the_picture_itself() -> None:
    turn = await show_photo([call_for(PHOTO.reference), Say("done")], None)
    assert turn.main[1].body.decode().count(PHOTO.data) == 2 and not turn.side
    assert "The picture is with this result" in turn.results[0]

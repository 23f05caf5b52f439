"""`/share` and `hermes sessions share`: a page beside the work; in a chat it is sent there, to its owner."""

import secrets
import stat

import pytest

from hermes.core.errors import UsageError
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.commands.chat_surfaces import chat
from tests.forked_hermes import run_hermes
from tests.gateway.gateway_rig import home_for, running
from tests.vendors.telegram import Fake

pytestmark = pytest.mark.slow


async def test_a_page_is_written_and_nothing_is_sent() -> None:
    secret = "sk-" + secrets.token_hex(20)
    replies = [Say(calls=(Call("terminal", {"command": "cat notes"}),)), Say(f"**bold** {secret}")]
    async with chat(replies) as here:
        (here.home.cwd / "notes").write_text("</details><script>1</script>")
        await here.say("what is in my notes?")
        before = len(here.server.requests)
        told = await here.desk.type_line("/share")
        page = here.home.cwd / f"{here.desk.actor.session_id}.html"
        text = page.read_text()
        assert str(page) in told and "nothing was sent anywhere" in told and len(here.server.requests) == before
        assert "<strong>bold</strong>" in text and secret not in text and "<script" not in text
        assert "&lt;/details&gt;" in text and stat.S_IMODE(page.stat().st_mode) == 0o600
        here.desk.answers += [False]
        assert "Nothing was written" in await here.desk.type_line("/share")
        await here.desk.type_line("/share other.html")
        await here.desk.type_line("/export third.html")
        assert (here.home.cwd / "other.html").read_text() == text == (here.home.cwd / "third.html").read_text()
        with pytest.raises(UsageError):
            await here.desk.type_line("/share one two")


async def test_the_verb_writes_the_same_page() -> None:
    async with chat([Say("an answer")]) as here:
        await here.say("a question")
        session_id = here.desk.actor.session_id
        done = await run_hermes(here.home, "sessions", "share", session_id)
        assert done.code == 0 and "nothing was sent anywhere" in done.stdout, done.stderr
        assert "an answer" in (here.home.cwd / f"{session_id}.html").read_text()
        again = await run_hermes(here.home, "sessions", "share", session_id)
        assert again.code == 2 and "--yes" in again.stderr
        done = await run_hermes(here.home, "sessions", "share", session_id, "--yes", "-o", f"{session_id}.html")
        assert done.code == 0, done.stderr


@pytest.mark.parametrize("ending", ["html", "md", "jsonl"])
async def test_what_the_verb_exports_is_private(ending: str) -> None:
    async with chat([Say("an answer")]) as here:
        await here.say("a question")
        target = here.home.cwd / f"exported.{ending}"
        target.write_text("from before")
        target.chmod(0o644)
        done = await run_hermes(here.home, "sessions", "export", here.desk.actor.session_id, "-o", str(target))
        assert done.code == 0 and "an answer" in target.read_text(), done.stderr
        assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize("role", ["owners", "admins"])
async def test_a_chat_sends_the_page_to_its_owner_only(role: str) -> None:
    async with ScriptedServer([Say("One.")]) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}, **{role: [fake.person]}) as home:
            async with running(home):
                await fake.say("hello")
                await fake.until(lambda: "One." in fake.text())
                await fake.say("/share")
                if role == "owners":
                    await fake.until(lambda: "opens in any browser" in fake.text())
                    (page,) = (home.hermes / "media" / "shared").iterdir()
                    assert "One." in page.read_text()
                else:
                    await fake.say("/help")
                    await fake.until(lambda: "/help" in fake.text())
                    assert "opens in any browser" not in fake.text() and "/share" not in fake.text().split("/help")[-1]
                    assert not (home.hermes / "media" / "shared").exists()

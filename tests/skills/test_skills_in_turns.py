"""A skill's whole life through the real loop: proposed, approved, used by `/name`, improved, rolled back."""

from hermes.admin.skills import open_skill_admin
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.skills.section import find_used_skills
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer

TEXT = """\
---
name: water-plants
description: When and how to water the plants on the balcony.
---
# Water the plants

1. Look at the soil first.
2. Give each pot 200 ml.
"""


def manage(action: str, **more: object) -> Call:
    return Call("skill_manage", {"action": action, "name": "water-plants", **more})


async def test_a_skill_is_proposed_approved_used_improved_and_rolled_back() -> None:
    replies: list[Reply] = [
        Say(calls=(manage("create", content=TEXT, category="home", reason="the pots dried out twice"),)),
        Say("Proposed."),
        Say("Watered."),
        Say(calls=(manage("patch", old_string="200 ml", new_string="300 ml", reason="it was too little"),)),
        Say("Proposed again."),
        Say("Read."),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            file = home.hermes / "skills/water-plants/SKILL.md"
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()

                async def say(text: str) -> str:
                    return (await actor.post(InboundMessage(text=text, cwd=str(home.cwd)))).text

                assert await say("learn this") == "Proposed."
                assert not file.exists()
                assert await say("/water-plants now, please") == "Watered."  # not a skill yet: plain words
                async with open_skill_admin(home.environ) as desk:
                    (waiting,) = await desk.list_pending()
                    assert waiting["reason"] == "create: the pots dried out twice" and waiting["what"] == "create"
                    _, lines = await desk.diff_change(str(waiting["id"]))
                    assert "+2. Give each pot 200 ml." in lines and "+  category: home" in lines
                    first = int(str(waiting["id"]))
                    await desk.approve_change(first)
                assert "200 ml" in file.read_text()
                await say("/water-plants and now?")
                async with open_skill_admin(home.environ) as desk:
                    (waiting,) = await desk.list_pending()
                    _, lines = await desk.diff_change("water-plants")
                    assert "-2. Give each pot 200 ml." in lines and "+2. Give each pot 300 ml." in lines
                    await desk.approve_change(int(str(waiting["id"])))
                    assert "300 ml" in file.read_text()
                    await desk.rollback_skill("water-plants", None)
                    assert "200 ml" in file.read_text()
                    await desk.rollback_skill("water-plants", int(str(waiting["id"])))
                    assert "300 ml" in file.read_text()
                    assert [row["state"] for row in await desk.list_log("water-plants")] == ["applied"] * 4
                    (row,) = [row for row in await desk.list_skills() if row["name"] == "water-plants"]
                    assert (row["used"], row["category"], row["tier"]) == (1, "home", "own")
                assert find_used_skills(actor.conversation.messages) == ("water-plants",)
        assert check_prefixes(server.requests) == 4
    assert len({request.system for request in server.requests}) == 1
    assert "water-plants" not in server.requests[0].system
    assert "1. Look at the soil first." not in server.requests[2].body.decode().rpartition("now, please")[2]
    asked = server.requests[3].body.decode()
    assert "/water-plants and now?" in asked and "[Skill water-plants, which the person asked for:]" in asked
    assert "It is not in effect" in next(iter(server.requests[1].results.values()))

"""What is stored of sub-agents: shown in the tree and in exports, counted, and deleted with their session."""

from pathlib import Path

import pytest

from hermes.admin.export import export_session
from hermes.admin.sessions import SessionAdmin
from hermes.admin.usage import build_usage_report
from hermes.commands.sessions import format_branches
from hermes.commands.usage import format_session_usage
from hermes.core.errors import BusyError
from hermes.core.events import TurnEnded
from hermes.runtime.locks import session_lock
from hermes.sessions.formats.openai_format import to_openai
from hermes.testing.script import Say
from tests.sessions.sub_agents.rig import Rig, rig
from tests.sessions.sub_agents.team_model import TeamModel, delegate

WORD = "xylophone"


def make_model() -> TeamModel:
    boss = [delegate(f"leaf {WORD}"), Say("The leaf is done.")]
    return TeamModel([delegate("boss", role="orchestrator"), Say("All done.")], {"boss": boss})


async def run_once(here: Rig) -> str:
    async with here.process() as (_app, actor):
        assert (await here.say(actor)).text == "All done."
        return actor.session_id


def find_word(home: Path) -> list[str]:
    files = [one for one in home.rglob("*") if one.is_file()]
    return [one.name for one in files if WORD.encode() in one.read_bytes()]


async def test_they_are_shown_under_their_session_and_named_in_its_export() -> None:
    async with rig(make_model()) as here:
        session_id = await run_once(here)
        async with here.process() as (app, _):
            admin = SessionAdmin(app.services.store, app.services.home)
            (root,) = [one for one in await admin.list_tree(10) if one.id == session_id]
            (boss,) = root.sub_agents
            assert (boss.name, boss.number, [one.name for one in boss.sub_agents]) == ("boss", 1, [f"leaf {WORD}"])
            lines = list(format_branches(root, "", ""))
            assert lines[1] == f"└─ 1 boss  done  {boss.id}"
            assert lines[2] == f"   └─ 2 leaf {WORD}  done  {boss.sub_agents[0].id}"
            assert boss.id not in {str(one["id"]) for one in await admin.list_newest(10)}
            assert await admin.list_idle(-60) and boss.id not in {str(one["id"]) for one in await admin.list_idle(-60)}
            found = await admin.show_session(session_id)
            for form in ("jsonl", "md", "html"):
                exported = export_session(found, form, str).decode()
                assert boss.id in exported and f"leaf {WORD}" in exported
            child = await admin.show_session(boss.id)
            assert child["outcome"] == "text_response" and "Your task:" in str(child["messages"])


async def test_reports_that_have_woken_a_session_stand_in_what_is_shown_of_it() -> None:
    model = TeamModel([delegate("a", background=True), Say("It works."), Say("Heard.")])
    async with rig(model) as here, here.process() as (app, actor):
        await here.say(actor)
        await here.wait_for(lambda: sum(isinstance(one, TurnEnded) for one in here.events) == 2)
        found = await SessionAdmin(app.services.store, app.services.home).show_session(actor.session_id)
        messages = found["messages"]
        assert isinstance(messages, list) and [one["role"] for one in messages][-2:] == ["user", "assistant"]
        assert "report on a" in messages[-2]["content"]
        said = [plain for one in actor.conversation.messages for plain in to_openai(one)]
        assert [one["content"] for one in said if one["role"] == "user"] == ["go"]


async def test_they_are_deleted_with_their_session_words_and_all() -> None:
    async with rig(make_model()) as here:
        session_id = await run_once(here)
        async with here.process() as (app, _):
            store, home = app.services.store, app.services.home
            admin = SessionAdmin(store, home)
            rows = await store.sub_agents.list_tree(session_id)
            async with session_lock(home.locks, rows[1].session_id):
                with pytest.raises(BusyError):
                    await admin.delete_session(session_id)
            assert len(await store.sub_agents.list_tree(session_id)) == 2
            await admin.delete_session(session_id)
            assert await store.sub_agents.list_tree(session_id) == []
            assert [await store.sessions.get(row.session_id) for row in rows] == [None, None]
            assert not list(home.locks.glob(f"{rows[1].session_id}*"))
        assert find_word(here.home.hermes) == []


async def test_the_usage_of_a_session_says_what_they_cost() -> None:
    async with rig(make_model()) as here:
        session_id = await run_once(here)
        report = await build_usage_report(here.home.environ, session=session_id)
        below, total = report["sub_agents"], report["total"]
        assert isinstance(below, dict) and isinstance(total, dict)
        assert (below["calls"], total["calls"]) == (3, 2)
        assert "3 calls" in format_session_usage({**total, "epochs": [], "sub_agents": below})[3]

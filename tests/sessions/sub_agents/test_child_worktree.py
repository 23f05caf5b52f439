"""Sub-agents in git worktrees of their own: real git, work beside each other, nothing lost over a crash."""

from pathlib import Path

import pytest

from hermes.core.sub_agents import SubAgentState
from hermes.execution.worktrees import Worktrees
from hermes.testing.script import Call, Ending, ReplyDelivery, Say
from tests.execution.test_worktrees import git, repository
from tests.sessions.sub_agents.rig import list_rows, rig
from tests.sessions.sub_agents.team_model import TeamModel, delegate, find_goal, read_results

pytestmark = pytest.mark.needs("git")


def write(path: str, content: str) -> Say:
    return Say(calls=(Call("write_file", {"path": path, "content": content}),))


async def test_two_work_at_the_same_time_without_touching_each_other() -> None:
    agents = {
        "one": [write("a.txt", "from one\n"), Say("One has written.")],
        "two": [write("a.txt", "from two\n"), Say("Two has written.")],
        "look": [Say("Nothing to do.")],
    }
    model = TeamModel([delegate("one", "two", "look", worktree=True), Say("All done.")], agents)
    async with rig(model) as here:
        top = repository(here.home)
        async with here.process() as (app, actor):
            assert (await here.say(actor)).text == "All done."
            rows = await list_rows(app, actor)
            one, two, look = (row.report for row in rows)
            assert [row.state for row in rows] == [SubAgentState.DONE] * 3
            assert Path(one.folder, "a.txt").read_text() == "from one\n"
            assert Path(two.folder, "a.txt").read_text() == "from two\n"
            assert (top / "a.txt").read_text() == "one\n" and look.folder == look.branch == ""
            assert one.branch == f"hermes/{rows[0].session_id}" and one.files == (f"{one.folder}/a.txt",)
            report = read_results(here.server.requests[-1])[-1]
            assert f"Its work is in {one.folder}, on the branch {one.branch}: 1 changed file." in report
            assert "Files changed: a.txt" in report
        known = Worktrees(here.home.environ)
        assert len(known.list_worktrees()) == 2 and not any(one["in_use"] for one in known.list_worktrees())
        asked = next(one for one in here.server.requests if find_goal(one) == "one")
        assert f"on the branch {one.branch}" in asked.conversation[1].text


async def test_where_no_worktree_can_be_made_the_call_fails_and_says_why() -> None:
    model = TeamModel([delegate("one", worktree=True), Say("So be it.")])
    async with rig(model) as here:
        async with here.process() as (app, actor):
            await here.say(actor)
            said = read_results(here.server.requests[-1])[-1]
            assert "is in no git repository" in said and "--" not in said
            assert await list_rows(app, actor) == []
        top = repository(here.home)
        (top / ".git" / "hooks" / "post-checkout").write_text("#!/bin/sh\ntouch /tmp/never\n")
        (top / ".git" / "hooks" / "post-checkout").chmod(0o755)
        async with here.process() as (app, actor):
            await here.say(actor)
            assert "Git could run programs of" in read_results(here.server.requests[-1])[-1]
            assert await list_rows(app, actor) == []
        assert Worktrees(here.home.environ).list_worktrees() == []


async def test_the_next_process_finds_the_worktree_with_what_was_done_in_it() -> None:
    hanging = Say("never ends", delivery=ReplyDelivery(ending=Ending.HANG, at=2))
    calls = [write("new.txt", "kept\n"), hanging]
    model = TeamModel(
        [delegate("one", worktree=True, background=True), Say("Begun."), Say("I have it.")],
        {"one": lambda request: calls[min(1, sum(s.role.value == "tool" for s in request.conversation))]},
    )
    async with rig(model) as here:
        top = repository(here.home)
        async with here.process() as (app, actor):
            await here.say(actor)
            session_id = actor.session_id
            await here.wait_for(lambda: any(one.step == 2 for one in here.changes))
            folder = Path(Worktrees(here.home.environ).list_worktrees()[0]["folder"])  # type: ignore[arg-type]
        assert (folder / "new.txt").read_text() == "kept\n"
        calls[1] = Say("Done after all.")
        async with here.process(session_id) as (app, actor):
            await here.wait_for(lambda: any(one.state is SubAgentState.DONE for one in here.changes))
            await app.sub_agents.open_team(session_id).wait_until_finished()
            await actor.idle()
            row = (await list_rows(app, actor))[0]
            assert row.report.folder == str(folder) and row.report.work == "1 changed file"
        assert (folder / "new.txt").read_text() == "kept\n" and not (top / "new.txt").exists()
        assert git(here.home.environ, top, "worktree", "list").count("\n") == 1


async def test_one_that_was_cut_off_while_it_was_made_is_made_again() -> None:
    async with rig(TeamModel([Say("x")])) as here:
        top = repository(here.home)
        known = Worktrees(here.home.environ)
        with known.hold_worktree(top, "fix") as made:
            Path(made.folder, "a.txt").unlink()
            record = Path(made.root).with_name("fix.json")
            record.write_text(record.read_text().replace("}", ',"is_ready":false}'))
        with known.hold_worktree(top, "fix") as again:
            assert again.fresh and Path(again.folder, "a.txt").read_text() == "one\n"
        assert known.settle_worktree("fix") is None and known.list_worktrees() == []


async def test_a_worktree_of_a_worktree_is_of_the_same_repository() -> None:
    async with rig(TeamModel([Say("x")])) as here:
        top = repository(here.home)
        known = Worktrees(here.home.environ, (str(top), str(Path(here.home.home, ".hermes-worktrees"))))
        with known.hold_worktree(top, "outer") as outer:
            git(here.home.environ, Path(outer.folder), "commit", "--allow-empty", "-qm", "second")
            with known.hold_worktree(Path(outer.folder), "inner") as inner:
                assert git(here.home.environ, Path(inner.folder), "log", "--format=%s", "-1") == "second"
            assert known.list_worktrees()[0]["repository"] == str(top)

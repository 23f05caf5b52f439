"""`/cron`: jobs from within a chat."""

import pytest

from hermes.core.errors import NotFoundError, UsageError
from hermes.testing.script import Say
from tests.commands.chat_surfaces import chat


async def test_jobs_are_made_run_and_removed_in_a_chat() -> None:
    async with chat([Say("It is noon.")]) as here:
        assert "no jobs" in await here.desk.type_line("/cron")
        made = await here.desk.type_line('/cron add "0 12 * * *" Say what time it is.')
        assert "Say what time it is" in made and "`hermes gateway`" in made
        assert "It is noon." in await here.desk.type_line('/cron run "Say what time it is"')
        assert "ran" in await here.desk.type_line("/cron history")
        assert "paused" in await here.desk.type_line('/cron pause "Say what time it is"')
        assert "prompt: Say what time it is." in await here.desk.type_line('/cron show "Say what time it is"')
        assert "active" in await here.desk.type_line('/cron resume "Say what time it is"')
        assert "does not run" in await here.desk.type_line('/cron stop "Say what time it is"')
        await here.desk.type_line('/cron remove "Say what time it is"')
        assert "no jobs" in await here.desk.type_line("/cron list")


@pytest.mark.parametrize(
    ("line", "error"),
    [("/cron juggle", UsageError), ("/cron add", UsageError), ("/cron add soon x", UsageError),
     ("/cron show nothing", NotFoundError)],
)  # fmt: skip
async def test_what_it_does_not_know_it_says(line: str, error: type[Exception]) -> None:
    async with chat([]) as here:
        with pytest.raises(error):
            await here.desk.type_line(line)


async def test_a_job_needs_no_quotes_and_the_list_has_its_other_names() -> None:
    async with chat([]) as here:
        made = await here.desk.type_line("/cron add every day at 7: don't forget mum's pills")
        assert "every day at 7" in made and "  next: " in made
        name = made.split("  ")[1]
        assert "prompt: don't forget mum's pills" in await here.desk.type_line(f'/cron show "{name}"')
        assert "  once: " in await here.desk.type_line("/cron add tomorrow 9:00 - call mum")
        for name in ("/jobs", "/reminders"):
            assert "call mum" in await here.desk.type_line(name)
        with pytest.raises(
            UsageError, match=r"does not say when\. For instance: cron add every day at 7: take my pills"
        ):
            await here.desk.type_line("/cron add buy milk")


async def test_what_comes_once_is_told_from_what_comes_again() -> None:
    async with chat([]) as here:
        assert "  once: " in await here.desk.type_line('/cron add "monday at 9" tea')
        assert "  next: " in await here.desk.type_line('/cron add "mondays at 9" coffee')

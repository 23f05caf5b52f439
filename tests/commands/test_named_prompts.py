"""Skills and own commands by name: which files count, what is filled in, and that the terminal sends them."""

from pathlib import Path

import pytest

from hermes.cli.command_context import run_typed_command
from hermes.commands.named_prompts import (
    NamedPrompt,
    describe_prompt,
    find_named_prompt,
    list_named_prompts,
)
from hermes.config.trusted_folders import set_trust
from hermes.context.described_files import MAX_CHARACTERS
from hermes.core.errors import UsageError
from hermes.testing.script import Say
from tests.commands.chat_surfaces import chat

pytestmark = pytest.mark.slow


def write_command(folder: Path, name: str, text: str = "Do it.") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.md"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        ("Greet $1, then $2.", '"Anna Lee" Bo', "Greet Anna Lee, then Bo."),
        ("Greet $1, then $2.", "Anna", "Greet Anna, then ."),
        ("All: $ARGUMENTS", "a 'b c'", "All: a 'b c'"),
        ("Nothing.", "but this", "Nothing.\n\nbut this"),
        ("Nothing.", "", "Nothing."),
        ("It costs $10 and $ARGUMENTSX.", "", "It costs $10 and $ARGUMENTSX."),
        ("Say $1.", "$2 and $ARGUMENTS", "Say $2."),
        ("Say $1.", "it's", "Say it's."),
    ],
)
def test_what_is_typed_is_filled_in_once(body: str, arguments: str, expected: str) -> None:
    assert NamedPrompt(name="x", body=body).format_prompt(arguments) == expected


async def test_which_files_count(tmp_path: Path) -> None:
    async with chat() as here:
        folder = here.home.hermes / "commands"
        write_command(folder, "hi", "---\ndescription: Greet.\nargument-hint: NAME\nallowed-tools: all\n---\nHello $1")
        write_command(folder, "help")
        write_command(folder, "BAD")
        write_command(folder, "a b")
        write_command(folder, "empty", "---\ndescription: x\n---\n")
        write_command(folder, "long", "x" * (MAX_CHARACTERS * 3))
        (folder / "linked.md").symlink_to(write_command(tmp_path, "secret"))
        (folder / "folder.md").mkdir()
        found = {one.name: one for one in await list_named_prompts(here.app, here.desk.prompt_scope)}
        own = [name for name, one in found.items() if one.body]
        assert own == ["hi", "long"]
        assert (found["hi"].about, found["hi"].usage, found["hi"].body) == ("Greet.", "NAME", "Hello $1")
        assert len(found["long"].body) < MAX_CHARACTERS * 2
        assert "csv-analysis" in found and describe_prompt(found["csv-analysis"]) == "a skill"
        assert "Your own: /hi /long\n" in await here.desk.type_line("/help")
        whole = await here.desk.type_line("/help all")
        assert "/hi NAME" in whole and "Your own" in whole


async def test_a_projects_files_count_only_where_it_is_trusted_and_home_comes_first() -> None:
    async with chat() as here:
        home, cwd = here.app.services.home, here.home.cwd
        file = write_command(cwd / ".hermes" / "commands", "deploy", "the project's")
        scope = here.desk.prompt_scope
        with pytest.raises(UsageError, match="not trusted"):
            await find_named_prompt(here.app, "deploy", scope)
        set_trust(home.trust_file, str(cwd), trusted=True)
        found = await find_named_prompt(here.app, "deploy", scope)
        assert found is not None and found.project and found.body == "the project's"
        await here.app.services.store.tainted_files.mark_all([(str(file.resolve()), b"1", ("a page",))], [])
        with pytest.raises(UsageError, match="not used"):
            await find_named_prompt(here.app, "deploy", scope)
        write_command(home.root / "commands", "deploy", "mine")
        found = await find_named_prompt(here.app, "deploy", scope)
        assert found is not None and found.body == "mine"
        write_command(cwd / ".claude" / "commands", "theirs")
        with pytest.raises(UsageError, match="another program"):
            await find_named_prompt(here.app, "theirs", scope)


async def test_the_terminal_sends_what_a_name_stands_for() -> None:
    async with chat([Say("done")]) as here:
        write_command(here.home.hermes / "commands", "hi", "Hello $1")
        assert await run_typed_command(here.desk, "hi", "Anna")
        assert [one.text for one in here.desk.posted] == ["Hello Anna"]
        assert not await run_typed_command(here.desk, "csv-analysis", "sales")  # a skill's line is the message
        assert await run_typed_command(here.desk, "csv-an", "sales")  # the beginning of one name alone
        assert here.desk.posted[-1].text == "/csv-analysis sales"
        assert await run_typed_command(here.desk, "hii", "")
        assert "Did you mean /hi?" in here.desk.text

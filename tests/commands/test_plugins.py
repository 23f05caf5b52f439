"""`hermes plugins`: what there is, enabling and disabling it, and what is off since it has changed."""

import json

from hermes.testing.home import TempHome
from tests.forked_hermes import run_hermes


async def test_a_folder_plug_in_is_made_enabled_changed_and_disabled() -> None:
    with TempHome({}) as home:
        assert "no plug-ins" in (await run_hermes(home, "plugins")).stdout
        made = await run_hermes(home, "plugins", "new", "notes")
        assert made.code == 0 and (home.hermes / "plugins/notes/plugin.yaml").is_file()
        (row,) = json.loads((await run_hermes(home, "plugins", "list", "--json")).stdout)
        assert (row["name"], row["kind"], row["state"], row["is_confined"]) == ("notes", "folder", "off", True)
        shown = (await run_hermes(home, "plugins", "info", "notes")).stdout
        assert "in the sandbox" in shown and "It has the tools" in shown
        refused = await run_hermes(home, "plugins", "enable", "notes")
        assert refused.code != 0 and "was not enabled" in refused.stdout + refused.stderr  # nobody can be asked
        assert (await run_hermes(home, "plugins", "enable", "notes", "--yes")).code == 0
        (row,) = json.loads((await run_hermes(home, "plugins", "list", "--json")).stdout)
        assert row["state"] == "enabled"
        program = home.hermes / "plugins/notes/main.py"
        program.write_text(program.read_text() + "\n# changed\n")
        (row,) = json.loads((await run_hermes(home, "plugins", "list", "--json")).stdout)
        assert row["state"] == "changed"
        assert (await run_hermes(home, "plugins", "doctor")).code == 1
        assert "is off" in (await run_hermes(home, "plugins", "disable", "notes")).stdout
        assert "There is no plug-in" in (await run_hermes(home, "plugins", "enable", "note", "--yes")).stderr


async def test_hooks_are_shown_as_they_are_and_enabled() -> None:
    with TempHome(
        {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"command": "exit 2"}, {"type": "http"}]}]}}
    ) as home:
        shown = (await run_hermes(home, "plugins", "info", "hooks")).stdout
        assert "PreToolUse [Bash]: exit 2" in shown and "all of your rights" in shown and "'http' are not run" in shown
        assert (await run_hermes(home, "plugins", "enable", "hooks", "--yes")).code == 0
        assert (home.hermes / "plugins.json").stat().st_mode & 0o777 == 0o600
        home.write_config({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"command": "exit 0"}]}]}})
        (row,) = json.loads((await run_hermes(home, "plugins", "list", "--json")).stdout)
        assert row["state"] == "changed"


async def test_an_agent_does_not_enable_anything() -> None:
    with TempHome({}) as home:
        said = (await run_hermes(home, "guard", "command", "hermes plugins enable hooks --yes")).stdout
        assert "own-policy" in said or "refused" in said.lower() or "deny" in said.lower()

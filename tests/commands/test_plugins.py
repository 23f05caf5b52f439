"""`hermes plugins`: what there is, enabling and disabling it, and what is off since it has changed."""

import json
import shutil
from pathlib import Path

from hermes.config.plugin_consents import PluginConsents
from hermes.config.trusted_folders import TrustFile
from hermes.plugin_host.folders import list_plugin_folders
from hermes.plugin_host.scaffold import write_example_plugin
from hermes.testing.home import TempHome
from tests.forked_hermes import run_hermes


def list_missed_events(home: TempHome) -> list[str]:
    trust, consents = TrustFile(home.hermes / "trust.json"), PluginConsents(home.hermes / "plugins.json")
    rows = list_plugin_folders(home.hermes, str(home.cwd), trust, consents)
    return [event for row in rows for event in row.missed_events]


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
        assert refused.code != 0 and "Enabling notes needs confirmation: add --yes." in refused.stderr
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


async def test_what_stands_between_a_plug_in_and_its_running_is_said() -> None:
    with TempHome({}) as home:
        assert "no name for a plug-in" in (await run_hermes(home, "plugins", "new", "No_Name")).stderr
        theirs = home.cwd / ".hermes/plugins/theirs"
        theirs.mkdir(parents=True)
        said = (await run_hermes(home, "plugins", "enable", "theirs", "--yes")).stderr
        assert "You do not trust" in said and "hermes trust" in said
        shown = (await run_hermes(home, "plugins", "info", "theirs")).stdout
        assert "You do not trust" in shown and "It runs" not in shown
        settings = home.cwd / ".claude/settings.json"
        settings.parent.mkdir()
        settings.write_text("{}")
        said = (await run_hermes(home, "plugins", "enable", "claude-project", "--yes")).stderr
        assert f"You do not trust this folder, so {settings} is not read" in said and "hermes trust ." in said
        said = (await run_hermes(home, "plugins", "enable", "claude-local", "--yes")).stderr
        assert "There is no plug-in" in said


async def test_a_guard_that_is_broken_or_gone_is_missed_until_it_is_disabled() -> None:
    with TempHome({}) as home:
        await run_hermes(home, "plugins", "new", "notes")
        folder = home.hermes / "plugins/notes"
        manifest = (folder / "plugin.yaml").read_text()
        for change in (lambda: (folder / "plugin.yaml").write_text("no: 1\n"), lambda: shutil.rmtree(folder)):
            (folder / "plugin.yaml").write_text(manifest)
            assert (await run_hermes(home, "plugins", "enable", "notes", "--yes")).code == 0
            change()
            assert (await run_hermes(home, "plugins", "doctor")).code == 1
            assert list_missed_events(home) == ["pre_tool_call"]
            assert "is off" in (await run_hermes(home, "plugins", "disable", "notes")).stdout
            assert not list_missed_events(home)


async def test_what_one_may_do_is_said_in_the_person_s_language() -> None:
    with TempHome({}) as home:
        await run_hermes(home, "plugins", "new", "notes")
        home.write_config({"display": {"language": "zh"}})
        shown = (await run_hermes(home, "plugins", "info", "notes")).stdout
        assert "pre_tool_call" in shown and "\\u" not in shown and "It " not in shown and "Nothing else" not in shown
        (home.hermes / "plugins/notes/plugin.yaml").unlink()
        shown = (await run_hermes(home, "plugins", "info", "notes")).stdout
        assert "plugin.yaml" in shown and "It has no" not in shown


def test_the_example_is_the_one_of_the_documentation(tmp_path: Path) -> None:
    folder = write_example_plugin(tmp_path, "words")
    page = (Path(__file__).parents[2] / "docs/plugins.md").read_text()
    for name, language in (("plugin.yaml", "yaml"), ("main.py", "python")):
        assert f"```{language}\n{(folder / name).read_text()}```\n" in page


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

"""`hermes skills enable` and `disable`, and `/NAME` of skills in other scripts."""

import json

from hermes.testing.home import TempHome
from hermes.testing.script import Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.command_line import run_command_line
from tests.forked_hermes import run_hermes
from tests.skills.skill_folders import put, text

CONFIG = "# mine\nskills:   # what it can look up\n  disabled: [old-one] # not this one\nagent: {max_turns: 9}\n"


def test_a_skill_is_switched_by_the_settings_and_their_comments_stay() -> None:
    with TempHome() as home:
        for name in ("water-plants", "浇花"):
            put(home.hermes / "skills", name)
        config = home.hermes / "config.yaml"
        config.write_text(CONFIG)
        done = run_command_line(home, "skills", "disable", "water-plants", "浇花", "old-one")
        assert done.code == 0, done.stderr
        assert done.stdout.splitlines() == [
            f"water-plants, 浇花: disabled, from the next start on ({config}).",
            "old-one is disabled already.",
        ]
        after = config.read_text()
        assert "# mine" in after and "# what it can look up" in after and "agent: {max_turns: 9}" in after
        states = {row["name"]: row["state"] for row in json_rows(home)}
        assert (states["water-plants"], states["浇花"]) == ("hidden", "hidden")
        done = run_command_line(home, "skills", "enable", "浇花", "old-one", "--json")
        assert json.loads(done.stdout)["changed"] == ["浇花", "old-one"]
        states = {row["name"]: row["state"] for row in json_rows(home)}
        assert (states["water-plants"], states["浇花"]) == ("hidden", "ok")


def json_rows(home: TempHome) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads(run_command_line(home, "skills", "list", "--json").stdout)
    return rows


def test_what_cannot_be_switched_is_said_on_one_line_and_changes_nothing() -> None:
    with TempHome() as home:
        put(home.hermes / "skills", "water-plants")
        config = home.hermes / "config.yaml"
        config.write_text(CONFIG)
        done = run_command_line(home, "skills", "disable", "")
        assert done.code == 1 and "There is no skill ''" in done.stderr
        done = run_command_line(home, "skills", "disable", "water-plant")
        assert (done.code, done.stderr) == (
            1,
            "hermes: There is no skill 'water-plant'. Did you mean 'water-plants'?\n",
        )
        assert config.read_text() == CONFIG
        config.write_text("skills: {disabled: [x\n")
        done = run_command_line(home, "skills", "enable", "x")
        assert done.code == 78 and done.stderr.count("\n") == 1 and config.read_text() == "skills: {disabled: [x\n"
        assert run_command_line(home, "skills", "enable").code == 2


async def test_a_skill_with_a_name_in_another_script_is_used_by_its_name() -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("fine"))) as server:
        with TempHome.for_server(server.url) as home:
            put(home.hermes / "skills", "浇花", text("浇花", body="Look at the soil first."))
            assert (await run_hermes(home, "-z", "/浇花 now")).code == 0
            rows = json.loads((await run_hermes(home, "skills", "list", "--json")).stdout)
        assert "Look at the soil first." in server.requests[0].body.decode()
        assert next(row for row in rows if row["name"] == "浇花")["used"] == 1

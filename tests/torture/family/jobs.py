"""Jobs: reminders in words, where they go, heartbeats, and who may have them."""

import json
import time

from tests.torture.family.world import (
    ADA,
    ANNA,
    D_OWNER,
    OWNER,
    Step,
    World,
    found_tool,
    hold,
    runs,
    says,
    wait_until,
)


async def _listed(world: World) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(await world.hermes("cron", "list", "--json"))
    return found


async def _in_words(world: World) -> None:
    await world.tell("/new", "ew session")
    call = found_tool("cronjob", action="create", name="oven", schedule="in one minute", prompt="SAY: mind the oven!")
    await world.tell(call, "oven")
    (row,) = [one for one in await _listed(world) if one["name"] == "oven"]
    hold("origin" in json.dumps(row) and f"telegram:{OWNER}" in json.dumps(row), json.dumps(row))
    world.notes["oven"] = str(time.time())


async def _oven(world: World) -> None:
    await wait_until(
        lambda: "mind the oven!" in world.telegram.text(OWNER),
        "the reminder did not come",
        lambda: world.telegram.text(OWNER)[-300:],
        seconds=100,
    )
    hold(world.telegram.text(OWNER).count("mind the oven!") == 1, "it came more than once")


async def _by_command(world: World) -> None:
    await world.tell('/cron add "every weekday at 8" SAY: good morning', "origin")
    await world.tell("/cron list", "every weekday at 8")


async def _without_quotes(world: World) -> None:
    await world.tell("/cron add every day at 7: SAY: take my pills", "every day at 7", "origin")
    await world.tell("/cron add SAY: call mum tomorrow at 9:00", "once: ")
    told = await world.tell("/cron add buy milk", "For instance")
    hold("cron add every day at 7: take my pills" in told, told)
    await world.tell("/jobs", "every day at 7")
    await world.tell("/reminders", "tomorrow at 9:00")


async def _run_now(world: World) -> None:
    await world.hermes("cron", "add", "every day at 9", "SAY: the news", "--name", "news", "--deliver", "home")
    await world.hermes("cron", "run", "news")
    await world.until(lambda: "the news" in world.telegram.text(OWNER), "it did not come to the home chat")


async def _to_anna(world: World) -> None:
    made = await world.hermes(
        "cron", "add", "@daily", "SAY: sleep well", "--name", "night", "--deliver", f"telegram:{ANNA}"
    )
    hold("1002" in made, made)
    await world.hermes("cron", "run", "night")
    await world.until(lambda: "sleep well" in world.telegram.text(ANNA), "Anna got nothing")


async def _to_discord(world: World) -> None:
    await world.hermes("cron", "add", "@daily", "SAY: from a job", "--name", "d", "--deliver", f"discord:9{D_OWNER}")
    await world.hermes("cron", "run", "d")
    client = world.people[D_OWNER]
    await client.until(lambda: any("from a job" in one.content for one in client.said()), 25)


async def _silent(world: World) -> None:
    before = len(world.telegram.shown(OWNER))
    await world.hermes("cron", "add", "@daily", "SAY: [SILENT]", "--name", "mute", "--deliver", "home")
    await world.hermes("cron", "run", "mute")
    hold("nothing to say" in await world.hermes("cron", "history", "mute"), "the history does not say it")
    hold(len(world.telegram.shown(OWNER)) == before, "something was delivered")


def _script(world: World, name: str, text: str) -> None:
    folder = world.home.hermes / "scripts"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o700)


async def _heartbeat_idle(world: World) -> None:
    _script(world, "idle.sh", "#!/bin/sh\nexit 1\n")
    requests = len(world.server.requests)
    await world.hermes(
        "cron", "add", "every 30m", "SAY: act", "--name", "heartbeat", "--if", "idle.sh", "--deliver", "home"
    )
    await world.hermes("cron", "run", "heartbeat")
    hold(not any(b"SAY: act" in one.body for one in world.server.requests[requests:]), "the model was asked")
    hold("nothing to say" in await world.hermes("cron", "history", "heartbeat"), "the history does not say it")


async def _heartbeat_busy(world: World) -> None:
    _script(world, "idle.sh", "#!/bin/sh\necho a letter came\n")
    await world.hermes("cron", "run", "heartbeat")
    await world.until(lambda: "act" in world.telegram.shown(OWNER)[-1].text, "it did not speak")
    hold("a letter came" in world.server.requests[-1].body.decode(), "the script's output did not go along")


async def _heartbeat_failed(world: World) -> None:
    _script(world, "idle.sh", "#!/bin/sh\nexit 7\n")
    await world.hermes("cron", "run", "heartbeat", code=None)
    hold("failed" in await world.hermes("cron", "history", "heartbeat"), "the history does not say it")


async def _no_agent(world: World) -> None:
    _script(world, "age.sh", "#!/bin/sh\necho the backup is 3 days old\n")
    requests = len(world.server.requests)
    await world.hermes(
        "cron", "add", "every 2h", "--script", "age.sh", "--no-agent", "--name", "age", "--deliver", "home"
    )
    await world.hermes("cron", "run", "age")
    await world.until(lambda: "3 days old" in world.telegram.text(OWNER), "the output did not come")
    hold(not any(b"3 days old" in one.body for one in world.server.requests[requests:]), "the model was asked")


async def _quiet(world: World) -> None:
    shown = await world.hermes(
        "cron", "add", "every 30m", "SAY: x", "--name", "q", "--quiet-hours", "nonsense", code=None
    )
    hold("22:00-07:00" in shown, shown)
    await world.hermes("cron", "add", "every 30m", "SAY: x", "--name", "q", "--quiet-hours", "22:00-07:00")
    hold("22:00-07:00" in await world.hermes("cron", "show", "q"), "it is not kept")


async def _pause(world: World) -> None:
    await world.hermes("cron", "pause", "news")
    hold("pause" in await world.hermes("cron", "show", "news"), "it is not paused")
    await world.hermes("cron", "resume", "news")


async def _remove(world: World) -> None:
    await world.tell(found_tool("cronjob", action="remove", job_id="news"), "The last tool said")
    hold("news" not in [one["name"] for one in await _listed(world)], "the job is still there")


async def _file(world: World) -> None:
    found = list((world.home.hermes / "cron" / "output").rglob("*.md"))
    hold(any("sleep well" in one.read_text() for one in found), str(found))


async def _not_listed(world: World) -> None:
    told = await world.hermes("sessions", "list")
    hold("sleep well" not in told, told)
    hold("cron" in await world.hermes("sessions", "list", "--all"), "--all does not show it")


STEPS = (
    Step("cron.md", "the model makes a reminder in words", "made at once; to the chat in which it was made", _in_words),
    Step("cron.md#schedules", "/cron add in words, /cron list", "goes to origin; listed", _by_command),
    Step("cron.md", "/cron add without quotes; /jobs, /reminders", "made, or an example; listed", _without_quotes),
    Step("cron.md", "/cron by a user", "jobs are the owner's", says(ANNA, "/cron list", "not for you")),
    Step("cron.md", "/cron by an admin", "jobs are the owner's", says(ADA, "/cron list", "not for you")),
    Step("cron.md#where-it-goes", "`cron run` of a job for home", "the home chat gets it", _run_now),
    Step("cron.md#where-it-goes", "a job for Anna", "her direct chat gets it", _to_anna),
    Step("cron.md#where-it-goes", "a job for a chat of Discord", "discord.py hears it", _to_discord),
    Step(
        "cron.md#where-it-goes",
        "a job for nobody who exists",
        "refused when it is made, with the nearest name",
        runs("cron", "add", "@daily", "x", "--deliver", "telegramm:5", expected=("Did you mean",), code=1),
    ),
    Step("cron.md#a-run", "the answer is [SILENT]", "delivers nothing; the history says so", _silent),
    Step("cron.md#a-run", "a heartbeat whose script ends with 1", "the model is not asked", _heartbeat_idle),
    Step(
        "cron.md#a-run", "a heartbeat whose script ends with 0", "the model is asked, with its output", _heartbeat_busy
    ),
    Step("cron.md#a-run", "a heartbeat whose script ends with 7", "it has failed", _heartbeat_failed),
    Step("cron.md#a-run", "a script with --no-agent", "its output, without a model", _no_agent),
    Step("cron.md#a-run", "--quiet-hours", "kept; nonsense is refused with the form", _quiet),
    Step("cron.md", "`cron pause`, `cron resume`", "nothing is due meanwhile", _pause),
    Step("cron.md", "the model removes a job", "it is gone", _remove),
    Step("cron.md#where-it-goes", "every output", "is a file, too", _file),
    Step(
        "gateway.md#sessions-that-nobody-began",
        "`sessions list`",
        "leaves runs of jobs out; --all shows them",
        _not_listed,
    ),
    Step("cron.md#schedules", "the minute is over", "the reminder comes, once", _oven),
)

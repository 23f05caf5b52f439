"""A backup of the family's bot is restored into another home, and the bot goes on there."""

import json

from tests.torture.family.world import ANNA, D_OWNER, OWNER, Step, World, hold


async def _backup(world: World) -> None:
    await world.tell("/new", "ew session")
    await world.tell("my word is saffron", "heard")
    path = world.home.root / "outside" / "family.zip"
    path.parent.mkdir(exist_ok=True)
    told = await world.hermes("backup", str(path), "--commands-may-read")
    world.notes["zip"] = str(path)
    hold(path.exists() and path.stat().st_mode & 0o777 == 0o600, told)
    hold("key" in told.lower(), f"nobody is told that keys are in it: {told}")


async def _again(world: World) -> None:
    await world.hermes("backup", world.notes["zip"], "--commands-may-read", code=2)


async def _list(world: World) -> None:
    await world.hermes("backup")
    hold("hermes-" in await world.hermes("backup", "list"), "it is not listed")


async def _busy(world: World) -> None:
    await world.hermes("restore", world.notes["zip"], "--yes", code=75)


async def _look(world: World) -> None:
    await world.end()
    other = world.home.root / "elsewhere"
    other.mkdir(mode=0o700)
    world.notes["other"] = str(other)
    told = await world.hermes("restore", world.notes["zip"], "--dry-run", home=str(other))
    hold("config.yaml" in told or "settings" in told.lower(), told)
    hold(not (other / "hermes.db").exists(), "a dry run restored something")


async def _restore(world: World) -> None:
    other = world.notes["other"]
    await world.hermes("restore", world.notes["zip"], "--yes", home=other)
    from pathlib import Path

    hold((Path(other) / "hermes.db").stat().st_mode & 0o777 == 0o600, "others may read the database")
    hold((Path(other) / "config.yaml").exists(), "the settings are missing")


async def _goes_on(world: World) -> None:
    world.home.more["HERMES_HOME"] = world.notes["other"]
    await world.start()
    told = await world.tell("RECALL", "I recall")
    hold("saffron" in told, told)


async def _people_stay(world: World) -> None:
    await world.tell("hello from Anna", "heard", person=ANNA)
    await world.write(D_OWNER, "hello from Discord", "heard")
    await world.quiet("hello", person="6690")
    told = await world.hermes("people", "show", "Anna", home=world.notes["other"])
    hold("user" in told, told)


async def _jobs_stay(world: World) -> None:
    before = await world.hermes("cron", "list", "--json", home=str(world.home.hermes))
    after = await world.hermes("cron", "list", "--json", home=world.notes["other"])
    hold([one["name"] for one in json.loads(before)] == [one["name"] for one in json.loads(after)], after)


async def _sessions_stay(world: World) -> None:
    told = await world.hermes("sessions", "search", "saffron", home=world.notes["other"])
    hold("saffron" in told, told)


async def _nothing_twice(world: World) -> None:
    """What had been answered before the backup is not answered by the restored home."""
    hold(world.telegram.text(OWNER).count("heard my word is saffron") == 1, "an old message was answered again")


async def _doctor(world: World) -> None:
    told = await world.hermes("doctor", "--json", home=world.notes["other"], code=None)
    states = {one["name"]: one["state"] for one in json.loads(told)["checks"]}
    hold(states["database"] == states["permissions"] == "ok", told)


STEPS = (
    Step("backup.md", "`hermes backup FILE`", "0600, and keys are named", _backup),
    Step("backup.md", "the same name again", "an existing file is never replaced", _again),
    Step("backup.md", "`hermes backup`, `backup list`", "those in the folder `backups`", _list),
    Step("backup.md", "`restore` while the gateway runs", "refused with 75", _busy),
    Step("backup.md", "`restore --dry-run` into another home", "shows what it would do, and ends there", _look),
    Step("backup.md", "`restore --yes` into another home", "all of it, yours alone", _restore),
    Step("backup.md", "the gateway on the other home", "goes on with the conversation", _goes_on),
    Step("backup.md", "people on the other home", "are known as before; strangers are not", _people_stay),
    Step("backup.md", "jobs on the other home", "the same", _jobs_stay),
    Step("backup.md", "`sessions search` on the other home", "finds what was said", _sessions_stay),
    Step("backup.md", "what was answered before", "is not answered again", _nothing_twice),
    Step("backup.md", "`hermes doctor` there", "a sound database; nothing that others may read", _doctor),
)

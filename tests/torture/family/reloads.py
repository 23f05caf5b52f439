"""What a reload changes, and when."""

import os
import signal

from tests.torture.family.world import ANNA, BEN, Step, World, hold, order


def _user_tools(*names: str):  # type: ignore[no-untyped-def]
    def change(found: dict[str, object]) -> None:
        gateway = found.setdefault("gateway", {})
        assert isinstance(gateway, dict)
        gateway["roles"] = {"user": {"toolsets": list(names)}}

    return change


async def _model(world: World) -> None:
    await world.tell("my word is rye", "heard")

    def change(found: dict[str, object]) -> None:
        model = found["model"]
        assert isinstance(model, dict)
        model["default"] = "second-model"

    world.configure(change)
    said = await world.hermes("gateway", "reload")
    hold("model" in said, said)
    await world.tell("MODEL", "The model is second-model")
    hold("rye" in await world.tell("RECALL", "I recall"), "the session began anew")


async def _wider(world: World) -> None:
    world.configure(_user_tools("web", "todo", "file"))
    await world.hermes("gateway", "reload")
    told = await world.tell("TOOLS", "Tools", person=ANNA)
    hold("read_file" in told and "terminal" not in told, told)


async def _narrower_in_a_turn(world: World) -> None:
    await world.telegram.say('WAIT reading THEN read_file {"path": "notes.txt"}', person=ANNA)
    await world.asked("WAIT reading")
    world.configure(_user_tools("web", "todo"))
    await world.hermes("gateway", "reload")
    world.model.open("reading")
    await world.until(lambda: "reading is over" in world.telegram.text(ANNA), "the turn did not end")
    hold("taken away" in world.telegram.text(ANNA), world.telegram.text(ANNA)[-400:])
    hold("read_file" not in await world.tell("TOOLS", "Tools", person=ANNA), "it is still offered")


async def _demoted_in_a_turn(world: World) -> None:
    """Another role counts at once, as a reload does: a turn that runs is refused what the role lost."""
    await world.hermes("people", "add", "otto", "--name", "Otto", "--role", "user")
    await world.hermes("people", "link", "otto", "telegram", "1040")
    await world.telegram.say('WAIT otto THEN todo {"todos": []}', person="1040")
    await world.asked("WAIT otto")
    await world.hermes("people", "role", "otto", "guest")
    world.model.open("otto")
    await world.until(lambda: "otto is over" in world.telegram.text("1040"), "the turn did not end")
    hold("taken away" in world.telegram.text("1040"), world.telegram.text("1040")[-400:])
    await world.tell("TOOLS", "Tools: none.", person="1040")


async def _removed_in_a_turn(world: World) -> None:
    await world.telegram.say("WAIT gone", person="1040")
    await world.asked("WAIT gone")
    await world.hermes("people", "remove", "otto", "--yes")
    world.model.open("gone")
    await world.until(lambda: "gone is done" in world.telegram.text("1040"), "the turn did not end")
    await world.quiet("am I still here?", person="1040")


async def _broken(world: World) -> None:
    path = world.home.hermes / "config.yaml"
    kept = path.read_text()
    path.write_text("model: [unclosed\n")
    try:
        await world.hermes("gateway", "reload", code=78)
    finally:
        path.write_text(kept)
    await world.tell("MODEL", "second-model")


async def _one_account(world: World) -> None:
    path = world.home.hermes / "config.yaml"
    kept = path.read_text()

    def change(found: dict[str, object]) -> None:
        platforms = found["platforms"]
        assert isinstance(platforms, dict)
        platforms["slak"] = {"token": "x"}

    world.configure(change)
    try:
        said = await world.hermes("gateway", "reload", code=78)
        hold("Did you mean 'slack'" in said, said)
        await world.tell("still there?", "heard still there?")
    finally:
        path.write_text(kept)
    await world.hermes("gateway", "reload")


async def _only_restart(world: World) -> None:
    world.configure(lambda found: found.update(cron={"max_running": 2}))
    said = await world.hermes("gateway", "reload")
    hold("Only a restart applies: cron.max_running" in said, said)


async def _signal(world: World) -> None:
    def change(found: dict[str, object]) -> None:
        model = found["model"]
        assert isinstance(model, dict)
        model["default"] = "mock-model"

    world.configure(change)
    assert world.process is not None
    os.kill(world.process.pid, signal.SIGHUP)

    async def again() -> str:
        return await world.tell("MODEL", "The model is")

    for _ in range(50):
        if "mock-model" in await again():
            return
    hold(False, "SIGHUP changed nothing")


async def _new_user(world: World) -> None:
    def change(found: dict[str, object]) -> None:
        platforms = found["platforms"]
        assert isinstance(platforms, dict)
        platforms["telegram"]["allow"] = [ANNA, BEN, "1050"]

    await world.quiet("hello", person="1050")
    world.configure(change)
    await world.hermes("gateway", "reload")
    await world.tell("hello again", "heard hello again", person="1050")


async def _turn_limit(world: World) -> None:
    def change(found: dict[str, object]) -> None:
        gateway = found["gateway"]
        assert isinstance(gateway, dict)
        gateway["roles"] = {"guest": {"turns_per_hour": 1}}

    world.configure(change)
    await world.hermes("people", "add", "gina", "--role", "guest")
    await world.hermes("people", "link", "gina", "telegram", "1060")
    await world.hermes("gateway", "reload")
    await world.tell("one", "heard one", person="1060")
    await world.tell("two", "last turn of this hour", person="1060")
    await world.quiet("three", person="1060")
    await world.tell("/usage", "1 of 1", person="1060")


async def _trust(world: World) -> None:
    told = await world.tell(order("terminal", command="echo from the shell"), "from the shell")
    hold(told, "")


STEPS = (
    Step("gateway.md#reload", "another model", "answers from the next turn on; the history stays", _model),
    Step("gateway.md#reload", "users get files", "offered from the next turn on", _wider),
    Step(
        "gateway.md#reload",
        "users lose files while a turn runs",
        "refused in it, and offered no more",
        _narrower_in_a_turn,
    ),
    Step(
        "gateway.md#reload",
        "a user becomes a guest while a turn runs",
        "refused in it, and offered no more",
        _demoted_in_a_turn,
    ),
    Step(
        "people.md#who-is-known",
        "a person is removed while a turn runs",
        "their next message is not answered",
        _removed_in_a_turn,
    ),
    Step("gateway.md#reload", "settings that cannot be read", "78; the old ones go on", _broken),
    Step(
        "gateway.md#reload", "an account that cannot be used", "78, and what is wrong; the others go on", _one_account
    ),
    Step("gateway.md#reload", "`cron.max_running`", "only a restart applies it, which is said", _only_restart),
    Step("gateway.md#reload", "SIGHUP", "as `hermes gateway reload`", _signal),
    Step("people.md#who-is-known", "a line more under `allow`", "they are answered from then on", _new_user),
    Step("people.md#roles", "`turns_per_hour: 1` for guests", "told once; /usage shows it", _turn_limit),
    Step("people.md#roles", "the owner's terminal", "works", _trust),
)

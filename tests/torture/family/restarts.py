"""The gateway dies or is stopped in the middle of things, and nothing is lost or done twice."""

import re
import signal

from tests.torture.family.world import (
    ADA,
    ANNA,
    D_OWNER,
    DAN,
    OWNER,
    PATIENCE,
    Step,
    World,
    hold,
    order,
    says,
    wait_until,
)


async def _killed_in_a_turn(world: World) -> None:
    await world.telegram.say("WAIT soup", person=OWNER)
    await world.asked("WAIT soup")
    await world.end(signal.SIGKILL)
    world.model.open("soup")
    await world.start()
    await world.until(lambda: "soup is done" in world.telegram.text(OWNER), "the turn did not go on")
    await world.tell("/whoami", "every command")
    found = [one for one in world.telegram.shown(OWNER) if "soup is done" in one.text and "↻" not in one.text]
    hold(len(found) == 1, f"answered {len(found)} times")


async def _killed_behind_a_step(world: World) -> None:
    path = world.home.hermes / "workspace" / "counted.txt"
    call = order("terminal", command=f"echo once >> {path}")
    await world.telegram.say(call + "\n\n" + 'DO: todo {"todos": []}', person=OWNER)
    await world.asked("counted.txt", times=2)
    await world.end(signal.SIGKILL)
    await world.start()
    await wait_until(
        lambda: "The last tool said" in world.telegram.shown(OWNER)[-1].text,
        "the turn did not go on",
        lambda: world.telegram.shown(OWNER)[-1].text,
    )
    hold(path.read_text() == "once\n", f"the command ran twice: {path.read_text()!r}")


async def _killed_on_discord(world: World) -> None:
    client = world.people[D_OWNER]
    said = await client.say("WAIT bread")
    await world.asked("WAIT bread")
    await world.end(signal.SIGKILL)
    world.model.open("bread")
    await world.start()
    await client.until(lambda: any("bread is done" in one.content for one in client.said(before=said.id)), PATIENCE)
    await world.write(D_OWNER, "/whoami", "every command")
    found = [one for one in client.said(before=said.id) if "bread is done" in one.content]
    hold(len(found) == 1, f"answered {len(found)} times")


async def _while_away(world: World) -> None:
    await world.end(signal.SIGKILL)
    await world.telegram.say("were you away?", person=ANNA)
    client = world.people[DAN]
    said = await client.say("and here?")
    await world.start()
    await world.until(lambda: "heard were you away?" in world.telegram.text(ANNA), "Anna got no answer")
    await client.until(lambda: any("heard and here?" in one.content for one in client.said(before=said.id)), PATIENCE)


async def _stopped(world: World) -> None:
    await world.telegram.say("WAIT stew", person=OWNER)
    await world.asked("WAIT stew")
    process = world.process
    assert process is not None
    process.send_signal(signal.SIGTERM)
    await wait_until(
        lambda: any("nothing new is taken in" in line for line in world.output[-5:]),
        "it does not say so",
        lambda: str(world.output[-5:]),
        10,
    )
    world.model.open("stew")
    code = await world.end(None)
    hold(code == 0, f"exit code {code}")
    shown = [one.text for one in world.telegram.shown(OWNER)[-3:]]
    hold(any("stew is done" in one for one in shown), f"the running turn had no time to end: {shown}")


async def _status_off(world: World) -> None:
    told = await world.hermes("gateway", "status", code=1)
    hold(told, "")


async def _send_stored(world: World) -> None:
    told = await world.hermes("send", "--to", f"telegram:{OWNER}", "stored first", code=75)
    hold("No gateway runs" in told, told)
    hold("stored first" not in world.telegram.text(OWNER), "it was sent")
    await world.start()
    await world.until(lambda: "stored first" in world.telegram.text(OWNER), "it was not sent by the next gateway")


async def _question_survives(world: World) -> None:
    await world.tell("/new", "ew session")
    known = {one.message_id for one in world.telegram.shown(OWNER) if one.buttons}
    await world.telegram.say(order("terminal", command="git push --force"), person=OWNER)
    await world.until(
        lambda: any(o.buttons and o.message_id not in known for o in world.telegram.shown(OWNER)), "no question came"
    )
    asked = next(o for o in world.telegram.shown(OWNER) if o.buttons and o.message_id not in known)
    await world.end(signal.SIGKILL)
    await world.start()
    await world.press(asked, "No")
    await wait_until(
        lambda: "Not allowed" in world.telegram.messages[asked.message_id].text,
        "the press did nothing",
        lambda: "\n--\n".join(f"{o.message_id} {o.text} {o.buttons}" for o in world.telegram.shown(OWNER)[-5:]),
    )
    await world.until(
        lambda: any("the person said no" in one.text for one in world.telegram.shown(OWNER)[-3:]),
        "the turn did not go on",
    )


async def _restart_by_a_user(world: World) -> None:
    await world.tell("/restart", "not for you", person=ANNA)
    await world.tell("/restart", "not for you", person=ADA)


async def _restart(world: World) -> None:
    await world.tell("/restart", "I am back.")
    await world.tell("good", "heard good")


async def _history(world: World) -> None:
    await world.tell("/new", "ew session")
    await world.tell("my word is leek", "heard")
    await world.end()
    await world.start()
    hold("leek" in await world.tell("RECALL", "I recall"), "the history is gone")


async def _background(world: World) -> None:
    await world.tell("/background WAIT compote", "works")
    await world.asked("WAIT compote")
    await world.end(signal.SIGKILL)
    world.model.open("compote")
    await world.start()
    await world.until(lambda: "worked on “WAIT compote”" in world.telegram.text(OWNER), "nobody was told of its end")
    told = re.findall(r"(/resume \S+) goes on with it", world.telegram.text(OWNER))
    hold(told, world.telegram.text(OWNER)[-400:])
    await world.tell(told[-1], "goes on with")
    hold("compote" in await world.tell("RECALL", "I recall"), "its history is gone")


async def _repeated(world: World) -> None:
    number = await world.telegram.say("only once please", person=ANNA)
    await world.until(lambda: "heard only once please" in world.telegram.text(ANNA), "no answer")
    await world.end(signal.SIGKILL)
    await world.telegram.again(number)
    await world.start()
    await world.tell("next", "heard next", person=ANNA)
    found = [one.text for one in world.telegram.shown(ANNA) if "heard only once please" in one.text]
    hold(len([one for one in found if "↻" not in one]) == 1, f"it was answered twice: {found}")


async def _broken_connection(world: World) -> None:
    await world.discord.drop()
    await world.telegram.drop()
    client = world.people[D_OWNER]
    await client.until(lambda: not client.is_closed(), PATIENCE)
    await world.tell("is the line good?", "heard is the line good?")
    await world.discord.say("and here, line?", person=D_OWNER)
    await client.until(lambda: any("heard and here, line?" in one.content for one in client.said()), PATIENCE)


STEPS = (
    Step(
        "gateway.md#what-is-kept-and-what-is-lost-when",
        "kill -9 while the model answers",
        "answered by the next process, once",
        _killed_in_a_turn,
    ),
    Step(
        "gateway.md#what-is-kept-and-what-is-lost-when",
        "kill -9 behind a command",
        "from its last step; not repeated",
        _killed_behind_a_step,
    ),
    Step(
        "gateway.md#what-is-kept-and-what-is-lost-when",
        "the same on Discord",
        "discord.py hears one answer",
        _killed_on_discord,
    ),
    Step(
        "gateway.md#what-is-kept-and-what-is-lost-when",
        "messages while it is away",
        "fetched and answered",
        _while_away,
    ),
    Step(
        "gateway.md#what-is-kept-and-what-is-lost-when",
        "what was answered is delivered again",
        "answered once",
        _repeated,
    ),
    Step("discord.md#what-is-not-lost", "every connection breaks", "goes on where it was", _broken_connection),
    Step(
        "gateway.md#what-is-kept-and-what-is-lost-when",
        "kill -9 while a question is open",
        "its button still counts",
        _question_survives,
    ),
    Step(
        "gateway.md#in-a-chat",
        "kill -9 while it works in the background",
        "told, and it goes on with /resume ID",
        _background,
    ),
    Step("gateway.md#as-a-service", "SIGTERM while a turn runs", "the turn ends, its answer is sent; code 0", _stopped),
    Step("gateway.md#as-a-service", "`gateway status` of one that does not run", "exit code 1", _status_off),
    Step(
        "gateway.md#sending-from-scripts",
        "`hermes send` without a gateway",
        "stored, said so, sent by the next",
        _send_stored,
    ),
    Step("gateway.md#in-a-chat", "/restart by a user and by an admin", "the owner's", _restart_by_a_user),
    Step("gateway.md#in-a-chat", "/restart by the owner", "it is back, and says so there", _restart),
    Step("gateway.md#what-is-kept-and-what-is-lost-when", "stopped and started", "the conversation goes on", _history),
    Step("gateway.md", "after all of it", "an answer", says(OWNER, "all well?", "heard all well?")),
)

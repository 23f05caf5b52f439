"""Messages that begin elsewhere: home chats, `hermes send`, and the tool `send_message`."""

import json

from tests.torture.family.world import ANNA, BEN, D_OWNER, OWNER, Step, World, found_tool, hold, says


async def _sethome(world: World) -> None:
    await world.tell("/sethome", "home chat now")
    hold("1001" in await world.hermes("config", "get", "platforms.telegram.home"), "it is not kept")


async def _send(world: World, arguments: tuple[str, ...], words: str, chat: str) -> None:
    told = await world.hermes("send", *arguments)
    hold("Delivered" in told, told)
    await world.until(lambda: words in world.telegram.text(chat), f"{words!r} did not arrive")


async def _by_name(world: World) -> None:
    await world.tell("I am here", "heard", person=ANNA)
    await world.hermes("people", "rename", f"telegram:{ANNA}", "Anna")
    await _send(world, ("--to", "Anna", "by your name"), "by your name", ANNA)


async def _piped(world: World) -> None:
    await world.hermes("send", "-", stdin=b"3 tests passed\n")
    await world.until(lambda: "3 tests passed" in world.telegram.text(OWNER), "it did not arrive")


async def _file(world: World) -> None:
    await world.hermes("send", "--to", f"telegram:{OWNER}", "--file", str(world.file("report.pdf", b"%PDF-1.4 x")))
    await world.until(
        lambda: any(f.name == "report.pdf" for one in world.telegram.shown(OWNER) for f in one.files), "no file came"
    )


async def _to_discord(world: World) -> None:
    client = world.people[D_OWNER]
    await world.hermes("send", "--to", f"discord:9{D_OWNER}", "from the machine")
    await client.until(lambda: any("from the machine" in one.content for one in client.said()), 25)


async def _now(world: World) -> None:
    await world.hermes("send", "--now", "right now")
    hold("right now" in world.telegram.text(OWNER), "it did not wait for that")


async def _list(world: World) -> None:
    told = await world.hermes("send", "--list")
    hold(f"telegram:{OWNER}" in told and f"discord:9{D_OWNER}" in told, told)


async def _tool_by_name(world: World) -> None:
    await world.tell("/new", "ew session")
    told = await world.tell(
        found_tool("send_message", target="Anna", message="dinner is **ready**"), "The last tool said"
    )
    hold(f"telegram:{ANNA}" in told, told)
    await world.until(lambda: "dinner is ready" in world.telegram.text(ANNA), "Anna got nothing")


async def _tool_file(world: World) -> None:
    (world.home.hermes / "workspace" / "menu.txt").write_text("figs")
    await world.tell(found_tool("send_message", target="home", file="menu.txt"), "The last tool said")
    await world.until(
        lambda: any(f.name == "menu.txt" for o in world.telegram.shown(OWNER) for f in o.files), "no file"
    )


async def _tool_nobody(world: World) -> None:
    await world.tell(found_tool("send_message", target="Nobody", message="x"), "is not an account, chat or person")


async def _tool_user(world: World) -> None:
    told = await world.tell(found_tool("send_message", target="home", message="psst"), person=BEN)
    await world.tell("/whoami", person=BEN)
    hold("psst" not in world.telegram.text(OWNER) and "It goes to" not in told, told)


async def _unknown_target(world: World) -> None:
    told = await world.hermes("send", "--to", "Ana", "x", code=1)
    hold("Did you mean" in told, told)


async def _json(world: World) -> None:
    told = json.loads(await world.hermes("send", "--list", "--json"))
    hold(f"telegram:{OWNER}" in json.dumps(told), str(told))


async def _no_home(world: World) -> None:
    told = await world.hermes("send", "--to", "discord", "to my own chat")
    hold("Delivered" in told and "the owner's direct chat" in told, told)
    client = world.people[D_OWNER]
    await client.until(lambda: any("to my own chat" in one.content for one in client.said()), 25)
    told = await world.hermes("send", "telegram", "hello", code=2)
    hold("hermes send --to telegram hello" in told, told)


async def _by_command_only(world: World) -> None:
    await world.hermes("people", "add", "lea", "--name", "Lea")
    await world.hermes("people", "link", "lea", "telegram", "1070")
    await world.tell("/start", "Hello", person="1070")
    await _send(world, ("--to", "Lea", "you are known"), "you are known", "1070")


STEPS = (
    Step(
        "gateway.md#sending-from-scripts", "`hermes send` without a home chat", "to the owner, which it says", _no_home
    ),
    Step("gateway.md#sending-from-scripts", "to who has typed commands only", "she gets it", _by_command_only),
    Step("gateway.md#sending-from-scripts", "/sethome by a user", "an owner's", says(ANNA, "/sethome", "not for you")),
    Step("gateway.md#sending-from-scripts", "/sethome by the owner", "the home of its account", _sethome),
    Step(
        "gateway.md#sending-from-scripts",
        "`hermes send`",
        "to the home chat",
        lambda world: _send(world, ("the wash is done",), "the wash is done", OWNER),
    ),
    Step("gateway.md#sending-from-scripts", "`... | hermes send -`", "to the home chat", _piped),
    Step(
        "gateway.md#sending-from-scripts",
        "`hermes send --to telegram:CHAT`",
        "there",
        lambda world: _send(world, ("--to", f"telegram:{ANNA}", "to you alone"), "to you alone", ANNA),
    ),
    Step(
        "cron.md#where-it-goes",
        "`hermes send --to Anna`",
        "the direct chat where she wrote last",
        _by_name,
    ),
    Step("gateway.md#sending-from-scripts", "`hermes send --file`", "the file arrives", _file),
    Step("gateway.md#sending-from-scripts", "`hermes send --to discord:CHAT`", "discord.py hears it", _to_discord),
    Step("gateway.md#sending-from-scripts", "`hermes send --list`", "every chat", _list),
    Step("gateway.md#sending-from-scripts", "`hermes send --list --json`", "the same as JSON", _json),
    Step("cron.md#where-it-goes", "a name that is nearly one", "refused, with the nearest", _unknown_target),
    Step(
        "gateway.md#sending-from-scripts",
        "`hermes send --now`",
        "over a connection of its own",
        _now,
    ),
    Step("gateway.md#in-a-chat", "`send_message` to Anna by name", "she gets it", _tool_by_name),
    Step("gateway.md#in-a-chat", "`send_message` with a file", "the home chat gets it", _tool_file),
    Step("gateway.md#in-a-chat", "`send_message` to nobody", "the model is told", _tool_nobody),
    Step("gateway.md#in-a-chat", "`send_message` by a user without that set", "not for their role", _tool_user),
)

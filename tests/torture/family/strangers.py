"""The first hour: the gateway starts, knows its owner, and is silent to everybody else."""

import json

from tests.torture.family.world import (
    ADA,
    ANNA,
    D_OWNER,
    D_STRANGER,
    DAN,
    GUS,
    OWNER,
    PATIENCE,
    Step,
    World,
    hold,
    runs,
    says,
    unheard,
    wait_until,
    writes,
)

STRANGER = "6660"


async def _start(world: World) -> None:
    await world.start()


async def _status(world: World) -> None:
    told = json.loads(await world.hermes("gateway", "status", "--json"))
    named = json.dumps(told)
    hold(all(f'"{one}"' in named for one in ("telegram", "discord", "webhook")), named)


async def _unknown_on_discord(world: World) -> None:
    client = world.people[D_STRANGER]
    await client.say("hello? is somebody there?")
    await world.write(D_OWNER, "/whoami", "every command")
    hold(not client.said(), "the stranger was answered")


async def _audit(world: World) -> None:
    told = await world.hermes("audit", "--json")
    hold(STRANGER in told and "unknown sender" in told, told[-400:])


async def _typing(world: World) -> None:
    before = len(world.telegram.typings)
    for number in range(10):  # an answer that is there at once needs no such sign
        await world.tell(f"hello {number}", f"heard hello {number}")
        if len(world.telegram.typings) > before:
            return
    hold(False, "nobody saw that it writes")


async def _menu(world: World) -> None:
    await world.until(lambda: world.telegram.commands, "there is no menu")
    hold({"new", "stop", "resume", "help"} <= set(world.telegram.menu()), str(world.telegram.menu()))
    hold(not {"model", "sethome", "people"} & set(world.telegram.menu()), "the menu of all shows what users may not")
    hold(all("-" not in one for one in world.telegram.menu()), "there are hyphens in the menu")


async def _own_menu(world: World, person: str, shown: set[str], hidden: set[str]) -> None:
    for one in (OWNER, ADA):
        await world.tell("/whoami", person=one)
    await wait_until(
        lambda: person in world.telegram.chat_commands,
        f"{person} got no menu of their own",
        lambda: str(list(world.telegram.chat_commands)),
        seconds=70,
    )
    names = {str(one["command"]) for one in world.telegram.chat_commands[person]}
    hold(shown <= names and not hidden & names, str(sorted(names)))


async def _discord_menu(world: World) -> None:
    await world.until(lambda: {"new", "status", "handoff"} <= set(world.discord.menu()), "Discord has no menu")


async def _application_command(world: World) -> None:
    mark = max([one.id for one in world.people[D_OWNER].said()], default=0)
    number = await world.discord.call_command("title", "the garden", person=D_OWNER)
    await world.people[D_OWNER].until(
        lambda: any("the garden" in one.content for one in world.people[D_OWNER].said(before=mark)), PATIENCE
    )
    hold(world.discord.rest.waiting[number] == 4, "the command was not acknowledged by a line")
    hold(world.discord.rest.shown_callbacks[-1] == "/title the garden", str(world.discord.rest.shown_callbacks))


async def _refused_application_command(world: World) -> None:
    await world.write(DAN, "hello from Dan", "heard hello from Dan")
    mark = max(one.id for one in world.people[DAN].said())
    await world.discord.call_command("people", person=DAN)
    await world.people[DAN].until(
        lambda: any("not for you" in one.content for one in world.people[DAN].said(before=mark)), PATIENCE
    )


STEPS = (
    Step("gateway.md#set-up", "`hermes gateway run`", "it says that it runs, and both accounts are connected", _start),
    Step("gateway.md#as-a-service", "`hermes gateway status`", "it runs, with all of its accounts", _status),
    Step(
        "gateway.md#as-a-service",
        "a second gateway is started on the home",
        "exit code 75: another gateway has the home",
        runs("gateway", "run", expected=("gateway runs in this home already",), code=75),
    ),
    Step("people.md", "somebody unknown writes on Telegram", "no answer", unheard("hello?", person=STRANGER)),
    Step("people.md", "somebody unknown types /start", "no answer", unheard("/start", person=STRANGER)),
    Step("people.md", "somebody unknown writes on Discord", "discord.py hears no answer", _unknown_on_discord),
    Step("telegram.md#set-up", "`hermes audit`", "it names the unknown sender's number", _audit),
    Step(
        "gateway.md", "the owner writes on Telegram", "the model answers", says(OWNER, "hello bot", "heard hello bot")
    ),
    Step("discord.md", "the owner writes on Discord", "the model answers", writes(D_OWNER, "hello", "heard hello")),
    Step("telegram.md#what-it-does", "the owner writes", "it is seen to be typing", _typing),
    Step("telegram.md#what-it-does", "the owner presses Start", "it greets", says(OWNER, "/start", "Hello", "/help")),
    Step("telegram.md#what-it-does", "a user presses Start", "it greets", says(ANNA, "/start", "Hello", "/help")),
    Step("telegram.md#what-it-does", "/reload_mcp", "is /reload-mcp", says(OWNER, "/reload_mcp", "MCP")),
    Step("discord.md#what-it-does", "anybody opens the menu", "the application's commands", _discord_menu),
    Step(
        "discord.md#what-it-does",
        "the owner picks /title and fills the field",
        "acknowledged by a line, then answered like one that was typed",
        _application_command,
    ),
    Step(
        "discord.md#what-it-does",
        "a user picks /people",
        "is told that it is not for them",
        _refused_application_command,
    ),
    Step(
        "gateway.md#in-a-chat",
        "a slip: /statsu",
        "answered with the name that was meant",
        says(OWNER, "/statsu", "Did you mean /status?"),
    ),
    Step(
        "commands.md#slash-commands",
        "a line that begins with a space and a slash",
        "is a message",
        says(OWNER, " /status of the garden?", "heard"),
    ),
    Step("people.md#roles", "a guest says hello", "the model answers", says(GUS, "good day", "heard good day")),
)

MENUS = (
    Step("telegram.md#what-it-does", "anybody opens the menu", "what users may use, without hyphens", _menu),
    Step(
        "telegram.md#what-it-does",
        "the owner opens the menu",
        "all commands, within a minute of the first message",
        lambda world: _own_menu(world, OWNER, {"model", "people", "search", "reload_mcp"}, set()),
    ),
    Step(
        "telegram.md#what-it-does",
        "an admin opens the menu",
        "what admins may use, within a minute of the first message",
        lambda world: _own_menu(world, ADA, {"model", "people"}, {"search", "cron", "reload_mcp"}),
    ),
)
"""A minute in all: menus follow within that."""

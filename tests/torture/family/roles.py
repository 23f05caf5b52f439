"""What each role may do, and how that changes."""

from tests.torture.family.pairing import CARL
from tests.torture.family.world import (
    ADA,
    ANNA,
    GUS,
    OWNER,
    Step,
    World,
    hold,
    order,
    runs,
    says,
    unheard,
)

DORA = "1030"


async def _admin_tools(world: World) -> None:
    owner = await world.tell("TOOLS", "Tools: ")
    admin = await world.tell("TOOLS", "Tools: ", person=ADA)
    hold("terminal" in owner and "write_file" in owner, owner)
    hold("terminal" in admin and "write_file" in admin and "memory" in admin, admin)


async def _user_tools(world: World) -> None:
    told = await world.tell("TOOLS", "Tools: ", person=ANNA)
    names = set(told.partition("Tools: ")[2].rstrip(". \n").split(", "))
    hold(names == {"web_search", "web_extract", "todo", "clarify", "memory"}, told)


async def _memories(world: World) -> None:
    await world.tell(order("memory", action="add", target="user", content="Anna likes figs."), person=ANNA)
    folder = world.home.hermes / "memories"
    await world.until(lambda: any("figs" in one.read_text() for one in folder.rglob("*.md")), "nothing was remembered")
    found = [one for one in folder.rglob("*.md") if "figs" in one.read_text()]
    hold(all(one.parent.parent.name == "people" for one in found), str(found))
    hold("figs" in await world.hermes("memory", "list", "--person", f"telegram:{ANNA}"), "the list shows nothing")
    hold("figs" in await world.tell("/memory", "figs", person=ANNA), "")
    hold("figs" not in await world.tell("/memory"), "the owner's memory holds what Anna said")


async def _file_reference(world: World) -> None:
    secret = world.home.hermes / "workspace" / "secret.txt"
    secret.parent.mkdir(exist_ok=True)
    secret.write_text("the number of the safe is 4711")
    await world.tell(f"what is in @file:{secret} ?", "heard", person=ANNA)
    hold(b"4711" not in world.server.requests[-1].body, "a user's message read the owner's file")


async def _dora(world: World) -> None:
    await world.hermes("people", "add", "dora", "--name", "Dora", "--role", "user")
    await world.hermes("people", "link", "dora", "telegram", DORA)
    await world.tell("TOOLS", "web_search", person=DORA)


async def _dora_guest(world: World) -> None:
    await world.hermes("people", "role", "dora", "guest")
    await world.tell("TOOLS", "Tools: none.", person=DORA)


async def _dora_gone(world: World) -> None:
    await world.hermes("people", "remove", "dora", "--yes")
    await world.quiet("and now?", person=DORA)


async def _rename(world: World) -> None:
    await world.hermes("people", "rename", f"telegram:{ANNA}", "Anna")
    hold("user" in await world.hermes("people", "show", "Anna"), "the role is not shown")


async def _audit(world: World) -> None:
    told = await world.hermes("audit", "--person", f"telegram:{ANNA}", "-n", "200", "--json")
    hold('"message"' in told and "figs" not in told, told[-300:])


STEPS = (
    Step("people.md#roles", "the owner's and an admin's tools", "all that are on", _admin_tools),
    Step("people.md#roles", "a user's tools", "web, todo, clarify, memory", _user_tools),
    Step("people.md#roles", "a guest's tools", "none", says(GUS, "TOOLS", "Tools: none.")),
    Step("people.md#roles", "/help by a guest", "shown", says(GUS, "/help", "/new", never="/model")),
    Step("people.md#roles", "/whoami by a guest", "shown", says(GUS, "/whoami", "guest")),
    Step("people.md#roles", "/usage by a guest", "shown", says(GUS, "/usage")),
    Step("people.md#roles", "/new by a guest", "a new session", says(GUS, "/new", "ew")),
    Step("people.md#roles", "/status by a guest", "not for them", says(GUS, "/status", "not for you")),
    Step("people.md#roles", "/people by a user", "not for them", says(ANNA, "/people", "not for you")),
    Step("people.md#roles", "/search by a user", "not for them", says(ANNA, "/search safe", "not for you")),
    Step("people.md#roles", "/title by a user", "about their own session", says(ANNA, "/title figs", "figs")),
    Step(
        "people.md#roles",
        "/search by an admin",
        "others' sessions are not theirs",
        says(ADA, "/search safe", "not for you"),
    ),
    Step(
        "people.md#what-each-person-has-of-their-own",
        "/cron by an admin",
        "jobs are the owner's",
        says(ADA, "/cron", "not for you"),
    ),
    Step(
        "people.md#who-is-known",
        "/people by an admin",
        "everybody who is known",
        says(ADA, "/people", f"telegram:{ANNA}"),
    ),
    Step(
        "people.md#who-is-known",
        "an admin changes whom the settings name",
        "a line there is changed there",
        says(ADA, f"/people role telegram:{ANNA} guest", "settings name"),
    ),
    Step(
        "people.md#who-is-known",
        "an admin removes an admin",
        "only the owner does",
        says(ADA, f"/people remove telegram:{ADA}", "Only the owner"),
    ),
    Step("people.md#who-is-known", "`hermes people rename`, `show`", "under the new name, with the role", _rename),
    Step("people.md#who-is-known", "`hermes people`", "everybody", runs("people", expected=("Anna", "guest", "admin"))),
    Step("people.md#who-is-known", "`people add`, `people link`", "they are answered", _dora),
    Step("people.md#who-is-known", "`people role dora guest`", "counts from their next message on", _dora_guest),
    Step("people.md#who-is-known", "`people remove dora`", "no answer", _dora_gone),
    Step(
        "people.md#what-each-person-has-of-their-own",
        "a user has something remembered",
        "in a folder of their own",
        _memories,
    ),
    Step(
        "people.md#roles", "a user names the owner's file by @file:", "references are held to the role", _file_reference
    ),
    Step("people.md#audit", "`hermes audit --person`", "a row for each message, never its words", _audit),
    Step("people.md#roles", "who was paired as user", "uses what users may", says(CARL, "TOOLS", "web_search")),
    Step("people.md", "an unknown person", "no answer", unheard("me too!", person="6661")),
    Step("commands.md#slash-commands", "/toolsets by the owner", "the sets of tools", says(OWNER, "/toolsets", "web")),
)

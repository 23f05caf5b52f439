"""Sessions of a person: new ones, earlier ones, handed over between Telegram and Discord; work beside them."""

import re

from tests.torture.family.world import ANNA, BEN, D_OWNER, DAN, GROUP, OWNER, Step, World, hold, order, says

_ID = re.compile(r"\b\d{8}_\d{6}_\w+\b")


async def _session(world: World, person: str = OWNER) -> str:
    told = await world.tell("/status", "Session", person=person)
    found = _ID.search(told)
    hold(found, told)
    assert found is not None
    return found[0]


async def _new(world: World) -> None:
    await world.tell("my word is basil", "heard")
    world.notes["first"] = await _session(world)
    await world.tell("/title herbs", "herbs")
    await world.tell("/new", "ew session")
    told = await world.tell("RECALL", "I recall")
    hold("basil" not in told, told)


async def _resume(world: World, name: str) -> None:
    await world.tell("/new", "ew session")
    told = await world.tell(f"/resume {name}", "goes on with")
    hold("herbs" in told and world.notes["first"] in told, told)
    hold("basil" in await world.tell("RECALL", "I recall"), "the session's history is gone")


async def _sessions(world: World) -> None:
    await world.tell("/new", "ew session")
    await world.tell("my word is thyme", "heard")
    await world.telegram.say("/sessions", person=OWNER)
    question = await world.question()
    label = next((label for label, _ in question.buttons if "herbs" in label), "")
    hold(label, str([label for label, _ in question.buttons]))
    await world.press(question, label)
    await world.until(lambda: "goes on with" in world.telegram.shown(OWNER)[-1].text, "the choice did nothing")
    hold("basil" in await world.tell("RECALL", "I recall"), "another session goes on")


async def _nobody_elses(world: World) -> None:
    await world.tell(f"/resume {world.notes['first']}", "There is no session", person=BEN)
    told = await world.tell("/sessions", person=BEN)
    hold("herbs" not in told, told)


async def _owner_not_annas(world: World) -> None:
    await world.tell("I am Anna", "heard", person=ANNA)
    annas = await _session(world, ANNA)
    told = await world.tell(f"/resume {annas}")
    hold("goes on with" not in told, told)


async def _undo(world: World) -> None:
    await world.tell("/new", "ew session")
    await world.tell("my word is mint", "heard")
    await world.tell("my word is sage", "heard")
    await world.tell("/undo")
    told = await world.tell("RECALL", "I recall")
    hold("mint" in told and "sage" not in told, told)
    await world.tell("/undo")


async def _undo_files(world: World) -> None:
    path = world.home.hermes / "workspace" / "undone.txt"
    await world.tell(order("write_file", path=str(path), content="soup"), "The last tool said")
    hold(path.read_text() == "soup", "no file was written")
    await world.tell("/undo")
    hold(not path.exists(), "the file is still there")


async def _redo(world: World) -> None:
    path = world.home.hermes / "workspace" / "undone.txt"
    await world.tell("/redo")
    hold(path.exists(), "the file did not come back")


async def _retry(world: World) -> None:
    await world.tell("MODEL", "The model is mock-model")
    await world.tell("/retry", "The model is mock-model")


async def _branch(world: World) -> None:
    before = await _session(world)
    await world.tell("/branch aside", "aside")
    hold(before != await _session(world), "the chat is where it was")
    await world.tell(f"/resume {before}", "goes on with")


async def _handoff(world: World) -> None:
    await world.tell("/new", "ew session")
    await world.tell("my word is cumin", "heard")
    world.notes["cumin"] = await _session(world)
    before = max(one.id for one in world.people[D_OWNER].said())
    await world.tell("/handoff discord", "Your next message in")
    await world.people[D_OWNER].until(
        lambda: any("handed over" in one.content for one in world.people[D_OWNER].said(before=before)), 25
    )
    told = (await world.write(D_OWNER, "RECALL", "I recall"))[-1].content
    hold("cumin" in told, told)
    body = str(world.server.requests[-1].messages)
    hold("From here on: You are in Discord" in body, "the model is not told that it goes on elsewhere")


async def _handoff_back(world: World) -> None:
    await world.write(D_OWNER, "my word is dill", "heard")
    await world.write(D_OWNER, f"/handoff telegram:{OWNER}", "Your next message in")
    told = await world.tell("RECALL", "I recall")
    hold("cumin" in told and "dill" in told, told)


async def _handoff_terminal(world: World) -> None:
    told = await world.tell("/handoff terminal", "hermes --resume")
    hold(world.notes["cumin"] in told, told)


async def _goes_over(world: World) -> None:
    """The same session, bound to both: it is where its person writes next."""
    await world.write(D_OWNER, f"/resume {world.notes['cumin']}", "goes on with")
    told = await world.tell("RECALL", "I recall")
    hold("cumin" in told, told)
    told = (await world.write(D_OWNER, "RECALL", "I recall"))[-1].content
    hold("cumin" in told, told)
    await world.write(D_OWNER, "/new", "ew session")


async def _busy_elsewhere(world: World) -> None:
    await world.telegram.say("WAIT elsewhere", person=OWNER)
    await world.asked("WAIT elsewhere")
    await world.write(D_OWNER, f"/resume {world.notes['cumin']}", "is at work in telegram")
    world.model.open("elsewhere")
    await world.until(lambda: "elsewhere is done" in world.telegram.text(OWNER), "the turn did not end")


async def _background(world: World) -> None:
    await world.tell("/background WAIT digging", "Background session 1 works")
    await world.tell("beside it", "heard beside it")
    hold("digging" in await world.tell("/background list"), "the list does not show it")
    world.model.open("digging")
    await world.until(lambda: "Background session 1 is done" in world.telegram.text(OWNER), "no answer came")
    await world.until(lambda: "digging is done" in world.telegram.text(OWNER), "no answer came")


async def _background_stop(world: World) -> None:
    await world.tell("/background WAIT endless", "Background session 2 works")
    await world.tell("/background stop 2", "is being stopped")
    await world.until(lambda: "Background session 2 was stopped" in world.telegram.text(OWNER), "it was not stopped")


async def _stop(world: World) -> None:
    await world.telegram.say("WAIT forever", person=OWNER)
    request = await world.asked("WAIT forever")
    await world.telegram.say("/stop", person=OWNER)
    await world.server.wait_closed(request, timeout=25)
    await world.until(lambda: "Stopped" in world.telegram.shown(OWNER)[-1].text, "it does not say so")


async def _stop_anothers(world: World) -> None:
    await world.telegram.say("WAIT dinner", person=ANNA, chat=GROUP, mention=True)
    await world.asked("WAIT dinner")
    await world.tell("/stop", person=BEN, chat=GROUP)
    world.model.open("dinner")
    await world.until(lambda: "dinner is done" in world.telegram.text(GROUP), "Ben stopped Anna's turn")


async def _title_on_discord(world: World) -> None:
    await world.write(DAN, "my word is oak", "heard")
    await world.write(DAN, "/title trees", "trees")
    await world.write(DAN, "/new", "ew session")
    await world.write(DAN, "/resume trees", "goes on with")
    hold("oak" in (await world.write(DAN, "RECALL", "I recall"))[-1].content, "the history is gone")


async def _resume_nothing(world: World) -> None:
    before = await _session(world)
    await world.tell("/resume nothing-like-this", "There is no session")
    hold(before == await _session(world), "the chat is elsewhere")


STEPS = (
    Step("commands.md#slash-commands", "/new", "a new session; the one before is kept", _new),
    Step(
        "gateway.md#sessions-in-chats",
        "/resume by title",
        "a line says where the chat is",
        lambda w: _resume(w, "herbs"),
    ),
    Step("gateway.md#sessions-in-chats", "/resume by id", "the same", lambda w: _resume(w, w.notes["first"])),
    Step(
        "gateway.md#sessions-in-chats",
        "/resume by the id's beginning",
        "the same",
        lambda w: _resume(w, w.notes["first"][:-2]),
    ),
    Step("gateway.md#sessions-in-chats", "/resume of what is none", "says why nothing changed", _resume_nothing),
    Step("gateway.md#sessions-in-chats", "/sessions, and a button", "the newest ones as buttons", _sessions),
    Step(
        "gateway.md#sessions-in-chats",
        "/resume and /sessions by somebody else",
        "neither listed nor opened",
        _nobody_elses,
    ),
    Step(
        "people.md#what-each-person-has-of-their-own",
        "the owner resumes a user's session",
        "nobody else opens it",
        _owner_not_annas,
    ),
    Step("undo.md", "/undo", "the last turn is taken back", _undo),
    Step("undo.md", "/undo of a turn that wrote a file", "what it did to files, too", _undo_files),
    Step("undo.md", "/redo", "it is done again", _redo),
    Step("commands.md#slash-commands", "/retry", "the same is asked again", _retry),
    Step("commands.md#slash-commands", "/branch", "a copy goes on; this one stays", _branch),
    Step(
        "commands.md#slash-commands",
        "/status",
        "the session, and the model",
        says(OWNER, "/status", "Session", "mock-model"),
    ),
    Step("commands.md#slash-commands", "/usage", "tokens", says(OWNER, "/usage", "oken")),
    Step("gateway.md#sessions-in-chats", "/handoff discord", "Discord is told, and goes on there", _handoff),
    Step("gateway.md#sessions-in-chats", "/handoff back to Telegram", "goes on with all of it", _handoff_back),
    Step("gateway.md#sessions-in-chats", "/handoff terminal", "the line to type", _handoff_terminal),
    Step("gateway.md#sessions-in-chats", "one session in two chats", "it is where its person writes next", _goes_over),
    Step(
        "gateway.md#sessions-in-chats",
        "/resume while a turn runs elsewhere",
        "says so after five seconds",
        _busy_elsewhere,
    ),
    Step(
        "gateway.md#sessions-in-chats",
        "/handoff to where they never wrote",
        "write there once",
        says(BEN, "/handoff discord", "You have not written"),
    ),
    Step(
        "gateway.md#in-a-chat", "/background, a message, /background list", "works beside the conversation", _background
    ),
    Step("gateway.md#in-a-chat", "/background stop 2", "it ends", _background_stop),
    Step("gateway.md#in-a-chat", "/stop", "the turn ends, and the request with it", _stop),
    Step(
        "people.md#groups", "/stop by somebody else in the group", "stops nobody's turn but one's own", _stop_anothers
    ),
    Step("gateway.md#sessions-in-chats", "/title, /new, /resume on Discord", "the same for a user", _title_on_discord),
)

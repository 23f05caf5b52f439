"""Questions with buttons: who is asked, who may answer, and what each answer does."""

import json

import yaml

from tests.torture.family.world import (
    ADA,
    ANNA,
    BEN,
    D_OWNER,
    GROUP,
    OWNER,
    PATIENCE,
    Step,
    World,
    hold,
    order,
    wait_until,
)

_PUSH = order("terminal", command="git push --force")
_OTHER = order("terminal", command="redis-cli FLUSHALL")


async def _ask(world: World, person: str = OWNER, chat: str = "", what: str = _PUSH):  # type: ignore[no-untyped-def]
    where = chat or person
    known = {one.message_id for one in world.telegram.shown(where) if one.buttons}
    await world.telegram.say(what, person=person, chat=chat, mention=bool(chat))

    def fresh() -> list[object]:
        return [one for one in world.telegram.shown(where) if one.buttons and one.message_id not in known]

    await wait_until(fresh, "no question came", lambda: world.telegram.text(where)[-400:])
    return fresh()[-1]


async def _answered(world: World, chat: str, before: int) -> str:
    def since() -> str:
        return "\n".join(one.text for one in world.telegram.shown(chat)[before:])

    await wait_until(lambda: "The last tool said" in since(), "the turn did not end", since)
    return since()


async def _no(world: World) -> None:
    before = len(world.telegram.shown(OWNER))
    asked = await _ask(world)
    await world.press(asked, "No")
    await _answered(world, OWNER, before)
    shown = world.telegram.messages[asked.message_id]
    hold("Not allowed" in shown.text and not shown.buttons, shown.text)
    await world.until(lambda: "(Not done: you said no.)" in world.telegram.text(OWNER), "it does not say so")


async def _once(world: World) -> None:
    before = len(world.telegram.shown(OWNER))
    asked = await _ask(world)
    await world.press(asked, "Allow once")
    await _answered(world, OWNER, before)
    hold("Allowed" in world.telegram.messages[asked.message_id].text, "the question does not show the answer")
    before = len(world.telegram.shown(OWNER))
    await world.press(await _ask(world), "No")
    await _answered(world, OWNER, before)


async def _session(world: World) -> None:
    before = len(world.telegram.shown(OWNER))
    await world.press(await _ask(world), "Allow for this session")
    await _answered(world, OWNER, before)
    told = await world.tell(_PUSH, "The last tool said")
    hold("[No]" not in told, "it asks again in the same session")
    await world.tell("/new", "ew session")
    before = len(world.telegram.shown(OWNER))
    await world.press(await _ask(world), "No")
    await _answered(world, OWNER, before)


async def _always(world: World) -> None:
    before = len(world.telegram.shown(OWNER))
    await world.press(await _ask(world, what=_OTHER), "Allow always")
    await _answered(world, OWNER, before)
    await world.tell("/new", "ew session")
    told = await world.tell(_OTHER, "The last tool said")
    hold("[No]" not in told, told)
    kept = yaml.safe_load((world.home.hermes / "config.yaml").read_text())
    hold("FLUSHALL" in json.dumps(kept) or "redis" in json.dumps(kept), "config.yaml does not hold it")


async def _by_words(world: World) -> None:
    before = len(world.telegram.shown(OWNER))
    await _ask(world)
    await world.telegram.say("/deny", person=OWNER)
    await _answered(world, OWNER, before)


async def _waits(world: World) -> None:
    before = len(world.telegram.shown(OWNER))
    asked = await _ask(world)
    await world.tell("what is the weather?", "The question above waits")
    told = await world.tell("/whoami", "every command")
    hold("question above" not in told, told)
    await world.press(asked, "No")

    def heard() -> bool:
        return any("what is the weather?" in one.text for one in world.telegram.shown(OWNER)[before:])

    await world.until(heard, "what was written is not answered")


async def _second_person(world: World) -> None:
    before = len(world.telegram.shown(GROUP))
    asked = await _ask(world, chat=GROUP)
    for person in (BEN, ADA):
        await world.press(asked, "Allow once", person)
    await world.until(
        lambda: (
            "\n".join(o.text for o in world.telegram.shown(GROUP)[before:]).count("not yours to answer") == 2
            or len([one for one in world.telegram.answered if "not yours" in str(one["text"])]) == 2
        ),
        "others' presses are not refused",
    )
    await world.press(asked, "No")
    await _answered(world, GROUP, before)
    told = await world.hermes("audit", "-n", "30", "--json")
    hold("refused" in told and "answered" in told, told[-300:])


def _terminal_for_users(found: dict[str, object]) -> None:
    roles = {"user": {"toolsets": ["web", "todo", "clarify", "memory", "terminal"]}}
    gateway = found.setdefault("gateway", {})
    assert isinstance(gateway, dict)
    gateway["roles"] = roles


async def _admin_for_a_user(world: World) -> None:
    world.configure(_terminal_for_users)
    await world.hermes("gateway", "reload")
    before = len(world.telegram.shown(GROUP))
    asked = await _ask(world, ANNA, GROUP)
    await world.press(asked, "Allow once", ANNA)
    await world.press(asked, "Allow once", BEN)
    await world.press(asked, "No", ADA)
    await _answered(world, GROUP, before)
    hold("Not allowed" in world.telegram.messages[asked.message_id].text, "a user allowed it")


async def _direct_chat(world: World) -> None:
    told = await world.tell(_PUSH, "The last tool said", person=ANNA)
    hold("[Allow" not in told, told)


async def _on_discord(world: World) -> None:
    client = world.people[D_OWNER]
    said = await client.say(_PUSH)
    await client.until(lambda: any(one.components for one in client.said(before=said.id)), PATIENCE)
    (asked,) = [one for one in client.said(before=said.id) if one.components]
    labels = {b.label: b.custom_id for row in asked.components for b in row.children}  # type: ignore[union-attr]
    hold({"Allow once", "Allow for this session", "No"} <= set(labels), str(labels))
    await world.discord.press(str(asked.id), str(labels["No"]), person=D_OWNER)
    await client.until(
        lambda: any("The last tool said" in one.content for one in client.said(before=said.id)), PATIENCE
    )
    hold(6 in world.discord.rest.waiting.values(), "the press was not acknowledged")
    await client.until(lambda: not client.heard[asked.id].components, PATIENCE)
    hold("Not allowed" in client.heard[asked.id].content, client.heard[asked.id].content)


async def _clarify(world: World) -> None:
    before = len(world.telegram.shown(OWNER))
    await world.telegram.say(order("clarify", question="Which oven?", choices=["the old", "the new"]), person=OWNER)
    await world.until(
        lambda: "Which oven?" in "".join(o.text for o in world.telegram.shown(OWNER)[before:]), "no question"
    )
    asked = next(one for one in world.telegram.shown(OWNER)[before:] if "Which oven?" in one.text)
    hold([label for label, _ in asked.buttons][:2] == ["the old", "the new"] or "2. the new" in asked.text, asked.text)
    await world.tell("2", "the new")


async def _stop_drops(world: World) -> None:
    asked = await _ask(world)
    await world.tell("/stop", "topped")
    await world.until(lambda: not world.telegram.messages[asked.message_id].buttons, "the question still has buttons")


STEPS = (
    Step("safety.md", "the owner presses No", "not done; the question shows the answer", _no),
    Step("safety.md", "Allow once", "done, and asked again the next time", _once),
    Step("safety.md", "Allow for this session", "not asked again in this session, but in the next", _session),
    Step("safety.md", "Allow always", "kept in config.yaml, and never asked again", _always),
    Step("people.md#groups", "/deny is typed", "counts as the button does", _by_words),
    Step("gateway.md#in-a-chat", "a message while a question is open", "it waits; a line says so, once", _waits),
    Step(
        "people.md#groups",
        "a user and an admin press the owner's question",
        "everybody else is refused",
        _second_person,
    ),
    Step(
        "people.md#groups",
        "users press a user's question, then an admin",
        "only the admin's press counts",
        _admin_for_a_user,
    ),
    Step("people.md#groups", "a question in a direct chat of who may not answer", "refused", _direct_chat),
    Step(
        "discord.md#what-it-does",
        "a question on Discord",
        "discord.py sees its buttons; a press is acknowledged",
        _on_discord,
    ),
    Step(
        "gateway.md#one-session-in-two-places",
        "the model asks which one (`clarify`)",
        "answered by its number",
        _clarify,
    ),
    Step("gateway.md#in-a-chat", "/stop while a question is open", "the question is closed", _stop_drops),
)

"""`session_search` through the real loop: what was said in other sessions is found, read on in, and listed."""

import re
from collections.abc import Mapping
from pathlib import Path

from hermes.core.messages import Message, Provenance, Role, Source, TextPart, ToolResultPart, user_message
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.records import NewSession
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock

WEB = Provenance(Source.WEB, "https://evil.example/page")


def said(text: str) -> Message:
    return Message(role=Role.ASSISTANT, parts=(TextPart(text=text),))


async def fill(home: TempHome) -> dict[str, list[int]]:
    """Three sessions: two of the person's, one into which a web page came."""
    store = await Store.open(home.hermes, SystemClock())
    ids = {}
    for name, messages in {
        "s_boiler": [user_message("The boiler makes noise"), said("Bleed the radiators first, then check pressure.")]
        + [user_message(f"step {number}") for number in range(30)],
        "s_茶": [user_message("我喜欢龙井茶"), said("好的，记住了。")],
        "s_web": [
            user_message("read that page about boilers"),
            Message(
                role=Role.TOOL, parts=(ToolResultPart("c", "web_extract", "boiler boiler boiler", provenance=WEB),)
            ),
        ],
    }.items():
        await store.sessions.create(NewSession(id=name, title=f"about {name}"))
        ids[name] = await store.messages.append(name, 1, None, messages)
    await store.close()
    return ids


async def ask(*calls: Mapping[str, object]) -> list[str]:
    """What the tool gives back for these calls, one after the other in a session of their own."""
    replies: list[Reply] = [Say(calls=(Call("session_search", dict(one)),)) for one in calls]
    async with ScriptedServer([*replies, Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            await fill(home)
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                await actor.post(InboundMessage(text="boiler, what did I say of it?", cwd=str(home.cwd)))
        found = server.requests[-1].results
        return list(found.values())


async def test_words_find_sessions_and_the_own_one_is_left_out() -> None:
    found, chinese, nothing = await ask({"query": "boiler noise"}, {"query": "龙井"}, {"query": "zebra"})
    assert "s_boiler" in found and "The boiler makes noise" in found and "begins" not in found.split("s_boiler")[0]
    assert "what did I say of it" not in found
    assert "s_茶" in chinese and "我喜欢龙井茶" in chinese
    assert nothing.startswith("Nothing was found")


async def test_a_session_is_read_around_a_hit_and_seen_at_a_glance() -> None:
    (found,) = await ask({"query": "radiators"})
    number = int(re.findall(r"#(\d+) assistant", found)[0])
    read, glance, wrong = await ask(
        {"session_id": "s_boiler", "around_message_id": number, "limit": 1},
        {"session_id": "s_boiler"},
        {"session_id": "s_boiler", "around_message_id": 10_000},
    )
    assert "The boiler makes noise" in read and "Bleed the radiators" in read and "step 0" in read
    assert "step 1" not in read
    assert "step 29" in glance and "The boiler makes noise" in glance and "step 15" not in glance
    assert "has no message 10000" in wrong


async def test_sessions_are_listed_newest_first() -> None:
    (listed,) = await ask({})
    order = [listed.index(name) for name in ("s_web", "s_茶", "s_boiler")]
    assert order == sorted(order)


async def test_strangers_words_stay_strangers_words() -> None:
    """What a page said in another session is fenced, and counts as text of that page's host here too."""
    web, own = await ask({"query": "boiler page"}, {"query": "龙井"})
    assert "evil.example" in web and "untrusted" in web.split("\n")[0]
    assert "untrusted" not in own.split("\n")[0]


async def test_the_window_says_how_much_is_read_around_a_message() -> None:
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url) as home:
            ids = await fill(home)
    middle = ids["s_boiler"][12]
    around = {"session_id": "s_boiler", "around_message_id": middle}
    answers = await ask(
        around | {"window": 1}, around | {"window": 99}, around | {"limit": 2}, around | {"window": -5}, around
    )
    assert [len(re.findall(r"^#\d+ ", text, re.MULTILINE)) for text in answers] == [3, 32, 5, 3, 11]


async def test_a_phrase_in_quotes_is_found_as_it_is_written() -> None:
    right, wrong, chinese = await ask({"query": '"makes noise"'}, {"query": '"noise makes"'}, {"query": "「龙井茶」"})
    assert "The boiler makes noise" in right and "Nothing was found" in wrong and "我喜欢龙井茶" in chinese


async def test_another_profile_is_searched_where_the_settings_name_it() -> None:
    wanted = {"query": "turnips", "profile": "work"}
    calls = [
        wanted,
        {"query": "turnips", "profile": "home"},
        {"query": "turnips", "profile": "../work"},
        {"query": "turnips"},
    ]
    replies: list[Reply] = [Say(calls=(Call("session_search", one),)) for one in calls]
    for allowed in ([], ["work", "empty"]):
        empty = Say(calls=(Call("session_search", {"query": "x", "profile": "empty"}),))
        async with ScriptedServer([*replies, empty, Say("done")]) as server:
            with TempHome.for_server(server.url, more_config={"memory": {"search_profiles": allowed}}) as home:
                folder = Path(home.environ["HOME"]) / ".hermes/profiles/work"
                folder.mkdir(parents=True)
                store = await Store.open(folder, SystemClock())
                await store.sessions.create(NewSession(id="w", title="at work"))
                await store.messages.append("w", 1, None, [user_message("we sell turnips")])
                await store.close()
                async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                    actor = await app.open_session()
                    await actor.post(InboundMessage(text="look", cwd=str(home.cwd)))
            found = list(server.requests[-1].results.values())
        assert ("we sell turnips" in found[0]) is bool(allowed)
        assert ("may not be searched" in found[0] and "memory.search_profiles" in found[0]) is not bool(allowed)
        assert "may not be searched" in found[1] and "cannot be a profile's name" in found[2]
        assert "Nothing was found" in found[3]
        assert ("has no conversations" if allowed else "may not be searched") in found[4]

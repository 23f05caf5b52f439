"""`session_search` through the real loop: what was said in other sessions is found, read on in, and listed."""

import re
from collections.abc import Mapping

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

"""The full chat and a chat platform share a session, whichever process holds it."""

from contextlib import AsyncExitStack

from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.tmux import NEEDED, in_tmux
from tests.gateway.gateway_rig import home_for, running
from tests.vendors.ntfy import Fake


@NEEDED
async def test_the_full_chat_takes_part_in_a_session_of_the_gateway_and_goes_on_without_it() -> None:
    script = [
        Say("for the chat"),
        Say("for both of us"),
        Say(calls=(Call("terminal", {"command": "git push --force"}),)),
        Say("it was not allowed"),
        Say("said in the chat"),
        Say("alone now"),
        Say("in a new one"),
    ]
    async with ScriptedServer(script) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with AsyncExitStack() as gateway:
                await gateway.enter_async_context(running(home))
                await chat.say("hello there")
                await chat.until(chat.shown)
                async with in_tmux(home, "-c") as screen:
                    await screen.shows("you take part in it", "for the chat", "mock-model")
                    await screen.enter("typed on the screen")
                    await screen.answers("for both of us")
                    await chat.until(lambda: "for both of us" in chat.text())
                    await screen.enter("reset it")
                    await screen.shows("Run this command?", "git push --force")
                    await chat.say("/deny")
                    await screen.answers("answered elsewhere: refused", "it was not allowed")
                    await chat.say("from the chat")
                    await screen.answers("said in the chat")
                    await screen.enter("/title Two places")
                    await screen.shows("Two places")
                    await gateway.aclose()
                    await screen.shows("it goes on here")
                    await screen.enter("are you there?")
                    await screen.answers("alone now")
                    await screen.enter("/new")
                    await screen.shows("A new session")
                    await screen.enter("hello again")
                    await screen.answers("in a new one")
                    await screen.leave()


@NEEDED
async def test_a_chat_takes_part_in_a_session_of_the_full_chat() -> None:
    script = [Say("for the chat"), Say("for the screen"), Say("for both of us"), Say("by the gateway")]
    async with ScriptedServer(script) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("hello there")
                await chat.until(chat.shown)
            async with in_tmux(home, "-c") as screen:
                await screen.shows("for the chat")
                async with running(home):
                    await screen.enter("typed on the screen")
                    await screen.answers("for the screen")
                    await chat.say("from the chat")
                    await screen.answers("from the chat", "for both of us")
                    await chat.until(lambda: "for both of us" in chat.text())
                    await screen.leave()
                    await chat.say("and now?")
                    await chat.until(lambda: "by the gateway" in chat.text())

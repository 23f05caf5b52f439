"""The full chat in a real terminal: turns with tools, questions, and control while it works."""

from tmux import NEEDED, Tmux, in_tmux

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Delivery, Ending, Reply, Say
from hermes.testing.server import ScriptedServer

pytestmark = NEEDED
PROMPT = "›"


async def test_a_turn_with_tools_a_diff_and_the_way_back() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("write_file", {"path": "poem.txt", "content": "one\ntwo\nthree\n"}),)),
        Say(calls=(Call("patch", {"path": "poem.txt", "old_string": "two", "new_string": "2"}),)),
        Say("The poem is *written*."),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("Hermes", PROMPT)
                await screen.enter("write a poem")
                shown = await screen.shows("The poem is")
                assert "poem.txt" in shown
                print(shown)
                await screen.press("C-d")
                shown = await screen.ends()
                print(shown)

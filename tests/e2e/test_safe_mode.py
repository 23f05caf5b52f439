"""Starts that leave out what a person has set up: for a broken config.yaml, and to find what is to blame."""

import json

from hermes.testing.home import TempHome
from hermes.testing.script import Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.e2e.tmux import NEEDED, in_tmux
from tests.forked_hermes import run_hermes

RULES = "Always say grapefruit.\n"


def arrange(home: TempHome, server: ScriptedServer) -> list[str]:
    """Fill a home with rules, and return the options that name the model."""
    (home.cwd / "AGENTS.md").write_text(RULES)
    (home.hermes / "SOUL.md").write_text("You are a lighthouse.\n")
    (home.hermes / "memories").mkdir(exist_ok=True)
    (home.hermes / "memories/MEMORY.md").write_text("The person likes turnips.\n")
    return ["--provider", "custom", "--base-url", server.url, "-m", "own-model", "--no-gateway"]


async def test_a_broken_config_does_not_stand_in_the_way() -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("fine"))) as server:
        with TempHome() as home:
            options = arrange(home, server)
            (home.hermes / "config.yaml").write_text("model: [not\n  closed: {\n")
            assert (await run_hermes(home, "-z", "hi", *options)).code == 78
            for safe in ("--ignore-user-config", "--safe-mode"):
                done = await run_hermes(home, "-z", "hi", safe, *options)
                assert (done.code, done.stdout) == (0, "fine\n"), done.stderr
                first, *others = done.stderr.splitlines()
                assert first == "hermes: config.yaml is not read, so the rules and caps in it do not hold."
                assert ("AGENTS.md is not used" in "".join(others)) is (safe == "--ignore-user-config")
            assert (home.hermes / "config.yaml").read_text().startswith("model: [not")


async def test_what_each_option_leaves_out() -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("fine"))) as server:
        with TempHome() as home:
            options = arrange(home, server)
            await run_hermes(home, "trust", str(home.cwd))
            server_of_tools = {"mcp_servers": {"ours": {"command": "/bin/false"}}}
            config = {"model": {"temperature": 0.25}, "toolsets": ["todo", "memory"], **server_of_tools}
            (home.hermes / "config.yaml").write_text(json.dumps(config))

            async def ask(*safe: str) -> tuple[set[str], str]:
                done = await run_hermes(home, "-z", "hi", *safe, *options)
                assert done.code == 0, done.stderr
                body = server.requests[-1].body.decode()
                words = ("grapefruit", "lighthouse", "turnips", '"temperature":0.25')
                return {word for word in words if word in body}, done.stderr

            assert await ask() == ({"grapefruit", "lighthouse", "turnips", '"temperature":0.25'}, "")
            assert (await ask("--ignore-user-config"))[0] == {"grapefruit", "lighthouse", "turnips"}
            assert (await ask("--ignore-rules"))[0] == {'"temperature":0.25'}
            assert (await ask("--safe-mode"))[0] == set()
            assert b"session_search" not in server.requests[-1].body


async def test_a_safe_start_asks_the_model_that_is_set_up() -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("fine"))) as server:
        with TempHome.for_server(server.url, more_config={"toolsets": ["todo"]}) as home:
            done = await run_hermes(home, "-z", "hi", "--safe-mode")
            assert (done.code, done.stdout) == (0, "fine\n")
            assert "Of config.yaml only the model is used" in done.stderr
            assert server.requests[0].json["model"] == "mock-model"
            assert "terminal" in server.requests[0].tool_names


async def test_a_safe_start_knows_the_servers_that_a_person_named() -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("fine"))) as server:
        with TempHome() as home:
            named = {"my-box": {"base_url": server.url, "api_key": "-"}}
            config = {"model": {"provider": "my-box", "default": "own-model"}, "providers": named}
            (home.hermes / "config.yaml").write_text(json.dumps(config))
            done = await run_hermes(home, "-z", "hi", "--safe-mode")
            assert (done.code, done.stdout) == (0, "fine\n"), done.stderr
            assert server.requests[0].json["model"] == "own-model"


@NEEDED
async def test_the_full_chat_starts_on_a_broken_config() -> None:
    async with ScriptedServer([Say("Hello from safety.")]) as server:
        with TempHome() as home:
            options = arrange(home, server)
            (home.hermes / "config.yaml").write_text("model: [not\n")
            async with in_tmux(home, "--safe-mode", *options, size=(110, 30)) as screen:
                await screen.shows("config.yaml is not read", "own-model", "›")
                await screen.enter("hi")
                await screen.shows("Hello from safety.")
                await screen.press("C-d")
                await screen.ends()


async def test_keys_that_nothing_acts_on_are_named_once() -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("fine"))) as server:
        more = {"kanban": {"on": True}, "privacy": {"voice": "x"}}
        with TempHome.for_server(server.url, more_config=more) as home:
            first = await run_hermes(home, "-z", "hi")
            assert (first.code, first.stdout) == (0, "fine\n")
            said = "hermes: config.yaml: this version does not act on kanban, privacy. Said once;"
            assert first.stderr.splitlines() == [f"{said} `hermes config check` says it again."]
            assert (await run_hermes(home, "-z", "hi")).stderr == ""
            config = home.hermes / "config.yaml"
            config.write_text(config.read_text() + "\npets: {}\ndashboard: {}\n")
            later = (await run_hermes(home, "-z", "hi")).stderr
            assert "does not act on dashboard." in later and "kanban" not in later


@NEEDED
async def test_the_full_chat_says_that_prompts_are_cached() -> None:
    async with ScriptedServer([Say("One.")]) as server:
        model = {"provider": "anthropic", "default": "claude-sonnet-5", "base_url": server.url, "api_key": "k" * 12}
        with TempHome({"model": model}) as home:
            async with in_tmux(home, size=(110, 30)) as screen:
                await screen.shows("Prompt caching: on (5m)", "›")
                await screen.press("C-d")
                await screen.ends()

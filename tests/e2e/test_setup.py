"""`hermes setup`, `hermes model`: from nothing to a working model, on a real terminal and without one."""

import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import yaml

from hermes.admin.models.setup import normalize_address
from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.script import Fail, Reply, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.screen import Screen, on_a_terminal
from tests.forked_hermes import run_hermes
from tests.vendors.telegram import Fake

ENGLISH = {"LANG": "en_US.UTF-8"}
SETUP = (
    "import sys; from hermes.admin.models.setup import LocalModelServer; from hermes.cli.commands.setup "
    "import run;"
    "sys.exit(run(sys.argv[2:], servers=(LocalModelServer('{name}', 'My server', {port}),) if {port} else ()))"
)


def new_key() -> str:
    return "sk-test-" + secrets.token_hex(20)


async def hermes(home: TempHome, *arguments: str, stdin: bytes = b"") -> ProgramResult:
    return await run_hermes(home, *arguments, stdin=stdin)


def settings(home: TempHome) -> dict[str, dict[str, object]]:
    file = home.hermes / "config.yaml"
    loaded: dict[str, dict[str, object]] = yaml.safe_load(file.read_text("utf-8")) if file.exists() else {}
    return loaded


@asynccontextmanager
async def setting_up(home: TempHome, port: int = 0, *arguments: str, name: str = "vllm") -> AsyncIterator[Screen]:
    program = ("-c", SETUP.format(port=port, name=name))
    async with on_a_terminal(home, "setup", *arguments, program=program) as screen:
        yield screen


async def test_from_nothing_to_a_working_model_by_enter_alone() -> None:
    async with ScriptedServer([Say("ready"), Say("Hello.")]) as server:
        port = int(server.url.rsplit(":", 1)[1].removesuffix("/v1"))
        with TempHome(more=ENGLISH) as home:
            async with setting_up(home, port) as screen:
                await screen.shows_next("1. My server at http://127.0.0.1")
                await screen.shows_next("A number: [1]")
                screen.type("\n")
                await screen.shows_next("It answered in")
                await screen.shows_next("Cost: nothing.")
                await screen.shows_next("[Y/n]")
                screen.type("\n")
                await screen.shows_next("Anything else?")
                screen.type("\n")
                await screen.shows_next("What next:")
                assert await screen.end() == 0
            assert settings(home)["model"] == {
                "default": "mock-model",
                "provider": "vllm",
                "base_url": f"http://127.0.0.1:{port}/v1",
            }
            assert (await hermes(home, "-z", "hi")).stdout == "Hello.\n"
            shown = await hermes(home, "model")
            assert "mock-model" in shown.stdout and "config.yaml (model.provider)" in shown.stdout


async def test_a_typed_key_goes_into_env_and_is_shown_nowhere() -> None:
    key = new_key()
    async with ScriptedServer([Say("ready")], api_key=key) as server:
        with TempHome(more={**ENGLISH, "OPENROUTER_BASE_URL": server.url}) as home:
            async with setting_up(home) as screen:
                await screen.shows_next("1. A provider")
                screen.type("\n")
                await screen.shows_next("text to filter:")
                screen.type("openr\n")
                await screen.shows_next("The key (not shown; it goes into .env as OPENROUTER_API_KEY):")
                screen.type(key + "\n")
                await screen.shows_next("It answered in")
                await screen.shows_next("[Y/n]")
                screen.type("y\n")
                await screen.shows_next("OPENROUTER_API_KEY in")
                await screen.shows_next("Anything else?")
                screen.type("\n")
                assert await screen.end() == 0
                assert key not in screen.text and key[-6:] not in screen.text
            env = home.hermes / ".env"
            assert env.read_text() == f"OPENROUTER_API_KEY={key}\n"
            assert env.stat().st_mode & 0o077 == 0
            assert key not in (home.hermes / "config.yaml").read_text()
            again = await hermes(home, "setup")
            assert again.code == 0 and "mock-model" in again.stdout and key not in again.stdout + again.stderr


async def test_a_wrong_key_is_said_and_asked_for_again_before_any_model() -> None:
    right, wrong = new_key(), new_key()
    async with ScriptedServer([Say("ready")], api_key=right) as server:
        with TempHome(more={**ENGLISH, "OPENROUTER_BASE_URL": server.url}) as home:
            async with setting_up(home) as screen:
                await screen.shows_next("1. A provider")
                screen.type("\n")
                await screen.shows_next("text to filter:")
                screen.type("openr\n")
                await screen.shows_next("The key (not shown")
                screen.type(wrong + "\n")
                await screen.shows_next("OpenRouter does not accept the key.")
                await screen.shows_next("The key (not shown")
                assert "Which model?" not in screen.text and "Testing" not in screen.text
                screen.type(right + "\n")
                await screen.shows_next("It answered in")
                await screen.shows_next("[Y/n]")
                screen.type("\n")
                await screen.shows_next("Anything else?")
                screen.type("\n")
                assert await screen.end() == 0
            assert (home.hermes / ".env").read_text() == f"OPENROUTER_API_KEY={right}\n"


async def test_each_step_can_be_gone_back_from() -> None:
    key = new_key()
    async with ScriptedServer([Say("ready")], api_key=key) as server:
        with TempHome(more={**ENGLISH, "OPENROUTER_BASE_URL": server.url}) as home:
            async with setting_up(home) as screen:
                await screen.shows_next("2. A server, by its address")
                await screen.shows_next("A number: [1]")
                screen.type("2\n")
                await screen.shows_next("Base URL")
                screen.type("http://127.0.0.1:9/v1\n")
                await screen.shows_next("API key")
                screen.type("<\n")
                await screen.shows_next("Base URL")
                screen.type("<\n")
                await screen.shows_next("1. A provider")
                screen.type("1\n")
                await screen.shows_next("text to filter:")
                screen.type("groq\n")
                await screen.shows_next("GROQ_API_KEY): (< goes back)")
                screen.type("<\n")
                await screen.shows_next("text to filter:")
                screen.type("openr\n")
                await screen.shows_next("OPENROUTER_API_KEY):")
                screen.type(key + "\n")
                await screen.shows_next("[Y/n]")
                screen.type("n\n")
                await screen.shows_next("1. A provider")
                screen.type("\x04")
                assert await screen.end() == 130
            assert list(home.hermes.iterdir()) == []


async def choose_telegram(screen: Screen) -> None:
    """Choose the chat platform Telegram in the menu of a home that has a model."""
    await screen.shows_next("4. A chat platform, such as Telegram")
    await screen.shows_next("A number: [1]")
    screen.type("4\n")
    await screen.shows_next("Which platform?")
    await screen.shows_next("A number: [1]")
    screen.type(f"{re.findall(r'([0-9]+)[.] Telegram', screen.text)[-1]}\n")


async def test_chat_platforms_and_tool_sets_are_offered() -> None:
    with TempHome.for_server("http://127.0.0.1:9/v1") as home:
        home.more = dict(ENGLISH)
        async with setting_up(home, 0, "--no-import") as screen:
            await choose_telegram(screen)
            await screen.shows_next("@BotFather")
            await screen.shows_next("it goes into .env as TELEGRAM_BOT_TOKEN")
            screen.type("\n")
            await screen.shows_next("Steps to Telegram:")
            for step in ("token: ${TELEGRAM_BOT_TOKEN}", "goes into", "hermes gateway run", "pairing new --role owner"):
                await screen.shows_next(step)
            await screen.shows_next("A number: [1]")
            screen.type("5\n")
            await screen.shows_next("] web")
            await screen.shows_next("A number: [1]")
            screen.type(f"{re.findall(r'([0-9]+)[.] .x. web', screen.text)[-1]}\n")
            await screen.shows_next("[ ] web")
            await screen.shows_next("A number: [1]")
            screen.type("\n")
            await screen.shows_next("Leave it so")
            await screen.shows_next("A number: [1]")
            screen.type("\n")
            assert await screen.end() == 0
        listed = await hermes(home, "tools", "list")
        assert re.search(r"^web +off", listed.stdout, re.MULTILINE)


async def test_a_bot_is_set_up_and_connected() -> None:
    """A wrong token is told and typed once more; then the bot's name and the code that makes its sender the owner."""
    async with Fake() as chat:
        account = {key: value for key, value in chat.options().items() if key != "token"}
        wrong = f"1000:{secrets.token_hex(16)}"
        with TempHome.for_server("http://127.0.0.1:9/v1", more_config={"platforms": {"telegram": account}}) as home:
            home.more = dict(ENGLISH)
            async with setting_up(home, 0, "--no-import") as screen:
                await choose_telegram(screen)
                for token, answer in (
                    (wrong, "It does not work yet"),
                    (str(chat.options()["token"]), "Connected as @"),
                ):
                    await screen.shows_next("it goes into .env as TELEGRAM_BOT_TOKEN")
                    screen.type(f"{token}\n")
                    await screen.shows_next("Wrote platforms.telegram in")
                    await screen.shows_next(answer)
                    if token == wrong:
                        await screen.shows_next("Type it once more? [Y/n]")
                        screen.type("\n")
                await screen.shows_next("May they ask? [y/N]")
                screen.type("y\n")
                await screen.shows_next("Your code is ")
                await screen.shows_next("hermes gateway run")
                await screen.shows_next("A number: [1]")
                screen.type("\n")
                assert await screen.end() == 0
            assert str(chat.options()["token"]) not in screen.text
            code = re.findall(r"Your code is ([^\s:]+)", screen.text)[-1]
            assert f"start={code}" in screen.text
            entry = settings(home)["platforms"]["telegram"]
            assert entry == {**account, "token": "${TELEGRAM_BOT_TOKEN}", "pairing": True}


async def test_ctrl_c_leaves_with_nothing_changed() -> None:
    async with ScriptedServer([]) as server:
        port = int(server.url.rsplit(":", 1)[1].removesuffix("/v1"))
        with TempHome(more=ENGLISH) as home:
            async with setting_up(home, port) as screen:
                await screen.shows_next("A number: [1]")
                screen.type("\x03")
                await screen.shows_next("Only what you confirmed was changed")
                assert await screen.end() == 130
            assert list(home.hermes.iterdir()) == []


async def test_a_test_that_fails_says_why_in_a_sentence_and_another_key_can_be_given() -> None:
    right, wrong = new_key(), new_key()
    async with ScriptedServer([Say("ready")], api_key=right) as server:
        more = {**ENGLISH, "OPENROUTER_BASE_URL": server.url, "OPENROUTER_API_KEY": wrong}
        with TempHome(more=more) as home:
            done = await hermes(home, "setup", "--provider", "openrouter", "--model", "m/x", "--yes")
            assert done.code == 1
            assert "OpenRouter does not accept the key." in done.stdout and "OPENROUTER_API_KEY" in done.stdout
            assert "Nothing was written" in done.stderr
            assert wrong not in done.stdout + done.stderr
            assert list(home.hermes.iterdir()) == []


async def test_the_language_is_asked_for_where_the_locale_does_not_say() -> None:
    async with ScriptedServer([Say("ready")]) as server:
        port = int(server.url.rsplit(":", 1)[1].removesuffix("/v1"))
        with TempHome() as home:
            async with setting_up(home, port, "--no-test") as screen:
                await screen.shows_next("Language / 语言")
                await screen.shows_next("[1]")
                screen.type("2\n")
                await screen.shows_next("1. ")
                await screen.shows_next("[1]")
                screen.type("\n")
                await screen.shows_next("[Y/n]")
                screen.type("\n")
                await screen.shows_next("还有别的吗？")
                screen.type("\n")
                assert await screen.end() == 0
            assert (home.hermes / ".env").read_text() == "HERMES_LANGUAGE=zh\n"


async def test_options_do_it_without_a_terminal() -> None:
    key = new_key()
    async with ScriptedServer([Say("ready"), Say("Hi.")], api_key=key) as server:
        with TempHome(more=ENGLISH) as home:
            done = await hermes(
                home,
                *("setup", "--base-url", server.url, "--model", "mock-model", "--key-stdin", "--yes"),
                stdin=key.encode() + b"\n",
            )
            assert (done.code, done.stderr) == (0, ""), done
            assert key not in done.stdout
            assert (home.hermes / ".env").read_text() == f"CUSTOM_API_KEY={key}\n"
            assert (await hermes(home, "-z", "hi")).stdout == "Hi.\n"


async def test_a_variable_can_be_named() -> None:
    key = new_key()
    async with ScriptedServer([Say("ready"), Say("Hi.")], api_key=key) as server:
        with TempHome(more={**ENGLISH, "MY_OWN": key}) as home:
            done = await hermes(home, "setup", "--base-url", server.url, "--api-key-env", "MY_OWN", "--yes")
            assert done.code == 0, done
            assert settings(home)["model"]["api_key"] == "${MY_OWN}"
            assert key not in done.stdout + (home.hermes / "config.yaml").read_text()
            assert (await hermes(home, "-z", "hi")).stdout == "Hi.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "Nothing says which provider to use"),
        (("--provider", "openruter", "--yes"), 78, "Did you mean 'openrouter'?"),
        (("--provider", "groq", "--model", "m"), 78, "No API key for Groq"),
        (("--provider", "groq", "--api-key-env", "NOT_SET_AT_ALL"), 78, "NOT_SET_AT_ALL is not set"),
        (("--key-stdin",), 2, "whose key is it"),
        (("--import", "/nonexistent"), 1, "is not a home of"),
    ],
)
async def test_what_is_missing_is_said_and_nothing_made(arguments: tuple[str, ...], code: int, said: str) -> None:
    with TempHome(more=ENGLISH) as home:
        done = await hermes(home, "setup", *arguments)
        assert done.code == code and said in done.stderr, done
        assert list(home.hermes.iterdir()) == []


async def test_another_model_is_used_by_the_next_request_and_the_files_comments_stay() -> None:
    async with ScriptedServer([Say("a"), Say("b")]) as server:
        with TempHome.for_server(server.url) as home:
            file = home.hermes / "config.yaml"
            file.write_text("# mine\n" + file.read_text().replace("mock-model", "first # the first one"))
            await hermes(home, "-z", "hi")
            done = await hermes(home, "model", "second", "--json")
            assert done.code == 0 and '"model": "second"' in done.stdout
            await hermes(home, "-z", "hi")
            assert [request.json["model"] for request in server.requests] == ["first", "second"]
            assert file.read_text().startswith("# mine\n") and "# the first one" in file.read_text()


async def test_with_another_provider_goes_what_belonged_to_the_old_one() -> None:
    key = new_key()
    with TempHome.for_server("http://127.0.0.1:9/v1", more_config={"agent": {"max_turns": 4}}) as home:
        home.more["GROQ_API_KEY"] = key
        home.more["HTTPS_PROXY"] = "http://127.0.0.1:9"  # its list of models is asked for
        done = await hermes(home, "model", "some-model", "--provider", "groq")
        assert done.code == 0 and key not in done.stdout, done
        assert settings(home) == {
            "model": {"default": "some-model", "provider": "groq"},
            "terminal": {"backend": "local"},
            "agent": {"max_turns": 4},
        }


async def test_models_are_listed_and_a_failing_test_keeps_the_old_one() -> None:
    replies: list[Reply] = [Fail(404, message="The model `nope` does not exist", code="model_not_found")]
    async with ScriptedServer(replies, context_length=32_768) as server:
        with TempHome.for_server(server.url) as home:
            before = (home.hermes / "config.yaml").read_bytes()
            listed = await hermes(home, "model", "--list")
            assert listed.stdout.split() == ["mock-model", "32,768"]
            assert (await hermes(home, "model", "--list", "--json")).stdout.startswith('[{"name": "mock-model"')
            done = await hermes(home, "model", "nope", "--test")
            assert done.code == 1 and "does not know the model nope" in done.stdout, done
            assert (home.hermes / "config.yaml").read_bytes() == before


async def test_a_model_is_chosen_at_the_terminal() -> None:
    async with ScriptedServer([Say("ready")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.hermes / "config.yaml").write_text(
                (home.hermes / "config.yaml").read_text().replace("mock-model", "older-model")
            )
            async with on_a_terminal(home, "model") as screen:
                await screen.shows_next("older-model")
                await screen.shows_next("1. mock-model")
                screen.type("1\n")
                await screen.shows_next("[Y/n]")
                screen.type("\n")
                await screen.shows_next("It answered in")
                await screen.shows_next("Kept in config.yaml: model.default")
                assert await screen.end() == 0
            assert settings(home)["model"]["default"] == "mock-model"


async def test_a_server_that_is_not_there_is_said_plainly() -> None:
    with TempHome.for_server("http://127.0.0.1:9/v1") as home:
        done = await hermes(home, "model", "--list")
        assert done.code == 78 and "cannot be asked for its models" in done.stderr
        assert "Traceback" not in done.stderr


async def test_once_more_changes_one_part() -> None:
    async with ScriptedServer([Say("ready"), Say("ready")]) as server:
        with TempHome.for_server(server.url) as home:
            home.more = dict(ENGLISH)
            port = int(server.url.rsplit(":", 1)[1].removesuffix("/v1"))
            async with setting_up(home, port, "--no-import") as screen:
                await screen.shows_next("This is set up:")
                await screen.shows_next("mock-model")
                await screen.shows_next("A number: [1]")
                screen.type("2\n")
                await screen.shows_next("It answered in")
                await screen.shows_next("A number: [1]")
                screen.type("3\n")
                await screen.shows_next("1. My server")
                await screen.shows_next("A number: [1]")
                screen.type("\n")
                await screen.shows_next("It answered in")
                await screen.shows_next("[Y/n]")
                screen.type("\n")
                await screen.shows_next("Wrote model.provider, model.base_url, model.api_key")
                await screen.shows_next("Anything else?")
                screen.type("\n")
                assert await screen.end() == 0
            assert settings(home)["model"]["provider"] == "vllm" and "api_key" not in settings(home)["model"]
            assert settings(home)["terminal"] == {"backend": "local"}


async def test_found_keys_are_named_by_their_variable_and_what_suggests_itself_needs_a_yes() -> None:
    key = new_key()
    async with ScriptedServer([Say("ready")], api_key=key) as server:
        with TempHome(more={**ENGLISH, "OPENROUTER_BASE_URL": server.url}) as home:
            (home.hermes / ".env").write_text(f"OPENROUTER_API_KEY={key}\n")
            async with setting_up(home) as screen:
                await screen.shows_next("1. OpenRouter (key: OPENROUTER_API_KEY in .env)")
                screen.type("\x04")
                await screen.shows_next("Only what you confirmed was changed")
                assert await screen.end() == 130
                assert key not in screen.text and key[-6:] not in screen.text
            done = await hermes(home, "setup", "--yes")
            assert done.code == 0 and "OPENROUTER_API_KEY" in done.stdout, done
            assert settings(home)["model"] == {"default": "mock-model", "provider": "openrouter"}
            assert key not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("box", "http://box"),
        ("[::1]:80/v1", "http://[::1]:80/v1"),
        (" https://a.example/v1 ", "https://a.example/v1"),
        *((wrong, "") for wrong in ("ftp://a", "two words", "http://", "http://a:99999999", "a:b", "-")),
    ],
)
def test_an_address_is_made_whole_or_none(typed: str, meant: str) -> None:
    assert normalize_address(typed) == meant


async def test_an_address_is_asked_for_until_it_is_one_and_what_is_kept_all_the_same_is_not_asked_about_again() -> None:
    with TempHome(more=ENGLISH) as home:
        async with setting_up(home) as screen:
            await screen.shows_next("A server, by its address")
            screen.type(f"{re.findall(r'([0-9]+)[.] A server', screen.text)[-1]}\n")
            await screen.shows_next("Base URL")
            screen.type("two words\n")
            await screen.shows_next("That is not an address")
            await screen.shows_next("Base URL")
            screen.type("127.0.0.1:9/v1\n")
            await screen.shows_next("API key")
            screen.type("\n")
            await screen.shows_next("Which model?")
            screen.type("some-model\n")
            await screen.shows_next("4. Keep it anyway")
            screen.type("4\n")
            await screen.shows_next("Wrote model.default")
            await screen.shows_next("Anything else?")
            screen.type("\n")
            assert await screen.end() == 0
        assert "Keep this choice?" not in screen.text
        assert settings(home)["model"]["base_url"] == "http://127.0.0.1:9/v1"


async def test_a_model_that_its_server_does_not_list_is_set_and_told() -> None:
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url) as home:
            done = await hermes(home, "model", "mock-modle")
            assert done.code == 0 and settings(home)["model"]["default"] == "mock-modle"
            assert "does not list mock-modle. Did you mean 'mock-model'? It is used all the same." in done.stderr
            done = await hermes(home, "model", "set", "else")
            assert "does not list else. `hermes model list` shows what it has." in done.stderr
            assert (await hermes(home, "model", "use", "mock-model")).stderr == ""
            assert (await hermes(home, "model", "ls")).stdout.startswith("mock-model")
            assert "mock-model" in (await hermes(home, "model", "show")).stdout
            assert (await hermes(home, "model", "show", "x")).code == (await hermes(home, "model", "set")).code == 2
            assert settings(home)["model"]["default"] == "mock-model"

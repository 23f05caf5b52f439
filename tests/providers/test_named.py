"""Providers that the settings name: how they are written, who means them, and what is said of a bad one."""

import json
from collections.abc import Mapping

import pytest
import yaml
from msgspec import structs

from hermes.admin.completion_names import list_candidates
from hermes.config.home import HermesHome
from hermes.config.load import load_settings, mask_secrets
from hermes.core.errors import ConfigError
from hermes.providers.named import NamedProviders, build_named_providers
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.providers.wire import Endpoint
from hermes.sessions.model.credentials import list_named_providers
from hermes.sessions.secrets import iterate_secrets
from hermes.testing.home import TempHome
from hermes.testing.script import Fail, Say
from hermes.testing.server import ScriptedServer
from tests.commands.chat_surfaces import chat
from tests.forked_hermes import run_hermes

KEY = "k" + "3" * 30
AGNES = {"base_url": "https://agnes.example/v1", "key_env": "AGNES_CODE", "context_length": 64_000}


def resolve(config: Mapping[str, object], choice: ModelChoice, environ: Mapping[str, str] | None = None) -> Endpoint:
    with TempHome(config) as home:
        found = HermesHome(home.hermes)
        named = NamedProviders(list_named_providers(found, load_settings(found).settings))
    environ = {"AGNES_CODE": KEY, "GROQ_API_KEY": KEY} if environ is None else environ
    return resolve_endpoint(structs.replace(choice, named=named), environ)


@pytest.mark.parametrize(
    "choice",
    [
        ModelChoice("m", "agnes"),
        ModelChoice("m", "custom:agnes"),
        ModelChoice("m", "Agnes"),
        ModelChoice("agnes/m"),
        ModelChoice("agnes:m"),
        ModelChoice("custom:agnes:m"),
        ModelChoice("agnes/m", "agnes"),
        ModelChoice("agnes/m", "groq", prefix_decides=True),
        ModelChoice("agnes:m", "groq", "https://elsewhere.example", "other-key", prefix_decides=True),
    ],
)
@pytest.mark.parametrize("form", ["providers", "custom_providers"])
def test_every_way_to_name_it(choice: ModelChoice, form: str) -> None:
    entry = AGNES if form == "providers" else {**AGNES, "name": "Agnes"}
    found = resolve({form: {"agnes": entry} if form == "providers" else [entry]}, choice)
    assert (found.record.name, found.model, found.base_url) == ("agnes", "m", "https://agnes.example/v1")
    assert (found.api_key, found.wire, found.context_length) == (KEY, "chat_completions", 64_000)


def test_what_names_another_stays_with_the_other() -> None:
    config = {"providers": {"agnes": AGNES}}
    assert resolve(config, ModelChoice("agnes/m", "groq")).record.name == "groq"
    assert resolve(config, ModelChoice("groq/m")).record.name == "groq"
    assert resolve(config, ModelChoice("agnes/m", base_url="http://localhost:9")).record.name == "custom"


def test_all_keys_of_an_entry() -> None:
    entry = {
        "name": "Agnes the Great",
        "api": "https://${AGNES_HOST}/anthropic",
        "transport": "anthropic_messages",
        "api_key": "${AGNES_CODE}",
        "default_model": "big",
        "models": {"big": {"context_length": 9_000}, "small": None},
        "context_length": 5_000,
        "extra_headers": {"X-Team": "t-${AGNES_HOST}"},
        "extra_body": {"seed": 7},
        "strict_roles": True,
        "reasoning_field": "thoughts",
        "max_tokens_field": "max_out",
        "stream_usage": False,
        "request_timeout_seconds": 5,
    }
    config = {"providers": {"agnes": entry}}
    found = resolve(config, ModelChoice(provider="agnes"), {"AGNES_HOST": "a.example", "AGNES_CODE": KEY})
    quirks = found.record.quirks
    assert (found.model, found.base_url, found.wire) == ("big", "https://a.example/anthropic", "anthropic_messages")
    assert (found.api_key, found.context_length, found.record.title) == (KEY, 9_000, "Agnes the Great")
    assert (quirks.extra_headers, quirks.extra_body) == ({"X-Team": "t-a.example"}, b'"seed":7')
    assert (quirks.strict_roles, quirks.reasoning_field, quirks.stream_usage) == (True, "thoughts", False)
    assert quirks.max_tokens_field == "max_out"
    assert KEY not in repr(found) and "t-a.example" not in repr(found)
    small = resolve(config, ModelChoice("small", "agnes"), {"AGNES_HOST": "a.example", "AGNES_CODE": KEY})
    assert small.context_length == 5_000


def test_an_entry_with_a_known_name_changes_what_the_catalogue_says() -> None:
    config = {"providers": {"alibaba": {"base_url": "https://ws.example/v1", "models": ["qwen-x"]}}}
    found = resolve(config, ModelChoice(provider="qwen"), {"DASHSCOPE_API_KEY": KEY})
    assert (found.record.name, found.model, found.base_url) == ("qwen", "qwen-x", "https://ws.example/v1")
    assert found.record.title.startswith("Qwen")
    tag = resolve(config, ModelChoice("qwen:7b", "ollama", prefix_decides=True), {"DASHSCOPE_API_KEY": KEY})
    assert (tag.record.name, tag.model) == ("ollama", "qwen:7b")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({}, "it needs `base_url`"),
        ({"base_url": "ftp://x"}, "not an http or https address"),
        ({"base_url": "https://x:99999/v1"}, "not an http or https address"),
        ({"base_url": "https://u:geheim-secret@x:bad/v1"}, "not an http or https address"),
        ({**AGNES, "api_mode": "morse"}, "no API mode `morse`"),
        ({**AGNES, "key_env": "sk-" + KEY}, "takes the name of a variable"),
        ({**AGNES, "context_length": -1}, "must be above zero"),
        ({**AGNES, "context_length": "much"}, "a whole number"),
        ({**AGNES, "models": [{"context_length": 5}]}, "needs its name"),
        ({**AGNES, "headers": {"a b": "c"}}, "name of a header field"),
        ({**AGNES, "headers": {"a": "c\nd"}}, "no header may hold"),
        ({**AGNES, "reasoning_field": "a b"}, "name of a field"),
    ],
)
def test_a_bad_entry_is_one_line_with_its_place(entry: dict[str, object], said: str) -> None:
    text = "model:\n  default: m\nproviders:\n  good:\n    base_url: https://g.example/v1\n"
    text += "".join(f"  {line}\n" for line in yaml.safe_dump({"bad": entry}, sort_keys=False).splitlines())
    with TempHome({}) as home:
        (home.hermes / "config.yaml").write_text(text)
        found = HermesHome(home.hermes)
        with pytest.raises(ConfigError) as caught:
            build_named_providers(load_settings(found).settings, found.config_file)
    assert said in caught.value.message and "config.yaml, line " in caught.value.message
    assert "providers.bad" in caught.value.message
    assert KEY not in str(caught.value) and "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"custom_providers": [AGNES]}, "its name must be"),
        ({"custom_providers": [{**AGNES, "name": "local"}]}, "has a meaning of its own"),
        ({"providers": {"a": AGNES}, "custom_providers": [{**AGNES, "name": "A"}]}, "is taken by `providers.a`"),
        ({"custom_providers": {"a": AGNES}}, "a list"),
        ({"providers": [AGNES]}, "a section"),
    ],
)
def test_names_and_shapes(config: dict[str, object], said: str) -> None:
    with TempHome(config) as home, pytest.raises(ConfigError) as caught:
        load_settings(HermesHome(home.hermes))
    assert said in caught.value.message and "line " in caught.value.message


def test_unknown_keys_and_variables_are_told() -> None:
    config = {"providers": {"agnes": {**AGNES, "base_urll": "x", "headers": {"x": "${GONE}"}}}}
    with TempHome(config) as home:
        assert "providers.agnes.base_urll" in str(load_settings(HermesHome(home.hermes)).warnings)
    with pytest.raises(ConfigError, match="the variable GONE"):
        resolve(config, ModelChoice("m", "agnes"))
    with pytest.raises(ConfigError, match="No API key for agnes") as caught:
        resolve({"providers": {"agnes": AGNES}}, ModelChoice("m", "agnes"), {})
    assert "AGNES_CODE" in caught.value.hint
    with pytest.raises(ConfigError) as near:
        resolve({"providers": {"agnes": AGNES}}, ModelChoice("m", "agnees"), {})
    assert "agnees" in near.value.message and "'agnes'" in near.value.hint
    with pytest.raises(ConfigError, match=r"`providers\.agnes` names the variable GONE"):
        resolve({"providers": {"agnes": {**AGNES, "api_key": "${GONE}"}}}, ModelChoice("m", "agnes"))


def test_settings_show_the_variable_and_not_the_key() -> None:
    shown = mask_secrets({"providers": {"a": {"api_key": KEY, "key_env": "A_CODE", "headers": {"X-Api-Key": KEY}}}})
    assert KEY not in str(shown) and "A_CODE" in str(shown)


@pytest.mark.slow
async def test_the_whole_program_takes_the_name_everywhere() -> None:
    answers = [Say("one"), Say("two"), Fail(500, message=f"broken for {KEY}"), Say("four"), Say("ready")]
    async with ScriptedServer(answers, api_key=KEY) as server:
        agnes = {"base_url": server.url, "key_env": "AGNES_CODE", "models": ["mock-model", "other"]}
        config = {
            "model": {"default": "x", "provider": "bad"},
            "providers": {"agnes": agnes, "bad": {"base_url": "http://127.0.0.1:9/v1", "api_key": "nokey"}},
            "fallback_providers": ["agnes/other"],
            "auxiliary": {"approval": {"provider": "agnes", "model": "other"}},
            "agent": {"api_max_retries": 1},
            "terminal": {"backend": "local"},
        }
        with TempHome(config, more={"AGNES_CODE": KEY}) as home:
            asked = await run_hermes(home, "-m", "agnes/mock-model", "-z", "hi")
            fell = await run_hermes(home, "-z", "hi")
            broke = await run_hermes(home, "-m", "agnes:mock-model", "-z", "hi")
            kept = await run_hermes(home, "model", "agnes:mock-model")
            tested = await run_hermes(home, "model", "test")
            listed = await run_hermes(home, "model", "list", "agnes", "--json")
            doctor = await run_hermes(home, "doctor")
            checked = await run_hermes(home, "config", "check")
            keys = await run_hermes(home, "auth", "list")
            assert [name for name, _ in list_candidates(home.environ, "provider", "ag")] == ["agnes"]
            written = yaml.safe_load((home.hermes / "config.yaml").read_text())
    assert asked.stdout.strip() == "one" and fell.stdout.strip() == "two"
    models = [request.json["model"] for request in server.requests]
    assert models == ["mock-model", "other", "mock-model", "other", "mock-model"]
    assert broke.stdout.strip() == "four" and KEY not in broke.stdout + broke.stderr
    assert written["model"] == {"default": "mock-model", "provider": "agnes"} and "agnes" in kept.stdout
    assert tested.code == 0, tested.stderr
    assert [row["name"] for row in json.loads(listed.stdout)] == ["mock-model", "other"]
    assert "agnes, bad" in doctor.stdout
    assert checked.code == 0, checked.stdout
    assert "agnes" in keys.stdout and KEY not in keys.stdout


def test_the_redactor_knows_every_key_of_a_provider() -> None:
    other, third = "o" * 20, "t" * 20
    entries = {
        "agnes": AGNES,
        "b": {
            "base_url": "http://b.example",
            "api_key": other,
            "headers": {"X-Api-Key": "${B_CODE}", "X-Title": "Hermes"},
        },
    }
    with TempHome({"providers": entries}, more={"AGNES_CODE": KEY, "B_CODE": third}) as home:
        found = HermesHome(home.hermes)
        secrets = dict(iterate_secrets(home.environ, found, load_settings(found).settings))
    assert {KEY, other, third} <= set(secrets.values()) and "Hermes" not in secrets.values()


@pytest.mark.slow
async def test_the_key_that_stands_with_it_goes_before_its_variable_and_its_model_before_the_configured_one() -> None:
    async with ScriptedServer([Say("one"), Say("two")], api_key=KEY) as server:
        agnes = {
            "base_url": server.url,
            "api_key": "${RIGHT}",
            "key_env": "WRONG",
            "model": "big",
            "context_length": 9_000,
        }
        config = {"model": {"default": "x", "provider": "groq"}, "providers": {"agnes": agnes}}
        more = {"RIGHT": KEY, "WRONG": "w" * 30}
        with TempHome({**config, "terminal": {"backend": "local"}}, more=more) as home:
            asked = await run_hermes(home, "--provider", "agnes", "-z", "hi")
            added = await run_hermes(home, "cron", "add", "every 1d", "say hi", "--name", "j", "--model", "agnes/small")
            ran = await run_hermes(home, "cron", "run", "j")
    assert asked.stdout.strip() == "one", asked.stderr
    assert added.code == ran.code == 0, (added, ran)
    assert [request.json["model"] for request in server.requests] == ["big", "small"]


async def test_a_session_switches_to_a_named_provider_and_stays_there() -> None:
    async with ScriptedServer([Say("a"), Say("b"), Say("c")]) as other:
        config = {"providers": {"agnes": {"base_url": other.url, "context_length": 9_000, "models": ["mock-model"]}}}
        async with chat([Say("one"), Say("two")], config=config) as here:
            await here.say("hello")
            await here.desk.type_line("/model agnes:mock-model")
            await here.say("and you?")
            await here.desk.type_line("/model third")
            await here.say("and you?")
            await here.desk.type_line("/model fourth --provider agnes")
            await here.say("and you?")
            assert [request.json["model"] for request in other.requests] == ["mock-model", "third", "fourth"]
            here.desk.answers.append(0)
            await here.desk.type_line("/provider")
            assert "agnes" in [one.label for one in here.desk.questions[0].options]
            await here.desk.type_line("/model default")
            await here.say("back")
            assert here.sent("model") == ["mock-model", "mock-model"]

"""From a choice to an endpoint: rows AM-04 and EP-19, the catalogue, and what is said when something is missing."""

import subprocess
import sys

import pytest

from hermes.core.errors import ConfigError
from hermes.providers import records
from hermes.providers.records import list_provider_names, load_record
from hermes.providers.resolve import ModelChoice, is_configured, resolve_endpoint
from hermes.providers.wire import load_wire

KEY = "k" + "3" * 20
OPENROUTER = {"OPENROUTER_API_KEY": KEY}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ModelChoice(model="m", provider="openrouter"), "chat_completions"),
        (ModelChoice(model="m", provider="openrouter", api_mode="codex_responses"), "responses"),
        (ModelChoice(model="m", provider="anthropic"), "anthropic_messages"),
        (ModelChoice(model="m", provider="anthropic", api_mode="chat_completions"), "chat_completions"),
        (ModelChoice(model="m", base_url="https://api.anthropic.com/v1"), "anthropic_messages"),
        (ModelChoice(model="m", provider="custom", base_url="https://api.anthropic.com"), "anthropic_messages"),
        (ModelChoice(model="m", base_url="https://api.minimax.io/anthropic"), "anthropic_messages"),
        (ModelChoice(model="m", base_url="https://chatgpt.example/backend-api/codex"), "responses"),
        (ModelChoice(model="m", base_url="https://api.openai.com/v1"), "responses"),
        (ModelChoice(model="m", provider="openai", base_url="https://gateway.example/v1"), "chat_completions"),
        (ModelChoice(model="m", base_url="https://somewhere.example/v1"), "chat_completions"),
    ],
)
def test_the_wire_is_found_in_order(choice: ModelChoice, expected: str) -> None:
    every_key = {name: KEY for keys in records.KEY_VARIABLES.values() for name in keys}
    assert resolve_endpoint(choice, every_key).wire == expected


@pytest.mark.parametrize(
    ("choice", "environ", "provider", "model"),
    [
        (ModelChoice(model="anthropic/claude-x"), {"ANTHROPIC_API_KEY": KEY}, "anthropic", "claude-x"),
        (ModelChoice(model="anthropic/claude-x"), OPENROUTER, "openrouter", "anthropic/claude-x"),
        (ModelChoice("anthropic/claude-x", "openrouter"), OPENROUTER, "openrouter", "anthropic/claude-x"),
        (ModelChoice("openrouter/anthropic/claude-x"), OPENROUTER, "openrouter", "anthropic/claude-x"),
        (ModelChoice("openrouter/auto"), OPENROUTER, "openrouter", "openrouter/auto"),
        (ModelChoice("groq/compound", "groq"), {"GROQ_API_KEY": KEY}, "groq", "groq/compound"),
        (ModelChoice("groq/llama-x"), {"GROQ_API_KEY": KEY}, "groq", "llama-x"),
        (ModelChoice("openai/gpt-oss", "groq"), {"GROQ_API_KEY": KEY}, "groq", "openai/gpt-oss"),
        (ModelChoice("moonshotai/kimi-x", "moonshot"), {"KIMI_API_KEY": KEY}, "kimi", "kimi-x"),
        (ModelChoice("ollama/qwen3:8b"), {}, "ollama", "qwen3:8b"),
        (ModelChoice("m", base_url="http://127.0.0.1:11434/v1"), {}, "ollama", "m"),
        (ModelChoice("m", base_url="http://localhost:8080"), {}, "llamacpp", "m"),
        (ModelChoice("m", base_url="http://localhost:9999"), {}, "custom", "m"),
        (ModelChoice("m", base_url="https://api.deepseek.com"), {"DEEPSEEK_API_KEY": KEY}, "deepseek", "m"),
        (ModelChoice("m"), {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://h.example/v1"}, "custom", "m"),
        (ModelChoice("m"), {"GROQ_API_KEY": KEY, "GLM_API_KEY": KEY}, "glm", "m"),
        (ModelChoice("m"), {"GROQ_API_KEY": KEY, **OPENROUTER}, "openrouter", "m"),
        (ModelChoice("m", "auto"), OPENROUTER, "openrouter", "m"),
    ],
)
def test_provider_and_model(choice: ModelChoice, environ: dict[str, str], provider: str, model: str) -> None:
    found = resolve_endpoint(choice, environ)
    assert (found.record.name, found.model) == (provider, model)
    assert is_configured(choice, environ)


def test_address_key_and_window() -> None:
    found = resolve_endpoint(ModelChoice("claude-x", "anthropic", base_url="https://gw.example/v1/", api_key=KEY), {})
    assert (found.base_url, found.api_key, found.context_length) == ("https://gw.example", KEY, 200_000)
    named = resolve_endpoint(ModelChoice("m", "groq", api_key="${MY_KEY}", context_length=9), {"MY_KEY": f" {KEY}\n"})
    assert (named.api_key, named.context_length, named.base_url) == (KEY, 9, "https://api.groq.com/openai/v1")
    assert resolve_endpoint(ModelChoice("m", "groq", api_key="$MY_KEY"), {"MY_KEY": KEY}).api_key == KEY
    elsewhere = resolve_endpoint(
        ModelChoice("m", "kimi"), {"MOONSHOT_API_KEY": KEY, "KIMI_BASE_URL": "https://k.example/v1"}
    )
    assert (elsewhere.base_url, elsewhere.api_key) == ("https://k.example/v1", KEY)
    assert resolve_endpoint(ModelChoice("m", "local"), {}).base_url == ""


@pytest.mark.parametrize(
    ("choice", "environ", "words"),
    [
        (ModelChoice(), {}, "No model provider is configured. `hermes setup` helps; or set OPENROUTER_API_KEY"),
        (ModelChoice("m", "openrouter"), {}, "No API key for OpenRouter. Set OPENROUTER_API_KEY, or `model.api_key`."),
        (ModelChoice("m", "gemini"), {}, "Set GEMINI_API_KEY or GOOGLE_API_KEY, or"),
        (ModelChoice("m", "opnrouter"), {}, "no provider `opnrouter`. Did you mean 'openrouter'?"),
        (ModelChoice("m", "zzz"), {}, "no provider `zzz`. Known are: anthropic"),
        (ModelChoice("", "openrouter"), OPENROUTER, "No model is named for OpenRouter. Set `model.default`"),
        (ModelChoice("m", "custom"), {}, "The provider `custom` needs an address. Set `model.base_url`."),
        (ModelChoice("m", base_url="example.com/v1"), {}, "is not an http or https address. Check `model.base_url`."),
        (ModelChoice("m", "groq", api_key="${NO_KEY}"), {}, "names the variable NO_KEY, which is not set."),
        (ModelChoice("m", "openrouter", api_mode="soap"), OPENROUTER, "There is no API mode `soap`."),
    ],
)
def test_what_is_missing_is_said_in_one_line(choice: ModelChoice, environ: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_endpoint(choice, environ)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", ["two words", "line\nbreak", "„quoted“", "käse"])
def test_a_key_that_cannot_be_one_is_never_shown(bad: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_endpoint(ModelChoice("m", "openrouter", api_key=bad), {})
    assert bad not in str(caught.value)
    assert "OPENROUTER_API_KEY" in str(caught.value)


def test_nothing_is_configured() -> None:
    assert not is_configured(ModelChoice(), {"PATH": "/bin"})


def test_the_catalogue_agrees_with_its_tables() -> None:
    from urllib.parse import urlsplit

    from hermes.util.hosts import is_loopback

    found = {name: load_record(name) for name in list_provider_names()}
    assert len(found) == 28
    hosts, ports = {}, {}
    for name, entry in found.items():
        assert entry.name == name and entry.title and entry.notes and load_wire(entry.wire).name == entry.wire
        where = urlsplit(entry.base_url)
        assert not entry.base_url.endswith("/")
        if where.hostname and is_loopback(where.hostname):
            ports[where.port] = name
        elif where.hostname:
            # A subscription at the host of a provider with keys does not own it.
            owned = [one for one in (where.hostname, *entry.hosts) if not (entry.sign_in and one in hosts)]
            hosts |= dict.fromkeys(owned, name)
    assert (hosts, ports) == (records.HOSTS, records.LOCAL_PORTS)
    wants_key = {name: one for name, one in found.items() if one.key_required and not one.cloud and not one.sign_in}
    keyed = {name: entry.key_variables for name, entry in wants_key.items()}
    assert keyed == records.KEY_VARIABLES
    assert tuple(name for name, one in found.items() if one.sign_in) == records.SIGN_IN_ONLY
    assert tuple(name for name, one in found.items() if one.sign_in) == records.SIGN_IN_ONLY
    assert set(records.ALIASES.values()) <= set(found) and not set(records.ALIASES) & set(found)


def test_only_the_record_and_the_wire_in_use_are_imported() -> None:
    code = (
        "import sys; from hermes.providers.resolve import ModelChoice, resolve_endpoint;"
        "from hermes.providers.wire import load_wire;"
        "load_wire(resolve_endpoint(ModelChoice('m', base_url='http://127.0.0.1:8080'), {}).wire);"
        "print(sorted(m for m in sys.modules if '.catalog.' in m or m.endswith(('_messages', 'responses'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['hermes.providers.catalog.llamacpp']"


def test_the_general_key_goes_to_its_own_address_only() -> None:
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://own.example/v1"}
    assert resolve_endpoint(ModelChoice("m"), environ).api_key == KEY
    assert resolve_endpoint(ModelChoice("m", "custom", base_url="http://own.example/v1/"), environ).api_key == KEY
    assert resolve_endpoint(ModelChoice("m", "custom", base_url="http://other.example/v1"), environ).api_key == ""
    said = ModelChoice("m", "custom", base_url="http://other.example/v1", api_key="${OPENAI_API_KEY}")
    assert resolve_endpoint(said, environ).api_key == KEY

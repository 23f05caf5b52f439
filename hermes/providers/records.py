"""Finds a provider's record by name. Listing names imports nothing; using one imports that one file.

Keys in environment variables: `NAME`, then `NAME_1`, `NAME_2` and so on, then a list in `NAMES`.

Other agents of this kind read the same forms. The numbered ones end at the first that is not set (`NAME_1` may be left
out), so a forgotten `NAME_7` does not join. `NAME` itself is one key, whatever is in it.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain, count

from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_
from hermes.plugins import list_builtin_names, load_builtin, load_entry_point, suggest_name
from hermes.providers import catalog
from hermes.providers.wire import ProviderRecord

ALIASES = {
    "alibaba": "qwen",
    "amazon-bedrock": "bedrock",
    "aws": "bedrock",
    "aws-bedrock": "bedrock",
    "azure-foundry": "azure",
    "azure-openai": "azure",
    "claude": "anthropic",
    "github-copilot": "copilot",
    "minimax-plan": "minimax_plan",
    "minimax-plan-cn": "minimax_plan_cn",
    "dashscope": "qwen",
    "fireworks-ai": "fireworks",
    "google": "gemini",
    "google-ai-studio": "gemini",
    "google-vertex": "vertex",
    "grok": "xai",
    "kimi-coding": "kimi",
    "llama-cpp": "llamacpp",
    "llama-server": "llamacpp",
    "llama.cpp": "llamacpp",
    "lm-studio": "lmstudio",
    "mistralai": "mistral",
    "moonshot": "kimi",
    "moonshotai": "kimi",
    "nousresearch": "nous",
    "chatgpt": "codex",
    "openai-codex": "codex",
    "togetherai": "together",
    "vertex-ai": "vertex",
    "vertexai": "vertex",
    "x-ai": "xai",
    "z-ai": "glm",
    "z.ai": "glm",
    "zai": "glm",
    "zhipu": "glm",
}

HOSTS = {
    "api.anthropic.com": "anthropic",
    "api.deepseek.com": "deepseek",
    "api.fireworks.ai": "fireworks",
    "api.groq.com": "groq",
    "api.individual.githubcopilot.com": "copilot",
    "api.minimax.cn": "minimax_plan_cn",
    "api.minimax.chat": "minimax",
    "api.minimax.io": "minimax",
    "api.minimaxi.com": "minimax",
    "api.mistral.ai": "mistral",
    "api.moonshot.ai": "kimi",
    "api.moonshot.cn": "kimi",
    "api.openai.com": "openai",
    "api.together.ai": "together",
    "api.together.xyz": "together",
    "api.x.ai": "xai",
    "api.z.ai": "glm",
    "chatgpt.com": "codex",
    "dashscope-intl.aliyuncs.com": "qwen",
    "dashscope-us.aliyuncs.com": "qwen",
    "dashscope.aliyuncs.com": "qwen",
    "generativelanguage.googleapis.com": "gemini",
    "inference-api.nousresearch.com": "nous",
    "open.bigmodel.cn": "glm",
    "openrouter.ai": "openrouter",
}
"""The provider that owns a host. The same as in the records, here so that none has to be imported to find out."""

_CLOUD_HOSTS = (
    (re.compile(r"[\w-]+\.(?:openai|services\.ai|cognitiveservices)\.azure\.com"), "azure"),
    (re.compile(r"bedrock-(?:runtime|runtime-fips|mantle)\.[\w-]+\.(?:amazonaws\.com(?:\.cn)?|api\.aws)"), "bedrock"),
    (re.compile(r"(?:[\w-]+-)?aiplatform\.googleapis\.com"), "vertex"),
)
"""The same for clouds, whose hosts have the name of a region or of a resource in them."""


def find_host_owner(host: str) -> str:
    """Return the provider that owns a host; empty where none does."""
    return HOSTS.get(host) or next((name for pattern, name in _CLOUD_HOSTS if pattern.fullmatch(host)), "")


LOCAL_PORTS = {1234: "lmstudio", 8000: "vllm", 8080: "llamacpp", 11434: "ollama"}
"""The server that usually listens on a port of this machine."""

KEY_VARIABLES = {
    "openrouter": ("OPENROUTER_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
    "nous": ("NOUS_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "kimi": ("KIMI_API_KEY", "MOONSHOT_API_KEY"),
    "glm": ("GLM_API_KEY", "ZAI_API_KEY", "Z_AI_API_KEY", "ZHIPUAI_API_KEY"),
    "qwen": ("DASHSCOPE_API_KEY", "QWEN_API_KEY"),
    "minimax": ("MINIMAX_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
}
"""When nothing else names a provider, the first of these that has a key in the environment decides."""

SIGN_IN_ONLY = ("codex", "copilot", "minimax_plan", "minimax_plan_cn")
"""Providers without keys. When nothing else names one and there is no key, the first that is signed in to decides."""


def list_provider_names() -> tuple[str, ...]:
    """Return all built-in providers, sorted."""
    return list_builtin_names(catalog)


def load_record(name: str) -> ProviderRecord:
    """Return the record of that name or alias, built in or from an entry point of the group `hermes.providers`.

    Raises `ConfigError` with the nearest name for one that nobody offers.
    """
    wanted = name.strip().lower()
    wanted = ALIASES.get(wanted, wanted)
    known = list_provider_names()
    found = load_builtin(catalog, wanted).RECORD if wanted in known else load_entry_point("providers", wanted)
    if not isinstance(found, ProviderRecord):
        near = suggest_name(wanted, [*known, *ALIASES]) or N_("Known are: {known}.", known=", ".join(known))
        raise ConfigError(
            N_("There is no provider `{name}`.", name=name), N_("{near} Set it in `model.provider`.", near=near)
        )
    return found


_KEY_SEPARATORS = re.compile(r"[\s,;]+")


_KEY_CHARACTERS = re.compile(r"[!-~]+")


def is_valid_key(key: str) -> bool:
    """Return whether the text can be a key: one that holds a space, a line break or a typographic sign never is."""
    return _KEY_CHARACTERS.fullmatch(key) is not None


_REFUSED_PREFIXES = {"sk-ant-oat": "anthropic"}
"""How the tokens of logins begin that their vendors keep to their own programs, and who the vendor is."""


def check_refused_key(key: str) -> None:
    """Raise ConfigError for a token of a login that its vendor keeps to its own programs."""
    name = next((name for prefix, name in _REFUSED_PREFIXES.items() if key.startswith(prefix)), "")
    if name:
        from hermes.providers.sign_in_vendors import VENDORS

        raise VENDORS[name].build_refusal()


def list_variable_keys(names: tuple[str, ...], environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield every key of these variables with the name of its place, each value once."""
    seen = set()
    for place, key in chain.from_iterable(_keys_of_name(name, environ) for name in names):
        if key not in seen:
            seen.add(key)
            yield place, key


def _keys_of_name(name: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if key := environ.get(name, "").strip():
        yield name, key
    for number in count(1):
        key = environ.get(f"{name}_{number}", "").strip()
        if key:
            yield f"{name}_{number}", key
        elif number > 1:
            break
    listed = environ.get(f"{name}S", "")
    if listed:
        for number, key in enumerate(filter(None, _KEY_SEPARATORS.split(listed)), 1):
            yield f"{name}S#{number}", key

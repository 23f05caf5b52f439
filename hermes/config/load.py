"""Reads and validates `config.yaml`.

Parsing YAML costs more than the rest of start-up's own code, so the parsed document is kept as JSON in
the home's
cache, under the identity of the file it came from (device, inode, size, time); a changed file is parsed
again.
"""

import contextlib
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from hermes.config.environment import SETTING_VARIABLES, merge_dotenv, select_setting_variables
from hermes.config.home import HermesHome
from hermes.config.keys import KNOWN_ELSEWHERE
from hermes.config.settings import (
    CACHE_TTLS,
    CapSettings,
    CompressionSettings,
    LoadedSettings,
    McpServerSettings,
    McpToolSettings,
    Settings,
    Strategy,
)
from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_, tr
from hermes.plugins import suggest_name
from hermes.util.atomic_write import write_atomic
from hermes.util.localizable import join_localizable
from hermes.util.text import compile_late

_CACHE_VERSION = 2
_MAX_BYTES = 4 << 20
_MAX_NUMBER = 1e15
_COMPRESSION_RANGES: dict[str, tuple[float, float]] = {
    "threshold": (0.1, 0.95),
    "target_ratio": (0.1, 0.8),
    "protect_last_n": (1, 10_000),
    "protect_first_n": (0, 1_000),
    "summary_max_tokens": (2_000, 200_000),
}
"""The ranges of numeric settings of `compression`."""
_VARIABLE = compile_late(r"\$\{?\w+\}?")
_KEY_NAME = compile_late(
    r"^(?!.*_endpoint$).*(?:key(?!_env)|token|secret|passw|pwd|credential|authorization|cookie)",
    re.IGNORECASE | re.DOTALL,
)
"""Matches names of settings that hold a key. A `token_endpoint` is an address, which a person has to see."""
_KEY_IN_TEXT = compile_late(
    r"://[^/\s]*@|[?&][\w.-]*(?:key|token|secret|sig|pass)[\w.-]*=|"
    r"(?<![A-Za-z0-9])(?:sk|pk|gh[opusr]|xox[a-z])[-_]\S{12}",
    re.IGNORECASE,
)

_FOREIGN_SERVER_KEYS = frozenset(
    {"auth", "client_cert", "client_key", "sampling", "ssl_verify", "transport", "type", "description"}
)
"""Keys of MCP servers that guides for such agents mention and this version does not act on."""


_NAMES = frozenset({"model.default", "model.provider", "terminal.backend"})
"""Settings that are names, also where they are digits alone."""
_MAX_DIGITS = 18
_OF_PROVIDER = frozenset({"api_key", "base_url", "api_mode", "context_length"})
"""Keys of `model:` that belong to its provider."""
_FIELD_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class _CachedDocument(msgspec.Struct):
    version: int
    identity: tuple[int, int, int, int]
    document: dict[str, object]


def load_settings(home: HermesHome, *, ignored: bool = False) -> LoadedSettings:
    """Return the settings of this home; defaults where there is no file. With `ignored` the file only says which model
    answers, if it can be read.

    Variables that stand for settings go before the file. Raises ConfigError that names the file and line, or the
    variable.
    """
    document = _read_model_alone(home) if ignored else read_document(home)
    loaded = settings_from_document(document, home.config_file)
    variables = select_setting_variables(merge_dotenv(home.setting_variables, home.env_file))
    return _apply_variables(document, variables, home.config_file) if variables else loaded


_CHOSEN_MODEL = ("default", "provider", "base_url", "api_key", "api_mode", "context_length", "ca_bundle")
"""The settings of `model` that say which one it is."""
_CHOSEN_SERVERS = ("providers", "custom_providers")
"""The sections that say where a named model is."""


def _read_model_alone(home: HermesHome) -> dict[str, object]:
    """Return a document with the model that the file names and where it is; an empty one for a file with faults."""
    try:
        whole = select_known_keys(read_document(home))
        model = whole.get("model")
        if not isinstance(model, dict):
            return {}
        document: dict[str, object] = {"model": {key: model[key] for key in _CHOSEN_MODEL if key in model}}
        document |= {name: whole[name] for name in _CHOSEN_SERVERS if name in whole}
        settings_from_document(document, home.config_file)
    except ConfigError:
        return {}
    return document


def _apply_variables(document: dict[str, object], variables: Mapping[str, str], file: Path) -> LoadedSettings:
    """Return the settings with the variables in their places, and a warning for each value that they replace."""
    from hermes.config.document_keys import get_by_path, set_by_path

    warnings = []
    for name, text in variables.items():
        key = SETTING_VARIABLES[name]
        value = int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS and key not in _NAMES else text
        known = get_by_path(document, key)
        if known is not None and known != value:
            warnings.append(
                N_(
                    "{name}={value} replaces `{key}: {known}` of config.yaml.",
                    name=name,
                    value=text,
                    key=key,
                    known=known,
                )
            )
        if key == "model.provider" and known != value:
            document = _drop_address(document)
        document = set_by_path(document, key, value)
        try:
            loaded = settings_from_document(document, file)
        except ConfigError as error:
            raise ConfigError(
                N_("{name}={value} cannot be used: {why}", name=name, value=text, why=error.message),
                N_("Change the variable {name}, or unset it.", name=name),
            ) from None
    return structs.replace(loaded, warnings=(*loaded.warnings, *warnings))


def _drop_address(document: dict[str, object]) -> dict[str, object]:
    """Return the document without what belongs to the provider that it names: no other one is sent its key."""
    held = document.get("model")
    if not isinstance(held, dict):
        return document
    return {**document, "model": {name: value for name, value in held.items() if name not in _OF_PROVIDER}}


def settings_from_document(document: dict[str, object], file: Path) -> LoadedSettings:
    """Return the settings of a parsed file. Raises ConfigError for the first fault."""
    warnings = list(describe_unknown_keys(document))
    _check_spelling(document, file)
    _check_servers(document.get("mcp_servers"), file)
    known = select_known_keys(document)
    warnings += _fix_cache_ttl(known)
    try:
        settings = msgspec.convert(known, Settings, strict=False)
    except msgspec.ValidationError:
        from hermes.config.validation import find_type_faults
        from hermes.config.yaml_edit import find_line, read_text

        first = find_type_faults(known)[0]
        line = find_line(read_text(file), re.split(r"[.\[]", first.key))
        where = N_("{file}, line {n}", file=file, n=line) if line else str(file)
        raise ConfigError(
            N_("{where}: {message}", where=where, message=first.message), N_("Fix that line and try again.")
        ) from None
    if settings.providers or settings.custom_providers:
        from hermes.config.provider_entries import check_provider_entries

        warnings += check_provider_entries(settings, document, file)
    _check_numbers(settings, file)
    _check_strategies(settings, file)
    _check_reasoning_replay(settings.model.reasoning_replay, file)
    settings = structs.replace(settings, compression=_clamp_compression(settings.compression, warnings))
    unused = tuple(sorted(key for key in document if key in KNOWN_ELSEWHERE and key not in Settings.__struct_fields__))
    return LoadedSettings(settings=settings, warnings=tuple(warnings), unused=unused)


def select_known_keys(document: Mapping[str, object]) -> dict[str, object]:
    """Return the keys that this version acts on, in the long form."""
    known = {name: value for name, value in document.items() if name in Settings.__struct_fields__}
    for name in [name for name, value in known.items() if value is None]:
        del known[name]
    if isinstance(known.get("model"), str):
        known["model"] = {"default": known["model"]}
    model = known.get("model")
    if isinstance(model, dict) and isinstance(model.get("timeout"), int | float):
        known["model"] = {**model, "timeout": {"read": model["timeout"]}}
    for section, key, on in _BOOLEAN_WORDS:
        _fix_boolean_mode(known, section, key, on)
    return known


_BOOLEAN_WORDS = (("approvals", "mode", "ask"), ("skills", "evolution", "ask"), ("model", "reasoning_replay", "on"))
"""Settings of words that YAML reads as booleans, each with the word that true stands for."""


def _fix_boolean_mode(known: dict[str, object], section: str, key: str, on: str) -> None:
    """Convert a boolean mode back to its word: YAML reads `off` as false, and `on` as true."""
    given = known.get(section)
    if isinstance(given, dict) and isinstance(given.get(key), bool):
        known[section] = {**given, key: on if given[key] else "off"}


def _fix_cache_ttl(known: dict[str, object]) -> list[str]:
    """Replace a cache lifetime that no provider offers by five minutes. Return a warning for it."""
    caching = known.get("prompt_caching")
    ttl = caching.get("cache_ttl", CACHE_TTLS[0]) if isinstance(caching, dict) else CACHE_TTLS[0]
    if ttl in CACHE_TTLS:
        return []
    known["prompt_caching"] = {**caching, "cache_ttl": CACHE_TTLS[0]} if isinstance(caching, dict) else {}
    return [
        N_(
            "config.yaml: prompt_caching.cache_ttl is {ttl}; it can be 5m or 1h, and 5m is used.",
            ttl=repr(str(ttl)[:40]),
        )
    ]


def _check_spelling(document: Mapping[str, object], file: Path) -> None:
    """Refuse a mistyped `spending`: its author believes that there is a cap."""
    for key in document:
        if key not in KNOWN_ELSEWHERE and key not in Settings.__struct_fields__ and suggest_name(key, ("spending",)):
            raise ConfigError(N_("{file}: unknown setting `{key}`.", file=file, key=key), "Did you mean `spending`?")


def _check_servers(servers: object, file: Path) -> None:
    """Refuse unknown keys of MCP servers: a mistyped one would leave a server with more rights than intended."""
    for name, given in servers.items() if isinstance(servers, dict) else ():
        _check_keys(f"mcp_servers.{name}", given, McpServerSettings.__struct_fields__, file)
        tools = given.get("tools") if isinstance(given, dict) else None
        _check_keys(f"mcp_servers.{name}.tools", tools, McpToolSettings.__struct_fields__, file)


def _check_keys(where: str, given: object, known: Sequence[str], file: Path) -> None:
    for key in given if isinstance(given, dict) else ():
        if key not in known and key not in _FOREIGN_SERVER_KEYS:
            near = suggest_name(str(key), known) or N_("It may have: {known}.", known=", ".join(known))
            raise ConfigError(N_("{file}: unknown setting `{where}.{key}`.", file=file, where=where, key=key), near)


def _check_numbers(settings: Settings, file: Path) -> None:
    """Refuse numbers that no turn could run with."""
    positive: dict[str, float | None] = {
        "agent.max_turns": settings.agent.max_turns,
        "terminal.timeout": settings.terminal.timeout,
        "approvals.timeout": settings.approvals.timeout,
        "checkpoints.max_snapshots": settings.checkpoints.max_snapshots,
        "checkpoints.max_total_mb": settings.checkpoints.max_total_mb,
        "checkpoints.max_file_mb": settings.checkpoints.max_file_mb,
        "checkpoints.keep_days": settings.checkpoints.keep_days,
        "tool_output.max_chars": settings.tool_output.max_chars,
        "model.context_length": settings.model.context_length,
        "model.max_tokens": settings.model.max_tokens,
        "model.timeout.connect": settings.model.timeout.connect,
        "model.timeout.read": settings.model.timeout.read,
        "mcp_discovery_timeout": settings.mcp_discovery_timeout,
    }
    for name, server in settings.mcp_servers.items():
        positive[f"mcp_servers.{name}.timeout"] = server.timeout
        positive[f"mcp_servers.{name}.connect_timeout"] = server.connect_timeout
    for key, value in positive.items():
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ConfigError(
                N_("{file}: `{key}` must be above zero, not {value}.", file=file, key=key, value=value),
                N_("Fix that line and try again."),
            )
    for key, value in (
        ("agent.api_max_retries", settings.agent.api_max_retries),
        ("agent.api_retry_minutes", settings.agent.api_retry_minutes),
        ("agent.api_retry_minutes_unattended", settings.agent.api_retry_minutes_unattended),
        ("agent.tool_delay", settings.agent.tool_delay),
    ):
        _check_not_negative(key, value, file)
    for name in settings.spending.__struct_fields__:
        cap: CapSettings = getattr(settings.spending, name)
        _check_not_negative(f"spending.{name}.usd", cap.usd, file)
        _check_not_negative(f"spending.{name}.tokens", cap.tokens, file)
    for model, price in settings.prices.items():
        for name in price.__struct_fields__:
            _check_not_negative(f"prices.{model}.{name}", getattr(price, name), file)


def _clamp_compression(given: CompressionSettings, warnings: list[str]) -> CompressionSettings:
    """Return the settings of compression within their ranges; add a warning for each that was outside."""
    changed: dict[str, float] = {}
    for name, (low, high) in _COMPRESSION_RANGES.items():
        value = getattr(given, name)
        within = min(max(value, low), high) if value == value else low  # noqa: PLR0124 - not-a-number
        if within != value:
            changed[name] = type(value)(within)
            warnings.append(
                N_(
                    "config.yaml: compression.{name} is {value}; {changed} is used ({low} to {high}).",
                    name=name,
                    value=value,
                    changed=changed[name],
                    low=low,
                    high=high,
                )
            )
    return structs.replace(given, **changed) if changed else given


def _check_not_negative(key: str, value: float | None, file: Path) -> None:
    if value is not None and not 0 <= value < _MAX_NUMBER:
        raise ConfigError(
            N_("{file}: `{key}` must be a number from zero on, not {value}.", file=file, key=key, value=value),
            N_("Fix that line and try again."),
        )


def _check_reasoning_replay(value: str, file: Path) -> None:
    """Refuse what can be no field of a message."""
    if not _FIELD_NAME.fullmatch(value):
        raise ConfigError(
            N_(
                "{file}: `model.reasoning_replay` is {value}; it can be auto, on, off, or the name of a field.",
                file=file,
                value=repr(value[:40]),
            ),
            N_("Fix that line and try again."),
        )


def _check_strategies(settings: Settings, file: Path) -> None:
    """Refuse the name of an unknown key strategy."""
    known = [strategy.value for strategy in Strategy]
    for provider, name in settings.credential_pool_strategies.items():
        if name not in known:
            near = suggest_name(name, known) or N_("Known are: {known}.", known=", ".join(known))
            raise ConfigError(
                N_(
                    "{file}: credential_pool_strategies.{provider} is {name}, which is none.",
                    file=file,
                    provider=provider,
                    name=repr(name),
                ),
                near,
            )


def read_document(home: HermesHome) -> dict[str, object]:
    """Return the YAML file as a mapping, from the cache when the file has not changed."""
    file = home.config_file
    try:
        with open(file, "rb") as source:
            status = os.fstat(source.fileno())
            identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            cached = _read_cache(home.cache / "config.json")
            if cached is not None and cached.version == _CACHE_VERSION and cached.identity == identity:
                return cached.document
            if status.st_size > _MAX_BYTES:
                raise ConfigError(N_("{file} is larger than 4 MB.", file=file), "It should hold settings only.")
            raw = source.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(
            N_("{file} cannot be read: {strerror}.", file=file, strerror=error.strerror), "Fix its permissions."
        ) from None
    document = parse_document(raw, file)
    if document:
        _write_cache(home, _CachedDocument(version=_CACHE_VERSION, identity=identity, document=document))
    return document


def parse_document(raw: bytes, file: Path) -> dict[str, object]:
    """Parse a settings file's bytes. Raises ConfigError that names the line."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        document = yaml.load(raw, Loader=loader)  # noqa: S506 - a safe loader, the compiled one where it exists
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = N_(", line {line}", line=mark.line + 1) if mark else ""
        raise ConfigError(
            N_("{file}{where}: not valid YAML: {problem}.", file=file, where=where, problem=error.problem),
            "Fix that line (`hermes config edit`), or start without the file: `--ignore-user-config`.",
        ) from None
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            N_("{file} is not valid YAML: {reason}.", file=file, reason=reason), "Fix the file and try again."
        ) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(
            N_("{file} must hold `key: value` lines, not a {name}.", file=file, name=type(document).__name__)
        )
    try:
        plain: object = msgspec.to_builtins(document, str_keys=True, enc_hook=str)  # noqa: TID251 - its dates become text
    except RecursionError:
        raise ConfigError(N_("{file}: a value holds itself.", file=file), "Fix its anchors (&name, *name).") from None
    assert isinstance(plain, dict)
    return plain


def mask_secrets(value: object, name: str = "") -> object:
    """Return the value as it may be shown: a key, or a value with one in it, is replaced by a note that it is
    set.
    """
    if isinstance(value, dict):
        return {key: mask_secrets(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [mask_secrets(inner, name) for inner in value]
    if not isinstance(value, str) or not value or _VARIABLE.fullmatch(value.strip()):
        return value
    hidden = (_KEY_NAME.search(name) and not value.startswith(("/", "~"))) or _KEY_IN_TEXT.search(value)
    return tr("(set; not shown)") if hidden else value


def _read_cache(file: Path) -> _CachedDocument | None:
    """Return the cached document, or None."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=_CachedDocument)
    except (OSError, msgspec.MsgspecError):
        return None


def _write_cache(home: HermesHome, cached: _CachedDocument) -> None:
    """Cache the parsed document; a home that cannot be written is reported elsewhere. In a home that another
    program uses nothing is made before the person has agreed.

    A document that JSON would change is not cached: not-a-number would come back as null, and a cap with
    it. Nor is one with a key in it: a key stays in the file that the person wrote it into, and a cached one
    is removed.
    """
    if home.find_foreign_file():
        return
    if has_literal_key(cached.document):
        with contextlib.suppress(OSError):
            (home.cache / "config.json").unlink(missing_ok=True)
        return
    if msgspec.json.decode(to_json(cached.document)) != cached.document:
        return
    with contextlib.suppress(OSError):
        home.cache.mkdir(mode=0o700, exist_ok=True)
        write_atomic(home.cache / "config.json", to_json(cached), mode=0o600, sync=False)


def has_literal_key(value: object, name: str = "") -> bool:
    """Return whether a literal key is in the document: under a name for one, or as a URL's password."""
    if isinstance(value, dict):
        return any(has_literal_key(inner, str(key)) for key, inner in value.items())
    if isinstance(value, list):
        return any(has_literal_key(inner, name) for inner in value)
    if not isinstance(value, str) or _VARIABLE.fullmatch(value.strip()):
        return False
    return (len(value) >= 8 and _KEY_NAME.search(name) is not None) or _KEY_IN_TEXT.search(value) is not None


def list_literal_keys(value: object, path: str = "") -> list[str]:
    """Return the dotted names of the settings in the document that hold a literal key."""
    if isinstance(value, dict):
        found = [name for key, inner in value.items() for name in list_literal_keys(inner, f"{path}.{key}".lstrip("."))]
    elif isinstance(value, list):
        found = [name for inner in value for name in list_literal_keys(inner, path)]
    else:
        found = [path] if has_literal_key(value, path.rpartition(".")[2]) else []
    return list(dict.fromkeys(found))


def describe_unknown_keys(document: Mapping[str, object]) -> list[str]:
    """Return a line for each unknown setting, with the nearest known one."""
    return [
        join_localizable(" ", (N_("config.yaml: unknown setting `{key}`.", key=key), near))
        for key, near in iter_unknown_keys(document)
    ]


def iter_unknown_keys(document: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield each unknown setting, and a sentence with the nearest known one (or nothing)."""
    names = set(Settings.__struct_fields__)
    for key, value in document.items():
        if key not in names and key not in KNOWN_ELSEWHERE:
            yield key, suggest_name(key, names | KNOWN_ELSEWHERE)
        if key in names and isinstance(value, dict):
            yield from _iter_unknown_below(key, value)


def _iter_unknown_below(section: str, given: dict[object, object]) -> Iterator[tuple[str, str]]:
    """Yield the unknown keys of a section; outside `model` only those that look mistyped, since guides for
    such agents know many more keys there.
    """
    defaults = getattr(Settings(), section)
    if not isinstance(defaults, msgspec.Struct):
        return
    known = defaults.__struct_fields__
    for name in given:
        near = suggest_name(str(name), known) if name not in known else ""
        if near or (section == "model" and name not in known):
            yield f"{section}.{name}", near

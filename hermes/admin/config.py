"""Looking at settings and changing them, shared by every front-end. No key is ever given back."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.config.edit import line_of, parsed, read_text, unset_value, with_value, without_value, write_text
from hermes.config.environment import parse_dotenv, with_dotenv
from hermes.config.faults import Fault, type_faults
from hermes.config.home import Home, locate_home
from hermes.config.keys import Setting, every_key, find, read_value
from hermes.config.load import (
    holds_key,
    known_part,
    masked,
    odd_keys,
    parse_document,
    settings_of,
)
from hermes.config.settings import Settings
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.i18n.messages import phrase, say
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.toolset_names import check_toolsets

_NAMED = re.compile(r"`([\w.\[\]*-]+)`")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_REFERENCE = re.compile(r"\$\{?\w+\}?")
_ELSEWHERE = {
    "TERMINAL_ENV": "terminal.backend",
    "TERMINAL_TIMEOUT": "terminal.timeout",
    "HERMES_MODEL": "model.default",
    "LLM_MODEL": "model.default",
    "OPENAI_MODEL": "model.default",
    "HERMES_INFERENCE_PROVIDER": "model.provider",
    "HERMES_MAX_ITERATIONS": "agent.max_turns",
}
"""Variables by which other agents of this kind set what only the settings say here."""


class Level(StrEnum):
    """How bad something is."""

    ERROR = "error"
    """Hermes does not start with it."""
    WARNING = "warning"
    """It does not do what it seems to."""
    NOTE = "note"
    """Good to know."""


class Problem(Struct, frozen=True):
    """Something about the settings. `line` is 0 where it is not about a line of the file."""

    level: Level
    line: int
    key: str
    message: str
    hint: str = ""


def get(environ: Mapping[str, str], key: str) -> Plain:
    """One setting, or a section: its value as it may be shown, and whether the file or the default says so.

    Raises UsageError for a key that nobody knows, ConfigError for a file that cannot be read.
    """
    home = locate_home(environ)
    setting = find(_plain_key(key))
    document = _document(home)
    inside, given = _looked_up(document, setting.path)
    value = given if inside else _default(setting)
    if inside and isinstance(value, dict) and isinstance(default := _default(setting), dict):
        value = _merged(default, value)
    return {
        "key": setting.key,
        "value": masked(value, setting.path[-1]),
        "source": "config.yaml" if inside else "default" if setting.known else "",
        "hidden": _hidden(value, setting.path[-1]),
    }


def rows(environ: Mapping[str, str]) -> list[Plain]:
    """Every setting with its value and where that is from."""
    document = _document(locate_home(environ))
    found: list[Plain] = []
    for setting in every_key():
        inside, given = _looked_up(document, setting.path)
        value = given if inside else _default(setting)
        source = "config.yaml" if inside else "default"
        found.append({"key": setting.key, "value": masked(value, setting.path[-1]), "source": source})
    return found


def put(environ: Mapping[str, str], key: str, text: str) -> Plain:
    """Set one key to what a person typed. Raises UsageError when the key or the value cannot be, with nothing changed.

    Raises ConfigError when the file cannot be changed by itself.
    """
    home = writable_home(environ)
    setting = find(_plain_key(key))
    if setting.path == ("model",):
        setting = find("model.default")
    value = read_value(setting, text)
    if _hidden(value, setting.path[-1]):
        raise UsageError(
            phrase("A key on the command line would stand in the shell's history and in the list of processes."),
            phrase("Keep it with `hermes auth add PROVIDER`, or name its variable: {example}", example="'${MY_KEY}'"),
        )
    change(home, {setting.path: value})
    warning = (
        "" if setting.known else say("This version does not act on `{key}`; it was written all the same.", key=key)
    )
    return {"key": setting.key, "value": value, "file": str(home.config_file), "warning": warning}


def change(home: Home, changes: Mapping[tuple[str, ...], object], removed: Sequence[tuple[str, ...]] = ()) -> None:
    """Give settings values and take others out, all or none, when the file is usable then.

    Raises UsageError, ConfigError.
    """
    file = home.config_file
    before = text = read_text(file)
    for path in removed:
        text = without_value(text, path, file)
    for path, value in changes.items():
        text = with_value(text, path, value, file)
    known = {fault.message for fault in _faults(parsed(before, file), file)}
    fresh = next((fault for fault in _faults(parsed(text, file), file) if fault.message not in known), None)
    if fresh is not None:
        raise UsageError(_capital(fresh.message), phrase("Nothing was changed."))
    if text != before:
        home.ensure()
        write_text(file, text)


def unset(environ: Mapping[str, str], key: str) -> bool:
    """Take a key out of the file, so that its default counts; whether it was there."""
    home = writable_home(environ)
    return unset_value(home.config_file, find(_plain_key(key)).path)


def writable_home(environ: Mapping[str, str]) -> Home:
    """The home, when its settings are the person's to change from here. Raises ConfigError."""
    home = locate_home(environ)
    home.check()
    other = home.foreign()
    if other:
        raise ConfigError(
            phrase("{home} is also another program's home ({file} is not ours).", home=home.root, file=other),
            phrase("`hermes setup` shows what can be taken over; HERMES_HOME names another folder."),
        )
    return home


def problems(environ: Mapping[str, str], text: str | None = None) -> list[Problem]:
    """Everything that is wrong or odd with the settings (with `text`: as if the file held it), by line."""
    home = locate_home(environ)
    try:
        text = read_text(home.config_file) if text is None else text
        document = parse_document(text.encode(), home.config_file)
    except ConfigError as error:
        return [Problem(Level.ERROR, _line_said(error.message), "", error.message, error.hint)]
    found = [
        Problem(Level.ERROR, line_of(text, _steps(fault.key)), fault.key, _capital(fault.message))
        for fault in _faults(document, home.config_file)
    ]
    for key, near in odd_keys(document):
        message = say("Nobody knows the key `{key}`.", key=key)
        found.append(Problem(Level.WARNING, line_of(text, _steps(key)), key, message, near))
    for key in document:
        if key not in Settings.__struct_fields__ and not any(key == one.key for one in found):
            message = say("This version does not act on `{key}`.", key=key)
            found.append(Problem(Level.NOTE, line_of(text, [key]), key, message))
    if not any(one.level is Level.ERROR for one in found):
        found += _unusable(home, environ, document, text)
    return sorted([*found, *_overridden(home, environ, document)], key=lambda one: (one.line == 0, one.line))


def _faults(document: dict[str, object], file: Path) -> list[Fault]:
    """What keeps the settings from being used, types first."""
    found = type_faults(known_part(document))
    if found:
        return found
    try:
        settings = settings_of(document, file).settings
    except ConfigError as error:
        message = f"{error.message} {error.hint}".removeprefix(f"{file}: ").strip()
        return [Fault(_key_said(message), message)]
    return list(_chosen(settings))


def _chosen(settings: Settings) -> Iterator[Fault]:
    """Names that nothing answers to."""
    from hermes.providers.records import record
    from hermes.providers.wires import wire_name
    from hermes.sessions.backend_factory import BACKENDS
    from hermes.sessions.gate_factory import policy_of
    from hermes.sessions.options import Options

    def looked(key: str, look: Callable[[], object]) -> Iterator[Fault]:
        try:
            look()
        except HermesError as error:
            yield Fault(key, f"{error.message} {error.hint}".strip())

    yield from looked("approvals", lambda: policy_of(settings, Options()))
    if settings.terminal.backend not in BACKENDS:
        known = ", ".join(BACKENDS)
        yield Fault("terminal.backend", say("`{key}` must be one of: {names}.", key="terminal.backend", names=known))
    provider, mode = settings.model.provider, settings.model.api_mode
    if provider and provider.lower() != "auto":
        yield from looked("model.provider", lambda: record(provider))
    if mode:
        yield from looked("model.api_mode", lambda: wire_name(mode))
    for switch, names in (("toolsets", settings.toolsets), ("disabled_toolsets", settings.disabled_toolsets)):
        if names:
            yield from looked(switch, partial(check_toolsets, settings, names))


def _unusable(home: Home, environ: Mapping[str, str], document: dict[str, object], text: str) -> Iterator[Problem]:
    """Whether the model that is named can be called at all."""
    from hermes.providers.resolve import resolve
    from hermes.sessions.model.credentials import with_stored
    from hermes.sessions.model.endpoint import choose_model, is_embedded
    from hermes.sessions.options import Options

    settings = settings_of(document, home.config_file).settings
    whole = with_dotenv(environ, home.env_file)
    try:
        choice = with_stored(choose_model(settings.model, Options()), home)
        if not is_embedded(choice, whole):
            resolve(choice, whole)
    except ConfigError as error:
        yield Problem(Level.ERROR, line_of(text, ["model"]), "model", error.message, error.hint)


def _overridden(home: Home, environ: Mapping[str, str], document: Mapping[str, object]) -> Iterator[Problem]:
    """What variables of the environment have to say about settings."""
    try:
        dotenv = parse_dotenv(home.env_file.read_text("utf-8", "replace"))
    except OSError:
        dotenv = {}
    note = Level.NOTE
    for name in sorted(dotenv):
        if environ.get(name) and environ[name] != dotenv[name]:
            yield Problem(note, 0, "", say("{name} of .env is overridden by the environment.", name=name))
    whole = {**dotenv, **{name: value for name, value in environ.items() if value}}
    model = known_part(document).get("model")
    named = model if isinstance(model, dict) else {}
    if whole.get("OPENAI_BASE_URL") and not named.get("base_url"):
        text = phrase("OPENAI_BASE_URL is set: it says where `custom` and `openai` are.")
        yield Problem(note, 0, "model.base_url", say(text), say("`model.base_url` in config.yaml goes before it."))
    for name, key in _ELSEWHERE.items():
        if name in whole:
            text = say("{name} is set; nothing here reads it.", name=name)
            yield Problem(Level.WARNING, 0, key, text, say("Use `{key}` in config.yaml.", key=key))


def _plain_key(key: str) -> str:
    """The key, unless it is a variable's name. Raises UsageError for one."""
    if _VARIABLE.fullmatch(key):
        other = _ELSEWHERE.get(key)
        hint = (
            phrase("Use `{key}`.", key=other) if other else phrase("Variables stand in .env; keys: `hermes auth add`.")
        )
        raise UsageError(phrase("{name} is a variable's name, not a setting's.", name=key), hint)
    return key


def _document(home: Home) -> dict[str, object]:
    text = read_text(home.config_file)
    document = parse_document(text.encode(), home.config_file)
    if isinstance(document.get("model"), str):
        document["model"] = {"default": document["model"]}
    return document


def _looked_up(document: object, path: tuple[str, ...]) -> tuple[bool, object]:
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return False, None
        document = document[name]
    return True, document


def _default(setting: Setting) -> object:
    value: object = Settings()
    for name in setting.path if setting.known else ():
        value = getattr(value, name, None) if isinstance(value, Struct) else None
    return msgspec.to_builtins(value) if setting.known else None


def _merged(default: dict[str, object], given: dict[str, object]) -> dict[str, object]:
    """The defaults of a section with what the file says in their place."""
    whole = dict(default)
    for name, value in given.items():
        below = whole.get(name)
        whole[name] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return whole


def _hidden(value: object, name: str) -> bool:
    """Whether a value is a key or holds one."""
    if isinstance(value, str) and _REFERENCE.fullmatch(value.strip()):
        return False
    return masked(value, name) != value or holds_key(value, name)


def _steps(key: str) -> list[str]:
    return [step for step in re.split(r"[.\[]", key.replace("]", "")) if step]


def _key_said(message: str) -> str:
    match = _NAMED.search(message)
    return match[1] if match else ""


def _line_said(message: str) -> int:
    match = re.search(r"line (\d+)", message)
    return int(match[1]) if match else 0


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

"""Reading and changing settings, shared by every front-end. No key is ever given back."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path

from msgspec import Struct

from hermes.config.display import BUILTIN_SKINS
from hermes.config.environment import SETTING_VARIABLES, merge_dotenv, parse_dotenv, select_setting_variables
from hermes.config.home import HermesHome, locate_home
from hermes.config.keys import Setting, find_setting, iter_settings, parse_value
from hermes.config.load import (
    has_literal_key,
    iter_unknown_keys,
    mask_secrets,
    parse_document,
    select_known_keys,
    settings_from_document,
)
from hermes.config.settings import Settings
from hermes.config.validation import SettingsFault, find_type_faults
from hermes.config.yaml_edit import (
    find_line,
    parse_mapping,
    read_text,
    remove_text_value,
    set_text_value,
    unset_value,
    write_text,
)
from hermes.core.encoding import Plain, to_plain
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.i18n.messages import LANGUAGES, N_, tr
from hermes.plugins import suggest_name
from hermes.util.localizable import Localizable, join_localizable

_BEGINS_WITH_KEY = re.compile(r"[a-z_]+\.[a-z_.]+[ :]")
_NAMED = re.compile(r"`([\w.\[\]*-]+)`")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_REFERENCE = re.compile(r"\$\{?\w+\}?")
_FOREIGN_VARIABLES = {"LLM_MODEL": "model.default", "OPENAI_MODEL": "model.default"}
"""Variables by which other programs set what only config.yaml sets here."""


class ProblemLevel(StrEnum):
    """The severity of a problem."""

    ERROR = "error"
    """Hermes does not start with it."""
    WARNING = "warning"
    """It has another effect than it seems to have."""
    NOTE = "note"
    """It is only worth knowing."""


class ConfigProblem(Struct, frozen=True):
    """A problem of the settings. `line` is 0 when it is not about a line of the file."""

    level: ProblemLevel
    line: int
    key: str
    message: str
    hint: str = ""


def get_setting(environ: Mapping[str, str], key: str) -> Plain:
    """Return one setting or section: its value as it may be shown, and whether the file or the default sets it.

    Raises UsageError for an unknown setting, ConfigError for a file that cannot be read.
    """
    home = locate_home(environ)
    setting = find_setting(_require_setting_key(key))
    document = _load_document(home)
    inside, given = _look_up(document, setting.path)
    value = given if inside else _default_value(setting)
    if inside and isinstance(value, dict) and isinstance(default := _default_value(setting), dict):
        value = _merge_defaults(default, value)
    return {
        "key": setting.key,
        "value": mask_secrets(value, setting.path[-1]),
        "source": "config.yaml" if inside else "default" if setting.known else "",
        "hidden": _is_secret(value, setting.path[-1]),
    }


def list_settings(environ: Mapping[str, str]) -> list[Plain]:
    """List every setting with its value and its source."""
    document = _load_document(locate_home(environ))
    found: list[Plain] = []
    for setting in iter_settings():
        inside, given = _look_up(document, setting.path)
        value = given if inside else _default_value(setting)
        source = "config.yaml" if inside else "default"
        found.append({"key": setting.key, "value": mask_secrets(value, setting.path[-1]), "source": source})
    return found


def set_setting(environ: Mapping[str, str], key: str, text: str) -> Plain:
    """Set one key to the text that a person typed.

    Raises UsageError, with nothing changed, when the key or the value is invalid, and ConfigError when the
    file cannot be edited automatically.
    """
    home = locate_writable_home(environ)
    setting = find_setting(_require_setting_key(key))
    if setting.path == ("model",):
        setting = find_setting("model.default")
    value = parse_value(setting, text)
    if _is_secret(value, setting.path[-1]):
        raise UsageError(
            N_("A key on the command line would show up in the shell's history and in the list of processes."),
            N_("Keep it with `hermes auth add PROVIDER`, or name its variable: {example}", example="'${MY_KEY}'"),
        )
    change_settings(home, {setting.path: value})
    warning = "" if setting.known else tr("This version does not act on `{key}`; it was written all the same.", key=key)
    return {"key": setting.key, "value": value, "file": str(home.config_file), "warning": warning}


def change_settings(
    home: HermesHome, changes: Mapping[tuple[str, ...], object], removed: Sequence[tuple[str, ...]] = ()
) -> None:
    """Set some settings and remove others, all or none, if the file is usable afterwards.

    Raises UsageError, ConfigError.
    """
    file = home.config_file
    before = text = read_text(file)
    for path in removed:
        text = remove_text_value(text, path, file)
    for path, value in changes.items():
        text = set_text_value(text, path, value, file)
    known = {fault.message for fault in _find_refusals(parse_mapping(before, file), file)}
    refusals = _find_refusals(parse_mapping(text, file), file)
    fresh = next((fault for fault in refusals if fault.message not in known), None)
    if fresh is not None:
        raise UsageError(_capitalize_first(fresh.message), N_("Nothing was changed."))
    if text != before:
        home.ensure_exists()
        write_text(file, text)


def unset_setting(environ: Mapping[str, str], key: str) -> bool:
    """Remove a key from the file, so that its default applies; return whether it was there."""
    home = locate_writable_home(environ)
    return unset_value(home.config_file, find_setting(_require_setting_key(key)).path)


def locate_writable_home(environ: Mapping[str, str]) -> HermesHome:
    """Return the home if the person may change its settings from here. Raises ConfigError."""
    home = locate_home(environ)
    home.check_usable()
    other = home.find_foreign_file()
    if other:
        raise ConfigError(
            N_("{home} is also another program's home ({file} is not ours).", home=home.root, file=other),
            N_("`hermes setup` shows what can be taken over; HERMES_HOME names another folder."),
        )
    return home


def find_problems(environ: Mapping[str, str], text: str | None = None) -> list[ConfigProblem]:
    """List every problem of the settings by line; with `text`, as if the file held it."""
    home = locate_home(environ)
    try:
        text = read_text(home.config_file) if text is None else text
        document = parse_document(text.encode(), home.config_file)
    except ConfigError as error:
        return [ConfigProblem(ProblemLevel.ERROR, _line_in_message(error.message), "", error.message, error.hint)]
    found = [
        ConfigProblem(
            ProblemLevel.ERROR, find_line(text, _split_key(fault.key)), fault.key, _capitalize_first(fault.message)
        )
        for fault in _find_faults(document, home.config_file)
    ]
    for key, near in iter_unknown_keys(document):
        message = tr("Unknown setting `{key}`.", key=key)
        found.append(ConfigProblem(ProblemLevel.WARNING, find_line(text, _split_key(key)), key, message, near))
    for key in document:
        if key not in Settings.__struct_fields__ and not any(key == one.key for one in found):
            message = tr("This version does not act on `{key}`.", key=key)
            found.append(ConfigProblem(ProblemLevel.NOTE, find_line(text, [key]), key, message))
    if not any(one.level is ProblemLevel.ERROR for one in found):
        for fault in _find_ignored_values(document, home.config_file):
            line = find_line(text, _split_key(fault.key))
            found.append(ConfigProblem(ProblemLevel.WARNING, line, fault.key, fault.message))
        found += _find_model_problem(home, environ, document, text)
    return sorted([*found, *_find_variable_notes(home, environ, document)], key=lambda one: (one.line == 0, one.line))


def _find_faults(document: dict[str, object], file: Path) -> list[SettingsFault]:
    """Return the faults that make the settings unusable, type faults first."""
    found = find_type_faults(select_known_keys(document))
    if found:
        return found
    try:
        settings = settings_from_document(document, file).settings
    except ConfigError as error:
        return [SettingsFault(_key_in_message(str(error).removeprefix(f"{file}: ")), str(error))]
    return list(_find_unknown_names(settings, HermesHome(file.parent)))


def _find_refusals(document: dict[str, object], file: Path) -> list[SettingsFault]:
    """Return the faults for which no change is written: those that make the settings unusable, and values that would
    be ignored.
    """
    return _find_faults(document, file) or list(_find_ignored_values(document, file))


def _find_ignored_values(document: dict[str, object], file: Path) -> Iterator[SettingsFault]:
    """Yield a fault for each value that is none of those that the setting knows; Hermes runs without it."""
    from hermes.web.search_engines import ENGINES

    settings = settings_from_document(document, file).settings
    display, engine = settings.display, settings.web.search_backend
    for key, value, names in (
        ("display.skin", display.skin, (*BUILTIN_SKINS, *display.skins)),
        ("display.language", display.language, ("auto", *LANGUAGES)),
        ("web.search_backend", engine or next(iter(ENGINES)), tuple(ENGINES)),
    ):
        if value not in names:
            said = N_("`{key}` must be one of: {names}.", key=key, names=", ".join(names))
            yield SettingsFault(key, join_localizable(" ", filter(None, (said, suggest_name(value, names)))))


def _find_unknown_names(settings: Settings, home: HermesHome) -> Iterator[SettingsFault]:
    """Yield a fault for each name in the settings that refers to nothing."""
    from hermes.config.chat_keys import parse_keys
    from hermes.providers.wire import resolve_wire_name
    from hermes.sessions.backend_factory import BACKENDS
    from hermes.sessions.model.credentials import list_named_providers, load_known_record
    from hermes.sessions.options import SessionOptions
    from hermes.sessions.session_tools import build_policy

    def fault_from(key: str, look: Callable[[], object]) -> Iterator[SettingsFault]:
        try:
            look()
        except HermesError as error:
            yield SettingsFault(key, str(error))

    yield from fault_from("approvals", lambda: build_policy(settings, SessionOptions()))
    yield from fault_from("display.keys", lambda: parse_keys(settings.display.keys))
    if settings.terminal.backend not in BACKENDS:
        known = ", ".join(BACKENDS)
        yield SettingsFault(
            "terminal.backend", tr("`{key}` must be one of: {names}.", key="terminal.backend", names=known)
        )
    provider, mode = settings.model.provider, settings.model.api_mode
    named = list(fault_from("providers", lambda: list_named_providers(home, settings)))
    yield from named
    if provider and provider.lower() != "auto" and not named:
        yield from fault_from("model.provider", lambda: load_known_record(provider, home, settings))
    if mode:
        yield from fault_from("model.api_mode", lambda: resolve_wire_name(mode))
    for switch, names in (("toolsets", settings.toolsets), ("disabled_toolsets", settings.disabled_toolsets)):
        if names:
            from hermes.sessions.session_tools import check_toolsets

            yield from fault_from(switch, partial(check_toolsets, settings, names))


def _find_model_problem(
    home: HermesHome, environ: Mapping[str, str], document: dict[str, object], text: str
) -> Iterator[ConfigProblem]:
    """Yield a problem when the configured model cannot be called at all."""
    from hermes.providers.resolve import resolve_endpoint
    from hermes.sessions.model.credentials import with_stored_providers
    from hermes.sessions.model.model_route import choose_model, is_embedded
    from hermes.sessions.options import SessionOptions

    settings = settings_from_document(document, home.config_file).settings
    whole = merge_dotenv(environ, home.env_file)
    try:
        choice = with_stored_providers(choose_model(settings.model, SessionOptions()), home, settings)
        if not is_embedded(choice, whole):
            resolve_endpoint(choice, whole)
    except ConfigError as error:
        yield ConfigProblem(ProblemLevel.ERROR, find_line(text, ["model"]), "model", error.message, error.hint)


def _find_variable_notes(
    home: HermesHome, environ: Mapping[str, str], document: Mapping[str, object]
) -> Iterator[ConfigProblem]:
    """Yield what environment variables change about the settings."""
    try:
        dotenv = parse_dotenv(home.env_file.read_text("utf-8", "replace"))
    except OSError:
        dotenv = {}
    note = ProblemLevel.NOTE
    for name in sorted(dotenv):
        if environ.get(name) and environ[name] != dotenv[name]:
            yield ConfigProblem(note, 0, "", tr("{name} of .env is overridden by the environment.", name=name))
    whole = {**dotenv, **{name: value for name, value in environ.items() if value}}
    model = select_known_keys(document).get("model")
    named = model if isinstance(model, dict) else {}
    if whole.get("OPENAI_BASE_URL") and not named.get("base_url"):
        text = N_("OPENAI_BASE_URL is set: it says where `custom` and `openai` are.")
        yield ConfigProblem(note, 0, "model.base_url", tr(text), tr("`model.base_url` in config.yaml goes before it."))
    yield from _find_setting_variable_notes(whole)


def _find_setting_variable_notes(whole: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Yield the variables that stand for settings, and those that do so in other programs alone."""
    for name in select_setting_variables(whole):
        text, key = tr("{name} is set: it goes before config.yaml.", name=name), SETTING_VARIABLES[name]
        yield ConfigProblem(ProblemLevel.NOTE, 0, key, text, tr("`{key}` is what it stands for.", key=key))
    for name, key in _FOREIGN_VARIABLES.items():
        if name in whole:
            text = tr("{name} is set; nothing here reads it.", name=name)
            yield ConfigProblem(ProblemLevel.WARNING, 0, key, text, tr("Use `{key}` in config.yaml.", key=key))


def _require_setting_key(key: str) -> str:
    """Return the key. Raises UsageError for the name of a variable."""
    if _VARIABLE.fullmatch(key):
        other = (SETTING_VARIABLES | _FOREIGN_VARIABLES).get(key)
        hint = N_("Use `{key}`.", key=other) if other else N_("Variables are in .env; keys: `hermes auth add`.")
        raise UsageError(N_("{name} is a variable's name, not a setting's.", name=key), hint)
    return key


def _load_document(home: HermesHome) -> dict[str, object]:
    text = read_text(home.config_file)
    document = parse_document(text.encode(), home.config_file)
    if isinstance(document.get("model"), str):
        document["model"] = {"default": document["model"]}
    return document


def _look_up(document: object, path: tuple[str, ...]) -> tuple[bool, object]:
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return False, None
        document = document[name]
    return True, document


def _default_value(setting: Setting) -> object:
    value: object = Settings()
    for name in setting.path if setting.known else ():
        value = getattr(value, name, None) if isinstance(value, Struct) else None
    return to_plain(value) if setting.known else None


def _merge_defaults(default: dict[str, object], given: dict[str, object]) -> dict[str, object]:
    """Merge the file's values over the defaults of a section."""
    whole = dict(default)
    for name, value in given.items():
        below = whole.get(name)
        whole[name] = _merge_defaults(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return whole


def _is_secret(value: object, name: str) -> bool:
    """Return whether a value is a key or holds one."""
    if isinstance(value, str) and _REFERENCE.fullmatch(value.strip()):
        return False
    return mask_secrets(value, name) != value or has_literal_key(value, name)


def _split_key(key: str) -> list[str]:
    return [step for step in re.split(r"[.\[]", key.replace("]", "")) if step]


def _key_in_message(message: str) -> str:
    match = _NAMED.search(message)
    return match[1] if match else ""


def _line_in_message(message: str) -> int:
    match = re.search(r"line (\d+)", message)
    return int(match[1]) if match else 0


def _capitalize_first(text: str) -> str:
    """Begin a sentence with a capital, but where a setting's key begins it. The message stays translatable."""
    if _BEGINS_WITH_KEY.match(text):
        return text
    message = text if isinstance(text, Localizable) else Localizable(text, text, {})
    return Localizable(message.plain[:1].upper() + message.plain[1:], message.template, message.values)

"""Collect every secret that this process holds, by name, into one redactor."""

import os
import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from hermes.config.auth_file import read_entries
from hermes.config.environment import merge_dotenv, parse_dotenv
from hermes.config.home import HermesHome
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.errors import HermesError
from hermes.core.secret import KeyHolder
from hermes.safety.environment import is_secret_variable
from hermes.safety.secrets.redactor import Redactor

_KEY_FIELDS = ("key", "api_key", "more_keys")
_REFERENCE = re.compile(r"\$\{(\w+)\}", re.ASCII)
_LIST_SEPARATOR = re.compile(r"[\s,;]+")
_KEY_PARAMETER = re.compile(r"key|token|secret|passw|pwd|sig|auth|credential", re.IGNORECASE)
_DOTENV_LIMIT = 1 << 20


def build_redactor(environ: Mapping[str, str], home: HermesHome, settings: Settings | None = None) -> Redactor:
    """Build the redactor of this process. Keys that are read later are added by `learn`."""
    redactor = Redactor()
    for name, value in iterate_secrets(environ, home, settings):
        redactor.add_secret(name, value)
    return redactor


def build_lenient_redactor(environ: Mapping[str, str], home: HermesHome) -> Redactor:
    """Build the redactor of a process whose settings may be unreadable."""
    try:
        return build_redactor(environ, home, load_settings(home).settings)
    except HermesError:
        return build_redactor(environ, home)


def iterate_secrets(
    environ: Mapping[str, str],
    home: HermesHome,
    settings: Settings | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield the (name, value) of each secret.

    These are variables named like a key, the home's `.env`, `auth.json` and `oauth.json`, the settings' keys, and
    passwords in addresses. A source that cannot be read yields nothing; its own reader reports the error.
    """
    yield from _secrets_in_variables(environ)
    try:
        with open(home.env_file, encoding="utf-8", errors="replace") as file:
            yield from _secrets_in_variables(parse_dotenv(file.read(_DOTENV_LIMIT)))
    except OSError:
        pass
    try:
        entries = read_entries(home)
    except HermesError:
        entries = {}
    for provider, rows in entries.items():
        for row in rows:
            if row.key:
                yield f"auth.{provider}.{row.id}", row.key
    yield from _secrets_of_sign_ins(home)
    if settings is not None:
        yield from _secrets_in_settings("config", settings)
        if settings.providers or settings.custom_providers:
            yield from _secrets_in_providers(settings, merge_dotenv(environ, home.env_file))


def _secrets_of_sign_ins(home: HermesHome) -> Iterator[tuple[str, str]]:
    if not os.path.lexists(home.oauth_file):
        return
    from hermes.oauth.token_store import SEEN_TOKENS, TokenStore

    found: list[str] = []
    store = TokenStore(home.oauth_file, home.locks, found.append)
    try:
        store.announce_tokens()
    except HermesError:
        return  # who signs in or uses a sign-in reports it
    yield from (("oauth", secret) for secret in dict.fromkeys((*found, *SEEN_TOKENS)))


def secrets_in_url(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the password and the keys in a URL."""
    if "://" not in text:
        return
    try:
        parts = urlsplit(text)
        password, query = parts.password, parse_qsl(parts.query)
    except ValueError:
        return
    if password:
        yield f"{name}.password", password
        if unquote(password) != password:
            yield f"{name}.password", unquote(password)
    for parameter, value in query:
        if _KEY_PARAMETER.search(parameter):
            yield f"{name}.{parameter}", value


def _secrets_in_variables(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in variables.items():
        yield from secrets_in_url(name, value)
        if is_secret_variable(name) and not _is_existing_path(value):
            yield name, value
            # A list of keys (`NAMES=a,b`) is several.
            parts = _LIST_SEPARATOR.split(value)
            if len(parts) > 1 and name.upper().endswith("S"):
                yield from ((f"{name}.{number}", part) for number, part in enumerate(parts, 1))


def _is_existing_path(value: str) -> bool:
    """Return whether the value is the path of a file, which is no secret itself."""
    return value.startswith(("/", "~/", "./", "../")) and os.path.exists(os.path.expanduser(value))


def _secrets_in_providers(settings: Settings, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the values of the variables that providers of the settings name for their keys, whatever their names."""
    for given in (*settings.providers.values(), *settings.custom_providers):
        fields = {**given.headers, **given.extra_headers}
        secret = [(name, text) for name, text in fields.items() if _KEY_PARAMETER.search(name)]
        yield from ((f"config.providers.{name}", text.rpartition(" ")[2]) for name, text in secret)
        texts = [given.api_key, *(text for _, text in secret)]
        names = [given.key_env, given.api_key_env, *(name for text in texts for name in _REFERENCE.findall(text))]
        yield from ((name, environ[name]) for name in names if environ.get(name))


def _secrets_in_settings(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the keys in settings, named by their path."""
    if isinstance(value, str):
        yield from secrets_in_url(name, value)
    for field, inner in _iterate_members(value):
        key = isinstance(value, KeyHolder) and field in _KEY_FIELDS
        if isinstance(inner, str) and (key or (isinstance(value, Mapping) and is_secret_variable(field))):
            yield f"{name}.{field}", inner
        elif key and isinstance(inner, tuple | list):
            yield from ((f"{name}.{field}", one) for one in inner)
        else:
            yield from _secrets_in_settings(f"{name}.{field}", inner)


def _iterate_members(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Struct):
        yield from ((field, getattr(value, field)) for field in value.__struct_fields__)
    elif isinstance(value, Mapping):
        yield from ((str(field), inner) for field, inner in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(number), inner) for number, inner in enumerate(value))

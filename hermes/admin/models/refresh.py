"""Windows and prices of models that are newer than the catalogue: read on request, shown, and kept after a yes."""

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, structs

from hermes.admin.config import locate_writable_home
from hermes.admin.models.models import ModelSelection, find_keys, request_model_rows
from hermes.config.environment import merge_dotenv
from hermes.config.home import HermesHome, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError, TransportError, UsageError
from hermes.core.protocols import HttpTimeouts
from hermes.core.usage import Price
from hermes.i18n.formats import format_number
from hermes.i18n.messages import N_, tr
from hermes.llm.exchange import find_model_price
from hermes.plugins import suggest_name
from hermes.providers.model_facts import (
    MODELS_DEV,
    MODELS_DEV_NAMES,
    ModelFacts,
    ModelFile,
    is_model_name,
    parse_model_file,
    read_dev_row,
    read_own_row,
)
from hermes.providers.records import ALIASES, load_record
from hermes.providers.resolve import find_known_length
from hermes.providers.wire import ProviderRecord, find_by_name
from hermes.util.atomic_write import write_atomic
from hermes.util.hosts import is_loopback
from hermes.util.text import redact_url, strip_control_characters, to_one_line

STALE_DAYS = 90
"""Days after which what was taken over is called old."""
READ_SECONDS = 60.0
"""Seconds that reading a list may take."""
_MAX_BYTES = 64 << 20


class FactChange(Struct, frozen=True):
    """What becomes different about a model."""

    provider: str
    model: str
    old: ModelFacts
    new: ModelFacts


class RefreshPlan(Struct, frozen=True):
    """What a list would change, and the file that would be kept. `skipped` rows were not understood."""

    source: str
    changes: tuple[FactChange, ...]
    file: ModelFile
    skipped: int = 0


def read_model_file(home: HermesHome) -> ModelFile | None:
    """Return what was taken over; None where nothing was. Raises ConfigError for a file that cannot be used."""
    try:
        raw = home.models_file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(
            N_("{file} cannot be read: {strerror}.", file=home.models_file, strerror=error.strerror)
        ) from None
    return parse_model_file(raw, str(home.models_file))


def count_days(file: ModelFile, now: float) -> int:
    """Return how many days ago the list was read; a date that is none counts as long ago."""
    try:
        began = time.mktime(time.strptime(file.as_of, "%Y-%m-%d"))
    except (ValueError, OverflowError):
        return 10 * STALE_DAYS
    return max(0, int((now - began) // 86_400))


async def plan_refresh(
    environ: Mapping[str, str], names: Collection[str], *, url: str = "", own: bool = False
) -> RefreshPlan:
    """Read a list and compare it with what counts now. Nothing is changed. Raises ConfigError, UsageError.

    `names` are the providers; without any those that have keys or that the settings name. `own` asks each of them
    for its own list instead of models.dev.
    """
    home = locate_home(environ)
    home.check_usable()
    settings = load_settings(home).settings
    wanted = _resolve_names(names) or _list_used_providers(environ, settings)
    if own:
        if not wanted:
            raise UsageError(N_("Whose own list? Name a provider."))
        listed = {name: await _read_own_list(environ, name) for name in wanted}
        source, skipped = N_("their own lists"), 0
    else:
        address = url or MODELS_DEV
        _check_address(address)
        rows = await _fetch_json(environ, address, settings.model.ca_bundle)
        listed, skipped = _read_models_dev(rows, wanted)
        source = redact_url(address)
    return _compare(home, listed, source, skipped)


def save_refresh(environ: Mapping[str, str], plan: RefreshPlan) -> str:
    """Keep what a plan found; return the file. Raises ConfigError."""
    home = locate_writable_home(environ)
    home.ensure_exists()
    try:
        write_atomic(home.models_file, to_json(plan.file), mode=0o600)
    except OSError as error:
        raise ConfigError(
            N_("{file} cannot be written: {strerror}.", file=home.models_file, strerror=error.strerror)
        ) from None
    return str(home.models_file)


def _resolve_names(names: Collection[str]) -> set[str]:
    found = set()
    known = set(MODELS_DEV_NAMES.values())
    for name in names:
        wanted = ALIASES.get(name.lower(), name.lower())
        if wanted not in known:
            near = suggest_name(wanted, known) or N_("Known are: {known}.", known=", ".join(sorted(known)))
            raise UsageError(N_("No list names the models of `{name}`.", name=name[:80]), near)
        found.add(wanted)
    return found


def _list_used_providers(environ: Mapping[str, str], settings: Settings) -> set[str]:
    named = [settings.model.provider, *(one.provider for one in find_keys(environ))]
    named += [one if isinstance(one, str) else one.provider for one in settings.fallback_providers]
    plain = {name.partition("/")[0].lower() for name in named}
    return {ALIASES.get(name, name) for name in plain} & set(MODELS_DEV_NAMES.values())


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))):
        raise UsageError(N_("`{url}` is not an https address.", url=redact_url(url[:200])))


async def _fetch_json(environ: Mapping[str, str], url: str, ca_file: str) -> object:
    """Return the JSON at an address. Raises ConfigError that says why there is none."""
    from hermes.providers.http import create_http_transport

    whole = merge_dotenv(environ, locate_home(environ).env_file)
    transport = create_http_transport(whole, ca_file=ca_file)
    body = bytearray()
    why = ""
    try:
        async with (
            asyncio.timeout(READ_SECONDS),
            transport.open(
                "GET",
                url,
                headers={"accept": "application/json"},
                body=b"",
                timeouts=HttpTimeouts(connect=10.0, read=READ_SECONDS),
            ) as stream,
        ):
            async for chunk in stream.chunks():
                body += chunk
                if len(body) > _MAX_BYTES:
                    break
            why = "" if stream.status == 200 else N_("it answered {status}.", status=stream.status)
    except (TransportError, TimeoutError) as error:
        why = error.message if isinstance(error, TransportError) else N_("no answer in time.")
    finally:
        await transport.close()
    if len(body) > _MAX_BYTES:
        why = N_("it is larger than {size} MB.", size=_MAX_BYTES >> 20)
    found: object = None
    if not why:
        try:
            found = msgspec.json.decode(bytes(body))
        except (msgspec.MsgspecError, RecursionError):
            why = N_("it is not JSON.")
    if why:
        said = to_one_line(strip_control_characters(why), 200)
        raise ConfigError(
            N_("The list at {url} cannot be read: {why}", url=redact_url(url), why=said), N_("Nothing was changed.")
        )
    return found


def _read_models_dev(rows: object, wanted: Collection[str]) -> tuple[dict[str, dict[str, ModelFacts]], int]:
    """Return the facts by provider and model, and how many rows were not understood."""
    listed: dict[str, dict[str, ModelFacts]] = {}
    skipped = 0
    for key, row in rows.items() if isinstance(rows, dict) else ():
        name = MODELS_DEV_NAMES.get(key, "")
        if not name or (wanted and name not in wanted):
            continue
        models = row.get("models") if isinstance(row, dict) else None
        for model, about in models.items() if isinstance(models, dict) else ():
            facts = read_dev_row(about)
            if is_model_name(model) and facts != ModelFacts():
                listed.setdefault(name, {})[model] = facts
            else:
                skipped += 1
    if not listed:
        raise ConfigError(N_("The list names no model of your providers."), N_("Nothing was changed."))
    return listed, skipped


async def _read_own_list(environ: Mapping[str, str], provider: str) -> dict[str, ModelFacts]:
    rows = await request_model_rows(environ, ModelSelection(provider=provider))
    found = dict(filter(None, map(read_own_row, rows)))
    return {name.removeprefix("models/"): facts for name, facts in found.items() if facts != ModelFacts()}


def _compare(
    home: HermesHome, listed: Mapping[str, Mapping[str, ModelFacts]], source: str, skipped: int
) -> RefreshPlan:
    try:
        before = read_model_file(home)
    except ConfigError:
        before = None  # it is what this is about to replace
    today = time.strftime("%Y-%m-%d")
    kept = dict(before.providers) if before is not None else {}
    changes: list[FactChange] = []
    for provider in sorted(listed):
        built_in = load_record(provider)
        counts = before.refresh_record(built_in) if before is not None else built_in
        fresh: dict[str, ModelFacts] = {}
        for model in sorted(listed[provider]):
            facts = _complete_facts(listed[provider][model], built_in, model, (today, source))
            if not is_same(facts, facts_of(built_in, model)):
                fresh[model] = facts
            old = facts_of(counts, model)
            if not is_same(facts, old):
                changes.append(FactChange(provider, model, old, facts))
        kept[provider] = fresh
    file = ModelFile(source=source, as_of=today, providers={name: one for name, one in kept.items() if one})
    return RefreshPlan(source, tuple(changes), file, skipped)


def facts_of(record: ProviderRecord, model: str) -> ModelFacts:
    """Return what a record says of a model."""
    window, price = find_known_length(record, model), find_model_price(record.name, model, {}, record.prices)
    return ModelFacts(window, price, find_by_name(record.pictures, model))


def _complete_facts(facts: ModelFacts, record: ProviderRecord, model: str, origin: tuple[str, str]) -> ModelFacts:
    """Return the facts with what the list leaves out and the catalogue knows."""
    known = facts_of(record, model)
    price = facts.price
    if price is not None:
        hour = next((one.hour_write for one in record.prices.values() if one.hour_write is not None), None)
        price = structs.replace(price, hour_write=hour, as_of=origin[0], source=origin[1])
        old = known.price
        if old is not None and price.long is None:
            price = structs.replace(price, beyond=old.beyond, long=old.long)
        if old is not None and (old.input, old.output) == (price.input, price.output):
            price = structs.replace(
                price,
                cache_read=old.cache_read if price.cache_read is None else price.cache_read,
                cache_write=old.cache_write if price.cache_write is None else price.cache_write,
            )
    return ModelFacts(
        facts.context_length or known.context_length, price or known.price, _choose_pictures(facts, known)
    )


def _choose_pictures(facts: ModelFacts, known: ModelFacts) -> bool | None:
    """Return whether a model takes pictures: that it does is news only where the catalogue says that it does not."""
    if facts.pictures is None or (facts.pictures and known.pictures is None):
        return known.pictures
    return facts.pictures


def is_same(one: ModelFacts, other: ModelFacts) -> bool:
    """Return whether two say the same, whoever said it."""
    return (one.context_length, one.pictures, *_iterate_amounts(one.price)) == (
        other.context_length,
        other.pictures,
        *_iterate_amounts(other.price),
    )


def _iterate_amounts(price: Price | None) -> Iterator[float | None]:
    if price is not None:
        yield from (price.input, price.output, price.cache_read, price.cache_write)
        if price.long is not None:
            yield price.beyond
            yield from _iterate_amounts(price.long)


def describe_change(one: FactChange) -> str:
    """Describe on a line what becomes different about a model."""
    parts = []
    if one.old.context_length != one.new.context_length:
        parts.append(tr("window {old} -> {new}", old=_format_window(one.old), new=_format_window(one.new)))
    if one.old.pictures != one.new.pictures:
        parts.append(tr("takes pictures") if one.new.pictures else tr("takes no pictures"))
    before, after = _format_price(one.old.price), _format_price(one.new.price)
    if before != after:
        parts.append(tr("price {old} -> {new}", old=before, new=after))
    return f"{one.provider}/{one.model}: {', '.join(parts)}"


def _format_window(facts: ModelFacts) -> str:
    return format_number(facts.context_length) if facts.context_length else tr("unknown")


def _format_price(price: Price | None) -> str:
    """Format a price as dollars a million tokens: prompt/answer, then what caches cost, then for long prompts."""
    if price is None:
        return tr("unknown")
    shown = f"${price.input:g}/{price.output:g}"
    if price.cache_read is not None or price.cache_write is not None:
        cached = ["-" if one is None else f"{one:g}" for one in (price.cache_read, price.cache_write)]
        shown += f" ({tr('cache')} {'/'.join(cached)})"
    return shown if price.long is None else f"{shown} (> {format_number(price.beyond)}: {_format_price(price.long)})"

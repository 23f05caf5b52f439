"""`/model`, `/provider`, `/reasoning`, `/personality`, `/fast`: choose the model of this
session, and how it answers.
"""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.admin.models.favourites import FavouriteModels
from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.core.events import Level
from hermes.i18n.formats import format_number
from hermes.i18n.messages import N_, join_sentences, localize, localize_inside, tr
from hermes.util.text import escape_unseen_characters, to_one_line

if TYPE_CHECKING:
    from hermes.admin.models.models import ListedModel, ModelSelection
    from hermes.admin.models.session_overrides import ModelFit, OverrideEditor

_MIN_REPORTED_BYTES = 10_000
"""The least bytes of a conversation for which a prompt cache reset is reported."""
_NEXT = "--next"
_VISIBILITY_WORDS = ("show", "hide")


def session_choices(call: CommandCall) -> "OverrideEditor":
    """Return what changes the model, the tools and the manner of the session in a chat."""
    from hermes.admin.models.session_overrides import OverrideEditor

    return OverrideEditor(call.context.app.services, call.context.app.live_session(call.context.actor))


def describe_cache_reset(count: int | None) -> str:
    """Describe the cost of a new epoch.

    Returns an empty text for a short conversation. None means that the change was stopped.
    """
    if count is None:
        return tr("It was stopped; the next message begins with what was there before.")
    if not count:
        return tr("There are no messages yet, so that costs nothing.")
    if count < _MIN_REPORTED_BYTES:
        return ""
    return tr(
        "The next request sends {n} bytes of this conversation without help from a cache.", n=format_number(count)
    )


COMMANDS = CommandList(CommandGroup.MODEL)


def _select_provider(call: CommandCall, provider: str) -> "ModelSelection":
    """Return the selection by which a provider's models are listed; empty means the session's own, with its address
    and the key that the settings have for it.
    """
    from hermes.admin.models.models import ModelSelection

    endpoint = call.context.actor.conversation.client.endpoint
    if provider not in ("", endpoint.record.name):
        return ModelSelection(provider=provider)
    if endpoint.key_given:
        return ModelSelection(provider=endpoint.record.name, base_url=endpoint.base_url, api_key=endpoint.api_key)
    return ModelSelection(provider=endpoint.record.name, base_url=session_choices(call).current.base_url)


async def complete_model(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the models that the session's provider names, and the options."""
    from hermes.admin.models.models import list_model_names

    here = _select_provider(call, "")
    if call.text.startswith("-") or here.provider == "local":
        return [
            MenuOption("--provider", tr("another provider's")),
            MenuOption("--global", tr("keep it in config.yaml")),
        ]
    return [MenuOption(one.name) for one in await list_model_names(call.context.app.services.environ, here)]


@COMMANDS.command(
    "model",
    N_("show or switch the model of this session; --global keeps it"),
    usage=N_("[name|--next] [--provider name] [--global]"),
    complete=complete_model,
    while_busy=False,
)
async def choose_model(call: CommandCall) -> None:
    """Show the model, choose one from a menu, or switch to the named one."""
    words = call.words
    everywhere = "--global" in words
    words = [word for word in words if word not in ("--global", "--session", "--refresh")]
    provider = ""
    if "--provider" in words:
        at = words.index("--provider")
        provider = next(iter(words[at + 1 : at + 2]), "")
        words = [*words[:at], *words[at + 2 :]]
        if not provider:
            raise UsageError(N_("--provider needs a name; /provider lists them."))
    if len(words) > 1 or any(word.startswith("-") and word != _NEXT for word in words):
        raise UsageError(N_("/model takes a name, --provider NAME and --global."))
    choices = session_choices(call)
    if words == [_NEXT]:
        await _switch_to_favourite(call, choices)
        return
    if words:
        await _switch_model(call, choices, words[0], provider, save_globally=everywhere)
        await _tell_unlisted(call)
    elif (name := await _pick_model(call, provider)) is not None:
        await _switch_model(call, choices, name, provider, save_globally=everywhere)


async def _tell_unlisted(call: CommandCall) -> None:
    """Tell of the session's model, whose name was typed, where its provider does not list it."""
    from hermes.admin.models.models import describe_unlisted

    selection = structs.replace(_select_provider(call, ""), model=call.context.actor.conversation.client.endpoint.model)
    with contextlib.suppress(ConfigError):  # whoever switched to it has told
        if said := await describe_unlisted(call.context.app.services.environ, selection):
            call.context.tell(localize(said), Level.WARNING)


async def _switch_to_favourite(call: CommandCall, choices: "OverrideEditor") -> None:
    """Switch to the next favourite."""
    here = call.context.actor.conversation.client.endpoint
    found = FavouriteModels(call.context.app.services.home).find_next(here.record.name, here.model)
    if found is None:
        call.context.tell(tr("There is no other favourite; Ctrl-F in /model marks one."))
        return
    provider, name = found
    await _switch_model(call, choices, name, provider if provider != here.record.name else "", save_globally=False)


async def _pick_model(call: CommandCall, provider: str) -> str | None:
    """Let the user pick one of the models that the server names; return None when they cancel."""
    from hermes.admin.models.models import list_model_names

    endpoint, here = call.context.actor.conversation.client.endpoint, _select_provider(call, provider)
    if not provider:
        now = tr(
            "The model is {model} from {provider}.",
            model=endpoint.model,
            provider=localize_inside(endpoint.record.title),
        )
        call.context.tell(escape_unseen_characters(now))
    if here.provider == "local":
        call.context.tell(tr("The embedded model stands alone; /provider shows where others are."))
        return None
    try:
        listed = await list_model_names(call.context.app.services.environ, here)
    except HermesError as error:
        call.context.tell(join_sentences(localize(error.message), localize(error.hint)), Level.WARNING)
        return await call.context.ask(tr("The model's name"))
    return await _choose_listed(call, here.provider, listed, endpoint.model)


async def _choose_listed(call: CommandCall, provider: str, listed: "Sequence[ListedModel]", now: str) -> str | None:
    """Let the user pick one of these models, favourites first; Ctrl-F marks one."""
    favourites = FavouriteModels(call.context.app.services.home)
    marked = {model for name, model in favourites.list_all() if name == provider}
    listed = sorted(listed, key=lambda one: one.name not in marked)
    names = [one.name for one in listed]

    def make_option(at: int, *, is_marked: bool) -> MenuOption:
        size = listed[at].context_length
        detail = tr("{n} tokens", n=format_number(size)) if size else ""
        return MenuOption(f"★ {names[at]}" if is_marked else names[at], detail)

    def mark(at: int) -> MenuOption:
        return make_option(at, is_marked=favourites.toggle_model(provider, names[at]))

    options = [make_option(at, is_marked=name in marked) for at, name in enumerate(names)]
    chosen = names.index(now) if now in names else 0
    terminal = call.context.terminal
    with terminal.watch_choice(mark=mark) if terminal is not None else contextlib.nullcontext():
        taken = await call.context.choose(tr("Which model?"), options, chosen=chosen) if names else None
    return None if taken is None else names[taken]


async def _switch_model(
    call: CommandCall, choices: "OverrideEditor", name: str, provider: str, *, save_globally: bool
) -> None:
    context = call.context
    choices.check_idle()
    found = await choices.open_model(choices.resolve_choice(name, provider))
    if not found.fits and not await context.confirm(_small_window_question(found)):
        context.tell(tr("Nothing was changed."))
        return
    endpoint = found.model.endpoint
    count = await choices.switch_model(found)
    context.tell(
        join_sentences(
            tr(
                "{model} from {provider} answers now.",
                model=endpoint.model,
                provider=localize_inside(endpoint.record.title),
            ),
            describe_cache_reset(count),
        )
    )
    if save_globally:
        changed = choices.save_model(found)
        context.tell(tr("Kept in config.yaml: {keys}.", keys=", ".join(changed) or tr("it was so already")))
    else:
        context.tell(tr("It holds until this session is closed; --global keeps it."))
    await context.refresh_view()


def _small_window_question(found: "ModelFit") -> str:
    return tr(
        "{model} has a window of {window} tokens, and this conversation has about {tokens}: it will be condensed, or "
        "refused. Switch anyway?",
        model=found.model.endpoint.model,
        window=format_number(found.window or 0),
        tokens=format_number(found.tokens),
    )


async def list_providers(call: CommandCall) -> Sequence[MenuOption]:
    """List the providers with a key, and the one that answers."""
    from hermes.admin.models.models import find_keys
    from hermes.sessions.model.credentials import list_named_providers

    endpoint = call.context.actor.conversation.client.endpoint
    found = {endpoint.record.name: MenuOption(endpoint.record.name, endpoint.record.title)}
    for one in list_named_providers(call.context.app.services.home, call.context.app.services.settings):
        found.setdefault(one.record.name, MenuOption(one.record.name, f"{one.record.title} · config.yaml"))
    for key in find_keys(call.context.app.services.environ):
        found.setdefault(key.provider, MenuOption(key.provider, f"{key.title} · {key.place}"))
    return list(found.values())


@COMMANDS.command(
    "provider",
    N_("choose a provider, then one of its models"),
    usage=N_("[name]"),
    complete=list_providers,
    while_busy=False,
)
async def choose_provider(call: CommandCall) -> None:
    """Choose the provider, then one of its models."""
    name = call.text
    if not name:
        options = await list_providers(call)
        here = call.context.actor.conversation.client.endpoint.record.name
        names = [one.label for one in options]
        if not options:
            call.context.tell(tr("No key of another provider was found; `hermes setup` helps with one."))
            return
        chosen = names.index(here) if here in names else 0
        taken = await call.context.choose(tr("Which provider?"), options, chosen=chosen)
        if taken is None:
            return
        name = names[taken]
    from hermes.sessions.model.credentials import load_known_record

    services = call.context.app.services
    name = load_known_record(name, services.home, services.settings).name
    picked = await _pick_model(call, name)
    if picked is not None:
        here = call.context.actor.conversation.client.endpoint.record.name
        provider = "" if name == here else name
        await _switch_model(call, session_choices(call), picked, provider, save_globally=False)


async def complete_reasoning(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the words of `/reasoning`."""
    from hermes.admin.models.session_overrides import EFFORTS

    return [MenuOption(one) for one in (*EFFORTS, *_VISIBILITY_WORDS)]


@COMMANDS.command(
    "reasoning",
    N_("how much the model thinks, and whether that is shown"),
    usage=N_("[none|low|medium|high|default|show|hide]"),
    complete=complete_reasoning,
)
async def set_reasoning(call: CommandCall) -> None:
    """Show or choose the reasoning effort, and whether reasoning is shown."""
    terminal, choices = call.context.terminal, session_choices(call)
    if call.text in _VISIBILITY_WORDS:
        if terminal is None:
            raise UsageError(N_("Reasoning is shown in terminals only."))
        shown = call.text == "show"
        terminal.set_display(structs.replace(terminal.display, show_reasoning=shown))
        call.context.tell(tr("Reasoning is shown as it comes.") if shown else tr("Reasoning is not shown."))
        return
    if call.text:
        count = await choices.set_effort(call.text)
        told = tr("Reasoning effort: {effort}.", effort=choices.effort or tr("as the provider has it"))
        call.context.tell(join_sentences(told, describe_cache_reset(count)))
        return
    call.context.tell(tr("Reasoning effort: {effort}.", effort=choices.effort or tr("as the provider has it")))
    if terminal is not None:
        is_shown = terminal.display.show_reasoning
        call.context.tell(tr("Reasoning is shown as it comes.") if is_shown else tr("Reasoning is not shown."))


async def list_personalities(call: CommandCall) -> Sequence[MenuOption]:
    """List the personalities."""
    known = session_choices(call).list_personalities()
    return [
        MenuOption("none", tr("as SOUL.md says")),
        *(MenuOption(name, to_one_line(text, 300)) for name, text in known.items()),
    ]


@COMMANDS.command(
    "personality",
    N_("how the agent is to be in this session"),
    usage=N_("[name|none|default]"),
    complete=list_personalities,
    while_busy=False,
)
async def choose_personality(call: CommandCall) -> None:
    """Choose the personality, by name or from a menu."""
    choices, name = session_choices(call), call.text
    if not name:
        options = await list_personalities(call)
        names = [one.label for one in options]
        chosen = names.index(choices.personality) if choices.personality in names else 0
        taken = await call.context.choose(tr("Which personality?"), options, chosen=chosen)
        if taken is None:
            return
        name = names[taken]
    count = await choices.set_personality(name)
    call.context.tell(
        join_sentences(tr("Personality: {name}.", name=escape_unseen_characters(name)), describe_cache_reset(count))
    )
    call.context.tell(tr("`hermes config set agent.personality {name}` keeps it.", name=escape_unseen_characters(name)))


@COMMANDS.command("fast", N_("what makes answers quicker"))
async def describe_fast(call: CommandCall) -> None:
    """Tell what makes answers faster."""
    call.context.tell(
        tr("No provider is asked for a faster lane in this version. /reasoning low and a smaller /model are quicker.")
    )

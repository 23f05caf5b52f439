"""`/model`, `/provider`, `/reasoning`, `/personality`, `/fast`: who answers in this session, and how."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Option
from hermes.core.errors import HermesError, UsageError
from hermes.core.events import Level
from hermes.i18n.formats import number
from hermes.i18n.messages import joined, phrase, say, translated
from hermes.util.text import escaped, one_line

if TYPE_CHECKING:
    from hermes.admin.models.session_overrides import Choices, Leading

_WORTH_SAYING = 10_000
"""Bytes of a conversation from which on it is said that they are read anew."""
_SHOW = ("show", "hide")


def _choices(call: Call) -> "Choices":
    from hermes.admin.models.session_overrides import Choices

    return Choices(call.desk.app.premises, call.desk.app.live(call.desk.actor))


def sent_anew(count: int | None) -> str:
    """What a new epoch costs, in words; nothing where it was stopped or nothing was said yet."""
    if count is None:
        return say("It was stopped; the next message begins with what was there before.")
    if not count:
        return say("Nothing was said yet, so that costs nothing.")
    if count < _WORTH_SAYING:
        return ""
    return say("The next request sends {n} bytes of this conversation without help from a cache.", n=number(count))


async def model(call: Call) -> None:
    """Show, choose from a menu, or switch to the model that is named."""
    words = call.words
    everywhere = "--global" in words
    words = [word for word in words if word not in ("--global", "--session", "--refresh")]
    provider = ""
    if "--provider" in words:
        at = words.index("--provider")
        provider = next(iter(words[at + 1 : at + 2]), "")
        words = [*words[:at], *words[at + 2 :]]
        if not provider:
            raise UsageError(phrase("--provider needs a name; /provider lists them."))
    if len(words) > 1 or any(word.startswith("-") for word in words):
        raise UsageError(phrase("/model takes a name, --provider NAME and --global."))
    choices = _choices(call)
    name = words[0] if words else await _picked(call, provider)
    if name is not None:
        await _lead(call, choices, name, provider, everywhere=everywhere)


async def _picked(call: Call, provider: str) -> str | None:
    """The model that the person picks of those that the server names; None when they would rather not."""
    from hermes.admin.models.models import Candidate, model_names

    choices, endpoint = _choices(call), call.desk.actor.conversation.client.endpoint
    here = Candidate(provider=provider or endpoint.record.name, base_url="" if provider else choices.current.base_url)
    if not provider:
        now = say(
            "The model is {model} from {provider}.", model=endpoint.model, provider=translated(endpoint.record.title)
        )
        call.desk.tell(escaped(now))
    if here.provider == "local":
        call.desk.tell(say("The embedded model stands alone; /provider shows where others are."))
        return None
    try:
        listed = await model_names(call.desk.app.premises.environ, here)
    except HermesError as error:
        call.desk.tell(joined(translated(error.message), translated(error.hint)), Level.WARNING)
        return await call.desk.ask(say("The model's name"))
    names = [one.name for one in listed]
    options = [
        Option(one.name, say("{n} tokens", n=number(one.context_length)) if one.context_length else "")
        for one in listed
    ]
    chosen = names.index(endpoint.model) if endpoint.model in names else 0
    taken = await call.desk.choose(say("Which model?"), options, chosen=chosen) if names else None
    return None if taken is None else names[taken]


async def _lead(call: Call, choices: "Choices", name: str, provider: str, *, everywhere: bool) -> None:
    desk = call.desk
    choices.check_idle()
    found = await choices.leading(choices.wanted(name, provider))
    if not found.fits and not await desk.confirm(_too_small(found)):
        desk.tell(say("Nothing was changed."))
        return
    endpoint = found.model.endpoint
    count = await choices.lead(found)
    desk.tell(
        joined(
            say(
                "{model} from {provider} answers now.", model=endpoint.model, provider=translated(endpoint.record.title)
            ),
            sent_anew(count),
        )
    )
    if everywhere:
        changed = choices.keep(found)
        desk.tell(say("Kept in config.yaml: {keys}.", keys=", ".join(changed) or say("it was so already")))
    else:
        desk.tell(say("It holds until this session is closed; --global keeps it."))
    await desk.refresh()


def _too_small(found: "Leading") -> str:
    return say(
        "{model} has a window of {window} tokens, and this conversation has about {tokens}: it will be condensed, or "
        "refused. Switch all the same?",
        model=found.model.endpoint.model,
        window=number(found.window or 0),
        tokens=number(found.tokens),
    )


async def models(call: Call) -> Sequence[Option]:
    """The models that the session's provider names, and what may stand beside one."""
    from hermes.admin.models.models import Candidate, model_names

    choices, endpoint = _choices(call), call.desk.actor.conversation.client.endpoint
    here = Candidate(provider=endpoint.record.name, base_url=choices.current.base_url)
    if call.text.startswith("-") or here.provider == "local":
        return [Option("--provider", say("another provider's")), Option("--global", say("keep it in config.yaml"))]
    return [Option(one.name) for one in await model_names(call.desk.app.premises.environ, here)]


async def provider(call: Call) -> None:
    """Choose where the model is, then which."""
    name = call.text
    if not name:
        options = await providers(call)
        here = call.desk.actor.conversation.client.endpoint.record.name
        names = [one.label for one in options]
        if not options:
            call.desk.tell(say("No key of another provider was found; `hermes setup` helps with one."))
            return
        chosen = names.index(here) if here in names else 0
        taken = await call.desk.choose(say("Which provider?"), options, chosen=chosen)
        if taken is None:
            return
        name = names[taken]
    from hermes.providers.records import record

    name = record(name).name
    picked = await _picked(call, name)
    if picked is not None:
        await _lead(call, _choices(call), picked, name, everywhere=False)


async def providers(call: Call) -> Sequence[Option]:
    """The providers that there is a key for, and the one that answers."""
    from hermes.admin.models.models import found_keys

    endpoint = call.desk.actor.conversation.client.endpoint
    found = {endpoint.record.name: Option(endpoint.record.name, endpoint.record.title)}
    for key in found_keys(call.desk.app.premises.environ):
        found.setdefault(key.provider, Option(key.provider, f"{key.title} · {key.place}"))
    return list(found.values())


async def reasoning(call: Call) -> None:
    """Show or choose how much the model thinks, and whether that is shown."""
    terminal, choices = call.desk.terminal, _choices(call)
    if call.text in _SHOW:
        if terminal is None:
            raise UsageError(phrase("Reasoning is shown in terminals only."))
        shown = call.text == "show"
        terminal.set_display(structs.replace(terminal.display, show_reasoning=shown))
        call.desk.tell(say("Reasoning is shown as it comes.") if shown else say("Reasoning is not shown."))
        return
    if call.text:
        count = await choices.think(call.text)
        told = say("Reasoning effort: {effort}.", effort=choices.effort or say("as the provider has it"))
        call.desk.tell(joined(told, sent_anew(count)))
        return
    call.desk.tell(say("Reasoning effort: {effort}.", effort=choices.effort or say("as the provider has it")))
    if terminal is not None:
        is_shown = terminal.display.show_reasoning
        call.desk.tell(say("Reasoning is shown as it comes.") if is_shown else say("Reasoning is not shown."))


async def efforts(_call: Call) -> Sequence[Option]:
    """The words behind `/reasoning`."""
    from hermes.admin.models.session_overrides import EFFORTS

    return [Option(one) for one in (*EFFORTS, *_SHOW)]


async def personality(call: Call) -> None:
    """Choose how the agent is, by name or from a menu."""
    choices, name = _choices(call), call.text
    if not name:
        options = await personalities(call)
        names = [one.label for one in options]
        chosen = names.index(choices.personality) if choices.personality in names else 0
        taken = await call.desk.choose(say("Which personality?"), options, chosen=chosen)
        if taken is None:
            return
        name = names[taken]
    count = await choices.be(name)
    call.desk.tell(joined(say("Personality: {name}.", name=escaped(name)), sent_anew(count)))
    call.desk.tell(say("`hermes config set agent.personality {name}` keeps it.", name=escaped(name)))


async def personalities(call: Call) -> Sequence[Option]:
    """The personalities there are."""
    known = _choices(call).personalities()
    return [Option("none", say("as SOUL.md says")), *(Option(name, one_line(text, 90)) for name, text in known.items())]


async def fast(call: Call) -> None:
    """Say what makes answers quicker here."""
    call.desk.tell(
        say("No provider is asked for a faster lane in this version. /reasoning low and a smaller /model are quicker.")
    )


COMMANDS = (
    Command(
        name="model",
        about=phrase("show or switch the model of this session; --global keeps it"),
        usage=phrase("[name] [--provider name] [--global]"),
        group=Group.MODEL,
        run=model,
        complete=models,
        while_busy=False,
    ),
    Command(
        name="provider",
        about=phrase("choose a provider, then one of its models"),
        usage=phrase("[name]"),
        group=Group.MODEL,
        run=provider,
        complete=providers,
        while_busy=False,
    ),
    Command(
        name="reasoning",
        about=phrase("how much the model thinks, and whether that is shown"),
        usage=phrase("[none|low|medium|high|default|show|hide]"),
        group=Group.MODEL,
        run=reasoning,
        complete=efforts,
    ),
    Command(
        name="personality",
        about=phrase("how the agent is to be in this session"),
        usage=phrase("[name|none|default]"),
        group=Group.MODEL,
        run=personality,
        complete=personalities,
        while_busy=False,
    ),
    Command(
        name="fast",
        about=phrase("what makes answers quicker"),
        group=Group.MODEL,
        run=fast,
    ),
)

"""A message that is said to a chat from outside any session: by `hermes send`, or by a job."""

import asyncio
import mimetypes
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct

from hermes.admin.send import SendDesk
from hermes.config.environment import with_dotenv
from hermes.core.chats import Binding, ChatKind, MediaKind, Outgoing, Owed, Place
from hermes.core.errors import ConfigError, NotFoundError, UsageError
from hermes.core.ids import new_letter_id
from hermes.gateway.accounts import Plan, plan_of
from hermes.gateway.answer_text import pieces
from hermes.gateway.platform import Platform, Surroundings
from hermes.gateway.text.media import KINDS
from hermes.i18n.messages import phrase, say
from hermes.sessions.http_client import client_session

HOME = "home"
ALL = "all"
_NOW_SECONDS = 120.0


class Saying(Struct, frozen=True, kw_only=True):
    """What is to be said: a text, a file, or both."""

    text: str = ""
    file: str = ""


def places(target: str, plans: Mapping[str, Plan]) -> list[Place]:
    """Where a target is: `NAME:CHAT[:THREAD]`, `NAME` (the home chat of that account), `home` (the only home chat there
    is) or `all` (every home chat); empty for one that nobody reaches."""
    homes = {name: plan for name, plan in plans.items() if plan.settings.home}
    if target == ALL or (target == HOME and len(homes) == 1):
        return [_place(plan, plan.settings.home) for plan in homes.values()]
    name, _, chat = target.partition(":")
    plan = plans.get(name)
    if plan is None:
        return []
    chat = chat or plan.settings.home
    return [_place(plan, chat)] if chat else []


def must_reach(target: str, plans: Mapping[str, Plan]) -> list[Place]:
    """The same. Raises NotFoundError that says what is missing."""
    found = places(target, plans)
    if found:
        return found
    homes = [name for name, plan in plans.items() if plan.settings.home]
    if target in (HOME, ALL):
        hint = (
            phrase("Several accounts have one ({names}): name the account.", names=", ".join(homes))
            if homes
            else phrase("Set `platforms.NAME.home` in config.yaml.")
        )
        raise NotFoundError(phrase("There is no home chat."), hint)
    name = target.partition(":")[0]
    if name in plans:
        raise NotFoundError(
            phrase("{name} has no home chat.", name=name), phrase("Say which: --to {name}:CHAT", name=name)
        )
    known = ", ".join(plans) or phrase("none")
    raise NotFoundError(
        phrase("No account is called {name!r}.", name=name), phrase("Those set up are: {names}.", names=known)
    )


def owed_for(target: str, saying: Saying, plans: Mapping[str, Plan], *, key: str = "") -> list[Owed]:
    """What is owed for it; the same key again owes nothing more. Raises NotFoundError, UsageError."""
    found: list[Owed] = []
    base = key or f"send:{new_letter_id()}"
    for place in must_reach(target, plans):
        plan = plans[place.platform]
        if saying.file and not plan.descriptor.can.media:
            raise UsageError(phrase("{name} takes no files.", name=place.platform))
        own = f"{base}:{place.lane}"
        messages = [Outgoing(place=place, text=piece) for piece in pieces(saying.text, plan.descriptor.can)]
        if saying.file:
            messages.append(Outgoing(place=place, file=saying.file, kind=_kind(saying.file)))
        for number, message in enumerate(messages):
            name = f"{own}:{number}"
            found.append(Owed(key=name, message=_keyed(message, name)))
    return found


async def send_now(target: str, saying: Saying, plans: Mapping[str, Plan], desk: SendDesk) -> str:
    """Say it at once, over a connection of its own that only sends. Raises PlatformError; then it may be said again."""
    owed = owed_for(target, saying, plans)
    async with AsyncExitStack() as stack:
        http = client_session(desk.environ, desk.settings.model.ca_bundle)
        stack.push_async_callback(http.close)
        for name in {one.message.place.platform for one in owed}:
            around = Surroundings(
                name=name,
                http=http,
                clock=desk.clock,
                media=desk.home.root / "media" / name,
                cursors=await desk.store.chats.chat_cursors(name),
                report=lambda _line: None,
            )
            messages = [one.message for one in owed if one.message.place.platform == name]
            async with asyncio.timeout(_NOW_SECONDS):
                await _said(await plans[name].descriptor.open(plans[name].options, around), messages)
    return said_to(owed)


async def _said(platform: Platform, messages: Sequence[Outgoing]) -> None:
    try:
        for one in messages:
            await platform.send(one)
    finally:
        await platform.close()


async def owe(target: str, saying: Saying, plans: Mapping[str, Plan], desk: SendDesk) -> str:
    """Write down that it is to be said: the gateway does it when it runs."""
    owed = owed_for(target, saying, plans)
    await desk.store.chats.owe(owed)
    return said_to(owed)


def said_to(owed: Sequence[Owed]) -> str:
    """Where it goes, in a few words."""
    lanes = dict.fromkeys(one.message.place.lane.rstrip(":") for one in owed)
    return ", ".join(lanes)


def plans_for(desk: SendDesk) -> dict[str, Plan]:
    """The accounts that are set up. One that is wrong is left out: what is said to it cannot be reached."""
    environ = with_dotenv(desk.environ, desk.home.env_file)
    found = {}
    for name, given in desk.settings.platforms.items():
        try:
            plan = plan_of(name, given, environ)
        except ConfigError:
            continue
        if plan is not None:
            found[name] = plan
    return found


async def known_chats(desk: SendDesk) -> list[tuple[str, str, str]]:
    """The chats there are: target, what people call it, and what it is (`home`, or the kind of chat)."""
    found: dict[str, tuple[str, str, str]] = {}
    for name, plan in plans_for(desk).items():
        if plan.settings.home:
            target = f"{name}:{plan.settings.home}"
            found[target] = (target, "", say("home"))
        for one in await desk.store.chats.bindings(name):
            target = _target(one)
            known = found.get(target)
            kind = known[2] if known else one.place.kind.value
            found[target] = (target, one.place.name, kind)
    return list(found.values())


def checked_file(path: str) -> str:
    """The whole path of a file that can be sent. Raises UsageError."""
    whole = Path(path).expanduser().absolute()
    if not whole.is_file() or not os.access(whole, os.R_OK):
        raise UsageError(phrase("There is no file {path} that can be read.", path=path))
    return str(whole)


def _target(binding: Binding) -> str:
    place = binding.place
    return ":".join(one for one in (place.platform, place.chat, place.thread) if one)


def _place(plan: Plan, chat: str) -> Place:
    """A chat, or a thread in it where the platform has threads."""
    thread = ""
    if plan.descriptor.can.threads and ":" in chat:
        chat, _, thread = chat.rpartition(":")
    return Place(plan.name, chat, thread, kind=ChatKind.GROUP)


def _kind(file: str) -> MediaKind:
    end = file.rpartition(".")[2].lower()
    if end in KINDS:
        return KINDS[end]
    guessed = (mimetypes.guess_type(file)[0] or "").partition("/")[0]
    return {"image": MediaKind.IMAGE, "video": MediaKind.VIDEO}.get(guessed, MediaKind.DOCUMENT)


def _keyed(message: Outgoing, key: str) -> Outgoing:
    from msgspec import structs

    return structs.replace(message, key=key)

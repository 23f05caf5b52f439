"""Messages to a chat from outside any session: by `hermes send`, or by a job.

Delivery of jobs' output to chats, through the outbox like every other message.
"""

import asyncio
import contextlib
import mimetypes
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct, structs

from hermes.admin.home_services import HomeServices
from hermes.config.chat_targets import PLATFORMS_WITHOUT_CHATS, TargetBook
from hermes.config.environment import merge_dotenv
from hermes.core.chats import ChatKind, MediaKind, OutboxItem, Outgoing, Place
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.ids import new_queued_message_id
from hermes.gateway.accounts import AccountPlan, PlatformAccount, plan_accounts
from hermes.gateway.outbox import Outbox
from hermes.gateway.platform import Capabilities, Platform, PlatformContext
from hermes.gateway.text.media import KINDS
from hermes.gateway.text.split import split_text
from hermes.i18n.messages import N_, tr
from hermes.markup.links import defuse_links
from hermes.sessions.app import App
from hermes.sessions.http_client import create_client_session
from hermes.sessions.target_book import format_place, load_target_book

_NOW_SECONDS = 120.0


class SendContent(Struct, frozen=True, kw_only=True):
    """The content of a message: a text, a file, or both."""

    text: str = ""
    file: str = ""


def find_places(target: str, plans: Mapping[str, AccountPlan], book: TargetBook) -> list[Place]:
    """Return the places of a target. Raises NotFoundError and UsageError for one that reaches nobody."""
    return [_make_place(plans[one.account], one.chat) for one in book.find_chats(target)]


def list_plan_homes(plans: Mapping[str, AccountPlan]) -> dict[str, str]:
    """Return the home chat of each account that has chats; empty for an account without one."""
    return {
        name: one.settings.home
        for name, one in plans.items()
        if (one.settings.platform or name) not in PLATFORMS_WITHOUT_CHATS
    }


def build_outbox_items(
    places: Sequence[Place], content: SendContent, plans: Mapping[str, AccountPlan], *, key: str = ""
) -> list[OutboxItem]:
    """Build the outbox items of a message; the same key again adds nothing. Raises UsageError."""
    found: list[OutboxItem] = []
    base = key or f"send:{new_queued_message_id()}"
    for place in places:
        plan = plans[place.platform]
        if content.file and not plan.descriptor.can.media:
            raise UsageError(N_("{name} takes no files.", name=place.platform))
        items = _text_items(place, content.text, plan.descriptor.can, f"{base}:{place.lane}")
        if content.file:
            message = Outgoing(place=place, file=content.file, kind=_guess_kind(content.file))
            items.append(_make_item(message, f"{base}:{place.lane}:{len(items)}"))
        found += items
    return found


def _text_items(place: Place, text: str, can: Capabilities, key: str) -> list[OutboxItem]:
    return [
        _make_item(Outgoing(place=place, text=piece), f"{key}:{number}")
        for number, piece in enumerate(split_text(text, can))
    ]


def _make_item(message: Outgoing, key: str) -> OutboxItem:
    return OutboxItem(key=key, message=structs.replace(message, key=key))


async def send_now(target: str, content: SendContent, plans: Mapping[str, AccountPlan], send_deps: HomeServices) -> str:
    """Send it at once, over a connection of its own that only sends. Raises PlatformError; then it may be repeated."""
    book = await _load_book(plans, send_deps)
    items = build_outbox_items(find_places(target, plans, book), content, plans)
    async with AsyncExitStack() as stack:
        http = create_client_session(send_deps.environ, send_deps.settings.model.ca_bundle)
        stack.push_async_callback(http.close)
        for name in {one.message.place.platform for one in items}:
            context = PlatformContext(
                name=name,
                http=http,
                clock=send_deps.clock,
                media=send_deps.home.root / "media" / name,
                cursors=await send_deps.store.chats.get_cursors(name),
                report=lambda _line: None,
            )
            messages = [one.message for one in items if one.message.place.platform == name]
            async with asyncio.timeout(_NOW_SECONDS):
                await _send_messages(await plans[name].descriptor.open(plans[name].options, context), messages)
    return describe_targets(items, target, book)


async def _send_messages(platform: Platform, messages: Sequence[Outgoing]) -> None:
    try:
        for one in messages:
            await platform.send(one)
    finally:
        await platform.close()


async def queue_message(
    target: str, content: SendContent, plans: Mapping[str, AccountPlan], send_deps: HomeServices
) -> str:
    """Put it into the outbox; the gateway sends it when it runs."""
    book = await _load_book(plans, send_deps)
    items = build_outbox_items(find_places(target, plans, book), content, plans)
    await send_deps.store.outbox.enqueue(items)
    return describe_targets(items, target, book)


async def _load_book(plans: Mapping[str, AccountPlan], send_deps: HomeServices) -> TargetBook:
    return await load_target_book(send_deps.store, send_deps.settings.platforms, list_plan_homes(plans))


def describe_targets(items: Sequence[OutboxItem], target: str, book: TargetBook) -> str:
    """Return where the messages for a target go, in a few words, and why where nobody has named that chat."""
    where = ", ".join(dict.fromkeys(one.message.place.lane.rstrip(":") for one in items))
    if not book.means_owner_chat(target):
        return where
    return N_("{where} (the owner's direct chat: no home chat is set)", where=where)


def load_plans(send_deps: HomeServices) -> dict[str, AccountPlan]:
    """Return the configured accounts. A wrong one is left out: it cannot be reached."""
    environ = merge_dotenv(send_deps.environ, send_deps.home.env_file)
    plans, _ = plan_accounts(send_deps.settings.platforms, environ)
    return {plan.name: plan for plan in plans}


async def list_known_chats(send_deps: HomeServices) -> list[tuple[str, str, str]]:
    """List the known chats: target, the name that people use, and what it is (`home`, or the kind of chat)."""
    found: dict[str, tuple[str, str, str]] = {}
    for name, plan in load_plans(send_deps).items():
        if plan.settings.home:
            target = f"{name}:{plan.settings.home}"
            found[target] = (target, "", tr("home"))
        bindings = await send_deps.store.chats.list_platform_bindings(name)
        chats = await send_deps.store.chats.list_direct_chats(name)
        for place in [*(one.place for one in bindings), *(one.place for one in chats)]:
            target = format_place(place).text
            known = found.get(target)
            kind = known[2] if known else place.kind.value
            found[target] = (target, place.name, kind)
    return list(found.values())


def check_file(path: str) -> str:
    """Return the absolute path of a file that can be sent. Raises UsageError."""
    whole = Path(path).expanduser().absolute()
    if not whole.is_file() or not os.access(whole, os.R_OK):
        raise UsageError(N_("There is no file {path} that can be read.", path=path))
    return str(whole)


def _make_place(plan: AccountPlan, chat: str) -> Place:
    """Return the place of a chat, or of a thread in it where the platform has threads."""
    thread = ""
    if plan.descriptor.can.threads and ":" in chat:
        chat, _, thread = chat.rpartition(":")
    return Place(plan.name, chat, thread, kind=ChatKind.GROUP)


def _guess_kind(file: str) -> MediaKind:
    end = file.rpartition(".")[2].lower()
    if end in KINDS:
        return KINDS[end]
    guessed = (mimetypes.guess_type(file)[0] or "").partition("/")[0]
    return {"image": MediaKind.IMAGE, "video": MediaKind.VIDEO}.get(guessed, MediaKind.DOCUMENT)


class ChatJobDelivery:
    """The `Courier` of jobs in the gateway."""

    def __init__(self, accounts: Mapping[str, PlatformAccount], outbox: Outbox, app: App) -> None:
        self._accounts = accounts
        self._outbox = outbox
        self._services = app.services
        self._store = app.services.store

    async def find_places(self, target: str) -> list[Place]:
        """Return the places of a target now. Raises NotFoundError and UsageError for one that reaches nobody."""
        return find_places(target, self._plans, await self.load_book())

    async def load_book(self) -> TargetBook:
        """Return what can be a target now."""
        return await load_target_book(self._store, self._services.settings.platforms, list_plan_homes(self._plans))

    @property
    def _plans(self) -> dict[str, AccountPlan]:
        """The plan of each account; what is for one that is not open here (`hermes serve`) waits in the outbox."""
        plans, _ = plan_accounts(self._services.settings.platforms, self._services.environ)
        return {plan.name: plan for plan in plans} | {name: one.plan for name, one in self._accounts.items()}

    async def can_reach(self, target: str) -> bool:
        """Return whether this target means a chat of an account that is set up."""
        with contextlib.suppress(NotFoundError, UsageError):
            return bool(await self.find_places(target))
        return False

    async def deliver(self, target: str, text: str, files: Sequence[Path], *, key: str, session_id: str = "") -> None:
        """Put it into the outbox; the same key again adds nothing."""
        found, plans = await self.find_places(target), self._plans
        if session_id and await self._store.messages.list_untrusted_sources([session_id]):
            text = defuse_links(text)
        for place in found:
            can = plans[place.platform].descriptor.can
            own = f"{key}:{place.lane}"
            items = _text_items(place, text, can, own)
            for number, file in enumerate(files if can.media else ()):
                message = Outgoing(place=place, file=str(file), kind=MediaKind.DOCUMENT)
                items.append(_make_item(message, f"{own}:file:{number}"))
            await self._outbox.enqueue(items)

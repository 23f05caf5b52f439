"""Addressing: which messages the gateway takes, and which chat session they belong to.

Access rights to slash commands in chats.
"""

import re
from datetime import datetime, timedelta
from functools import cache

from msgspec import Struct

from hermes.admin.people.identity import PersonIdentity, PersonRole
from hermes.commands.command import CommandRegistry
from hermes.commands.context import Surface
from hermes.commands.registry import command_registry
from hermes.config.gateway import AccountSettings, ChannelSettings, ResetMode, ResetSettings
from hermes.core.chats import ChatKind, InboundEvent, Place
from hermes.gateway.accounts import PlatformAccount

_DEFAULT_CHANNEL = ChannelSettings()


def channel_settings(settings: AccountSettings, place: Place) -> ChannelSettings:
    """Return the settings of one chat, or of its thread."""
    return settings.channels.get(place.thread) or settings.channels.get(place.chat) or _DEFAULT_CHANNEL


def ignore_reason(settings: AccountSettings, event: InboundEvent) -> str:
    """Return why an event is not for the agent; empty when it is."""
    place, channel = event.place, channel_settings(settings, event.place)
    if channel.ignore:
        return "ignored channel"
    if place.kind is ChatKind.DM or event.press:
        return ""
    if "*" not in settings.groups and place.chat not in settings.groups:
        return "not a group of ours"
    needs = settings.require_mention if channel.require_mention is None else channel.require_mention
    if not needs or is_addressed(settings, event):
        return ""
    return "not addressed"


def is_addressed(settings: AccountSettings, event: InboundEvent) -> bool:
    """Return whether a message addresses the agent: by name, reply, command, or a word of the settings."""
    if event.mentioned or event.text.startswith("/") or (event.reply is not None and event.reply.own):
        return True
    words = event.text.casefold()
    return any(_contains_word(pattern.casefold(), words) for pattern in settings.mention_patterns)


def _contains_word(word: str, text: str) -> bool:
    return bool(word) and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


class ChatAddress(Struct, frozen=True):
    """A person in a place of an account, and the key of the chat session that this makes."""

    account: PlatformAccount
    place: Place
    person: PersonIdentity
    key: str


def find_address(account: PlatformAccount, place: Place, person: PersonIdentity) -> ChatAddress:
    """Return the address of a person's chat session in a place."""
    return ChatAddress(account, place, person, chat_session_key(account.plan.settings, place, person))


def chat_session_key(settings: AccountSettings, place: Place, person: PersonIdentity) -> str:
    """Return the key of a chat session: a direct chat, a group's person, or a thread that all share.

    In a shared place the role takes the place of the person: that keeps people of different roles apart.
    """
    key = f"agent:main:{place.platform}:{place.kind}:{place.chat}"
    if place.thread:
        key += f":{place.thread}"
    if place.kind is not ChatKind.DM:
        key += f":~{person.role}" if is_shared(settings, place) else f":{person.id}"
    return key


def is_shared(settings: AccountSettings, place: Place) -> bool:
    """Return whether several people share one session here."""
    return place.kind is not ChatKind.DM and (settings.shared or bool(place.thread))


def is_expired(reset: ResetSettings, last_at: float, now: float) -> bool:
    """Return whether a chat session whose last message was at `last_at` starts over `now`."""
    if reset.mode in (ResetMode.IDLE, ResetMode.BOTH) and now - last_at > reset.idle_minutes * 60:
        return True
    if reset.mode not in (ResetMode.DAILY, ResetMode.BOTH):
        return False
    moment = datetime.fromtimestamp(now)
    border = moment.replace(hour=reset.at_hour, minute=0, second=0, microsecond=0)
    if border > moment:
        border -= timedelta(days=1)
    return last_at < border.timestamp()


_OWNER_COMMANDS = frozenset(
    {"sessions", "resume", "search", "insights", "cron", "approvals", "trust", "reload-mcp", "snapshot"}
)
"""Commands that look into everybody's sessions, jobs and questions, or change what the owner relies on."""


_USER_COMMANDS = frozenset(
    {
        "help",
        "new",
        "stop",
        "steer",
        "queue",
        "interrupt",
        "retry",
        "undo",
        "redo",
        "compress",
        "status",
        "usage",
        "title",
        "memory",
    }
)


_GUEST_COMMANDS = frozenset({"help", "new", "stop", "usage"})


@cache
def commands_for(role: PersonRole) -> CommandRegistry:
    """Return the registry of a role's commands; help lists no others."""
    person = PersonIdentity("", role)
    return CommandRegistry(
        [one for one in command_registry(Surface.CHAT).commands if can_use_command(person, one.name)], Surface.CHAT
    )


def can_use_command(person: PersonIdentity, name: str) -> bool:
    """Return whether a person may use a command: an owner all, an admin those that do not look into others' data,
    others those that concern their own session.
    """
    if person.is_owner:
        return True
    command = command_registry(Surface.CHAT).find_command(name)
    if command is None:
        return person.can_administer  # who looks after Hermes is told that there is none
    if person.can_administer:
        return command.name not in _OWNER_COMMANDS
    return command.name in (_USER_COMMANDS if person.role is PersonRole.USER else _GUEST_COMMANDS)

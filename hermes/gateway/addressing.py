"""Whom the gateway listens to, and where; what conversation something belongs to."""

import re
from datetime import datetime, timedelta

from hermes.config.gateway import AccountSettings, ChannelSettings, ResetMode, ResetSettings
from hermes.core.chats import Arrival, ChatKind, Place

_NOTHING = ChannelSettings()


def channel_of(settings: AccountSettings, place: Place) -> ChannelSettings:
    """What the settings say of one chat, or of its thread."""
    return settings.channels.get(place.thread) or settings.channels.get(place.chat) or _NOTHING


def not_for_us(settings: AccountSettings, arrival: Arrival) -> str:
    """Why something that was said is not for the agent; empty when it is (row GW-07)."""
    place, channel = arrival.place, channel_of(settings, arrival.place)
    if channel.ignore:
        return "ignored channel"
    if place.kind is ChatKind.DM or arrival.press:
        return ""
    if "*" not in settings.groups and place.chat not in settings.groups:
        return "not a group of ours"
    needs = settings.require_mention if channel.require_mention is None else channel.require_mention
    if not needs or addressed(settings, arrival):
        return ""
    return "not addressed"


def addressed(settings: AccountSettings, arrival: Arrival) -> bool:
    """Whether somebody speaks to the agent: by name, by an answer to it, by a command, by a word of the settings."""
    if arrival.mentioned or arrival.text.startswith("/") or (arrival.reply is not None and arrival.reply.own):
        return True
    words = arrival.text.casefold()
    return any(_stands(pattern.casefold(), words) for pattern in settings.mention_patterns)


def _stands(word: str, text: str) -> bool:
    return bool(word) and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def conversation_key(settings: AccountSettings, place: Place, person: str) -> str:
    """Which conversation something belongs to (X-56): a direct chat, a group's person, or a thread that all share.

    What people of different roles share is kept apart by who calls this: `person` is then the role.
    """
    key = f"agent:main:{place.platform}:{place.kind}:{place.chat}"
    if place.thread:
        key += f":{place.thread}"
    if place.kind is not ChatKind.DM:
        key += f":{person}"
    return key


def is_shared(settings: AccountSettings, place: Place) -> bool:
    """Whether several people talk in one session here."""
    return place.kind is not ChatKind.DM and (settings.shared or bool(place.thread))


def is_over(reset: ResetSettings, last_at: float, now: float) -> bool:
    """Whether a conversation in which something was said last at `last_at` begins anew `now` (row GW-02)."""
    if reset.mode in (ResetMode.IDLE, ResetMode.BOTH) and now - last_at > reset.idle_minutes * 60:
        return True
    if reset.mode not in (ResetMode.DAILY, ResetMode.BOTH):
        return False
    moment = datetime.fromtimestamp(now)
    border = moment.replace(hour=reset.at_hour, minute=0, second=0, microsecond=0)
    if border > moment:
        border -= timedelta(days=1)
    return last_at < border.timestamp()

"""Who talks in chats: pairing, by which another person becomes known, what each may use of turns and money, and the
options of their sessions.

Whoever administers Hermes makes a code, and another person becomes known by sending it to the bot. Nobody unknown is
answered, except where `pairing` of the account lets people ask: they are shown a code, once. Five wrong codes lock
an account for an hour; how codes are made is in `admin/people/admin.py`.
"""

import os
import re
from collections import deque

from msgspec import Struct, field, structs

from hermes.admin.people.admin import CODE_FORM, make_code, normalize_code
from hermes.admin.people.identity import OWNER_ID, PersonIdentity, PersonRole, person_options, role_rights
from hermes.config.gateway import AccountSettings, ChannelSettings, RoleSettings
from hermes.config.home import person_folder_name
from hermes.core.chats import AuditEntry, ChatKind, InboundEvent, PairingRequest
from hermes.i18n.formats import format_time
from hermes.i18n.messages import tr
from hermes.sessions.app import App
from hermes.sessions.model.spending import PERSON_CAP, period_starts, person_cap
from hermes.sessions.options import SessionOptions

MAX_FAILURES = 5
LOCKED_SECONDS = 3600.0
NOTE_INTERVAL = 600.0
"""Seconds within which an unknown sender's messages are noted once."""
_START = re.compile(r"/start\s+", re.IGNORECASE)
"""What stands before the code where a link of the platform sends it."""
MAX_REQUESTS = 20
"""Unknown people of a platform whose requests may wait; then the oldest gives way to the next one."""
KEPT_SECONDS = 600.0
"""How long a request waits before it can give way: so long nobody can push it out by asking from many accounts, and no
more than `MAX_REQUESTS` questions come to who looks after Hermes."""
REQUEST_SECONDS = 3600.0
HOUR_SECONDS = 3600.0
_DAY_SECONDS = 86_400.0
_LONGEST_NAME = 40
_UNUSUAL = re.compile(r"[^\w .'-]+")
_MAX_PEOPLE = 10_000
"""How many people's turns are counted in memory; beyond that they are read from the store again."""


class PairingCodes:
    """Redeems pairing codes, and notes whom it turned away."""

    def __init__(self, app: App) -> None:
        self._store = app.services.store
        self._clock = app.services.clock
        self._noted: dict[tuple[str, str], float] = {}

    async def redeem_code(self, platform: str, event: InboundEvent) -> PersonIdentity | None:
        """Return the person that an unknown sender becomes by this message; None when it is no valid code."""
        word = normalize_code(_START.sub("", event.text.strip()))
        sender = event.sender
        if event.place.kind is not ChatKind.DM or sender.bot or not CODE_FORM.fullmatch(word):
            await self.note_rejection(platform, event, "unknown sender")
            return None
        known = await self._store.people.redeem_pairing_code(
            word, platform, sender.id, clean_name(sender.name), most=MAX_FAILURES, locked=LOCKED_SECONDS
        )
        if known is None:
            await self.note_rejection(platform, event, "wrong code")
            return None
        await self._store.people.add_audit_entry(
            AuditEntry(platform=platform, account=sender.id, person=known.id, what="paired", detail=known.role)
        )
        role = PersonRole.OWNER if known.id == OWNER_ID else PersonRole(known.role)
        return PersonIdentity(known.id, role, known.name)

    async def request_access(self, platform: str, event: InboundEvent) -> str:
        """Store somebody's request to be let in, and return the code to show them; empty where they have one already,
        were refused, or too many have begun to wait a moment ago.
        """
        code, sender = make_code(), event.sender
        wish = PairingRequest(platform=platform, account=sender.id, name=clean_name(sender.name), place=event.place)
        made = await self._store.people.request_pairing(
            wish, code, seconds=REQUEST_SECONDS, most=MAX_REQUESTS, kept=KEPT_SECONDS
        )
        if not made:
            return ""
        await self._store.people.add_audit_entry(
            AuditEntry(platform=platform, account=sender.id, person="", what="asked to be let in")
        )
        return code

    async def note_rejection(self, platform: str, event: InboundEvent, what: str) -> None:
        """Note that a sender was turned away; repeated messages of one sender are noted once in a while."""
        now = self._clock.now()
        key = (platform, event.sender.id)
        if now - self._noted.get(key, 0.0) < NOTE_INTERVAL:
            return
        if len(self._noted) > 10_000:
            self._noted.clear()
        self._noted[key] = now
        await self._store.people.add_audit_entry(
            AuditEntry(platform=platform, account=event.sender.id, person="", what=what)
        )


class _QuotaUsage(Struct):
    """One person's turns, and the refusals that they were told."""

    turns: deque[float] = field(default_factory=deque)
    told_until: dict[str, float] = field(default_factory=dict)
    """By kind of refusal, the time until which it is not repeated."""


class Quotas:
    """Checks turns and spending against the limits of people's roles. Times are those of the person's clock."""

    def __init__(self, app: App) -> None:
        self._services = app.services
        self._counts: dict[str, _QuotaUsage] = {}

    async def claim_turn(self, person: PersonIdentity, payer: PersonIdentity, spent_at: float) -> str | None:
        """Count a turn for a person and return None, or return why they have none (empty when they were told already).
        `payer` is the person that the session works for, or all who share it; `spent_at` is when the session last
        reported that no money was left.
        """
        may = role_rights(self._services.settings.gateway, person.role)
        now = self._services.clock.now()
        if may.usd_per_day is None and not may.turns_per_hour:
            return None
        count, today = await self._load_usage(person, now), period_starts(now)[0]
        if may.usd_per_day is not None:
            if spent_at >= today:
                count.told_until[PERSON_CAP] = today + _DAY_SECONDS
            text = tr("Your daily spending limit is reached. You can go on tomorrow.")
            if PERSON_CAP in count.told_until or await self._is_cap_reached(payer, may.usd_per_day):
                return self._refusal_text(count, PERSON_CAP, today + _DAY_SECONDS, text)
        if not may.turns_per_hour:
            return None
        while count.turns and count.turns[0] <= now - HOUR_SECONDS:
            count.turns.popleft()
        if len(count.turns) < may.turns_per_hour:
            count.turns.append(now)
            return None
        until = count.turns[0] + HOUR_SECONDS
        text = tr("That was the last turn of this hour. The next one is possible {when}.", when=format_time(until))
        return self._refusal_text(count, "turns", until, text)

    async def _load_usage(self, person: PersonIdentity, now: float) -> _QuotaUsage:
        """Return a person's turns of the last hour; those before a restart are in the audit trail."""
        found = self._counts.get(person.id)
        if found is None:
            if len(self._counts) >= _MAX_PEOPLE:
                self._counts.clear()
            before = await self._services.store.people.list_action_times(person.id, "message", now - HOUR_SECONDS)
            found = self._counts.setdefault(person.id, _QuotaUsage(deque(before)))  # somebody was faster meanwhile
        found.told_until = {kind: until for kind, until in found.told_until.items() if now < until}
        return found

    async def _is_cap_reached(self, payer: PersonIdentity, usd: float) -> bool:
        cap = person_cap(payer.id, usd, self._services.clock.now())
        if cap is None:
            return False
        (standing,) = await self._services.store.spending.list_cap_usage((cap,))
        return standing.nano >= (cap.nano or 0)

    @staticmethod
    def _refusal_text(count: _QuotaUsage, kind: str, until: float, text: str) -> str:
        if kind in count.told_until:
            return ""
        count.told_until[kind] = until
        return text


def find_working_folder(app: App, account: AccountSettings, person: PersonIdentity) -> str:
    """Return the folder in which a person's sessions work: that of the account, else one of their own."""
    services = app.services
    named = account.cwd or (services.settings.gateway.cwd if person.is_owner else "")
    if named:
        return os.path.expanduser(named)
    home = services.home
    return str(home.root / "workspace" if person.is_owner else home.people / person_folder_name(person.id))


def build_session_options(
    app: App,
    account: AccountSettings,
    person: PersonIdentity,
    rights: RoleSettings,
    *,
    wishes: ChannelSettings,
    platform: str,
) -> SessionOptions:
    """Return the options of a person's sessions, with what a chat or a program wishes beside the account's settings."""
    base = app.options
    prompts = (base.ephemeral_system_prompt, account.prompt, wishes.prompt)
    chosen = structs.replace(
        base,
        model=wishes.model or account.model or base.model,
        platform=platform,
        enabled_toolsets=wishes.toolsets or account.toolsets or base.enabled_toolsets,
        ephemeral_system_prompt="\n\n".join(filter(None, prompts)),
        reviews=False,
        cwd=find_working_folder(app, account, person),
    )
    return person_options(chosen, person, rights)


def clean_name(name: str) -> str:
    """Return a name that people chose as words that say nothing else: no markup, address or order stands in it."""
    return " ".join(_UNUSUAL.sub(" ", name).split())[:_LONGEST_NAME].strip()

"""What the owner is told of a group in which the agent may not answer."""

import json
import shlex

from hermes.admin.people.identity import OWNER_ID, PersonIdentity
from hermes.core.chats import InboundEvent
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.chat_session import GatewayDeps
from hermes.gateway.pairing_requests import make_note
from hermes.gateway.people import clean_name
from hermes.i18n.messages import N_, localize


class GroupHints:
    """Tells the owner, who has addressed the agent in a group that is not allowed, what allows it: once for each group,
    in their direct chat. Nothing is said in the group, and nothing to others.
    """

    def __init__(self, deps: GatewayDeps) -> None:
        self._deps = deps
        self._explained: set[str] = set()

    async def explain_group(self, account: PlatformAccount, event: InboundEvent, person: PersonIdentity | None) -> None:
        """Explain a group in which somebody has addressed the agent, where that is the owner."""
        place = event.place
        if person is None or not person.is_owner or not event.verified or place.lane in self._explained:
            return
        self._explained.add(place.lane)
        groups = json.dumps([*account.plan.settings.groups, place.chat])
        said = N_(
            "You wrote to me in the group {group}, where I may not answer. To allow that:"
            " `hermes config set platforms.{account}.groups {groups}`, then `hermes gateway reload`.",
            group=clean_name(place.name) or place.chat,
            account=account.name,
            groups=shlex.quote(groups),  # whoever runs the platform's server may choose the group's id
        )
        self._deps.telemetry.report_line(f"{place.lane.rstrip(':')}: {said}", account.name)
        for one in await self._deps.app.services.store.chats.list_direct_chats(account.name):
            if one.person == OWNER_ID:
                await self._deps.outbox.enqueue([make_note(one.place, localize(said))])
                return

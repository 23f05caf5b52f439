"""The answers of background sessions, shown in the chat in which a person has asked for them."""

from collections.abc import Mapping

from msgspec import structs

from hermes.commands.texts.sub_agent_texts import describe_background_end, describe_way_on
from hermes.core.chats import OutboxItem, Outgoing, Place
from hermes.core.sub_agents import BackgroundEnd, SubAgentState
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.chat_session import GatewayDeps
from hermes.gateway.stream_renderer import SILENT, ChatAnswer, filter_answer
from hermes.gateway.text.split import split_text
from hermes.i18n.messages import localize, tr
from hermes.sessions.egress_filter import EgressFilter, build_egress_filter, build_remote_egress_filter


class ChatReports:
    """Puts what comes of background sessions into the outbox, once each: their keys are the same at every attempt."""

    asks_questions = True

    def __init__(self, deps: GatewayDeps, accounts: Mapping[str, PlatformAccount]) -> None:
        self._app = deps.app
        self._outbox = deps.outbox
        self._accounts = accounts

    async def show_report(self, end: BackgroundEnd) -> bool:
        """Put the end of a background session, and its answer, into the outbox of the chat of its parent; False where
        that has none here.
        """
        for binding in await self._app.services.store.chats.list_session_bindings(end.parent_id):
            account = self._accounts.get(binding.place.platform)
            if account is not None:
                await self._outbox.enqueue(self._build_items(account, binding.place, end))
                return True
        return False

    def _build_items(self, account: PlatformAccount, place: Place, end: BackgroundEnd) -> list[OutboxItem]:
        text = "" if end.state is SubAgentState.STOPPED or end.answer.strip() == SILENT else end.answer.strip()
        shown = filter_answer(ChatAnswer(text=text, outcome=""), self._build_filter(end), account.can)
        lines = [describe_background_end(end), shown.text, _describe_reason(end), describe_way_on(end)]
        pieces = split_text("\n\n".join(line for line in lines if line), account.can)
        messages = [Outgoing(place=place, text=piece) for piece in pieces]
        messages += [Outgoing(place=place, file=file.path, kind=file.kind) for file in shown.files]
        return [
            OutboxItem(key=key, message=structs.replace(message, key=key), session_id=end.session_id)
            for key, message in ((f"background:{end.session_id}:{n}", one) for n, one in enumerate(messages))
        ]

    def _build_filter(self, end: BackgroundEnd) -> EgressFilter:
        """Return the filter of the parent, with what the background session has read."""
        services, live = self._app.services, self._app.find_live_session(end.parent_id)
        if live is None:
            return build_remote_egress_filter(services, str(services.home.root / "workspace"))
        out = build_egress_filter(services, live)
        return structs.replace(out, tainted=out.tainted or bool(end.report.sources))


def _describe_reason(end: BackgroundEnd) -> str:
    """Return why a background session was not done; empty where its first line says so."""
    if not end.report.error or end.state in (SubAgentState.DONE, SubAgentState.STOPPED, SubAgentState.FAILED):
        return ""
    return tr("(This was not finished: {why})", why=localize(end.report.error))

"""The questions of a chat: approvals and menus, with buttons where possible, answered once by somebody who may."""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from hermes.admin.people.identity import PersonIdentity
from hermes.core.chats import Button, DeliveryState, InboundEvent, OutboxItem, Outgoing, Place
from hermes.core.errors import StoreError
from hermes.core.events import ApprovalAnswered, ApprovalAsked
from hermes.core.outcomes import AnswerScope
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.platform import PlatformError
from hermes.i18n.messages import localize, tr
from hermes.sessions.app import App
from hermes.sessions.port import SessionPort
from hermes.util.text import escape_confusable_characters, find_choice, shorten_command, to_one_line

_LONGEST_LABEL = 40
_EDIT_SECONDS = 15.0
_BARE_ANSWERS = frozenset({"y", "yes", "n", "no", "j", "ja", "nein", "是", "好", "否", "不"})
"""Messages that are only a yes or a no."""


class AskingChat(Protocol):
    """The chat in which questions are asked."""

    app: App
    account: PlatformAccount
    place: Place
    actor: SessionPort

    def can_answer(self, person: PersonIdentity) -> bool:
        """Return whether somebody may answer the session's questions."""
        ...

    async def enqueue(self, items: Sequence[OutboxItem]) -> None:
        """Put messages of the chat into the outbox."""
        ...


class ChatMenu(Struct, eq=False):
    """A menu that a person answers with the number of a row, or with a text."""

    token: str
    options: tuple[str, ...]
    person: PersonIdentity
    key: str
    chosen: asyncio.Future[int | str]
    typed: bool = False
    """Whether a free text is an answer, too."""
    of_model: bool = False
    """Whether the model asks: then the menu ends with the turn, not with the chat session."""
    reminded: bool = False
    """Whether the person was reminded of it."""


class ChatApproval(Struct, eq=False):
    """An approval question as it is shown in a chat."""

    event: ApprovalAsked
    key: str
    scopes: tuple[AnswerScope, ...]
    text: str
    reminded: bool = False
    """Whether the person was reminded of it."""


class ChatQuestions:
    """The open questions of one chat session."""

    def __init__(self, chat_session: AskingChat) -> None:
        self._chat_session = chat_session
        self._approvals: dict[str, ChatApproval] = {}
        self._menus: list[ChatMenu] = []

    def close(self) -> None:
        """Drop the chat session and ask nothing more. Commands that wait for an answer are cancelled, as others wait
        for their end.
        """
        self._approvals.clear()
        for menu in self._menus:
            if not menu.of_model:
                menu.chosen.cancel()
        del self._chat_session

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is awaited."""
        return bool(self._approvals or self._menus)

    async def show_approval(self, event: ApprovalAsked) -> None:
        """Show that a call waits for approval."""
        labels = [(AnswerScope.ONCE, tr("Allow once"))]
        if event.session_covers:
            labels.append((AnswerScope.SESSION, tr("Allow for this session")))
        if event.always_covers:
            labels.append((AnswerScope.ALWAYS, tr("Allow always")))
        labels.append((AnswerScope.DENY, tr("No")))
        token = _make_token(event.approval_id)
        text = _format_approval(event, buttons=self._chat_session.account.can.buttons)
        rows = tuple(
            (Button(label, f"a:{token}:{scope.value}", danger=scope is AnswerScope.ALWAYS),) for scope, label in labels
        )
        key = f"ask:{event.approval_id}"
        self._approvals[token] = ChatApproval(event, key, tuple(scope for scope, _ in labels), text)
        await self._send_question(key, text, rows)

    async def show_decision(self, event: ApprovalAnswered) -> None:
        """Show the answer to an approval question, wherever it was given."""
        token = next((name for name, one in self._approvals.items() if one.event.approval_id == event.approval_id), "")
        one = self._approvals.pop(token, None)
        if one is not None:
            said = tr("Allowed.") if event.allowed else tr("Not allowed ({by}).", by=localize(event.by))
            await self._close_question(one.key, f"{one.text}\n\n**{said}**")

    def answer_approval(self, person: PersonIdentity, scope: AnswerScope | None, token: str = "") -> str:
        """Answer the approval question of this token, or the one that waits longest.

        Return what to say to the person.
        """
        name = token or next(iter(self._approvals), "")
        one = self._approvals.get(name)
        if one is None:
            return tr("No question waits for an answer here.")
        if not self._chat_session.can_answer(person):
            return tr("This question is not yours to answer.")
        if scope is None or scope not in one.scopes or (scope is AnswerScope.ALWAYS and not person.can_administer):
            return tr("This question has no such answer.")
        actor = self._chat_session.actor
        if not actor.approvals.answer(one.event.approval_id, scope=scope, by="person"):
            return tr("The question was withdrawn.")
        return ""

    async def answer_stored(self, person: PersonIdentity, press: str) -> str | None:
        """Answer by its button a question that was asked before a restart, and not again yet: of the session, or of a
        sub-agent of it. Return what to say to the person, or None where no such question waits.
        """
        from hermes.sessions.sub_agents.stored_questions import answer_stored_question, find_stored_question

        kind, _, rest = press.partition(":")
        name, _, choice = rest.rpartition(":")
        if kind != "a":
            return None
        store, session_id = self._chat_session.app.services.store, self._chat_session.actor.session_id
        question = await find_stored_question(store, session_id, lambda one: _make_token(one) == name)
        if question is None:
            return None
        if not self._chat_session.can_answer(person):
            return tr("This question is not yours to answer.")
        scope = AnswerScope(choice) if choice in set(AnswerScope) else None
        if scope is None or scope not in question.scopes or (scope is AnswerScope.ALWAYS and not person.can_administer):
            return tr("This question has no such answer.")
        is_taken = await answer_stored_question(store, question, scope, "person")
        return "" if is_taken else tr("The question was withdrawn.")

    @property
    def has_approvals(self) -> bool:
        """Whether a call waits for approval."""
        return bool(self._approvals)

    @property
    def has_menus(self) -> bool:
        """Whether a command or the model waits for a person's choice or text."""
        return bool(self._menus)

    def take_reminder(self) -> str:
        """Return the line that tells somebody who writes on that a question waits, once for each; else empty."""
        menus = [one for one in self._menus if one.of_model]
        waiting: list[ChatApproval | ChatMenu] = [*self._approvals.values(), *menus]
        fresh = [one for one in waiting if not one.reminded]
        for one in fresh:
            one.reminded = True
        if not fresh:
            return ""
        if not self._approvals:
            return tr("(The question above waits for your answer; what you write comes after it. /stop drops it.)")
        return tr(
            "(The question above waits for your answer: {how}. Anything else comes after it. /stop drops it.)",
            how=self._describe_ways(),
        )

    def explain_bare_word(self, person: PersonIdentity, event: InboundEvent) -> str:
        """Return what to say to somebody who answers an approval question with a bare yes or no; empty where this is
        none. Such a word allows nothing, since it may be meant for something else, and is no message to the model.
        """
        word = event.text.strip().rstrip(".!。！").casefold()
        if not self._approvals or word not in _BARE_ANSWERS or event.attachments:
            return ""
        if not self._chat_session.can_answer(person):
            return ""
        how = self._describe_ways()
        return tr("(“{word}” was not taken as an answer, and not passed on: {how}.)", word=word, how=how)

    def _describe_ways(self) -> str:
        """Describe how an approval question is answered here."""
        if self._chat_session.account.can.buttons:
            return tr("press one of its buttons, or write /approve or /deny")
        return tr("write /approve or /deny")

    def has_token(self, token: str) -> bool:
        """Return whether a button belongs to one of these questions."""
        name = token.partition(":")[2].rpartition(":")[0]
        return name in self._approvals or any(one.token == name for one in self._menus)

    def press_button(self, person: PersonIdentity, token: str) -> str:
        """Handle a pressed button; return what to say to the person."""
        kind, _, rest = token.partition(":")
        name, _, choice = rest.rpartition(":")
        if kind == "a":
            return self.answer_approval(person, AnswerScope(choice) if choice in set(AnswerScope) else None, name)
        menu = next((one for one in self._menus if one.token == name), None)
        if menu is None:
            return tr("This question is closed; its answer is no longer needed.")
        if not menu.person.includes_person(person):
            return tr("This question is not yours to answer.")
        if choice.isdecimal() and int(choice) < len(menu.options) and not menu.chosen.done():
            menu.chosen.set_result(int(choice))
        return ""

    def take_answer(self, person: PersonIdentity, event: InboundEvent) -> bool:
        """Take a message as the answer to the newest menu where it is one; return whether it was."""
        menu = self._menus[-1] if self._menus else None
        if menu is None or not menu.person.includes_person(person) or menu.chosen.done():
            return False
        text = event.text.strip()
        found: int | str | None = find_choice(text, menu.options)
        if found is None and menu.typed:
            found = text or None
        if found is None:
            return False
        menu.chosen.set_result(found)
        return True

    async def ask_person(
        self,
        person: PersonIdentity,
        title: str,
        options: Sequence[str],
        *,
        typed: bool,
        seconds: float,
        of_model: bool = False,
    ) -> int | str | None:
        """Show a menu and return the chosen row's number, or with `typed` a text; None without an answer in that many
        seconds. Raises CancelledError when the chat session ends first, unless the model asks.
        """
        menu = ChatMenu(
            token=secrets.token_hex(8),
            options=tuple(options),
            person=person,
            key=f"menu:{secrets.token_hex(8)}",
            chosen=asyncio.get_running_loop().create_future(),
            typed=typed,
            of_model=of_model,
        )
        lines = [f"{number}. {one}" for number, one in enumerate(options, 1)]
        buttons = tuple(
            (Button(one[:_LONGEST_LABEL], f"m:{menu.token}:{number}"),) for number, one in enumerate(options)
        )
        self._menus.append(menu)
        try:
            await self._send_question(menu.key, "\n".join([title, "", *lines]) if lines else title, buttons)
            async with asyncio.timeout(seconds):
                picked = await menu.chosen
        except TimeoutError:
            picked = None
        finally:
            self._menus.remove(menu)
        shown = options[picked] if isinstance(picked, int) else picked
        if options:
            await self._close_question(menu.key, f"{title}\n\n**{shown if shown is not None else tr('No answer.')}**")
        return picked

    async def _send_question(self, key: str, text: str, buttons: tuple[tuple[Button, ...], ...]) -> None:
        chat_session = self._chat_session
        shown = buttons if chat_session.account.can.buttons else ()
        message = Outgoing(place=chat_session.place, text=text, key=key, buttons=shown)
        await chat_session.enqueue([OutboxItem(key=key, message=message, session_id=chat_session.actor.session_id)])

    async def _close_question(self, key: str, text: str) -> None:
        """Remove the buttons of a question where that is possible; what it was about is answered all the same."""
        chat_session = self._chat_session
        await replace_question(
            chat_session.app, chat_session.account, Outgoing(place=chat_session.place, text=text, key=key)
        )


async def replace_question(app: App, account: PlatformAccount, message: Outgoing) -> bool:
    """Show a message, without buttons, in the place of the question of its key; return whether it is shown there.
    Where the platform cannot edit messages the question stays as it is.
    """
    if not account.can.edit:
        return False
    try:
        known = await app.services.store.outbox.get_state(message.key)
        if known is None or known[0] not in (DeliveryState.DELIVERED, DeliveryState.UNCERTAIN) or not known[1]:
            return False
        async with asyncio.timeout(_EDIT_SECONDS):
            await account.platform.edit(message, known[1])
    except (PlatformError, StoreError, OSError, TimeoutError):
        return False
    return True


def _make_token(approval_id: str) -> str:
    """Return the token of the buttons of an approval question; it is the same after a restart."""
    return hashlib.sha256(approval_id.encode()).hexdigest()[:16]


def _format_approval(event: ApprovalAsked, *, buttons: bool) -> str:
    """Return the approval question's text: the call, the reason, and what each answer covers."""
    name = to_one_line(escape_confusable_characters(event.asker), _LONGEST_LABEL) if event.asker else ""
    lines = [
        *([tr("Sub-agent “{name}” asks:", name=name)] if name else []),
        tr("Allow **{tool}**?", tool=escape_confusable_characters(event.tool)),
        _code_block(shorten_command(escape_confusable_characters(event.subject))),
    ]
    if event.cwd:
        lines.append(tr("in `{cwd}`", cwd=escape_confusable_characters(event.cwd).replace("`", "'")))
    lines.append(localize(escape_confusable_characters(event.reason)))
    if event.session_covers:
        lines.append(
            tr("“For this session” allows, until it is closed: {what}", what=_inline_code(event.session_covers))
        )
    if event.always_covers:
        lines.append(tr("“Always” allows, from now on: {what}", what=_inline_code(event.always_covers)))
    if not buttons:
        words = ["/approve"]
        words += ["/approve session"] if event.session_covers else []
        words += ["/approve always"] if event.always_covers else []
        lines.append(tr("Answer with {words}, or /deny.", words=", ".join(words)))
    return "\n".join(lines)


def _code_block(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _inline_code(text: str) -> str:
    return f"`{localize(escape_confusable_characters(text)).replace('`', chr(39))}`"

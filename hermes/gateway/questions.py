"""Questions to people in chats: shown with buttons where there are some, answered by who may, once."""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, field

from hermes.core.chats import Arrival, Button, DeliveryState, Outgoing, Owed, Place
from hermes.core.errors import StoreError
from hermes.core.events import ApprovalAnswered, ApprovalAsked
from hermes.core.outcomes import AnswerScope
from hermes.gateway.accounts import Account
from hermes.gateway.people.identity import Person
from hermes.gateway.platform import PlatformError
from hermes.i18n.messages import say, translated
from hermes.sessions.port import SessionPort
from hermes.util.text import excerpt, visible

_LONGEST_LABEL = 40
_EDIT_SECONDS = 15.0


class Floor(Protocol):
    """Where questions are shown: a conversation."""

    actor: SessionPort
    account: Account
    place: Place

    async def owe(self, owed: Sequence[Owed]) -> None:
        """Owe messages."""
        ...

    async def message_of(self, key: str) -> tuple[DeliveryState, str] | None:
        """What has become of a message."""
        ...

    def may_answer(self, person: Person) -> bool:
        """Whether somebody may answer what the session asks."""
        ...


class Menu(Struct, eq=False):
    """Something that a person picks from, or types: the number of the row, or a text."""

    token: str
    options: tuple[str, ...]
    person: Person
    key: str
    title: str
    chosen: asyncio.Future[int | str]
    typed: bool = False
    """Whether a text of their own is an answer, too."""
    of_model: bool = False
    """Whether the model asks it: then it ends with its turn, not with the conversation."""


class Approval(Struct, eq=False):
    """A question whether something may be done, as it is shown."""

    event: ApprovalAsked
    key: str
    scopes: tuple[AnswerScope, ...]
    text: str
    notes: list[str] = field(default_factory=list)


class Questions:
    """The questions of one conversation."""

    def __init__(self, conversation: Floor) -> None:
        self._conversation = conversation
        self._approvals: dict[str, Approval] = {}
        self._menus: list[Menu] = []

    def close(self) -> None:
        """Forget the conversation; nothing is asked any more. A command that waits for an answer is cancelled: others
        wait for its end."""
        self._approvals.clear()
        for menu in self._menus:
            if not menu.of_model:
                menu.chosen.cancel()
        del self._conversation

    @property
    def waiting(self) -> bool:
        """Whether somebody is waited for."""
        return bool(self._approvals or self._menus)

    async def show(self, event: ApprovalAsked) -> None:
        """Show that something waits for a yes."""
        labels = [(AnswerScope.ONCE, say("Allow once"))]
        if event.session_covers:
            labels.append((AnswerScope.SESSION, say("Allow for this session")))
        if event.always_covers:
            labels.append((AnswerScope.ALWAYS, say("Allow always")))
        labels.append((AnswerScope.DENY, say("No")))
        token = hashlib.sha256(event.approval_id.encode()).hexdigest()[:16]  # the same after a restart
        text = _question(event, buttons=self._conversation.account.can.buttons)
        rows = tuple(
            (Button(label, f"a:{token}:{scope.value}", danger=scope is AnswerScope.ALWAYS),) for scope, label in labels
        )
        key = f"ask:{event.approval_id}"
        self._approvals[token] = Approval(event, key, tuple(scope for scope, _ in labels), text)
        await self._owe(key, text, rows)

    async def answered(self, event: ApprovalAnswered) -> None:
        """Show how a question was answered, wherever it was."""
        token = next((name for name, one in self._approvals.items() if one.event.approval_id == event.approval_id), "")
        one = self._approvals.pop(token, None)
        if one is not None:
            said = say("Allowed.") if event.allowed else say("Not allowed ({by}).", by=translated(event.by))
            await self._close(one.key, f"{one.text}\n\n**{said}**")

    def answer(self, person: Person, scope: AnswerScope | None, token: str = "") -> str:
        """Answer a question: that of this token, or the one that waits longest. What to say to the person."""
        name = token or next(iter(self._approvals), "")
        one = self._approvals.get(name)
        if one is None:
            return say("No question waits for an answer here.")
        if not self._conversation.may_answer(person):
            return say("This question is not yours to answer.")
        if scope is None or scope not in one.scopes or (scope is AnswerScope.ALWAYS and not person.leads):
            return say("This question has no such answer.")
        actor = self._conversation.actor
        if not actor.approvals.answer(one.event.approval_id, scope=scope, by="person"):
            return say("The question is withdrawn: nobody waits for its answer any more.")
        return ""

    @property
    def approving(self) -> bool:
        """Whether something waits for a yes."""
        return bool(self._approvals)

    @property
    def asking(self) -> bool:
        """Whether a command or the model waits for a person's choice or words."""
        return bool(self._menus)

    def knows(self, token: str) -> bool:
        """Whether a button belongs to one of these questions."""
        name = token.partition(":")[2].rpartition(":")[0]
        return name in self._approvals or any(one.token == name for one in self._menus)

    def press(self, person: Person, token: str) -> str:
        """A button was pressed; what to say to the person."""
        kind, _, rest = token.partition(":")
        name, _, choice = rest.rpartition(":")
        if kind == "a":
            return self.answer(person, AnswerScope(choice) if choice in set(AnswerScope) else None, name)
        menu = next((one for one in self._menus if one.token == name), None)
        if menu is None:
            return say("Nobody waits for this answer any more.")
        if not menu.person.covers(person):
            return say("This question is not yours to answer.")
        if choice.isdecimal() and int(choice) < len(menu.options) and not menu.chosen.done():
            menu.chosen.set_result(int(choice))
        return ""

    def hears(self, person: Person, arrival: Arrival) -> bool:
        """Whether words are the answer to the menu that was shown last; then they are no message."""
        menu = self._menus[-1] if self._menus else None
        if menu is None or not menu.person.covers(person) or menu.chosen.done():
            return False
        text = arrival.text.strip()
        if text.isdecimal() and 0 < int(text) <= len(menu.options):
            menu.chosen.set_result(int(text) - 1)
            return True
        found = [at for at, one in enumerate(menu.options) if one.casefold() == text.casefold()]
        if found:
            menu.chosen.set_result(found[0])
            return True
        if menu.typed and text:
            menu.chosen.set_result(text)
            return True
        return False

    async def ask(
        self,
        person: Person,
        title: str,
        options: Sequence[str],
        *,
        typed: bool,
        seconds: float,
        of_model: bool = False,
    ) -> int | str | None:
        """Let a person pick a row, or with `typed` say something else; None when they do not, in that many seconds.
        Raises CancelledError when the conversation ends first, unless the model asks."""
        menu = Menu(
            token=secrets.token_hex(8),
            options=tuple(options),
            person=person,
            key=f"menu:{secrets.token_hex(8)}",
            title=title,
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
            await self._owe(menu.key, "\n".join([title, "", *lines]) if lines else title, buttons)
            async with asyncio.timeout(seconds):
                picked = await menu.chosen
        except TimeoutError:
            picked = None
        finally:
            self._menus.remove(menu)
        shown = options[picked] if isinstance(picked, int) else picked
        if options:
            await self._close(menu.key, f"{title}\n\n**{shown if shown is not None else say('No answer.')}**")
        return picked

    async def _owe(self, key: str, text: str, buttons: tuple[tuple[Button, ...], ...]) -> None:
        conversation = self._conversation
        shown = buttons if conversation.account.can.buttons else ()
        message = Outgoing(place=conversation.place, text=text, key=key, buttons=shown)
        await conversation.owe([Owed(key=key, message=message, session_id=conversation.actor.session_id)])

    async def _close(self, key: str, text: str) -> None:
        """Take the buttons away from a question, where the platform lets messages be changed; else nothing is shown."""
        conversation = self._conversation
        if not conversation.account.can.edit:
            return
        try:
            known = await conversation.message_of(key)
            if known is not None and known[0] in (DeliveryState.DELIVERED, DeliveryState.UNCERTAIN) and known[1]:
                async with asyncio.timeout(_EDIT_SECONDS):
                    await conversation.account.platform.edit(
                        Outgoing(place=conversation.place, text=text, key=key), known[1]
                    )
        except (PlatformError, StoreError, OSError, TimeoutError):
            return  # the question stays as it is shown; what it was about is answered all the same


def _question(event: ApprovalAsked, *, buttons: bool) -> str:
    """The question as it is shown: what would run, why it is asked about, and what each answer covers."""
    lines = [say("**{tool}** wants to run:", tool=visible(event.tool)), _block(excerpt(visible(event.subject)))]
    if event.cwd:
        lines.append(say("in `{cwd}`", cwd=visible(event.cwd).replace("`", "'")))
    lines.append(translated(visible(event.reason)))
    if event.session_covers:
        lines.append(say("“For this session” allows, until it is closed: {what}", what=_code(event.session_covers)))
    if event.always_covers:
        lines.append(say("“Always” allows, from now on: {what}", what=_code(event.always_covers)))
    if not buttons:
        words = ["/approve"]
        words += ["/approve session"] if event.session_covers else []
        words += ["/approve always"] if event.always_covers else []
        lines.append(say("Answer with {words}, or /deny.", words=", ".join(words)))
    return "\n".join(lines)


def _block(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _code(text: str) -> str:
    return f"`{visible(text).replace('`', chr(39))}`"


def place_named(place: Place) -> str:
    """A place in words, for notes."""
    return f"{place.platform} {place.name or place.chat}" + (f" / {place.thread}" if place.thread else "")

"""A person's place at a chat, for the slash commands that all front-ends share."""

from collections.abc import Awaitable, Callable, Sequence

from hermes.commands.context import Delivery, Option, Surface
from hermes.config.display import BusyMode
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.core.outcomes import ExitReason
from hermes.gateway.chat_session import Conversation
from hermes.gateway.chat_sessions import Conversations
from hermes.gateway.people.identity import Person
from hermes.i18n.messages import phrase, say
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound
from hermes.sessions.app import App
from hermes.sessions.port import SessionPort

ANSWER_SECONDS = 300.0
"""How long a menu of a command waits."""
_YES, _NO = phrase("Yes"), phrase("No")


class ChatDesk:
    """A `Desk` in a chat. What a command tells is one message, sent when it asks something and when it is done."""

    surface = Surface.CHAT
    terminal = None

    def __init__(
        self,
        conversations: Conversations,
        conversation: Conversation,
        person: Person,
    ) -> None:
        self._conversations = conversations
        self._conversation = conversation
        self._person = person
        self._told: list[str] = []
        self._posts: list[Callable[[], Awaitable[None]]] = []

    @property
    def app(self) -> App:
        """The process's Hermes."""
        return self._conversation.app

    @property
    def actor(self) -> SessionActor:
        """The session that is talked with now."""
        return self._conversation.entry.local

    @property
    def port(self) -> SessionPort:
        """The session, wherever it lives."""
        return self._conversation.actor

    @property
    def person(self) -> Person:
        """Who gave the command."""
        return self._person

    @property
    def conversation(self) -> Conversation:
        """The conversation that it is now."""
        return self._conversation

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Say lines."""
        self._told.append(text if level is Level.INFO else f"⚠ {text}")

    def show(self, markdown: str) -> None:
        """Say a text."""
        self._told.append(markdown)

    async def flush(self) -> None:
        """Say what was told so far, and post what is to be posted."""
        told, self._told = "\n".join(self._told), []
        await self._conversation.say(told)
        posts, self._posts = self._posts, []
        for post in posts:
            await post()

    async def choose(self, title: str, options: Sequence[Option], *, chosen: int = 0) -> int | None:
        """Buttons, or a list with numbers."""
        del chosen
        labels = [f"{one.label}  {one.detail}".strip() for one in options]
        await self.flush()
        picked = await self._conversation.questions.ask(
            self._person, title, labels, typed=False, seconds=ANSWER_SECONDS
        )
        return picked if isinstance(picked, int) else None

    async def confirm(self, question: str) -> bool:
        """Yes or no; nobody there means no."""
        return await self.choose(question, [Option(say(_YES)), Option(say(_NO))]) == 0

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """A line from the person."""
        await self.flush()
        shown = f"{question} ({default})" if default else question
        line = await self._conversation.questions.ask(self._person, shown, (), typed=True, seconds=ANSWER_SECONDS)
        return str(line) if line is not None else None

    async def open(self, name: str | None = None, *, greet: bool = True) -> SessionPort:
        """Talk with another session from now on."""
        del greet
        if name == self._conversation.actor.session_id:
            return self._conversation.actor
        self._conversation = await self._conversations.begin_anew(self._conversation, name)
        return self._conversation.actor

    async def beside(self) -> SessionActor:
        """A fresh session beside this one: chats have none."""
        raise UsageError(phrase("A chat has one session; open a thread, or write from another chat."))

    def post(self, inbound: Inbound, delivery: Delivery = Delivery.USUAL) -> None:
        """Say something to the session in the person's name, when the command is done."""
        mode = {
            Delivery.USUAL: BusyMode.QUEUE,
            Delivery.QUEUE: BusyMode.QUEUE,
            Delivery.STEER: BusyMode.STEER,
            Delivery.INTERRUPT: BusyMode.INTERRUPT,
        }[delivery]
        self._posts.append(lambda: self._conversations.say(self._conversation, inbound, mode))

    async def answered(self, inbound: Inbound) -> ExitReason:
        """Say something, and wait for the end of the turn that answers it."""
        await self.flush()
        return (await self.actor.post(inbound)).reason

    def prefill(self, text: str) -> None:
        """There is no line to put it into: it is shown."""
        self._told.append(f"> {text}")

    async def refresh(self) -> None:
        """Nothing of the session is shown all the time."""

    def leave(self, *, delete: bool = False) -> None:
        """A chat cannot be left."""
        del delete
        raise UsageError(phrase("A chat goes on; /new begins a fresh session."))

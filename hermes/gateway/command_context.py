"""The command context of a chat, for the slash commands that all front ends share."""

from collections.abc import Awaitable, Callable, Sequence

from hermes.admin.people.identity import PersonIdentity
from hermes.commands.context import MenuOption, PostMode, Surface
from hermes.config.display import BusyMode
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.core.outcomes import ExitReason
from hermes.gateway.chat_session import ChatSession
from hermes.gateway.chat_sessions import ChatSessions
from hermes.i18n.messages import phrase, say
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound
from hermes.sessions.app import App
from hermes.sessions.port import SessionPort

ANSWER_SECONDS = 300.0
"""How long a command's menu waits for its answer."""
_YES, _NO = phrase("Yes"), phrase("No")


class ChatCommandContext:
    """The command context in a chat. A command's output is one message, sent when it asks something and when it is
    done.
    """

    surface = Surface.CHAT
    terminal = None

    def __init__(
        self,
        chat_sessions: ChatSessions,
        chat_session: ChatSession,
        person: PersonIdentity,
    ) -> None:
        self._chat_sessions = chat_sessions
        self._chat_session = chat_session
        self._person = person
        self._lines: list[str] = []
        self._posts: list[Callable[[], Awaitable[None]]] = []

    @property
    def app(self) -> App:
        """The process's App."""
        return self._chat_session.app

    @property
    def actor(self) -> SessionActor:
        """The actor of the current session."""
        return self._chat_session.pooled.local

    @property
    def port(self) -> SessionPort:
        """The current session, wherever it lives."""
        return self._chat_session.actor

    @property
    def person(self) -> PersonIdentity:
        """The person who gave the command."""
        return self._person

    @property
    def chat_session(self) -> ChatSession:
        """The current chat session."""
        return self._chat_session

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Add lines to the command's output."""
        self._lines.append(text if level is Level.INFO else f"⚠ {text}")

    def show(self, markdown: str) -> None:
        """Add markdown to the command's output."""
        self._lines.append(markdown)

    async def flush_output(self) -> None:
        """Send the output so far, then post the messages that wait."""
        told, self._lines = "\n".join(self._lines), []
        await self._chat_session.send_note(told)
        posts, self._posts = self._posts, []
        for post in posts:
            await post()

    async def choose(self, title: str, options: Sequence[MenuOption], *, chosen: int = 0) -> int | None:
        """Ask by buttons, or by a numbered list."""
        del chosen
        labels = [f"{one.label}  {one.detail}".strip() for one in options]
        await self.flush_output()
        picked = await self._chat_session.questions.ask_person(
            self._person, title, labels, typed=False, seconds=ANSWER_SECONDS
        )
        return picked if isinstance(picked, int) else None

    async def confirm(self, question: str) -> bool:
        """Ask yes or no; no answer means no."""
        return await self.choose(question, [MenuOption(say(_YES)), MenuOption(say(_NO))]) == 0

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """Ask the person for a line of text."""
        await self.flush_output()
        shown = f"{question} ({default})" if default else question
        line = await self._chat_session.questions.ask_person(
            self._person, shown, (), typed=True, seconds=ANSWER_SECONDS
        )
        return str(line) if line is not None else None

    async def open_session(self, name: str | None = None, *, greet: bool = True) -> SessionPort:
        """Switch the chat to another session."""
        del greet
        if name == self._chat_session.actor.session_id:
            return self._chat_session.actor
        self._chat_session = await self._chat_sessions.switch_session(self._chat_session, name)
        return self._chat_session.actor

    async def open_background_session(self) -> SessionActor:
        """Raise UsageError: a chat has no second session beside its own."""
        raise UsageError(phrase("A chat has one session; open a thread, or write from another chat."))

    def post_message(self, inbound: Inbound, delivery: PostMode = PostMode.USUAL) -> None:
        """Post a message to the session in the person's name when the command is done."""
        mode = {
            PostMode.USUAL: BusyMode.QUEUE,
            PostMode.QUEUE: BusyMode.QUEUE,
            PostMode.STEER: BusyMode.STEER,
            PostMode.INTERRUPT: BusyMode.INTERRUPT,
        }[delivery]
        self._posts.append(lambda: self._chat_sessions.post_inbound(self._chat_session, inbound, mode))

    async def post_and_wait(self, inbound: Inbound) -> ExitReason:
        """Post a message, and wait for the end of the turn that answers it."""
        await self.flush_output()
        return (await self.actor.post(inbound)).reason

    def prefill_input(self, text: str) -> None:
        """Show the text, as a chat has no input line to put it into."""
        self._lines.append(f"> {text}")

    async def refresh_view(self) -> None:
        """Do nothing: a chat shows no state of the session permanently."""

    def leave_chat(self, *, delete: bool = False) -> None:
        """Raise UsageError: a chat cannot be left."""
        del delete
        raise UsageError(phrase("A chat goes on; /new begins a fresh session."))

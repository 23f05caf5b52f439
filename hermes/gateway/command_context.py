"""Slash commands in chats: who may use which, and the context in which the commands of all front ends run there."""

from collections.abc import Awaitable, Callable, Sequence
from functools import cache

from hermes.admin.people.identity import PersonIdentity, PersonRole, role_rights, session_person
from hermes.commands.command import CommandRegistry
from hermes.commands.context import MenuOption, PostMode, PromptScope, Surface
from hermes.commands.registry import builtin_command_names, command_registry
from hermes.config.display import BusyMode
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.gateway.chat_controls import PlatformChatControls
from hermes.gateway.chat_session import ChatSession
from hermes.gateway.people import find_working_folder
from hermes.gateway.session_pool import SessionPool, require_local
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App, resolve_session_id
from hermes.sessions.features.skills import allows_skills
from hermes.sessions.port import SessionPort
from hermes.util.text import escape_unseen_characters, to_one_line

ANSWER_SECONDS = 300.0
"""How long a command's menu waits for its answer."""
_YES, _NO = N_("Yes"), N_("No")
_OWNER_COMMANDS = frozenset(
    {"search", "insights", "cron", "approvals", "trust", "reload-mcp", "snapshot", "sethome", "restart", "share"}
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
        "sessions",
        "resume",
        "start",
        "handoff",
        "whoami",
        "background",
        "voice",
    }
)
_GUEST_COMMANDS = frozenset({"help", "new", "start", "stop", "usage", "whoami"})


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


class ChatCommandContext:
    """The command context in a chat. A command's output is one message, sent when it asks something and when it is
    done.
    """

    surface = Surface.CHAT
    terminal = None

    def __init__(
        self,
        pool: SessionPool,
        chat_session: ChatSession,
        person: PersonIdentity,
    ) -> None:
        self._pool = pool
        self._chat_session = chat_session
        self._person = person
        self.chat = PlatformChatControls(pool, chat_session, self)
        self._lines: list[str] = []
        self._posts: list[Callable[[], Awaitable[None]]] = []
        self.when_done: list[Callable[[], None]] = []
        """What happens once the command is done and its row is closed."""

    @property
    def app(self) -> App:
        """The process's App."""
        return self._chat_session.app

    @property
    def actor(self) -> SessionActor:
        """The actor of the current session."""
        return require_local(self._chat_session.actor)

    @property
    def port(self) -> SessionPort:
        """The current session, wherever it lives."""
        return self._chat_session.actor

    @property
    def person(self) -> PersonIdentity:
        """The person who gave the command."""
        return self._person

    @property
    def session_person(self) -> str:
        """How the store names whom the chat's sessions work for."""
        return session_person(self._chat_session.person)

    @property
    def prompt_scope(self) -> PromptScope:
        """Where the person's skills and own commands are looked for: the commands are for who administers Hermes."""
        chat_session, app = self._chat_session, self.app
        limit = role_rights(app.services.settings.gateway, self._person.role).toolsets
        folder = find_working_folder(app, chat_session.account.plan.settings, chat_session.person)
        return PromptScope(
            folder=folder, taken=builtin_command_names(), skills=allows_skills(limit), own=self._person.can_administer
        )

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
        return await self.choose(question, [MenuOption(tr(_YES)), MenuOption(tr(_NO))]) == 0

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """Ask the person for a line of text."""
        await self.flush_output()
        shown = f"{question} ({default})" if default else question
        line = await self._chat_session.questions.ask_person(
            self._person, shown, (), typed=True, seconds=ANSWER_SECONDS
        )
        return str(line) if line is not None else None

    async def open_session(self, name: str | None = None, *, greet: bool = True) -> SessionPort:
        """Switch the chat to another session: a fresh one, or the one of the person's that `name` means."""
        if name is not None:
            name = await resolve_session_id(self.app, name, person=self.session_person)
        if name is None or name != self._chat_session.actor.session_id:
            self._chat_session = await self._pool.switch_session(self._chat_session, name)
            self.chat = PlatformChatControls(self._pool, self._chat_session, self)
        if name is not None and greet:
            self.tell(await self._describe_session(name))
        return self._chat_session.actor

    async def _describe_session(self, session_id: str) -> str:
        row = await self.app.services.store.sessions.get(session_id)
        title = to_one_line(escape_unseen_characters(row.title if row is not None else ""), 80)
        count = tr_plural("{n} message", "{n} messages", row.message_count if row is not None else 0)
        said = tr("This chat goes on with “{title}” ({id}, {count}).", title=title, id=session_id, count=count)
        return said if title else tr("This chat goes on with session {id} ({count}).", id=session_id, count=count)

    async def hand_off(self, target: str) -> str:
        """Let another chat of the person go on with the session."""
        return await self.chat.hand_off(target)

    def post_message(self, inbound: InboundMessage, delivery: PostMode = PostMode.USUAL) -> None:
        """Post a message to the session in the person's name when the command is done."""
        mode = {
            PostMode.USUAL: BusyMode.QUEUE,
            PostMode.QUEUE: BusyMode.QUEUE,
            PostMode.STEER: BusyMode.STEER,
            PostMode.INTERRUPT: BusyMode.INTERRUPT,
        }[delivery]
        self._posts.append(lambda: self._chat_session.post_inbound(inbound, mode))

    def prefill_input(self, text: str) -> None:
        """Show the text, as a chat has no input line to put it into."""
        self._lines.append(f"> {text}")

    async def refresh_view(self) -> None:
        """Do nothing: a chat shows no state of the session permanently."""

    def leave_chat(self, *, delete: bool = False) -> None:
        """Raise UsageError: a chat cannot be left."""
        del delete
        raise UsageError(N_("A chat goes on; /new begins a fresh session."))

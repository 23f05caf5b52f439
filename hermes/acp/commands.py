"""Slash commands in an editor: which there are, and what they show and ask with."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NoReturn

from hermes.acp.calls import Update, escape_links
from hermes.acp.questions import EditorForms
from hermes.commands.command import CommandRegistry, parse_command_line
from hermes.commands.context import MenuOption, PostMode, PromptScope, Surface
from hermes.commands.named_prompts import describe_prompt, find_named_prompt, list_named_prompts
from hermes.commands.registry import builtin_command_names, load_commands
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.i18n.messages import N_, join_sentences, tr
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App

if TYPE_CHECKING:
    from hermes.admin.people.identity import PersonIdentity
    from hermes.runtime.actor import SessionActor

_LEFT_OUT = frozenset({"quit", "stop", "queue", "steer", "interrupt", "sethome", "branch", "handoff"})
"""Commands for what an editor does by itself: it closes its threads, and sends one prompt after the other."""
_MAX_COMMANDS = 200


@cache
def editor_commands() -> CommandRegistry:
    """Return the commands of editors: those that switch sessions are the editor's own."""
    known = [one for one in load_commands() if not one.opens and one.name not in _LEFT_OUT]
    return CommandRegistry(known, Surface.EDITOR)


async def list_available_commands(app: App, scope: PromptScope) -> list[Update]:
    """Return the commands as the editor lists them: those of Hermes, then skills and own commands."""
    rows: list[tuple[str, str, str]] = [(one.name, tr(one.about), tr(one.usage)) for one in editor_commands().ranked]
    prompts = await list_named_prompts(app, scope)
    rows += [(one.name, one.about or describe_prompt(one), one.usage) for one in prompts]
    found: list[Update] = []
    for name, about, usage in rows[:_MAX_COMMANDS]:
        update: Update = {"name": name, "description": about}
        found.append({**update, "input": {"hint": usage}} if usage else update)
    return found


class EditorCommandContext:
    """The command context of one session of an editor. `show_text` shows a text as a message of Hermes' own."""

    surface = Surface.EDITOR
    terminal = None
    chat = None
    session_person = ""

    def __init__(self, app: App, actor: "SessionActor", forms: EditorForms, show_text: Callable[[str], None]) -> None:
        self.app = app
        self.actor = actor
        self.posted: list[InboundMessage] = []
        """Messages that a command sends in the person's name, in order."""
        self._forms = forms
        self._show_text = show_text

    @property
    def port(self) -> "SessionActor":
        """The session."""
        return self.actor

    @property
    def person(self) -> "PersonIdentity":
        """The person who sits at this machine: the owner."""
        from hermes.admin.people.identity import OWNER_IDENTITY

        return OWNER_IDENTITY

    @property
    def prompt_scope(self) -> PromptScope:
        """The skills of the home, and the own commands of the home and of the folder's project."""
        folder = self.app.live_session(self.actor).options.cwd
        return PromptScope(folder=folder, taken=builtin_command_names())

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show lines, as they are: one below the other, whatever is in them."""
        from hermes.runtime.mailbox import fence_attached_text

        if text.strip():
            mark = "" if level is Level.INFO else "⚠ "
            one_line = "\n" not in text.strip()
            self._show_text(f"{mark}{escape_links(text)}\n" if one_line else f"{mark}\n{fence_attached_text(text)}\n")

    def show(self, markdown: str) -> None:
        """Show a markdown text."""
        self._show_text(f"{markdown}\n")

    async def choose(self, title: str, options: Sequence[MenuOption], *, chosen: int = 0) -> int | None:
        """Ask by a form; where the editor has none, show what could be chosen."""
        del chosen
        labels = [f"{one.label}  {one.detail}".strip() for one in (option.escape() for option in options)]
        if not self._forms.can_ask:
            self.tell("\n".join([title, *labels]))
            self.tell(tr("This editor shows no menus: type the choice behind the command."))
            return None
        said = await self._forms.ask(title, labels)
        return labels.index(said) if said in labels else None

    async def confirm(self, question: str) -> bool:
        """Ask yes or no; no answer means no."""
        return await self.choose(question, [MenuOption(tr("Yes")), MenuOption(tr("No"))]) == 0

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """Ask the person for a line of text."""
        return await self._forms.ask(f"{question} ({default})" if default else question, ()) or None

    async def open_session(self, name: str | None = None, *, greet: bool = True) -> "SessionActor":
        """Raise UsageError: each thread of an editor is one session."""
        del name, greet
        _refuse_switch()

    async def hand_off(self, target: str) -> str:
        """Raise UsageError: an editor keeps its session open."""
        del target
        _refuse_switch()

    def post_message(self, inbound: InboundMessage, delivery: PostMode = PostMode.USUAL) -> None:
        """Post a message to the session in the person's name when the command is done."""
        del delivery
        self.posted.append(inbound)

    def prefill_input(self, text: str) -> None:
        """Show the text: an editor's input line is its own."""
        self.tell(f"> {text}")

    async def refresh_view(self) -> None:
        """Do nothing: what has changed is sent when the command is done."""

    def leave_chat(self, *, delete: bool = False) -> None:
        """Raise UsageError: the editor closes its threads."""
        del delete
        _refuse_switch()


async def run_typed_command(context: EditorCommandContext, text: str) -> bool:
    """Run the slash command that a message is; return False for a message, and for one that names a skill."""
    parsed = parse_command_line(text)
    if parsed is None:
        return False
    name, rest = parsed
    commands = editor_commands()
    if name in commands:
        await commands.run_command(context, name, rest)
        return True
    scope = context.prompt_scope
    prompt = await find_named_prompt(context.app, name, scope)
    if prompt is not None:
        if prompt.body:
            context.post_message(InboundMessage(text=prompt.format_prompt(rest), cwd=scope.folder))
        return bool(prompt.body)
    near = commands.suggest_name(name, [one.name for one in await list_named_prompts(context.app, scope)])
    parts = [tr("There is no command /{name}.", name=name)]
    parts += [tr("Did you mean /{near}?", near=near)] if near else []
    context.tell(join_sentences(*parts, tr("A space in front sends it as a message.")))
    return True


def _refuse_switch() -> NoReturn:
    raise UsageError(N_("Each thread of an editor is one session."), N_("Open another thread in the editor."))

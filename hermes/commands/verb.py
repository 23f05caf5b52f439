"""Verbs: what a person can do with a subject, declared once for the command line and for chats.

A `Verb` is a command of the command line (`hermes cron`), its actions are the words below it (`add`); each is declared
by a decorator of its handler. From that come the parser with its help, the output as text or JSON
(`hermes/cli/verb_runner.py`), and, by `slash_command`, the slash command with its completion. Handlers return a
`VerbResult` and print nothing.
"""

import argparse
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from enum import StrEnum
from typing import Any, Generic, NoReturn, TypeVar

from msgspec import Struct

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import CommandContext, MenuOption
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import N_, tr

AdminT = TypeVar("AdminT")
RowT = TypeVar("RowT")


class JsonLayout(StrEnum):
    """How `--json` writes a value."""

    INDENTED = "indented"
    LINE = "line"
    """The whole value on one line."""
    LINES = "lines"
    """The items of a list on a line each."""


class VerbArgument(Struct, frozen=True, kw_only=True):
    """A word or an option of an action, in the terms of argparse."""

    names: tuple[str, ...]
    keywords: Mapping[str, Any]
    takes_rest: bool = False
    """Whether it takes all words that are left in a chat, where quotes are seldom typed."""
    exclusive: str = ""
    """A name that arguments share of which only one may be given."""
    takes_command: bool = False
    """Whether it takes the words behind `--`, another program's command line, as they are."""

    @property
    def is_option(self) -> bool:
        """Whether it begins with a dash."""
        return self.names[0].startswith("-")

    @property
    def dest(self) -> str:
        """The name of its value."""
        long = next((name for name in self.names if name.startswith("--")), self.names[0])
        return str(self.keywords.get("dest") or long.lstrip("-").replace("-", "_"))

    @property
    def is_many(self) -> bool:
        """Whether its value is a list of words."""
        return self.keywords.get("nargs") in ("+", "*")

    @property
    def default(self) -> object:
        """The value where it is not given."""
        return self.keywords.get("default", False if self.keywords.get("action") == "store_true" else None)

    def take_words(self, rest: list[str]) -> object:
        """Remove the words of this argument from those that are left in a chat, and return its value. Raises
        ValueError.
        """
        taken = list(rest) if self.is_many or self.takes_rest else rest[:1]
        del rest[: len(taken)]
        if self.is_many:
            return taken
        return int(taken[0][:18]) if self.keywords.get("type") is int else " ".join(taken)


def argument(
    *names: str, takes_rest: bool = False, exclusive: str = "", takes_command: bool = False, **keywords: Any
) -> VerbArgument:
    """Declare a word or an option; the keywords are those of `add_argument`."""
    return VerbArgument(
        names=names, keywords=keywords, takes_rest=takes_rest, exclusive=exclusive, takes_command=takes_command
    )


JSON_OPTION = argument("--json", action="store_true", dest="as_json", help="print JSON")
YES_OPTION = argument("--yes", action="store_true", help="do not ask")
SHORT_YES_OPTION = argument("-y", "--yes", action="store_true", help="do not ask")


class VerbResult(Struct, frozen=True):
    """The result of an action: the value for programs, and the lines for a person."""

    value: object = None
    lines: Sequence[str] = ()
    notices: Sequence[str] = ()
    """Lines beside the result: on standard error, or behind the others."""
    exit_code: int = 0
    markdown: str = ""
    """A text behind the lines, which a chat formats."""
    data: bytes = b""
    """What the command line writes unchanged to standard output."""


def rows_result(rows: Sequence[RowT], format_row: Callable[[RowT], str | list[str]], none: str) -> VerbResult:
    """Return the result of a listing, with the line that says that there is nothing."""
    lines: list[str] = []
    for row in rows:
        said = format_row(row)
        lines += [said] if isinstance(said, str) else said
    return VerbResult(rows, lines or [none])


class DeclinedError(HermesError):
    """The person said no, or nobody could be asked; that was said already."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("")
        self.exit_code = exit_code


class VerbCall(ABC):
    """A use of an action: its arguments, and how the handler talks with the person."""

    context: CommandContext | None = None
    """The chat that it was typed in; None on the command line."""
    typed: str = ""
    """In a chat, the text behind the action's name as it was typed."""

    def __init__(self, args: argparse.Namespace, environ: Mapping[str, str]) -> None:
        self.args = args
        self.environ = environ

    @property
    def as_json(self) -> bool:
        """Whether the result is for a program."""
        return bool(getattr(self.args, "as_json", False))

    @abstractmethod
    async def require_yes(self, question: str, *, what: str = "", unasked: str = "") -> None:
        """Return once the person agrees. Raises DeclinedError.

        Where nobody can be asked, the error begins with `what`, or is `unasked` as a whole.
        """

    def require_yes_now(self, question: str, *, what: str = "", unasked: str = "") -> None:
        """Like `require_yes`, for a handler of the command line that is a plain function."""
        raise NotImplementedError

    def ask_yes_or_no(self, question: str) -> bool:
        """Return whether the person at a terminal says yes."""
        raise NotImplementedError

    def ask_secret(self, prompt: str) -> str:
        """Return what the person types at a terminal without its being shown."""
        raise NotImplementedError

    def ask_line(self, prompt: str) -> str:
        """Return a line that the person types at a terminal; empty where nobody can be asked."""
        raise NotImplementedError

    def show(self, lines: Sequence[str]) -> None:
        """Show lines before the result, unless that is for a program."""
        raise NotImplementedError

    def write_row(self, value: object, lines: Sequence[str]) -> None:
        """Write a row of something that goes on at once, as a line of JSON or as its lines."""
        raise NotImplementedError

    def report_progress(self, text: str) -> None:
        """Show the current step of something that takes long, where the person sees it."""
        raise NotImplementedError

    async def request_job_delivery(self) -> bool:
        """Have a running gateway deliver what jobs have said; return whether it was told so."""
        raise NotImplementedError

    def reject_arguments(self, why: str) -> NoReturn:
        """Refuse arguments that the parser cannot tell are wrong. Raises SystemExit."""
        raise NotImplementedError


Handler = Callable[[VerbCall], VerbResult | Coroutine[object, object, VerbResult]]
"""A plain function can be interrupted at once, a coroutine uses what is asynchronous."""
HandlerT = TypeVar("HandlerT", bound=Handler)
AdminHandler = Callable[[AdminT, VerbCall], Coroutine[object, object, VerbResult]]


class VerbAction(Struct, frozen=True, kw_only=True):
    """A word below a verb, or with an empty name the verb itself."""

    name: str
    help: str
    arguments: tuple[VerbArgument, ...]
    run: Handler
    description: str | None = None
    on_command_line: bool = True
    in_chats: bool = False


_SAME_ACTIONS = (
    ("list", "ls"), ("show", "get", "view", "info"), ("add", "new", "create"),
    ("remove", "rm", "delete", "del", "uninstall"), ("enable", "resume", "on"), ("disable", "pause", "off"),
    ("search", "find", "grep"), ("deny", "reject"), ("history", "log"), ("rename", "mv"), ("test", "ping"),
)  # fmt: skip
"""Words that people type for the same action, of which a verb has one."""


class Verb:
    """A command of the command line; its actions are added by the decorator `action`."""

    def __init__(
        self, name: str, *, description: str, example: str, json_layout: JsonLayout = JsonLayout.INDENTED
    ) -> None:
        self.name = name
        self.description = description
        self.example = example
        self.json_layout = json_layout
        self.actions: dict[str, VerbAction] = {}

    @property
    def default_action(self) -> VerbAction:
        """The action that runs without a word below the verb: `list`, else the first."""
        return self.actions.get("list") or next(iter(self.actions.values()))

    def find_action(self, word: str) -> str:
        """Return the name of the action that a word means, its own or the only one with the same meaning; else the
        word as it is.
        """
        known = self._list_words()
        same = next((words for words in _SAME_ACTIONS if word in words), ()) if word not in known else ()
        found = [name for name in same if name in known]
        return found[0] if len(found) == 1 else word

    def _list_words(self) -> Sequence[str]:
        """Return the names of the actions; of a verb without any the words that may stand first behind it."""
        if self.default_action.name:
            return list(self.actions)
        return next((one.keywords.get("choices", ()) for one in self.default_action.arguments if not one.is_option), ())

    def action(
        self, name: str, help_text: str, *arguments: VerbArgument, description: str | None = None
    ) -> Callable[[HandlerT], HandlerT]:
        """Declare a function the handler of an action of the command line."""

        def add_action(handler: HandlerT) -> HandlerT:
            self.actions[name] = VerbAction(
                name=name, help=help_text, arguments=arguments, run=handler, description=description
            )
            return handler

        return add_action


class AdminVerb(Verb, Generic[AdminT]):
    """A verb whose handlers get what `open_admin` opens for the time that they run."""

    def __init__(
        self,
        name: str,
        open_admin: Callable[[VerbCall], AbstractAsyncContextManager[AdminT]],
        *,
        description: str,
        example: str,
        json_layout: JsonLayout = JsonLayout.INDENTED,
    ) -> None:
        super().__init__(name, description=description, example=example, json_layout=json_layout)
        self._open_admin = open_admin

    def admin_action(
        self,
        name: str,
        help_text: str,
        *arguments: VerbArgument,
        description: str | None = None,
        in_chats: bool = False,
        on_command_line: bool = True,
    ) -> Callable[[AdminHandler[AdminT]], AdminHandler[AdminT]]:
        """Declare a function the handler of an action, for the command line and where `in_chats` says so for chats."""

        def add_action(handler: AdminHandler[AdminT]) -> AdminHandler[AdminT]:
            async def run_action(call: VerbCall) -> VerbResult:
                async with self._open_admin(call) as admin:
                    return await handler(admin, call)

            self.actions[name] = VerbAction(
                name=name,
                help=help_text,
                arguments=arguments,
                run=run_action,
                description=description,
                on_command_line=on_command_line,
                in_chats=in_chats,
            )
            return handler

        return add_action


class _ChatCall(VerbCall):
    """A use of an action in a chat."""

    def __init__(self, args: argparse.Namespace, context: CommandContext, typed: str) -> None:
        super().__init__(args, context.app.services.environ)
        self.context = context
        self.typed = typed

    async def require_yes(self, question: str, *, what: str = "", unasked: str = "") -> None:
        """Ask in the chat."""
        del what, unasked
        assert self.context is not None
        if not await self.context.confirm(question):
            self.context.tell(tr("Nothing was changed."))
            raise DeclinedError(1)


async def _run_in_chat(action: VerbAction, args: argparse.Namespace, context: CommandContext, typed: str) -> None:
    done = action.run(_ChatCall(args, context, typed))
    result = done if isinstance(done, VerbResult) else await done
    context.tell("\n".join([*result.lines, *result.notices]))
    if result.markdown:
        context.show(result.markdown)


CompleteWords = Callable[[CommandCall], Awaitable[Sequence[MenuOption]]]


def slash_command(
    verb: Verb,
    *,
    about: str,
    usage: str,
    group: CommandGroup,
    takes: str,
    outside: str = "",
    complete: CompleteWords | None = None,
) -> SlashCommand:
    """Return the slash command of a verb's actions for chats.

    `takes` is the error for other words, `outside` the one for actions that only the command line has; `complete`
    returns what may stand behind the name of an action.
    """
    actions = {name: one for name, one in verb.actions.items() if one.in_chats}

    async def run_action(call: CommandCall) -> None:
        typed, *words = call.words or [verb.default_action.name]
        name = verb.find_action(typed)
        if outside and name in verb.actions and name not in actions:
            raise UsageError(outside, N_("hermes {name} --help", name=verb.name))
        given = call.text.removeprefix(typed).strip()
        args = bind_words(actions[name].arguments, words, given) if name in actions else None
        if args is None:
            raise UsageError(takes)
        with suppress(DeclinedError):
            await _run_in_chat(actions[name], args, call.context, given)

    async def complete_words(call: CommandCall) -> Sequence[MenuOption]:
        if len(call.text.split()) + call.text.endswith(" ") < 2:
            return [MenuOption(name) for name in actions]
        return await complete(call) if complete is not None else ()

    return SlashCommand(name=verb.name, about=about, usage=usage, group=group, run=run_action, complete=complete_words)


def bind_words(arguments: Sequence[VerbArgument], words: Sequence[str], typed: str) -> argparse.Namespace | None:
    """Return the values of an action's arguments in a chat, where options keep their defaults; None for words that do
    not fit. An argument that takes several words, and stands first, takes the text as it was typed.
    """
    values = {one.dest: one.default for one in arguments}
    rest = list(words)
    try:
        for one in [one for one in arguments if not one.is_option]:
            if rest and one.is_many and len(rest) == len(words):
                values[one.dest], rest = [typed], []
            elif rest:
                values[one.dest] = one.take_words(rest)
            elif one.keywords.get("nargs") not in ("?", "*"):
                return None
    except ValueError:
        return None
    return None if rest else argparse.Namespace(**values)

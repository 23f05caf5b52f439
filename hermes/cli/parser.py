"""The argument parser of every command: one-line errors that name the nearest valid word, and localized help."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, NoReturn

from hermes.cli.output import print_error
from hermes.i18n.messages import ENGLISH, N_, full_stop, get_language, join_sentences, localize, tr
from hermes.util.localizable import join_localizable

_capturing_parser: ContextVar[bool] = ContextVar("looked_at", default=False)
_ARGPARSE_PHRASES = (
    N_("options"),
    N_("positional arguments"),
    N_("show this help message and exit"),
    N_("the following arguments are required: {names}"),
    N_("one of the arguments {names} is required"),
    N_("argument {name}: {what}"),
    N_("expected at most one argument"),
    N_("expected at least one argument"),
    N_("expected {n} arguments"),
    N_("not allowed with argument {name}"),
    N_("ambiguous option: {option} could match {options}"),
    N_("ignored explicit argument {value}"),
)
"""Messages of argparse itself, listed here so that they are translated."""
_REPLACED_MESSAGES = (
    (
        re.compile(r"argument (?P<name>.+): invalid int value: (?P<value>.+)"),
        N_("{name} takes a whole number, not {value}"),
    ),
    (
        re.compile(r"argument (?P<name>.+): invalid float value: (?P<value>.+)"),
        N_("{name} takes a number, not {value}"),
    ),
    (re.compile(r"argument (?P<name>.+): expected one argument"), N_("{name} needs a value")),
)
"""Messages of argparse that are replaced by our own."""
_LONGEST_USAGE = 100
"""The most characters of a usage line that names every option; a longer one says `[options]`."""
_BRACKETED_OPTION = re.compile(r" \[-(?:[^\[\]]|\[[^\[\]]*\])*\]")


class ParserCaptured(Exception):  # noqa: N818 - no error
    """Raised instead of parsing, to hand a command's parser to `capture_parser`. Nothing was parsed or run."""

    def __init__(self, parser: "CommandParser") -> None:
        super().__init__()
        self.parser = parser


def capture_parser(run: Callable[[list[str]], int]) -> "CommandParser":
    """Return the parser of a command without running it. Help, completion and the documents are built from it,
    so a command's arguments are defined once.
    """
    before = _capturing_parser.set(True)
    try:
        run([])
    except ParserCaptured as found:
        return found.parser
    finally:
        _capturing_parser.reset(before)
    raise AssertionError(f"{run.__module__} parses nothing")


def _localize_argparse_message(message: str) -> str:
    """Translate a message; argparse hands its own over in English, with their values filled in."""
    for form, words in _REPLACED_MESSAGES:
        if found := form.fullmatch(message):
            return tr(words, **found.groupdict())
    for template in _ARGPARSE_PHRASES:
        form = re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(template)))
        if found := form.fullmatch(message):
            return tr(
                template, **{name: _localize_argparse_message(value) for name, value in found.groupdict().items()}
            )
    return localize(message)


class _LocalizedHelpFormatter(argparse.HelpFormatter):
    """Format help in the person's language. Lines are broken by the columns they take, not by their characters."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        super().add_usage(usage, actions, groups, tr("usage: ") if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(tr(heading) if heading else heading)

    def _expand_help(self, action: argparse.Action) -> str:
        known = action.help
        action.help = tr(known) if known else known
        try:
            return super()._expand_help(action)
        finally:
            action.help = known

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrap_paragraph(text, width) if get_language() != ENGLISH else super()._split_lines(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap each line by itself: examples stand one below the other."""
        if get_language() == ENGLISH:
            fill = super()._fill_text
            return "\n".join(fill(line, width, indent) for line in text.split("\n"))
        return "\n".join(indent + part for line in text.split("\n") for part in _wrap_paragraph(line, width))


def _localize_headings(text: str) -> str:
    """Replace the `:` that argparse puts behind headings by the punctuation of the language."""
    for heading in ("options", "positional arguments") if get_language() != ENGLISH else ():
        text = text.replace(f"\n{tr(heading)}:\n", f"\n{tr(heading)}：\n")
    return text


def _wrap_paragraph(text: str, columns: int) -> list[str]:
    from hermes.markup.cells import fold_line

    return fold_line(" ".join(text.split()), columns)


class CommandParser(argparse.ArgumentParser):
    """An argparse parser that reports each error on one line, with exit code 2."""

    stray_word_hint = ""
    """Text that the error for a word that no argument takes adds."""
    options_taken_before: tuple[str, ...] = ()
    """Options that count before this parser is asked: a mistyped one may mean them."""

    def __init__(self, *positional: Any, **keywords: Any) -> None:
        """Take options by their whole names: what begins one of ours is often an option of another agent."""
        super().__init__(*positional, **({"allow_abbrev": False} | keywords))

    def parse_arguments(self, arguments: list[str], *, mixed: bool = False) -> argparse.Namespace:
        """Parse everything. A word or option that is left over is an error. With `mixed` options may stand between
        words.
        """
        args, rest = self.parse_known(arguments, mixed=mixed)
        if rest:
            self.find_chosen_parser(args).reject_unknown(rest, self)
        return args

    def find_chosen_parser(self, args: argparse.Namespace) -> "CommandParser":
        """Return the parser of the subcommand that was named; this one where none was."""
        for action in self._actions:
            if isinstance(action.choices, dict):
                below = action.choices.get(getattr(args, action.dest, None))
                if isinstance(below, CommandParser):
                    return below.find_chosen_parser(args)
        return self

    def parse_known(self, arguments: list[str], *, mixed: bool = False) -> tuple[argparse.Namespace, list[str]]:
        """Parse what is known, and return it with the words that are left over. With `mixed` options may stand between
        words.
        """
        if _capturing_parser.get():
            raise ParserCaptured(self)
        return self.parse_known_intermixed_args(arguments) if mixed else self.parse_known_args(arguments)

    def list_subparsers(self) -> dict[str, "CommandParser"]:
        """Return the parsers of the subcommands by name."""
        found = (one.choices for one in self._actions if isinstance(one.choices, dict))
        return {name: one for choices in found for name, one in choices.items() if isinstance(one, CommandParser)}

    def find_option(self, name: str) -> argparse.Action | None:
        """Return the option of that name; None where there is none."""
        return self._option_string_actions.get(name)

    def list_arguments(self) -> list[argparse.Action]:
        """Return the options and words that this command takes, in the order in which they were added, without hidden
        ones.
        """
        return [one for one in self._actions if one.help != argparse.SUPPRESS and one.dest != "help"]

    def _get_formatter(self) -> argparse.HelpFormatter:
        return _LocalizedHelpFormatter(prog=self.prog)

    def format_usage(self) -> str:
        """Return the usage line as argparse does, in English: argparse itself cuts off the seven letters `usage: `."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups, "usage: ")
        return formatter.format_help()

    def error(self, message: str) -> NoReturn:
        """Print the usage line and the error with a hint, and exit with code 2."""
        print(self._format_usage_line(), file=sys.stderr)
        said = _localize_argparse_message(message).rstrip(".。")
        hint = tr("`{command} --help` shows what there is.", command=self.prog)
        print_error(join_sentences(said if said.endswith(("?", "？")) else f"{said}{full_stop()}", hint))
        raise SystemExit(2)

    def _format_usage_line(self) -> str:
        """Return the usage on one line; where that is long, without the names of the options."""
        usage = " ".join(self.format_usage().split()).removeprefix("usage: ").replace(" [-h]", "", 1)
        if len(usage) > _LONGEST_USAGE:
            first, *others = _BRACKETED_OPTION.split(usage)
            usage = " ".join([first, f"[{tr('options')}]", *"".join(others).split()])
        return f"{tr('usage: ')}{usage}"

    def format_help(self) -> str:
        """Return the help text. A command without an example of its own gets one built from its required words."""
        words = [str(one.metavar or one.dest).upper() for one in self.list_arguments() if self._is_required_word(one)]
        known = self.epilog, self.description
        form = (self.epilog or " ".join([self.prog, *words])).removeprefix("example: ")
        self.epilog = "\n".join(tr("example: {form}", form=tr(line)) for line in form.split("\n"))
        self.description = tr(self.description) if self.description else None
        try:
            return _localize_headings(super().format_help())
        finally:
            self.epilog, self.description = known

    def _is_required_word(self, action: argparse.Action) -> bool:
        """Return whether an argument is a word that must be given."""
        return not action.option_strings and action.nargs not in ("?", "*")

    def iterate_options(self) -> Iterator[str]:
        """Yield every option of this parser and of its subcommands."""
        for action in self._actions:
            yield from action.option_strings
            for below in action.choices.values() if isinstance(action.choices, dict) else ():
                if isinstance(below, CommandParser):
                    yield from below.iterate_options()

    def reject_unknown(self, rest: list[str], root: "CommandParser") -> NoReturn:
        """Say what is wrong with what is left over; `root` is the parser that this one may be a subcommand of."""
        from hermes.plugins import suggest_name

        first = rest[0]
        if not first.startswith("-"):
            self.error(
                join_localizable(
                    " ", filter(None, (N_("Unexpected argument {first!r}.", first=first), root.stray_word_hint))
                )
            )
        name = first.partition("=")[0]
        if name in self.iterate_options():
            self.error(N_("{name} goes after a subcommand, such as `list`", name=name))
        if takers := [below.prog for below in root.list_subparsers().values() if name in below.iterate_options()]:
            self.error(N_("{name} belongs to `{command}`.", name=name, command=takers[0]))
        unknown = N_("there is no option {name}.", name=name)
        possible = (*self.iterate_options(), *(one for one in self.options_taken_before if one != name))
        near = self.explain_foreign_word(name) or suggest_name(name, possible)
        self.error(join_localizable(" ", (unknown, near)))

    def explain_foreign_word(self, word: str) -> str:
        """Return what an option or a subcommand of another agent is called here; empty for one that is not known."""
        from hermes.cli.foreign_words import explain_foreign_word

        def describe(ours: str) -> str | None:
            if ours.startswith("hermes "):
                return ""
            option = self.find_option(ours.split(maxsplit=1)[0])
            return None if option is None else option.help

        is_conversation = self.find_option("-z") is not None
        return explain_foreign_word(
            word if is_conversation else f"{self.prog} {word}".removeprefix("hermes "), describe
        )

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Check a value against the choices, as argparse does, and name the nearest choice first in the error."""
        choices = [str(choice) for choice in action.choices or ()]
        if action.choices is None or value in choices:
            return
        from hermes.plugins import suggest_name

        known = self.explain_foreign_word(" ".join([*action.option_strings[-1:], str(value)]))
        said = N_(
            "{value!r} is not possible here. {near} Possible: {choices}",
            value=str(value),
            near=known or suggest_name(str(value), choices),
            choices=", ".join(choices),
        )
        self.error(said)

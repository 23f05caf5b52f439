"""The parser that every verb uses: one line for what is wrong, with the nearest name there is."""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import NoReturn

from hermes.cli.errors import complain
from hermes.i18n.messages import ENGLISH, full_stop, joined, phrase, say, spoken, translated

_looked_at: ContextVar[bool] = ContextVar("looked_at", default=False)


class Inspected(Exception):  # noqa: N818 - no error
    """A verb's parser, handed to the one who looks at it; nothing was parsed and nothing run."""

    def __init__(self, parser: "Parser") -> None:
        super().__init__()
        self.parser = parser


def inspected(run: Callable[[list[str]], int]) -> "Parser":
    """The parser of a verb. So what a verb takes is said once: help, completion and documents are made of it."""
    before = _looked_at.set(True)
    try:
        run([])
    except Inspected as found:
        return found.parser
    finally:
        _looked_at.reset(before)
    raise AssertionError(f"{run.__module__} parses nothing")


_PHRASES = (
    phrase("options"),
    phrase("positional arguments"),
    phrase("show this help message and exit"),
    phrase("the following arguments are required: {names}"),
    phrase("one of the arguments {names} is required"),
    phrase("argument {name}: {what}"),
    phrase("expected at most one argument"),
    phrase("expected at least one argument"),
    phrase("expected {n} arguments"),
    phrase("not allowed with argument {name}"),
    phrase("ambiguous option: {option} could match {options}"),
    phrase("ignored explicit argument {value}"),
)
"""What argparse itself says."""
_OURS = (
    (
        re.compile(r"argument (?P<name>.+): invalid int value: (?P<value>.+)"),
        phrase("{name} takes a whole number, not {value}"),
    ),
    (
        re.compile(r"argument (?P<name>.+): invalid float value: (?P<value>.+)"),
        phrase("{name} takes a number, not {value}"),
    ),
    (re.compile(r"argument (?P<name>.+): expected one argument"), phrase("{name} needs a value behind it")),
)
"""What is said in place of some of that."""


class _Help(argparse.HelpFormatter):
    """Help in the person's language; a line is broken by the columns that it takes, not by its characters."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        super().add_usage(usage, actions, groups, say("usage: ") if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(say(heading) if heading else heading)

    def _expand_help(self, action: argparse.Action) -> str:
        known = action.help
        action.help = say(known) if known else known
        try:
            return super()._expand_help(action)
        finally:
            action.help = known

    def _split_lines(self, text: str, width: int) -> list[str]:
        return broken(text, width) if spoken() != ENGLISH else super()._split_lines(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if spoken() == ENGLISH:
            return super()._fill_text(text, width, indent)
        return "\n".join(indent + line for line in broken(text, width))


def _with_marks(text: str) -> str:
    """Help with the marks of the language behind the headings, which argparse ends with `:`."""
    for heading in ("options", "positional arguments") if spoken() != ENGLISH else ():
        text = text.replace(f"\n{say(heading)}:\n", f"\n{say(heading)}：\n")
    return text


def broken(text: str, columns: int) -> list[str]:
    """The text in lines of so many columns; Chinese may break between any two characters, but not before a mark."""
    from hermes.markup.charts import text_width

    lines: list[str] = []
    line, room = "", max(columns, 20)
    for piece in _UNITS.findall(" ".join(text.split())):
        if line and text_width(line) + text_width(piece.rstrip()) > room and piece[0] not in _CLOSING:
            lines.append(line.rstrip())
            line = ""
        line += piece if line else piece.lstrip()
    return [*lines, line.rstrip()] if line.strip() else lines


_UNITS = re.compile(r"[\u2e80-\u9fff\uff00-\uffef] ?|[^\s\u2e80-\u9fff\uff00-\uffef]+ ?| ")
_CLOSING = "，。；：？！）」”、"


class Parser(argparse.ArgumentParser):
    """An argparse parser whose complaints are one line each, with exit code 2."""

    stray = ""
    """What to say of a word that no argument takes."""

    def read(self, arguments: list[str]) -> argparse.Namespace:
        """Parse everything; what is left over is an error."""
        given, rest = self.parsed(arguments)
        if rest:
            self._not_known(rest)
        return given

    def parsed(self, arguments: list[str], *, mixed: bool = False) -> tuple[argparse.Namespace, list[str]]:
        """What is known, parsed, and what is left over. With `mixed` options may stand between words."""
        if _looked_at.get():
            raise Inspected(self)
        return self.parse_known_intermixed_args(arguments) if mixed else self.parse_known_args(arguments)

    def below(self) -> dict[str, "Parser"]:
        """The verbs of this one, by name."""
        found = (one.choices for one in self._actions if isinstance(one.choices, dict))
        return {name: one for choices in found for name, one in choices.items() if isinstance(one, Parser)}

    def arguments(self) -> list[argparse.Action]:
        """The options and words that this verb takes, as they were added, but for those that help does not show."""
        return [one for one in self._actions if one.help != argparse.SUPPRESS and one.dest != "help"]

    def _get_formatter(self) -> argparse.HelpFormatter:
        return _Help(prog=self.prog)

    def format_usage(self) -> str:
        """As argparse does, in English: it takes seven letters, `usage: `, off what this gives."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups, "usage: ")
        return formatter.format_help()

    def error(self, message: str) -> NoReturn:
        """Complain and leave."""
        for form, words in _OURS:
            if found := form.fullmatch(message):
                message = phrase(words, **found.groupdict())
        said = translated(message).rstrip(".。")
        hint = say("`{command} --help` shows what there is.", command=self.prog)
        complain(joined(said if said.endswith(("?", "？")) else f"{said}{full_stop()}", hint))
        raise SystemExit(2)

    def format_help(self) -> str:
        """As argparse does; a verb without an example of its own gets the form that it has."""
        words = [str(one.metavar or one.dest).upper() for one in self.arguments() if self._is_wanted(one)]
        known = self.epilog, self.description
        form = (self.epilog or " ".join([self.prog, *words])).removeprefix("example: ")
        self.epilog = say("example: {form}", form=say(form))
        self.description = say(self.description) if self.description else None
        try:
            return _with_marks(super().format_help())
        finally:
            self.epilog, self.description = known

    def _is_wanted(self, action: argparse.Action) -> bool:
        """Whether an argument is a word that must be there."""
        return not action.option_strings and action.nargs not in ("?", "*")

    def options(self) -> Iterator[str]:
        """Every option of this parser and of the verbs below it."""
        for action in self._actions:
            yield from action.option_strings
            for below in action.choices.values() if isinstance(action.choices, dict) else ():
                if isinstance(below, Parser):
                    yield from below.options()

    def _not_known(self, rest: list[str]) -> NoReturn:
        from hermes.plugins import suggestion

        first = rest[0]
        if not first.startswith("-"):
            self.error(f"{first!r} is one word too many. {self.stray}".rstrip())
        name = first.partition("=")[0]
        if name in self.options():
            self.error(f"{name} stands behind a verb, such as `list`")
        self.error(f"there is no option {name}. {suggestion(name, self.options())}".rstrip())

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """As argparse does, but with the nearest choice in front of all of them."""
        choices = [str(choice) for choice in action.choices or ()]
        if action.choices is None or value in choices:
            return
        from hermes.plugins import suggestion

        said = phrase(
            "there is no {value!r}. {near} Possible: {choices}",
            value=str(value),
            near=suggestion(str(value), choices),
            choices=", ".join(choices),
        )
        raise argparse.ArgumentError(None, said)

"""The parser that every verb uses: one line for what is wrong, with the nearest name there is."""

import argparse
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import NoReturn

from hermes.cli.report import complain

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

    def error(self, message: str) -> NoReturn:
        """Complain and leave."""
        complain(f"{message.rstrip('.')}. `{self.prog} --help` shows what there is.")
        raise SystemExit(2)

    def format_help(self) -> str:
        """As argparse does; a verb without an example of its own gets the form that it has."""
        words = [str(one.metavar or one.dest).upper() for one in self.arguments() if self._is_wanted(one)]
        self.epilog = self.epilog or f"example: {' '.join([self.prog, *words])}"
        return super().format_help()

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

        near = suggestion(str(value), choices)
        raise argparse.ArgumentError(None, f"there is no {str(value)!r}. {near} Possible: {', '.join(choices)}")

"""Run a declared verb on the command line: parse its arguments, print its result, turn errors into exit codes."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import NoReturn

from hermes.cli.output import YES_ANSWERS, print_error, print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.commands.verb import DeclinedError, JsonLayout, Verb, VerbAction, VerbArgument, VerbCall, VerbResult
from hermes.config.environment import copy_environment
from hermes.core.encoding import to_json
from hermes.core.errors import HermesError
from hermes.i18n.messages import N_, tr
from hermes.util.text import escape_unseen_characters


def run_verb(verb: Verb, arguments: list[str]) -> int:
    """Run the action that the arguments name and return the exit code."""
    parser = _build_parser(verb)
    args = _parse_words(verb, parser, arguments)
    if getattr(args, "verb", "") is None:
        args = parser.parse_arguments([verb.default_action.name])
    call = TerminalCall(args, parser)
    try:
        result = _run_action(verb.actions[getattr(args, "verb", "")], call)
    except DeclinedError as error:
        return error.exit_code
    except HermesError as error:
        return report_failure(error)
    if result.data:
        sys.stdout.buffer.write(result.data)
    elif call.as_json and result.value is not None:
        _print_value(result.value, verb.json_layout)
    elif lines := [*result.lines, *(["", escape_unseen_characters(result.markdown)] if result.markdown else [])]:
        print("\n".join(lines))
    for notice in result.notices:
        print_error(notice)
    return result.exit_code


def _parse_words(verb: Verb, parser: CommandParser, arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments; what stands behind `--` goes as it is to the argument that takes a command."""
    taker = next((one.dest for action in verb.actions.values() for one in action.arguments if one.takes_command), "")
    end = arguments.index("--") if taker and "--" in arguments else len(arguments)
    args, rest = parser.parse_known([*map(verb.find_action, arguments[:1]), *arguments[1:end]])
    if rest:
        _place_rest(args, taker, rest, parser)
    if command := arguments[end + 1 :]:
        if getattr(args, taker, True):
            parser.error(N_("Unexpected argument {first!r}.", first=command[0]))
        setattr(args, taker, command)
    return args


def _place_rest(args: argparse.Namespace, taker: str, rest: list[str], parser: CommandParser) -> None:
    """Give words that are left over, since an option stands before them, to the argument that takes a command; of
    anything else say what is wrong with it.
    """
    chosen, taken = parser.find_chosen_parser(args), getattr(args, taker or "verb", None)
    if taken == [] and not any(word.startswith("-") for word in rest):
        setattr(args, taker, rest)
    elif taker and taken and not chosen.explain_foreign_word(rest[0]):
        chosen.error(
            N_("{name} is no option here. A program with options of its own stands behind `--`.", name=rest[0])
        )
    else:
        chosen.reject_unknown(rest, parser)


def _run_action(action: VerbAction, call: "TerminalCall") -> VerbResult:
    try:
        done = action.run(call)
        if isinstance(done, VerbResult):
            return done
        import asyncio

        return asyncio.run(done)
    finally:
        call.clear_progress()


def _build_parser(verb: Verb) -> CommandParser:
    made = CommandParser(prog=f"hermes {verb.name}", description=verb.description, epilog=f"example: {verb.example}")
    if not verb.default_action.name:
        _add_arguments(made, verb.default_action.arguments)
        return made
    below = made.add_subparsers(dest="verb", metavar="VERB")
    for action in verb.actions.values():
        if action.on_command_line:
            parser = below.add_parser(action.name, help=action.help, description=action.description)
            _add_arguments(parser, action.arguments)
    return made


def _add_arguments(parser: CommandParser, arguments: Sequence[VerbArgument]) -> None:
    groups: dict[str, argparse._MutuallyExclusiveGroup] = {}
    for one in arguments:
        if one.exclusive and one.exclusive not in groups:
            groups[one.exclusive] = parser.add_mutually_exclusive_group()
        (groups[one.exclusive] if one.exclusive else parser).add_argument(*one.names, **one.keywords)


def _print_value(value: object, layout: JsonLayout) -> None:
    if layout is JsonLayout.INDENTED:
        print_json(value)
        return
    for one in value if layout is JsonLayout.LINES and isinstance(value, list) else [value]:
        print(json.dumps(one, ensure_ascii=False))


class TerminalCall(VerbCall):
    """A use of an action on the command line."""

    def __init__(self, args: argparse.Namespace, parser: CommandParser) -> None:
        super().__init__(args, copy_environment())
        self._parser = parser
        self._shows_progress = False

    async def require_yes(self, question: str, *, what: str = "", unasked: str = "") -> None:
        """Ask on the terminal, unless `--yes` was given."""
        self.require_yes_now(question, what=what, unasked=unasked)

    def require_yes_now(self, question: str, *, what: str = "", unasked: str = "") -> None:
        """Ask on the terminal, unless `--yes` was given."""
        if getattr(self.args, "yes", False):
            return
        if not sys.stdin.isatty():
            print_error(unasked or tr("{what} needs confirmation: add --yes.", what=what))
            raise DeclinedError(2)
        if not self.ask_yes_or_no(question):
            raise DeclinedError(1)

    def ask_yes_or_no(self, question: str) -> bool:
        """Ask on the terminal."""
        print(f"{question} [y/N] ", end="", flush=True)
        return sys.stdin.readline().strip().lower() in YES_ANSWERS

    def ask_secret(self, prompt: str) -> str:
        """Ask on the terminal; the end of the input is an empty answer."""
        import getpass

        try:
            return getpass.getpass(prompt).strip()
        except EOFError:
            return ""

    def ask_line(self, prompt: str) -> str:
        """Ask on standard error, so that the question is seen where the output goes to a file."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return ""
        print(prompt, end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip()

    def show(self, lines: Sequence[str]) -> None:
        """Print lines now."""
        if not self.as_json:
            for line in lines:
                print(line, flush=True)

    def write_row(self, value: object, lines: Sequence[str]) -> None:
        """Print a row now."""
        print(to_json(value).decode() if self.as_json else "\n".join(lines), flush=True)

    async def request_job_delivery(self) -> bool:
        """Tell a running gateway; one that does not understand finds what waits by itself, within seconds."""
        from hermes.config.home import locate_home
        from hermes.core.errors import HermesError
        from hermes.ipc import frames
        from hermes.ipc.gateway_request import request_gateway

        try:
            said = await request_gateway(locate_home(self.environ), frames.DeliverJobsFrame(id=1))
        except HermesError:
            return False
        return isinstance(said, frames.DoneFrame)

    def report_progress(self, text: str) -> None:
        """Write the step over the one before it, on a terminal only."""
        if sys.stderr.isatty():
            self._shows_progress = True
            sys.stderr.write(f"\r\x1b[K{escape_unseen_characters(text)}…")
            sys.stderr.flush()

    def clear_progress(self) -> None:
        """Remove the line of progress."""
        if self._shows_progress:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def reject_arguments(self, why: str) -> NoReturn:
        """Print the error with a hint and exit with code 2."""
        self._parser.error(why)

"""The options of `hermes` and `hermes chat`."""

import argparse
import os
import sys

from hermes.cli.arguments import Parser
from hermes.core.errors import UsageError
from hermes.core.money import is_amount
from hermes.i18n.messages import say
from hermes.sessions.options import SessionOptions
from hermes.util.text import clean_surrogates


def parser(program: str) -> Parser:
    """The parser of everything that starts a conversation."""
    made = Parser(
        prog=program,
        description="Talk with the agent. Without -z or -q: a chat in this terminal.",
        epilog='example: hermes -z "Clean this repository and build it" --allow "git clean -fdx"',
    )
    made.stray = say('To ask something: hermes -z "TEXT".')
    one = made.add_mutually_exclusive_group()
    one.add_argument(
        "-z", "--oneshot", metavar="TEXT", help="one task; only the final answer is printed; `-` reads standard input"
    )
    one.add_argument("-q", "--query", metavar="TEXT", help="one message; the work is shown")
    made.add_argument("-m", "--model", default="", help="the model's name")
    made.add_argument("--provider", default="", help="a provider of the catalogue, or `custom` with --base-url")
    made.add_argument("--base-url", default="", help="where the provider is")
    made.add_argument("-t", "--toolsets", default=None, metavar="A,B", help="tool sets that are on, joined by commas")
    made.add_argument("--max-turns", type=int, default=None, metavar="N", help="model calls for one turn")
    made.add_argument("--max-cost", type=float, default=None, metavar="USD", help="dollars that this run may spend")
    made.add_argument(
        "--max-total-tokens", type=int, default=None, metavar="N", help="tokens that this run may use, in and out"
    )
    which = made.add_mutually_exclusive_group()
    which.add_argument(
        "-r", "--resume", metavar="ID", help="go on with a session (an id, its beginning, or its whole title)"
    )
    which.add_argument("-c", "--continue", dest="latest", action="store_true", help="go on with the newest session")
    made.add_argument("--allow", action="append", default=[], metavar="PATTERN", help="commands that need no question")
    made.add_argument("--plain", action="store_true", help="a chat of lines only: for screen readers and old terminals")
    made.add_argument("--no-input", action="store_true", help="never ask; what would need a question is refused")
    made.add_argument("--image", action="append", default=[], metavar="FILE", help="a picture to send along")
    made.add_argument("--no-gateway", action="store_true", help="with -z: do it here, also where the gateway runs")
    made.add_argument("--usage-file", metavar="FILE", help="write tokens and cost of the run as JSON")
    made.add_argument(
        "-w", "--worktree", nargs="?", const="", default=None, metavar="NAME", help="work in a git worktree of its own"
    )
    made.add_argument("--share-home", action="store_true", help="agree that this home is shared with another program")
    return made


def app_options(given: argparse.Namespace) -> SessionOptions:
    """What the command line chose."""
    toolsets = None
    if given.toolsets is not None:
        toolsets = tuple(name.strip() for name in given.toolsets.split(",") if name.strip()) or ("",)
    try:
        cwd = os.getcwd()
    except OSError as error:
        raise UsageError(
            f"The working folder cannot be used: {error.strerror}.", "Change to one that exists."
        ) from None
    for name in (given.model, given.provider, given.base_url):
        if name != clean_surrogates(name):
            raise UsageError(f"{clean_surrogates(name)!r} is not text in UTF-8.")
    if given.max_turns is not None and given.max_turns < 1:
        raise UsageError("--max-turns must be above zero.")
    _check_caps(given)
    return SessionOptions(
        model=given.model,
        provider=given.provider,
        base_url=given.base_url,
        max_turns=given.max_turns,
        max_cost=given.max_cost,
        max_total_tokens=given.max_total_tokens,
        enabled_toolsets=toolsets,
        allow=tuple(given.allow),
        share_home=given.share_home,
        cwd=cwd,
    )


def _check_caps(given: argparse.Namespace) -> None:
    if given.max_cost is not None and not is_amount(given.max_cost):
        raise UsageError("--max-cost must be an amount in dollars from zero on, below a billion.")
    if given.max_total_tokens is not None and given.max_total_tokens < 0:
        raise UsageError("--max-total-tokens must not be below zero.")


def prompt_text(text: str) -> str:
    """The prompt as given, or standard input for `-`. Raises UsageError when it says nothing."""
    text = sys.stdin.read() if text == "-" else text
    if not text.strip():
        raise UsageError("The task is empty.", "Say what to do: hermes -z TEXT")
    return text

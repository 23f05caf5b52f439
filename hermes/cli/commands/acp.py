"""`hermes acp`: serve an editor, or another program that speaks the Agent Client Protocol."""

import importlib
import os
from argparse import Namespace

from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment, use_home
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import N_

_POLICIES = ("ask", "refuse", "plan", "auto")


def run(arguments: list[str]) -> int:
    """Serve the editor that has started this program, until it goes away; return the exit code.

    It is no declared verb: an editor waits for the first answer, so nothing is imported that it does not need.
    """
    args = _build_parser().parse_arguments(arguments)
    try:
        return _serve_editor(args)
    except HermesError as error:
        from hermes.cli.output import report_failure

        return report_failure(error)


def _serve_editor(args: Namespace) -> int:
    if args.home:
        use_home(os.path.abspath(os.path.expanduser(args.home)))
    if args.setup:
        from hermes.cli.verbs import load_verb

        return load_verb("setup")([])
    if os.isatty(0):
        raise UsageError(
            N_("`hermes acp` is started by an editor, and talks with it on standard input."),
            N_("`hermes` alone begins a chat here; docs/acp.md says how editors are set up."),
        )
    from hermes import __version__

    # Front-ends know nothing of each other: this one is started by its name.
    start = importlib.import_module("hermes.acp.start")
    options = start.AcpOptions(
        toolsets=args.tools,
        mode=args.policy if args.policy in ("plan", "auto") else "ask",
        asks=args.policy != "refuse",
        allow=tuple(args.allow),
        remembers=not args.no_memory,
        model=args.model,
        provider=args.provider,
    )
    return int(start.serve(copy_environment(), options, __version__, _install_log))


def _build_parser() -> CommandParser:
    parser = CommandParser(
        prog="hermes acp",
        description="Serve an editor over the Agent Client Protocol, on standard input and output. The editor starts "
        "it.",
        epilog="example: hermes acp --tools file,terminal --policy refuse",
    )
    parser.add_argument("--home", default="", metavar="FOLDER", help="the home to use, in the place of HERMES_HOME")
    parser.add_argument("-t", "--tools", default=None, metavar="A,B", help="tool sets that are on, joined by commas")
    parser.add_argument("--no-memory", action="store_true", help="leave out memory: notes and earlier sessions")
    parser.add_argument(
        "--policy",
        choices=_POLICIES,
        default="ask",
        help="ask (the usual), refuse (never ask; what would need a question is refused), plan, or auto",
    )
    parser.add_argument(
        "--allow", action="append", default=[], metavar="PATTERN", help="commands that need no question"
    )
    parser.add_argument("-m", "--model", default="", help="the model's name")
    parser.add_argument("--provider", default="", help="a provider of the catalogue")
    parser.add_argument("--setup", action="store_true", help="set up a model in this terminal, and end")
    return parser


def _install_log() -> None:
    """Send what our own modules log to the home, once the editor has its first answer."""
    from hermes.cli.fault_log import build_lazy_redactor, install_fault_log
    from hermes.config.home import locate_home

    environ = copy_environment()
    home = locate_home(environ)
    install_fault_log(home.logs, build_lazy_redactor(environ, home))

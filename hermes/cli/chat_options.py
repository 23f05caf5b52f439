"""Parse the options of `hermes` and `hermes chat`."""

import argparse
import os
import sys

from msgspec import structs

from hermes.cli.parser import CommandParser
from hermes.cli.piped_input import MAX_PIPED_BYTES, is_input_piped, read_piped_input
from hermes.cli.verbs import is_prompt
from hermes.core.errors import UsageError
from hermes.core.usage import is_amount
from hermes.core.work_mode import WorkMode
from hermes.i18n.messages import N_, tr
from hermes.runtime.mailbox import InboundMessage, attach_piped_text
from hermes.sessions.options import SessionOptions
from hermes.util.localizable import join_localizable
from hermes.util.text import clean_surrogates

OUTPUT_FORMATS = ("text", "json", "stream-json")


def build_chat_parser(program: str, *, is_chat: bool = True) -> CommandParser:
    """Build the parser for everything that starts a conversation; without `is_chat`, for what only looks at one."""
    root_parser = CommandParser(
        prog=program,
        description="Talk with the agent. Without -z or -q: a chat in this terminal, which begins with PROMPT if there"
        " is one; where there is no terminal, PROMPT is answered as with -z.",
        epilog='example: hermes -z "Clean this repository and build it" --allow "git clean -fdx"',
    )
    root_parser.stray_word_hint = tr('To ask something: hermes -z "TEXT".')
    if is_chat:
        _add_output_options(root_parser)
        root_parser.add_argument("prompt", nargs="?", help="the first message, in quotation marks")
        root_parser.add_argument("-C", "--cd", dest="folder", default="", metavar="FOLDER", help="work in this folder")
    prompt_group = root_parser.add_mutually_exclusive_group()
    prompt_group.add_argument(
        "-z", "--oneshot", metavar="TEXT", help="one task; only the final answer is printed; `-` reads standard input"
    )
    prompt_group.add_argument("-q", "--query", metavar="TEXT", help="one message; the work is shown")
    root_parser.add_argument("-m", "--model", default="", help="the model's name")
    root_parser.add_argument("--provider", default="", help="a provider of the catalogue, or `custom` with --base-url")
    root_parser.add_argument("--base-url", default="", help="where the provider is")
    root_parser.add_argument(
        "-t", "--toolsets", default=None, metavar="A,B", help="tool sets that are on, joined by commas"
    )
    root_parser.add_argument("--max-turns", type=int, default=None, metavar="N", help="model calls for one turn")
    root_parser.add_argument(
        "--max-cost", type=float, default=None, metavar="USD", help="dollars that this run may spend"
    )
    root_parser.add_argument(
        "--max-total-tokens", type=int, default=None, metavar="N", help="tokens that this run may use, in and out"
    )
    session_group = root_parser.add_mutually_exclusive_group()
    session_group.add_argument(
        "-r",
        "--resume",
        nargs="?",
        const="",
        metavar="ID",
        help="go on with a session (an id, its beginning, or its whole title); without one, choose it from a list",
    )
    session_group.add_argument(
        "-c", "--continue", dest="latest", action="store_true", help="go on with the folder's newest session, or any"
    )
    root_parser.add_argument(
        "--allow", action="append", default=[], metavar="PATTERN", help="commands that need no question"
    )
    root_parser.add_argument(
        "--plain", action="store_true", help="a chat of lines only: for screen readers and old terminals"
    )
    root_parser.add_argument(
        "--mode",
        choices=[mode.value for mode in WorkMode],
        default=WorkMode.ASK.value,
        help="ask (the usual), plan (nothing is changed), or auto (fewer questions, in a sandbox only)",
    )
    root_parser.add_argument("--no-input", action="store_true", help="never ask; what would need a question is refused")
    root_parser.add_argument("--image", action="append", default=[], metavar="FILE", help="a picture to send along")
    root_parser.add_argument(
        "--no-gateway", action="store_true", help="with -z: do it here, also where the gateway runs"
    )
    root_parser.add_argument("--usage-file", metavar="FILE", help="write tokens and cost of the run as JSON")
    root_parser.add_argument(
        "-w", "--worktree", nargs="?", const="", default=None, metavar="NAME", help="work in a git worktree of its own"
    )
    root_parser.add_argument(
        "--share-home", action="store_true", help="agree that this home is shared with another program"
    )
    root_parser.add_argument(
        "--ignore-user-config",
        action="store_true",
        help="use only the model that config.yaml names, and nothing else of it",
    )
    root_parser.add_argument(
        "--ignore-rules", action="store_true", help="leave out context files (AGENTS.md), SOUL.md and memory"
    )
    root_parser.add_argument(
        "--safe-mode", action="store_true", help="both of these: nothing of yours but keys, no plug-ins, no MCP servers"
    )
    return root_parser


def build_resume_parser() -> CommandParser:
    """Build the parser of `hermes resume`, whose words are a session and a message."""
    parser = build_chat_parser("hermes resume")
    parser.description = N_("Go on with a session. It is chosen from a list where none is named.")
    parser.epilog = N_('example: hermes resume "Lighthouses of the north"')
    prompt = next(one for one in parser.list_arguments() if one.dest == "prompt")
    prompt.dest, prompt.help = "session", N_("an id, its beginning, or its whole title")
    parser.add_argument("prompt", nargs="?", help="the next message, in quotation marks")
    return parser


def _add_output_options(parser: CommandParser) -> None:
    """Add the options for programs that read what a run gives."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--json", action="store_const", dest="report", const="json", help="print one JSON object at the end"
    )
    group.add_argument(
        "--stream-json", action="store_const", dest="report", const="stream", help="print one JSON event a line"
    )
    group.add_argument(
        "--output-format", choices=OUTPUT_FORMATS, metavar="FORMAT", help="text, json or stream-json: the same by name"
    )
    parser.add_argument(
        "--output-schema", metavar="FILE", help="the answer must validate against this JSON Schema (else exit code 4)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the final answer to a file, too")


def apply_prompt(args: argparse.Namespace, *, is_bare: bool, parser: CommandParser) -> None:
    """Bring the parsed options in order: a prompt is the first message of a chat, or the one task where there is no
    terminal or the answer is for a program.

    `is_bare`: no command was named, so that one plain word is rather a mistyped command than a prompt.
    """
    _settle_synonyms(args)
    _check_model_name(args.model, parser)
    has_task = args.oneshot is not None or args.query is not None
    if args.prompt is not None and (has_task or (is_bare and not is_prompt(args.prompt))):
        hint = "" if has_task else parser.stray_word_hint
        said = N_("Unexpected argument {first!r}.", first=args.prompt)
        parser.error(join_localizable(" ", filter(None, (said, hint))))
    program_option = _find_program_option(args)
    if args.prompt is not None and (program_option or not has_terminal()):
        args.oneshot, args.prompt, has_task = args.prompt, None, True
    if program_option and not has_task:
        parser.error(N_("{name} needs a task: -z TEXT, or -q TEXT", name=program_option))


def _check_model_name(name: str, parser: CommandParser) -> None:
    if len(name.split()) > 1:
        said = N_("-m takes the name of a model, which has no spaces, and {name!r} has some.", name=name)
        parser.error(join_localizable(" ", (said, parser.stray_word_hint or N_("To ask something: -z TEXT."))))


def _settle_synonyms(args: argparse.Namespace) -> None:
    """Bring to one form what can be said in two."""
    args.report = {"json": "json", "stream-json": "stream"}.get(args.output_format or "", args.report)
    if args.worktree and args.prompt is None and is_prompt(args.worktree):  # the value of -w is optional
        args.worktree, args.prompt = "", args.worktree


def _find_program_option(args: argparse.Namespace) -> str:
    """Return an option by which the answer is for a program; empty where it is for a person."""
    given = {"--output-schema": args.output_schema, "--output": args.output, "--json": args.report}
    return next((name for name, value in given.items() if value), "")


def enter_folder(args: argparse.Namespace) -> None:
    """Change to the folder of `-C` before anything else, as `cd` would. Raises UsageError."""
    if not args.folder:
        return
    try:
        os.chdir(os.path.expanduser(args.folder))
    except OSError as error:
        raise UsageError(
            N_("{folder} cannot be the working folder: {strerror}.", folder=args.folder, strerror=error.strerror)
        ) from None


def has_terminal() -> bool:
    """Return whether a person sits at both ends of a chat."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def build_app_options(args: argparse.Namespace) -> SessionOptions:
    """Build the options of the App from the command line. Raises UsageError for a value that cannot be used."""
    toolsets = None
    if args.toolsets is not None:
        toolsets = tuple(name.strip() for name in args.toolsets.split(",") if name.strip()) or ("",)
    try:
        cwd = os.getcwd()
    except OSError as error:
        raise UsageError(
            N_("The working folder cannot be used: {strerror}.", strerror=error.strerror), "Change to one that exists."
        ) from None
    for name in (args.model, args.provider, args.base_url):
        if name != clean_surrogates(name):
            raise UsageError(
                N_("{clean_surrogates} is not text in UTF-8.", clean_surrogates=repr(clean_surrogates(name)))
            )
    if args.max_turns is not None and args.max_turns < 1:
        raise UsageError("--max-turns must be above zero.")
    _check_spending_caps(args)
    options = SessionOptions(
        model=args.model,
        provider=args.provider,
        base_url=args.base_url,
        max_turns=args.max_turns,
        max_cost=args.max_cost,
        max_total_tokens=args.max_total_tokens,
        enabled_toolsets=toolsets,
        allow=tuple(args.allow),
        mode=WorkMode(args.mode),
        share_home=args.share_home,
        unattended=args.oneshot is not None,
        cwd=cwd,
    )
    return _leave_out(options, args)


def _leave_out(options: SessionOptions, args: argparse.Namespace) -> SessionOptions:
    """Return the options without what the person has set up, as far as the command line says so."""
    if args.safe_mode or args.ignore_rules:
        options = structs.replace(options, skip_context_files=True, skip_identity=True, remembers=False)
    return structs.replace(options, ignore_config=True) if args.safe_mode or args.ignore_user_config else options


def _check_spending_caps(args: argparse.Namespace) -> None:
    if args.max_cost is not None and not is_amount(args.max_cost):
        raise UsageError("--max-cost must be an amount in dollars from zero on, below a billion.")
    if args.max_total_tokens is not None and args.max_total_tokens < 0:
        raise UsageError("--max-total-tokens must not be below zero.")


def build_message(text: str, cwd: str) -> InboundMessage:
    """Return the message of a one-shot run: the prompt as given, or standard input for `-`. What is piped into the
    command goes along with a prompt. Raises UsageError when the task is empty, or standard input cannot be used.
    """
    if text == "-":
        text, piped = read_piped_input() if is_input_piped() else sys.stdin.read(MAX_PIPED_BYTES), ""
    else:
        piped = "" if not text.strip() else read_piped_input()
    if not text.strip():
        raise UsageError("The task is empty.", "Say what to do: hermes -z TEXT")
    return attach_piped_text(InboundMessage(text=text, cwd=cwd), piped)

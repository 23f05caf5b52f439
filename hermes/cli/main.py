"""Find the command that the arguments name, and run its module. Nothing that a command needs is imported
before the command is known.
"""

import errno
import io
import os
import sys

from hermes.cli.verbs import HIDDEN_VERBS, VERB_GROUPS, VERBS, is_prompt, load_package_verb, load_verb
from hermes.i18n.messages import N_, tr

TYPE_CHECKING = False  # as in `typing`, which `--help` does not import
if TYPE_CHECKING:
    from hermes.config.plugin_consents import PluginConsents

_NEARNESS_BELOW = 0.75
"""How near a word must be to one that stands below a verb: there are many of those."""
_TEXT_OPTIONS = {"-z": "--oneshot", "--oneshot": "--oneshot", "-q": "--query", "--query": "--query"}
"""Options whose text may look like an option itself; the long form takes the whole text behind a `=`."""
_CONVERSATIONS = ("chat", "resume", "prompt-size")
"""The commands that have these options."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    args = sys.argv[1:] if arguments is None else arguments
    _repair_standard_streams()
    try:
        chosen = _name_prompt(_select_profile(_join_text_options(args)))
        code, chosen = _try_gateway(chosen)
        if code is None:
            from hermes.config.language import use_detected_language

            use_detected_language()
            code = _dispatch_command(chosen)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return 141
    except OSError as error:
        if error.filename or error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF, errno.ENOBUFS):
            return _report_unexpected(error)
        _silence_stdout()
        said = tr("standard output cannot be written: {reason}.", reason=error.strerror)
        print(f"hermes: {said}", file=sys.stderr)
        return 74


def _try_gateway(args: list[str]) -> tuple[int | None, list[str]]:
    """Run a one-shot task through a running gateway. Return its exit code, or None and
    the arguments to continue with.
    """
    if not any(word.startswith("--oneshot=") for word in args) or "--no-gateway" in args:
        return None, args
    from hermes.cli.gateway_client import run_through_gateway

    return run_through_gateway(args)


def _report_unexpected(error: OSError) -> int:
    """Print one line about a file or device failure that no command handled, and log the traceback."""
    import logging

    logger = logging.getLogger("hermes")
    if logger.handlers:
        logger.error("an unforeseen failure", exc_info=error)
    where = f"{error.filename}: " if error.filename else ""
    print(f"hermes: {where}{error.strerror or error}.", file=sys.stderr)
    return 1


def _dispatch_command(args: list[str]) -> int:
    first = args[0] if args else ""
    if first in ("-h", "--help", "help"):
        return _show_help(args[1:])
    if first in ("-V", "--version"):
        first = "version"
    _import_msgspec()
    _use_consents()
    if first in VERBS or first in HIDDEN_VERBS:
        asks_help = args[1:] == ["help"] and first not in _FREE_TEXT_VERBS
        return load_verb(first)(["--help"] if asks_help else args[1:])
    if first and not first.startswith("-") and not is_prompt(first):
        if (run := load_package_verb(first)) is not None:
            return run(args[1:])
        print(_format_unknown_command(first, args), file=sys.stderr)
        return 2
    from hermes.cli.chat import run_bare

    return run_bare(args)


def _use_consents() -> None:
    """Have installed packages imported only where the person's home has enabled them."""
    from hermes.plugins import PACKAGES

    def open_consents() -> "PluginConsents":
        from hermes.config.environment import copy_environment
        from hermes.config.home import locate_home
        from hermes.config.plugin_consents import PluginConsents

        return PluginConsents(locate_home(copy_environment()).consent_file)

    PACKAGES.use(
        lambda package: open_consents().is_enabled_package(package),
        is_changed=lambda package: open_consents().is_changed_package(package),
        has_any=lambda: open_consents().has_packages(),
    )


def _show_help(words: list[str]) -> int:
    """Show the help of the command that is named, or the general one. What stands behind the names goes nowhere: behind
    a `--` even `--help` would be a word to act on.
    """
    if words and words[0] in VERBS:
        end = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
        return load_verb(words[0])([*words[1:end], "--help"])
    print(format_help_text())
    return 0


def _import_msgspec() -> None:
    """Import msgspec, which every command uses, without `typing_extensions`.

    Msgspec prefers three names of that module to the same ones of `typing`, and importing it takes longer than all the
    rest of msgspec.
    """
    preferred = "typing_extensions"
    if preferred in sys.modules:
        return
    sys.modules[preferred] = None  # type: ignore[assignment]  # what an import takes for a module that does not exist
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules[preferred]


def _format_unknown_command(first: str, args: list[str]) -> str:
    """Build the message for a word that is no command: what it is called here, or the nearest command and how to ask a
    question.
    """
    import shlex

    from hermes.i18n.messages import join_sentences, localize
    from hermes.util.text import strip_control_characters, to_one_line

    task = to_one_line(strip_control_characters(" ".join(args)), 60)
    task = shlex.quote(task) if set(task) & set('"$`\\!') else f'"{task}"'
    known = _explain_command(args)
    parts = [tr("there is no command {first!r}.", first=first), localize(known or _suggest_command(first))]
    parts += [] if known else [tr("To ask something: hermes -z {task}.", task=task)]
    return "hermes: " + join_sentences(*parts, tr("`hermes --help` lists the commands."))


def _explain_command(args: list[str]) -> str:
    """Return what a command of another agent is called here; empty for one that is not known."""
    from hermes.cli.command_tree import describe_ours
    from hermes.cli.foreign_words import explain_foreign_word

    return explain_foreign_word(" ".join(args[:2]), describe_ours) or explain_foreign_word(args[0], describe_ours)


def _suggest_command(word: str) -> str:
    """Return a `did you mean` sentence: what stands so below a command, else the nearest command, else the nearest that
    stands below one; else what the nearest word of another agent is called here.
    """
    from hermes.cli.command_tree import describe_ours, list_commands
    from hermes.cli.foreign_words import explain_foreign_word, list_foreign_commands
    from hermes.plugins import suggest_name
    from hermes.util.nearest_names import list_nearest

    below = {one.path[-1]: " ".join(one.path) for one in reversed(list_commands()) if len(one.path) > 1}
    if word not in below and (near := suggest_name(word, VERBS)):
        return near
    found = [word] if word in below else list_nearest(word, below, nearness=_NEARNESS_BELOW)
    if found:
        return N_("Did you mean {names}?", names=repr(below[found[0]]))
    foreign = list_nearest(word, list_foreign_commands(), nearness=_NEARNESS_BELOW)
    return explain_foreign_word(foreign[0], describe_ours) if foreign else ""


def _join_text_options(args: list[str]) -> list[str]:
    """Tie the text of `-z` and `-q` to its option, so that a text that begins with `-` is not taken for an option. At
    the end, without a text, it is what is piped in.
    """
    first = next(iter(args[2:] if args[:1] in (["-p"], ["--profile"]) else args), "")
    if first in VERBS and first not in _CONVERSATIONS:
        return args
    end = args.index("--") if "--" in args else len(args)
    joined: list[str] = []
    rest = iter(args[:end])
    for word in rest:
        text = _take_text(word, next(rest, None)) if word in _TEXT_OPTIONS else None
        joined.append(word if text is None else f"{_TEXT_OPTIONS[word]}={text}")
    return joined + args[end:]


def _take_text(option: str, text: str | None) -> str | None:
    """Return the text of an option; without one `-`, for what is piped in, and None where nothing is.

    What is rather the next option is refused, and never taken for one, since a script may pass on any text.
    """
    if text is None:
        from hermes.cli.piped_input import is_input_piped

        return "-" if is_input_piped() else None
    if text.startswith("-") and text.replace("-", "").isalpha() and not is_prompt(text):
        from hermes.cli.output import print_error
        from hermes.config.language import use_detected_language

        use_detected_language()
        print_error(tr("{option} takes the text right behind it, and {text} is an option.", option=option, text=text))
        raise SystemExit(2)
    return text


def _name_prompt(args: list[str]) -> list[str]:
    """Make a prompt that stands for itself the task of `-z` where there is no terminal, so that it can go through the
    gateway as well.
    """
    if args and not args[0].startswith("-") and is_prompt(args[0]) and not (os.isatty(0) and os.isatty(1)):
        return [f"--oneshot={args[0]}", *args[1:]]
    return args


_FREE_TEXT_VERB = "guard"
"""The command whose words may all belong to another program's command line."""
_FREE_TEXT_VERBS = ("chat", "send", _FREE_TEXT_VERB)
"""Commands behind which `help` may be what is said."""


def _select_profile(args: list[str]) -> list[str]:
    """Apply `-p NAME`, which chooses the home for everything that follows, and return the other arguments. Exits
    with an error when the profile cannot be used.
    """
    if not any(word == "-p" or word.startswith("--profile") for word in args):
        return args
    from hermes.core.errors import HermesError

    try:
        return _extract_profile(args)
    except HermesError as error:
        from hermes.cli.output import report_failure

        raise SystemExit(report_failure(error)) from None


def _extract_profile(args: list[str]) -> list[str]:
    end = args.index("--") if "--" in args else len(args)
    rest: list[str] = []
    words = iter(args[:end])
    name: str | None = None
    for word in words:
        if word in ("-p", "--profile"):
            name = next(words, "")
        elif word.startswith("--profile="):
            name = word.partition("=")[2]
        elif word == _FREE_TEXT_VERB and not rest:
            rest += [word, *words]
        else:
            rest.append(word)
    if name is not None:
        _use_profile(name)
    return rest + args[end:]


def _use_profile(name: str) -> None:
    from hermes.config.environment import copy_environment, use_profile
    from hermes.config.home import check_profile_name

    if is_prompt(name):
        from hermes.core.errors import UsageError

        raise UsageError(
            N_("-p takes the name of a profile, and {name!r} cannot be one.", name=name),
            N_("To ask something: -z TEXT."),
        )
    if copy_environment().get("HERMES_HOME"):
        said = tr("HERMES_HOME is set and comes first: the profile {name!r} is not used.", name=name)
        print(f"hermes: {said}", file=sys.stderr)
        return
    use_profile(check_profile_name(name))


_USAGE = N_(
    """\
usage: hermes ["PROMPT"] [options]   start a chat, with a first message if you like
       hermes -z TEXT [options]      do one task, print only the final answer; piped input goes along
       hermes COMMAND ...
"""
)
_OPTIONS = N_(
    """\
common options (all of them: `hermes chat --help`):
  -z, --oneshot TEXT    one task; `-` reads it from standard input
  -m, --model MODEL     the model to use          --provider NAME     who serves it
  -t, --toolsets A,B    tool sets that are on     --max-turns N       model calls for one turn
  -r, --resume ID       go on with a session      -c, --continue      go on with the newest one
  --allow PATTERN       commands that may run without a question (repeatable)
  --no-input            never ask; what would need a question is refused (exit code 3)
  --max-cost USD        dollars that this run may spend (more caps: `spending` in config.yaml)
  --json, --stream-json for programs: one object at the end, or one event a line
  --output-schema FILE  the answer must validate against this JSON Schema
  -C, --cd FOLDER       work in this folder
  -w, --worktree [NAME] work in a git worktree of its own
  -p, --profile NAME    use the home of this profile (with every command)

examples:
  hermes -z "What is in this folder, and how large is it?"
  cat error.log | hermes -z "Name the cause in one sentence"
  hermes -z "Clean this repository and build it" --allow "git clean -fdx"
  hermes chat -q "Explain setup.cfg" --continue

exit codes: 0 done, 1 failed, 2 wrong usage, 3 something was refused because nobody could be asked,
            4 the answer does not have the form of --output-schema, 75 the session is open elsewhere,
            78 the configuration cannot be used, 130 stopped
"""
)


def format_help_text() -> str:
    """Return what `hermes --help` prints. The options are those of `hermes chat`, whose own help lists all of them."""
    lines: list[str] = []
    for heading, names in VERB_GROUPS.items():
        lines += [tr(heading), *(f"  {name:<11} {tr(VERBS[name][1])}" for name in names)]
    return "\n".join([tr(_USAGE), *lines, "", tr(_OPTIONS)])


def _repair_standard_streams() -> None:
    """Make the standard streams usable: a closed one becomes /dev/null, and no character fails to be shown."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115 - for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _silence_stdout() -> None:
    """Send standard output to /dev/null, so that the interpreter's last flush does not fail when the reader of
    our output is gone.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

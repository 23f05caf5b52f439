"""Finds the verb and hands over. Nothing that a verb needs is imported before the verb is known."""

import errno
import io
import os
import sys

from hermes.cli.verbs import HIDDEN, VERBS
from hermes.i18n.messages import phrase, say

_TAKES_TEXT = {"-z": "--oneshot", "--oneshot": "--oneshot", "-q": "--query", "--query": "--query"}
"""Options whose text may look like an option itself; the long form takes it whole, behind a `=`."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    _sound_streams()
    try:
        chosen = _chosen(_joined(given))
        code, chosen = _quick(chosen)
        if code is None:
            _speak()
            code = _dispatch(chosen)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _quiet_stdout()
        return 141
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF):
            return _unforeseen(error)
        _quiet_stdout()
        said = say("standard output cannot be written: {reason}.", reason=error.strerror)
        print(f"hermes: {said}", file=sys.stderr)
        return 74


def _quick(given: list[str]) -> tuple[int | None, list[str]]:
    """The exit code when a gateway has done it; else None, and the arguments to go on with."""
    if not any(word.startswith("--oneshot=") for word in given) or "--no-gateway" in given:
        return None, given
    from hermes.cli.gateway_client import through_gateway

    return through_gateway(given)


def _speak() -> None:
    """Say everything in the language that this person wants, from here on."""
    from hermes.config.environment import process_environment
    from hermes.config.language import wanted_language
    from hermes.i18n.messages import speak

    speak(wanted_language(process_environment()))


def _unforeseen(error: OSError) -> int:
    """A file or device that failed where nothing was prepared for it: a line for the person, the rest for the log."""
    import logging

    logger = logging.getLogger("hermes")
    if logger.handlers:
        logger.error("an unforeseen failure", exc_info=error)
    where = f"{error.filename}: " if error.filename else ""
    print(f"hermes: {where}{error.strerror or error}.", file=sys.stderr)
    return 1


def _dispatch(given: list[str]) -> int:
    first = given[0] if given else ""
    if first in ("-h", "--help", "help"):
        print(help_text())
        return 0
    if first in ("-V", "--version"):
        first = "version"
    if first in VERBS or first in HIDDEN:
        import importlib

        module = importlib.import_module(HIDDEN[first] if first in HIDDEN else VERBS[first][0])
        return int(module.run(given[1:]))
    if first and not first.startswith("-"):
        print(_no_verb(first, given), file=sys.stderr)
        return 2
    from hermes.cli.chat import run

    return run(given)


def _no_verb(first: str, given: list[str]) -> str:
    """What to say to a word that is no command: the nearest one, and how a question is asked."""
    import shlex

    from hermes.i18n.messages import joined, translated
    from hermes.plugins import suggestion
    from hermes.util.text import inert, one_line

    task = one_line(inert(" ".join(given)), 60)
    task = shlex.quote(task) if set(task) & set('"$`\\!') else f'"{task}"'
    parts = [say("there is no command {first!r}.", first=first), translated(suggestion(first, VERBS))]
    parts += [say("To ask something: hermes -z {task}.", task=task), say("`hermes --help` lists the commands.")]
    return "hermes: " + joined(*parts)


def _joined(given: list[str]) -> list[str]:
    """Tie the text of `-z` and `-q` to its option, so that a text that begins with `-` is not taken for an option."""
    joined: list[str] = []
    rest = iter(given)
    for word in rest:
        if word in _TAKES_TEXT and (text := next(rest, None)) is not None:
            joined.append(f"{_TAKES_TEXT.get(word, word)}={text}")
        else:
            joined.append(word)
    return joined


_FREE = "guard"
"""The verb behind which every word may be a command's own."""


def _chosen(given: list[str]) -> list[str]:
    """The arguments without `-p NAME`, which chooses the home of everything that follows; exits when it cannot."""
    if not any(word == "-p" or word.startswith("--profile") for word in given):
        return given
    from hermes.core.errors import HermesError

    try:
        return _profiled(given)
    except HermesError as error:
        from hermes.cli.errors import failed

        raise SystemExit(failed(error)) from None


def _profiled(given: list[str]) -> list[str]:
    end = given.index("--") if "--" in given else len(given)
    rest: list[str] = []
    words = iter(given[:end])
    name: str | None = None
    for word in words:
        if word in ("-p", "--profile"):
            name = next(words, "")
        elif word.startswith("--profile="):
            name = word.partition("=")[2]
        elif word == _FREE and not rest:
            rest += [word, *words]
        else:
            rest.append(word)
    if name is not None:
        _use_profile(name)
    return rest + given[end:]


def _use_profile(name: str) -> None:
    from hermes.config.environment import process_environment, use_profile
    from hermes.config.profiles import checked_name

    if process_environment().get("HERMES_HOME"):
        said = say("HERMES_HOME is set and comes first: the profile {name!r} is not used.", name=name)
        print(f"hermes: {said}", file=sys.stderr)
        return
    use_profile(checked_name(name))


_USAGE = phrase(
    """\
usage: hermes [options]              start a chat
       hermes -z TEXT [options]      do one task, print only the final answer
       hermes COMMAND ...
"""
)
_OPTIONS = phrase(
    """\
common options (all of them: `hermes chat --help`):
  -z, --oneshot TEXT    one task; `-` reads it from standard input
  -m, --model MODEL     the model to use          --provider NAME     who serves it
  -t, --toolsets A,B    tool sets that are on     --max-turns N       model calls for one turn
  -r, --resume ID       go on with a session      -c, --continue      go on with the newest one
  --allow PATTERN       commands that may run without a question (repeatable)
  --no-input            never ask; what would need a question is refused (exit code 3)
  --max-cost USD        dollars that this run may spend (more caps: `spending` in config.yaml)
  --usage-file FILE     write tokens and cost of the run as JSON
  -w, --worktree [NAME] work in a git worktree of its own
  -p, --profile NAME    use the home of this profile (with every command)

examples:
  hermes -z "What is in this folder, and how large is it?"
  hermes -z "Clean this repository and build it" --allow "git clean -fdx"
  hermes chat -q "Explain setup.cfg" --continue

exit codes: 0 done, 1 failed, 2 wrong usage, 3 something was refused because nobody could be asked,
            75 the session is open elsewhere, 78 the configuration cannot be used, 130 stopped
"""
)


def help_text() -> str:
    """What `hermes --help` prints; the options are those of `hermes chat`, which has the long form."""
    verbs = "\n".join(f"  {name:<11} {say(what)}" for name, (_, what) in VERBS.items())
    return f"{say(_USAGE)}\n{say('commands:')}\n{verbs}\n\n{say(_OPTIONS)}"


def _sound_streams() -> None:
    """Standard streams that can be used: one that was closed is /dev/null, and no character fails to be shown."""
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


def _quiet_stdout() -> None:
    """The reader of our output is gone: keep the interpreter's last flush from complaining."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

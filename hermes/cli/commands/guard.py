"""`hermes guard`: what would be said to a command, a path, a URL or a text, for one of them or for a stream of them."""

import argparse
import re
import shlex
import sys

import msgspec

from hermes.admin.guard import FIELDS, Plain, PolicyChecker, PolicyQuestion
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.config.environment import process_environment
from hermes.config.home import locate_home
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import phrase, say, translated
from hermes.util.text import visible

_LONGEST = 16 << 20
"""Characters of one question."""


def run(arguments: list[str]) -> int:
    """Answer one question, or with `--jsonl` one for each line of standard input."""
    parser = _parser()
    ours, command = _parted(arguments)
    given, rest = parser.parsed(ours, mixed=True)
    if rest:
        parser.error(f"{rest[0]!r} is no option here: put what is asked about in quotes")
    given.words += [shlex.join(command)] if command else []
    try:
        environ = process_environment()
        guard = PolicyChecker(environ, locate_home(environ), sandboxed=given.backend == "sandbox", user_home=given.home)
        if given.jsonl:
            return _stream(guard, given)
        text = " ".join(given.words)
        if not text:
            raise UsageError(f"Say which {given.subject} to judge, or give questions with --jsonl.")
        if text == "-":
            text = sys.stdin.read()
        question = msgspec.convert({FIELDS[given.subject]: text, "op": given.op, "cwd": given.cwd}, PolicyQuestion)
        code = _show(guard.answer_question(given.subject, question))
        if given.subject == "path":
            print("  " + say("answered for the back end {name} (--backend)", name=given.backend))
        return code
    except HermesError as error:
        return failed(error)


_VERDICTS = {"allow": phrase("allow"), "ask": phrase("ask"), "deny": phrase("deny")}
_EFFECTS = {
    "reads": phrase("reads"),
    "writes": phrase("writes"),
    "overwrites": phrase("overwrites"),
    "deletes": phrase("deletes"),
    "destroys": phrase("destroys"),
    "fetches": phrase("fetches"),
    "sends": phrase("sends"),
    "persists": phrase("persists"),
    "escalates": phrase("escalates"),
    "kills": phrase("kills"),
    "exhausts": phrase("exhausts"),
    "runs": phrase("runs"),
    "unknown": phrase("does something unknown with"),
}
_VALUED = ("--backend", "--op", "--cwd", "--home")


def _parted(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and a command that was given word by word: then what looks like options is its own.

    `command rm -rf /`: from the first word on, but for options of ours that stand at the end. A command that was given
    as one text, with spaces in it, or alone, is left where it stands.
    """
    at = _behind_options(arguments, 0)
    if arguments[at : at + 1] != ["command"]:
        return arguments, []
    at = _behind_options(arguments, at + 1)
    words = arguments[at:]
    end: list[str] = []
    if words[:1] == ["--"]:
        words = words[1:]
    else:
        while cut := _ours_at_the_end(words):
            words, end = words[:-cut], [*words[-cut:], *end]
    if len(words) < 2 or re.search(r"\s", words[0]):
        return arguments, []
    return [*arguments[:at], *end], words


def _behind_options(arguments: list[str], at: int) -> int:
    """The place of the first word from there on that is no option of ours."""
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "--":
        at += 2 if arguments[at] in _VALUED else 1
    return at


def _ours_at_the_end(words: list[str]) -> int:
    """How many of the last words are an option of ours, behind at least one word of the command's."""
    if len(words) > 1 and (words[-1] == "--jsonl" or words[-1].startswith(tuple(f"{one}=" for one in _VALUED))):
        return 1
    return 2 if len(words) > 2 and words[-2] in _VALUED else 0


def _parser() -> Parser:
    made = Parser(
        prog="hermes guard",
        description="Say what the gate would do, without doing it: allow, ask or deny, by which rule and why; for a "
        "text its suspicious passages, or the text without secrets. Answers are for commands that nothing holds back "
        "(`local`), whatever config.yaml says, unless --backend sandbox is given.",
        epilog="example: "
        + phrase(
            "hermes guard command git push --force origin main. Exit codes: 0 every question was answered, "
            "whatever the answer; 1 a line of --jsonl was no question (its answer has `error`, and the next line is "
            "read); 2 wrong usage; 78 settings that cannot be used. docs/safety.md names the members of --jsonl."
        ),
    )
    made.add_argument("subject", choices=sorted(FIELDS), help="what is asked about")
    made.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="the command (one text in quotes, or its words), path, URL or text; `-`: standard input",
    )
    made.add_argument(
        "--jsonl", action="store_true", help="one JSON object a line on standard input, one answer a line"
    )
    made.add_argument(
        "--backend", choices=["local", "sandbox"], default="local", help="where commands would run (default: local)"
    )
    made.add_argument("--op", choices=["read", "write"], default="read", help="what is done with a path")
    made.add_argument("--cwd", default="", metavar="FOLDER", help="the folder to stand in (default: this one)")
    made.add_argument("--home", default="", metavar="FOLDER", help="the person's home (default: yours)")
    return made


def _stream(guard: PolicyChecker, given: argparse.Namespace) -> int:
    """One answer for each line, at once. A line that is no question is answered too, with a refusal; the code is 1."""
    code = 0
    decoder = msgspec.json.Decoder(PolicyQuestion)
    encoder = msgspec.json.Encoder()
    out = sys.stdout.buffer
    while line := sys.stdin.buffer.readline(_LONGEST):
        if not line.strip():
            continue
        if line.endswith(b"\n") or len(line) < _LONGEST:
            answer = _judged(guard, given, line, decoder)
        else:
            answer = _bad(say("The question has more than {LONGEST} MB.", LONGEST=_LONGEST >> 20))
            _skip_line()
        code = 1 if "error" in answer else code
        out.write(encoder.encode(answer) + b"\n")
        out.flush()
    return code


def _judged(
    guard: PolicyChecker, given: argparse.Namespace, line: bytes, decoder: "msgspec.json.Decoder[PolicyQuestion]"
) -> Plain:
    try:
        question = decoder.decode(line)
        if not question.cwd and given.cwd:
            question = msgspec.structs.replace(question, cwd=given.cwd)
        return guard.answer_question(given.subject, question)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return _bad(say("This line is no question: {error}.", error=error))
    except HermesError as error:
        return _bad(str(error))
    except Exception as error:  # noqa: BLE001 - a fault in a rule is a no, and the next question is answered
        return _bad(say("It could not be judged ({kind}).", kind=type(error).__name__))


def _bad(why: str) -> Plain:
    return {"error": why, "verdict": "deny", "rule": "no-question", "reason": why, "effects": []}


def _skip_line() -> None:
    while (rest := sys.stdin.buffer.readline(_LONGEST)) and not rest.endswith(b"\n"):
        pass


def _show(answer: Plain) -> int:
    """The answer for a person."""
    if "redacted" in answer:
        sys.stdout.write(f"{answer['redacted']}\n")
        return 0
    if "marks" in answer:
        marks = answer["marks"]
        assert isinstance(marks, list)
        for mark in marks:
            form = f" ({mark['form']})" if mark["form"] else ""
            print(f"{mark['rule']}{form}: {visible(str(mark['excerpt']))}")
        if not marks:
            print(say("Nothing stands out. That is no proof: what protects is what the text may not do."))
        return 0
    rule = f"  {answer['rule']}: {translated(visible(str(answer['reason'])))}" if answer["rule"] else ""
    print(f"{say(_VERDICTS.get(str(answer['verdict']), str(answer['verdict'])))}{rule}")
    effects = answer["effects"]
    assert isinstance(effects, list)
    for effect in effects:
        what = ", ".join(effect["targets"]) or " ".join(effect["argv"])
        print(f"  {say(_EFFECTS.get(effect['kind'], effect['kind']))} {visible(what)}")
    return 0

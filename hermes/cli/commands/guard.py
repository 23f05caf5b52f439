"""`hermes guard`: show the policy's verdict on a command, a path, a URL or a text, for one or for a stream of them."""

import argparse
import re
import shlex
import sys

import msgspec

from hermes.admin.guard import FIELDS, PolicyChecker, PolicyQuestion, name_effect
from hermes.cli.output import report_failure
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.config.home import locate_home
from hermes.core.encoding import Plain, to_json
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import N_, localize, tr
from hermes.util.text import escape_confusable_characters

_MAX_QUESTION_CHARS = 16 << 20
"""Characters of one question."""


def run(arguments: list[str]) -> int:
    """Answer one question, or with `--jsonl` one for each line of standard input."""
    parser = _build_parser()
    ours, command = _split_command(arguments)
    args, rest = parser.parse_known(ours, mixed=True)
    if rest:
        parser.error(N_("{rest} is not an option here: put the text to be checked in quotes", rest=repr(rest[0])))
    args.words += [shlex.join(command)] if command else []
    try:
        environ = copy_environment()
        guard = PolicyChecker(environ, locate_home(environ), sandboxed=args.backend == "sandbox", user_home=args.home)
        if args.jsonl:
            return _answer_stream(guard, args)
        text = " ".join(args.words)
        if not text:
            raise UsageError(N_("Say which {subject} to judge, or give questions with --jsonl.", subject=args.subject))
        if text == "-":
            text = sys.stdin.read()
        question = msgspec.convert({FIELDS[args.subject]: text, "op": args.op, "cwd": args.cwd}, PolicyQuestion)
        answer = guard.answer_question(args.subject, question)
        code = _print_answer(answer)
        _print_limits(answer, args)
        return code
    except HermesError as error:
        return report_failure(error)


_VERDICT_NAMES = {"allow": N_("allow"), "ask": N_("ask"), "deny": N_("deny")}
_EFFECT_NAMES = {
    "reads": N_("reads"),
    "writes": N_("writes"),
    "overwrites": N_("overwrites"),
    "deletes": N_("deletes"),
    "destroys": N_("destroys"),
    "fetches": N_("fetches"),
    "sends": N_("sends"),
    "persists": N_("persists"),
    "escalates": N_("escalates"),
    "kills": N_("kills"),
    "exhausts": N_("exhausts"),
    "runs": N_("runs"),
    "unknown": N_("does something unknown with"),
}
_VALUE_OPTIONS = ("--backend", "--op", "--cwd", "--home")


def _split_command(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split our own arguments from a command that was given word by word: what looks like an option there is the
    command's.

    `command rm -rf /`: from the first word on, but for options of ours that stand at the end. A command that was given
    as one text, with spaces in it, or alone, is left where it stands.
    """
    at = _skip_options(arguments, 0)
    if arguments[at : at + 1] != ["command"]:
        return arguments, []
    at = _skip_options(arguments, at + 1)
    words = arguments[at:]
    end: list[str] = []
    if words[:1] == ["--"]:
        words = words[1:]
    else:
        while cut := _count_trailing_options(words):
            words, end = words[:-cut], [*words[-cut:], *end]
    if len(words) < 2 or re.search(r"\s", words[0]):
        return arguments, []
    return [*arguments[:at], *end], words


def _skip_options(arguments: list[str], at: int) -> int:
    """Return the index of the first word from there on that is no option of ours."""
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "--":
        at += 2 if arguments[at] in _VALUE_OPTIONS else 1
    return at


def _count_trailing_options(words: list[str]) -> int:
    """Return how many of the last words are an option of ours, behind at least one word of the command's."""
    if len(words) > 1 and (words[-1] == "--jsonl" or words[-1].startswith(tuple(f"{one}=" for one in _VALUE_OPTIONS))):
        return 1
    return 2 if len(words) > 2 and words[-2] in _VALUE_OPTIONS else 0


def _build_parser() -> CommandParser:
    made = CommandParser(
        prog="hermes guard",
        description="Say what the gate would do, without doing it: allow, ask or deny, by which rule and why; for a "
        "text its suspicious passages, or the text without secrets. Answers are for commands that nothing holds back "
        "(`local`), whatever config.yaml says, unless --backend sandbox is given.",
        epilog="example: "
        + N_(
            "hermes guard command git push --force origin main. Exit codes: 0 every question was answered, "
            "whatever the answer; 1 a line of --jsonl was not a question (its answer has `error`, and the next line is "
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


def _answer_stream(guard: PolicyChecker, args: argparse.Namespace) -> int:
    """Answer each line at once. A line that is no question is answered too, with a refusal; then the exit code is 1."""
    code = 0
    decoder = msgspec.json.Decoder(PolicyQuestion)
    out = sys.stdout.buffer
    while line := sys.stdin.buffer.readline(_MAX_QUESTION_CHARS):
        if not line.strip():
            continue
        if line.endswith(b"\n") or len(line) < _MAX_QUESTION_CHARS:
            answer = _answer_line(guard, args, line, decoder)
        else:
            answer = _build_refusal(tr("The question has more than {LONGEST} MB.", LONGEST=_MAX_QUESTION_CHARS >> 20))
            _skip_line()
        code = 1 if "error" in answer else code
        out.write(to_json(answer) + b"\n")
        out.flush()
    return code


def _answer_line(
    guard: PolicyChecker, args: argparse.Namespace, line: bytes, decoder: "msgspec.json.Decoder[PolicyQuestion]"
) -> Plain:
    try:
        question = decoder.decode(line)
        if not question.cwd and args.cwd:
            question = msgspec.structs.replace(question, cwd=args.cwd)
        return guard.answer_question(args.subject, question)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return _build_refusal(tr("This line is not a valid question: {error}.", error=error))
    except HermesError as error:
        return _build_refusal(str(error))
    except Exception as error:  # noqa: BLE001 - a fault in a rule is a no, and the next question is answered
        return _build_refusal(tr("It could not be judged ({kind}).", kind=type(error).__name__))


def _build_refusal(why: str) -> Plain:
    return {"error": why, "verdict": "deny", "rule": "no-question", "reason": why, "effects": []}


def _skip_line() -> None:
    while (rest := sys.stdin.buffer.readline(_MAX_QUESTION_CHARS)) and not rest.endswith(b"\n"):
        pass


def _print_limits(answer: Plain, args: argparse.Namespace) -> None:
    """Print for which back end the answer holds, and what a session would know besides."""
    if args.subject == "path" or (args.subject == "command" and answer["verdict"] != "allow"):
        print("  " + tr("this is the answer for the back end {name}; `--backend` chooses another", name=args.backend))
    effects = answer.get("effects", ())
    assert isinstance(effects, (list, tuple))
    kinds = {str(one["kind"]) for one in effects} if answer.get("verdict") == "ask" else set()
    if args.backend == "sandbox" and kinds & {"deletes", "destroys"} and "sends" not in kinds:
        print(
            "  " + tr("in a session nothing is asked about what its checkpoint keeps a copy of: /undo brings it back")
        )


def _print_answer(answer: Plain) -> int:
    """Print the answer for a person."""
    if "redacted" in answer:
        sys.stdout.write(f"{answer['redacted']}\n")
        return 0
    if "marks" in answer:
        marks = answer["marks"]
        assert isinstance(marks, list)
        for mark in marks:
            form = f" ({mark['form']})" if mark["form"] else ""
            print(f"{mark['rule']}{form}: {escape_confusable_characters(str(mark['excerpt']))}")
        if not marks:
            print(tr("No injection pattern was found. That does not prove that the text is safe."))
        return 0
    rule = (
        f"  {answer['rule']}: {localize(escape_confusable_characters(str(answer['reason'])))}" if answer["rule"] else ""
    )
    print(f"{tr(_VERDICT_NAMES.get(str(answer['verdict']), str(answer['verdict'])))}{rule}")
    effects = answer["effects"]
    assert isinstance(effects, list)
    for effect in effects:
        kind = tr(_EFFECT_NAMES.get(effect["kind"], effect["kind"]))
        print(f"  {kind} {escape_confusable_characters(name_effect(effect))}")
    return 0

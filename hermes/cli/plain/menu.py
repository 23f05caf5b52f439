"""Ask questions on lines of a terminal: a choice by its number, a text, yes or no. Enter takes the default that is
shown.
"""

import os
import sys
from collections.abc import Callable, Sequence

from hermes.cli.output import NO_ANSWERS, YES_ANSWERS
from hermes.i18n.messages import N_, tr
from hermes.util.text import escape_unseen_characters

MAX_SHOWN = 15
"""Choices that are listed at once."""


class PromptAbortedError(Exception):
    """The person left at a question, by Ctrl-D."""


def ask_line(prompt: str, default: str = "") -> str:
    """Ask for a line; Enter alone gives the default. Raises PromptAbortedError at the end of the input."""
    shown = f"{prompt} [{escape_unseen_characters(default)}] " if default else f"{prompt} "
    sys.stdout.write(shown)
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        print()
        raise PromptAbortedError
    return line.strip() or default


def ask_yes_no(prompt: str, *, default: bool = False) -> bool:
    """Ask for a yes or a no. Where the default is no, only a plain yes counts as one."""
    while True:
        answer = ask_line(f"{prompt} [{tr('Y/n') if default else tr('y/N')}]").lower()
        if not answer:
            return default
        if answer in YES_ANSWERS:
            return True
        if answer in NO_ANSWERS or not default:
            return False


def choose_option(title: str, choices: Sequence[str]) -> int:
    """Ask for one of a few choices and return its number, from 0; Enter alone takes the first."""
    print(f"\n{title}")
    for number, choice in enumerate(choices, 1):
        print(f"  {number}. {escape_unseen_characters(choice)}")
    while True:
        answer = ask_line(tr("A number:"), "1")
        if answer.isdecimal() and 0 < int(answer) <= len(choices):
            return int(answer) - 1
        print(tr("Type one of the numbers."))


def pick_name(title: str, names: Sequence[str], *, default: str = "", free: bool = True) -> str:
    """Ask for one of many names: by its number, by words that are in it, or with `free` any other name."""
    print(f"\n{title}")
    shown = list(names)
    while True:
        _print_names(shown, len(names))
        answer = ask_line(tr("Number, name, or text to filter:"), default)
        found = match_names(answer, names, shown)
        if len(found) == 1:
            return found[0]
        if found:
            shown = found
        elif answer and free:
            if not names or ask_yes_no(
                tr("{name} is none of them. Use it all the same?", name=escape_unseen_characters(answer))
            ):
                return answer
        elif answer:
            print(tr("Type one of the numbers."))


def match_names(answer: str, names: Sequence[str], shown: Sequence[str]) -> list[str]:
    """Return the names that an answer may mean."""
    if answer in names:
        return [answer]
    if answer.isdecimal() and 0 < int(answer) <= min(len(shown), MAX_SHOWN):
        return [shown[int(answer) - 1]]
    return [name for name in names if answer.lower() in name.lower()] if answer else []


def ask_secret(prompt: str, read: Callable[[str], str]) -> str:
    """Ask for a text that is typed without being shown."""
    try:
        return read(f"{prompt} ").strip()
    except EOFError:
        print()
        raise PromptAbortedError from None


def is_interactive() -> bool:
    """Return whether somebody can be asked."""
    return os.isatty(0) and os.isatty(1)


def _print_names(shown: Sequence[str], whole: int) -> None:
    for number, name in enumerate(shown[:MAX_SHOWN], 1):
        print(f"  {number:>2}. {escape_unseen_characters(name)}")
    if len(shown) > MAX_SHOWN:
        more = N_("  ... and {n} more; letters narrow them down.")
        print(tr(more, n=len(shown) - MAX_SHOWN))
    elif len(shown) < whole:
        print(tr("  ({n} of {whole} match)", n=len(shown), whole=whole))

"""Questions on lines of a terminal: one of several by its number, a text, yes or no. Enter takes what is shown."""

import os
import sys
from collections.abc import Callable, Sequence

from hermes.i18n.messages import phrase, say
from hermes.util.text import escaped

YES = ("y", "yes", "是", "好")
NO = ("n", "no", "否", "不")
SHOWN = 15
"""Choices that are listed at once."""


class LeftError(Exception):
    """The person has left: Ctrl-D at a question."""


def ask(prompt: str, default: str = "") -> str:
    """A line; Enter alone is the default. Raises LeftError at the end of the input."""
    shown = f"{prompt} [{escaped(default)}] " if default else f"{prompt} "
    sys.stdout.write(shown)
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        print()
        raise LeftError
    return line.strip() or default


def yes_no(prompt: str, *, default: bool = False) -> bool:
    """A yes or a no; only a plain yes is one where the default is no."""
    while True:
        answer = ask(f"{prompt} [{say('Y/n') if default else say('y/N')}]").lower()
        if not answer:
            return default
        if answer in YES:
            return True
        if answer in NO or not default:
            return False


def choose(title: str, choices: Sequence[str], default: int = 0) -> int:
    """The number (from 0) of one of a few choices."""
    print(f"\n{title}")
    for number, choice in enumerate(choices, 1):
        print(f"  {number}. {escaped(choice)}")
    while True:
        answer = ask(say("A number:"), str(default + 1))
        if answer.isdecimal() and 0 < int(answer) <= len(choices):
            return int(answer) - 1
        print(say("That is none of them."))


def pick(title: str, names: Sequence[str], *, default: str = "", free: bool = True) -> str:
    """One of many names: by its number, by words that are in it, or with `free` any other name."""
    print(f"\n{title}")
    shown = list(names)
    while True:
        _list(shown, len(names))
        answer = ask(say("A number, a name, or letters to look for:"), default)
        found = _meant(answer, names, shown)
        if len(found) == 1:
            return found[0]
        if found:
            shown = found
        elif answer and free:
            if not names or yes_no(say("{name} is none of them. Use it all the same?", name=escaped(answer))):
                return answer
        elif answer:
            print(say("That is none of them."))


def _meant(answer: str, names: Sequence[str], shown: Sequence[str]) -> list[str]:
    """The names that an answer may mean."""
    if answer in names:
        return [answer]
    if answer.isdecimal() and 0 < int(answer) <= min(len(shown), SHOWN):
        return [shown[int(answer) - 1]]
    return [name for name in names if answer.lower() in name.lower()] if answer else []


def secret(prompt: str, read: Callable[[str], str]) -> str:
    """A text that is typed without being shown."""
    try:
        return read(f"{prompt} ").strip()
    except EOFError:
        print()
        raise LeftError from None


def at_a_terminal() -> bool:
    """Whether somebody can be asked."""
    return os.isatty(0) and os.isatty(1)


def _list(shown: Sequence[str], whole: int) -> None:
    for number, name in enumerate(shown[:SHOWN], 1):
        print(f"  {number:>2}. {escaped(name)}")
    if len(shown) > SHOWN:
        more = phrase("  ... and {n} more; letters narrow them down.")
        print(say(more, n=len(shown) - SHOWN))
    elif len(shown) < whole:
        print(say("  ({n} of {whole} match)", n=len(shown), whole=whole))

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


class WentBackError(Exception):
    """The person wants to answer the question before once more."""


BACK = "<"
"""The answer that goes back a step, where a question allows that."""


def ask_line(prompt: str, default: str = "", *, back: bool = False) -> str:
    """Ask for a line; Enter alone gives the default. Raises PromptAbortedError at the end of the input, and with `back`
    WentBackError.
    """
    if back:
        prompt = f"{prompt} {tr('(< goes back)')}"
    shown = f"{prompt} [{escape_unseen_characters(default)}] " if default else f"{prompt} "
    sys.stdout.write(shown)
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        print()
        raise PromptAbortedError
    if back and line.strip() == BACK:
        raise WentBackError
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


def choose_option(title: str, choices: Sequence[str], *, back: bool = False) -> int:
    """Ask for one of a few choices and return its number, from 0; Enter alone takes the first. With `back` another one
    raises WentBackError.
    """
    if back:
        taken = choose_option(title, [*choices, tr("Back")])
        if taken == len(choices):
            raise WentBackError
        return taken
    if _has_key_menus():
        return choices.index(_ask_by_keys(title, choices) or choices[0])
    print(f"\n{title}")
    for number, choice in enumerate(choices, 1):
        print(f"  {number}. {escape_unseen_characters(choice)}")
    while True:
        answer = ask_line(tr("A number:"), "1")
        if answer.isdecimal() and 0 < int(answer) <= len(choices):
            return int(answer) - 1
        print(tr("Type one of the numbers."))


def pick_name(title: str, names: Sequence[str], *, default: str = "", free: bool = True, back: bool = False) -> str:
    """Ask for one of many names: by its number, by words that are in it, or with `free` any other name. Enter alone
    takes the default, or else the first. With `back` the person can raise WentBackError.
    """
    default = default or (names[0] if names else "")
    if names and _has_key_menus():
        return _pick_by_keys(title, names, default=default, free=free, back=back)
    print(f"\n{title}")
    return _pick_by_number(names, default=default, free=free, back=back)


def _pick_by_number(names: Sequence[str], *, default: str, free: bool, back: bool) -> str:
    shown = list(names)
    while True:
        _print_names(shown, len(names))
        answer = ask_line(tr("Number, name, or text to filter:"), default, back=back)
        found = match_names(answer, names, shown)
        if len(found) == 1:
            return found[0]
        if found:
            shown = found
        elif answer and free:
            if not names or ask_yes_no(
                tr("{name} is not in the list. Use it anyway?", name=escape_unseen_characters(answer))
            ):
                return answer
        else:
            print(tr("Type one of the numbers."))


def _has_key_menus() -> bool:
    from hermes.cli.plain.key_menu import has_key_menus

    return has_key_menus()


def _ask_by_keys(title: str, choices: Sequence[str]) -> str | None:
    from hermes.cli.plain.key_menu import KeyMenu

    print()
    try:
        return KeyMenu(title, choices).ask()
    except EOFError:
        print()
        raise PromptAbortedError from None


def _pick_by_keys(title: str, names: Sequence[str], *, default: str, free: bool, back: bool) -> str:
    """Ask by a menu that letters narrow down; with `free` another name than those can be typed."""
    from hermes.cli.plain.key_menu import KeyMenu

    chosen = names.index(default) if default in names else 0
    while True:
        menu = KeyMenu(title, names, chosen=chosen, find_matches=lambda typed: _narrow_names(typed, names), back=back)
        print()
        try:
            taken = menu.ask()
        except EOFError:
            print()
            raise PromptAbortedError from None
        if taken is not None:
            return taken
        if menu.went_back:
            raise WentBackError
        typed = menu.typed.strip()
        question = tr("{name} is not in the list. Use it anyway?", name=escape_unseen_characters(typed))
        if free and typed and ask_yes_no(question):
            return typed


def _narrow_names(typed: str, names: Sequence[str]) -> list[str]:
    """Return the names that hold what was typed, one that is it first."""
    found = [name for name in names if typed.lower().strip() in name.lower()]
    return sorted(found, key=lambda name: name != typed.strip())


def match_names(answer: str, names: Sequence[str], shown: Sequence[str]) -> list[str]:
    """Return the names that an answer may mean."""
    if answer in names:
        return [answer]
    if answer.isdecimal() and 0 < int(answer) <= min(len(shown), MAX_SHOWN):
        return [shown[int(answer) - 1]]
    return [name for name in names if answer.lower() in name.lower()] if answer else []


def ask_secret(prompt: str, read: Callable[[str], str], *, back: bool = False) -> str:
    """Ask for a text that is typed without being shown. Raises PromptAbortedError, and with `back` WentBackError."""
    try:
        answer = read(f"{prompt} {tr('(< goes back)')} " if back else f"{prompt} ").strip()
    except EOFError:
        print()
        raise PromptAbortedError from None
    if back and answer == BACK:
        raise WentBackError
    return answer


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

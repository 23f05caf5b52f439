"""Bind keys: those that edit the line, those of menus, and those of the chat's actions (`config.chat_keys`)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from prompt_toolkit.application.application import Application
from prompt_toolkit.filters import (
    Condition,
    Filter,
    completion_is_selected,
    emacs_insert_mode,
    has_completions,
    is_searching,
    vi_navigation_mode,
)
from prompt_toolkit.key_binding.key_bindings import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys

from hermes.cli.tui.composer import Composer
from hermes.cli.tui.menu import ChoiceMenu, MenuQueue
from hermes.config.chat_keys import KeySequence, parse_keys
from hermes.config.display import DisplaySettings, EditingMode
from hermes.core.errors import UsageError

_ESCAPE_SECONDS, _SEQUENCE_SECONDS = 0.1, 1.0
"""Seconds to wait for the key that may follow an Esc, or another key with which several begin."""
ActionKeys = Mapping[str, Sequence[KeySequence]]


def read_action_keys(settings: Mapping[str, str]) -> tuple[ActionKeys, str]:
    """Return the keys of each action; the default ones where the person's cannot be used, and why."""
    try:
        return parse_keys(settings), ""
    except UsageError as error:
        return parse_keys({}), str(error)


def list_stop_keys(action_keys: ActionKeys, display: DisplaySettings) -> Sequence[KeySequence]:
    """Return the keys that stop a turn; in vi's mode Esc has another use first."""
    back = () if display.editing_mode is EditingMode.VI else action_keys["back"]
    return [*back, *action_keys["stop"]]


def limit_key_wait(application: Application[None]) -> None:
    """Wait only a moment for what may follow an Esc: Alt and a key come together, from all terminals."""
    begun = application.key_processor.key_buffer
    is_escape = bool(begun) and begun[-1].key == Keys.Escape
    application.timeoutlen = _ESCAPE_SECONDS if is_escape else _SEQUENCE_SECONDS


def build_key_bindings(
    action_keys: ActionKeys,
    actions: Mapping[str, tuple[Callable[[], object], Filter]],
    composer: Composer,
    menus: MenuQueue,
) -> KeyBindings:
    """Bind each action to its keys, where its filter lets it, and the keys of the line and of menus."""
    keys = KeyBindings()
    _bind_line_keys(keys, composer, menus, ~Condition(menus.is_listening))
    keys.add("<sigint>", eager=True)(_run_action(actions["stop"][0]))
    for name, sequences in action_keys.items():
        action, when = actions[name]
        for sequence in sequences:
            keys.add(*sequence, filter=when, eager=name in ("stop", "mode"))(_run_action(action))
    _bind_menu_keys(keys, composer, menus)
    return keys


def _bind_line_keys(keys: KeyBindings, composer: Composer, menus: MenuQueue, free: Filter) -> None:
    buffer = composer.buffer

    takes = Condition(lambda: menus.should_take_enter(buffer.text))

    @keys.add("enter", filter=~takes & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        if composer.continue_line() or composer.take_entry():
            return
        menus.note_other_key()
        buffer.validate_and_handle()

    # Esc and a key soon after it are Alt and that key. By default Alt-/ completes and Alt-# sends the line as a
    # comment, so a line that is begun right after an Esc would lose its mark, or go out.
    @keys.add("escape", "/", filter=free & emacs_insert_mode)
    @keys.add("escape", "#", filter=free & emacs_insert_mode)
    def _(event: KeyPressEvent) -> None:
        menus.note_other_key()
        buffer.insert_text(event.key_sequence[-1].data)

    @keys.add("tab", filter=free & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        composer.complete_line()

    @keys.add("s-tab", filter=free & has_completions & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        composer.complete_line(-1)

    first_marked = free & has_completions & Condition(composer.is_first_marked)
    keys.add("down", filter=first_marked)(_run_action(partial(composer.move_from_first, 1)))
    keys.add("up", filter=first_marked)(_run_action(partial(composer.move_from_first, -1)))

    @keys.add("/", filter=free & has_completions & Condition(composer.has_chosen_folder))
    def _(event: KeyPressEvent) -> None:
        composer.enter_folder()

    @keys.add("escape", filter=has_completions & free & completion_is_selected, eager=True)
    def _(event: KeyPressEvent) -> None:
        buffer.cancel_completion()

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        begun = menus.take_waiting_letter()
        menus.note_other_key()
        composer.paste_text(begun + event.data)


def _run_action(action: Callable[[], object]) -> Callable[[KeyPressEvent], None]:
    def act(event: KeyPressEvent) -> None:
        action()

    return act


def _bind_menu_keys(keys: KeyBindings, composer: Composer, menus: MenuQueue) -> None:
    """Bind the keys of a menu. A listening menu takes arrows, Enter and Esc, and the letters that answer it; others go
    into the line, and make the menu wait for quiet again.
    """
    listens = Condition(menus.is_listening)
    filters = Condition(menus.is_filtering)
    takes = Condition(lambda: menus.should_take_enter(composer.buffer.text))

    bindings: tuple[tuple[tuple[str, ...], Callable[[ChoiceMenu], None], Filter], ...] = (
        (("up", "c-p"), lambda menu: menu.move_choice(-1), listens),
        (("s-tab",), lambda menu: menu.move_choice(-1), listens & ~Condition(menus.is_mode_question)),
        (("down", "c-n", "tab"), lambda menu: menu.move_choice(1), listens),
        (("enter",), ChoiceMenu.accept_choice, takes),
        (("escape", "c-d"), ChoiceMenu.dismiss, listens),
        (("pageup",), lambda menu: menu.scroll_question(-1), listens),
        (("pagedown",), lambda menu: menu.scroll_question(1), listens),
        (("backspace",), ChoiceMenu.erase_letter, filters),
        (("c-u",), ChoiceMenu.clear_filter, filters),
    )
    for names, act, when in bindings:
        for name in names:
            keys.add(name, filter=when, eager=True)(_run_action(partial(menus.change_menu, act)))

    keys.add("c-f", filter=Condition(menus.can_mark), eager=True)(_run_action(menus.mark_choice))

    @keys.add(Keys.Any, filter=filters, eager=True)
    def _(event: KeyPressEvent) -> None:
        menus.change_menu(lambda menu: menu.add_letters(event.data))

    letter_waits = Condition(menus.has_waiting_letter)
    for name in ("backspace", "c-u"):
        keys.add(name, filter=listens & letter_waits, eager=True)(_run_action(menus.drop_letter))

    # Not eager: keys that edit the line do so beside a question, too. Only in vi's navigation mode letters edit it.
    def take_letter(event: KeyPressEvent) -> None:
        if event.data.isprintable():
            composer.buffer.insert_text(menus.take_letter(event.data * event.arg, composer.buffer.text))

    keys.add(Keys.Any, filter=listens & ~filters & ~vi_navigation_mode)(take_letter)
    keys.add(Keys.Any, filter=listens & ~filters & vi_navigation_mode, eager=True)(take_letter)

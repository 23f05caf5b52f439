"""Bind the chat's own keys, beside those that edit a line."""

from collections.abc import Callable

from msgspec import Struct
from prompt_toolkit.filters import Condition, Filter, completion_is_selected, has_completions, is_searching
from prompt_toolkit.key_binding.key_bindings import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys

from hermes.cli.tui.composer import Composer
from hermes.cli.tui.menu import MenuQueue


class KeyActions(Struct, frozen=True):
    """The actions of the chat that keys trigger."""

    stop: Callable[[], None]
    end: Callable[[], None]
    clear: Callable[[], None]
    unfold: Callable[[], None]
    thoughts: Callable[[], None]
    picture: Callable[[], None]
    edit: Callable[[], None]


def build_key_bindings(composer: Composer, menus: MenuQueue, actions: KeyActions) -> KeyBindings:
    """Build the chat's own key bindings; those of emacs or vi come from prompt_toolkit."""
    keys = KeyBindings()
    free = ~Condition(menus.is_listening)
    _bind_line_keys(keys, composer, menus, free)
    for key in ("c-c", "<sigint>"):
        keys.add(key, eager=True)(_run_action(actions.stop))
    for names, action in (
        (("c-l",), actions.clear),
        (("c-o",), actions.unfold),
        (("c-t",), actions.thoughts),
        (("c-v",), actions.picture),
        (("c-x", "c-e"), actions.edit),
    ):
        keys.add(*names, filter=free)(_run_action(action))
    empty = Condition(lambda: not composer.buffer.text)
    keys.add("c-d", filter=free & empty)(_run_action(actions.end))

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    _bind_menu_keys(keys, composer, menus)
    return keys


def _bind_line_keys(keys: KeyBindings, composer: Composer, menus: MenuQueue, free: Filter) -> None:
    buffer = composer.buffer

    takes = Condition(lambda: menus.should_take_enter(buffer.text))

    @keys.add("enter", filter=~takes & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        state = buffer.complete_state
        if state is not None and state.current_completion is not None:
            buffer.complete_state = None
            return
        menus.note_other_key()
        buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=free)
    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        menus.note_other_key()
        buffer.insert_text("\n")

    @keys.add("tab", filter=free & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        composer.complete_line()

    @keys.add("escape", filter=has_completions & free & completion_is_selected, eager=True)
    def _(event: KeyPressEvent) -> None:
        buffer.cancel_completion()

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        menus.note_other_key()
        composer.paste_text(event.data)


def _run_action(action: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    def act(event: KeyPressEvent) -> None:
        action()

    return act


def _bind_menu_keys(keys: KeyBindings, composer: Composer, menus: MenuQueue) -> None:
    """Bind the keys of a menu. A listening menu takes arrows, Enter and Esc; letters go into the line, and make
    the menu wait for quiet again.
    """
    listens = Condition(menus.is_listening)
    filters = Condition(menus.is_filtering)
    takes = Condition(lambda: menus.should_take_enter(composer.buffer.text))

    for names, act, when in (
        (("up", "c-p", "s-tab"), lambda: menus.move_choice(-1), listens),
        (("down", "c-n", "tab"), lambda: menus.move_choice(1), listens),
        (("enter",), menus.accept_choice, takes),
        (("escape", "c-d"), menus.dismiss, listens),
        (("backspace",), menus.erase_letter, filters),
    ):
        for name in names:
            keys.add(name, filter=when, eager=True)(_run_action(act))

    @keys.add(Keys.Any, filter=filters, eager=True)
    def _(event: KeyPressEvent) -> None:
        menus.add_letters(event.data)

    @keys.add(Keys.Any, filter=listens & ~filters, eager=True)
    def _(event: KeyPressEvent) -> None:
        menus.note_other_key()
        composer.buffer.insert_text(event.data * event.arg)

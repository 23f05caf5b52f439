"""What the keys do, beside those that edit a line."""

from collections.abc import Callable

from msgspec import Struct
from prompt_toolkit.filters import Condition, Filter, completion_is_selected, has_completions, is_searching
from prompt_toolkit.key_binding.key_bindings import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys

from hermes.cli.tui.composer import Composer
from hermes.cli.tui.menu import Menus


class Actions(Struct, frozen=True):
    """What keys ask of the chat."""

    stop: Callable[[], None]
    end: Callable[[], None]
    clear: Callable[[], None]
    unfold: Callable[[], None]
    thoughts: Callable[[], None]
    picture: Callable[[], None]
    edit: Callable[[], None]


def bindings(composer: Composer, menus: Menus, actions: Actions) -> KeyBindings:
    """The chat's own keys; those of emacs or vi come from prompt_toolkit."""
    keys = KeyBindings()
    free = ~Condition(menus.listens)
    _line_keys(keys, composer, menus, free)
    for key in ("c-c", "<sigint>"):
        keys.add(key, eager=True)(_does(actions.stop))
    for names, action in (
        (("c-l",), actions.clear),
        (("c-o",), actions.unfold),
        (("c-t",), actions.thoughts),
        (("c-v",), actions.picture),
        (("c-x", "c-e"), actions.edit),
    ):
        keys.add(*names, filter=free)(_does(action))
    empty = Condition(lambda: not composer.buffer.text)
    keys.add("c-d", filter=free & empty)(_does(actions.end))

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    _menu_keys(keys, composer, menus)
    return keys


def _line_keys(keys: KeyBindings, composer: Composer, menus: Menus, free: Filter) -> None:
    buffer = composer.buffer

    takes = Condition(lambda: menus.takes(buffer.text))

    @keys.add("enter", filter=~takes & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        state = buffer.complete_state
        if state is not None and state.current_completion is not None:
            buffer.complete_state = None
            return
        menus.pressed()
        buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=free)
    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        menus.pressed()
        buffer.insert_text("\n")

    @keys.add("tab", filter=free & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        composer.complete()

    @keys.add("escape", filter=has_completions & free & completion_is_selected, eager=True)
    def _(event: KeyPressEvent) -> None:
        buffer.cancel_completion()

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        menus.pressed()
        composer.paste(event.data)


def _does(action: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    def act(event: KeyPressEvent) -> None:
        action()

    return act


def _menu_keys(keys: KeyBindings, composer: Composer, menus: Menus) -> None:
    """A menu that listens takes arrows, Enter and Esc; letters go into the line, and make it wait for quiet anew."""
    listens = Condition(menus.listens)
    filters = Condition(menus.filters)
    takes = Condition(lambda: menus.takes(composer.buffer.text))

    for names, act, when in (
        (("up", "c-p", "s-tab"), lambda: menus.move(-1), listens),
        (("down", "c-n", "tab"), lambda: menus.move(1), listens),
        (("enter",), menus.take, takes),
        (("escape", "c-d"), menus.leave, listens),
        (("backspace",), menus.erase, filters),
    ):
        for name in names:
            keys.add(name, filter=when, eager=True)(_does(act))

    @keys.add(Keys.Any, filter=filters, eager=True)
    def _(event: KeyPressEvent) -> None:
        menus.type(event.data)

    @keys.add(Keys.Any, filter=listens & ~filters, eager=True)
    def _(event: KeyPressEvent) -> None:
        menus.pressed()
        composer.buffer.insert_text(event.data * event.arg)

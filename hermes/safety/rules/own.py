"""Hermes itself: what its own command line would change."""

from hermes.safety.call import Call
from hermes.safety.words import Stream
from hermes.safety.words import words as word_set

_SHOWN = ("get", "show", "list", "path", "status", "check", "search", "view", "--help", "-h")
_POLICY = word_set(
    "config auth approvals trust setup uninstall plugins skills hooks mcp cron tools guard-policy memory"
)
_HARMLESS = word_set("version help status -V --version -h --help guard doctor")


def judge(call: Call) -> Stream | None:
    """A call of `hermes`."""
    args = call.args
    verb = args[0] if args else ""
    if verb in _POLICY:
        said = args[1:2] if verb == "memory" else args[1:]  # of a memory any word may be what is to be kept
        if not any(text in _SHOWN for text in said):
            call.deny("own-policy", "Hermes' own settings are not changed by its commands")
    elif verb not in _HARMLESS and not (verb == "home" and len(args) == 1):
        call.ask("own-state", "it starts another Hermes, or reaches into other sessions")
    return None


RULES = {"hermes": judge}

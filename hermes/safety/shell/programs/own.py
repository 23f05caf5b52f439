"""Hermes itself: what its own command line would change."""

from collections.abc import Sequence

from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.words import ShellStream, word_set

_SHOWN = ("get", "show", "list", "path", "status", "check", "search", "view", "--help", "-h")
_POLICY = word_set(
    "config auth approvals trust setup uninstall plugins skills hooks mcp cron tools guard-policy memory model"
    " profile backup restore update worktree"
)
_LISTED = dict.fromkeys(("worktree", "backup"), ("list",))
_FIRST = {
    "memory": _SHOWN, "profile": ("list", "show"), "model": ("list", "show"), "restore": (), "update": ("--check",),
    **_LISTED,
}  # fmt: skip
"""Verbs behind which any word may be a name: only these as the first one show something and change nothing."""
_PROFILE = ("-p", "--profile")
_HARMLESS = word_set("version help status -V --version -h --help guard doctor")


def judge(call: ProgramCall) -> ShellStream | None:
    """A call of `hermes`."""
    args = _without_profile(call.args)
    verb = args[0] if args else ""
    if verb in _POLICY:
        said = args[1:2] if verb in _FIRST else args[1:]
        if not any(text in _FIRST.get(verb, _SHOWN) for text in said):
            call.deny("own-policy", "Hermes' own settings are not changed by its commands")
    elif (verb not in _HARMLESS or "--fix" in args) and not (verb == "home" and len(args) == 1):
        call.ask("own-state", "it starts another Hermes, or reaches into other sessions")
    return None


def _without_profile(args: Sequence[str]) -> Sequence[str]:
    """The words without a profile that is named before the verb."""
    while args and (args[0] in _PROFILE or args[0].startswith("--profile=")):
        args = args[2 if args[0] in _PROFILE else 1 :]
    return args


RULES = {"hermes": judge}

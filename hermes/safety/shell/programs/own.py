"""Hermes itself: what its own command line would change."""

from collections.abc import Sequence

from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.words import ShellStream, word_set

_SHOWN = ("get", "show", "list", "path", "status", "check", "search", "view")
_HELP = ("--help", "-h")
_POLICY = word_set(
    "config auth approvals trust setup uninstall plugins skills hooks mcp cron tools guard-policy memory model"
    " profile backup restore update worktree"
)
_LISTED = dict.fromkeys(("worktree", "backup"), ("list",))
_FIRST = {
    "memory": _SHOWN, "profile": ("list", "show"), "model": ("list", "show"), "restore": (), "update": ("--check",),
    **_LISTED,
}  # fmt: skip
"""Verbs of which only these words show something and change nothing."""
_PROFILE = ("-p", "--profile")
_HARMLESS = word_set("version help status -V --version -h --help guard doctor")


def judge(call: ProgramCall) -> ShellStream | None:
    """A call of `hermes`."""
    args = _without_profile(call.args)
    verb = args[0] if args else ""
    if verb in _POLICY:
        # What stands further behind may be a name or a value: `hermes mcp add list -- sh`.
        harmless = *_FIRST.get(verb, _SHOWN), *_HELP
        said = next((text for text in args[1:] if text in harmless or not text.startswith("-")), "")
        if said not in harmless and not (args[2:] and args[2] in _HELP):
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

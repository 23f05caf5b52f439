"""Hermes itself: what its own command line would change."""

from collections.abc import Sequence

from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.words import ShellStream, Word, word_set

_SHOWN = ("get", "show", "list", "path", "status", "check", "search", "view")
_HELP = ("--help", "-h")
_POLICY = word_set(
    "config auth approvals trust setup uninstall plugins skills hooks mcp cron tools guard-policy memory model"
    " profile backup restore update worktree import"
)
_LISTED = dict.fromkeys(("worktree", "backup"), ("list",))
_FIRST = {
    "memory": _SHOWN, "profile": ("list", "show"), "model": ("list", "show"), "restore": (), "update": ("--check",),
    "trust": ("--list", "--json"), "setup": (), "import": (), **_LISTED,
}  # fmt: skip
"""Verbs of which only these words show something and change nothing."""
_PROFILE = ("-p", "--profile")
_JSON = "--json"
_HARMLESS = word_set("version help status -V --version -h --help guard doctor")


def judge(call: ProgramCall) -> ShellStream | None:
    """A call of `hermes`."""
    args = _without_profile(call.words)
    verb = args[0] if args else ""
    if verb in _POLICY:
        if not _is_shown(verb, args[1:]):
            call.deny("own-policy", "Hermes' own settings are not changed by its commands")
    elif (verb not in _HARMLESS or "--fix" in args) and not (verb == "home" and len(args) == 1):
        call.ask("own-state", "it starts another Hermes, or reaches into other sessions")
    return None


def _is_shown(verb: str, words: Sequence[str]) -> bool:
    """Whether the words behind a verb show something, or ask for help, and change nothing.

    The word that says so stands first, or behind the one option that takes no value: elsewhere it may be a name or the
    value of an option (`hermes mcp add list -- sh`, `hermes model --provider list NAME`).
    """
    shown = _FIRST.get(verb, _SHOWN)
    first = next((word for word in words if word in shown or word != _JSON), "")
    return first in (*shown, *_HELP) or (not first.startswith("-") and any(word in _HELP for word in words[1:2]))


def _without_profile(words: Sequence[Word]) -> Sequence[str]:
    """The words without the profile, which may be named anywhere before a `--`. One whose name is only known at run
    time stays: it may become several words.
    """
    texts = [word.text for word in words]
    end = texts.index("--") if "--" in texts else len(texts)
    rest, at = list[str](), 0
    while at < end:
        named = texts[at] in _PROFILE and at + 1 < end and not words[at + 1].dynamic
        if not named and not (texts[at].startswith("--profile=") and not words[at].dynamic):
            rest.append(texts[at])
        at += 2 if named else 1
    return [*rest, *texts[end:]]


RULES = dict.fromkeys(("hermes", "hermes-anew"), judge)

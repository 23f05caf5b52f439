"""Commands that change a repository's settings: in a sandbox those are kept, but for what a person lets through."""

import os
from collections.abc import Iterator, Sequence

from hermes.safety.globs import spelled
from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import Effect, EffectKind, Finding, Judgement, Simple, Verdict
from hermes.tools.permissions.gate import GIT_SETTINGS
from hermes.tools.permissions.git_hooks import programs_around
from hermes.tools.session import ToolContext

_RULE = "git-settings"
_READS = ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l", "get", "list")
_ELSEWHERE = ("--global", "--system", "--file", "-f", "--blob", "--worktree", "--edit", "-e", "edit")
_TAKES_OUT = ("--unset", "--unset-all", "--remove-section", "unset", "remove-section")
_WORDS = ("set", "--add", "--replace-all", "--local")
_REMOTE = ("add", "set-url", "rename", "remove", "rm", "set-branches")
_UPSTREAM = ("-u", "--set-upstream-to", "--unset-upstream")
_BESIDE = ("echo", "true", "cd", "pwd")
_NEVER = "settings that let git run programs are not changed from the sandbox: the person does that"
BRANCH_DONE = "that is done, but for the branch's section in git's settings, which are kept in the sandbox; go on"
WHAT_TO_DO = (
    "git's settings are kept in the sandbox: `git config`, `git remote` and `git branch -u`, as a command of their own "
    "and for this repository, ask the person and then work"
)


def changes(judged: Judgement, context: ToolContext) -> tuple[list[Finding], list[Effect]]:
    """What there is to say about a line of nothing but such commands; nothing where no sandbox keeps the settings.

    The effect names the file that the line may change when the person says yes.
    """
    changing = [one for one in judged.commands if _is_change(one)]
    file = _one_file(changing, context) if context.backend.name == "sandbox" else ""
    if not file or not all(_is_change(one) or _does_nothing(one) for one in judged.commands):
        return [], []
    findings = [_judged(one) for one in changing]
    never = [one for one in findings if one.verdict is Verdict.DENY]
    return (never, []) if never else (findings, [Effect(EffectKind.PERSISTS, GIT_SETTINGS, (file,))])


def _one_file(changing: Sequence[Simple], context: ToolContext) -> str:
    """The file that all of these change; empty where that cannot be told, or there are several."""
    if any(map(_cannot_be_told, changing)):
        return ""
    files = {_file(one.cwd, context) for one in changing}
    return files.pop() if len(files) == 1 else ""


def _is_change(one: Simple) -> bool:
    verb, rest = one.argv[1:2], one.argv[2:]
    if one.argv[:1] != ("git",) or not rest:
        return False
    if verb == ("config",):
        return len(_operands(rest)) > 1 or any(word in _TAKES_OUT for word in rest)
    if verb == ("remote",):
        return rest[0] in _REMOTE
    return verb == ("branch",) and any(word.partition("=")[0] in _UPSTREAM for word in rest)


def _does_nothing(one: Simple) -> bool:
    """Whether a command beside a change is one of which nothing can come."""
    if one.argv[:1] == ("git",):
        return one.argv[1:2] in (("config",), ("remote",), ("status",)) or _records(one)
    return one.argv[0] in _BESIDE


def _records(one: Simple) -> bool:
    """Whether it only records changes, in a repository in which nothing but git itself runs by that."""
    if one.argv[1:2] not in (("add",), ("commit",), ("log",), ("diff",), ("init",)):
        return False
    return programs_around(one.cwd) == []


def _cannot_be_told(one: Simple) -> bool:
    """Whether a change is of other settings than the repository's, or is only known when it runs."""
    return any("$" in word or word.partition("=")[0] in _ELSEWHERE for word in one.argv[2:])


def _operands(rest: Sequence[str]) -> list[str]:
    if any(word in _READS for word in rest):
        return []
    return [word for word in rest if not word.startswith("-") and word not in _WORDS]


def _judged(one: Simple) -> Finding:
    """What there is to say about one change: a question, or that it is never made."""
    subject = spelled(one.argv)
    for name, value in _set(one):
        if not _harmless(name, value):
            return Finding(Verdict.DENY, _RULE, f"{name}: {_NEVER}", subject)
    return Finding(Verdict.ASK, _RULE, "it changes the settings of the repository", subject)


def _set(one: Simple) -> Iterator[tuple[str, str]]:
    rest = one.argv[2:]
    if one.argv[1] == "config" and not any(word in _TAKES_OUT for word in rest):
        name, *values = _operands(rest)
        yield name, values[0] if values else ""
    elif one.argv[1] == "remote" and rest[0] in ("add", "set-url"):
        named = [word for word in rest[1:] if not word.startswith("-")]
        yield f"remote.{named[0] if named else ''}.url", named[-1] if named else ""


def _harmless(name: str, value: str) -> bool:
    from hermes.execution.sandbox.planted_files import allowed_setting

    return allowed_setting(name, value)


def _file(folder: str, context: ToolContext) -> str:
    """The settings of the repository that a folder of the workspace is in; empty where there is none to be kept."""
    at, workspace = os.path.realpath(folder), os.path.realpath(context.places.workspace)
    while is_or_below(at, workspace):
        found = os.path.join(at, ".git", "config")
        if os.path.lexists(os.path.join(at, ".git")):
            return found if os.path.isfile(found) and os.path.realpath(found) == found else ""
        at = os.path.dirname(at)
    return ""

"""Evaluates commands that change a repository's git settings: in a sandbox those apply
only after a person's approval.

Finds what git would run of a repository's own: its hooks, and what its settings name.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from hermes.i18n.messages import N_
from hermes.safety.globs import quote_argv
from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import (
    CommandEffect,
    CommandFinding,
    CommandJudgement,
    EffectKind,
    SimpleCommand,
    Verdict,
)
from hermes.tools.permissions.gate import GIT_SETTINGS
from hermes.tools.session import ToolContext

_MAX_BYTES = 262_144
_MAX_INNER = 100
"""The most repositories inside a repository that are looked at."""


def is_hook_effect(effect: CommandEffect) -> bool:
    """Return whether an effect says that git may run a repository's hooks."""
    return effect.argv[:1] == ("git",) and any(one.endswith("/.git/hooks") for one in effect.targets)


def list_git_programs(effect: CommandEffect) -> list[str] | None:
    """Return the hooks and settings by which git could run a program there, or None where that cannot be told."""
    found: list[str] = []
    if any(word.startswith("-") for word in effect.argv[1:2]):
        return None  # settings, or another repository, for this command alone
    for target in effect.targets:
        if not target.endswith("/.git/hooks"):
            return None
        programs = list_repository_programs(target.removesuffix("/.git/hooks"))
        if programs is None:
            return None
        found += programs
    return found


def list_repository_programs(folder: str) -> list[str] | None:
    """Return the hooks and settings by which git could run a program in the repository that a folder is in.

    None where that cannot be told.
    """
    at = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(at, ".git")):
        if at == "/":
            return []
        at = os.path.dirname(at)
    git = os.path.join(at, ".git")
    if os.path.islink(git) or not os.path.isdir(git) or os.path.lexists(os.path.join(git, "commondir")):
        return None  # a work tree, or a repository that lies elsewhere
    if os.path.lexists(os.path.join(git, "modules")) or os.path.lexists(os.path.join(at, ".gitmodules")):
        return None  # repositories in it have programs of their own
    return _list_hooks(os.path.join(git, "hooks")) + _list_risky_settings(git)


def find_repository_settings(judged: CommandJudgement, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question about git in an untrusted repository whose settings or hooks are programs, where no sandbox
    holds them: git runs what some settings name whatever it is asked to do.
    """
    if context.backend.contained:
        return
    starts = (target for effect in judged.effects if is_hook_effect(effect) for target in effect.targets)
    hooks = [path for folder in starts for path in _list_hooks(folder)]
    for one in judged.commands:
        if os.path.basename(one.argv[0]) == "git":
            yield from _judge_programs(one, [*hooks, *_list_named_settings(one)], context)


def _list_named_settings(one: SimpleCommand) -> list[str]:
    return [path for git in _list_git_folders(_find_start(one)) for path in _list_risky_settings(git)]


def _judge_programs(one: SimpleCommand, files: Sequence[str], context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question about the first of these files that is not trusted."""
    strange = (file for file in files if context.trust.find_untrusted_folder(file, context.places.workspace))
    if file := next(strange, ""):
        reason = N_("settings or hooks of an untrusted repository let git run programs: {file}", file=file)
        yield CommandFinding(Verdict.ASK, "git-programs", reason, quote_argv(one.argv))


def _find_start(one: SimpleCommand) -> str:
    """Return the folder from which git looks for its repository."""
    folder = one.cwd
    for option, value in pairwise(one.argv[1:]):
        folder = os.path.join(folder, value) if option in ("-C", "--git-dir", "--work-tree") else folder
    return os.path.join(folder, *(word.partition("=")[2] for word in one.argv[1:] if word.startswith("--git-dir=")))


def _list_git_folders(folder: str) -> list[str]:
    """Return the folders in which git finds the settings of the repository that a folder is in, and of those inside."""
    at = os.path.realpath(folder)
    while not (found := _git_folder_of(at)):
        if at == "/":
            return []
        at = os.path.dirname(at)
    common = _read_line(os.path.join(found, "commondir"))
    inner = (os.path.realpath(at) for at, _, names in os.walk(os.path.join(found, "modules")) if "config" in names)
    return [found, *([os.path.realpath(os.path.join(found, common))] if common else []), *islice(inner, _MAX_INNER)]


def _git_folder_of(folder: str) -> str:
    """Return git's folder of a work tree, or the folder itself where it has the shape of one."""
    git = os.path.join(folder, ".git")
    if named := _read_line(git).removeprefix("gitdir:").strip():
        return os.path.realpath(os.path.join(folder, named))
    bare = all(os.path.lexists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs"))
    return git if os.path.isdir(git) else folder if bare else ""


def _read_line(path: str) -> str:
    """Return the first line of a small file; empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline(4_096).strip()
    except OSError:
        return ""


def _list_hooks(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError:
        return [folder]
    return [os.path.join(folder, name) for name in names if not name.endswith(".sample")]


def _list_risky_settings(git: str) -> list[str]:
    from hermes.execution.sandbox.planted_files import strip_harmful_settings

    found: list[str] = []
    for path in (os.path.join(git, name) for name in ("config", "config.worktree")):
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read(_MAX_BYTES)
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError):
            found.append(path)
            continue
        if strip_harmful_settings(text) != text or len(text) == _MAX_BYTES:
            found.append(path)
    return found


_RULE = "git-settings"
_READ_OPTIONS = ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l", "get", "list")
_OTHER_SCOPE_OPTIONS = ("--global", "--system", "--file", "-f", "--blob", "--worktree", "--edit", "-e", "edit")
_REMOVAL_OPTIONS = ("--unset", "--unset-all", "--remove-section", "unset", "remove-section")
_SETTING_WORDS = ("set", "--add", "--replace-all", "--local")
_REMOTE_VERBS = ("add", "set-url", "rename", "remove", "rm", "set-branches")
_UPSTREAM_OPTIONS = ("-u", "--set-upstream-to", "--unset-upstream")
_NEUTRAL_COMMANDS = ("echo", "true", "cd", "pwd")
_NEVER_CHANGED = "settings that let git run programs are not changed from the sandbox: the person does that"
BRANCH_DONE = "that is done, but for the branch's section in git's settings, which are kept in the sandbox; go on"
WHAT_TO_DO = (
    "git's settings are kept in the sandbox: `git config`, `git remote` and `git branch -u`, as a command of their own "
    "and for this repository, ask the person and then work"
)


def evaluate_git_config(
    judged: CommandJudgement, context: ToolContext
) -> tuple[list[CommandFinding], list[CommandEffect]]:
    """Return findings and effects of a line of nothing but such commands; nothing where no sandbox keeps the settings.

    The effect names the file that the line may change when the person says yes.
    """
    changing = [one for one in judged.commands if _is_config_change(one)]
    file = _find_changed_file(changing, context) if context.backend.current_layout() is not None else ""
    if not file or not all(_is_config_change(one) or _is_neutral_command(one) for one in judged.commands):
        return [], []
    findings = [_judge_change(one) for one in changing]
    never = [one for one in findings if one.verdict is Verdict.DENY]
    return (never, []) if never else (findings, [CommandEffect(EffectKind.PERSISTS, GIT_SETTINGS, (file,))])


def _find_changed_file(changing: Sequence[SimpleCommand], context: ToolContext) -> str:
    """Return the file that all of these change; empty where that cannot be told, or there are several."""
    if any(map(_is_undecidable, changing)):
        return ""
    files = {_find_config_file(one.cwd, context) for one in changing}
    return files.pop() if len(files) == 1 else ""


def _is_config_change(one: SimpleCommand) -> bool:
    verb, rest = one.argv[1:2], one.argv[2:]
    if one.argv[:1] != ("git",) or not rest:
        return False
    if verb == ("config",):
        return len(_list_operands(rest)) > 1 or any(word in _REMOVAL_OPTIONS for word in rest)
    if verb == ("remote",):
        return rest[0] in _REMOTE_VERBS
    return verb == ("branch",) and any(word.partition("=")[0] in _UPSTREAM_OPTIONS for word in rest)


def _is_neutral_command(one: SimpleCommand) -> bool:
    """Return whether a command beside a change can have no effect of its own that matters here."""
    if one.argv[:1] == ("git",):
        return one.argv[1:2] in (("config",), ("remote",), ("status",)) or _is_plain_record(one)
    return one.argv[0] in _NEUTRAL_COMMANDS


def _is_plain_record(one: SimpleCommand) -> bool:
    """Return whether a command only records changes, in a repository in which nothing but git itself runs by that."""
    if one.argv[1:2] not in (("add",), ("commit",), ("log",), ("diff",), ("init",)):
        return False
    return list_repository_programs(one.cwd) == []


def _is_undecidable(one: SimpleCommand) -> bool:
    """Return whether a change is of other settings than the repository's, or is only known when it runs."""
    return any("$" in word or word.partition("=")[0] in _OTHER_SCOPE_OPTIONS for word in one.argv[2:])


def _list_operands(rest: Sequence[str]) -> list[str]:
    if any(word in _READ_OPTIONS for word in rest):
        return []
    return [word for word in rest if not word.startswith("-") and word not in _SETTING_WORDS]


def _judge_change(one: SimpleCommand) -> CommandFinding:
    """Return the finding on one change: a question, or that it is never made."""
    subject = quote_argv(one.argv)
    for name, value in _list_assignments(one):
        if not _is_harmless_setting(name, value):
            return CommandFinding(Verdict.DENY, _RULE, f"{name}: {_NEVER_CHANGED}", subject)
    return CommandFinding(Verdict.ASK, _RULE, "it changes the settings of the repository", subject)


def _list_assignments(one: SimpleCommand) -> Iterator[tuple[str, str]]:
    rest = one.argv[2:]
    if one.argv[1] == "config" and not any(word in _REMOVAL_OPTIONS for word in rest):
        name, *values = _list_operands(rest)
        yield name, values[0] if values else ""
    elif one.argv[1] == "remote" and rest[0] in ("add", "set-url"):
        named = [word for word in rest[1:] if not word.startswith("-")]
        yield f"remote.{named[0] if named else ''}.url", named[-1] if named else ""


def _is_harmless_setting(name: str, value: str) -> bool:
    from hermes.execution.sandbox.planted_files import is_harmless_setting

    return is_harmless_setting(name, value)


def _find_config_file(folder: str, context: ToolContext) -> str:
    """Return the settings file of the repository that a folder of the workspace is in; empty where there is none to
    keep.
    """
    at, workspace = os.path.realpath(folder), os.path.realpath(context.places.workspace)
    while is_or_below(at, workspace):
        found = os.path.join(at, ".git", "config")
        if os.path.lexists(os.path.join(at, ".git")):
            return found if os.path.isfile(found) and os.path.realpath(found) == found else ""
        at = os.path.dirname(at)
    return ""

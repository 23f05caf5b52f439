"""Evaluates commands that change a repository's git settings: in a sandbox those apply
only after a person's approval.
"""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby

from hermes.execution.git_programs import find_config_file, list_programs_of_command, list_repository_programs
from hermes.execution.git_settings import is_harmless_setting
from hermes.i18n.messages import N_
from hermes.safety.globs import quote_argv
from hermes.safety.shell.findings import CommandFinding, CommandJudgement, SimpleCommand, Verdict
from hermes.tools.session import ToolContext


def find_repository_programs(judged: CommandJudgement, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question about git in an untrusted repository whose settings or hooks are programs: git runs what some
    settings name whatever it is asked to do.
    """
    for one in judged.commands:
        files = list_programs_of_command(one, judged) if os.path.basename(one.argv[0]) == "git" else ()
        strange = (file for file in files if context.trust.find_untrusted_folder(file, context.places.workspace))
        if file := next(strange, ""):
            reason = N_("settings or hooks of an untrusted repository let git run programs: {file}", file=file)
            yield CommandFinding(Verdict.ASK, "git-programs", reason, quote_argv(one.argv))


_RULE = "git-settings"
_READ_OPTIONS = ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l", "get", "list")
_OTHER_SCOPE_OPTIONS = ("--global", "--system", "--file", "-f", "--blob", "--worktree")
_REMOVAL_OPTIONS = ("--unset", "--unset-all", "--remove-section", "unset", "remove-section")
_SETTING_WORDS, _EDITING = ("set", "--add", "--replace-all", "--local"), ("-e", "--edit", "edit")
_CHANGES = re.compile(
    r"remote (add|set-url|rename|remove|rm|set-branches)\b|branch (.* )?(-u|--set-upstream-to|--unset-upstream)\b"
    r"|submodule ((add|init|sync|deinit|set-url)\b|update .*--init\b)"
)
_QUOTED, _EXPANDED = re.compile(r"'[^'\\]*'|\"[^\"\\]*\""), re.compile(r"[\\*?\[]")
_OUTPUT_ELSEWHERE, _HOME = re.compile(r"\s2>&1(?=[\s;|&]|$)"), re.compile(r"\$HOME\b|\$\{HOME\}")
_NEUTRAL_COMMANDS, _READ_REMOTES = ("echo", "true", "cd", "pwd"), re.compile(r"(-v|--verbose)?|(show|get-url) .*")
_NEUTRAL_VERBS, _RECORDING_VERBS = ("config", "remote", "status"), ("add", "commit", "log", "diff", "init")
_MESSAGES = ("-m", "--message", "-am", "-qm", "-qam", "-F", "--file", "--no-edit")
"""Options of which `commit` needs one: without a message it opens an editor."""
_PLAIN_OPTIONS = str.split("""
    -m --message -am -qm -qam -F --file --no-edit --get --get-all --get-regexp --get-urlmatch --list -l --local -z
    --null --name-only --show-origin --show-scope --bool --int --type -q --quiet -a --all -A --amend --allow-empty -b
    --branch --oneline --format --stat -1 -n -s --short -sb --porcelain -u -uno -v --verbose
""")
"""Options by which such a verb neither writes a file of its own, nor takes from one, nor starts a program."""
_NO_EDITOR = "what an editor changes cannot be asked about: git config NAME VALUE changes one setting"
_NEVER_CHANGED = "settings that let git run programs are not changed from the sandbox: the person does that"


def find_changed_settings(text: str, judged: CommandJudgement, context: ToolContext) -> str:
    """Return the settings file that a line of nothing but such commands changes when the person says yes; "" for other
    lines, such as those that set variables, and where no sandbox keeps the settings.
    """
    changing = [one for one in judged.commands if _is_config_change(one)]
    if not changing or context.backend.current_layout() is None or any(map(_is_undecidable, changing)):
        return ""
    is_known = all(one in changing or _is_neutral_command(one) for one in judged.commands)
    is_plain = is_known and _is_plain(text, judged, context.places.home)
    files = {find_config_file(one.cwd, context.places.workspace) for one in changing if is_plain}
    return files.pop() if len(files) == 1 else ""


def _is_plain(text: str, judged: CommandJudgement, home: str) -> bool:
    """Return whether a line is nothing but its commands, one after the other: then it sets no variables.

    Read by words alone it is what it is in the syntax tree: nothing but the home is expanded, and no part of it is left
    over.
    """
    plain = _HOME.sub(lambda _: home, _OUTPUT_ELSEWHERE.sub("", text))
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=";|&<>()\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    try:
        parts = groupby(lexer, lambda token: token.strip("\n") in ("", ";", "&&", "||", "|"))
        read = [tuple(words) for joins, words in parts if not joins]
    except ValueError:  # a quote that does not end
        return False
    return read == [one.argv for one in judged.commands] and not _EXPANDED.search(_QUOTED.sub("", text))


def judge_changed_settings(judged: CommandJudgement) -> Sequence[CommandFinding]:
    """Return a question for each change of kept settings, or the refusals of those that are never made."""
    findings = [_judge_change(one) for one in judged.commands if _is_config_change(one)]
    return [one for one in findings if one.verdict is Verdict.DENY] or findings


def _split_call(one: SimpleCommand) -> tuple[str, tuple[str, ...]]:
    """Return what git is asked to do, with its words; empty for other programs.

    Settings of the one call that let git run nothing are left out; with others the call is none that is known here.
    """
    words = one.argv[1:] if one.argv[:1] == ("git",) else ()
    while words[:1] == ("-c",) and "".join(words[1:2]).startswith(("protocol.file.", "user.")):
        words = words[2:]
    return "".join(words[:1]), words[1:]


def _is_config_change(one: SimpleCommand) -> bool:
    verb, rest = _split_call(one)
    if verb == "config":
        return len(_list_operands(rest)) > 1 or any(word in (*_REMOVAL_OPTIONS, *_EDITING) for word in rest)
    return _CHANGES.match(" ".join((verb, *rest))) is not None


def _is_neutral_command(one: SimpleCommand) -> bool:
    """Return whether a command beside a change can have no effect of its own that matters here."""
    if one.argv[:1] != ("git",):
        return one.argv[0] in _NEUTRAL_COMMANDS
    verb, rest = _split_call(one)
    options = {word.partition("=")[0] for word in rest if word[:1] == "-"}
    if not options.issubset(_PLAIN_OPTIONS) or (verb == "remote" and not _READ_REMOTES.fullmatch(" ".join(rest))):
        return False
    # What records changes is harmless in a repository in which nothing but git itself runs by that.
    is_recording = verb in _RECORDING_VERBS and list_repository_programs(one.cwd) == []
    return verb in _NEUTRAL_VERBS or (is_recording and (verb != "commit" or not options.isdisjoint(_MESSAGES)))


def _is_undecidable(one: SimpleCommand) -> bool:
    """Return whether a change is of other settings than the repository's, or is only known when it runs."""
    return any("$" in word or word.partition("=")[0] in _OTHER_SCOPE_OPTIONS for word in _split_call(one)[1])


def _list_operands(rest: Sequence[str]) -> list[str]:
    operands = (word for word in rest if not word.startswith("-") and word not in _SETTING_WORDS)
    return [] if any(word in _READ_OPTIONS for word in rest) else list(operands)


def _judge_change(one: SimpleCommand) -> CommandFinding:
    """Return the finding on one change: a question, or that it is never made."""
    subject = quote_argv(one.argv)
    for name, value in _list_assignments(one):
        if not is_harmless_setting(name, value):
            reason = f"{name}: {_NEVER_CHANGED}" if "." in name else _NO_EDITOR
            return CommandFinding(Verdict.DENY, _RULE, reason, subject)
    return CommandFinding(Verdict.ASK, _RULE, "it changes the settings of the repository", subject)


def _list_assignments(one: SimpleCommand) -> Iterator[tuple[str, str]]:
    verb, rest = _split_call(one)
    if verb == "config" and not any(word in _REMOVAL_OPTIONS for word in rest):
        name, value, *_ = (*_list_operands(rest), "", "")
        yield name, value
    elif verb == "remote" and rest[0] in ("add", "set-url"):
        named = [word for word in rest[1:] if not word.startswith("-")]
        yield f"remote.{named[0] if named else ''}.url", named[-1] if named else ""

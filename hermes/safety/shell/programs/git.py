"""git: what it throws away, what it takes back from others, which programs and hooks it starts."""

import re
from collections.abc import Callable, Sequence

from hermes.i18n.messages import N_
from hermes.safety.git_addresses import find_local_path
from hermes.safety.shell.call import CommandOptions, ProgramCall
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.key_files import is_private_file
from hermes.safety.shell.words import EMPTY_STREAM, Label, ShellStream, Word, word_set

_GLOBAL = "git-dir work-tree namespace exec-path config-env super-prefix attr-source"
_PROGRAMS = re.compile(
    r"(alias\.|core\.(sshcommand|pager|editor|hookspath|fsmonitor|gitproxy|askpass|attributesfile)|diff\.external|"
    r"(diff|merge|filter|difftool|mergetool|guitool)\.[^.]+\.(command|driver|clean|smudge|process|textconv|cmd|path)|"
    r"credential\.([^=]+\.)?helper|include(if)?\.|sequence\.editor|gpg\.([\w.]+\.)?program|pager\.|init\.templatedir|"
    r"protocol\.ext|uploadpack\.|receive\.procreceive|remote\.[^.]+\.(uploadpack|receivepack|proxy|vcs)|browser\.|"
    r"man\.|web\.browser|instaweb\.|sendemail\.|ssh\.variant|url\..*insteadof|http\.(proxy|sslverify)|safe\.directory)",
    re.IGNORECASE,
)
_HARMLESS_VALUES = word_set(
    "cat less more true false vim vi nvim nano emacs code delta store cache osxkeychain manager ssh"
)
_UNCOMMITTED = "it throws away changes that were not committed"
_WAY_BACK = "it deletes the means to restore earlier states"
_OTHERS = "it overwrites or deletes shared history or branches"
_LOSES = "it deletes work"


def judge(call: ProgramCall) -> ShellStream | None:
    """A call of git, by its verb."""
    words = list(call.words)
    outer = CommandOptions(words, "Cc", _GLOBAL, stop=True)
    for word in outer.option_values("c"):
        _configured(call, *word.text.partition("=")[::2], word)
    if outer.option_values("exec-path", "config-env"):
        call.ask("nested-program", "it starts other programs")
    if not outer.operands:
        return None
    verb, rest = outer.operands[0], outer.operands[1:]
    if verb.dynamic:
        call.ask("git-unknown", "what git does is only known at run time")
        return None
    folder = outer.option_values("C")
    root = call.resolve_path(folder[-1]) if folder else call.cwd
    inner = ProgramCall(verb.text, rest, call.state, call.piped_input(), call.host)
    if verb.text in _HOOKED and "--no-verify" not in inner.args:
        call.add_effect(EffectKind.RUNS, (f"{root}/.git/hooks",))
    if folder and verb.text in _CHANGING:
        call.judge_write(root)
    loses, reason = _VERBS.get(verb.text, (_never, ""))
    if loses(inner):
        call.ask(f"git-{verb.text}", reason, effect=EffectKind.DESTROYS, targets=(root,))
    follow = _FOLLOWED.get(verb.text)
    return follow(call, inner) if follow is not None else None


def _configured(call: ProgramCall, name: str, value: str, word: Word) -> None:
    """A setting for one call, or for good: some are programs."""
    if not _PROGRAMS.match(name):
        return
    if name.lower().startswith("alias.") and value:
        shown = value[1:] if value.startswith("!") else f"git {value}"
        call.judge_script(shown, lost=True)
        if not value.startswith("!"):
            return
    words = value.split()
    if words and words[0].rpartition("/")[2] in _HARMLESS_VALUES and not word.dynamic and ";" not in value:
        if words[0].rpartition("/")[2] == "ssh":
            call.judge_script(value, lost=True)
        return
    call.ask("nested-program", N_("it starts another program ({name})", name=name))


_ASKING = ("get", "list", "l", "get-all", "get-regexp", "unset", "e", "edit", "get-urlmatch", "show-origin")


def _config(call: ProgramCall, inner: ProgramCall) -> ShellStream | None:
    options = inner.parse_options("f", "file blob type default get get-all get-regexp")
    operands = [word for word in options.operands if word.text not in ("set", "add")]
    if options.has_option(*_ASKING) or inner.args[:1] in (["get"], ["list"]) or len(operands) < 2:
        return None
    name, value = operands[0].text, operands[1].text
    call.add_effect(EffectKind.PERSISTS, (name,))
    if name.lower().startswith("alias.") and not value.startswith("!"):
        _configured(call, name, value, operands[1])
    elif _PROGRAMS.match(name):
        _programmed(call, name, value)
    return None


def _programmed(call: ProgramCall, name: str, value: str) -> None:
    first = "".join(value.split()[:1])
    if first.rpartition("/")[2] == "ssh":
        call.judge_script(value, lost=True)
    if first not in _HARMLESS_VALUES and not name.lower().startswith(("safe.", "pager.")):
        call.ask("git-config", "it changes which programs git starts")


def _push(rest: ProgramCall) -> bool:
    options = rest.parse_options("o", "push-option repo receive-pack exec")
    if options.has_option("n") or "dry-run" in options.longs:
        return False
    forced = options.has_option("f", "d") or any(
        name.startswith(long) and len(long) > 2
        for long in options.longs
        for name in ("force", "force-with-lease", "force-if-includes", "mirror", "delete", "prune")
    )
    return forced or any(word.text.startswith(("+", ":")) for word in options.operands[1:])


def _pushed(call: ProgramCall, inner: ProgramCall) -> ShellStream | None:
    options = inner.parse_options("o", "push-option repo receive-pack exec")
    for word in options.option_values("receive-pack", "exec"):
        call.ask("nested-program", N_("it starts another program: {text}", text=word.text))
    named = options.operands or options.option_values("repo")
    call.add_effect(EffectKind.SENDS, (named[0].text if named else "origin",))
    return None


def _fetched(call: ProgramCall, inner: ProgramCall) -> ShellStream | None:
    options = inner.parse_options("bcou", "branch config upload-pack depth template origin")
    names = ("u", "upload-pack", "template", "exec") if inner.name == "clone" else ("upload-pack", "exec")
    for word in options.option_values(*names):
        call.ask("nested-program", N_("it starts another program: {text}", text=word.text))
    for word in options.option_values("c", "config"):
        _configured(call, *word.text.partition("=")[::2], word)
    operands = options.operands
    if any(word.text.startswith("ext::") for word in operands):
        call.ask("nested-program", "it starts another program")
    _got(call, inner.name, operands, others=options.has_option("recurse-submodules", "recursive"))
    if inner.name == "clone" and operands:
        named = operands[1].text if len(operands) > 1 else re.split(r"[/:]", operands[0].text.rstrip("/"))[-1]
        path = call.resolve_path(Word(named.removesuffix(".git")))
        call.judge_write(path)
        call.state.files[path] = ShellStream(None, frozenset({Label.FETCHED}))
    return None


def _got(call: ProgramCall, verb: str, operands: Sequence[Word], *, others: bool) -> None:
    """Where a repository is from: another host, or a folder of this machine's, unless it brings `others`."""
    word = operands[0] if operands else Word("origin")
    is_name = word.dynamic or (not operands if verb == "clone" else "/" not in word.text)
    local = "" if is_name or others else find_local_path(word.text)
    if local:
        call.add_effect(EffectKind.READS, (call.resolve_path(Word(local)),))
    else:
        call.add_effect(EffectKind.FETCHES, (word.text,))


_STARTING: dict[str, tuple[str, tuple[str, ...]]] = {
    # By verb: letters with a value, and the options whose value is a command.
    "rebase": ("xXs", ("x", "exec")),
    "difftool": ("xt", ("x", "extcmd")),
    "mergetool": ("xt", ("x", "extcmd")),
    "grep": ("O", ("O", "open-files-in-pager")),
    "send-email": ("", ("sendmail-cmd", "to-cmd", "cc-cmd", "smtp-server")),
    "archive": ("o", ("exec",)),
    "instaweb": ("db", ("b", "browser", "d", "httpd")),
    "daemon": ("", ("access-hook",)),
}
_COMMANDS = (
    "exec extcmd open-files-in-pager onto strategy tool sendmail-cmd to-cmd cc-cmd smtp-server browser httpd "
    "access-hook"
)


def _started(call: ProgramCall, inner: ProgramCall) -> ShellStream | None:
    """bisect run, submodule foreach, rebase -x, filter-branch: commands in arguments."""
    args = inner.args
    if inner.name == "bisect" and args[:1] == ["run"]:
        call.judge_program(inner.words[1:], stdin=EMPTY_STREAM)
    elif inner.name == "submodule" and "foreach" in args:
        texts = [text for text in args[args.index("foreach") + 1 :] if text not in ("--recursive", "--quiet")]
        call.judge_script(" ".join(texts), lost=True)
    elif inner.name in _STARTING:
        letters, names = _STARTING[inner.name]
        for word in inner.parse_options(letters, _COMMANDS).option_values(*names):
            if word.text.split()[:1] and word.text.split()[0] not in _HARMLESS_VALUES and inner.name != "rebase":
                call.ask("nested-program", N_("it starts another program: {text}", text=word.text))
            call.judge_script(word.text, lost=True)
    return None


def _shown(_: ProgramCall, inner: ProgramCall) -> ShellStream | None:
    """`git show`, `git cat-file`: what comes out of the store may be run by the next one, as any file's content."""
    for word in inner.parse_options().option_values("output", "o"):
        inner.judge_write(inner.resolve_path(word), kind=EffectKind.OVERWRITES)
    return None


_CHANGING = word_set(
    "pull merge rebase checkout switch reset clean apply am restore revert cherry-pick rm mv stash submodule"
)
_HOOKED = word_set("commit checkout switch merge rebase pull push am cherry-pick revert gc worktree clone reset stash")


_ALL_FILES = re.compile(r"\.\.?|\./|:/?|.*\*.*", re.DOTALL)
_WHOLE_FOLDER = re.compile(rf"{_ALL_FILES.pattern}|src|.*/", re.DOTALL)


def _overwrites(rest: ProgramCall) -> bool:
    options = rest.parse_options("bBs", "source conflict")
    if options.has_option("f", "discard-changes") or "force" in options.longs or _restores_folders(rest):
        return True
    if options.has_option("p", "patch") or (
        options.has_option("staged", "S") and not options.has_option("worktree", "W")
    ):
        return False
    named = [word.text for word in options.operands]
    if rest.name == "restore":
        return any(map(_WHOLE_FOLDER.fullmatch, named))
    return any(map(_ALL_FILES.fullmatch, rest.args[rest.args.index("--") + 1 :] if "--" in rest.args else named))


def _restores_folders(rest: ProgramCall) -> bool:
    """Whether `checkout [COMMIT] -- FOLDER/` puts whole folders back."""
    after = rest.args[rest.args.index("--") :] if "--" in rest.args else ()
    return rest.name == "checkout" and any(text.endswith("/") for text in after)


def _branch(rest: ProgramCall) -> bool:
    options = rest.parse_options("u", "set-upstream-to")
    return options.has_option("D") or (options.has_option("d", "delete") and options.has_option("f", "force"))


def _clean(rest: ProgramCall) -> bool:
    options = rest.parse_options("e", "exclude")
    return options.has_option("f", "x", "X", "force") and not options.has_option("n", "dry-run")


def _begins(*verbs: str) -> Callable[[ProgramCall], bool]:
    return lambda rest: rest.args[:1] != [] and rest.args[0] in verbs


def _always(_: ProgramCall) -> bool:
    return True


def _never(_: ProgramCall) -> bool:
    return False


def _hard(rest: ProgramCall) -> bool:
    return any(
        name.startswith(long) for long in rest.parse_options().longs if long for name in ("hard", "merge", "keep")
    )


def _pruned(rest: ProgramCall) -> bool:
    return any(
        text in ("--prune=now", "--prune=all", "--aggressive=now") or text.startswith("--prune=0") for text in rest.args
    )


def _moved_ref(rest: ProgramCall) -> bool:
    options = rest.parse_options("m")
    return options.has_option("d", "delete", "stdin") or len(options.operands) > 1


def _removed(rest: ProgramCall) -> bool:
    options = rest.parse_options()
    if options.has_option("cached", "n", "dry-run"):
        return False
    everything = any(word.text in (".", "*", "./", ":/") for word in options.operands)
    return (options.has_option("f", "force") and options.has_option("r")) or everything


def _adds_keys(rest: ProgramCall) -> bool:
    return any(is_private_file(f"/{word.text}") for word in rest.parse_options().operands)


def _unless_tried(judge: Callable[[ProgramCall], bool]) -> Callable[[ProgramCall], bool]:
    return lambda rest: judge(rest) and not rest.parse_options().has_option("n", "dry-run")


_VERBS: dict[str, tuple[Callable[[ProgramCall], bool], str]] = {
    "add": (_adds_keys, "it puts a file with keys into what others get"),
    "notes": (_begins("remove", "prune"), _LOSES),
    "annex": (_begins("drop", "dropunused", "uninit"), _LOSES),
    "svn": (_begins("reset"), _LOSES),
    "maintenance": (_begins("start", "register"), "it changes what runs later by itself"),
    "prune-packed": (_always, _WAY_BACK),
    "fast-import": (lambda rest: rest.parse_options().has_option("force"), "it rewrites history"),
    "reset": (_hard, _UNCOMMITTED),
    "push": (_push, _OTHERS),
    "clean": (_clean, "it deletes files that git does not know"),
    "checkout": (_overwrites, _UNCOMMITTED),
    "restore": (_overwrites, _UNCOMMITTED),
    "switch": (_overwrites, _UNCOMMITTED),
    "checkout-index": (lambda rest: rest.parse_options().has_option("f", "force"), _UNCOMMITTED),
    "read-tree": (lambda rest: rest.parse_options().has_option("reset"), _UNCOMMITTED),
    "rm": (_removed, _LOSES),
    "branch": (_branch, "it deletes commits that were not merged"),
    "stash": (_begins("clear", "drop"), "it throws away stashed changes"),
    "filter-branch": (_always, "it rewrites history"),
    "filter-repo": (lambda rest: "--dry-run" not in rest.args, "it rewrites history"),
    "update-ref": (_moved_ref, _WAY_BACK),
    "symbolic-ref": (lambda rest: len(rest.parse_options("m").operands) > 1, _WAY_BACK),
    "reflog": (_unless_tried(_begins("expire", "delete")), _WAY_BACK),
    "gc": (_pruned, _WAY_BACK),
    "prune": (_unless_tried(_always), _WAY_BACK),
    "worktree": (lambda rest: rest.args[:1] == ["remove"] and rest.parse_options().has_option("f", "force"), _LOSES),
    "submodule": (lambda rest: "deinit" in rest.args and rest.parse_options().has_option("f", "force"), _LOSES),
    "replace": (lambda rest: rest.parse_options().has_option("d", "f", "edit"), "it rewrites history"),
    "lfs": (_unless_tried(_begins("prune")), _LOSES),
}
_FOLLOWED: dict[str, Callable[[ProgramCall, ProgramCall], ShellStream | None]] = {
    "config": _config,
    "push": _pushed,
    **dict.fromkeys(("clone", "fetch", "pull", "ls-remote"), _fetched),
    **dict.fromkeys(("bisect", "submodule", *_STARTING), _started),
    **dict.fromkeys(("diff", "log", "show", "format-patch"), _shown),
}
RULES = {"git": judge, "hub": judge}

"""Programs and code named by options: of a pager, a filter, a plug-in, a hook, a wrapper.

Most programs can start another one. What the option is called says so, whatever the program is: the value is
followed like a command. A value that is a file among temporary ones is code that nobody looks at.
"""

import re
from collections.abc import Iterator, Mapping

from hermes.i18n.messages import N_
from hermes.safety.shell.call import ProgramCall, is_in_workspace, is_temporary
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.key_files import is_private_file
from hermes.safety.shell.words import Label, Word, word_set

_STARTS: dict[str, str] = {
    # By program: options whose value is a program and whose name does not say so; a pattern over the option.
    "man": r"-P|-H",
    "xterm": r"-e",
    "split": r"--filter",
    "zip": r"-TT",
    "scp sftp": r"-S|-D",
    "strace ltrace": r"-o|--output",
    "tcpdump": r"-z",
    "rg": r"--pre|--hostname-bin",
    "apt apt-get": r"-o|--option",
    "cargo": r"--config",
    "go": r"-toolexec|-exec|-vettool",
}
_LOADS: dict[str, str] = {
    # By program: options whose value is a file of code, or of settings that name code.
    "npm": r"--prefix",
    "php": r"-d\w*",
    "gcc g++ cc clang": r"-fplugin|-B|-specs",
    "terraform tofu": r"-plugin-dir|-backend-config",
    "ssh scp sftp": r"-F|-I",
}
_NAMED = {name: re.compile(f"(?:{text})$") for names, text in _STARTS.items() for name in names.split()}
_LOADED = {name: re.compile(f"(?:{text})$") for names, text in _LOADS.items() for name in names.split()}
_PROGRAM_OPTION = re.compile(
    r"--?(?:[a-z0-9]+[-_])*(?:exec|execute|cmd|prog|program|shell|filter|pager|editor|wrapper|launcher|preload|"
    r"askpass|rsh|ssh|opener|handler|renderer|toolexec|interpreter|hook|callback|post-?process|viewer|browser|downloader|"
    r"(?:on|pre|post|before|after)[-_]\w+)$"
)
"""What options for programs are called."""
_CODE_OPTION = re.compile(
    r"--?(?:[a-z0-9]+[-_])*(?:plugins?|plugin-?(?:dir|path)|config(?:-?file|-?dir)?|conf|init|init-?(?:script|file)|"
    r"script|load|require|import|include|module|modules-?path|rcfile|rulesdir|library|extensions?|template-?dir|profile-?dir|userconfig|"
    r"globalconfig|file|[fclrxIKSM])$"
)
"""What options for code, and for settings that name code, are called."""
_SUSPECT = re.compile(r"[|;&`]|\$\(|^\s*(?:/tmp|/var/tmp|/dev/shm|/private/tmp)/|\b(?:ba|da|z|k)?sh\b\s+(?!-n)\S")
_CODE_FILE = re.compile(
    r"\.(so|dylib|dll|py|js|mjs|cjs|ts|rb|pl|lua|sh|nse|jar|gradle|conf|cfg|ini|rc|curlrc|toml|ya?ml|json|mk|vim|el|xml|exe|"
    r"cmake|ninja|bin|evil)$|/[^./]+$|[/.]\w*(Dockerfile|Makefile)\S*$|/\.\w+rc$"
)
_FOLLOWED_ELSEWHERE = word_set("""
    find fd fdfind gfind xargs parallel tar bsdtar gtar rsync git sort nodemon watchexec entr env sudo ssh sh bash zsh
    dash ksh fish make gmake just vi vim nvim emacs ex awk gawk sed psql docker podman nerdctl curl wget test [ [[ echo
    printf grep egrep rg-files cp mv ln rm mkdir touch cat ls stat head tail wc tee chmod chown install dd diff truncate
    gcc-ar gzip xz zstd unzip base64 sha256sum md5sum jq yq cut tr uniq read cd python python3 hyperfine shellcheck
""")
_HARMLESS = word_set(
    "ssh cat less more true false vim vi nvim nano emacs code bat most echo : head tail delta open bash sh zsh gzip "
    "/bin/sh /bin/bash zstd xz pigz lz4 fish firefox prettier ctest go"
)
_SCRATCH = ("/tmp", "/dev/shm", "|", ";", "`", "sh ", "$(")  # noqa: S108 - rules name them


def judge(call: ProgramCall) -> None:
    """Judge what the options of a call name as a program, or as code."""
    if not any(word.text[:1] == "-" for word in call.words):
        return
    name = call.name
    is_known = name in _NAMED or name in _LOADED
    is_worth = name not in _FOLLOWED_ELSEWHERE and any(mark in text for text in call.args for mark in _SCRATCH)
    if not is_known and not is_worth:
        return
    for option, value in _options(call):
        if _judged(call, option, value):
            return


def _judged(call: ProgramCall, option: str, value: Word) -> bool:
    """Judge one option with its value; whether something was said."""
    elsewhere = call.name in _FOLLOWED_ELSEWHERE
    own = _known(_NAMED, call.name, option)
    if (own or (not elsewhere and _PROGRAM_OPTION.match(option))) and _starts(call, value, own=own):
        return True
    code = _known(_LOADED, call.name, option) or (not own and not elsewhere and _CODE_OPTION.match(option) is not None)
    if code and _unseen(call, value):
        call.ask("nested-program", N_("it takes code or settings out of {text}", text=value.text))
        return True
    return False


def _noted(call: ProgramCall, value: Word) -> None:
    """Note the file that a value names: it is run, or taken for settings."""
    if value.text.startswith((".", "/", "~")) and " " not in value.text:
        call.add_effect(EffectKind.RUNS, (call.resolve_path(value),))


def _known(table: Mapping[str, re.Pattern[str]], name: str, option: str) -> bool:
    pattern = table.get(name)
    return pattern is not None and pattern.match(option) is not None


def _options(call: ProgramCall) -> Iterator[tuple[str, Word]]:
    """Options with what may be their value, as far as the first thirty words tell."""
    words = call.words[:30]
    for at, word in enumerate(words):
        text = word.text
        if text[:1] != "-" or text in ("-", "--"):
            continue
        option, equals, value = text.partition("=")
        if equals:
            yield option, Word(value, word.dynamic, labels=word.labels)
            continue
        if len(text) > 2 and text[1] != "-":
            yield text[:2], Word(text[2:], word.dynamic, labels=word.labels)
        following = words[at + 1] if at + 1 < len(words) else Word("")
        yield text, following


def _starts(call: ProgramCall, value: Word, *, own: bool) -> bool:
    if own:
        _noted(call, value)
    if not _is_program(call, value, own=own):
        return False
    call.ask("nested-program", "it starts another program")
    call.judge_script(value.text.lstrip("|! "), lost=True)
    return True


def _is_program(call: ProgramCall, value: Word, *, own: bool) -> bool:
    """Whether a value is a program that is worth a question; `own`: the option is known to take one."""
    text = value.text
    if not text.strip() or (own and _setting(text)):
        return False
    if not _SUSPECT.search(text) and (not own or _harmless(text.split(None, 1)[0])):
        return False
    return "/" not in text or " " in text or not is_in_workspace(call.resolve_path(value), call.host.places)


def _harmless(program: str) -> bool:
    return program in _HARMLESS and program.rpartition("/")[2] not in _SHELLS


_SHELLS = word_set("sh bash zsh dash ksh")
_SETTING = re.compile(r"[\w.:,-]+(=[\w.:/,%@+-]*)?$")


def _setting(text: str) -> bool:
    """Whether a value is a name, or a setting of one, and no program: `Debug::NoLocking=1`."""
    return text not in _SHELLS and _SETTING.match(text) is not None and not _NAMES_PROGRAM.search(text)


_NAMES_PROGRAM = re.compile(
    r"invoke|pre-|post-|wrapper|linker|runner|rustc|hook|sshcmd|proxycommand|command|shell|prepend_file|append_file|"
    r"extension=|disable_functions|alias\.|diff-cmd|/tmp/|ssh_command",
    re.IGNORECASE,
)


def _unseen(call: ProgramCall, value: Word) -> bool:
    """Whether a value names code that lies among temporary files, or was fetched by this line."""
    _noted(call, value)
    text = value.text.rpartition("=")[2] if "=/" in value.text else value.text
    if not text or text[0] not in "/~.$" or " " in text:
        return False
    path = call.resolve_path(Word(text))
    held = call.state.files.get(path)
    if held is not None and Label.FETCHED in held.labels:
        return True
    if is_in_workspace(path, call.host.places) or not is_temporary(path) or not _CODE_FILE.search(path):
        return False
    return not is_private_file(path) and held is None


def loader(call: ProgramCall) -> None:
    """ld.so, ld-linux: a program started by the loader, with libraries put before it."""
    at = 0
    args = call.args
    while at < len(args) and args[at].startswith("-"):
        at += 1 if "=" in args[at] or args[at] in ("--list", "--verify", "--inhibit-cache") else 2
    if at < len(args) and "--list" not in args and "--verify" not in args:
        call.add_effect(EffectKind.RUNS, (call.resolve_path(call.words[at]),))
        call.judge_program(call.words[at:], lost=True)

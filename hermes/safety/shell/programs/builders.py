"""Programs that take the code they run out of files: which files, or the folders in which they are found."""

import re
from collections.abc import Sequence

from hermes.safety.shell import dataflow
from hermes.safety.shell.call import CommandOptions, ProgramCall, Rule
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs import cloud_clis, fetched
from hermes.safety.shell.scripts import find_exhaustion
from hermes.safety.shell.words import UNKNOWN_STREAM, Label, ShellStream, Word, word_set


def go(call: ProgramCall) -> None:
    """go: code of its folder, and programs that `go install` fetches, which may be run next."""
    dataflow.judge_code_folder(call, call.cwd)
    for package, version, _ in (text.partition("@") for text in call.args[1:]):
        if call.args[0] == "install" and version:
            made = f"{call.host.places.home}/go/bin/{package.rpartition('/')[2]}"
            call.state.files[made] = ShellStream(None, frozenset({Label.FETCHED}))


_HARMLESS_NPM = word_set(
    "ls list view info outdated audit help version whoami search ping docs root prefix bin config get why explain"
)
_INSTALLING = ("install", "i", "ci", "add", "update", "upgrade", "up")


def node_packages(call: ProgramCall) -> ShellStream | None:
    """npm, yarn, pnpm, bun: scripts of package.json, and packages that bring their own."""
    if call.name in ("npm", "yarn", "pnpm"):
        cloud_clis.judge(call)
    args = [text for text in call.args if not text.startswith("-")]
    verb = args[0] if args else "install"
    if call.name in ("npx", "bunx") or verb in ("exec", "x", "dlx", "create"):
        return _package_run(call)
    if verb in _HARMLESS_NPM:
        return None
    if verb in _INSTALLING:
        call.add_effect(EffectKind.FETCHES, ("registry",))
        if any(map(fetched.foreign, args[1:])):
            call.ask("runs-fetched", fetched.RUNS, contained=True)
    elif verb in ("run", "run-script"):
        cloud_clis.migrations(call)
    dataflow.judge_code_folder(call, call.cwd)
    return None


def _package_run(call: ProgramCall) -> ShellStream | None:
    options = CommandOptions(call.words, "pcw", "package call workspace", stop=call.name in ("npx", "bunx"))
    call.add_effect(EffectKind.FETCHES, ("registry",))
    call.add_effect(EffectKind.RUNS, ("registry", call.cwd))
    for word in options.option_values("c", "call"):
        call.judge_script(word.text)
    packages = options.option_values("p", "package") or options.operands[0 if call.name in ("npx", "bunx") else 1 :][:1]
    if any(fetched.foreign(word.text, package=True) for word in packages):
        fetched.asked(call)
    rest = options.operands if call.name in ("npx", "bunx") else options.operands[1:]
    return call.judge_program(rest) if rest else None


_CHANGING = ("install", "sync", "add", "lock", "update", "build", "publish", "pip", "upgrade", "remove", "tool", "push")
_RUN_NAMED = "with python env-file extra group package directory project name prefix env from spec"
_RUNNERS = ("uvx", "pipx", "dotenv", "rbenv", "pyenv")


def project_runner(call: ProgramCall) -> ShellStream | None:
    """uv run, poetry run, pipenv run, hatch run, pdm run, bundle exec, rye run, dotenv run, conda run."""
    args = call.args
    verb = next((text for text in args if not text.startswith("-")), "")
    at = 0 if call.name == "uvx" else args.index(verb) + 1 if verb else len(args)
    if verb in ("run", "exec", "tool") or call.name in _RUNNERS:
        return _project_run(call, verb, call.words[at:])
    if verb in _CHANGING:
        _project_changed(call, verb)
    return None


def _project_changed(call: ProgramCall, verb: str) -> None:
    """Packages added to a project, or the project itself published."""
    call.add_effect(EffectKind.FETCHES, ("registry",))
    call.add_effect(EffectKind.RUNS, (call.cwd,))
    if verb in ("publish", "push"):
        call.ask("publishes", "it publishes, or takes back what was published")
    if any(map(fetched.foreign, call.args)) and verb in ("add", "pip"):
        call.ask("runs-fetched", fetched.RUNS, contained=True)


def _project_run(call: ProgramCall, verb: str, rest: Sequence[Word]) -> ShellStream | None:
    if verb == "tool" and rest:
        rest = rest[1:]
    options = CommandOptions(rest, "pwemngC", _RUN_NAMED, stop=True)
    call.add_effect(EffectKind.RUNS, (call.cwd,))
    operands = options.operands
    if call.name in ("pipx", "uvx") or verb == "tool":
        call.add_effect(EffectKind.FETCHES, ("registry",))
        operands = _without_version(operands)
    named = [*options.option_values("from", "spec", "with"), *(() if verb == "exec" else options.operands[:1])]
    if any(fetched.foreign(word.text) for word in named):
        fetched.asked(call)
        return None
    if call.name == "bundle" or (operands and verb != "exec"):
        return call.judge_program(operands)
    return None


_VERSION = re.compile(r"[@=<>~!].*", re.DOTALL)
"""What may stand behind the name of a package that is run: `ruff@latest`, `ruff==0.1`."""


def _without_version(operands: list[Word]) -> list[Word]:
    """The words with the name of the program in the place of the package that brings it."""
    if not operands:
        return operands
    first, *rest = operands
    return [Word(_VERSION.sub("", first.text), first.dynamic, labels=first.labels), *rest]


_OTHER_INDEX = ("--index-url", "--extra-index-url", "-i", "--trusted-host", "--find-links", "-f", "--proxy")
_FROM_ADDRESS = re.compile(r"(git\+|hg\+|svn\+|bzr\+)?https?://|git\+|ssh://|\S+ @ ")


def pip(call: ProgramCall) -> ShellStream | None:
    """pip: installing runs what the packages bring."""
    args = call.args
    if {"install", "download", "wheel"} & set(args):
        call.add_effect(EffectKind.FETCHES, ("registry",))
        call.add_effect(EffectKind.RUNS, ("registry", call.cwd))
        if any(map(_FROM_ADDRESS.match, args)) or any(text.startswith(_OTHER_INDEX) for text in args):
            call.ask("runs-fetched", fetched.RUNS, contained=True)
    elif "config" in args and {"set", "edit", "unset"} & set(args):
        call.ask("hijack", "it changes where packages come from", effect=EffectKind.PERSISTS, targets=("pip.conf",))
    return None


_MAKEFILES = ("Makefile", "makefile", "GNUmakefile", "justfile", "build.ninja")


def make(call: ProgramCall) -> ShellStream | None:
    """make, just, ninja: recipes of a file; `--eval` and SHELL= are code on the command line."""
    options = call.parse_options("fCIjlo", "file makefile directory eval include-dir jobs")
    files = options.option_values("f", "file", "makefile")
    folders = options.option_values("C", "directory")
    place = call.resolve_path(folders[0]) if folders else call.cwd
    dataflow.judge_code_folder(call, place)
    for word in files:
        _make_file(call, word)
    for word in options.option_values("eval", "E"):
        _recipes(call, ShellStream(word.text))
    for name in _MAKEFILES if not files and call.state.files else ():
        held = call.state.files.get(f"{place}/{name}", UNKNOWN_STREAM)
        if held.text is not None:
            _recipes(call, held)
    return None


def _make_file(call: ProgramCall, word: Word) -> None:
    held = dataflow.file_content(call, word)
    dataflow.judge_run_file(call, call.resolve_path(word), script=False)
    if word.text.startswith(("-", "/dev/")) or held.text is not None:
        _recipes(call, held)


def _recipes(call: ProgramCall, stream: ShellStream) -> None:
    if stream.text is None:
        if call.fed or stream.labels:
            call.ask("unknown-command", "the recipes are only known at run time")
        return
    for line in stream.text.splitlines()[:500]:
        recipe = (
            line.partition(";")[2] if re.match(r"[\w. %-]+:[^=]*;", line) else line if line.startswith("\t") else ""
        )
        shelled = re.findall(r"\$\(shell ([^()]{1,500})\)|!=\s*(.{1,500})", line)
        for text in [recipe.lstrip("\t@-+ "), *(one or other for one, other in shelled)]:
            if text:
                call.judge_script(text.replace("$$", "$"), lost=True)


def editor(call: ProgramCall) -> ShellStream | None:
    """vim, emacs, nano: commands given to an editor, some of which start programs, and the files that it writes."""
    letters = {"emacs": "flL", "nano": "oQrTYX"}.get(call.name, "cSuTwWi")
    options = call.parse_options(letters, "cmd eval load startuptime execute")
    spoken = [word for word in call.words if word.text.startswith("+") and len(word.text) > 1]
    for word in [*options.option_values("c", "cmd", "eval", "execute"), *spoken]:
        _editor_command(call, word.text.removeprefix("+"))
    if call.name == "ex":
        _editor_command(call, call.stdin.text or "")
    for word in options.option_values("S", "u", "l", "load"):
        dataflow.judge_run_file(call, call.resolve_path(word), script=False)
        call.add_effect(EffectKind.RUNS, (call.resolve_path(word),))
    if call.name != "view" and not options.has_option("R", "help", "version"):
        for word in options.operands:
            if not word.text.startswith("+"):
                call.judge_write(call.resolve_path(word))
    return None


_EDITOR_CODE = re.compile(
    r"system\s*\(|shell-command|\b(py3?|python\w*|lua\w*|perl|ruby|term(inal)?)\s|(call|start)-process|delete\s*\(|"
    r"delete-(file|directory)|writefile"
)


def _editor_command(call: ProgramCall, text: str) -> None:
    for line in text.splitlines()[:50]:
        bang = re.search(r"(?:^|\|)\s*:?(?:%|r|w|read|write|silent|sil)?\s*!\s*(.+)", line)
        if bang:
            call.judge_script(bang[1], lost=True)
            call.ask("nested-program", "an editor starts a command")
        elif _EDITOR_CODE.search(line):
            call.ask("program-text", "an editor starts programs, deletes or writes files")
        written = re.search(r"(?:^|\|)\s*:?w(?:rite)?!?\s+(?!q)(\S+)", line)
        if written:
            call.judge_write(call.resolve_path(Word(written[1])))


_AWK_STARTS = re.compile(
    r'system\s*\(\s*"((?:[^"\\]|\\.){0,500})"\s*\)|"((?:[^"\\]|\\.){1,500})"\s*\|&?\s*getline|\|&?\s*"((?:[^"\\]|\\.){1,500})"'
)
_AWK_SHELLS = re.compile(r"system\s*\(|\|&?\s*getline|\|&?\s*\"(?!sort|cat|head|uniq|wc|column)|/inet/(tcp|udp)")
_AWK_WRITES = re.compile(r'print[^;}\n]{0,300}?>>?\s*"([^"]{1,300})"')
_AWK_JOINED = re.compile(r'print[^;}\n]{0,300}?>>?\s*\(?\s*ENVIRON\["HOME"\]\s*"([^"]{1,300})"')


def awk(call: ProgramCall) -> ShellStream | None:
    """awk: its program may start commands and write files."""
    options = call.parse_options("fvFeil", "file assign field-separator source exec load include")
    programs = list(options.option_values("e", "source"))
    operands = options.operands
    if not programs and not options.option_values("f", "file") and operands:
        programs, operands = [operands[0]], operands[1:]
    for word in options.option_values("f", "file", "exec"):
        call.add_effect(EffectKind.RUNS, (call.resolve_path(word),))
        held = dataflow.judge_run_file(call, call.resolve_path(word), script=False)
        programs += [Word(held.text)] if held is not None and held.text is not None else []
    for word in programs:
        _awk_program(call, word.text[:20_000])
    return None


def _awk_program(call: ProgramCall, text: str) -> None:
    if reason := find_exhaustion(text):
        call.ask("bomb", reason)
    for found in _AWK_STARTS.finditer(text):
        call.judge_script((found[1] or found[2] or found[3] or "").replace('\\"', '"'), lost=True)
    if _AWK_SHELLS.search(text):
        call.ask("nested-program", "an awk program starts commands")
    for found in _AWK_WRITES.finditer(text):
        call.judge_write(call.resolve_path(Word(found[1])))
    for found in _AWK_JOINED.finditer(text):
        call.judge_write(call.resolve_path(Word(f"{call.host.places.home}{found[1]}")))


def patched(call: ProgramCall) -> None:
    """ed, patch: the file that is changed by what comes in, and the commands that `ed` starts."""
    for word in call.parse_options("pioBdDFgrVxYz").operands[:1]:
        call.judge_write(call.resolve_path(word))
    for line in (call.stdin.text or "").splitlines() if call.name == "ed" else ():
        if line.startswith("!"):
            call.judge_script(line[1:], lost=True)


def compiled(call: ProgramCall) -> None:
    """gcc, clang, rustc: they write what may be run next."""
    for word in call.parse_options("oILlDfWxOmgstu").option_values("o"):
        call.judge_write(call.resolve_path(word))


RULES: dict[str, Rule] = {
    "go": go,
    "npm yarn pnpm bun-install npx bunx": node_packages,
    "uv uvx poetry pipenv hatch pdm rye pipx bundle dotenv": project_runner,
    "pip pip3": pip,
    "make gmake just": make,
    "vi vim nvim ex view gvim nano emacs": editor,
    "ed patch": patched,
    "awk gawk mawk nawk": awk,
    "gcc cc g++ clang clang++ rustc tcc": compiled,
}

"""Programs that take the code they run out of files: which files, or the folders in which they are found."""

import re
from collections.abc import Callable

from hermes.safety import flow
from hermes.safety.call import Call, Options
from hermes.safety.code import without_end
from hermes.safety.findings import EffectKind
from hermes.safety.words import UNTOLD, Stream, Word
from hermes.safety.words import words as word_set

Rule = Callable[[Call], Stream | None]


def folder(call: Call) -> None:
    """Programs whose settings and plug-ins in the folder are code: test runners, builders, linters."""
    flow.runs_folder(call, call.cwd)


_HARMLESS_NPM = word_set(
    "ls list view info outdated audit help version whoami search ping docs root prefix bin config get why explain"
)


def node_packages(call: Call) -> Stream | None:
    """npm, yarn, pnpm, bun: scripts of package.json, and packages that bring their own."""
    from hermes.safety.rules import remote

    if call.name in ("npm", "yarn", "pnpm"):
        remote.verbs(call)
    args = [text for text in call.args if not text.startswith("-")]
    verb = args[0] if args else "install"
    if call.name in ("npx", "bunx") or verb in ("exec", "x", "dlx", "create"):
        return _package_run(call, verb)
    if verb in _HARMLESS_NPM:
        return None
    if verb in ("install", "i", "ci", "add", "update", "upgrade", "up"):
        call.effect(EffectKind.FETCHES, ("registry",))
        if any(re.match(r"(git\+|https?://|git@|github:)", text) for text in args[1:]):
            call.ask("runs-fetched", "it installs and runs a package from an address", contained=True)
        if verb in ("install", "i", "add") and any(text.startswith("--registry") for text in call.args):
            call.ask("runs-fetched", "it installs packages from another registry", contained=True)
    flow.runs_folder(call, call.cwd)
    return None


def _package_run(call: Call, verb: str) -> Stream | None:
    options = Options(call.words, "pcw", word_set("package call workspace"), stop=call.name in ("npx", "bunx"))
    call.effect(EffectKind.FETCHES, ("registry",))
    call.effect(EffectKind.RUNS, ("registry", call.cwd))
    for word in options.all("c", "call"):
        call.script(word.text)
    rest = options.operands if call.name in ("npx", "bunx") else options.operands[1:]
    del verb
    return call.run(rest) if rest else None


def project_runner(call: Call) -> Stream | None:
    """uv run, poetry run, pipenv run, hatch run, pdm run, bundle exec, rye run, dotenv run, conda run."""
    args = call.args
    verb = next((text for text in args if not text.startswith("-")), "")
    at = args.index(verb) + 1 if verb else len(args)
    if verb in ("run", "exec", "tool") or call.name in ("uvx", "pipx", "dotenv", "rbenv", "pyenv"):
        rest = call.words[at:]
        if verb == "tool" and rest:
            rest = rest[1:]
        options = Options(
            rest,
            "pwemngC",
            word_set("with python env-file extra group package directory project name prefix env from"),
            stop=True,
        )
        call.effect(EffectKind.RUNS, (call.cwd,))
        if call.name in ("pipx", "uvx") or verb == "tool":
            call.effect(EffectKind.FETCHES, ("registry",))
        return call.run(options.operands) if (options.operands and verb != "exec") or call.name == "bundle" else None
    if verb in ("install", "sync", "add", "lock", "update", "build", "publish", "pip", "upgrade", "remove", "tool"):
        call.effect(EffectKind.FETCHES, ("registry",))
        call.effect(EffectKind.RUNS, (call.cwd,))
        if verb == "publish":
            call.ask("publishes", "it publishes, or takes back what was published")
    return None


def pip(call: Call) -> Stream | None:
    """pip: installing runs what the packages bring."""
    args = call.args
    if "install" in args or "download" in args or "wheel" in args:
        call.effect(EffectKind.FETCHES, ("registry",))
        call.effect(EffectKind.RUNS, ("registry", call.cwd))
        addressed = any(re.match(r"(git\+|hg\+|svn\+)?https?://|git\+", text) for text in args)
        if addressed or any(
            text.startswith(("--index-url", "--extra-index-url", "-i", "--trusted-host", "--find-links"))
            for text in args
        ):
            call.ask("runs-fetched", "it installs and runs a package from an address", contained=True)
    elif "config" in args and ("set" in args or "edit" in args or "unset" in args):
        call.effect(EffectKind.PERSISTS, ("pip.conf",))
        call.ask("hijack", "it changes where packages come from")
    elif "uninstall" in args and ("-r" in args or any(word.dynamic for word in call.words)):
        call.ask("packages", "it removes programs that others may need")
    return None


def make(call: Call) -> Stream | None:
    """make, just, ninja: recipes of a file; `--eval` and SHELL= are code on the command line."""
    options = call.options("fCIjlo", word_set("file makefile directory eval include-dir jobs"))
    files = options.all("f", "file", "makefile")
    folders = options.all("C", "directory")
    place = call.path(folders[0]) if folders else call.cwd
    flow.runs_folder(call, place)
    for word in files:
        held = flow.looked_up(call, word)
        if word.text == "-" or word.text.startswith("/dev/"):
            _recipes(call, held)
        else:
            flow.runs_file(call, call.path(word), script=False)
            _recipes(call, held) if held.text is not None else None
    for word in options.all("eval", "E"):
        _recipes(call, Stream(word.text))
    for word in options.operands:
        if re.match(r"SHELL=|\.SHELLFLAGS=", word.text):
            call.ask("nested-program", "make is told to start another program")
    if not files:
        for name in ("Makefile", "makefile", "GNUmakefile", "justfile", "build.ninja"):
            held = call.state.files.get(f"{place}/{name}", UNTOLD)
            if held.text is not None:
                _recipes(call, held)
    return None


def _recipes(call: Call, stream: Stream) -> None:
    if stream.text is None:
        if call.fed or stream.labels:
            call.ask("unknown-command", "the recipes are only known when it runs")
        return
    for line in stream.text.splitlines()[:500]:
        recipe = (
            line.partition(";")[2] if re.match(r"[\w. %-]+:[^=]*;", line) else line if line.startswith("\t") else ""
        )
        shelled = re.findall(r"\$\(shell ([^()]{1,500})\)|!=\s*(.{1,500})", line)
        for text in [recipe.lstrip("\t@-+ "), *(one or other for one, other in shelled)]:
            if text:
                call.script(text.replace("$$", "$"), lost=True)


def editor(call: Call) -> Stream | None:
    """vim, less, man, emacs: commands given to an editor or pager, some of which start programs."""
    if call.name in ("vi", "vim", "nvim", "ex", "view", "gvim", "nano", "emacs"):
        options = call.options(
            "cSuTwWi" if call.name != "emacs" else "flL", word_set("cmd eval load startuptime execute")
        )
        for word in [
            *options.all("c", "cmd", "eval", "execute"),
            *[w for w in call.words if w.text.startswith("+") and len(w.text) > 1],
        ]:
            _editor_command(call, word.text.removeprefix("+"))
        for word in options.all("S", "u", "l", "load"):
            flow.runs_file(call, call.path(word), script=False)
            call.effect(EffectKind.RUNS, (call.path(word),))
        for word in options.operands:
            if not word.text.startswith("+") and (
                "-es" in call.args or "-e" in call.args or "-Es" in call.args or call.name == "ex"
            ):
                call.writes(call.path(word))
        if call.fed and call.name in ("ex", "vim") and call.stdin.text:
            _editor_command(call, call.stdin.text)
        return None
    for text in call.args:
        if text.startswith("+") and "!" in text:
            call.script(text.partition("!")[2], lost=True)
            call.ask("nested-program", "a pager is told to start a command")
    options = call.options("PHL", word_set("pager html"))
    for word in options.all("P", "pager", "html") if call.name == "man" else []:
        call.script(word.text, lost=True)
    return None


def _editor_command(call: Call, text: str) -> None:
    for line in text.splitlines()[:50]:
        bang = re.search(r"(?:^|\|)\s*:?(?:%|r|w|read|write|silent|sil)?\s*!\s*(.+)", line)
        if bang:
            call.script(bang[1], lost=True)
            call.ask("nested-program", "an editor is told to start a command")
        elif re.search(
            r"system\s*\(|shell-command|py3?\s|python|lua\s|call-process|term(inal)?\s|start-process|luado|"
            r"perl\s|ruby\s",
            line,
        ):
            call.ask("nested-program", "an editor is told to start a command")
        elif re.search(r"delete\s*\(|delete-file|delete-directory|writefile", line):
            call.ask("program-text", "an editor is told to delete or write files")
        written = re.search(r"(?:^|\|)\s*:?w(?:rite)?!?\s+(?!q)(\S+)", line)
        if written:
            call.writes(call.path(Word(written[1])))


def ed(call: Call) -> Stream | None:
    """ed, patch: files changed by what comes in."""
    for word in call.options("pioBdDFgrVxYz").operands[:1]:
        call.writes(call.path(word))
    if call.name == "ed" and call.fed and call.stdin.text:
        for line in call.stdin.text.splitlines():
            if line.startswith("!") or re.match(r"[rw]\s*!", line):
                call.script(line.partition("!")[2], lost=True)
    return None


def awk(call: Call) -> Stream | None:
    """awk: its program may start commands and write files."""
    options = call.options("fvFe", word_set("file assign field-separator source exec load include"))
    programs = list(options.all("e", "source"))
    operands = options.operands
    if not programs and not options.all("f", "file") and operands:
        programs, operands = [operands[0]], operands[1:]
    for word in options.all("f", "file", "exec"):
        held = flow.looked_up(call, word)
        call.effect(EffectKind.RUNS, (call.path(word),))
        if held.text is not None:
            programs.append(Word(held.text))
        elif held.labels:
            call.ask("remote-exec", "it runs what it downloads or decodes")
    for word in programs:
        text = word.text
        if reason := without_end(text):
            call.ask("bomb", reason)
        for found in re.finditer(
            r'system\s*\(\s*"((?:[^"\\]|\\.){0,500})"\s*\)|"((?:[^"\\]|\\.){1,500})"\s*\|&?\s*getline|\|&?\s*"((?:[^"\\]|\\.){1,500})"',
            text[:20_000],
        ):
            call.script((found[1] or found[2] or found[3]).replace('\\"', '"'), lost=True)
        if re.search(r"system\s*\(|\|&?\s*getline|\|&?\s*\"(?!sort|cat|head|uniq|wc|column)", text) or re.search(
            r"/inet/(tcp|udp)", text
        ):
            call.ask("nested-program", "an awk program starts commands")
        for found in re.finditer(r'print[^;}\n]{0,300}?>>?\s*"([^"]{1,300})"', text[:20_000]):
            call.writes(call.path(Word(found[1])))
    if "inplace" in call.args:
        for word in operands:
            call.writes(call.path(word))
    return None


def compiled(call: Call) -> Stream | None:
    """gcc, rustc, go build: they read the folder, and write what may be run next."""
    options = call.options("oILlDfWxOmgstu")
    for word in options.all("o"):
        path = call.path(word)
        call.writes(path)
        if call.fed or any(
            flow.looked_up(call, one).text is not None or flow.looked_up(call, one).labels for one in options.operands
        ):
            call.state.files[path] = Stream(
                None, frozenset(label for one in options.operands for label in flow.looked_up(call, one).labels)
            )
    return None


def infrastructure(call: Call) -> Stream | None:
    """ansible: modules that run commands everywhere."""
    options = call.options("imabeltuf", word_set("inventory module-name args extra-vars limit tags"))
    call.effect(
        EffectKind.RUNS,
        [call.path(word) for word in options.operands if word.text.endswith((".yml", ".yaml"))] or [call.cwd],
    )
    modules = [word.text for word in options.all("m", "module-name")]
    if any(name in ("shell", "command", "raw", "script", "ansible.builtin.shell") for name in modules) or (
        not modules and options.all("a", "args") and call.name == "ansible"
    ):
        for word in options.all("a", "args"):
            call.script(word.text, lost=True)
    elif any("state=absent" in word.text for word in options.all("a", "args")):
        call.ask("remote-loss", "it deletes or stops what others may need")
    if options.has("b", "become") and call.name == "ansible":
        call.ask("privilege", "it runs with another user's rights")
    return None


def watcher(call: Call) -> Stream | None:
    """nodemon, watchexec, entr: what they start each time."""
    for word in call.options("xe", word_set("exec watch ext")).all("x", "exec"):
        call.script(word.text)
    call.effect(EffectKind.RUNS, (call.cwd,))
    return None


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        word_set(
            """
            pytest tox nox cargo go gradle gradlew mvn ant rake rails cmake meson bazel sbt dotnet swift mix rebar3
            stack cabal composer grunt gulp
            webpack vite rollup eslint prettier jest vitest mocha tsc next nuxt pre-commit mypy ruff black isort
            pylint flake8 scons buck2
            terraform-plan invoke fab phpunit rspec bundle-exec jekyll hugo sphinx-build mkdocs django-admin flask
            uvicorn gunicorn celery
            streamlit jupyter ipython coverage lerna nx turbo playwright cypress alembic-run ctest ninja nmake
            xcodebuild pod
            """
        ),
        folder,
    ),
    **dict.fromkeys(("npm", "yarn", "pnpm", "bun-install", "npx", "bunx"), node_packages),
    **dict.fromkeys(
        ("uv", "uvx", "poetry", "pipenv", "hatch", "pdm", "rye", "pipx", "bundle", "dotenv"), project_runner
    ),
    **dict.fromkeys(("pip", "pip3"), pip),
    **dict.fromkeys(("make", "gmake", "just"), make),
    **dict.fromkeys(("vi", "vim", "nvim", "ex", "view", "gvim", "nano", "emacs", "man"), editor),
    **dict.fromkeys(("ed", "patch"), ed),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), awk),
    **dict.fromkeys(("gcc", "cc", "g++", "clang", "clang++", "rustc", "tcc"), compiled),
    **dict.fromkeys(("ansible", "ansible-playbook"), infrastructure),
    **dict.fromkeys(("nodemon", "watchexec", "chokidar", "fswatch"), watcher),
}

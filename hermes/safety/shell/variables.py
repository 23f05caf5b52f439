"""Variable assignments: their effect on the shell's state, and variables that change which code other programs run."""

from collections.abc import Sequence

from tree_sitter import Node

from hermes.i18n.messages import N_
from hermes.safety.globs import quote_argv
from hermes.safety.paths import is_or_below
from hermes.safety.shell.call import AnalysisHost, is_temporary, resolve_path
from hermes.safety.shell.findings import EffectKind, Verdict
from hermes.safety.shell.syntax import node_text
from hermes.safety.shell.walker import ShellWalker
from hermes.safety.shell.words import EMPTY_STREAM, NO_LABELS, AnalysisState, Word, path_basename, word_set

_HIJACKING = word_set("""
    LD_PRELOAD LD_AUDIT BASH_ENV ENV DYLD_INSERT_LIBRARIES PYTHONSTARTUP PYTHONHOME GIT_CONFIG_COUNT GIT_CONFIG_GLOBAL
    GIT_CONFIG_SYSTEM GIT_TEMPLATE_DIR GIT_EXEC_PATH PROMPT_COMMAND PERL5DB GCONV_PATH TAR_OPTIONS SHELLOPTS BASHOPTS
    GIT_CONFIG_PARAMETERS GIT_PROXY_COMMAND LESSOPEN LESSCLOSE PYTHONBREAKPOINT PYTHONINSPECT
""")
_HIJACKING_GROUPS = ("GIT_CONFIG_KEY", "GIT_CONFIG_VALUE", "BASH_FUNC_")
_PROGRAMS = word_set("""
    GIT_SSH_COMMAND GIT_SSH GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS GIT_PAGER GIT_EDITOR PAGER EDITOR
    GIT_SEQUENCE_EDITOR VISUAL BROWSER MANPAGER RSYNC_RSH CVS_RSH SYSTEMD_PAGER SYSTEMD_EDITOR KUBE_EDITOR
    RIPGREP_CONFIG_PATH
""")
_HARMLESS_PROGRAMS = word_set(
    "ssh cat less more true false vim vi nvim nano emacs code bat most echo : head tail delta open xdg-open bash"
)
_FOLDERS = word_set(
    "PYTHONPATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH PERL5LIB RUBYLIB NODE_PATH CLASSPATH GEM_PATH PATH "
    "LUA_PATH LUA_CPATH GUILE_LOAD_PATH JULIA_LOAD_PATH R_LIBS GEM_HOME MAKEFILES BUNDLE_GEMFILE PHPRC GOPATH"
)
_OPTION_LISTS: dict[str, tuple[str, ...]] = {
    "NODE_OPTIONS": ("--require", "-r ", "--import", "--loader", "--experimental-loader", "--inspect"),
    "RUBYOPT": ("-r", "-e", "-I"),
    "PERL5OPT": ("-M", "-e", "-I", "-d"),
    "JAVA_TOOL_OPTIONS": ("-javaagent", "-agent"),
    "_JAVA_OPTIONS": ("-javaagent", "-agent"),
    "JDK_JAVA_OPTIONS": ("-javaagent", "-agent"),
}
_HISTORY = word_set("HISTFILE HISTSIZE HISTFILESIZE HISTCONTROL SAVEHIST")


def judge_assignment(host: ShellWalker, node: Node, state: AnalysisState) -> None:
    """Judge an assignment and store its value in the state."""
    name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name_node is None:
        return
    appends = any(child.type == "+=" for child in node.children)
    if name_node.type == "subscript":
        inner = name_node.child_by_field_name("name")
        host.expander.run_substitutions_inside(name_node, state)
        _assigned_value(host, value_node, state)
        _lose_elements(state, node_text(inner) if inner is not None else "")
        return
    name = state.resolve_name(node_text(name_node)) or node_text(name_node)
    if value_node is not None and value_node.type == "array":
        held = host.expander.expand_words(value_node.named_children, state)
        state.arrays[name] = [*state.arrays.get(name, []), *held] if appends else held
        state.variables.pop(name, None)
        return
    value = _assigned_value(host, value_node, state)
    before = state.variables.get(name) if appends else None
    if before is not None:
        value = Word(before.text + value.text, before.dynamic or value.dynamic, labels=before.labels | value.labels)
    set_variable(host, name, value, state)


def _assigned_value(host: ShellWalker, node: Node | None, state: AnalysisState) -> Word:
    return host.expander.expand_one(node, state) if node is not None else Word("")


def _lose_elements(state: AnalysisState, name: str) -> None:
    """Apply an assignment to an element of an array: what it holds is not followed any more."""
    state.arrays[name] = [Word("${" + name + "}", dynamic=True)]


def set_variable(host: AnalysisHost, name: str, value: Word, state: AnalysisState) -> None:
    """Judge a variable being set, and set it; an element of an array, where the name is one."""
    if "[" in name:
        _lose_elements(state, name.partition("[")[0])
        return
    if state.references and not (name := _resolve_reference(host, name, state)):
        return
    judge_variable(host, name, value, state)
    if len(value.text) > 65_536:
        value = Word("${" + name + "}", dynamic=True, labels=value.labels)
    state.variables[name] = Word(value.text, value.dynamic, labels=value.labels)
    state.arrays.pop(name, None)


def _resolve_reference(host: AnalysisHost, name: str, state: AnalysisState) -> str:
    """Return the variable that is set by a name."""
    target = state.resolve_name(name)
    if not target:
        reason = "which variable it sets is only known at run time"
        host.add_finding(Verdict.ASK, "hijack", reason, "", contained=True)
    return target


def add_reference(name: str, value: Word, state: AnalysisState) -> None:
    """Apply `declare -n NAME=VALUE`."""
    state.references[name] = value.text if value.text.isidentifier() and not value.dynamic else ""


def take_reference(host: ShellWalker, node: Node, state: AnalysisState) -> bool:
    """Apply an assignment that makes one variable a reference to another. Return whether it is one."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None or value is None or value.type == "array":
        return False
    add_reference(node_text(name), host.expander.expand_one(value, state), state)
    return True


def set_unknown_variable(host: AnalysisHost, name: str, labels: frozenset[str], state: AnalysisState) -> None:
    """Set a variable to a value that is only known at run time; for search paths of code that needs approval."""
    if name in _FOLDERS or name in _PROGRAMS or name in _OPTION_LISTS:
        _add_hijack(host, name, "")
    set_variable(host, name, Word("${" + name.partition("[")[0] + "}", dynamic=True, labels=labels), state)


def judge_variable(host: AnalysisHost, name: str, value: Word, state: AnalysisState) -> None:
    """Judge a variable's value for the programs that are started."""
    subject = "" if value.dynamic else quote_argv((f"{name}={value.text}",))
    if name == "HERMES_HOME":
        host.add_finding(Verdict.DENY, "own-policy", "it gives Hermes other settings", subject, contained=False)
    elif name in _HISTORY:
        if value.text in ("0", "") or name == "HISTFILE":
            host.add_finding(Verdict.ASK, "traces", "it turns off the history of commands", subject, contained=True)
    elif name in _HIJACKING or name.startswith(_HIJACKING_GROUPS):
        _add_hijack(host, name, subject)
    elif name in _PROGRAMS:
        _judge_program_variable(host, name, value, subject, state)
    elif name in _FOLDERS:
        _judge_folder_list(host, name, value, subject, state)
    elif any(option in value.text for option in _OPTION_LISTS.get(name, ())):
        _add_hijack(host, name, subject)


def _judge_program_variable(host: AnalysisHost, name: str, value: Word, subject: str, state: AnalysisState) -> None:
    """Judge a variable that names a program which others start."""
    words = value.text.split()
    if words and path_basename(words[0]) not in _HARMLESS_PROGRAMS:
        _add_hijack(host, name, subject)
    elif words:
        host.judge_script(value.text, state.copy(state.where.lose_track()), EMPTY_STREAM)


def _add_hijack(host: AnalysisHost, name: str, subject: str) -> None:
    host.add_finding(
        Verdict.ASK, "hijack", N_("{name} changes which code other programs run", name=name), subject, contained=True
    )


def _judge_folder_list(host: AnalysisHost, name: str, value: Word, subject: str, state: AnalysisState) -> None:
    parts = (part for part in value.text.split(":") if part and not part.startswith("$"))
    named = [resolve_path(part, state.where.current, host.places) for part in parts]
    if any(is_temporary(path + "/", host.places) for path in named) or (name == "PATH" and value.text.startswith(".:")):
        _add_hijack(host, name, subject)
    if named:
        host.add_effect(EffectKind.RUNS, (f"{name}={value.text}",), tuple(named))


def judge_initial_variables(host: AnalysisHost, state: AnalysisState) -> None:
    """Note the folders from which every command runs programs and modules, by the variables that the shell
    begins with: their content may have changed since they were set.
    """
    for name in sorted(_FOLDERS.intersection(state.variables)):
        parts = (part for part in state.variables[name].text.split(":") if part)
        folders = [resolve_path(part, state.where.current, host.places) for part in parts]
        places = host.places
        own = [one for one in folders if is_or_below(one, places.workspace) or is_temporary(f"{one}/", places)]
        if own:
            host.add_effect(EffectKind.RUNS, (f"{name}={':'.join(own)}",), tuple(own))


def read_variables(
    host: AnalysisHost, names: Sequence[str], text: str | None, labels: frozenset[str], state: AnalysisState
) -> None:
    """Apply `read NAMES`."""
    known = None if text is None else text.split("\n", 1)[0].split(None, max(len(names) - 1, 0))
    for at, name in enumerate(names):
        if known is None:
            set_unknown_variable(host, name, labels, state)
        else:
            set_variable(host, name, Word(known[at] if at < len(known) else "", labels=labels or NO_LABELS), state)

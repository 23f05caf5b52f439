"""Built-ins of the shell that change what comes after them: folders, names, variables, what runs in the end."""

import re

from hermes.safety.shell.call import ProgramCall, Rule
from hermes.safety.shell.words import DELETING, EMPTY_STREAM, ShellStream, Word


def bound(call: ProgramCall) -> ShellStream | None:
    """bind -x, hash -p, enable -f: other names and keys for programs."""
    if call.name == "bind":
        for word in call.words:
            if ":" in word.text:
                call.judge_script(word.text.partition(":")[2].strip().strip("'\""), lost=True)
    elif call.parse_options().has_option("p" if call.name == "hash" else "f"):
        call.ask("hijack", "it replaces a program with another")
    return None


def trapped(call: ProgramCall) -> ShellStream | None:
    """trap: its text is judged as things are now, and as they are in the end."""
    operands = [word for word in call.words if word.text not in ("-l", "-p", "--")]
    if len(operands) > 1 and operands[0].text not in ("-", ""):
        call.judge_script(operands[0].text)
        call.host.judge_at_exit(operands[0].text, call.state)
    return None


def aliased(call: ProgramCall) -> ShellStream | None:
    """alias NAME=TEXT: what it stands for is judged as if something followed it."""
    for word in call.words:
        name, equals, text = word.text.partition("=")
        if equals and name:
            first = text.split()[:1]
            call.judge_script(f"{text} ${{_given_}}" if first and first[0].rpartition("/")[2] in DELETING else text)
            call.state.functions[name] = text
    return None


def moved(call: ProgramCall) -> ShellStream | None:
    """cd, pushd, popd, chdir: where the next commands run."""
    where, variables = call.state.where, call.state.variables
    operands = [word for word in call.words if not re.fullmatch(r"-[LPe@n]+|--", word.text)]
    target = operands[-1] if operands else Word("-" if call.name in ("popd", "pushd") else "~")
    if re.match(r"[-+]\d*$", target.text):
        is_told = call.args == ["-"] and len(where.visited) == 2
        target = Word(where.visited[0] if is_told else "${OLDPWD}", dynamic=True)
    elif variables.get("CDPATH", Word("")).text and not re.match(r"\.{0,2}/|\.{1,2}$|~", target.text):
        target = Word(f"${{CDPATH}}/{target.text}", dynamic=True)
    where = where.change_folder(call.resolve_path(target))
    call.state.where = where.lose_track() if target.dynamic else where
    return EMPTY_STREAM


RULES: dict[str, Rule] = {"bind hash enable": bound, "trap": trapped, "alias": aliased, "cd pushd popd chdir": moved}

"""Built-ins of the shell that change what comes after them: folders, names, variables, what runs in the end."""

import re

from hermes.safety.shell.call import ProgramCall, Rule
from hermes.safety.shell.words import DELETING, EMPTY_STREAM, ShellStream


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
    state = call.state
    operands = [word for word in call.words if not re.fullmatch(r"-[LPe@n]+|--", word.text)]
    if call.name == "popd" or (operands and re.match(r"[-+]\d*$", operands[0].text)):
        state.where = state.where.lose_track()
        return EMPTY_STREAM
    target = operands[-1] if operands else None
    state.where = state.where.change_folder(call.resolve_path(target) if target is not None else call.host.places.home)
    if target is not None and target.dynamic:
        state.where = state.where.lose_track()
    return EMPTY_STREAM


RULES: dict[str, Rule] = {"bind hash enable": bound, "trap": trapped, "alias": aliased, "cd pushd popd chdir": moved}

"""Built-ins of the shell that change what comes after them: folders, names, variables, what runs in the end."""

import re
from collections.abc import Callable

from hermes.safety.shell import variables
from hermes.safety.shell.call import Call
from hermes.safety.shell.words import NONE, NOTHING, Stream
from hermes.safety.shell.words import words as word_set

Rule = Callable[[Call], Stream | None]
_DELETING = word_set("rm unlink shred rmdir srm del truncate")


def bound(call: Call) -> Stream | None:
    """bind -x, hash -p, enable -f: other names and keys for programs."""
    if call.name == "bind":
        for word in call.words:
            if ":" in word.text:
                call.script(word.text.partition(":")[2].strip().strip("'\""), lost=True)
    elif call.options().has("p" if call.name == "hash" else "f"):
        call.ask("hijack", "it puts another program in the place of one")
    return None


def trapped(call: Call) -> Stream | None:
    """trap: its text is judged as things are now, and as they are in the end."""
    operands = [word for word in call.words if word.text not in ("-l", "-p", "--")]
    if len(operands) > 1 and operands[0].text not in ("-", ""):
        call.script(operands[0].text)
        call.host.at_end(operands[0].text, call.state)
    return None


def aliased(call: Call) -> Stream | None:
    """alias NAME=TEXT: what it stands for is judged as if something followed it."""
    for word in call.words:
        name, equals, text = word.text.partition("=")
        if equals and name:
            first = text.split()[:1]
            call.script(f"{text} ${{_given_}}" if first and first[0].rpartition("/")[2] in _DELETING else text)
            call.state.functions[name] = text
    return None


def moved(call: Call) -> Stream | None:
    """cd, pushd, popd, chdir: where the next commands run."""
    state = call.state
    operands = [word for word in call.words if not re.fullmatch(r"-[LPe@n]+|--", word.text)]
    if call.name == "popd" or (operands and re.match(r"[-+]\d*$", operands[0].text)):
        state.where = state.where.lost()
        return NOTHING
    target = operands[-1] if operands else None
    state.where = state.where.to(call.path(target) if target is not None else call.host.places.home)
    if target is not None and target.dynamic:
        state.where = state.where.lost()
    return NOTHING


def waited(call: Call) -> Stream | None:
    """wait -p NAME."""
    for word in call.options("p").all("p"):
        variables.bind_given(call.host, word.text, NONE, call.state)
    return None


def parsed(call: Call) -> Stream | None:
    """getopts LETTERS NAME."""
    for name in ([call.args[1]] if len(call.args) > 1 else []) + ["OPTARG", "OPTIND"]:
        variables.bind_given(call.host, name, call.stdin.labels, call.state)
    return None


RULES: dict[str, Rule] = {
    **dict.fromkeys(("bind", "hash", "enable"), bound),
    "trap": trapped,
    "wait": waited,
    "getopts": parsed,
    "alias": aliased,
    **dict.fromkeys(("cd", "pushd", "popd", "chdir"), moved),
}

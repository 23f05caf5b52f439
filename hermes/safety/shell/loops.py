"""Loops of a shell text: their rounds, as far as they are constant, and those that take all there is of something."""

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from hermes.safety.shell import dataflow, variables
from hermes.safety.shell.findings import EffectKind, Simple, Verdict
from hermes.safety.shell.syntax import text_of
from hermes.safety.shell.walker import Walker
from hermes.safety.shell.words import ENDLESS, NONE, NOTHING, State, Stream, Word
from hermes.safety.shell.words import words as word_set

_MOST = 12
"""Values of a loop that are followed one by one."""
_WILD = re.compile(r"[*?\[]")
_ENDLESS = re.compile(
    r"(?:while\s+(?:true|:|1|/bin/true|(?:test|\[+)\s+(?:1|true|(\w+)\s*==?\s*\1)(?:\s*\]+)?|\(\(\s*1\s*\)\)|"
    r"sleep\s+0|!\s*(?:false|/bin/false))|"
    r"until\s+(?:false|/bin/false|!\s*true|(?:test|\[+)\s+(\w+)\s*==?\s*(?!\2\b)\w+(?:\s*\]+)?))(?=[\s;])"
    r"|for\s*\(\([^;]*;\s*;"
)
_MANY = re.compile(r"\d{4,}")
_COUNTED = re.compile(r"^for\s*\(\(|\bseq\b|\{-?\d+\.\.|\byes\b")
_PAUSE = re.compile(
    r"(?<![\w./-])(sleep(?!\s+0[\s;])|read|wait|break|exit|return|usleep|inotifywait|nc|fg|dialog|entr)(?![\w./-])"
)
"""What ends a loop, or makes it wait for something."""
_FILLING = word_set("mkdir touch cp dd fallocate mktemp truncate ln mkfifo split tar git")
_GROWS = re.compile(r"\b([A-Za-z_]\w*)(?:\+=|=[\"']?\$\{?\1\}?(?:.{0,20}\$\{?\1\b|[^;\s]))")


def over_values(walker: Walker, node: Node, state: State, stdin: Stream | None) -> Stream:
    """`for NAME in VALUES`, `select`."""
    variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
    if variable is None or body is None:
        return walker.statements(node, state, stdin)
    name = text_of(variable)
    values = walker.expander.words(node.children_by_field_name("value"), state)
    began = (len(walker.commands), walker.behind)
    told = len(values) <= _MOST and not any(word.dynamic or _WILD.search(word.text) for word in values)
    if told and walker.budget.unrolls(len(values)):
        out = NOTHING
        for word in values:
            variables.bind(walker, name, word, state)
            out = dataflow.joined(out, walker.visit(body, state, stdin))
    else:
        labels = NONE
        # Which value it has is not told; a few of them stand for all, so that a protected path among them is seen.
        for word in _instructive(values) or [Word("${" + name + "}")]:
            variables.bind(walker, name, Word(word.text, dynamic=True, labels=word.labels), state)
            labels |= walker.visit(body, state, stdin).labels
        out = Stream(None, labels)
    _judge(walker, node, body, began)
    return out


def _instructive(values: Sequence[Word]) -> list[Word]:
    """The few of many values that say most about what a loop does: paths out of the folder first."""
    return sorted(values, key=lambda word: not word.text.startswith(("/", "~", ".")))[:3]


def counted(walker: Walker, node: Node, state: State, stdin: Stream | None) -> Stream:
    """`for ((...; ...; ...))`."""
    body = node.child_by_field_name("body")
    if body is None:
        return NOTHING
    began = (len(walker.commands), walker.behind)
    walker.expander.visit_inside(node, state, without=body)
    out = walker.visit(body, state, stdin)
    _judge(walker, node, body, began)
    return _written(node, body, out)


def conditional(walker: Walker, node: Node, state: State, stdin: Stream | None) -> Stream:
    """`while`, `until`: what it reads is followed line by line where it is known."""
    conditions = [child for child in node.children_by_field_name("condition") if child.is_named]
    body = node.child_by_field_name("body")
    began = (len(walker.commands), walker.behind)
    out = NOTHING
    for given in _rounds(walker, conditions, stdin):
        for child in conditions:
            walker.visit(child, state, given)
        if body is not None:
            out = dataflow.joined(out, walker.visit(body, state, given))
    if body is not None:
        _judge(walker, node, body, began)
        return _written(node, body, out)
    return Stream(None, out.labels)


def _rounds(walker: Walker, conditions: Sequence[Node], stdin: Stream | None) -> Sequence[Stream | None]:
    """What each round is given to read: a line of its own where those are known, else all of it."""
    if stdin is None or stdin.text is None or not any("read" in text_of(child)[:80] for child in conditions):
        return [stdin]
    lines = stdin.text.splitlines()
    if 1 < len(lines) <= _MOST and walker.budget.unrolls(len(lines)):
        return [Stream(line, stdin.labels) for line in lines]
    return [stdin]


def _judge(walker: Walker, node: Node, body: Node, began: tuple[int, int]) -> None:
    """What a loop takes when it never ends, or ends late: processes, disk, memory."""
    head = _head(node, body)
    endless = _ENDLESS.match(head) is not None
    commands, behind = walker.commands[began[0] :], began[1]
    late = _MANY.search(head) and _COUNTED.search(head)
    if not (endless or late) or any(map(_PAUSE.search, (head, *_foreground(body)))):
        return
    if walker.behind > behind or any(map(_detaches, commands)):
        _take(walker, "bomb", "it starts processes without end")
    elif endless and any(map(_fills, commands)):
        _take(walker, "fills", "it fills the disk without end")
    elif endless and _GROWS.search(text_of(body)[:2000]):
        _take(walker, "bomb", "it takes memory without end")


def _head(node: Node, body: Node) -> str:
    """A loop's text up to its body."""
    return text_of(node)[: body.start_byte - node.start_byte][:400]


def _goes_on(node: Node, body: Node) -> bool:
    """Whether a loop never ends, and waits for nothing."""
    head = _head(node, body)
    return _ENDLESS.match(head) is not None and not any(map(_PAUSE.search, (head, *_foreground(body))))


def _written(node: Node, body: Node, out: Stream) -> Stream:
    """What a loop writes, all rounds together."""
    endless = (out.text or out.text is None) and _goes_on(node, body)
    return Stream(None, out.labels | ({ENDLESS} if endless else NONE))


_LEFT = re.compile(r"coproc\b|tmux\s.*\bnew|(ba|z|da|k)?sh\s.*&\s*['\"]?$")
"""What leaves something running that nobody waits for."""
_GROUPS = word_set(
    "do_group subshell compound_statement if_statement list else_clause elif_clause redirected_statement"
)
_MOST_STATEMENTS = 100


def _foreground(body: Node) -> Iterator[str]:
    """The statements of a loop for which it waits."""
    waiting = [body]
    for _ in range(_MOST_STATEMENTS):
        if not waiting:
            return
        node = waiting.pop()
        children = node.children
        for at, child in enumerate(children):
            if not child.is_named or (at + 1 < len(children) and children[at + 1].type == "&"):
                continue
            if child.type in _GROUPS:
                waiting.append(child)
            elif not _LEFT.match(text := text_of(child)[:2000]):
                yield text


_DETACHING: dict[str, str] = {
    # By program: words with which it leaves something running.
    "coproc": r"",
    "tmux": r".*\bnew\w*\b.*-\w*d",
    "screen": r"-\w*d\w*m",
    **dict.fromkeys(("docker", "podman"), r"run\b.*(-\w*d|--detach)"),
    "systemd-run": r"",
    "daemonize": r"",
}
_DETACHES = {name: re.compile(text) for name, text in _DETACHING.items()}


def _detaches(command: Simple) -> bool:
    """Whether a command leaves something running when it ends."""
    pattern = _DETACHES.get(command.argv[0])
    return pattern is not None and pattern.match(" ".join(command.argv[1:20])) is not None


def _fills(command: Simple) -> bool:
    """Whether a command leaves something on the disk."""
    name = command.argv[0].rpartition("/")[2]
    return name in _FILLING or (name == ">" and not command.argv[1].startswith(("/dev/", "/proc/", "/sys/")))


def _take(walker: Walker, rule: str, reason: str) -> None:
    walker.note(EffectKind.EXHAUSTS, (), ())
    walker.say(Verdict.ASK, rule, reason, "", contained=True)

"""Loops of a shell text: their rounds, as far as they are constant, and those that take all there is of something."""

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from hermes.safety import flow, variables
from hermes.safety.findings import EffectKind, Simple, Verdict
from hermes.safety.syntax import text_of
from hermes.safety.walker import Walker
from hermes.safety.words import NONE, NOTHING, State, Stream, Word
from hermes.safety.words import words as word_set

_MOST = 12
"""Values of a loop that are followed one by one."""
_WILD = re.compile(r"[*?\[]")
_ENDLESS = re.compile(
    r"(?:while\s+(?:true|:|1|/bin/true|\[+\s*(?:1|true)\s*\]+|\(\(\s*1\s*\)\))|until\s+(?:false|/bin/false))(?=[\s;])"
    r"|for\s*\(\([^;]*;\s*;"
)
_MANY = re.compile(r"\d{4,}")
_COUNTED = re.compile(r"^for\s*\(\(|\bseq\b|\{-?\d+\.\.|\byes\b")
_PAUSE = re.compile(r"(?<![\w./-])(sleep|read|wait|break|exit|return|usleep|inotifywait|nc|fg|dialog|entr)(?![\w./-])")
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
    began = len(walker.commands)
    told = len(values) <= _MOST and not any(word.dynamic or _WILD.search(word.text) for word in values)
    if told and walker.budget.unrolls(len(values)):
        out = NOTHING
        for word in values:
            variables.bind(walker, name, word, state)
            out = flow.joined(out, walker.visit(body, state, stdin))
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
    began = len(walker.commands)
    walker.expander.visit_inside(node, state, without=body)
    out = walker.visit(body, state, stdin)
    _judge(walker, node, body, began)
    return Stream(None, out.labels)


def conditional(walker: Walker, node: Node, state: State, stdin: Stream | None) -> Stream:
    """`while`, `until`: what it reads is followed line by line where it is known."""
    conditions = [child for child in node.children_by_field_name("condition") if child.is_named]
    body = node.child_by_field_name("body")
    began = len(walker.commands)
    out = NOTHING
    for given in _rounds(walker, conditions, stdin):
        for child in conditions:
            walker.visit(child, state, given)
        if body is not None:
            out = flow.joined(out, walker.visit(body, state, given))
    if body is not None:
        _judge(walker, node, body, began)
    return Stream(None, out.labels)


def _rounds(walker: Walker, conditions: Sequence[Node], stdin: Stream | None) -> Sequence[Stream | None]:
    """What each round is given to read: a line of its own where those are known, else all of it."""
    if stdin is None or stdin.text is None or not any("read" in text_of(child)[:80] for child in conditions):
        return [stdin]
    lines = stdin.text.splitlines()
    if 1 < len(lines) <= _MOST and walker.budget.unrolls(len(lines)):
        return [Stream(line, stdin.labels) for line in lines]
    return [stdin]


def _judge(walker: Walker, node: Node, body: Node, began: int) -> None:
    """What a loop takes when it never ends, or ends late: processes, disk, memory."""
    head = text_of(node)[: body.start_byte - node.start_byte][:400]
    endless = _ENDLESS.match(head) is not None
    late = _MANY.search(head) and _COUNTED.search(head)
    if not (endless or late) or any(map(_PAUSE.search, (head, *_foreground(body)))):
        return
    if any(child.type == "&" for child in body.children):
        _take(walker, "bomb", "it starts processes without end")
    elif endless and any(map(_fills, walker.commands[began:])):
        _take(walker, "fills", "it fills the disk without end")
    elif endless and _GROWS.search(text_of(body)[:2000]):
        _take(walker, "bomb", "it takes memory without end")


def _foreground(body: Node) -> Iterator[str]:
    """The statements of a loop for which it waits."""
    children = body.children
    for at, child in enumerate(children):
        if child.is_named and not (at + 1 < len(children) and children[at + 1].type == "&"):
            yield text_of(child)[:2000]


def _fills(command: Simple) -> bool:
    """Whether a command leaves something on the disk."""
    name = command.argv[0].rpartition("/")[2]
    return name in _FILLING or (name == ">" and not command.argv[1].startswith(("/dev/", "/proc/", "/sys/")))


def _take(walker: Walker, rule: str, reason: str) -> None:
    walker.note(EffectKind.EXHAUSTS, (), ())
    walker.say(Verdict.ASK, rule, reason, "", contained=True)

"""The statements of a shell text that are not loops: commands, pipes, functions, declarations."""

import re
from collections.abc import Callable, Sequence

from tree_sitter import Node

from hermes.safety.shell import dataflow, loops, redirects, variables
from hermes.safety.shell.call import Call
from hermes.safety.shell.findings import Verdict
from hermes.safety.shell.program_rules import judged
from hermes.safety.shell.syntax import text_of
from hermes.safety.shell.walker import Walker
from hermes.safety.shell.words import NOTHING, UNTOLD, State, Stream, Word
from hermes.safety.shell.words import words as word_set

MAX_WORDS = 1_000
"""Words of one command that are looked at."""
_CHANGE_THE_SHELL = word_set(
    "read mapfile readarray eval source . export declare typeset local readonly printf getopts"
)
"""Built-ins whose work stays; that the variables set before them do so too is no harm."""
_LOOKED_AT = 400
"""Nodes of a function's body in which a start of itself is looked for."""

_REFERRING = re.compile(r"-[a-zA-Z]*n")

Handler = Callable[[Walker, Node, State, Stream | None], Stream]


def command(walker: Walker, node: Node, state: State, stdin: Stream | None) -> Stream:
    """A simple command, with the variables that are set for it."""
    nodes: list[Node] = []
    assigned: list[Node] = []
    for child in node.children:
        match child.type:
            case "variable_assignment":
                assigned.append(child)
                if len(assigned) > MAX_WORDS:
                    break
            case "command_name":
                nodes += child.children if child.child_count == 1 else [child]
            case "herestring_redirect":
                stdin = redirects.herestring(walker, child, state)
            case "file_redirect":
                stdin = redirects.to_file(walker, child, state) or stdin
            case "number" if _is_descriptor(child):
                pass
            case "comment" | "heredoc_redirect":
                pass
            case _:
                nodes.append(child)
    return _run(walker, nodes, assigned, state, stdin)


def _run(walker: Walker, nodes: list[Node], assigned: list[Node], state: State, stdin: Stream | None) -> Stream:
    if len(nodes) + len(assigned) > MAX_WORDS:
        walker.unclear("the command has too many words to be judged")
        del nodes[MAX_WORDS:], assigned[MAX_WORDS:]
    words = walker.expander.words(nodes, state)
    state = _with_variables(walker, assigned, words, state) if assigned else state
    if not words and nodes and walker.budget.spent:
        walker.unclear("the command has too many parts to be judged")
    return walker.run(words, state, stdin) if words else NOTHING


def _with_variables(walker: Walker, assigned: Sequence[Node], words: Sequence[Word], state: State) -> State:
    """The state in which a command runs that has variables set before it; without a command they stay."""
    inner = state.copy(state.where) if words else state
    if words and words[0].text in _CHANGE_THE_SHELL:
        inner.variables, inner.arrays = state.variables, state.arrays
    for child in assigned:
        variables.assign(walker, child, inner)
    return inner


def _is_descriptor(number: Node) -> bool:
    """Whether a number belongs to the here-string behind it."""
    after = number.next_sibling
    return after is not None and after.type == "herestring_redirect" and after.start_byte == number.end_byte


def _pipeline(walker: Walker, node: Node, state: State, stdin: Stream | None) -> Stream:
    stream = stdin
    walker.aside += 1
    for child in node.named_children:
        if child.type != "comment":
            stream = walker.visit(child, state.copy(), stream)
    walker.aside -= 1
    return stream if stream is not None else UNTOLD


def _subshell(walker: Walker, node: Node, state: State, stdin: Stream | None) -> Stream:
    return walker.statements(node, state.copy(), stdin)


def _test(walker: Walker, node: Node, state: State, _: Stream | None) -> Stream:
    walker.expander.visit_inside(node, state)
    return NOTHING


def _case(walker: Walker, node: Node, state: State, stdin: Stream | None) -> Stream:
    value = node.child_by_field_name("value")
    if value is not None:
        walker.expander.one(value, state)
    out = NOTHING
    for item in node.named_children:
        if item.type == "case_item":
            out = dataflow.joined(out, walker.statements(item, state, stdin))
    return Stream(None, out.labels)


def _function(walker: Walker, node: Node, state: State, _: Stream | None) -> Stream:
    name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name_node is None or body is None:
        return NOTHING
    name = text_of(name_node)
    state.functions[name] = body
    if _starts_itself(name, body):
        walker.say(Verdict.DENY, "fork-bomb", "it starts itself without end", "", contained=False)
        return NOTHING
    walker.uncalled[name] = (body, state.copy())
    return NOTHING


def _starts_itself(name: str, body: Node) -> bool:
    """Whether a function starts itself beside itself: in a pipe, or in the background."""
    waiting: list[tuple[Node, bool]] = [(body, False)]
    seen = 0
    while waiting and seen < _LOOKED_AT:
        node, beside = waiting.pop()
        seen += 1
        if node.type == "command" and beside:
            named = node.child_by_field_name("name")
            if named is not None and text_of(named) == name:
                return True
        children = node.children
        for at, child in enumerate(children):
            if child.is_named:
                follows = at + 1 < len(children) and children[at + 1].type == "&"
                waiting.append((child, beside or node.type == "pipeline" or follows))
    return False


def _assignment(walker: Walker, node: Node, state: State, _: Stream | None) -> Stream:
    variables.assign(walker, node, state)
    return NOTHING


def _declaration(walker: Walker, node: Node, state: State, stdin: Stream | None) -> Stream:
    """`export`, `declare`, `local`, `readonly`, `unset`."""
    children = node.children
    name = text_of(children[0]) if children else ""
    rest: list[Node] = []
    refers = _refers(children)
    for child in children[1:]:
        if child.type == "variable_assignment" and not (refers and variables.refers(walker, child, state)):
            variables.assign(walker, child, state)
        elif child.is_named:
            rest.append(child)
    words = [
        Word(text_of(one)) if one.type == "variable_name" else word
        for one in rest
        for word in (walker.expander.words([one], state) or [Word("")])
    ]
    walker.met((name, *[word.text for word in words]), state)
    return judged(Call(name, words, state, stdin, walker))


def _refers(children: Sequence[Node]) -> bool:
    """Whether a declaration makes names stand for other variables."""
    return any(child.type == "word" and _REFERRING.match(text_of(child)) for child in children[1:])


def _nothing(*_: object) -> Stream:
    return NOTHING


def _each(walker: Walker, node: Node, state: State, stdin: Stream | None) -> Stream:
    return walker.statements(node, state, stdin)


HANDLERS: dict[str, Handler] = {
    "command": command,
    "redirected_statement": redirects.redirected,
    "pipeline": _pipeline,
    "subshell": _subshell,
    "variable_assignment": _assignment,
    "variable_assignments": _each,
    "declaration_command": _declaration,
    "unset_command": _declaration,
    "for_statement": loops.over_values,
    "while_statement": loops.conditional,
    "c_style_for_statement": loops.counted,
    "case_statement": _case,
    "function_definition": _function,
    "test_command": _test,
    "comment": _nothing,
}
"""What judges a statement, by its kind in the grammar; of other kinds the statements inside are judged."""

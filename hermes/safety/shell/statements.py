"""The statements of a shell text that are not loops: commands, pipes, functions, declarations."""

import re
from collections.abc import Callable, Sequence

from tree_sitter import Node

from hermes.safety.shell import dataflow, loops, redirects, variables
from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.findings import Verdict
from hermes.safety.shell.program_rules import judged
from hermes.safety.shell.syntax import node_text
from hermes.safety.shell.walker import ShellWalker
from hermes.safety.shell.words import EMPTY_STREAM, UNKNOWN_STREAM, AnalysisState, ShellStream, Word, word_set

MAX_WORDS = 1_000
"""Words of one command that are looked at."""
_SHELL_BUILTINS = word_set("read mapfile readarray eval source . export declare typeset local readonly printf getopts")
"""Built-ins whose effect on the shell stays; variables set before them may stay too."""
_MAX_BODY_NODES = 400
"""Nodes of a function's body in which a start of itself is looked for."""

_NAMEREF_OPTION = re.compile(r"-[a-zA-Z]*n")

StatementHandler = Callable[[ShellWalker, Node, AnalysisState, ShellStream | None], ShellStream]


def judge_simple_command(
    walker: ShellWalker, node: Node, state: AnalysisState, stdin: ShellStream | None
) -> ShellStream:
    """Judge a simple command, with the variables that are set for it."""
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
                stdin = redirects.read_herestring(walker, child, state)
            case "file_redirect":
                stdin = redirects.judge_file_redirect(walker, child, state) or stdin
            case "number" if _is_descriptor(child):
                pass
            case "comment" | "heredoc_redirect":
                pass
            case _:
                nodes.append(child)
    return _run_command(walker, nodes, assigned, state, stdin)


def _run_command(
    walker: ShellWalker, nodes: list[Node], assigned: list[Node], state: AnalysisState, stdin: ShellStream | None
) -> ShellStream:
    if len(nodes) + len(assigned) > MAX_WORDS:
        walker.add_unclear("the command has too many words to be judged")
        del nodes[MAX_WORDS:], assigned[MAX_WORDS:]
    words = walker.expander.expand_words(nodes, state)
    state = _with_variables(walker, assigned, words, state) if assigned else state
    if not words and nodes and walker.budget.spent:
        walker.add_unclear("the command has too many parts to be judged")
    return walker.judge_command(words, state, stdin) if words else EMPTY_STREAM


def _with_variables(
    walker: ShellWalker, assigned: Sequence[Node], words: Sequence[Word], state: AnalysisState
) -> AnalysisState:
    """Return the state in which a command runs that has variables set before it; without a command they stay."""
    inner = state.copy(state.where) if words else state
    if words and words[0].text in _SHELL_BUILTINS:
        inner.variables, inner.arrays = state.variables, state.arrays
    for child in assigned:
        variables.judge_assignment(walker, child, inner)
    return inner


def _is_descriptor(number: Node) -> bool:
    """Return whether a number belongs to the here-string behind it."""
    after = number.next_sibling
    return after is not None and after.type == "herestring_redirect" and after.start_byte == number.end_byte


def _judge_pipeline(walker: ShellWalker, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
    stream = stdin
    walker.concurrent_depth += 1
    for child in node.named_children:
        if child.type != "comment":
            stream = walker.visit(child, state.copy(), stream)
    walker.concurrent_depth -= 1
    return stream if stream is not None else UNKNOWN_STREAM


def _judge_subshell(walker: ShellWalker, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
    return walker.visit_statements(node, state.copy(), stdin)


def _judge_test(walker: ShellWalker, node: Node, state: AnalysisState, _: ShellStream | None) -> ShellStream:
    walker.expander.run_substitutions_inside(node, state)
    return EMPTY_STREAM


def _judge_case(walker: ShellWalker, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
    value = node.child_by_field_name("value")
    if value is not None:
        walker.expander.expand_one(value, state)
    out = EMPTY_STREAM
    for item in node.named_children:
        if item.type == "case_item":
            out = dataflow.join_streams(out, walker.visit_statements(item, state, stdin))
    return ShellStream(None, out.labels)


def _define_function(walker: ShellWalker, node: Node, state: AnalysisState, _: ShellStream | None) -> ShellStream:
    name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name_node is None or body is None:
        return EMPTY_STREAM
    name = node_text(name_node)
    state.functions[name] = body
    if _is_fork_bomb(name, body):
        walker.add_finding(Verdict.DENY, "fork-bomb", "it starts itself without end", "", contained=False)
        return EMPTY_STREAM
    walker.uncalled_functions[name] = (body, state.copy())
    return EMPTY_STREAM


def _is_fork_bomb(name: str, body: Node) -> bool:
    """Return whether a function starts itself concurrently: in a pipe, or in the background."""
    waiting: list[tuple[Node, bool]] = [(body, False)]
    seen = 0
    while waiting and seen < _MAX_BODY_NODES:
        node, beside = waiting.pop()
        seen += 1
        if node.type == "command" and beside:
            named = node.child_by_field_name("name")
            if named is not None and node_text(named) == name:
                return True
        children = node.children
        for at, child in enumerate(children):
            if child.is_named:
                follows = at + 1 < len(children) and children[at + 1].type == "&"
                waiting.append((child, beside or node.type == "pipeline" or follows))
    return False


def _judge_assignment(walker: ShellWalker, node: Node, state: AnalysisState, _: ShellStream | None) -> ShellStream:
    variables.judge_assignment(walker, node, state)
    return EMPTY_STREAM


def _judge_declaration(walker: ShellWalker, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
    """Judge `export`, `declare`, `local`, `readonly`, `unset`."""
    children = node.children
    name = node_text(children[0]) if children else ""
    rest: list[Node] = []
    refers = _is_nameref_declaration(children)
    for child in children[1:]:
        if child.type == "variable_assignment" and not (refers and variables.take_reference(walker, child, state)):
            variables.judge_assignment(walker, child, state)
        elif child.is_named:
            rest.append(child)
    words = [
        Word(node_text(one)) if one.type == "variable_name" else word
        for one in rest
        for word in (walker.expander.expand_words([one], state) or [Word("")])
    ]
    walker.add_command((name, *[word.text for word in words]), state)
    return judged(ProgramCall(name, words, state, stdin, walker))


def _is_nameref_declaration(children: Sequence[Node]) -> bool:
    """Return whether a declaration makes names stand for other variables."""
    return any(child.type == "word" and _NAMEREF_OPTION.match(node_text(child)) for child in children[1:])


def _ignore_statement(*_: object) -> ShellStream:
    return EMPTY_STREAM


def _visit_each(walker: ShellWalker, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
    return walker.visit_statements(node, state, stdin)


STATEMENT_HANDLERS: dict[str, StatementHandler] = {
    "command": judge_simple_command,
    "redirected_statement": redirects.judge_redirected,
    "pipeline": _judge_pipeline,
    "subshell": _judge_subshell,
    "variable_assignment": _judge_assignment,
    "variable_assignments": _visit_each,
    "declaration_command": _judge_declaration,
    "unset_command": _judge_declaration,
    "for_statement": loops.judge_for_loop,
    "while_statement": loops.judge_while_loop,
    "c_style_for_statement": loops.judge_counted_loop,
    "case_statement": _judge_case,
    "function_definition": _define_function,
    "test_command": _judge_test,
    "comment": _ignore_statement,
}
"""The handlers of statements, by their kind in the grammar; of other kinds the statements inside are judged."""

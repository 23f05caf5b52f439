"""The statements of a shell text: commands, pipes, functions, declarations, loops.

Loops are followed as far as their rounds are constant; a loop that exhausts a resource is a finding.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from tree_sitter import Node

from hermes.safety.shell import dataflow, redirects, variables
from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.findings import EffectKind, SimpleCommand, Verdict
from hermes.safety.shell.program_rules import judged
from hermes.safety.shell.syntax import node_text
from hermes.safety.shell.walker import ShellWalker
from hermes.safety.shell.words import (
    EMPTY_STREAM,
    NO_LABELS,
    UNKNOWN_STREAM,
    AnalysisState,
    Label,
    ShellStream,
    Word,
    word_set,
)

MAX_WORDS = 1_000
"""Words of one command that are looked at."""
_SHELL_BUILTINS = word_set("read mapfile readarray eval source . export declare typeset local readonly printf getopts")
"""Built-ins whose effect on the shell stays; variables set before them may stay too."""

_NAMEREF_OPTION = re.compile(r"-[a-zA-Z]*n")
"""The option of a declaration that makes names stand for other variables."""

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
    inner = _with_variables(walker, assigned, words, state) if assigned else state
    if not words and nodes and walker.budget.spent:
        walker.add_unclear("the command has too many parts to be judged")
    out = walker.judge_command(words, inner, stdin) if words else EMPTY_STREAM
    state.where = inner.where
    return out


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
    walker.uncalled_functions[name] = (body, state.copy())
    return EMPTY_STREAM


def _judge_assignment(walker: ShellWalker, node: Node, state: AnalysisState, _: ShellStream | None) -> ShellStream:
    variables.judge_assignment(walker, node, state)
    return EMPTY_STREAM


def _judge_declaration(walker: ShellWalker, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
    """Judge `export`, `declare`, `local`, `readonly`, `unset`."""
    children = node.children
    name = node_text(children[0]) if children else ""
    rest: list[Node] = []
    refers = _makes_reference(children)
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


def _makes_reference(children: Sequence[Node]) -> bool:
    return any(child.type == "word" and _NAMEREF_OPTION.match(node_text(child)) for child in children[1:])


_MAX_UNROLLED_VALUES = 12
"""Values of a loop that are followed one by one."""


WILDCARD = re.compile(r"[*?\[]")


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
"""Commands that end a loop, or make it wait for something."""


_FILLING = word_set("mkdir touch cp dd fallocate mktemp truncate ln mkfifo split tar git")


_GROWS = re.compile(r"\b([A-Za-z_]\w*)(?:\+=|=[\"']?\$\{?\1\}?(?:.{0,20}\$\{?\1\b|[^;\s]))")


def judge_for_loop(walker: ShellWalker, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
    """Judge `for NAME in VALUES` and `select`."""
    variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
    if variable is None or body is None:
        return walker.visit_statements(node, state, stdin)
    name = node_text(variable)
    values = walker.expander.expand_words(node.children_by_field_name("value"), state)
    began = (len(walker.commands), walker.background_count)
    is_known = len(values) <= _MAX_UNROLLED_VALUES and not any(
        word.dynamic or WILDCARD.search(word.text) for word in values
    )
    if is_known and walker.budget.spend_rounds(len(values)):
        out = EMPTY_STREAM
        for word in values:
            variables.set_variable(walker, name, word, state)
            out = dataflow.join_streams(out, walker.visit(body, state, stdin))
    else:
        labels = NO_LABELS
        # Which value it has is not told; a few of them stand for all, so that a protected path among them is seen.
        for word in _most_telling_values(values) or [Word("${" + name + "}")]:
            variables.set_variable(walker, name, Word(word.text, dynamic=True, labels=word.labels), state)
            labels |= walker.visit(body, state, stdin).labels
        out = ShellStream(None, labels)
    _judge_exhaustion(walker, node, body, began)
    return out


def _most_telling_values(values: Sequence[Word]) -> list[Word]:
    """Return the few values that say most about what a loop does: paths outside of the folder first."""
    return sorted(values, key=lambda word: not word.text.startswith(("/", "~", ".")))[:3]


def judge_counted_loop(walker: ShellWalker, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
    """Judge `for ((...; ...; ...))`."""
    body = node.child_by_field_name("body")
    if body is None:
        return EMPTY_STREAM
    began = (len(walker.commands), walker.background_count)
    walker.expander.run_substitutions_inside(node, state, without=body)
    out = walker.visit(body, state, stdin)
    _judge_exhaustion(walker, node, body, began)
    return _loop_output(node, body, out)


def judge_while_loop(walker: ShellWalker, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
    """Judge `while` and `until`; input is followed line by line where it is known."""
    conditions = [child for child in node.children_by_field_name("condition") if child.is_named]
    body = node.child_by_field_name("body")
    began = (len(walker.commands), walker.background_count)
    out = EMPTY_STREAM
    for given in _loop_inputs(walker, conditions, stdin):
        for child in conditions:
            walker.visit(child, state, given)
        if body is not None:
            out = dataflow.join_streams(out, walker.visit(body, state, given))
    if body is not None:
        _judge_exhaustion(walker, node, body, began)
        return _loop_output(node, body, out)
    return ShellStream(None, out.labels)


def _loop_inputs(
    walker: ShellWalker, conditions: Sequence[Node], stdin: ShellStream | None
) -> Sequence[ShellStream | None]:
    """Return the input of each round: a line of its own where those are known, else all of it."""
    if stdin is None or stdin.text is None or not any("read" in node_text(child)[:80] for child in conditions):
        return [stdin]
    lines = stdin.text.splitlines()
    if 1 < len(lines) <= _MAX_UNROLLED_VALUES and walker.budget.spend_rounds(len(lines)):
        return [ShellStream(line, stdin.labels) for line in lines]
    return [stdin]


def _judge_exhaustion(walker: ShellWalker, node: Node, body: Node, began: tuple[int, int]) -> None:
    """Judge what a loop exhausts when it never ends, or ends late: processes, disk, memory."""
    head = _loop_head(node, body)
    endless = _ENDLESS.match(head) is not None
    commands, behind = walker.commands[began[0] :], began[1]
    late = _MANY.search(head) and _COUNTED.search(head)
    if not (endless or late) or any(map(_PAUSE.search, (head, *_foreground_statements(body)))):
        return
    if walker.background_count > behind or any(map(_is_detaching, commands)):
        _add_exhaustion(walker, "bomb", "it starts processes without end")
    elif endless and any(map(_is_filling, commands)):
        _add_exhaustion(walker, "fills", "it fills the disk without end")
    elif endless and _GROWS.search(node_text(body)[:2000]):
        _add_exhaustion(walker, "bomb", "it takes memory without end")


def _loop_head(node: Node, body: Node) -> str:
    """Return a loop's text up to its body."""
    return node_text(node)[: body.start_byte - node.start_byte][:400]


def _is_endless(node: Node, body: Node) -> bool:
    """Return whether a loop never ends, and waits for nothing."""
    head = _loop_head(node, body)
    return _ENDLESS.match(head) is not None and not any(map(_PAUSE.search, (head, *_foreground_statements(body))))


def _loop_output(node: Node, body: Node, out: ShellStream) -> ShellStream:
    """Return the output of a loop, all rounds together."""
    endless = (out.text or out.text is None) and _is_endless(node, body)
    return ShellStream(None, out.labels | ({Label.ENDLESS} if endless else NO_LABELS))


_BACKGROUND_START = re.compile(r"coproc\b|tmux\s.*\bnew|(ba|z|da|k)?sh\s.*&\s*['\"]?$")
"""Statements that leave something running that nothing waits for."""


_GROUPS = word_set(
    "do_group subshell compound_statement if_statement list else_clause elif_clause redirected_statement"
)


_MOST_STATEMENTS = 100


def _foreground_statements(body: Node) -> Iterator[str]:
    """Yield the statements of a loop for which it waits."""
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
            elif not _BACKGROUND_START.match(text := node_text(child)[:2000]):
                yield text


_DETACHING: dict[str, str] = {
    # By program: words with which it leaves something running.
    "coproc": r"",
    "tmux": r".*\bnew\w*\b.*-\w*d",
    "screen": r"-\w*d\w*m",
    "docker podman": r"run\b.*(-\w*d|--detach)",
    "systemd-run": r"",
    "daemonize": r"",
}


_DETACHES = {name: re.compile(text) for names, text in _DETACHING.items() for name in names.split()}


def _is_detaching(command: SimpleCommand) -> bool:
    """Return whether a command leaves something running when it ends."""
    pattern = _DETACHES.get(command.argv[0])
    return pattern is not None and pattern.match(" ".join(command.argv[1:20])) is not None


def _is_filling(command: SimpleCommand) -> bool:
    """Return whether a command leaves something on the disk."""
    name = command.argv[0].rpartition("/")[2]
    return name in _FILLING or (name == ">" and not command.argv[1].startswith(("/dev/", "/proc/", "/sys/")))


def _add_exhaustion(walker: ShellWalker, rule: str, reason: str) -> None:
    walker.add_effect(EffectKind.EXHAUSTS, (), ())
    walker.add_finding(Verdict.ASK, rule, reason, "", contained=True)


STATEMENT_HANDLERS: dict[str, StatementHandler] = {
    "command": judge_simple_command,
    "redirected_statement": redirects.judge_redirected,
    "pipeline": _judge_pipeline,
    "subshell": _judge_subshell,
    "variable_assignment": _judge_assignment,
    "declaration_command": _judge_declaration,
    "unset_command": _judge_declaration,
    "for_statement": judge_for_loop,
    "while_statement": judge_while_loop,
    "c_style_for_statement": judge_counted_loop,
    "case_statement": _judge_case,
    "function_definition": _define_function,
    "test_command": _judge_test,
}
"""The handlers of statements, by their kind in the grammar; of other kinds the statements inside are judged."""

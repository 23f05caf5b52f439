"""Redirects of a shell text: files, here-documents, here-strings, and the substitutions that stand for files."""

import re

from tree_sitter import Node

from hermes.safety.shell import dataflow
from hermes.safety.shell.call import resolve
from hermes.safety.shell.syntax import decoded, text_of
from hermes.safety.shell.walker import Walker
from hermes.safety.shell.words import NONE, NOTHING, UNTOLD, State, Stream, Word
from hermes.safety.shell.words import words as word_set

_Targets = list[tuple[str, str]]
"""(operator, path) of the files that an output goes to."""


_EXEC = re.compile(r"exec\b")


def redirected(walker: Walker, node: Node, state: State, stdin: Stream | None) -> Stream:
    """A statement with redirects."""
    body = node.child_by_field_name("body")
    if body is not None and body.type == "list" and len(body.named_children) == 2:
        # The grammar puts `a && b > c` under one redirect; it belongs to the last command.
        walker.visit(body.named_children[0], state, stdin)
        body = body.named_children[1]
    targets: _Targets = []
    after: list[Node] = []
    began = len(walker.commands)
    for child in node.children:
        match child.type:
            case "file_redirect":
                stdin = to_file(walker, child, state, targets) or stdin
            case "herestring_redirect":
                stdin = herestring(walker, child, state)
            case "heredoc_redirect":
                stdin = _heredoc(walker, child, state, targets, after)
    out = walker.visit(body, state, stdin) if body is not None else NOTHING
    out = _kept(walker, body, NOTHING if _reads_own(walker, began, targets, state) else out, targets, state)
    for child in after:
        out = _piped(walker, child, state, out)
    return out


_READERS = word_set(
    "cat tac sort uniq grep egrep fgrep rg sed awk gawk head tail cut nl fold fmt rev jq yq column expand paste comm <"
)


_PATTERN_FIRST = word_set("grep egrep fgrep rg sed awk gawk jq yq")


def _reads_own(walker: Walker, began: int, targets: _Targets, state: State) -> bool:
    """Whether a program reads the file that its output goes to: the shell has emptied it by then."""
    paths = {path for operator, path in targets if ">>" not in operator and not path.startswith("/dev/")}
    if not paths or not paths.isdisjoint(state.files):
        return False
    for command in walker.commands[began : began + 20]:
        if command.argv[0] in _READERS:
            named = [text for text in command.argv[1:20] if text[:1] not in ("-", "")]
            named = named[command.argv[0] in _PATTERN_FIRST :]
            if any(resolve(text, command.cwd, walker.places) in paths for text in named):
                return True
    return False


def _kept(walker: Walker, body: Node | None, out: Stream, targets: _Targets, state: State) -> Stream:
    """What is left of an output when files take it."""
    return _left_open(walker, targets, state) if _opens(body) else _stored(walker, out, targets, state)


def _opens(body: Node | None) -> bool:
    """Whether a statement is an `exec`, whose redirects stay."""
    return body is not None and _EXEC.match(text_of(body)) is not None


def _left_open(walker: Walker, targets: _Targets, state: State) -> Stream:
    """Files that stay open behind `exec > FILE`: what they come to hold is not followed."""
    _stored(walker, NOTHING, targets, state)
    for _, path in targets:
        if not path.startswith("/dev/"):
            state.files[path] = UNTOLD
    return NOTHING


def _piped(walker: Walker, node: Node, state: State, out: Stream) -> Stream:
    """What stands behind `<<END` on its line: the rest of a pipe, or other statements."""
    if node.type != "pipeline":
        return walker.visit(node, state, None)
    for step in node.named_children:
        out = walker.visit(step, state, out)
    return out


def _stored(walker: Walker, out: Stream, targets: _Targets, state: State) -> Stream:
    for operator, path in targets:
        if path.startswith("/dev/"):
            continue
        dataflow.judge_stored(walker, path, operator, out, state)
        before = state.files.get(path) if ">>" in operator else None
        state.files[path] = dataflow.joined(before, out) if before is not None else out
    return NOTHING if targets else out


def to_file(walker: Walker, node: Node, state: State, targets: _Targets | None = None) -> Stream | None:
    """Judge `> FILE` and `< FILE`; what the command gets by it, if it gets something."""
    if not walker.budget.step():
        walker.unclear("the command has too many parts to be judged")
        return None
    operator, descriptor, target = _read(walker, node, state)
    if target is None or target.text.isdigit() or target.text == "-":
        return None
    path = resolve(target.text, state.where.now, walker.places)
    if operator in ("<", "<&"):
        walker.met(("<", path), state)
        return dataflow.read_from(walker, target, state)
    if ">" not in operator:
        return None
    walker.met((">", path), state)
    dataflow.written_to(walker, path, operator, state)
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        dataflow.sent(walker, path)
    if targets is not None and descriptor in ("", "1") and operator != "<>":
        targets.append((operator, path))
    elif not path.startswith("/dev/"):
        # Whatever is started with this descriptor may write into it.
        state.files.setdefault(path, UNTOLD)
    return None


def _read(walker: Walker, node: Node, state: State) -> tuple[str, str, Word | None]:
    """(operator, descriptor, target) of a redirect. A number is a descriptor only behind `>&` and `<&`."""
    operator, descriptor, target = "", "", None
    for child in node.children:
        if child.type == "file_descriptor":
            descriptor = text_of(child)
        elif not child.is_named:
            operator = operator or text_of(child)
        else:
            word = walker.expander.one(child, state)
            target = target or word
    if target is not None and not operator.endswith("&") and (target.text.isdigit() or target.text == "-"):
        target = Word(f"./{target.text}", labels=target.labels)
    return operator, descriptor, target


def herestring(walker: Walker, node: Node, state: State) -> Stream:
    """`<<< WORD`."""
    if not walker.budget.step():
        walker.unclear("the command has too many parts to be judged")
        return UNTOLD
    word = walker.expander.one(node.named_children[0], state) if node.named_children else Word("")
    return Stream(None, word.labels) if word.dynamic else Stream(word.text + "\n", word.labels)


def _heredoc(walker: Walker, node: Node, state: State, targets: _Targets, after: list[Node]) -> Stream:
    quoted, out = False, Stream("")
    for child in node.children:
        match child.type:
            case "heredoc_start":
                quoted = re.search(r"['\"\\]", text_of(child)) is not None
            case "file_redirect":
                to_file(walker, child, state, targets)
            case "heredoc_body":
                out = Stream(text_of(child)) if quoted else _expanded(walker, child, state)
            case kind if child.is_named and kind not in ("heredoc_end", "comment", "ERROR"):
                after.append(child)
    if out.text is not None and text_of(node).startswith("<<-"):
        return Stream("\n".join(line.lstrip("\t") for line in out.text.split("\n")), out.labels)
    return out


def _expanded(walker: Walker, node: Node, state: State) -> Stream:
    """A here-document in which variables and substitutions stand for others."""
    source = node.text or b""
    inner = [child for child in node.named_children if child.type != "heredoc_content"]
    pieces, labels, told, at = [], NONE, True, 0
    for child in inner:
        pieces.append(decoded(source[at : child.start_byte - node.start_byte]))
        word = walker.expander.one(child, state)
        pieces.append(word.text)
        labels |= word.labels
        told = told and not word.dynamic
        at = child.end_byte - node.start_byte
    pieces.append(decoded(source[at:]))
    told = told or all("$()" not in piece for piece in pieces)
    return Stream("".join(pieces) if told else None, labels)


def substituted(walker: Walker, node: Node, state: State) -> Stream:
    """The output of the commands in a substitution; `$(< FILE)` is what the file holds."""
    children = node.named_children
    if len(children) == 1 and (redirect := _only_redirect(children[0])) is not None:
        return to_file(walker, redirect, state.copy()) or UNTOLD
    writes_in = node.type == "process_substitution" and text_of(node).startswith(">")
    return walker.statements(node, state.copy(), UNTOLD if writes_in else None)


def _only_redirect(node: Node) -> Node | None:
    if node.type == "file_redirect":
        return node
    if node.type == "redirected_statement" and node.child_by_field_name("body") is None:
        return next((one for one in node.named_children if one.type == "file_redirect"), None)
    return None

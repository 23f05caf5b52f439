"""Redirects of a shell text: files, here-documents, here-strings, and process substitutions."""

import os.path
import re

from tree_sitter import Node

from hermes.safety.shell import dataflow
from hermes.safety.shell.call import resolve_path
from hermes.safety.shell.syntax import decode_source, node_text
from hermes.safety.shell.walker import ShellWalker
from hermes.safety.shell.words import EMPTY_STREAM, NO_LABELS, UNKNOWN_STREAM, AnalysisState, ShellStream, Word

_Targets = list[tuple[str, str]]
"""(operator, path) of the files that an output goes to."""


_EXEC = re.compile(r"exec\b")
"""The statement whose redirects stay."""


def judge_redirected(walker: ShellWalker, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
    """Judge a statement with redirects."""
    body = node.child_by_field_name("body")
    if body is not None and body.type == "list" and len(body.named_children) == 2:
        # The grammar puts `a && b > c` under one redirect; it belongs to the last command.
        walker.visit(body.named_children[0], state, stdin)
        body = body.named_children[1]
    targets: _Targets = []
    after: list[Node] = []
    for child in node.children:
        match child.type:
            case "file_redirect":
                stdin = judge_file_redirect(walker, child, state, targets) or stdin
            case "herestring_redirect":
                stdin = read_herestring(walker, child, state)
            case "heredoc_redirect":
                stdin = _read_heredoc(walker, child, state, targets, after)
    out, is_open = EMPTY_STREAM, None
    if body is not None:
        out, is_open = walker.visit(body, state, stdin), _EXEC.match(node_text(body))
    out = _leave_open(walker, targets, state) if is_open else _store_output(walker, out, targets, state)
    for child in after:
        out = _judge_after_heredoc(walker, child, state, out)
    return out


def _leave_open(walker: ShellWalker, targets: _Targets, state: AnalysisState) -> ShellStream:
    """Mark files that stay open behind `exec > FILE` as unknown: their content is not followed."""
    _store_output(walker, EMPTY_STREAM, targets, state)
    for _, path in targets:
        if not path.startswith("/dev/"):
            state.files[path] = UNKNOWN_STREAM
    return EMPTY_STREAM


def _judge_after_heredoc(walker: ShellWalker, node: Node, state: AnalysisState, out: ShellStream) -> ShellStream:
    """Judge the rest of the line behind `<<END`: the rest of a pipe, or other statements."""
    if node.type != "pipeline":
        return walker.visit(node, state, None)
    for step in node.named_children:
        out = walker.visit(step, state, out)
    return out


def _store_output(walker: ShellWalker, out: ShellStream, targets: _Targets, state: AnalysisState) -> ShellStream:
    for operator, path in targets:
        if path.startswith("/dev/"):
            continue
        dataflow.judge_stored_output(walker, path, operator, out, state)
        before = state.files.get(path) if ">>" in operator else None
        state.files[path] = dataflow.join_streams(before, out) if before is not None else out
    return EMPTY_STREAM if targets else out


def judge_file_redirect(
    walker: ShellWalker, node: Node, state: AnalysisState, targets: _Targets | None = None
) -> ShellStream | None:
    """Judge `> FILE` and `< FILE`. Return the input that the command gets, if any."""
    if not walker.budget.spend_step():
        walker.add_unclear("the command has too many parts to be judged")
        return None
    operator, descriptor, target = _read_redirect(walker, node, state)
    if target is None or target.text.isdigit() or target.text == "-":
        return None
    path = resolve_path(target.text, state.where.current, walker.places)
    if operator in ("<", "<&"):
        walker.add_command(("<", path), state)
        return dataflow.read_redirect(walker, target, state)
    if ">" not in operator:
        return None
    walker.add_command((">", _name_as_written(target.text, path, state)), state)
    dataflow.judge_write_redirect(walker, path, operator, state)
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        dataflow.judge_raw_connection(walker, path)
    if targets is not None and descriptor in ("", "1") and operator != "<>":
        targets.append((operator, path))
    elif not path.startswith("/dev/"):
        # Whatever is started with this descriptor may write into it.
        state.files.setdefault(path, UNKNOWN_STREAM)
    return None


def _name_as_written(text: str, path: str, state: AnalysisState) -> str:
    """Return the path of a target with the `..` in it left standing: links may lead elsewhere than its letters."""
    return os.path.join(state.where.current, text) if "/../" in f"/{text}" and text[:1] not in "~$" else path


def _read_redirect(walker: ShellWalker, node: Node, state: AnalysisState) -> tuple[str, str, Word | None]:
    """Return (operator, descriptor, target) of a redirect. A number is a descriptor only behind `>&` and `<&`."""
    operator, descriptor, target = "", "", None
    for child in node.children:
        if child.type == "file_descriptor":
            descriptor = node_text(child)
        elif not child.is_named:
            operator = operator or node_text(child)
        else:
            word = walker.expander.expand_one(child, state)
            target = target or word
    if target is not None and not operator.endswith("&") and (target.text.isdigit() or target.text == "-"):
        target = Word(f"./{target.text}", labels=target.labels)
    return operator, descriptor, target


def read_herestring(walker: ShellWalker, node: Node, state: AnalysisState) -> ShellStream:
    """Return the input of `<<< WORD`."""
    if not walker.budget.spend_step():
        walker.add_unclear("the command has too many parts to be judged")
        return UNKNOWN_STREAM
    word = walker.expander.expand_one(node.named_children[0], state) if node.named_children else Word("")
    return ShellStream(None, word.labels) if word.dynamic else ShellStream(word.text + "\n", word.labels)


def _read_heredoc(
    walker: ShellWalker, node: Node, state: AnalysisState, targets: _Targets, after: list[Node]
) -> ShellStream:
    quoted, out = False, ShellStream("")
    for child in node.children:
        match child.type:
            case "heredoc_start":
                quoted = re.search(r"['\"\\]", node_text(child)) is not None
            case "file_redirect":
                judge_file_redirect(walker, child, state, targets)
            case "heredoc_body":
                out = ShellStream(node_text(child)) if quoted else _expand_heredoc(walker, child, state)
            case kind if child.is_named and kind not in ("heredoc_end", "comment", "ERROR"):
                after.append(child)
    if out.text is not None and node_text(node).startswith("<<-"):
        return ShellStream("\n".join(line.lstrip("\t") for line in out.text.split("\n")), out.labels)
    return out


def _expand_heredoc(walker: ShellWalker, node: Node, state: AnalysisState) -> ShellStream:
    """Expand a here-document with variables and substitutions."""
    source = node.text or b""
    inner = [child for child in node.named_children if child.type != "heredoc_content"]
    pieces, labels, is_known, at = [], NO_LABELS, True, 0
    for child in inner:
        pieces.append(decode_source(source[at : child.start_byte - node.start_byte]))
        word = walker.expander.expand_one(child, state)
        pieces.append(word.text)
        labels |= word.labels
        is_known = is_known and not word.dynamic
        at = child.end_byte - node.start_byte
    pieces.append(decode_source(source[at:]))
    is_known = is_known or all("$()" not in piece for piece in pieces)
    return ShellStream("".join(pieces) if is_known else None, labels)


def judge_substitution(walker: ShellWalker, node: Node, state: AnalysisState) -> ShellStream:
    """Return the output of the commands in a substitution; `$(< FILE)` is the file's content."""
    children = node.named_children
    if len(children) == 1 and children[0].type == "file_redirect":
        return judge_file_redirect(walker, children[0], state.copy()) or UNKNOWN_STREAM
    writes_in = node.type == "process_substitution" and node_text(node).startswith(">")
    return walker.visit_statements(node, state.copy(), UNKNOWN_STREAM if writes_in else None)

#!/usr/bin/env python3
"""Hold what the program says to its Chinese catalogue. Standard library only.

    python scripts/words.py            exit 1 and a line each for what is wrong
    python scripts/words.py missing    the texts without a translation, as JSON

A text is a literal; one with places is filled by N_ or tr, so that it remembers its template. Collected are the
literals of tr, tr_plural and N_; the words of errors (but ToolError, which a model reads), of notices, failures and
findings; of argparse; and what is printed in cli/. What is wrong: a text without Chinese, Chinese for a text that is
gone, places that differ between both, something else than a literal or a name where tr wants its text, an f-string or a
message that is cut, and prose in cli/ that is not said through the catalogue.
"""

import ast
import gc
import json
import re
import string
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "hermes"
CATALOGUE = PACKAGE / "i18n" / "words" / "zh"
SAYERS = {"tr": 1, "N_": 1, "tr_plural": 2}
"""How many of the first arguments are texts."""
# fmt: off
TELLERS = frozenset({
    "print_error", "_report_error", "notify", "_notify", "_notify_user", "notify_user", "_notify_person", "add_notice",
    "tell", "_tell", "warn", "_print_warning", "_show_warning", "_report_once", "error", "build_failure", "Failure",
    "Notice", "CommandFinding", "LoopFinding", "NoCompaction", "DoctorCheck", "UrlJudgement", "PathJudgement",
    "AddressJudgement", "UrlRefusedError", "reject_arguments",
})
# fmt: on
"""What is told through these reaches a person, in English until it is shown."""
FINDERS = frozenset({"ask", "deny", "add_finding"})
"""What these take in `safety/` is the reason of a question or of a refusal."""
HELP = ("help", "description")
DECLARED_HELP = ("action", "admin_action")
"""Decorators that declare an action of a verb, whose second argument is its help."""
VERB_ROOMS = ("cli/", "commands/")
"""Where verbs are declared."""
FINDINGS = (
    "safety/",
    "tools/permissions/prompts.py",
    "tools/permissions/gate.py",
    "tools/permissions/policy_gate.py",
    "tools/permissions/evaluate.py",
    "tools/permissions/egress.py",
    "mcp/tools.py",
)
"""Where prose is the reasons of questions."""
SAID = (
    "commands/slash/",
    "commands/usage.py",
    "commands/skills.py",
    "commands/memory.py",
    "admin/status.py",
    "markup/charts.py",
)
"""Where, as in cli/, no prose may stand that is not said through the catalogue."""
TOLD = (
    "commands/memory.py",
    "admin/skills.py",
    "admin/auth.py",
    "admin/doctor.py",
    "admin/sessions.py",
    "agent/loop.py",
    "agent/loop_detection.py",
    "agent/recovery.py",
    "config/load.py",
    "config/trusted_folders.py",
    "core/usage.py",
    "execution/docker.py",
    "execution/sandbox/backend.py",
    "execution/sandbox/planted_files.py",
    "execution/sandbox/planted_guard.py",
    "execution/sandbox/probe.py",
    "execution/line_program.py",
    "execution/ssh/backend.py",
    "execution/ssh/sync.py",
    "llm/lineage.py",
    "llm/failure_rules.py",
    "llm/exchange.py",
    "llm/key_pool.py",
    "mcp/http.py",
    "mcp/server.py",
    "mcp/servers.py",
    "memory/journal.py",
    "memory/guarded_provider.py",
    "memory/provider.py",
    "memory/tool.py",
    "plugins.py",
    "providers/http_common.py",
    "providers/records.py",
    "providers/resolve.py",
    "providers/responses.py",
    "runtime/compression.py",
    "runtime/conversation.py",
    "runtime/locks.py",
    "runtime/reviewer.py",
    "sessions/backend_factory.py",
    "sessions/session_tools.py",
    "sessions/epoch_frame.py",
    "sessions/features/memory.py",
    "sessions/features/review.py",
    "sessions/features/skills.py",
    "sessions/model/model_route.py",
    "sessions/model/spending.py",
    "sessions/references.py",
    "sessions/session_lookup.py",
    "skills/catalog.py",
    "skills/skill_library.py",
    "store/erasure.py",
    "store/connection.py",
)
"""Where sentences are made that are shown later, by another part; each that looks like one is a text."""
NO_SENTENCE = re.compile(
    r"[|^$\\<>]|\(\?|^[a-z-]+:|--|[A-Z]{2,} [A-Z]|#\w|^\[|^PRAGMA|^\.hermes|category: "
    r"|^You check|^In \{cwd|response\.|application/|exec sh|trap |Bearer|echo |ulimit|find \."
)
FOR_MODELS = ("ToolError", "ArgumentsError")
FOR_PROGRAMS = ("ApiRequestError",)
"""Errors that are answers to programs, which read English."""
LOGGED = (
    "debug",
    "info",
    "error",
    "exception",
    "warning",
    "exception",
    "AssertionError",
    "create_task",
    "execute",
    "TextPart",
)
PROSE = re.compile(
    r"[A-Za-z`'’]{2,}[,;:.]? (?:[`'’(]?[A-Za-z]+|\{)|\} [a-z]{2,}|[a-z]{2,}[.:?!]( |$)|^[A-Z][a-z]+[.:]?$"
)
UNTOLD = re.compile(
    r".*%s.*|hermes( [a-z-]+)+|[a-z]+_[a-z_]+|mcp \{.*|connect mcp.*|write \{real\}|input of .*"
    r"|what who why mode|example: hermes.*|hermes \{name\} --help|cronjob \{.*|join \{.*"
)
"""What is collected by its place and is no text: lines of the log, names, subjects of questions."""
TECHNICAL = re.compile(
    r"what who why mode|[a-z]+_[a-z_]+|mcp .*|connect mcp.*|write \{.*|input of .*|Alt-Enter.*|usage:|hermes: .*"
    r"|hermes \{version\}|set enable-.*|\{strip\} link|\{above\}hermes.*|.*\{bold\}☤.*|positional arguments|Commands:"
    r"|Problem:|(example|hermes): ?|.* parses nothing|English|[A-Z][a-z]+|hermes( [a-z-]+)+|this call|all of it|_.*"
    r"|reopen \{.*|model:\n.*|(file|folder|git|url):|\{.*\}|hermes \{name\}|example: \{example\}|--[a-z-]+ [A-Za-z]+",
    re.DOTALL,
)
"""What is never translated: commands, marks, lines of a configuration."""
REASON = re.compile(
    r"^(it|its|the|which|what|such|names|all|an?|more|where|no|there|port|your|programs|\{\w+\}) [^\n\\|^$]*$"
)
UNSEEN = ("testing/", "mcp/rpc.py", "util/renamed.py")
"""What no person is shown: the fake servers, words of a protocol, and warnings for authors of plug-ins."""
ALLOWED_FILES = {
    "cli/commands/completion.py": "words for shells",
    "cli/fault_log.py": "the log stays English",
    "cli/render/code.py": "the words of programming languages",
    "cli/render/theme.py": "styles",
    "cli/render/markdown.py": "styles",
    "cli/plain/terminal.py": "marks, never shown",
}
QUIET = {"assert", "getattr"}


@dataclass
class Found:
    """All texts with the places where they stand, and what is wrong."""

    texts: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)

    def add(self, text: str, where: str) -> None:
        if any(mark.isalpha() for mark in bare(text)) and not UNTOLD.fullmatch(text):
            self.texts.setdefault(text, where)


def bare(text: str) -> str:
    """The text without its places."""
    return re.sub(r"\{[^{}]*\}", "", text)


def place(node: ast.expr) -> str:
    """What a place of an f-string is called: the last name in it."""
    names = [one.attr if isinstance(one, ast.Attribute) else one.id for one in ast.walk(node)
             if isinstance(one, (ast.Attribute, ast.Name))]  # fmt: skip
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_")
    wrappers = {"str", "len", "sorted", "list", "repr", "join", "strip_control_characters",
                "to_one_line", "display_path",
                "escape_unseen_characters", "show_control_characters", "escape_confusable_characters"}  # fmt: skip
    for name in names:
        if name not in wrappers:
            return name.strip("_")
    return "what"


def template(node: ast.expr) -> str | None:
    """The text of a literal or an f-string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return None
    if not isinstance(node, ast.JoinedStr):
        return None
    parts: list[str] = []
    names: set[str] = set()
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
        elif isinstance(part, ast.FormattedValue):
            name = first = place(part.value)
            number = 1
            while name in names:
                number += 1
                name = f"{first}_{number}"
            names.add(name)
            parts.append("{" + name + "}")
    return "".join(parts)


def choices(node: ast.expr, names: dict[str, list[ast.expr]], depth: int = 0) -> Iterator[ast.expr]:
    """Every literal that an expression may be."""
    if isinstance(node, (ast.Constant, ast.JoinedStr)):
        yield node
    elif isinstance(node, ast.IfExp):
        yield from choices(node.body, names, depth)
        yield from choices(node.orelse, names, depth)
    elif isinstance(node, (ast.BoolOp, ast.Tuple, ast.List)):
        for one in node.values if isinstance(node, ast.BoolOp) else node.elts:
            yield from choices(one, names, depth)
    elif isinstance(node, ast.Dict):
        for one in node.values:
            yield from choices(one, names, depth)
    elif isinstance(node, ast.Subscript):
        yield from choices(node.value, names, depth)
    elif isinstance(node, ast.Call) and called(node) in ("strip", "rstrip") and isinstance(node.func, ast.Attribute):
        yield from choices(node.func.value, names, depth)
    elif isinstance(node, ast.Name) and depth < 3:
        for one in names.get(node.id, ()):
            yield from choices(one, names, depth + 1)


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def assigned(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """What names are given in a piece of a module."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for name, value in zip(target.elts, node.value.elts, strict=False):
                        if isinstance(name, ast.Name):
                            found.setdefault(name.id, []).append(value)
        elif (
            isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
        ) or isinstance(node, ast.NamedExpr):
            found.setdefault(node.target.id, []).append(node.value)
        elif isinstance(node, ast.Return) and node.value is not None:
            pass
    return found


def errors(trees: dict[Path, ast.Module]) -> set[str]:
    """The names of HermesError and its subclasses, but for those whose words a model or a program reads."""
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"HermesError"}
    while fresh := {name for name, above in bases.items() if name not in found and found & set(above)} - {
        *FOR_MODELS,
        *FOR_PROGRAMS,
    }:
        found |= fresh
    return found


class Scan:
    """One module."""

    def __init__(self, path: Path, tree: ast.Module, known: set[str], found: Found) -> None:
        self.name = path.relative_to(PACKAGE).as_posix()
        self.tree = tree
        self.known = known
        self.found = found
        self.docs = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        self.names = {name: values for node in tree.body for name, values in assigned_here(node).items()}

    def run(self) -> None:
        self.visit(self.tree, self.names)
        if self.name.startswith(("cli/", *SAID)) and self.name not in ALLOWED_FILES:
            self.prose()
        if self.name.startswith(FINDINGS):
            self.reasons()
        if self.name in TOLD:
            self.told()

    def visit(self, node: ast.AST, names: dict[str, list[ast.expr]]) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = names | assigned(node)
        if isinstance(node, ast.Call):
            self.call(node, names)
        for child in ast.iter_child_nodes(node):
            self.visit(child, names)

    def call(self, node: ast.Call, names: dict[str, list[ast.expr]]) -> None:
        name = called(node)
        made = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(made, ast.Call) and called(made) == "N_" and made.keywords:
            self.found.wrong.append(f"{self.where(node)}: a message that is cut forgets its template")
        if name in SAYERS and isinstance(node.func, ast.Name):
            self.said(node, SAYERS[name], names)
        elif name in self.known:
            self.take_all(node, names)
        elif name in TELLERS or (name in FINDERS and self.name.startswith("safety/")):
            self.take_all(node, names, prose=True)
        for word in node.keywords:
            if word.arg in HELP and self.name.startswith(VERB_ROOMS):
                self.take(word.value, names)
        if name in DECLARED_HELP and len(node.args) > 1 and self.name.startswith(VERB_ROOMS):
            self.take(node.args[1], names)

    def take_all(self, node: ast.Call, names: dict[str, list[ast.expr]], *, prose: bool = False) -> None:
        for one in [*node.args, *(word.value for word in node.keywords)]:
            self.take(one, names, prose=prose)

    def said(self, node: ast.Call, count: int, names: dict[str, list[ast.expr]]) -> None:
        for index, one in enumerate(node.args[:count]):
            if isinstance(one, (ast.JoinedStr, ast.BinOp)):
                self.found.wrong.append(f"{self.where(one)}: no literal is said: {ast.unparse(one)[:80]}")
            if count == 2 and index == 0:
                self.found.taken.update(id(literal) for literal in choices(one, names))
                continue
            self.take(one, names)

    def take(self, node: ast.expr, names: dict[str, list[ast.expr]], *, prose: bool = False) -> None:
        for literal in choices(node, names):
            text = template(literal)
            if text is not None and (not prose or PROSE.search(text)):
                self.found.taken.add(id(literal))
                self.add_text(text, literal)

    def add_text(self, text: str, literal: ast.expr) -> None:
        if isinstance(literal, ast.JoinedStr):
            self.found.wrong.append(f"{self.where(literal)}: an f-string forgets its template, N_ keeps it: {text!r}")
        self.found.add(text, self.where(literal))

    def where(self, node: ast.expr) -> str:
        return f"hermes/{self.name}:{node.lineno}"

    def literals(self, node: ast.AST) -> Iterator[ast.expr]:
        """The literals that stand for themselves, as prose may."""
        if id(node) in self.docs or id(node) in self.found.taken:
            return
        if isinstance(node, ast.Call) and called(node) in {
            *SAYERS,
            "word_set",
            "split",
            "compile",
            "getattr",
            "cast",
            "TypeVar",
            "encode",
        }:
            for word in [*node.args[1:], *(word.value for word in node.keywords)]:
                yield from self.literals(word)
            return
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            yield node
            if isinstance(node, ast.JoinedStr):
                for part in node.values:
                    if isinstance(part, ast.FormattedValue):
                        yield from self.literals(part.value)
            return
        for name, child in ast.iter_fields(node):
            for one in child if isinstance(child, list) else [child]:
                if isinstance(one, ast.AST) and name not in ("annotation", "returns") and not self.is_example(node):
                    yield from self.literals(one)

    def is_example(self, node: ast.AST) -> bool:
        """Whether this is an example of a command, whose words are those that are typed."""
        return (
            isinstance(node, ast.keyword) and node.arg in ("epilog", "example") and isinstance(node.value, ast.Constant)
        )

    def prose(self) -> None:
        for literal in self.literals(self.tree):
            text = template(literal)
            if (
                text is not None
                and not TECHNICAL.fullmatch(text.strip())
                and PROSE.search(re.sub(r"`[^`]*`", "", text))
            ):
                self.found.wrong.append(f"{self.where(literal)}: not said through the catalogue: {text!r}")

    def told(self) -> None:
        raised = {
            id(part)
            for call in ast.walk(self.tree)
            if isinstance(call, ast.Call) and called(call) in (*FOR_MODELS, *LOGGED)
            for part in ast.walk(call)
        }
        for literal in self.literals(self.tree):
            text = template(literal)
            if text is None or id(literal) in raised or TECHNICAL.fullmatch(text) or NO_SENTENCE.search(text):
                continue
            if PROSE.search(re.sub(r"`[^`]*`", "", text)):
                self.add_text(text, literal)

    def reasons(self) -> None:
        for literal in self.literals(self.tree):
            text = template(literal)
            if text is not None and REASON.match(text) and text.count(" ") > 1:
                self.add_text(text, literal)


def assigned_here(node: ast.stmt) -> dict[str, list[ast.expr]]:
    return assigned(node) if isinstance(node, (ast.Assign, ast.AnnAssign)) else {}


def scan() -> Found:
    """Everything that the program says."""
    paths = [
        path for path in sorted(PACKAGE.rglob("*.py")) if not path.relative_to(PACKAGE).as_posix().startswith(UNSEEN)
    ]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    found = Found()
    known = errors(trees)
    for path, tree in trees.items():
        Scan(path, tree, known, found).run()
    return found


def table() -> dict[str, str]:
    """The Chinese of everything."""
    return {
        key: text for path in sorted(CATALOGUE.glob("*.json")) for key, text in json.loads(path.read_text()).items()
    }


def places(text: str) -> set[str] | None:
    try:
        return {f"{name}!{how}" if how else name for _, name, _, how in string.Formatter().parse(text) if name}
    except ValueError:
        return None


def is_joint(text: str) -> bool:
    """Whether a text only joins others: `{first}; {second}`."""
    return text.count("{") > 0 and re.fullmatch(r"[^\w]*(and)?[^\w]*", bare(text)) is not None


def problems(found: Found) -> list[str]:
    """What is wrong, a line each."""
    known = table()
    lines = list(found.wrong)
    lines += [f"{where}: no Chinese for {text!r}" for text, where in found.texts.items() if text not in known]
    lines += [f"words/zh: nobody says {text!r}" for text in known if text not in found.texts and not is_joint(text)]
    for text, said in known.items():
        if places(text) != places(said):
            lines.append(f"words/zh: other places than in {text!r}: {said!r}")
    return lines


def main() -> int:
    """Print what is wrong; with `missing` what has no translation."""
    gc.disable()  # the trees stay until the end: the collector would look through them again and again
    found = scan()
    if "missing" in sys.argv[1:]:
        known = table()
        missing = {text: where for text, where in found.texts.items() if text not in known}
        sys.stdout.write(json.dumps(missing, ensure_ascii=False, indent=1) + "\n")
        return 0
    lines = problems(found)
    sys.stdout.write("".join(f"{line}\n" for line in lines) or f"{len(found.texts)} texts, all in Chinese\n")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())

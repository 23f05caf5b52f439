#!/usr/bin/env python3
"""Measure the shape of the tree and hold it to its limits. Standard library only.

    python scripts/shape.py            prints the table; exit 1 and a line each for what is over a limit

A function's length runs from `def` to its end; nested functions count into it. Cyclomatic complexity is 1 and one more
for each if, for, while, except, assert, conditional expression, comprehension (and its ifs), boolean operand and case.
Nesting counts blocks inside a function. A cycle is a strongly connected part of the graph of imports, function-level
ones included; a package's own `__init__` counts as a module.
"""

import ast
import re
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "hermes"
TESTS = ROOT / "tests"

LIMITS: dict[str, float] = {
    "file lines": 800,
    "files in one folder": 30,
    "function lines": 80,
    "function lines, p95": 40,
    "cyclomatic complexity": 12,
    "nesting": 4,
    "parameters": 7,
    "parameters of __init__": 8,
    "class lines": 400,
    "methods of a class": 25,
    "modules in an import cycle": 1,
    "functions without full types": 0,
    "Any per 1,000 lines": 2,
    "broad except per 1,000 lines": 1,
    "swallowed broad except": 0,
    "files that read the environment": 1,
    "global statements": 0,
    "print outside cli/ and testing/": 0,
    "identical functions of 8+ lines": 0,
    "public names at the top": 40,
    "one-word names of functions, %": 40,
    "one-word names of methods, %": 60,
    "bare participles as names, %": 2,
    "public class names that stand twice": 0,
    "mocks per 100 tests": 3,
    "test file lines": 800,
    "KiB of a file kept in git": 400,
}
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert, ast.IfExp, ast.match_case)
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
PARTICIPLE = re.compile(
    r"[a-z]{2,}ed|told|kept|led|said|found|held|made|shown|sent|given|lost|born|brought|sought|meant|built|known|drawn|seen"
    r"|gone|written|taken|chosen|broken|spoken|fallen|hidden|driven|frozen|forgotten|heard|left|felt|taught|thought|caught"
)
"""One word that says what was done to something: nobody searches for it."""
NO_PARTICIPLES = {"feed", "need", "embed", "seed", "speed", "exceed", "proceed", "succeed", "read"}
MOCKS = re.compile(r"\b(?:Mock|MagicMock|AsyncMock|patch(?:\.object|\.dict)?)\(|monkeypatch\.setattr")


@dataclass
class Found:
    """Everything measured: for each limit, (value, where) pairs."""

    values: dict[str, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))
    lengths: list[int] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    bodies: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    imports: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, key: str, value: float, where: str) -> None:
        self.values[key].append((value, where))

    def count(self, key: str, where: str) -> None:
        self.counts[key] += 1
        self.places[key].append(where)


def complexity(node: ast.AST) -> int:
    total = 1
    for child in ast.walk(node):
        if isinstance(child, BRANCHES):
            total += 1
        elif isinstance(child, ast.BoolOp):
            total += len(child.values) - 1
        elif isinstance(child, ast.comprehension):
            total += 1 + len(child.ifs)
    return total


def nesting(body: list[ast.stmt], depth: int = 0) -> int:
    deepest = depth
    for node in body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            continue
        inside = depth + isinstance(node, BLOCKS)
        deepest = max(deepest, inside)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list):
                continue
            chained = name == "orelse" and len(block) == 1 and isinstance(block[0], ast.If) and isinstance(node, ast.If)
            deepest = max(deepest, nesting(block, depth if chained else inside))
        for part in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            deepest = max(deepest, nesting(part.body, inside))
    return deepest


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, *, method: bool) -> list[ast.arg]:
    spec = node.args
    names = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *filter(None, (spec.vararg, spec.kwarg))]
    static = any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in node.decorator_list)
    return names[1:] if method and not static else names


def broad(node: ast.ExceptHandler) -> bool:
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(
        kind is None or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException")) for kind in kinds
    )


def measure_function(
    found: Found, node: ast.FunctionDef | ast.AsyncFunctionDef, where: str, *, method: bool, top: bool
) -> None:
    names = parameters(node, method=method)
    if node.returns is None or any(name.annotation is None for name in names):
        found.count("functions without full types", where)
    if not top:
        return
    length = (node.end_lineno or node.lineno) - node.lineno + 1
    found.lengths.append(length)
    found.add("function lines", length, where)
    found.add("cyclomatic complexity", complexity(node), where)
    found.add("nesting", nesting(node.body), where)
    found.add("parameters of __init__" if node.name == "__init__" else "parameters", len(names), where)
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    stub = len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    if length >= 8 and body and not stub:
        found.bodies["\n".join(ast.dump(statement) for statement in body)].append(where)


def measure_class(found: Found, node: ast.ClassDef, where: str) -> None:
    found.add("class lines", (node.end_lineno or node.lineno) - node.lineno + 1, where)
    found.add("methods of a class", sum(isinstance(item, FUNCTIONS) for item in node.body), where)


def measure_name(found: Found, node: ast.FunctionDef | ast.AsyncFunctionDef, where: str, *, method: bool) -> None:
    """Count a function's name; properties and dunders are names of another kind."""
    marks = {part.id for mark in node.decorator_list for part in ast.walk(mark) if isinstance(part, ast.Name)}
    marks |= {part.attr for mark in node.decorator_list for part in ast.walk(mark) if isinstance(part, ast.Attribute)}
    if node.name.startswith("__") or marks & {"property", "cached_property", "setter", "overload"}:
        return
    word = node.name.strip("_")
    kind = "methods" if method else "functions"
    found.count(kind, where)
    if "_" not in word:
        found.count(f"one-word {kind}", where)
    if PARTICIPLE.fullmatch(word) and word not in NO_PARTICIPLES:
        found.count("participles", where)


def walk(found: Found, node: ast.AST, where: str, *, method: bool = False, top: bool = True) -> None:
    for child in ast.iter_child_nodes(node):
        here = f"{where}:{getattr(child, 'lineno', 0)}"
        if isinstance(child, FUNCTIONS):
            measure_function(found, child, f"{here} {child.name}", method=method, top=top)
            measure_name(found, child, f"{here} {child.name}", method=method)
            walk(found, child, where, top=False)
            continue
        if isinstance(child, ast.ClassDef):
            measure_class(found, child, f"{here} {child.name}")
            if not child.name.startswith("_"):
                found.classes[child.name].append(here)
            walk(found, child, where, method=True, top=top)
            continue
        measure_node(found, child, here)
        walk(found, child, where, method=method, top=top)


def measure_node(found: Found, node: ast.AST, where: str) -> None:
    file = where.partition(":")[0]
    if isinstance(node, ast.Name) and node.id == "Any":
        found.count("Any per 1,000 lines", where)
    elif isinstance(node, ast.ExceptHandler) and broad(node):
        found.count("broad except per 1,000 lines", where)
        if all(isinstance(statement, (ast.Pass, ast.Continue)) for statement in node.body):
            found.count("swallowed broad except", where)
    elif isinstance(node, ast.Global):
        found.count("global statements", where)
    elif (
        isinstance(node, ast.Attribute)
        and node.attr in ("environ", "getenv")
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    ):
        found.places["environment"].append(file)
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
        and not re.search(r"/(cli|testing)/", where)
    ):
        found.count("print outside cli/ and testing/", where)


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, modules: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            target = name if name in modules else name.rpartition(".")[0]
            if target in modules:
                yield target


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected parts of more than one module, by two depth-first passes."""
    order: list[str] = []
    seen: set[str] = set()

    def visit(start: str, edges: dict[str, set[str]], into: list[str]) -> None:
        stack = [(start, iter(sorted(edges.get(start, ()))))]
        seen.add(start)
        while stack:
            node, rest = stack[-1]
            following = next((other for other in rest if other not in seen), None)
            if following is None:
                into.append(node)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(sorted(edges.get(following, ())))))

    for node in sorted(graph):
        if node not in seen:
            visit(node, graph, order)
    back: dict[str, set[str]] = defaultdict(set)
    for node, targets in graph.items():
        for target in targets:
            back[target].add(node)
    seen.clear()
    parts: list[list[str]] = []
    for node in reversed(order):
        if node not in seen:
            part: list[str] = []
            visit(node, back, part)
            parts.append(sorted(part))
    return [part for part in parts if len(part) > 1]


def measure() -> tuple[Found, int]:
    found = Found()
    files = sorted(PACKAGE.rglob("*.py"))
    trees = {file: ast.parse(file.read_text("utf-8")) for file in files}
    modules = {module_name(file) for file in files}
    lines = 0
    for file, tree in trees.items():
        where = str(file.relative_to(ROOT))
        length = len(file.read_text("utf-8").splitlines())
        lines += length
        found.add("file lines", length, where)
        walk(found, tree, where)
        name = module_name(file)
        found.imports[name] |= {target for target in imported(tree, modules) if target != name}
    for part in cycles(found.imports):
        found.add("modules in an import cycle", len(part), " ".join(part[:5]))
    summarise(found, lines)
    tests = [file.read_text("utf-8") for file in sorted(TESTS.rglob("*.py"))]
    count = sum(len(re.findall(r"^\s*(?:async )?def test_", text, re.MULTILINE)) for text in tests)
    found.add("test file lines", max((text.count("\n") for text in tests), default=0), "tests")
    measure_kept(found)
    found.add("mocks per 100 tests", 100 * sum(len(MOCKS.findall(text)) for text in tests) / max(count, 1), "tests")
    return found, lines


def measure_kept(found: Found) -> None:
    """The sizes of what git keeps: downloads and build products stay in the history for ever."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (file := ROOT / name).is_file():
            found.add("KiB of a file kept in git", file.stat().st_size / 1024, name)


def summarise_names(found: Found) -> None:
    """Say how functions and classes are called."""
    total = max(found.counts["functions"] + found.counts["methods"], 1)
    for kind in ("functions", "methods"):
        share = 100 * found.counts[f"one-word {kind}"] / max(found.counts[kind], 1)
        found.add(f"one-word names of {kind}, %", share, f"{found.counts[kind]} {kind}")
    found.add(
        "bare participles as names, %",
        100 * found.counts["participles"] / total,
        " ".join(found.places["participles"][:5]),
    )
    twice = {name: places for name, places in found.classes.items() if len(places) > 1}
    found.add("public class names that stand twice", len(twice), " ".join(sorted(twice)[:8]))


def summarise(found: Found, lines: int) -> None:
    summarise_names(found)
    for folder, count in Counter(file.parent for file in PACKAGE.rglob("*.py")).items():
        found.add("files in one folder", count, folder.relative_to(ROOT).as_posix())
    thousands = max(lines / 1000, 1)
    for key in ("Any per 1,000 lines", "broad except per 1,000 lines"):
        found.add(key, found.counts[key] / thousands, " ".join(found.places[key][:5]))
    for key in (
        "functions without full types",
        "swallowed broad except",
        "global statements",
        "print outside cli/ and testing/",
    ):
        found.add(key, found.counts[key], " ".join(found.places[key][:5]))
    environment = sorted(set(found.places["environment"]))
    found.add("files that read the environment", len(environment), " ".join(environment))
    ordered = sorted(found.lengths)
    found.add(
        "function lines, p95", ordered[int(0.95 * (len(ordered) - 1))] if ordered else 0, f"{len(ordered)} functions"
    )
    same = [places for places in found.bodies.values() if len(places) > 1]
    found.add("identical functions of 8+ lines", len(same), "; ".join(" = ".join(places[:2]) for places in same[:3]))
    top = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    public = [node for node in ast.walk(top) if isinstance(node, ast.List)]
    found.add("public names at the top", len(public[0].elts) if public else 0, "hermes/__init__.py")


def main() -> int:
    found, lines = measure()
    sizes = [value for value, _ in found.values["file lines"]]
    middle = statistics.median(found.lengths or [0])
    print(f"{len(sizes)} files, {lines} lines, {len(found.lengths)} functions (median {middle:.0f} lines)\n")
    print("| what | limit | largest | where |\n|---|---|---|---|")
    over: list[str] = []
    for key, limit in LIMITS.items():
        rows = sorted(found.values[key], reverse=True) or [(0, "")]
        value, where = rows[0]
        print(f"| {key} | {limit:g} | {round(value, 1):g} | {where[:90]} |")
        over += [
            f"over the limit: {key} {round(value, 1):g} > {limit:g}: {where}" for value, where in rows if value > limit
        ]
    if over:
        print("\n" + "\n".join(over))
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())

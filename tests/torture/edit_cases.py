"""Edits of which it is known where they are meant: a file made by rule, a copy of some of its lines with small faults,
and what must stand in the file afterwards.

Each line has a canonical form. The file and the model's copy of it are made from that form by different noise. So
neither the place nor the result of an edit is found by looking for it: both are known, since the edit was made here.
"""

import random
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

WORDS = """
    alpha beta gamma delta order total price user account token index buffer window client server result value name path
    entry cache queue worker event signal state größe naïve café señor état übersicht
""".split()  # noqa: SIM905 - a list of words is easier to read than a list of strings
MIXED = "mixed"
ENDS = ("\n", "\n", "\r\n", "\r", MIXED)
CURLY = str.maketrans({'"': "”", "'": "’", "-": "–"})


@dataclass(frozen=True)
class Line:
    """A line in its canonical form: how deep it is indented, and its text without indentation."""

    depth: int
    text: str


@dataclass(frozen=True)
class Language:
    """How the lines of a language are made."""

    suffix: str
    unit: str
    templates: str
    """Lines with places for words, and bars between them."""


LANGUAGES = (
    Language(".py", "    ", """
        {a} = '{b}' + {c}|print("{a}  {b}", {c})|if {a} == {b}:|return {a}({b}, {c})||# {a} - {b}"""),
    Language(".ts", "  ", """
        const {a} = '{b}';|if ({a} === {b}) {{|}}|return {a}({b}, {c});||{a}.{b}("{c}");"""),
    Language(".go", "\t", """{a} := {b}({c})|if {a} != nil {{|}}|return {a}, "{b}"||// {a}: {b}"""),
    Language(".md", "  ", """- {a} "{b}" - {c}|{a} {b} {c}...|# {a}||> '{a}' {b}|* {a}: {b}"""),
    Language(".yaml", "  ", """{a}:|{a}: "{b}"|- {a}: {b} {c}|{a}: '{b} - {c}'|# {a}|- {b}"""),
    Language(".html", "    ", """
        <{a} class="{b}">|</{a}>|<p>{a} {b}</p>||<!-- {a} {c} -->|{a} "{b}"..."""),
)  # fmt: skip


@dataclass
class Noise:
    """What makes the file, or the copy, differ from the canonical form."""

    quotes: bool = False
    hard_blanks: bool = False
    inner: bool = False
    trailing: bool = False
    decomposed: bool = False
    unit: str = ""
    dedent: int = 0

    def write_line(self, line: Line, chosen: random.Random) -> str:
        """Return a line with some of the noise."""
        text = line.text
        if self.quotes and chosen.random() < 0.7:
            text = text.translate(CURLY).replace("...", "…")
        if self.inner and " " in text:
            at = chosen.choice([at for at, char in enumerate(text) if char == " "])
            text = text[:at] + " " * chosen.randint(2, 3) + text[at + 1 :]
        if self.hard_blanks and " " in text and chosen.random() < 0.7:
            at = chosen.choice([at for at, char in enumerate(text) if char == " "])
            text = text[:at] + "\u00a0" + text[at + 1 :]
        if self.decomposed:
            text = unicodedata.normalize("NFD", text)
        if self.trailing and chosen.random() < 0.5:
            text += chosen.choice((" ", "  ", "\t"))
        return self.write_indent(line.depth) * bool(line.text) + text

    def for_lines(self, lines: Sequence[Line]) -> "Noise":
        """Return the noise with no more of the indentation taken away than the lines share."""
        return replace(self, dedent=min(self.dedent, *(line.depth for line in lines if line.text), 9))

    def write_indent(self, depth: int) -> str:
        """Return the indentation of a depth."""
        return self.unit * max(0, depth - self.dedent)


@dataclass(frozen=True)
class Step:
    """A line that goes, stays or comes: the mark that a patch gives it, the model's line and the file's."""

    mark: str
    mine: str
    theirs: str


@dataclass(frozen=True)
class Change:
    """A change of neighbouring lines, from the index of the first one on."""

    first: int
    steps: tuple[Step, ...]

    @property
    def size(self) -> int:
        """The number of lines that are named."""
        return len(self.old)

    @property
    def old(self) -> list[str]:
        """What the lines are, in the model's words."""
        return [step.mine for step in self.steps if step.mark in " -"]

    @property
    def new(self) -> list[str]:
        """What they are to become, in the model's words."""
        return [step.mine for step in self.steps if step.mark in " +"]


@dataclass(frozen=True)
class EditCase:
    """An edit: the file's bytes before and after, and the call of the tool."""

    seed: int
    name: str
    before: bytes
    after: bytes
    call: dict[str, object]
    is_unique: bool
    """Whether the text can be meant for one place only; elsewhere a refusal is as good."""


def make_case(seed: int) -> EditCase:
    """Return the edit of a seed."""
    chosen = random.Random(seed)
    return next(case for case in iter(lambda: _try_case(seed, chosen), ...) if case is not None)


def _try_case(seed: int, chosen: random.Random) -> EditCase | None:
    """Return an edit; None where the model's text names another place of the file letter by letter."""
    language = chosen.choice(LANGUAGES)
    lines = _make_lines(language, chosen)
    theirs, mine = (_make_noise(language, chosen, is_copy=is_copy) for is_copy in (False, True))
    there = [theirs.write_line(line, chosen) for line in lines]
    is_patch, ends = chosen.random() < 0.5, chosen.choice(ENDS)
    acts = ("keep", "word", "delete") if ends == MIXED else ("keep", "word", "delete", "insert")
    changes = []
    for first, last in _choose_spans(lines, chosen.randint(1, 3) if is_patch else 1, chosen):
        planned = _plan_acts(lines[first:last], acts, chosen)
        copy = mine.for_lines(lines[first:last])
        made = [
            step
            for line, real, act in zip(lines[first:last], there[first:last], planned, strict=True)
            for step in _make_steps(line, real, act, (copy, theirs), chosen)
        ]
        changes.append(Change(first, tuple(made)))
    if not changes or any(
        change.old == change.new or not any(change.new) or _is_named_elsewhere(change, there) for change in changes
    ):
        return None
    name = f"file{language.suffix}"
    call, is_unique = (_write_patch if is_patch else _write_replacement)(name, changes, lines, there, chosen)
    mark = b"\xef\xbb\xbf" if chosen.random() < 0.15 else b""
    endings = [chosen.choice(("\n", "\r\n")) if ends == MIXED else ends for _ in lines]
    if chosen.random() < 0.2:
        endings[-1] = ""
    before = [*zip(there, endings, strict=True)]
    after = _apply_changes(before, changes)
    texts = ("".join(line + end for line, end in rows) for rows in (before, after))
    made_before, made_after = (mark + text.encode() for text in texts)
    return EditCase(seed, name, made_before, made_after, call, is_unique)


def _make_lines(language: Language, chosen: random.Random) -> list[Line]:
    """Return a file in its canonical form; some stretches come twice, as they are or with one more word."""
    lines: list[Line] = []
    depth = 0
    for _ in range(chosen.randint(12, 60)):
        depth = max(0, min(3, depth + chosen.choice((-1, 0, 0, 1))))
        text = chosen.choice(language.templates.strip().split("|")).format(
            **dict(zip("abc", chosen.sample(WORDS, 3), strict=True))
        )
        lines.append(Line(depth if text else 0, text))
    for _ in range(chosen.randint(0, 2)):
        at = chosen.randrange(len(lines) - 4)
        copy = lines[at : at + chosen.randint(2, 4)]
        if chosen.random() < 0.6:
            place = chosen.randrange(len(copy))
            copy[place] = Line(copy[place].depth, f"{copy[place].text} {chosen.choice(WORDS)}".strip())
        where = chosen.randrange(len(lines))
        lines[where:where] = copy
    return [*lines, Line(0, "the end")]


def _make_noise(language: Language, chosen: random.Random, *, is_copy: bool) -> Noise:
    """Return at most three kinds of noise at once."""
    noise = Noise(unit=language.unit)
    for kind in chosen.sample(
        ("quotes", "hard_blanks", "inner", "trailing", "decomposed", "unit"), chosen.randint(0, 3)
    ):
        if kind == "unit":
            noise.unit = chosen.choice(("    ", "\t") if language.unit != "\t" else ("    ", "  "))
        else:
            setattr(noise, kind, True)
    noise.dedent = int(is_copy and chosen.random() < 0.2)
    return noise


def _choose_spans(lines: Sequence[Line], count: int, chosen: random.Random) -> list[tuple[int, int]]:
    """Return stretches of lines that are apart, in their order. None ends with a blank line, which nobody can tell from
    the end of the text.
    """
    spans: list[tuple[int, int]] = []
    at, size = 0, len(lines) - 1
    for _ in range(count):
        if at + 2 > size:
            break
        first = chosen.randrange(at, max(at + 1, size - 6))
        last = min(size, first + chosen.randint(1, 6))
        while last > first and not lines[last - 1].text:
            last -= 1
        spans += [(first, last)] if last > first else []
        at = last + 1
    return spans


def _plan_acts(lines: Sequence[Line], acts: Sequence[str], chosen: random.Random) -> list[str]:
    """Return what happens to each line: one thing, or several words are changed. What else is changed beside each
    other cannot be told apart by anybody.
    """
    planned = ["keep"] * len(lines)
    filled = [at for at, line in enumerate(lines) if line.text]
    act = chosen.choice(acts[1:])
    for at in chosen.sample(filled, min(len(filled), chosen.randint(1, 3) if act == "word" else 1)):
        is_twin = any(lines[other] == lines[at] for other in (at - 1, at + 1) if 0 <= other < len(lines))
        is_able = _find_single_word(lines[at].text) if act == "word" else not is_twin
        planned[at] = act if is_able else "keep"
    return planned


def _make_steps(line: Line, real: str, act: str, noises: tuple[Noise, Noise], chosen: random.Random) -> Iterator[Step]:
    mine, theirs = noises
    copied = mine.write_line(line, chosen)
    if act == "word":
        word, other = _find_single_word(line.text), "changed" + chosen.choice("xyz")
        yield Step("-", copied, real)
        yield Step("+", copied.replace(word, other), real.replace(word, other))
    elif act == "delete":
        yield Step("-", copied, real)
    else:
        yield Step(" ", copied, real)
    if act == "insert":
        text = f"inserted {chosen.choice(WORDS)} {chosen.randrange(1000)}"
        yield Step("+", mine.write_indent(line.depth) + text, theirs.write_indent(line.depth) + text)


def _find_single_word(text: str) -> str:
    """Return a word that a line has once, and that no noise changes; empty where it has none."""
    return next((word for word in WORDS if word.isascii() and text.count(word) == 1), "")


def _apply_changes(rows: Sequence[tuple[str, str]], changes: Sequence[Change]) -> list[tuple[str, str]]:
    """Return the lines with their ends after the changes."""
    after: list[tuple[str, str]] = []
    done = 0
    for change in sorted(changes, key=lambda one: one.first):
        after += rows[done : change.first]
        done = change.first
        for step in change.steps:
            if step.mark != "+":
                gone = rows[done]
                done += 1
            if step.mark != "-":
                after.append((step.theirs, gone[1]))
    return [*after, *rows[done:]]


def _is_named_elsewhere(change: Change, there: Sequence[str]) -> bool:
    """Return whether the model's text stands in the file letter by letter where it is not meant, or not as lines."""
    text, old = "\n".join(there), "\n".join(change.old)
    meant = len("\n".join(there[: change.first])) + (change.first > 0)
    at = text.find(old)
    while at >= 0:
        if at != meant:
            return True
        at = text.find(old, at + 1)
    return False


def _is_place(lines: Sequence[Line], change: Change, at: int) -> bool:
    """Return whether the lines from `at` on have the canonical text of what is changed."""
    meant = lines[change.first : change.first + change.size]
    return [_fold(line) for line in lines[at : at + change.size]] == [_fold(line) for line in meant]


def _fold(line: Line) -> str:
    return line.text.replace(" ", "").replace('"', "'")


def _has_one_place(lines: Sequence[Line], change: Change) -> bool:
    return sum(_is_place(lines, change, at) for at in range(len(lines))) == 1


Call = tuple[dict[str, object], bool]


def _write_replacement(
    name: str, changes: Sequence[Change], lines: Sequence[Line], there: Sequence[str], chosen: random.Random
) -> Call:
    """Return the call that replaces one text by another, and whether it can be meant for one place only."""
    del there
    (change,) = changes
    end = "\n" if change.new and chosen.random() < 0.3 else ""
    texts = {"old_string": "\n".join(change.old) + end, "new_string": "\n".join(change.new) + end}
    return {"path": name, **texts}, _has_one_place(lines, change)


def _write_patch(
    name: str, changes: Sequence[Change], lines: Sequence[Line], there: Sequence[str], chosen: random.Random
) -> Call:
    """Return the call with a patch, in one of the forms in which models write them, and whether it can be meant for
    one place only.
    """
    is_unique = all(_has_one_place(lines, change) for change in changes)
    order = [*changes]
    if is_unique and chosen.random() < 0.2:
        chosen.shuffle(order)
    body: list[str] = []
    for number, change in enumerate(order):
        last = max((at for at in range(change.first) if _is_place(lines, change, at)), default=-1)
        last = max(last, *(other.first + other.size - 1 for other in changes if other.first < change.first), -1)
        above = [line.strip() for line in there[last + 1 : change.first] if len(line) > 8]
        named = [line for line in above if sum(line in other for other in there) == 1]
        context = chosen.choice(named) if named and order == changes and chosen.random() < 0.3 else ""
        body += [f"@@ {context}" if context else "@@"] if context or number or chosen.random() < 0.5 else []
        body += ["" if step.mark == " " and not step.mine else step.mark + step.mine for step in change.steps]
    return {"mode": "patch", "patch": _wrap_patch(name, body, chosen)}, is_unique


def _wrap_patch(name: str, body: Sequence[str], chosen: random.Random) -> str:
    form = chosen.choice(("plain", "plain", "bare", "fence", "heredoc", "indented", "markers"))
    blanks = " " * chosen.randint(1, 3) if form == "markers" else ""
    header = f"{blanks}*** Update File: {name}"
    text = [header, *body] if form == "bare" else [f"{blanks}*** Begin Patch", header, *body, f"{blanks}*** End Patch"]
    if form == "fence":
        text = ["```diff", *text, "```"]
    elif form == "heredoc":
        text = ["apply_patch <<'EOF'", *text, "EOF"]
    elif form == "indented":
        text = [f"  {line}" if line else line for line in text]
    return "\n".join(text)

"""What is known of a skill from the head of its SKILL.md, as agentskills.io has it. Reading it runs nothing."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import yaml

NAME_LIMIT = 64
DESCRIPTION_LIMIT = 1_024
COMPATIBILITY_LIMIT = 500
BODY_LIMIT = 100_000
"""Characters of instructions."""
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""The fields of the specification; what is Hermes' own stands under `metadata`."""
_HEAD_LIMIT = 8_000
_NODES = 500
_DEEP = 6
_TOO_DEEP = "its head is nested too deeply, or too long"
_FLOW = "it uses [..] or {..}, which some readers refuse"
_WORD = re.compile(r"[\w./+-]{1,40}")
"""A category, a program, a variable: a name, with no room for sentences."""
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_HEAD = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)

Value = str | list["Value"] | dict[str, "Value"]


class HeadError(Exception):
    """The head of a SKILL.md cannot be used; the message says why."""


class Head(Struct, frozen=True, kw_only=True):
    """A skill's head. `wrong` is what keeps it from being used, `odd` what the specification does not have."""

    name: str = ""
    description: str = ""
    license: str = ""
    compatibility: str = ""
    category: str = ""
    platforms: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()


def is_name(name: str) -> bool:
    """Whether a skill can have this name: lower-case letters and digits, single hyphens between, 64 at the most."""
    return len(name) <= NAME_LIMIT and _NAME.fullmatch(name) is not None


def word(text: str) -> str:
    """The text when it is a plain name of a category, program or variable; else nothing."""
    return text if _WORD.fullmatch(text) else ""


def parted(text: str) -> tuple[str, str]:
    """The head and the body of a SKILL.md. Raises HeadError when there is no head."""
    text = text.removeprefix("\ufeff")
    found = _HEAD.match(text)
    if found is None:
        raise HeadError("it must begin with a head between two lines of ---")
    if len(found[1]) > _HEAD_LIMIT:
        raise HeadError(f"its head is longer than {_HEAD_LIMIT:,} characters")
    return found[1], text[found.end() :].strip()


def read_head(text: str, folder: str) -> Head:
    """The head of a SKILL.md that lies in a folder of this name, with all that is wrong with it. Never raises."""
    try:
        head, body = parted(text)
        fields, odd = _fields(head)
    except HeadError as error:
        return Head(name=folder, wrong=(str(error),))
    wrong = list(_wrong(fields, folder))
    if len(body) > BODY_LIMIT:
        wrong.append(f"its instructions have {len(body):,} characters; {BODY_LIMIT:,} are the most")
    if not body:
        wrong.append("it has no instructions")
    more = fields.get("metadata")
    meta = more if isinstance(more, dict) else {}
    theirs = meta.get("hermes")
    requires = meta.get("requires")
    needs = requires if isinstance(requires, dict) else {}
    before = fields.get("prerequisites")
    older = before if isinstance(before, dict) else {}
    unknown = sorted(name for name in fields if name not in FIELDS)
    return Head(
        name=_text(fields.get("name")),
        description=" ".join(_text(fields.get("description")).split()),
        license=_text(fields.get("license")),
        compatibility=_text(fields.get("compatibility")),
        category=word(_text(meta.get("category") or (theirs.get("category") if isinstance(theirs, dict) else ""))),
        platforms=_words(meta.get("platforms"), fields.get("platforms")),
        programs=_words(needs.get("programs"), meta.get("requires-programs"), older.get("commands")),
        env=_words(
            needs.get("env"),
            meta.get("requires-env"),
            older.get("env_vars"),
            fields.get("required_environment_variables"),
        ),
        wrong=tuple(wrong),
        odd=(*odd, *(f"the specification has no field {name!r}" for name in unknown)),
    )


def with_category(text: str, category: str) -> str:
    """A SKILL.md with its category named in the head, if none is."""
    try:
        head, _ = parted(text)
        if not category or read_head(text, "").category:
            return text
    except HeadError:
        return text
    line = f"  category: {category}\n"
    found = re.search(r"(?m)^metadata:[ \t]*\n", head)
    added = head[: found.end()] + line + head[found.end() :] if found else f"{head}metadata:\n{line}"
    return text.replace(head, added, 1)


def _wrong(fields: Mapping[str, Value], folder: str) -> Iterable[str]:
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not name:
        yield "its head has no `name`"
    elif not is_name(name):
        yield f"its name {name[:80]!r} is not {NAME_LIMIT} lower-case letters, digits and single hyphens at the most"
    elif name != folder:
        yield f"its name is {name!r} and its folder's is {folder!r}: they must be the same"
    if not isinstance(description, str) or not description.strip():
        yield "its head has no `description`"
    elif len(description) > DESCRIPTION_LIMIT:
        yield f"its description has {len(description):,} characters; {DESCRIPTION_LIMIT:,} are the most"
    compatibility = fields.get("compatibility", "")
    if not isinstance(compatibility, str) or len(compatibility) > COMPATIBILITY_LIMIT:
        yield f"its `compatibility` is not a text of {COMPATIBILITY_LIMIT} characters at the most"


def _fields(head: str) -> tuple[dict[str, Value], list[str]]:
    """The head's fields, all values as text, lists and mappings; and what in it other readers will not take."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_events(yaml.parse(head, Loader=loader))
        node = yaml.compose(head, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" in line {mark.line + 2}" if mark else ""
        raise HeadError(f"its head is not valid YAML{where}: {error.problem}") from None
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise HeadError(f"its head is not valid YAML: {str(error).splitlines()[0][:160]}") from None
    reader = _Reader()
    found = reader.read(node, 0) if node is not None else {}
    if not isinstance(found, dict):
        raise HeadError("its head must hold `key: value` lines")
    return found, reader.odd


def _check_events(events: Iterable["yaml.Event"]) -> None:
    """Raise HeadError for a head that cannot be composed safely.

    The C library composes by recursion: a few thousand open brackets overflow its stack and end the process, which
    nothing can catch. Its events come one by one, from a stack on the heap, and reading stops with the first that is
    too deep.
    """
    from yaml import CollectionEndEvent, CollectionStartEvent, NodeEvent

    depth = nodes = 0
    for event in events:
        if getattr(event, "anchor", None):
            raise HeadError("its head has anchors (&name), which no skill needs")
        nodes += isinstance(event, NodeEvent)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > _DEEP + 1 or nodes > 2 * _NODES:
            raise HeadError(_TOO_DEEP)


class _Reader:
    """Turns nodes into plain values; every scalar stays the text that it is."""

    def __init__(self) -> None:
        self.odd: list[str] = []
        self._nodes = 0

    def read(self, node: "yaml.Node", depth: int) -> Value:
        """The value of a node. Raises HeadError for one that is too deep, too large, or has a key twice."""
        self._nodes += 1
        if self._nodes > _NODES or depth > _DEEP:
            raise HeadError(_TOO_DEEP)
        if not isinstance(node.value, list):
            return str(node.value)
        if getattr(node, "flow_style", False) and _FLOW not in self.odd:
            self.odd.append(_FLOW)
        if node.value and not isinstance(node.value[0], tuple):
            return [self.read(child, depth + 1) for child in node.value]
        return self._mapping(node.value, depth)

    def _mapping(self, pairs: Iterable[tuple["yaml.Node", "yaml.Node"]], depth: int) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for key, value in pairs:
            name = "" if isinstance(key.value, list) else str(key.value)
            if not name:
                raise HeadError("a key of its head is no plain text")
            if name in found:
                raise HeadError(f"its head has {name[:60]!r} twice")
            found[name] = self.read(value, depth + 1)
        return found


def _text(value: Value | None) -> str:
    return value.strip() if isinstance(value, str) else ""


def _words(*values: Value | None) -> tuple[str, ...]:
    """Words of lists, and of texts in which spaces or commas part them; of mappings their `name`. What is no plain
    name is left out."""
    found: list[str] = []
    for value in values:
        if isinstance(value, str):
            found += re.split(r"[\s,]+", value)
        elif isinstance(value, list):
            for one in value:
                found.append(_text(one.get("name")) if isinstance(one, dict) else _text(one))
    return tuple(dict.fromkeys(filter(None, map(word, found))))

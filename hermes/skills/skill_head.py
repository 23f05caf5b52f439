"""Reads the head of a SKILL.md, as agentskills.io specifies it. Reading it runs nothing."""

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
SPECIFIED_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""The fields of the specification; Hermes' own are under `metadata`."""
_HEAD_LIMIT = 8_000
_MAX_NODES = 500
_MAX_DEPTH = 6
_TOO_DEEP = "its head is nested too deeply, or too long"
_FLOW = "it uses [..] or {..}, which some readers refuse"
_PLAIN_NAME = re.compile(r"[\w./+-]{1,40}")
"""A category, a program, a variable: a name, with no room for sentences."""
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_HEAD = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)

Value = str | list["Value"] | dict[str, "Value"]


class SkillHeadError(Exception):
    """The head of a SKILL.md cannot be used; the message says why."""


class SkillHead(Struct, frozen=True, kw_only=True):
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


def is_skill_name(name: str) -> bool:
    """Return whether a skill can have this name: lower-case letters and digits, single hyphens between, 64
    at the most.
    """
    return len(name) <= NAME_LIMIT and _NAME.fullmatch(name) is not None


def keep_plain_name(text: str) -> str:
    """Return the text when it is a plain name of a category, program or variable; else an empty string."""
    return text if _PLAIN_NAME.fullmatch(text) else ""


def split_head(text: str) -> tuple[str, str]:
    """Return the head and the body of a SKILL.md. Raises HeadError when there is no head."""
    text = text.removeprefix("\ufeff")
    found = _HEAD.match(text)
    if found is None:
        raise SkillHeadError("it must begin with a head between two lines of ---")
    if len(found[1]) > _HEAD_LIMIT:
        raise SkillHeadError(f"its head is longer than {_HEAD_LIMIT:,} characters")
    return found[1], text[found.end() :].strip()


def read_head(text: str, folder: str) -> SkillHead:
    """Read the head of a SKILL.md that lies in a folder of this name, with all that is wrong with it. Never raises."""
    try:
        head, body = split_head(text)
        fields, odd = _parse_fields(head)
    except SkillHeadError as error:
        return SkillHead(name=folder, wrong=(str(error),))
    wrong = list(_iter_problems(fields, folder))
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
    unknown = sorted(name for name in fields if name not in SPECIFIED_FIELDS)
    return SkillHead(
        name=_to_text(fields.get("name")),
        description=" ".join(_to_text(fields.get("description")).split()),
        license=_to_text(fields.get("license")),
        compatibility=_to_text(fields.get("compatibility")),
        category=keep_plain_name(
            _to_text(meta.get("category") or (theirs.get("category") if isinstance(theirs, dict) else ""))
        ),
        platforms=_collect_names(meta.get("platforms"), fields.get("platforms")),
        programs=_collect_names(needs.get("programs"), meta.get("requires-programs"), older.get("commands")),
        env=_collect_names(
            needs.get("env"),
            meta.get("requires-env"),
            older.get("env_vars"),
            fields.get("required_environment_variables"),
        ),
        wrong=tuple(wrong),
        odd=(*odd, *(f"the specification has no field {name!r}" for name in unknown)),
    )


def add_category(text: str, category: str) -> str:
    """Return a SKILL.md with its category named in the head, if none is."""
    try:
        head, _ = split_head(text)
        if not category or read_head(text, "").category:
            return text
    except SkillHeadError:
        return text
    line = f"  category: {category}\n"
    found = re.search(r"(?m)^metadata:[ \t]*\n", head)
    added = head[: found.end()] + line + head[found.end() :] if found else f"{head}metadata:\n{line}"
    return text.replace(head, added, 1)


def _iter_problems(fields: Mapping[str, Value], folder: str) -> Iterable[str]:
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not name:
        yield "its head has no `name`"
    elif not is_skill_name(name):
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


def _parse_fields(head: str) -> tuple[dict[str, Value], list[str]]:
    """Return the head's fields, all values as text, lists and mappings; and what in it other readers will not take."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_events(yaml.parse(head, Loader=loader))
        node = yaml.compose(head, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" in line {mark.line + 2}" if mark else ""
        raise SkillHeadError(f"its head is not valid YAML{where}: {error.problem}") from None
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise SkillHeadError(f"its head is not valid YAML: {str(error).splitlines()[0][:160]}") from None
    reader = _NodeReader()
    found = reader.read_node(node, 0) if node is not None else {}
    if not isinstance(found, dict):
        raise SkillHeadError("its head must hold `key: value` lines")
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
            raise SkillHeadError("its head has anchors (&name), which no skill needs")
        nodes += isinstance(event, NodeEvent)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > _MAX_DEPTH + 1 or nodes > 2 * _MAX_NODES:
            raise SkillHeadError(_TOO_DEEP)


class _NodeReader:
    """Turns nodes into plain values; every scalar stays the text that it is."""

    def __init__(self) -> None:
        self.odd: list[str] = []
        self._nodes = 0

    def read_node(self, node: "yaml.Node", depth: int) -> Value:
        """Return the value of a node. Raises HeadError for one that is too deep, too large, or has a key twice."""
        self._nodes += 1
        if self._nodes > _MAX_NODES or depth > _MAX_DEPTH:
            raise SkillHeadError(_TOO_DEEP)
        if not isinstance(node.value, list):
            return str(node.value)
        if getattr(node, "flow_style", False) and _FLOW not in self.odd:
            self.odd.append(_FLOW)
        if node.value and not isinstance(node.value[0], tuple):
            return [self.read_node(child, depth + 1) for child in node.value]
        return self._read_mapping(node.value, depth)

    def _read_mapping(self, pairs: Iterable[tuple["yaml.Node", "yaml.Node"]], depth: int) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for key, value in pairs:
            name = "" if isinstance(key.value, list) else str(key.value)
            if not name:
                raise SkillHeadError("a key of its head is no plain text")
            if name in found:
                raise SkillHeadError(f"its head has {name[:60]!r} twice")
            found[name] = self.read_node(value, depth + 1)
        return found


def _to_text(value: Value | None) -> str:
    return value.strip() if isinstance(value, str) else ""


def _collect_names(*values: Value | None) -> tuple[str, ...]:
    """Return the plain names in lists, and in texts separated by spaces or commas; of mappings their `name`.

    What is no plain name is left out.
    """
    found: list[str] = []
    for value in values:
        if isinstance(value, str):
            found += re.split(r"[\s,]+", value)
        elif isinstance(value, list):
            for one in value:
                found.append(_to_text(one.get("name")) if isinstance(one, dict) else _to_text(one))
    return tuple(dict.fromkeys(filter(None, map(keep_plain_name, found))))

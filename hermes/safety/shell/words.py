"""What a shell command is made of, as far as it can be told before it runs: words, streams, folders, state."""

import os.path
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import Struct
from tree_sitter import Node

from hermes.safety.globs import spelled

SECRET = "secret"  # noqa: S105 - the name of a label
"""Holds keys, or what else must not leave."""
FETCHED = "fetched"
"""Comes from another host."""
DECODED = "decoded"
"""Was decoded from a form that hides what it says."""
ENDLESS = "endless"
"""Never ends."""
STORED = "stored"
"""Names what a store holds."""
REMADE = "remade"
"""Names only files that can be made again."""
MADE_HERE = "${:mktemp}"
"""Stands for what `mktemp` put into a name: no variable can be called so."""
NONE: frozenset[str] = frozenset()
_LONGEST_SUBJECT = 2_000
_DEEPEST = 4096
"""Characters of a folder's path that are followed: Linux's PATH_MAX."""


_LOOSE = re.compile(r"[;\n|!]|(?<![&>])&(?![&>])")
"""Behind what a text may go on where something failed."""
_BARE = re.compile(r"\$\{\w+\}|\$\(\)")


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


class Word(Struct, frozen=True, gc=False):
    """One argument. What is only known when it runs stands in `text` as `${NAME}` or `$()`, and `dynamic` is set.

    `labels` say where its parts come from (SECRET, FETCHED, DECODED).
    """

    text: str
    dynamic: bool = False
    quoted: bool = False
    labels: frozenset[str] = NONE


def is_bare(word: Word) -> bool:
    """Whether nothing of a word is known before it runs, but perhaps that it names a temporary file."""
    return word.dynamic and (_BARE.fullmatch(word.text) is not None or word.text.endswith(MADE_HERE))


class Stream(Struct, frozen=True, gc=False):
    """What flows through a pipe, or stands in a file. `text` is None when it cannot be told."""

    text: str | None = None
    labels: frozenset[str] = NONE


NOTHING = Stream("")
UNTOLD = Stream()


@dataclass(frozen=True, slots=True)
class Where:
    """The folders that a line has been in, the present one last. `told` is False when text alone does not say more."""

    own: str
    been: tuple[str, ...]
    told: bool = True
    chained: bool = True
    """Whether all of the line is joined by `&&`: a change of folder that fails ends it."""

    @property
    def now(self) -> str:
        """The present folder."""
        return self.been[-1]

    def to(self, folder: str) -> "Where":
        """After a change of folder."""
        if len(folder) > _DEEPEST:
            # Followed further, a line of nothing but `cd a` costs the square of its length. What is really deeper than
            # it is taken for here can only come out higher up again, where more is asked about.
            return self.lost()
        # The third folder and those after it count as one: by then nothing but the whole line can be allowed.
        return self if folder == self.now else replace(self, been=(*self.been[:2], folder))

    def lost(self) -> "Where":
        """After something that may have changed the folder."""
        return replace(self, told=False) if self.told else self

    def loosened(self, text: str) -> "Where":
        """Inside of a text that goes on where something fails."""
        return replace(self, chained=False) if self.chained and _LOOSE.search(text.strip()) else self

    def subject(self, text: str) -> str:
        """What a pattern has to cover for `text` to run here; empty when it cannot be told whether it runs here."""
        if not self.told or len(text) > _LONGEST_SUBJECT:
            return ""
        if self.been == (self.own,):
            return text
        # A change of folder may fail or be skipped: the line then runs in the one before, which must be the session's.
        return (
            f"{spelled(('cd', self.now))} && {text}" if len(self.been) == 1 or self.been == (self.own, self.now) else ""
        )


@dataclass(slots=True)
class State:
    """What a shell knows while it runs. `files` is shared by all of them: what one writes, another one reads."""

    where: Where
    variables: dict[str, Word]
    arrays: dict[str, list[Word]]
    functions: dict[str, Node | str]
    """Bodies of functions, and texts of aliases."""
    files: dict[str, Stream]
    positional: Sequence[Word] | None = None
    references: dict[str, str] = field(default_factory=dict)
    """Variables that stand for others, by `declare -n`; empty where it cannot be told for which."""
    sums: set[str] = field(default_factory=set)
    """Variables that are set inside of arithmetic: their values are not followed."""

    moved: set[str] = field(default_factory=set)
    """Where this line moves or links things that are no output of a build."""

    def named(self, name: str) -> str:
        """The variable that a name means; empty when it cannot be told."""
        for _ in range(8):
            if name not in self.references:
                return name
            name = self.references[name]
        return ""

    def copy(self, where: Where | None = None) -> "State":
        """For a subshell: it knows what this one knows, and changes nothing here but files."""
        return State(
            where or self.where,
            dict(self.variables),
            dict(self.arrays),
            dict(self.functions),
            self.files,
            self.positional,
            dict(self.references),
            self.sums,
            self.moved,
        )


def started(own: str, cwd: str, known: Mapping[str, str]) -> State:
    """A shell that starts in `cwd` with these variables; `own` is the session's folder."""
    return State(Where(own, (cwd,)), {name: Word(text) for name, text in known.items()}, {}, {}, {})


def basename(text: str) -> str:
    """The last part of a path; the text itself when it is none."""
    return os.path.basename(text) if "/" in text else text

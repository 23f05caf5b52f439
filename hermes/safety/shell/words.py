"""The values of shell analysis, as far as they are known before a command runs: words, streams, folders, state."""

import os.path
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from msgspec import Struct
from tree_sitter import Node

from hermes.i18n.messages import N_
from hermes.safety.globs import quote_argv
from hermes.safety.shell.findings import MADE_HERE


class Label(StrEnum):
    """What is known of a text besides what it says: where it comes from, and what it stands for."""

    SECRET = "secret"  # noqa: S105 - the name of a label
    """It holds keys or other private content."""
    FETCHED = "fetched"
    """It comes from another host."""
    DECODED = "decoded"
    """It was decoded from a form that hides its content."""
    ENDLESS = "endless"
    """It never ends."""
    MANY = "many"
    """It has thousands of lines."""
    STORED = "stored"
    """It names what a store holds."""
    SEARCH_RESULT = "found"
    """It names files that were searched for."""
    REGENERABLE = "remade"
    """It names regenerable files only."""
    EVERYTHING = "everything"
    """It names all files of the system, or of a home."""
    KEYED = "keyed"
    """It names files outside of the session's folder that are named like keys."""
    HOOK = "hook"
    """It was made to be evaluated by a shell."""


NO_LABELS: frozenset[str] = frozenset()
_MAX_SUBJECT = 2_000
_MAX_FOLDER_CHARS = 4096
"""Characters of a folder's path that are followed: Linux's PATH_MAX."""


_LOOSE_JOIN = re.compile(r"[;\n|!]|(?<![&>])&(?![&>])")
"""Operators after which a text may continue where a command failed."""
_BARE_VALUE = re.compile(r"\$\{\w+\}|\$\(\)")


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, as a set."""
    return frozenset(text.split())


DELETING = frozenset(("rm", "unlink", "shred", "rmdir", "srm", "del", "truncate"))
"""Programs that delete what they are given, or all that is in it."""


class Word(Struct, frozen=True, gc=False):
    """One argument. A part that is only known at run time is `${NAME}` or `$()` in `text`, and `dynamic` is set.

    `labels` say what is known of its parts.
    """

    text: str
    dynamic: bool = False
    quoted: bool = False
    labels: frozenset[str] = NO_LABELS


def is_bare_word(word: Word) -> bool:
    """Return whether a word is unknown before it runs, except perhaps that it names a temporary file."""
    return word.dynamic and (_BARE_VALUE.fullmatch(word.text) is not None or word.text.endswith(MADE_HERE))


class ShellStream(Struct, frozen=True, gc=False):
    """The content of a pipe or a file. `text` is None when it is unknown."""

    text: str | None = None
    labels: frozenset[str] = NO_LABELS


EMPTY_STREAM = ShellStream("")
UNKNOWN_STREAM = ShellStream()


@dataclass(frozen=True, slots=True)
class WorkingFolders:
    """The folders that a line has been in, the current one last. `is_known` is False when the text alone
    does not tell.
    """

    session_folder: str
    visited: tuple[str, ...]
    is_known: bool = True
    is_chained: bool = True
    """True if all of the line is joined by `&&`: a change of folder that fails ends it."""

    @property
    def current(self) -> str:
        """Return the current folder."""
        return self.visited[-1]

    def change_folder(self, folder: str) -> "WorkingFolders":
        """Return the folders after a change of folder."""
        if len(folder) > _MAX_FOLDER_CHARS:
            # Followed further, a line of nothing but `cd a` costs the square of its length. What is really deeper than
            # it is taken for here can only come out higher up again, where more is asked about.
            return self.lose_track()
        # The third folder and those after it count as one: by then nothing but the whole line can be allowed.
        return self if folder == self.current else replace(self, visited=(*self.visited[:2], folder))

    def lose_track(self) -> "WorkingFolders":
        """Return the folders after a command that may have changed the folder."""
        return replace(self, is_known=False) if self.is_known else self

    def loosen_chain(self, text: str) -> "WorkingFolders":
        """Return the folders inside of a text that continues where a command fails."""
        return replace(self, is_chained=False) if self.is_chained and _LOOSE_JOIN.search(text.strip()) else self

    def subject(self, text: str) -> str:
        """Return the subject that a pattern has to cover for `text` to run here; empty when it is unknown whether it
        runs here.
        """
        if not self.is_known or len(text) > _MAX_SUBJECT:
            return ""
        if self.visited == (self.session_folder,):
            return text
        # A change of folder may fail or be skipped: the line then runs in the one before, which must be the session's.
        if len(self.visited) > 1 and self.visited != (self.session_folder, self.current):
            return ""
        return N_("{quote_argv} && {text}", quote_argv=quote_argv(("cd", self.current)), text=text)


@dataclass(slots=True)
class AnalysisState:
    """The state of a shell while it runs. `files` is shared by all shells: what one writes, another one reads."""

    where: WorkingFolders
    variables: dict[str, Word]
    arrays: dict[str, list[Word]]
    functions: dict[str, Node | str]
    """Bodies of functions, and texts of aliases."""
    files: dict[str, ShellStream]
    positional: Sequence[Word] | None = None
    references: dict[str, str] = field(default_factory=dict)
    """Variables that refer to others, by `declare -n`; empty where the target is unknown."""
    arithmetic_names: set[str] = field(default_factory=set)
    """Variables that arithmetic sets: their values are not followed."""

    moved: set[str] = field(default_factory=set)
    """Places to which this line moves or links things that are no build output."""

    def resolve_name(self, name: str) -> str:
        """Return the variable that a name refers to; empty when it is unknown."""
        for _ in range(8):
            if name not in self.references:
                return name
            name = self.references[name]
        return ""

    def copy(self, where: WorkingFolders | None = None) -> "AnalysisState":
        """Return the state for a subshell: it knows what this one knows, and changes nothing here but files."""
        return AnalysisState(
            where or self.where,
            dict(self.variables),
            dict(self.arrays),
            dict(self.functions),
            self.files,
            self.positional,
            dict(self.references),
            self.arithmetic_names,
            self.moved,
        )


def initial_state(own: str, cwd: str, known: Mapping[str, str]) -> AnalysisState:
    """Return the state of a shell that starts in `cwd` with these variables; `own` is the session's folder."""
    return AnalysisState(WorkingFolders(own, (cwd,)), {name: Word(text) for name, text in known.items()}, {}, {}, {})


def path_basename(text: str) -> str:
    """Return the last part of a path; the text itself when it is none."""
    return os.path.basename(text) if "/" in text else text

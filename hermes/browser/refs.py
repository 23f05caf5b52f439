"""Refs: the names (`e12`) by which a model points at elements of a page.

A ref belongs to one node of one document. It stays the same as long as that document does, and is never given to
another node, so that one from an earlier page cannot hit an element of a later one.
"""

import re

from msgspec import Struct

from hermes.core.errors import BrowserError

_REF = re.compile(r"(?:ref=)?\[?@?e(\d{1,9})\]?", re.IGNORECASE)
MAX_REFS = 50_000


class RefTarget(Struct, frozen=True):
    """The node that a ref stands for, and where it is. `label` is its role and name as they were shown last."""

    tab_id: int
    session_id: str
    node_id: int
    """The node's number in its session."""
    frame_id: str
    document_id: str
    label: str


class RefTable:
    """The refs of a browser's pages; the oldest are dropped when there are too many."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int, str], int] = {}
        self._targets: dict[int, RefTarget] = {}
        self._last = 0

    def assign_ref(self, target: RefTarget) -> str:
        """Return the ref of a node, a new one for a node that has none."""
        identity = _identify(target)
        number = self._numbers.get(identity)
        if number is None:
            self._last += 1
            number = self._numbers[identity] = self._last
            if len(self._targets) >= MAX_REFS:
                self._drop(next(iter(self._targets)))
        self._targets[number] = target
        return f"e{number}"

    def find_target(self, ref: str) -> RefTarget:
        """Return the node of a ref. Raises BrowserError for one that is none, or whose document is gone."""
        found = _REF.fullmatch(ref.strip())
        if found is None:
            raise BrowserError(f"{ref[:40]!r} is no ref: a ref is an e and a number, as in e12.")
        number = int(found[1])
        target = self._targets.get(number)
        if target is not None:
            return target
        if number <= self._last:
            raise BrowserError(f"e{number} is stale: its page is gone. Take a new browser_snapshot.")
        raise BrowserError(f"There is no e{number}: take a browser_snapshot to see the refs.")

    def drop_document(self, tab_id: int, document_id: str) -> None:
        """Let the refs of a document be stale."""
        for number, target in [*self._targets.items()]:
            if target.tab_id == tab_id and target.document_id == document_id:
                self._drop(number)

    def drop_tab(self, tab_id: int) -> None:
        """Let the refs of a tab be stale."""
        for number, target in [*self._targets.items()]:
            if target.tab_id == tab_id:
                self._drop(number)

    def _drop(self, number: int) -> None:
        target = self._targets.pop(number)
        self._numbers.pop(_identify(target), None)


def _identify(target: RefTarget) -> tuple[str, int, str]:
    return (target.session_id, target.node_id, target.document_id)

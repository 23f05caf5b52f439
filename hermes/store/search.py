"""Full-text search over everything that was ever said: newest first, or best first among the newest hits."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec

from hermes.core.messages import Message, Role
from hermes.store.connection import explain, transaction
from hermes.store.index import DAMAGED, SHARD_BITS, IndexFile
from hermes.store.rows import Hit, IndexReport, MessageState, Search
from hermes.store.sessions import lineage
from hermes.store.words import Term, label, message_text, parts, snippet, terms
from hermes.store.worker import Worker

RANKED_HITS = 2_000
"""How many of the newest hits are ranked."""
COMMON_SHARE = 0.02
"""A word that stands in more than this part of the newest messages says little about what is looked for."""
_SAMPLE = 4_096
_QUESTION_TERMS = 4
_BODY = msgspec.json.Decoder(Message)


class SearchIndex(Worker[IndexFile]):
    """The index with a thread of its own. It follows the store: every search first takes in what is new."""

    def __init__(self, path: Path, store_path: Path, *, vfs: str | None = None) -> None:
        super().__init__("hermes-search")
        self._path = path
        self._store_path = store_path
        self._vfs = vfs
        self._stop = threading.Event()

    async def find(self, search: Search) -> list[Hit]:
        """The messages that the search means. With no word of the query found anywhere, none."""

        def work(index: IndexFile) -> list[Hit]:
            index.catch_up(self._stop.is_set)
            with transaction(index.connection, "DEFERRED"):
                return _Finder(index.connection, index.shards(), search).hits()

        return await self.run(work)

    async def follow(self) -> IndexReport:
        """Take in what is new and put the file in order; the report tells how much that was."""

        return await self.run(self._follow)

    def follow_soon(self) -> asyncio.Future[IndexReport]:
        """Do the same without anybody waiting; what goes wrong shows at the next search."""
        future = self.submit(self._follow)
        future.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return future

    def _follow(self, index: IndexFile) -> IndexReport:
        report = index.catch_up(self._stop.is_set)
        index.tidy(self._stop.is_set)
        return report

    async def erase(self) -> None:
        """Leave nothing of deleted and redacted messages in the index's files."""
        await self.run(IndexFile.erase)

    async def close(self) -> None:
        """Stop catching up after the batch under way, and close the file."""
        self._stop.set()
        await super().close()

    def open(self) -> IndexFile:
        """Open the index, or make it anew when it is damaged."""
        try:
            return IndexFile(self._path, self._store_path, vfs=self._vfs)
        except apsw.Error as error:
            raise explain(error, self._path) from error

    def perform(self, resource: IndexFile, work: Callable[[IndexFile], object]) -> object:
        """Run one job; a damaged index is made anew once and the job run again."""
        try:
            return work(resource)
        except DAMAGED:
            resource.heal()
            return work(resource)

    def explained(self, resource: IndexFile, error: Exception) -> Exception:
        """SQLite's errors in plain words."""
        return explain(error, self._path, resource.connection.system_errno) if isinstance(error, apsw.Error) else error

    def release(self, resource: IndexFile) -> None:
        """Close the file."""
        resource.close()


class _Finder:
    """One search. Shards are asked from the newest to the oldest until there is enough."""

    def __init__(self, connection: apsw.Connection, shards: list[int], search: Search) -> None:
        self._connection = connection
        self._search = search
        self._all_shards = shards
        self._shards = shards if search.session is None else self._shards_of(search.session, shards)
        self._limits = self._labels()
        self._wanted = search.offset + search.limit

    def hits(self) -> list[Hit]:
        """The page of hits that was asked for."""
        search = self._search
        found = terms(search.query)
        if not found or not self._shards or search.limit <= 0:
            return []
        words = self._telling(found) if len(found) >= _QUESTION_TERMS or not search.newest else found
        asked = _all(words)
        ids = self._newest(asked, self._wanted) if search.newest else self._ranked(asked)
        if len(ids) < (
            1 if search.newest else self._wanted
        ):  # not enough with every word: some of them, or their parts
            pieces = self._telling(parts(found))
            if _any(pieces) != asked:
                words = [*words, *pieces]
                ids += [one for one in self._ranked(_any(pieces)) if one not in set(ids)]
        return self._fetch(ids[search.offset : self._wanted], words)

    def _shards_of(self, session_id: str, shards: list[int]) -> list[int]:
        """The shards that may hold messages of the session."""
        ends = [
            self._connection.execute("SELECT min(id), max(id) FROM store.messages WHERE session_id = ?", (one,)).get
            for one in lineage(self._connection, session_id, "store")
        ]
        bounds = [bound for pair in ends for bound in pair if bound is not None]
        if not bounds:
            return []
        return [shard for shard in shards if min(bounds) >> SHARD_BITS <= shard <= max(bounds) >> SHARD_BITS]

    def _labels(self) -> str:
        """The search's limits in the index's own syntax."""
        search = self._search
        groups = [[label("r", role) for role in search.roles]]
        groups.append([label("o", search.source)] if search.source is not None else [])
        named = [] if search.session is None else lineage(self._connection, search.session, "store")
        groups.append([label("s", one) for one in named])
        asked = [" OR ".join(f'"{one}"' for one in group) for group in groups if group]
        return "".join(f" AND labels : ({one})" for one in asked)

    def _match(self, shard: int, expression: str, *, above: int, limit: int) -> list[int]:
        rows = self._connection.execute(
            f"SELECT rowid FROM words_{shard:d} WHERE words_{shard:d} MATCH ? AND rowid > ?"
            " ORDER BY rowid DESC LIMIT ?",
            (expression, above, limit),
        )
        return [row[0] for row in rows]

    def _newest(self, words: str, limit: int) -> list[int]:
        found: list[int] = []
        for shard in self._shards:
            found += self._match(shard, words + self._limits, above=0, limit=limit - len(found))
            if len(found) >= limit:
                break
        return found

    def _ranked(self, words: str) -> list[int]:
        """The best of the newest hits, the best first. Each shard weighs words by its own counts."""
        scored: list[tuple[float, int]] = []
        for shard in self._shards:
            scored += self._connection.execute(
                f"SELECT bm25(words_{shard:d}, 1.0, 1.0, 0.0), rowid FROM words_{shard:d}"
                f" WHERE words_{shard:d} MATCH ? ORDER BY rowid DESC LIMIT ?",
                (words + self._limits, RANKED_HITS - len(scored)),
            )
            if len(scored) >= RANKED_HITS:
                break
        return [identity for _, identity in sorted(scored, key=lambda pair: (pair[0], -pair[1]))]

    def _telling(self, words: list[Term]) -> list[Term]:
        """The words without the common ones; where all are common, the rarest."""
        if len(words) < 2:
            return words
        newest = self._connection.execute("SELECT value FROM state WHERE key = 'message'").get
        above = max(0, newest - _SAMPLE)
        enough = int(min(newest, _SAMPLE) * COMMON_SHARE)
        counted = sorted(((self._count(word, above, enough + 1), word) for word in words), key=lambda pair: pair[0])
        telling = [word for count, word in counted if count <= enough]
        return telling or [min(words, key=lambda word: self._count(word, above, _SAMPLE))]

    def _count(self, word: Term, above: int, limit: int) -> int:
        """In how many messages after `above` the word stands; counting ends at `limit`."""
        count = 0
        for shard in self._all_shards[:2]:
            if (shard + 1) << SHARD_BITS > above:
                count += len(self._match(shard, word.exact, above=above, limit=limit - count))
        return count

    def _fetch(self, ids: list[int], words: list[Term]) -> list[Hit]:
        needles = [word.needle for word in words]
        hits = []
        for identity in ids:
            row = self._connection.execute(
                "SELECT m.session_id, s.title, m.role, m.created_at, m.body FROM store.messages AS m"
                " JOIN store.sessions AS s ON s.id = m.session_id WHERE m.id = ? AND m.state <> ?",
                (identity, int(MessageState.UNDONE)),
            ).fetchone()
            if row is not None:  # deleted since the index was asked
                session_id, title, role, created_at, body = row
                hits.append(
                    Hit(
                        session_id=session_id,
                        title=title,
                        message_id=identity,
                        role=Role(role),
                        created_at=created_at,
                        snippet=snippet(message_text(_BODY.decode(body)), needles),
                    )
                )
        return hits


def _all(words: list[Term]) -> str:
    return f"({' AND '.join(word.loose for word in words)})"


def _any(words: list[Term]) -> str:
    return f"({' OR '.join(word.loose for word in words)})"

"""One search in the index: what its words mean, which messages hold them, and which of these come first."""

import functools
import heapq
import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import apsw
import msgspec

from hermes.core.messages import Message, Role
from hermes.store.rows import Hit, MessageState, Search
from hermes.store.search.index import SHARD_BITS
from hermes.store.search.text import Term, label, message_text, parts, slips, snippet, terms
from hermes.store.sessions import lineage

RANKED_HITS = 2_000
"""How many of the newest hits with every word are ranked."""
COMMON_SHARE = 0.02
"""A word that stands in more than this part of the newest messages says little about what is looked for."""
WEIGHED_HITS = 10_000
"""How many hits of single words are put together, shared among the words."""
_SAMPLE = 4_096
_QUESTION_TERMS = 4
_BEST = 120
"""How many messages with some of the words are compared by length and by what else was said around them."""
_ANCHORS = 3
"""With how many of the rarest words older messages of a common one are looked for."""
_OLDER = 500
"""How many older messages of a word with many hits are looked at."""
_FEW = 20
"""A word in no more messages of the sample than this is not common, however few messages there are."""
_NEAR_WORDS = 4
"""For how many words of a question that nobody wrote like this the nearest ones are looked for."""
_NEAR_LETTERS = 5
_NEAR_TERMS = 2_000
_NEAR_MOST = 8
_NO_END = 1 << 62
_AROUND = 0.6
"""What a word is worth that does not stand in the message but in another good one of its session."""
_BODY = msgspec.json.Decoder(Message)


class _Form(NamedTuple):
    """One form of a word of the question: the messages that it stands in, the newest first, and what it says."""

    word: int
    expression: str
    ids: list[int]
    weight: float
    cut: bool
    """Whether there may be older messages than these."""
    main: bool
    """Whether it is the narrowest form of its word that stands anywhere."""


class Finder:
    """One search. Shards are asked from the newest to the oldest until there is enough."""

    def __init__(self, connection: apsw.Connection, shards: list[int], search: Search) -> None:
        self._connection = connection
        self._search = search
        self._all_shards = shards
        self._last = int(connection.execute("SELECT value FROM state WHERE key = 'message'").get or 0)
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
        ids = self._with_all(words)
        if len(ids) < (1 if search.newest else self._wanted):  # too few with every word: some of them, or their parts
            pieces = self._telling(parts(found))
            words = [*words, *pieces]
            known = set(ids)
            ids += [one for one in self._weighed(pieces) if one not in known]
        return self._fetch(ids[search.offset : self._wanted], words)

    def _with_all(self, words: Sequence[Term]) -> list[int]:
        """The messages with every word, in the order asked for; words as written before other endings."""
        exact, loose = _all(word.exact for word in words), _all(word.loose for word in words)
        if self._search.newest:
            return self._newest(loose, self._wanted)
        if exact == loose or len(words) >= _QUESTION_TERMS:  # with more words other endings come from the second look
            return self._ranked(exact)
        return list(dict.fromkeys([*self._ranked(exact), *self._ranked(loose)]))

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
        return "".join(f" AND labels : ({one})" for one in asked) + self._whose()

    def _whose(self) -> str:
        """The limit to one person's sessions; the owner's are those that are nobody else's."""
        person = self._search.person
        if person is None:
            return ""
        return f' {"AND" if person else "NOT"} labels : ("{label("u", person)}")'

    def _match(self, shard: int, expression: str, limit: int, *, above: int = 0, below: int = _NO_END) -> list[int]:
        rows = self._connection.execute(
            f"SELECT rowid FROM words_{shard:d} WHERE words_{shard:d} MATCH ? AND rowid > ? AND rowid < ?"
            " ORDER BY rowid DESC LIMIT ?",
            (expression, above, below, limit),
        )
        return [row[0] for row in rows]

    def _newest(self, words: str, limit: int, *, below: int = _NO_END) -> list[int]:
        found: list[int] = []
        for shard in self._shards:
            if shard << SHARD_BITS < below:
                found += self._match(shard, words + self._limits, limit - len(found), below=below)
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

    def _weighed(self, words: Sequence[Term]) -> list[int]:
        """The messages whose words say the most: rare ones, and many of them, near each other; the best first."""
        forms = self._forms(words)
        masks = self._masks(forms)
        if not masks:
            return []

        @functools.cache
        def value(mask: int) -> float:
            worth = [0.0] * len(words)
            for number, form in enumerate(forms):
                if mask >> number & 1:
                    worth[form.word] = max(worth[form.word], form.weight)
            return sum(worth)

        best: dict[int, int] = {}
        groups: dict[int, list[int]] = {}
        for identity, mask in masks.items():
            groups.setdefault(mask, []).append(identity)
        for mask in sorted(groups, key=value, reverse=True):
            best |= dict.fromkeys(heapq.nlargest(_BEST - len(best), groups[mask]), mask)
            if len(best) >= _BEST:
                break
        return self._compared(best, value)

    def _compared(self, masks: dict[int, int], value: Callable[[int], float]) -> list[int]:
        """In order of what a message says, and its session around it; the shorter of two that say the same is first."""
        rows: list[tuple[int, str, int]] = list(
            self._connection.execute(
                "SELECT id, session_id, length(body) FROM store.messages WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(list(masks)),),
            )
        )
        sessions: dict[str, int] = {}
        for identity, session_id, _ in rows:
            sessions[session_id] = sessions.get(session_id, 0) | masks[identity]

        def worth(row: tuple[int, str, int]) -> tuple[float, int]:
            identity, session_id, size = row
            own = value(masks[identity])
            around = value(sessions[session_id]) - own
            return (own + _AROUND * around) / (1 + 0.15 * math.log1p(size / 1_000)), identity

        return [row[0] for row in sorted(rows, key=worth, reverse=True)]

    def _forms(self, words: Sequence[Term]) -> list[_Form]:
        """Each word as it is written, with other endings, and as it may have been meant, with the messages of each."""
        share = WEIGHED_HITS / max(4.0, sum(word.weight for word in words))
        forms: list[_Form] = []
        looked = 0
        for number, word in enumerate(words):
            limit = int(share * word.weight)
            exact = self._form(number, word.exact, limit)
            if not exact.ids and looked < _NEAR_WORDS:
                looked += 1
                near = " OR ".join(f'"{one}"' for one in self._near(word))
                exact = self._form(number, f"({near})", limit) if near else exact
            forms.append(exact)
            if word.loose != word.exact and not exact.cut:
                forms.append(self._form(number, word.loose, limit)._replace(main=not exact.ids))
        return [form._replace(weight=form.weight * words[form.word].weight) for form in forms if form.ids]

    def _form(self, word: int, expression: str, limit: int) -> _Form:
        """The form with its newest messages. Where these are not all, older ones are taken to go on as they began."""
        ids = self._newest(expression, limit)
        count, cut = float(len(ids)), len(ids) >= limit
        if cut:
            count *= self._last / (self._last - ids[-1] + 1)
        return _Form(word, expression, ids, math.log1p(self._last / max(count, 1)), cut, main=True)

    def _masks(self, forms: Sequence[_Form]) -> dict[int, int]:
        """Which of the forms (a bit each) stand in which messages."""
        whole = [form for form in forms if not form.cut] or forms
        anchors = {form.word: form for form in sorted(whole, key=lambda form: form.weight)}
        rarest = sorted(anchors.values(), key=lambda form: -form.weight)[:_ANCHORS]
        masks: dict[int, int] = {}
        for number, form in enumerate(forms):
            ids = form.ids
            others = [one.expression for one in rarest if one.word != form.word]
            if form.cut and others and form.main:  # of its older messages those count that have a rare word too
                both = f"({form.expression} AND ({' OR '.join(others)}))"
                ids = ids + self._newest(both, _OLDER, below=ids[-1])
            new = dict.fromkeys(ids, 1 << number)
            for identity in masks.keys() & new.keys():
                new[identity] |= masks[identity]
            masks.update(new)
        return masks

    def _near(self, word: Term) -> list[str]:
        """Words of the index that a word which does not stand in it may have been meant for."""
        text = word.text
        if len(text) < _NEAR_LETTERS or not (text.isascii() and text.isalpha()):
            return []
        start = text[: max(_NEAR_LETTERS - 1, len(text) * 2 // 3)]
        tail = text[len(start) :]
        found = {
            term: slips(tail, term[len(start) :])
            for term in self._beginning_with(start)
            if abs(len(term) - len(text)) <= 2
        }
        least = min(found.values(), default=9)
        if least > (1 if len(text) < 8 else 2):
            return []
        return [term for term, count in found.items() if count == least][:_NEAR_MOST]

    def _beginning_with(self, start: str) -> set[str]:
        """Words of the index that begin like this."""
        made = {row[0] for row in self._connection.execute("SELECT name FROM temp.sqlite_schema")}
        found: set[str] = set()
        for shard in self._shards:
            if f"terms_{shard}" not in made:
                self._connection.execute(
                    f"CREATE VIRTUAL TABLE temp.terms_{shard:d} USING fts5vocab(main, words_{shard:d}, row)"
                )
            rows = self._connection.execute(
                f"SELECT term FROM temp.terms_{shard:d} WHERE term >= ? AND term < ? LIMIT {_NEAR_TERMS:d}",
                (start, start + "\x7f"),
            )
            found.update(row[0] for row in rows)
        return found

    def _telling(self, words: list[Term]) -> list[Term]:
        """The words without the common ones; where all are common, the rarest. Endings that are too many are left out.

        What is common is seen in a sample of the newest messages.
        """
        above = max(0, self._last - _SAMPLE)
        enough = max(_FEW, int(min(self._last, _SAMPLE) * COMMON_SHARE))
        counted = [(self._count(word.exact, above, enough + 1), word) for word in words]
        telling = [word for count, word in sorted(counted, key=lambda pair: pair[0]) if count <= enough]
        if not telling:
            return [min(words, key=lambda word: self._count(word.exact, above, _SAMPLE))] if len(words) > 1 else words
        return [
            word
            if word.loose == word.exact or self._count(word.loose, above, enough + 1) <= enough
            else msgspec.structs.replace(word, loose=word.exact)
            for word in telling
        ]

    def _count(self, expression: str, above: int, limit: int) -> int:
        """In how many messages after `above` this stands; counting ends at `limit`."""
        count = 0
        for shard in self._all_shards[:2]:
            if (shard + 1) << SHARD_BITS > above:
                count += len(self._match(shard, expression, limit - count, above=above))
        return count

    def _fetch(self, ids: list[int], words: list[Term]) -> list[Hit]:
        needles = [word.needle for word in words]
        hits = []
        for identity in ids:
            row = self._connection.execute(
                "SELECT m.session_id, s.title, m.role, m.created_at, m.body FROM store.messages AS m"
                " JOIN store.sessions AS s ON s.id = m.session_id WHERE m.id = ?1 AND m.state <> ?2"
                " AND (?3 IS NULL OR s.user_id = ?3)",
                (identity, int(MessageState.UNDONE), self._search.person),
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


def _all(expressions: Iterable[str]) -> str:
    return f"({' AND '.join(expressions)})"

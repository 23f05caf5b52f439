"""One query of the search index: what its words mean, which messages hold them, and how these are ranked."""

import functools
import heapq
import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import apsw
import msgspec

from hermes.core.messages import Message, Role
from hermes.store.records import MessageState, SearchHit, SearchQuery
from hermes.store.repository import Transaction
from hermes.store.search.index import SHARD_BITS
from hermes.store.search.text import (
    SearchTerm,
    count_typos,
    extract_message_text,
    make_label,
    make_snippet,
    parse_terms,
    split_phrases,
    split_terms,
)
from hermes.store.sessions import list_lineage

RANKED_HITS = 2_000
"""How many of the newest hits with every word are ranked."""
COMMON_SHARE = 0.02
"""A word in more than this share of the newest messages says little about what is searched."""
WEIGHED_HITS = 10_000
"""How many hits of single words are combined, shared among the words."""
_SAMPLE = 4_096
_QUESTION_TERMS = 4
_COMPARED_MESSAGES = 120
"""How many messages with some of the words are compared by length and by the rest of their session."""
_ANCHOR_WORDS = 3
"""The number of rarest words with which older messages of a common word are searched."""
_OLDER_MESSAGES = 500
"""How many older messages of a word with many hits are examined."""
_NEVER_COMMON = 20
"""A word in no more messages of the sample than this is not common, however few messages there are."""
_NEAR_WORDS = 4
"""The number of unknown words in a query for which the nearest known ones are searched."""
_NEAR_LETTERS = 5
_NEAR_TERMS = 2_000
_NEAR_MOST = 8
_NO_END = 1 << 62
_SESSION_WEIGHT = 0.6
"""The weight of a word that does not stand in the message but in another good one of its session."""
_BODY = msgspec.json.Decoder(Message)


class _WordForm(NamedTuple):
    """One form of a query's word: the messages that contain it, newest first, and its weight."""

    word: int
    expression: str
    ids: list[int]
    weight: float
    cut: bool
    """Whether there may be older messages than these."""
    main: bool
    """Whether it is the narrowest form of its word that occurs anywhere."""


class IndexQuery:
    """One search. Shards are queried from the newest to the oldest until there is enough."""

    def __init__(
        self, connection: apsw.Connection, shards: list[int], search: SearchQuery, redact: Callable[[str], str]
    ) -> None:
        self._connection = connection
        self._redact = redact
        self._search = search
        self._all_shards = shards
        self._last = int(connection.execute("SELECT value FROM state WHERE key = 'message'").get or 0)
        self._lineage = (
            [] if search.session is None else list_lineage(Transaction(connection, 0.0), search.session, "store")
        )
        self._shards = shards if search.session is None else self._list_session_shards(shards)
        self._limits = self._build_limits()
        self._wanted = search.offset + search.limit

    def find_hits(self) -> list[SearchHit]:
        """Return the requested page of hits. Each has every phrase of the query; with all of its words they come
        first.
        """
        search = self._search
        phrases, rest = split_phrases(search.query)
        found = parse_terms(rest)
        if not (found or phrases) or not self._shards or search.limit <= 0:
            return []
        self._limits += "".join(f" AND {phrase.exact}" for phrase in phrases)
        ids, words = self._match_words(found) if found else ([], [])
        if phrases and len(ids) < self._wanted:
            ids = list(dict.fromkeys([*ids, *self._match_all_words(phrases)]))
        return self._fetch_hits(ids[search.offset : self._wanted], [*phrases, *words])

    def _match_words(self, found: list[SearchTerm]) -> tuple[list[int], list[SearchTerm]]:
        """Return the messages with the words of a query, or with some of them, and the words that were looked for."""
        newest = self._search.newest
        words = self._drop_common_words(found) if len(found) >= _QUESTION_TERMS or not newest else found
        ids = self._match_all_words(words)
        if len(ids) < (1 if newest else self._wanted):  # too few with every word: some of them, or their parts
            pieces = self._drop_common_words(split_terms(found))
            words = [*words, *pieces]
            known = set(ids)
            ids += [one for one in self._weigh_words(pieces) if one not in known]
        return ids, words

    def _match_all_words(self, words: Sequence[SearchTerm]) -> list[int]:
        """Return the messages with every word, in the requested order; words as written before other endings."""
        exact, loose = _join_all(word.exact for word in words), _join_all(word.loose for word in words)
        if self._search.newest:
            return self._find_newest(loose, self._wanted)
        if exact == loose or len(words) >= _QUESTION_TERMS:  # with more words other endings come from the second look
            return self._rank_hits(exact)
        return list(dict.fromkeys([*self._rank_hits(exact), *self._rank_hits(loose)]))

    def _list_session_shards(self, shards: list[int]) -> list[int]:
        """Return the shards that may hold messages of the session."""
        ends = [
            self._connection.execute("SELECT min(id), max(id) FROM store.messages WHERE session_id = ?", (one,)).get
            for one in self._lineage
        ]
        bounds = [bound for pair in ends for bound in pair if bound is not None]
        if not bounds:
            return []
        return [shard for shard in shards if min(bounds) >> SHARD_BITS <= shard <= max(bounds) >> SHARD_BITS]

    def _build_limits(self) -> str:
        """Return the search's limits in the index's own syntax."""
        search = self._search
        groups = [[make_label("r", role) for role in search.roles]]
        groups.append([make_label("o", search.source)] if search.source is not None else [])
        groups.append([make_label("s", one) for one in self._lineage])
        asked = [" OR ".join(f'"{one}"' for one in group) for group in groups if group]
        return "".join(f" AND labels : ({one})" for one in asked) + self._build_person_limit()

    def _build_person_limit(self) -> str:
        """Return the limit to one person's sessions; the owner's are those that belong to nobody else."""
        person = self._search.person
        if person is None:
            return ""
        return f' {"AND" if person else "NOT"} labels : ("{make_label("u", person)}")'

    def _match_shard(
        self, shard: int, expression: str, limit: int, *, above: int = 0, below: int = _NO_END
    ) -> list[int]:
        rows = self._connection.execute(
            f"SELECT rowid FROM words_{shard:d} WHERE words_{shard:d} MATCH ? AND rowid > ? AND rowid < ?"
            " ORDER BY rowid DESC LIMIT ?",
            (expression, above, below, limit),
        )
        return [row[0] for row in rows]

    def _find_newest(self, words: str, limit: int, *, below: int = _NO_END) -> list[int]:
        found: list[int] = []
        for shard in self._shards:
            if shard << SHARD_BITS < below:
                found += self._match_shard(shard, words + self._limits, limit - len(found), below=below)
            if len(found) >= limit:
                break
        return found

    def _rank_hits(self, words: str) -> list[int]:
        """Return the best of the newest hits, the best first. Each shard weighs words by its own counts."""
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

    def _weigh_words(self, words: Sequence[SearchTerm]) -> list[int]:
        """Return the messages whose words say the most, the best first: rare words, many of them, near each other."""
        forms = self._build_forms(words)
        masks = self._build_masks(forms)
        if not masks:
            return []

        @functools.cache
        def score_mask(mask: int) -> float:
            worth = [0.0] * len(words)
            for number, form in enumerate(forms):
                if mask >> number & 1:
                    worth[form.word] = max(worth[form.word], form.weight)
            return sum(worth)

        best: dict[int, int] = {}
        groups: dict[int, list[int]] = {}
        for identity, mask in masks.items():
            groups.setdefault(mask, []).append(identity)
        for mask in sorted(groups, key=score_mask, reverse=True):
            best |= dict.fromkeys(heapq.nlargest(_COMPARED_MESSAGES - len(best), groups[mask]), mask)
            if len(best) >= _COMPARED_MESSAGES:
                break
        return self._order_by_score(best, score_mask)

    def _order_by_score(self, masks: dict[int, int], score_mask: Callable[[int], float]) -> list[int]:
        """Order messages by the weight of their words and of their session's; of two
        equal ones the shorter is first.
        """
        rows: list[tuple[int, str, int]] = list(
            self._connection.execute(
                "SELECT id, session_id, length(body) FROM store.messages WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(list(masks)),),
            )
        )
        sessions: dict[str, int] = {}
        for identity, session_id, _ in rows:
            sessions[session_id] = sessions.get(session_id, 0) | masks[identity]

        def score_row(row: tuple[int, str, int]) -> tuple[float, int]:
            identity, session_id, size = row
            own = score_mask(masks[identity])
            around = score_mask(sessions[session_id]) - own
            return (own + _SESSION_WEIGHT * around) / (1 + 0.15 * math.log1p(size / 1_000)), identity

        return [row[0] for row in sorted(rows, key=score_row, reverse=True)]

    def _build_forms(self, words: Sequence[SearchTerm]) -> list[_WordForm]:
        """Return each word as written, with other endings, and as it may have been meant, with the messages of each."""
        share = WEIGHED_HITS / max(4.0, sum(word.weight for word in words))
        forms: list[_WordForm] = []
        looked = 0
        for number, word in enumerate(words):
            limit = int(share * word.weight)
            exact = self._build_form(number, word.exact, limit)
            if not exact.ids and looked < _NEAR_WORDS:
                looked += 1
                near = " OR ".join(f'"{one}"' for one in self._find_near_words(word))
                exact = self._build_form(number, f"({near})", limit) if near else exact
            forms.append(exact)
            if word.loose != word.exact and not exact.cut:
                forms.append(self._build_form(number, word.loose, limit)._replace(main=not exact.ids))
        return [form._replace(weight=form.weight * words[form.word].weight) for form in forms if form.ids]

    def _build_form(self, word: int, expression: str, limit: int) -> _WordForm:
        """Return the form with its newest messages. Where these are not all, older ones
        are assumed to be as frequent.
        """
        ids = self._find_newest(expression, limit)
        count, cut = float(len(ids)), len(ids) >= limit
        if cut:
            count *= self._last / (self._last - ids[-1] + 1)
        return _WordForm(word, expression, ids, math.log1p(self._last / max(count, 1)), cut, main=True)

    def _build_masks(self, forms: Sequence[_WordForm]) -> dict[int, int]:
        """Return, by message, which of the forms (a bit each) it contains."""
        whole = [form for form in forms if not form.cut] or forms
        anchors = {form.word: form for form in sorted(whole, key=lambda form: form.weight)}
        rarest = sorted(anchors.values(), key=lambda form: -form.weight)[:_ANCHOR_WORDS]
        masks: dict[int, int] = {}
        for number, form in enumerate(forms):
            ids = form.ids
            others = [one.expression for one in rarest if one.word != form.word]
            if form.cut and others and form.main:  # of its older messages those count that have a rare word too
                both = f"({form.expression} AND ({' OR '.join(others)}))"
                ids = ids + self._find_newest(both, _OLDER_MESSAGES, below=ids[-1])
            new = dict.fromkeys(ids, 1 << number)
            for identity in masks.keys() & new.keys():
                new[identity] |= masks[identity]
            masks.update(new)
        return masks

    def _find_near_words(self, word: SearchTerm) -> list[str]:
        """Return words of the index that an unknown word may have been meant for."""
        text = word.text
        if len(text) < _NEAR_LETTERS or not (text.isascii() and text.isalpha()):
            return []
        start = text[: max(_NEAR_LETTERS - 1, len(text) * 2 // 3)]
        tail = text[len(start) :]
        found = {
            term: count_typos(tail, term[len(start) :])
            for term in self._find_words_by_prefix(start)
            if abs(len(term) - len(text)) <= 2
        }
        least = min(found.values(), default=9)
        if least > (1 if len(text) < 8 else 2):
            return []
        return [term for term, count in found.items() if count == least][:_NEAR_MOST]

    def _find_words_by_prefix(self, start: str) -> set[str]:
        """Return the words of the index that begin with this text."""
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

    def _drop_common_words(self, words: list[SearchTerm]) -> list[SearchTerm]:
        """Return the words without the common ones; where all are common, the rarest. Too frequent endings are left
        out.

        A sample of the newest messages decides what is common.
        """
        above = max(0, self._last - _SAMPLE)
        enough = max(_NEVER_COMMON, int(min(self._last, _SAMPLE) * COMMON_SHARE))
        counted = [(self._count_matches(word.exact, above, enough + 1), word) for word in words]
        telling = [word for count, word in sorted(counted, key=lambda pair: pair[0]) if count <= enough]
        if not telling:
            return (
                [min(words, key=lambda word: self._count_matches(word.exact, above, _SAMPLE))]
                if len(words) > 1
                else words
            )
        return [
            word
            if word.loose == word.exact or self._count_matches(word.loose, above, enough + 1) <= enough
            else msgspec.structs.replace(word, loose=word.exact)
            for word in telling
        ]

    def _count_matches(self, expression: str, above: int, limit: int) -> int:
        """Count the messages after `above` that contain this; counting ends at `limit`."""
        count = 0
        for shard in self._all_shards[:2]:
            if (shard + 1) << SHARD_BITS > above:
                count += len(self._match_shard(shard, expression, limit - count, above=above))
        return count

    def _fetch_hits(self, ids: list[int], words: list[SearchTerm]) -> list[SearchHit]:
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
                    SearchHit(
                        session_id=session_id,
                        title=title,
                        message_id=identity,
                        role=Role(role),
                        created_at=created_at,
                        snippet=make_snippet(self._redact(extract_message_text(_BODY.decode(body))), needles),
                    )
                )
        return hits


def _join_all(expressions: Iterable[str]) -> str:
    return f"({' AND '.join(expressions)})"

"""Searches against SQLite's own full-text search: generated messages and queries, and what each must find.

The oracle is a plain FTS5 table in which every character of a script without spaces is a word of its own. A query of
phrases finds exactly what the oracle finds; of a phrase that is one run of such characters only where the run is
unbroken, for the oracle does not see what stands between words. A query with words besides finds nothing without its
phrases, and all that has everything. Run by `make search-oracle`.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import apsw
from msgspec import Struct

from hermes.core.messages import user_message
from hermes.store.records import NewSession, SearchQuery
from hermes.store.store import Store
from hermes.util.clock import SystemClock

LATIN = (
    "fig",
    "Fig",
    "plum",
    "pear",
    "café",
    "cafe",
    "load_config",
    "time-out",
    "naïve",
    "x1",
    "figs",
    "über",
    "plums",
)
CJK = "天气预报今日本語테스트あいカ々〇"
JOINTS = (" ", " ", " ", "\n", ", ", ". ", " - ", "，", "。", "_", "/", "  ", "“", "”", "'")
QUOTES = (('"', '"'), ('"', '"'), ("“", "”"), ("「", "」"), ("『", "』"), ("«", "»"), ("„", "“"))
_MOST = 10_000


class SearchCase(Struct, frozen=True):
    """A query in its two forms: its phrases and words, and the text that is asked."""

    phrases: tuple[str, ...]
    words: tuple[str, ...]
    query: str


def make_text(choose: random.Random) -> str:
    """Return a message: words and runs of characters, joined by whatever stands between words."""
    pieces = []
    for _ in range(choose.randint(1, 9)):
        pieces.append(
            choose.choice(LATIN) if choose.random() < 0.5 else "".join(choose.choices(CJK, k=choose.randint(1, 4)))
        )
        pieces.append(choose.choice(JOINTS) if choose.random() < 0.9 else "")
    return "".join(pieces)


def make_case(choose: random.Random, texts: Sequence[str]) -> SearchCase:
    """Return a query: pieces of what was said, or of something that was not."""
    phrases = []
    for _ in range(choose.choice((1, 1, 1, 2))):
        source = choose.choice(texts) if choose.random() < 0.8 else make_text(choose)
        begin = choose.randrange(len(source))
        piece = source[begin : begin + choose.randint(1, 14)]
        piece = "".join(one for one in piece if one not in '"“”„«»「」『』')
        phrases.append(choose.choice((piece, piece, piece.upper(), f" {piece}\t")))
    words = tuple(choose.choice(LATIN) for _ in range(choose.choice((0, 0, 0, 1, 2))))
    quoted = []
    for phrase in phrases:
        begin, end = choose.choice(QUOTES)
        quoted.append(f"{begin}{phrase}{end}")
    parts = [*quoted, *words]
    choose.shuffle(parts)
    return SearchCase(tuple(phrases), words, " ".join(parts))


class SearchOracle:
    """The plain full-text table, and what it finds."""

    def __init__(self, texts: dict[int, str]) -> None:
        self._connection = apsw.Connection(":memory:")
        self._connection.execute("CREATE VIRTUAL TABLE said USING fts5 (text, tokenize='unicode61')")
        rows = [(number, _space_out(text)) for number, text in texts.items()]
        self._connection.executemany("INSERT INTO said (rowid, text) VALUES (?, ?)", rows)

    def find_messages(self, phrases: Sequence[str], runs: Sequence[str] = ()) -> set[int] | None:
        """Return the messages with every one of these phrases, and with these runs of characters unbroken; None when no
        phrase says anything.
        """
        spaced = [_space_out(one).replace('"', " ").strip() for one in phrases]
        asked = " AND ".join(f'"{one}"' for one in spaced if any(map(str.isalnum, one)))
        if not asked:
            return None
        rows = self._connection.execute("SELECT rowid, text FROM said WHERE said MATCH ?", (asked,))
        return {row[0] for row in rows if all(_space_out(run) in row[1] for run in runs)}

    def close(self) -> None:
        """Close the table."""
        self._connection.close()


def _find_only_run(phrase: str) -> str:
    """Return the run of characters that a phrase is; empty for one of words, or of several runs."""
    pieces = "".join(one if one.isalnum() else " " for one in unicodedata.normalize("NFKC", phrase)).split()
    return pieces[0] if len(pieces) == 1 and len(pieces[0]) > 1 and all(one in CJK for one in pieces[0]) else ""


def _space_out(text: str) -> str:
    text = unicodedata.normalize("NFKC", text)
    return "".join(f" {one} " if one in CJK or unicodedata.normalize("NFKC", one) in CJK else one for one in text)


async def run_cases(count: int, seed: int, *, messages: int = 400, renewed: int = 1_000) -> list[str]:
    """Run so many cases, with other messages after each `renewed`; return what was wrong, a line each."""
    choose = random.Random(seed)
    wrong: list[str] = []
    for begin in range(0, count, renewed):
        with tempfile.TemporaryDirectory() as folder:
            wrong += await _run_round(choose, Path(folder), messages, min(renewed, count - begin))
    return wrong


async def _run_round(choose: random.Random, folder: Path, messages: int, count: int) -> list[str]:
    wrong: list[str] = []
    store = await Store.open(folder, SystemClock())
    try:
        await store.sessions.create(NewSession(id="s"))
        texts = [make_text(choose) for _ in range(messages)]
        ids = await store.messages.append("s", 1, None, [user_message(text) for text in texts])
        said = dict(zip(ids, texts, strict=True))
        oracle = SearchOracle(said)
        for _ in range(count):
            case = make_case(choose, texts)
            for newest in (True, False):
                search = SearchQuery(query=case.query, limit=_MOST, newest=newest)
                found = {hit.message_id for hit in await store.search.run_query(search)}
                if fault := judge_case(case, found, oracle):
                    shown = [said[one] for one in sorted(found)][:3]
                    wrong.append(f"{case.query!r} newest={newest}: {fault}; found {shown!r}")
        oracle.close()
    finally:
        await store.close()
    return wrong


def judge_case(case: SearchCase, found: set[int], oracle: SearchOracle) -> str:
    """Return what is wrong with what was found; empty when nothing is."""
    runs = [run for run in map(_find_only_run, case.phrases) if run]
    with_phrases = oracle.find_messages(case.phrases)
    if with_phrases is not None and found - with_phrases:
        return f"{len(found - with_phrases)} too many"
    unbroken = oracle.find_messages(case.phrases, runs)
    if unbroken is not None and not case.words and unbroken - found:
        return f"{len(unbroken - found)} are missing"
    with_all = oracle.find_messages((*case.phrases, *case.words), runs)
    if with_all is not None and with_all - found:
        return f"{len(with_all - found)} with everything are missing"
    return ""


def main() -> int:
    """Run the campaign and print what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    wrong = asyncio.run(run_cases(args.count, args.seed))
    sys.stdout.write("\n".join([*wrong[:40], f"{args.count} cases, {len(wrong)} wrong (seed {args.seed})\n"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())

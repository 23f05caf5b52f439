"""Recall of searches: questions with known answers, planted among made-up messages, by kind.

    python -m bench.recall [--messages 1000000] [--seeds 1,2,3] [--each 30] [--power 1.0] [--length 1.0]
                           [--folder FOLDER] [--misses]

Every answer stands among distractors: messages that hold some of its words too, older and newer ones. A question counts
as answered by hit when one of its messages is among the first five hits, by session when their session is among the
first five that `session_search` shows. With --folder each seed's files stay in a folder of their own, to be used again.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.search import SESSION_MESSAGES, STOP, Corpus, fill
from hermes.core.messages import Message, user_message
from hermes.store.records import SearchQuery
from hermes.store.store import Store
from hermes.util.clock import SystemClock

HITS = 60
"""Hits that `session_search` asks for."""
FIRST = 5
DISTRACTORS = 6
NAMES = (
    "Marlene",
    "Tobias",
    "Yusuf",
    "Ingrid",
    "Paolo",
    "Svetlana",
    "Kwame",
    "Dolores",
    "Hiroshi",
    "Anouk",
    "Bertil",
    "Xochitl",
    "Leopold",
    "Maren",
    "Osvaldo",
)
ENDINGS = ("s", "ed", "ing", "ation")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
OPENINGS = ("what did we say about the", "how was it with the", "where is the note on", "do you remember when the")
PARTICLES = "的了是在和"
ASKING = ("我们上次怎么{0}的{1}？", "{0}和{1}是什么关系呢？", "你还记得{0}在哪里{1}吗？", "为什么{0}的{1}不行了？")


class Question(NamedTuple):
    """What is asked, and the numbers of the messages that answer it."""

    kind: str
    query: str
    answers: tuple[int, ...]


class Made(NamedTuple):
    """A question, the pieces of text that its answer's messages must hold, and what distractors hold some of."""

    query: str
    pieces: Sequence[Sequence[str]]
    shared: Sequence[str]


class Planter:
    """Questions with their answers, put into a corpus of `count` messages."""

    def __init__(self, corpus: Corpus, count: int, seed: int) -> None:
        self._corpus = corpus
        self._count = count
        self.rng = random.Random(seed)
        words = corpus.words.english
        self.middle = [word for word in words[400:8_000] if len(word) > 4]
        self.rare = [word for word in words[8_000:] if len(word) > 6]
        topics = [word for word in corpus.words.chinese[300:] if not set(word) & set(PARTICLES)]
        self.chinese = [word for word in topics if 2 <= len(word) <= 4]

    def plant(self, each: int) -> list[Question]:
        """`each` questions of every kind; what answers them is put into the corpus."""
        questions = []
        for kind, make in KINDS.items():
            for _ in range(each):
                made = make(self)
                questions.append(Question(kind, made.query, self._put(made)))
        return questions

    def picked(self, count: int) -> list[str]:
        """Words to speak about: most are somewhat rare, each third very rare."""
        return [self.rng.choice(self.rare if number % 3 == 2 else self.middle) for number in range(count)]

    def _put(self, made: Made) -> tuple[int, ...]:
        first = self._place(len(made.pieces))
        for number, pieces in enumerate(made.pieces):
            self._corpus.planted[first + number] = self._text(pieces)
        for _ in range(DISTRACTORS if len(made.shared) > 1 else 0):
            some = self.rng.sample(made.shared, max(1, len(made.shared) // 2))
            self._corpus.planted[self._place(1)] = self._text(some)
        return tuple(range(first, first + len(made.pieces)))

    def _place(self, size: int) -> int:
        """The first of `size` free numbers in one session."""
        while True:
            first = self.rng.randrange(self._count)
            same = first // SESSION_MESSAGES == (first + size - 1) // SESSION_MESSAGES
            free = not any(first + number in self._corpus.planted for number in range(size))
            if same and free and first + size <= self._count:
                return first

    def _text(self, pieces: Sequence[str]) -> Message:
        """The pieces in some order within text like any other."""
        rng, words = self.rng, self._corpus.words
        plain = any(piece.isascii() for piece in pieces)
        text = [words.prose(rng.randrange(4, 12)) if plain else words.han(rng.randrange(3, 8))]
        for piece in rng.sample(list(pieces), len(pieces)):
            text.append(piece)
            text.extend(words.drawn(rng.randrange(0, 3)) if plain else [words.han(1)[:-1]])
        text.append(words.prose(rng.randrange(4, 30)) if plain else words.han(rng.randrange(3, 12)))
        return user_message((" " if plain else "").join(text))


def english_words(planter: Planter) -> Made:
    words = planter.picked(2)
    return Made(" ".join(words), [words], words)


def six_words(planter: Planter) -> Made:
    """Other order, two of the answer's words left out, one word that it has not."""
    words = planter.picked(7)
    asked = [*planter.rng.sample(words, 5), planter.rng.choice(planter.middle)]
    planter.rng.shuffle(asked)
    return Made(" ".join(asked), [words], words)


def inflected(planter: Planter) -> Made:
    """Every word has another ending than the answer's."""
    words = planter.picked(3)
    pairs = [planter.rng.sample(ENDINGS, 2) for _ in words]
    said = [word + ending for word, (ending, _) in zip(words, pairs, strict=True)]
    return Made(" ".join(word + ending for word, (_, ending) in zip(words, pairs, strict=True)), [said], said)


def typo_in_question(planter: Planter) -> Made:
    """Three words, one of them with a typo in its last third."""
    words = planter.picked(3)
    wrong = planter.rng.randrange(3)
    asked = [misspelt(planter.rng, word) if number == wrong else word for number, word in enumerate(words)]
    return Made(" ".join(asked), [words], words)


def typo_in_word(planter: Planter) -> Made:
    """A single word, which only the answer has, with a typo in its last third."""
    word = f"{planter.rng.choice(planter.rare)}{planter.rng.choice('bdfgkmpz')}{planter.rng.choice('aeiou')}ndor"
    return Made(misspelt(planter.rng, word), [[word]], [word])


def six_with_typos(planter: Planter) -> Made:
    """Six words, two of them misspelt."""
    words = planter.picked(6)
    asked = [misspelt(planter.rng, word) if number < 2 else word for number, word in enumerate(words)]
    return Made(" ".join(planter.rng.sample(asked, 6)), [words], words)


def chinese_words(planter: Planter) -> Made:
    words = planter.rng.sample(planter.chinese, 2)
    return Made(" ".join(words), [words], words)


def chinese_question(planter: Planter) -> Made:
    words = planter.rng.sample(planter.chinese, 2)
    return Made(planter.rng.choice(ASKING).format(*words), [words], words)


def mixed_script(planter: Planter) -> Made:
    english, chinese = planter.picked(3)[2], planter.rng.sample(planter.chinese, 2)
    pieces = [f"用{english}做{chinese[0]}", chinese[1]]
    asked = planter.rng.choice((f"{chinese[1]} {english}", f"怎么用{english}做{chinese[0]}", f"{english}{chinese[1]}"))
    return Made(asked, [pieces], [english, *chinese])


def identifiers(planter: Planter) -> Made:
    """Part of a function's name or of a path."""
    one, two, three = planter.picked(3)
    pieces = [f"src/{one}/{two}_{three}.py", f"def {three}_{one}_{two}(self):"]
    asked = planter.rng.choice((f"{two}_{three}.py", f"{one}/{two}_{three}", f"{three}_{one}", f"{one}_{two}"))
    return Made(asked, [pieces], [one, two, three])


def name_and_topic(planter: Planter) -> Made:
    """The name stands in one message, what it is about in the one after it."""
    name = f"{planter.rng.choice(NAMES)}{planter.rng.choice(LETTERS)}{planter.rng.choice('aeiou')}"
    words = planter.picked(3)
    return Made(f"{name} {words[0]} {words[2]}", [[name], words], [name, *words])


def as_typed(planter: Planter) -> Made:
    """Three words within a question as people type it."""
    words = planter.picked(3)
    stop = planter.rng.sample(STOP, 2)
    asked = f"{planter.rng.choice(OPENINGS)} {words[0]} {stop[0]} {words[1]} {stop[1]} {words[2]}?"
    return Made(asked, [words], words)


KINDS: dict[str, Callable[[Planter], Made]] = {
    "English words": english_words,
    "six words, paraphrased": six_words,
    "six words, two misspelt": six_with_typos,
    "question as typed": as_typed,
    "other endings": inflected,
    "three words, one misspelt": typo_in_question,
    "one word, misspelt": typo_in_word,
    "Chinese words": chinese_words,
    "Chinese question": chinese_question,
    "mixed script": mixed_script,
    "identifiers, in part": identifiers,
    "name and topic": name_and_topic,
}


def misspelt(rng: random.Random, word: str) -> str:
    """The word with a letter of its last third changed, left out, doubled or swapped with the next."""
    place = rng.randrange(len(word) * 2 // 3, len(word))
    kind = rng.randrange(4)
    if kind == 0:
        other = rng.choice([letter for letter in LETTERS if letter != word[place]])
        return f"{word[:place]}{other}{word[place + 1 :]}"
    if kind == 1:
        return word[:place] + word[place + 1 :]
    if kind == 2 or place + 1 == len(word) or word[place] == word[place + 1]:
        return word[:place] + word[place] + word[place:]
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


class Answered(NamedTuple):
    """At which place the answer stood among the hits and among the sessions (0: nowhere), and what that took."""

    hit: int
    session: int
    seconds: float
    cpu: float


async def ask(store: Store, question: Question) -> Answered:
    """Ask as the tool does."""
    began, began_cpu = time.perf_counter(), time.process_time()
    hits = await store.search.run_query(SearchQuery(query=question.query, limit=HITS, newest=False))
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    wanted = {number + 1 for number in question.answers}
    session = f"bench_{question.answers[0] // SESSION_MESSAGES + 1:06d}"
    ids = [hit.message_id for hit in hits]
    sessions = list(dict.fromkeys(hit.session_id for hit in hits))
    return Answered(
        next((place for place, one in enumerate(ids, 1) if one in wanted), 0),
        sessions.index(session) + 1 if session in sessions else 0,
        seconds,
        cpu,
    )


async def answered(folder: Path, seed: int, options: argparse.Namespace) -> list[tuple[Question, Answered]]:
    """All questions of a seed, put to a store with its corpus."""
    corpus = Corpus(seed, power=options.power, length=options.length, pool=min(60_000, options.messages))
    questions = Planter(corpus, options.messages, seed).plant(options.each)
    fresh = not (folder / "hermes.db").exists()
    store = await Store.open(folder, SystemClock())
    try:
        if fresh:
            await fill(store, corpus, options.messages)
        await store.search.update_index()
        return [(question, await ask(store, question)) for question in questions]
    finally:
        await store.close()


def shown(results: Sequence[tuple[Question, Answered]]) -> None:
    """The table by kind."""
    print(
        f"\n{'kind':28} {'asked':>5} {'by hit':>7} {'by session':>10} {'MRR':>6}"
        f" {'p50 ms':>7} {'p95 ms':>7} {'CPU p95':>7}"
    )
    for kind in [*KINDS, "all"]:
        of_kind = [answer for question, answer in results if kind in (question.kind, "all")]
        size = len(of_kind)
        by_hit = sum(0 < one.hit <= FIRST for one in of_kind) / size
        by_session = sum(0 < one.session <= FIRST for one in of_kind) / size
        mrr = sum(1 / one.hit for one in of_kind if one.hit) / size
        spent = sorted(one.seconds * 1e3 for one in of_kind)
        times = f"{statistics.median(spent):7.2f} {spent[int(size * 0.95)]:7.2f}"
        busy = sorted(one.cpu * 1e3 for one in of_kind)[int(size * 0.95)]
        print(f"{kind:28} {size:5} {by_hit:7.1%} {by_session:10.1%} {mrr:6.3f} {times} {busy:7.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seeds", default="1,2,3", type=lambda text: [int(one) for one in text.split(",")])
    parser.add_argument("--each", type=int, default=30, help="questions of each kind")
    parser.add_argument("--power", type=float, default=1.0, help="how steeply words become rarer (0: not at all)")
    parser.add_argument("--length", type=float, default=1.0, help="how many times as long messages are")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--misses", action="store_true", help="name the questions that were not answered")
    options = parser.parse_args()
    results = []
    for seed in options.seeds:
        with tempfile.TemporaryDirectory(prefix="hermes-recall-") as scratch:
            folder = options.folder / f"seed{seed}" if options.folder else Path(scratch)
            results += asyncio.run(answered(folder, seed, options))
    shown(results)
    for question, answer in results if options.misses else ():
        if not 0 < answer.hit <= FIRST:
            print(f"{question.kind}: {question.query!r} -> hit {answer.hit}, session {answer.session}")


if __name__ == "__main__":
    sys.exit(main())

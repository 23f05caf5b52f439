"""Search over a million messages: build rate, sizes, and the time of searches of every kind.

    python -m bench.search [--messages 1000000] [--folder FOLDER] [--keep] [--seed N] [--power 1.0] [--length 1.0]
                           [--repeated]

The messages are made up (English, Chinese, code, mixed; the same ones every time for a seed) and go through the store's
own write path. With --folder what is there already is used again.
"""

import argparse
import asyncio
import itertools
import os
import random
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from hermes.core.messages import Message, Role, TextPart, ToolCallPart, ToolResultPart, user_message
from hermes.store.records import NewSession
from hermes.store.store import Store
from hermes.util.clock import SystemClock


def _listed(words: str) -> list[str]:
    return words.split()


SEED = 20_260_101
SESSION_MESSAGES = 200
STOP = _listed(
    "the of and to a in is it you that for on with as are be this have or from at we can not but what all how do if"
    " will my there use so an which when your them would like has more need then no just into now get me see up out"
)
SYLLABLES = _listed(
    "ser ver con fig da ta net work que ry lo der sta tus com pile pro cess thread sche ma tab le in dex mo del ro ute"
    " pa rse to ken str eam buf fer cli ent han dle re try ti me out er ror lim it ca che mer ge bran ch de ploy mon"
)
HAN = (
    "的一是了我不人在他有这个上们来到时大地为子中你说生国年着就那和要她出也得里后自以会家可下而过天去能对小多然于心学么之都好看起发当没成只"
    "如事把还用第样道想作种开美总从无情己面最女但现前些所同日手又行意动方期它头经长儿回位分爱老因很给名法间斯知世什两次使身者被高已亲其进此"
    "话常与活正感见明问力理尔点文几定本公特做外孩相西果走将月十实向声车全信重三机工物气每并别真打太新比才便夫再书部水像眼等体却加电主界门利"
    "海受听表德少克代员许先口由死安写性马光白或住难望教命花结乐色更拉东神记处让母父应直字场平报友关放至张认接告入笑内英军候民岁往何度山觉路"
    "带万男边风解叫任金快原吃妈变通师立象数四失满战远格士音轻目条呢病始达深完今提求清王化空业思切怎非找片罗钱吗语元喜曾离飞科言干流欢约各即"
    "指合反题必该论交终林请医晚制球决传画保读运及则房早院量苦火布品近坐产答星精视五连司巴奇管类未朋且婚台夜青北队久乎越观落尽形影红百令周吧识"
    "步希亚术留市半热送兴造谈容极随演收首根讲整式取照办强石古华拿计您装似足双妻尼转诉米称丽客南领节衣站黑刻统断福城故历惊脸选包紧争另建维绝树"
    "系伤示愿持千史谁准联妇纪基买志静阿诗独复痛消社算义竟确酒需单治卡幸兰念举仅钟怕共毛句息功官待究跟穿室易游程号居考突皮哪费倒价图具刚脑永歌"
    "响商礼细专黄块脚味灵改据般破引食仍存众注笔甚某沉血备习校默务土微娘须试怀料调广苏显赛查密议底列富梦错座参八除跑亮假印设线温虽掉京初养香停"
)


class Words:
    """A vocabulary in which few words are common and most are rare, and sentences made of it."""

    def __init__(self, rng: random.Random, power: float = 1.0) -> None:
        self._rng = rng
        made = {"".join(rng.choices(SYLLABLES, k=rng.choice((1, 2, 2, 3, 3)))) for _ in range(40_000)}
        others = sorted(made - set(STOP))  # a set's own order is another one in every process
        self.english = STOP + rng.sample(others, len(others))
        sizes = rng.choices((1, 2, 3, 4), weights=(2, 12, 3, 2), k=20_000)
        letters = _zipf(len(HAN), 0.7)
        self.chinese = ["".join(rng.choices(HAN, weights=letters, k=size)) for size in sizes]
        self._english_weights = list(itertools.accumulate(_zipf(len(self.english), power)))
        self._chinese_weights = list(itertools.accumulate(_zipf(len(self.chinese), 0.9 * power)))

    def drawn(self, count: int) -> list[str]:
        return self._rng.choices(self.english, cum_weights=self._english_weights, k=count)

    def prose(self, count: int) -> str:
        return " ".join(self.drawn(count)) + "."

    def han(self, count: int) -> str:
        return "".join(self._rng.choices(self.chinese, cum_weights=self._chinese_weights, k=count)) + "。"

    def code(self, count: int) -> str:
        lines = []
        for _ in range(count):
            one, two, three = self.drawn(3)
            lines.append(f"    {one}_{two} = {three}.{one}({two!r}, {self._rng.randrange(1000)})")
        return "\n".join(lines)


def _zipf(size: int, power: float) -> list[float]:
    return [1 / (rank + 3) ** power for rank in range(size)]


class Corpus:
    """The messages. Sentences come from a pool, so that making them costs less than storing them.

    `power`: how steeply words become rarer (0: all alike). `length`: how many times as long messages are. `planted`:
    messages by the number at which they stand instead of a made-up one. `repeated`: each third message is one
    word again and again.
    """

    def __init__(
        self, seed: int, *, power: float = 1.0, length: float = 1.0, pool: int = 60_000, repeated: bool = False
    ) -> None:
        self.rng = random.Random(seed)
        self.words = Words(self.rng, power)
        self.planted: dict[int, Message] = {}
        self._length = length
        self._repeated = repeated
        rng, words = self.rng, self.words
        self._prose = [words.prose(rng.randrange(4, 22)) for _ in range(pool)]
        self._han = [words.han(rng.randrange(4, 16)) for _ in range(pool)]
        self._code = [words.code(rng.randrange(1, 8)) for _ in range(pool // 3)]

    def messages(self, count: int) -> Iterator[Message]:
        return (self._message(number) for number in range(count))

    def _message(self, number: int) -> Message:
        if number in self.planted:
            return self.planted[number]
        rng = self.rng
        kind = rng.random()
        size = int(self._length * min(60, max(1, int(rng.lognormvariate(1.2, 1.1)))))
        if number % 5_000 == 17:  # known words to look for: rare, in all scripts
            return user_message(f"{rng.choice(self._prose)} quokka{number} 獬豸用Python写 fn_{number:07d}_zz")
        if self._repeated and number % 3 == 0:
            text = f"{self.words.english[100 + number % 7]} " * (10 * size)
        elif kind < 0.35:
            text = " ".join(rng.choices(self._prose, k=size))
        elif kind < 0.65:
            text = "".join(rng.choices(self._han, k=size))
        elif kind < 0.75:
            text = rng.choice(self._prose) + "".join(rng.choices(self._han, k=size)) + "用Python写"
        else:
            text = "\n".join(rng.choices(self._code, k=size))
        if kind >= 0.9:
            return Message(role=Role.TOOL, parts=(ToolResultPart(call_id=f"c{number}", name="read_file", text=text),))
        if kind >= 0.85:
            call = ToolCallPart(call_id=f"c{number}", name="write_file", arguments='{"path": "src/main.py"}')
            return Message(role=Role.ASSISTANT, parts=(TextPart(text=text), call))
        return user_message(text) if number % 2 else Message(role=Role.ASSISTANT, parts=(TextPart(text=text),))


async def fill(store: Store, corpus: Corpus, count: int) -> None:
    began, cpu = time.monotonic(), time.process_time()
    messages = corpus.messages(count)
    pending: list[asyncio.Future[list[int]]] = []
    for session in itertools.count(1):
        batch = list(itertools.islice(messages, SESSION_MESSAGES))
        if not batch:
            break
        name = f"bench_{session:06d}"
        source = ("cli", "telegram", "api")[session % 3]
        await store.sessions.create(NewSession(id=name, source=source, title=f"No {session}"))
        pending += [store.messages.append(name, 1, None, batch[at : at + 20]) for at in range(0, len(batch), 20)]
        if len(pending) >= 1_000:
            await asyncio.gather(*pending)
            pending.clear()
    await asyncio.gather(*pending)
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    print(f"stored {count:,} messages in {seconds:.1f} s, {cpu:.1f} s CPU (they are indexed meanwhile)", flush=True)


def questions(corpus: Corpus) -> dict[str, list[str]]:
    rng = random.Random(7)
    words = corpus.words
    english, chinese = words.english, words.chinese
    one = sorted({word for word in chinese if len(word) == 1})
    two = [word for word in chinese if len(word) == 2]
    numbers = [5_000 * step + 17 for step in range(100)]
    rare = english[8_000:]
    return {
        "common English words": english[:40] + english[60:100],
        "middling English words": rng.sample(english[200:3_000], 80),
        "rare English words": rng.sample(rare, 80),
        "misspelt English words": [f"{word[:-1]}{rng.choice('qxz')}" for word in rng.sample(english[200:], 80)],
        "words that nobody said": [_unheard(rng) for _ in range(80)],
        "one-character Chinese": rng.sample(one, min(80, len(one))),
        "two-character Chinese, common": two[:80],
        "two-character Chinese, rare": rng.sample(two[4_000:], 80),
        "two-character Chinese, any two": ["".join(rng.sample(HAN[:120], 2)) for _ in range(80)],
        "mixed script": ["用Python写"] * 20 + [f"獬豸用Python写 quokka{number}" for number in numbers[:60]],
        "identifiers": [f"fn_{number:07d}_zz" for number in numbers[:40]]
        + [f"{rng.choice(english[60:400])}_{rng.choice(english[60:400])}" for _ in range(40)],
        "six words, two of them common": [
            " ".join(rng.sample(english[:40], 2) + rng.sample(english[100:2_000], 3) + [rng.choice(rare)])
            for _ in range(80)
        ],
        "six words as drawn": [" ".join(words.drawn(6)) for _ in range(80)],
        "six words, all common": [" ".join(rng.sample(english[:60], 6)) for _ in range(80)],
        "six words, each misspelt at its end": [
            " ".join(f"{word[:-1]}{rng.choice('qxz')}" for word in rng.sample(english[100:6_000], 6)) for _ in range(80)
        ],
        "six words that nobody said": [" ".join(_unheard(rng) for _ in range(6)) for _ in range(80)],
        "six beginnings of words": [
            " ".join(word[:4] for word in rng.sample(english[100:6_000], 6)) for _ in range(80)
        ],
        "six words, mixed script": [
            " ".join(rng.sample(english[60:3_000], 3) + rng.sample(two[:3_000], 3)) for _ in range(80)
        ],
        "six Chinese words": [" ".join(rng.sample(two, 6)) for _ in range(80)],
        "question as typed": [
            f"what did we say about the {one} and the {other}, when was it {third}?"
            for one, other, third in (rng.sample(english[100:8_000], 3) for _ in range(80))
        ],
        "Chinese question": [words.han(rng.randrange(4, 7)) for _ in range(80)],
        "Chinese question with particles": [
            f"我们上次怎么{one}的{other}，为什么{third}不行了？"
            for one, other, third in (rng.sample(two, 3) for _ in range(80))
        ],
    }


def _unheard(rng: random.Random) -> str:
    return "".join(rng.choices("bcdfghjklmnpqrstvwxz", k=rng.randrange(5, 10)))


async def measure(store: Store, corpus: Corpus) -> None:
    """CPU is of the whole process, and what counts on a machine that does other work too."""
    print(f"\n{'milliseconds':37} {'newest first':>26}   {'ranked':>26}   {'ranked, CPU':>17}")
    print(f"{'':37} {'p50':>8} {'p95':>8} {'max':>8}   {'p50':>8} {'p95':>8} {'max':>8}   {'p50':>8} {'p95':>8}  found")
    for kind, asked in questions(corpus).items():
        line = f"{kind:37}"
        found = 0
        for newest in (True, False):
            spent, cpu = [], []
            for query in asked:
                began, began_cpu = time.perf_counter(), time.process_time()
                hits = await store.search.find(query, limit=60, newest=newest)
                spent.append((time.perf_counter() - began) * 1e3)
                cpu.append((time.process_time() - began_cpu) * 1e3)
                found += bool(hits) and newest
            line += _spread(spent)
        busy = f"{statistics.median(cpu):8.2f} {sorted(cpu)[int(len(cpu) * 0.95)]:8.2f}"
        print(f"{line} {busy}  {found}/{len(asked)}", flush=True)


def _spread(spent: list[float]) -> str:
    spent.sort()
    return f" {statistics.median(spent):8.2f} {spent[int(len(spent) * 0.95)]:8.2f} {spent[-1]:8.2f}  "


async def limited(store: Store, count: int) -> None:
    spent = []
    for number in range(60):
        session = f"bench_{1 + number * count // SESSION_MESSAGES // 60:06d}"
        began = time.perf_counter()
        await store.search.find("the server" if number % 2 else "用Python写", session=session)
        spent.append((time.perf_counter() - began) * 1e3)
    print(f"{'within one session':37}{_spread(spent)}")


async def prove_deletion(folder: Path) -> None:
    """Delete one message and one session, then look for their words in every byte of every file."""
    store = await Store.open(folder, SystemClock())
    await store.sessions.create(NewSession(id="bench_secret"))
    secrets = ["qzxv" + "".join(random.Random(number).choices("bcdfghjklmnp", k=16)) for number in range(3)]
    rare = "\U0002a6a5\U00020c3b\U0002a6a5"
    ids = await store.messages.append("bench_secret", 1, None, [user_message(f"the {word} {rare}") for word in secrets])
    before = [len(await store.search.find(word)) for word in [*secrets, rare]]
    began = time.monotonic()
    await store.erasure.delete_messages("bench_secret", ids[:1])
    first = time.monotonic() - began
    began = time.monotonic()
    await store.erasure.delete_session("bench_secret")
    second = time.monotonic() - began
    after = [len(await store.search.find(word)) for word in [*secrets, rare]]
    await store.close()
    files = sorted(one.name for one in os.scandir(folder) if one.is_file())
    # the index leaves out what a word shares with the one before it, so only the later part of a word is looked for
    traces = [word.encode()[-12:] for word in secrets] + [rare.encode()[-6:], rare[:2].encode()[-6:]]
    left = [trace for trace in traces if any(_holds(folder / name, trace) for name in files)]
    print(
        f"\ndeletion: found before {before}, after {after}; {first:.1f} s for a message, {second:.1f} s for a session;"
    )
    print(f"words left in {files}: {left or 'none'}")


def _holds(path: Path, word: bytes) -> bool:
    tail = b""
    with path.open("rb") as file:  # the store is closed
        while block := file.read(1 << 24):
            if word in tail + block:
                return True
            tail = block[-len(word) :]
    return False


async def run(folder: Path, count: int, corpus: Corpus) -> None:
    fresh = not (folder / "hermes.db").exists()
    store = await Store.open(folder, SystemClock())
    if fresh:
        await fill(store, corpus, count)
        await store.close()
        for suffix in ("", "-wal", "-shm"):
            (folder / f"search.db{suffix}").unlink(missing_ok=True)
        store = await Store.open(folder, SystemClock())
    cpu = time.process_time()
    report = await store.search.update_index()
    if report.messages:
        rate = report.messages / report.seconds
        print(
            f"index built from nothing: {report.messages:,} messages in {report.seconds:.1f} s = {rate:,.0f} a second;"
        )
        print(f"{time.process_time() - cpu:.1f} s CPU with putting the shards in order", flush=True)
    await measure(store, corpus)
    await limited(store, count)
    await store.close()
    for name in ("hermes.db", "search.db"):
        print(f"{name}: {os.stat(folder / name).st_size / 1e6:,.0f} MB")
    print(
        f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB", flush=True
    )
    await prove_deletion(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--keep", action="store_true", help="leave the files where they are")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--power", type=float, default=1.0, help="how steeply words become rarer (0: all alike)")
    parser.add_argument("--length", type=float, default=1.0, help="how many times as long messages are")
    parser.add_argument("--repeated", action="store_true", help="each third message is one word again and again")
    options = parser.parse_args()
    corpus = Corpus(options.seed, power=options.power, length=options.length, repeated=options.repeated)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="hermes-bench-"))
    try:
        asyncio.run(run(folder, options.messages, corpus))
    finally:
        if not options.keep and options.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())

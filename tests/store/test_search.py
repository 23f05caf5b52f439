"""The search index: scripts without spaces, hostile questions, following the store, damage and kills."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.core.errors import StoreError
from hermes.core.messages import Message, Role, ToolCallPart, ToolResultPart, user_message
from hermes.store.messages import INDEX_EVERY
from hermes.store.records import SearchQuery
from hermes.store.search import text as text_module
from hermes.store.store import Store
from tests.store.store_contract import StepClock, begun, found, said


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "home", StepClock())
    await begun(opened)
    yield opened
    await opened.close()


TEXTS = {
    "weather": "今天天气很好，我们用Python写了一个天气预报程序。",
    "database": "请把数据库的备份放到服务器上。",
    "kana": "日本語のテキストをカタカナで検索する。",
    "hangul": "한국어 검색도 잘 됩니다.",
    "rare": "古字𠀀𪜀与㐀也要找得到，々〇豈",
    "english": "We deployed the caching server; deployments were slow.",
    "code": "def load_config(path): return yaml_load(path)  # TODO: fix errors",
    "accents": "Crème brûlée im Café, STRASSE",
    "wide": "ＡＢＣ１２３ ﾃｽﾄ",
    "combining": "e\u0301clair ガ (か\u3099)",
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("天气", {"weather"}),
        ("天", {"weather"}),
        ("气", {"weather"}),
        ("气预", {"weather"}),
        ("用Python写", {"weather"}),
        ("Python写", {"weather"}),
        ("python", {"weather"}),
        ("天气预报程序", {"weather"}),
        ("天 程序", {"weather"}),
        ("数据库", {"database"}),
        ("备份 服务器", {"database"}),
        ("的", {"database"}),
        ("检索", set()),
        ("検索", {"kana"}),
        ("カタカナ", {"kana"}),
        ("テキスト", {"kana"}),
        ("日本語の", {"kana"}),
        ("검색", {"hangul"}),
        ("한국어", {"hangul"}),
        ("𠀀", {"rare"}),
        ("𠀀𪜀", {"rare"}),
        ("㐀", {"rare"}),
        ("々〇", {"rare"}),
        ("deploy", {"english"}),
        ("deploying", {"english"}),
        ("deployment", {"english"}),
        ("DEPLOYED", {"english"}),
        ("cache", {"english"}),
        ("load_config", {"code"}),
        ("config", {"code"}),
        ("yaml_load(path)", {"code"}),
        ("error", {"code"}),
        ("creme", {"accents"}),
        ("brûlée café", {"accents"}),
        ("abc123", {"wide"}),
        ("テスト", {"wide"}),
        ("éclair", {"combining"}),
        ("がか", set()),
        ("ガ", {"combining"}),
        ("deploy 天气", set()),
        ("AND", set()),
        ('"', set()),
        ("", set()),
        ("***", set()),
    ],
)
async def test_every_script_is_found(store: Store, query: str, expected: set[str]) -> None:
    ids = dict(zip(await said(store, list(TEXTS.values())), TEXTS, strict=True))
    hits = await store.search.find(query)
    names = {ids[hit.message_id] for hit in hits}
    if expected:
        assert names == expected
    else:
        # no message has every word: at most some that have some of them
        assert all(hit.snippet for hit in hits) and (len(query.split()) > 1 or not names)


async def test_the_best_comes_first_when_ranked(store: Store) -> None:
    ids = await said(
        store,
        ["nginx nginx time-out settings"]
        + [f"note {n} about the weather and a server" for n in range(60)]
        + ["server nginx"],
    )
    assert (await found(store, "how was the nginx time-out set", newest=False))[0] == ids[0]
    assert (await found(store, "how was the nginx time-out set"))[0] == ids[0]
    assert await found(store, "nginx") == [ids[-1], ids[0]]


async def test_a_questions_common_words_do_not_hide_the_rare_one(store: Store) -> None:
    await said(store, [f"the server is up again and it works {n}" for n in range(400)])
    ids = await said(store, ["it was the kestrel that broke"])
    await said(store, [f"so the server is what it is {n}" for n in range(400)])
    assert (await found(store, "what is it with the kestrel server"))[0] == ids[0]
    assert (await found(store, "what is it with the kestrel server", newest=False))[0] == ids[0]
    assert len(await found(store, "the server is up", limit=5)) == 5


async def test_a_chinese_question_finds_its_words(store: Store) -> None:
    ids = await said(
        store, ["数据库每天晚上备份一次，放在另一台机器上"] + [f"第{n}次会议的记录，没有别的事" for n in range(50)]
    )
    assert (await found(store, "我们上次怎么配置数据库备份的？"))[0] == ids[0]


async def test_a_typo_in_an_ending_is_forgiven(store: Store) -> None:
    ids = await said(store, ["the environment variable", "something else"])
    assert await found(store, "environmant") == [ids[0]]


async def test_limits_by_source(store: Store) -> None:
    await begun(store, "s2", source="telegram")
    await said(store, ["heron"])
    there = await said(store, ["heron"], "s2")
    assert [
        hit.message_id for hit in await store.search.run_query(SearchQuery(query="heron", source="telegram"))
    ] == there
    assert await store.search.run_query(SearchQuery(query="heron", source="matrix")) == []


async def test_long_texts_are_found_up_to_the_limit(store: Store) -> None:
    text = "start " + "x " * (text_module.TEXT_LIMIT // 2) + "beyond"
    (identity,) = await store.messages.append(
        "s1", 1, None, [Message(role=Role.TOOL, parts=(ToolResultPart(call_id="c", name="t", text=text),))]
    )
    assert await found(store, "start") == [identity] and await found(store, "beyond") == []


async def test_arguments_are_found_as_text_not_as_json(store: Store) -> None:
    call = ToolCallPart(
        call_id="c", name="write_file", arguments='{"content": "line\\nheron \\u5929\\u6c14", "n": [1, true]}'
    )
    (identity,) = await store.messages.append("s1", 1, None, [Message(role=Role.ASSISTANT, parts=(call,))])
    assert await found(store, "heron") == [identity] and await found(store, "天气") == [identity]


def test_a_snippet_shows_the_place_on_one_line() -> None:
    text = "a" * 500 + "\n\n the  Needle\there " + "b" * 500
    line = text_module.make_snippet(text, ["needle"])
    assert "the Needle here" in line and "\n" not in line and len(line) <= 162
    assert text_module.make_snippet("short", ["absent"]) == "short"
    assert text_module.make_snippet("", ["x"]) == ""


QUERIES = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="\"'*()^:+-{}~ANDORNTEAR \0\ud83d天写ａé\ue000", max_size=40),
    st.lists(
        st.sampled_from(
            ["NEAR(", '"', "AND", "OR", "NOT", "words:", "{a b}", "*", "天气", "foo*", "^x", ")", "-x", "labels : x"]
        )
    ).map(" ".join),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=QUERIES, newest=st.booleans())
def test_no_question_is_an_error(asked: "Asker", query: str, newest: bool) -> None:
    for hit in asked(query, newest):
        assert hit == 1


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=80))
def test_what_was_said_is_found_by_its_own_words(text: str) -> None:
    database = apsw.Connection(":memory:")
    database.execute("CREATE VIRTUAL TABLE t USING fts5 (text, pairs, tokenize='unicode61')")
    database.execute("INSERT INTO t VALUES (?, ?)", text_module.build_index_text(user_message(text)))
    for term in text_module.parse_terms(text)[:5]:
        for expression in {term.exact, term.loose}:
            assert database.execute("SELECT count(*) FROM t WHERE t MATCH ?", (expression,)).get in {0, 1}
    for piece in "天气", "python":
        together = text_module.build_index_text(user_message(f"{text} {piece}"))
        database.execute("UPDATE t SET text = ?, pairs = ?", together)
        (term,) = text_module.parse_terms(piece)
        assert database.execute("SELECT count(*) FROM t WHERE t MATCH ?", (term.loose,)).get == 1


class Asker:
    """Asks a store that lives in an event loop of its own."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = self.loop.run_until_complete(Store.open(folder, StepClock()))
        self.loop.run_until_complete(begun(self.store))
        self.loop.run_until_complete(said(self.store, ["AND OR NOT NEAR 天气 foo x ａé写 a"]))

    def __call__(self, query: str, newest: bool) -> list[int]:
        return self.loop.run_until_complete(found(self.store, query, newest=newest))

    def close(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.loop.close()


@pytest.fixture
def asked(tmp_path: Path):
    asker = Asker(tmp_path / "asked")
    yield asker
    asker.close()


async def test_a_missing_index_is_made_again(store: Store, tmp_path: Path) -> None:
    ids = await said(store, ["ibex"])
    assert await found(store, "ibex") == ids
    await store.close()
    for path in (tmp_path / "home").glob("search.db*"):
        path.unlink()
    again = await Store.open(tmp_path / "home", StepClock())
    assert await found(again, "ibex") == ids
    await again.close()


@pytest.mark.parametrize("damage", ["garbage", "empty", "middle", "cut", "tables"])
async def test_a_damaged_index_is_made_again(store: Store, tmp_path: Path, damage: str) -> None:
    ids = await said(store, [f"ibex {number} " + "filler " * 50 for number in range(400)])
    await store.search.update_index()
    await store.close()
    path = tmp_path / "home" / "search.db"
    size = path.stat().st_size
    if damage == "tables":
        raw = apsw.Connection(str(path))
        raw.execute("DROP TABLE words_0")
        raw.close()
    else:
        with path.open("r+b") as file:
            if damage == "cut":
                file.truncate(size // 8192 * 4096)
            elif damage == "empty":
                file.truncate(0)
            elif damage == "garbage":
                file.write(b"no database" * 2000)
            else:
                file.seek(4096)
                file.write(b"\xa5" * (size - 8192))
    again = await Store.open(tmp_path / "home", StepClock())
    assert await found(again, "ibex 7", limit=1) == [ids[7]]
    assert len(await found(again, "ibex", limit=500)) == 400
    assert await again.check_integrity() == []
    await again.close()


async def test_an_index_of_another_program_is_refused(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "home" / "search.db"
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE precious (x)")
    foreign.commit()
    foreign.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        await store.search.find("x")
    assert path.read_bytes() == before


async def test_an_index_of_another_store_is_not_used(store: Store, tmp_path: Path) -> None:
    await said(store, ["ibex", "lynx"])
    await store.search.update_index()
    await store.close()
    other = await Store.open(tmp_path / "other", StepClock())
    await begun(other)
    ids = await said(other, ["zebra"])
    (tmp_path / "home" / "search.db").rename(tmp_path / "other" / "search.db")
    assert await found(other, "ibex") == [] and await found(other, "zebra") == ids
    await other.close()


async def test_the_index_follows_by_itself(store: Store, tmp_path: Path) -> None:
    await said(store, [f"ibex {number}" for number in range(INDEX_EVERY + 10)])
    path = tmp_path / "home" / "search.db"
    async with asyncio.timeout(60):
        while not path.exists():  # noqa: ASYNC110 - of another thread
            await asyncio.sleep(0.01)
    report = await store.search.update_index()
    assert report.messages == 0
    await said(store, ["one more"])
    assert (await store.search.update_index()).messages == 1


async def test_several_stores_follow_at_once(store: Store, tmp_path: Path) -> None:
    await said(store, [f"ibex {number}" for number in range(3000)])
    others = [await Store.open(tmp_path / "home", StepClock()) for _ in range(3)]
    counts = await asyncio.gather(*[found(one, "ibex", limit=5000) for one in [store, *others]])
    assert [len(count) for count in counts] == [3000] * 4
    for other in others:
        await other.close()


CATCH_UP = """
import asyncio, sys
from pathlib import Path
from hermes.store.store import Store
from hermes.util.clock import SystemClock

async def main():
    store = await Store.open(Path(sys.argv[1]), SystemClock())
    print("go", flush=True)
    await store.follow()
    await store.close()

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_kill_while_catching_up_leaves_a_good_index(store: Store, tmp_path: Path) -> None:
    text = "".join(chr(0x4E00 + number % 3000) for number in range(300))
    for _ in range(4):
        await said(store, [f"ibex {text}"] * 2000)
    await store.close()
    for path in (tmp_path / "home").glob("search.db*"):
        path.unlink()
    command = [sys.executable, "-c", CATCH_UP, str(tmp_path / "home")]
    for milliseconds in (20, 100, 250):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        await asyncio.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()
    again = await Store.open(tmp_path / "home", StepClock())
    assert len(await found(again, "ibex", limit=30_000)) == 8_000
    await again.close()
    raw = apsw.Connection(str(tmp_path / "home" / "search.db"))
    assert raw.execute("PRAGMA integrity_check").get == "ok"
    raw.close()

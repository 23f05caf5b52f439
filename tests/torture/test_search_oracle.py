"""The campaign of searches against SQLite's own full-text search, in small."""

from tests.torture.search_oracle import run_cases


async def test_phrases_find_what_full_text_search_finds() -> None:
    assert await run_cases(800, 11, messages=300) == []

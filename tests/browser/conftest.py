"""One browser and one site for the tests of a module, which run in one event loop."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.browser.page_driver import PageDriver, drive_pages
from tests.requirements import require


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def driver(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PageDriver]:
    require("chromium-headless-shell")
    async with drive_pages(tmp_path_factory.mktemp("browser")) as made:
        yield made

"""A vendor that is signed in to."""

from collections.abc import AsyncIterator

import pytest

from tests.vendors.sign_in_server import FakeVendor, fake_vendor


@pytest.fixture
async def vendor() -> AsyncIterator[FakeVendor]:
    async with fake_vendor() as made:
        yield made

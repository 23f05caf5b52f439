"""The handle of a session's back end: what runs no command creates nothing."""

import asyncio
import os

import pytest

from hermes.core.errors import HermesError
from hermes.execution.base import BackendHandle, TerminalBackend
from hermes.execution.local import LocalBackend


async def test_a_backend_is_created_when_something_asks_for_it() -> None:
    created: list[TerminalBackend] = []

    def create() -> TerminalBackend:
        created.append(LocalBackend(os.environ))
        return created[-1]

    unused = BackendHandle("local", create)
    assert unused.name == "local"
    await unused.close()
    assert created == [] and unused.backend is None
    with pytest.raises(HermesError, match="being closed"):  # nobody would close it
        unused.get()
    assert created == []
    used = BackendHandle("local", create)
    found = await asyncio.gather(*(asyncio.to_thread(used.get) for _ in range(8)))
    assert len(created) == 1 and all(one is created[0] for one in found)
    await used.close()


async def test_a_backend_that_exists_is_given_as_it_is() -> None:
    backend = LocalBackend(os.environ)
    handle = BackendHandle.from_backend(backend)
    assert handle.backend is backend is handle.get() and handle.name == "local"
    await handle.close()

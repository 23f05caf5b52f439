"""The embedded model, for real: nothing configured, no key, no network."""

import sys

import pytest

from hermes.providers.embedded import find_embedded_model
from hermes.testing.home import TempHome

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_embedded_model() is None, reason="the embedded model is not installed"),
]


@pytest.mark.needs("libgomp")
async def test_it_answers_with_nothing_configured_and_says_what_it_is() -> None:
    with TempHome() as home:
        done = await home.run(sys.executable, "-m", "hermes", "-z", "What is the capital of France?")
        assert done.code == 0
        assert "Paris" in done.stdout
        assert "embedded" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        again = await home.run(sys.executable, "-m", "hermes", "-z", "And of Italy?", "--continue")
        assert again.code == 0
        assert again.stdout.strip()


async def test_it_is_not_used_when_anything_is_configured() -> None:
    with TempHome({"model": {"default": "m", "provider": "openai"}}) as home:
        done = await home.run(sys.executable, "-m", "hermes", "-z", "hi")
    assert done.code == 78
    assert "OPENAI_API_KEY" in done.stderr

"""Pages that try what they may not: nothing of it leaves the box."""

from pathlib import Path

import pytest

from tests.browser.boxed_browser import PUBLIC, Person, SmallWeb, boxed_browser, navigate, wait_for
from tests.browser.hostile_pages import OTHERS, PAGES

HOST = "evil.example"
NAMES = {
    "rebind.example": [PUBLIC, "127.0.0.1"],
    **{f"inner{n}.example": [address] for n, address in enumerate(("10.0.0.9", "169.254.169.254", "127.0.0.1"))},
}
_GROUPS = 2
"""Each has a browser of its own, so that several workers can run them."""


def is_forbidden(method: str, host: str, _path: str) -> bool:
    """Return whether a request should not have arrived: to an inner address, or with a body to another site.

    The question before such a request (OPTIONS) has no body, and no answer to it lets one through.
    """
    return host.startswith(("rebind", "inner")) or (method != "OPTIONS" and host.startswith("never"))


@pytest.mark.parametrize("group", range(_GROUPS))
async def test_nothing_of_it_leaves_the_box(group: int, tmp_path: Path) -> None:
    pages = OTHERS | {f"{HOST}/{name}": text for name, text in PAGES.items()}
    async with SmallWeb(pages).running() as web, boxed_browser(tmp_path, web) as browser:
        web.names = NAMES
        person = Person(HOST)
        async with browser.use_pages(person) as pages:
            for name in [*PAGES][group::_GROUPS]:
                web.seen.clear()
                web.connected.clear()
                tab = await pages.browser.open_tab()
                problem = await navigate(tab, f"http://{HOST}/{name}")
                assert problem in ("", "net::ERR_ABORTED"), (name, problem)
                await wait_for(tab, lambda title: title != "begun")
                # A page that leaves does so before the next one is opened, and goes on until it is asked about.
                await pages.browser.open_tab()
                for number in [*pages.browser.tabs]:
                    await pages.browser.close_tab(number)
                bad = [one for one in web.seen if is_forbidden(*one)]
                assert not bad, (name, bad)
                assert {address for address, _ in web.connected} <= {PUBLIC}, name
        assert not (tmp_path / "downloads").exists() or not [*(tmp_path / "downloads").iterdir()]
        assert {*person.questions} <= {f"open {HOST}", "open never.example", f"send never.example from {HOST}"}

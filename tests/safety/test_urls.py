"""Which URLs may be fetched."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes.safety.shell.findings import Verdict
from hermes.safety.urls import UrlPolicy, UrlRefusedError, judge_address, judge_url, resolve_pinned
from tests.case_tables import each_case
from tests.cpu_cost import measure_growth

REFUSED = {
    "scheme": """file:///etc/passwd ftp://example.com/ gopher://127.0.0.1/ data:text/html,x javascript:alert(1)
        ws://example.com/ view-source:http://example.com/ example.com //example.com/ dict://x:1/ ldap://x/ http
        httpx://example.com/ about:blank blob:https://example.com/1 mailto:a@example.com""",
    "confusing": r"""http:/example.com/ http:example.com http:///example.com/ http:\\example.com\ http://example.com\@127.0.0.1/
        http://127.0.0.1\.example.com/ http://a@b@127.0.0.1/ http://example.com:80@127.0.0.1/ http://127.0.0.1@example.com/
        http://example.com%40127.0.0.1/ http://%31%32%37.0.0.1/ http://exam%00ple.com/ http://example.com:80:81/
        http://example.com:0/ http://example.com:65536/ http://example.com:+80/ http://example.com:8o/ http://[::1
        http://example.com#@127.0.0.1/ http://example.com?@localhost/ http://１２７.0.0.1/ http://ⓔxample.com/
        http://localhost@example.com/""",
    "address-form": """http://2130706433/ http://0x7f000001/ http://0177.0.0.1/ http://127.1/ http://0/ http://127.0.0.01/
        http://0x7f.1/ http://017700000001/ http://1.2.3.4.5/ http://256.0.0.1/ http://1.2.3/ http://127.0.0.0x1/
        http://0300.0250.1/ http://3232235521/""",
    "loopback": """http://127.0.0.1/ http://127.255.255.254/ http://[::1]/ http://[0:0:0:0:0:0:0:1]/ http://[::ffff:127.0.0.1]/
        http://[::127.0.0.1]/ http://[64:ff9b::127.0.0.1]/ http://[2002:7f00:1::]/ http://127.0.0.1./ https://x.localtest.me/
        http://127.0.0.1.nip.io/ http://app.127-0-0-1.sslip.io/ http://7f000001.nip.io/ http://127.0.0.1.example.org/""",
    "private": """http://10.0.0.1/ http://172.31.255.255/ http://192.168.0.1/ http://100.64.0.1/ http://[fd12::1]/ http://[fec0::1]/
        http://localhost/ http://LOCALHOST./ http://a.localhost/ http://printer.local/ http://db.internal/ http://router.lan/
        http://intranet/ http://kubernetes.default.svc/ http://host.docker.internal/ http://x.home.arpa/ http://router/
        http://10.0.0.1.nip.io/ http://0a000001.nip.io/""",
    "link-local": "http://169.254.1.1/ http://[fe80::1]/ http://[fe80::1%25eth0]/ http://[febf::1]/",
    "metadata": """http://169.254.169.254/ http://[fd00:ec2::254]/ http://metadata.google.internal/ http://metadata/
        http://100.100.100.200/ http://168.63.129.16/ http://[::ffff:169.254.169.254]/ http://[64:ff9b::a9fe:a9fe]/
        http://169.254.169.254.nip.io/ http://instance-data/ http://METADATA.GOOGLE.INTERNAL./ http://metadata.goog/""",
    "reserved": """http://192.0.2.1/ http://198.51.100.7/ http://203.0.113.9/ http://240.0.0.1/ http://255.255.255.255/
        http://[2001:db8::1]/ http://[100::1]/ http://[3fff::1]/ http://[4000::1]/ http://[2001::1]/""",
    "unspecified": "http://0.0.0.0/ http://[::]/ http://0.1.2.3/",
    "multicast": "http://224.0.0.1/ http://239.255.255.250/ http://[ff02::1]/",
    "tunnel": "http://[2002:5db8:d822::1]/",
    "malformed": "http://exa_.-mple..com/ http://-a.example.com/ http://ex!ample.com/ http://[v1.x]/ http://[127.0.0.1]/",
    "rebinding": "http://7f000001.c0a80001.rbndr.us/",
    "port": "http://example.com:22/ http://example.com:6379/ https://example.com:25/",
}
_ALLOWED = """
    https://example.com/ http://example.com:8080/a?b=c HTTPS://EXAMPLE.COM/ https://user@example.com/
    https://example.com./ https://example.com/10.0.0.1 https://example.com/?u=http://127.0.0.1/
    https://localhost.example.com/ https://100.128.0.1/ https://169.253.1.1/ https://172.32.0.1/ https://11.0.0.1/
    http://8.8.8.8/ https://[2606:4700::1111]/ https://[64:ff9b::808:808]/ https://münchen.de/
    https://xn--mnchen-3ya.de/ https://例え.jp/ https://my_host.example.com/ https://a-b.example.co.uk:8443/
    https://example.com/a@b https://example.com?mail=a@b.com https://1.1.1.1.nip.io/ https://example.com:/
    https://user:word@example.com/ https://1and1.com/ https://example.com/a%20b https://esm.sh?x=react@18.2.0
    https://matrix.to/#/@user:example.com https://10-0-0-1.example.com/ https://0x.org/ https://example.com/a|b
    https://internal.example.com/ https://metadata.example.com/ https://local.example.com/
"""
ALLOWED = _ALLOWED.split()


@each_case(("rule", "url"), [(rule, url) for rule, urls in REFUSED.items() for url in urls.split()])
def test_refused(rule: str, url: str) -> None:
    judged = judge_url(url)
    assert (judged.verdict, judged.rule) == (Verdict.DENY, rule), judged.reason
    assert judged.reason


@each_case("url", ALLOWED)
def test_allowed(url: str) -> None:
    judged = judge_url(url)
    assert judged.verdict is Verdict.ALLOW, judged.reason
    assert judge_url(judged.url) == judged  # the one reading reads as itself


@pytest.mark.parametrize(
    "url",
    [
        "http://exa\u200bmple.com/",
        "http://exam\u00adple.com/",
        "http://exa\nmple.com/",
        "http://exa\tmple.com/",
        "http://example.com/\r\nx: y",
        "",
        "x" * 9_000,
    ],
)
def test_control_characters_and_nonsense_are_refused(url: str) -> None:
    assert judge_url(url).verdict is Verdict.DENY


def test_the_reading_is_plain() -> None:
    judged = judge_url(" HTTP://me:pw@Münster.DE:80/a b?q=ü\\#part ")
    assert judged.url == "http://xn--mnster-3ya.de/a%20b?q=%C3%BC%5C"
    assert (judged.scheme, judged.host, judged.port) == ("http", "xn--mnster-3ya.de", 80)


def test_a_person_opens_hosts_of_their_own() -> None:
    policy = UrlPolicy(private=("nas.local", "*.lan", "192.168.1.0/24", "localhost:8080", "[fd00::5]:80"))
    for url in (
        "http://nas.local/",
        "http://tv.lan:99/",
        "http://192.168.1.9/",
        "http://localhost:8080/",
        "http://[fd00::5]/",
    ):
        assert judge_url(url, policy).verdict is Verdict.ALLOW, url
    for url in ("http://nas2.local/", "http://192.168.2.9/", "http://localhost:8081/", "http://[fd00::5]:81/"):
        assert judge_url(url, policy).verdict is Verdict.DENY, url


def test_nothing_opens_where_clouds_hand_out_keys() -> None:
    policy = UrlPolicy(private=("*", "0.0.0.0/0", "::/0"))
    assert judge_url("http://10.0.0.1/", policy).verdict is Verdict.ALLOW
    for url in (
        "http://169.254.169.254/",
        "http://[fd00:ec2::254]/",
        "http://metadata.google.internal/",
        "http://[::ffff:a9fe:a9fe]/",
    ):
        assert judge_url(url, policy).verdict is Verdict.DENY, url
    with pytest.raises(UrlRefusedError, match="keys"):
        asyncio.run(resolve_pinned("nas.lan", 80, Fixed("169.254.169.254"), policy))


class Fixed:
    def __init__(self, *addresses: str, error: OSError | None = None) -> None:
        self.addresses = addresses
        self.error = error

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        if self.error:
            raise self.error
        return self.addresses


async def test_addresses_are_pinned_or_refused() -> None:
    assert await resolve_pinned("a.example.com", 443, Fixed("93.184.216.34", "2606:2800::1", "93.184.216.34")) == (
        "93.184.216.34",
        "2606:2800::1",
    )
    assert await resolve_pinned("8.8.8.8", 443, Fixed("10.0.0.1")) == ("8.8.8.8",)
    for addresses in (("127.0.0.1",), ("93.184.216.34", "::1"), ("fe80::1%eth0",), ("not an address",), ()):
        with pytest.raises(UrlRefusedError):
            await resolve_pinned("a.example.com", 443, Fixed(*addresses))
    with pytest.raises(UrlRefusedError, match="cannot be looked up"):
        await resolve_pinned("a.example.com", 443, Fixed(error=OSError("down")))
    opened = UrlPolicy(private=("nas.example.com",))
    assert await resolve_pinned("nas.example.com", 80, Fixed("192.168.1.5"), opened) == ("192.168.1.5",)
    with pytest.raises(UrlRefusedError):
        await resolve_pinned("other.example.com", 80, Fixed("192.168.1.5"), opened)


async def test_the_systems_resolver() -> None:
    with pytest.raises(UrlRefusedError, match="this machine"):
        await resolve_pinned("localhost", 80)
    assert await resolve_pinned("localhost", 80, policy=UrlPolicy(private=("localhost",)))


@given(st.integers(0, 2**32 - 1))
@example(0x7F000001)
@example(0xA9FEA9FE)
def test_an_address_is_the_same_in_every_dress(number: int) -> None:
    dotted = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
    plain = judge_address(dotted)
    high, low = number >> 16, number & 0xFFFF
    for dressed in (f"::ffff:{dotted}", f"::ffff:{high:x}:{low:x}", f"64:ff9b::{high:x}:{low:x}"):
        assert judge_address(dressed).is_public == plain.is_public
    for dressed in (f"::{dotted}", f"2002:{high:x}:{low:x}::", f"2001:0:{high:x}:{low:x}::"):
        assert not judge_address(dressed).is_public
    for host in (str(number), hex(number), f"0{number:o}", f"[::ffff:{dotted}]", dotted):
        if not plain.is_public:
            assert judge_url(f"http://{host}/").verdict is Verdict.DENY


@given(st.text(max_size=200))
def test_any_text_gets_a_verdict(text: str) -> None:
    for url in (text, f"http://{text}", f"https://{text}/", f"http://example.com{text}"):
        judged = judge_url(url)
        if judged.verdict is Verdict.ALLOW:
            assert judged.url.isascii() and not set(judged.url) & set("\\\r\n\t @#".replace("@", ""))
            assert judge_url(judged.url).host == judged.host


@pytest.mark.parametrize(
    ("begin", "piece", "end"),
    [("http://", "a.", ""), ("http://", "@@", ""), ("http://e.com/", "%%", ""), ("http://", "1.", "nip.io")],
)
def test_the_cost_of_hostile_texts_grows_with_their_length(begin: str, piece: str, end: str) -> None:
    growth = measure_growth(lambda count: lambda: judge_url(begin + piece * count + end), 2_000, 32_000)
    assert growth < 48  # linear is 16, quadratic would be 256

"""The redactor: every form of a held value, vendors' shapes, what only looks like one, any text in linear time."""

import base64
import codecs
import json
import random
import string
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.safety.secrets.redactor import PlaceholderRefusal, RedactingStream, Redactor
from tests.case_tables import each_case
from tests.cpu_cost import measure_growth

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def drawn(seed: str, count: int, alphabet: str = LETTERS) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=count))


def canaries() -> dict[str, str]:
    """Thirty secrets of many makes, none of which stands in any file."""
    found = {f"LONG_{n}_API_KEY": "-".join(("sk", "proj", drawn(f"l{n}", 40))) for n in range(12)}
    found |= {f"P{n}_PASSWORD": drawn(f"p{n}", 14, LETTERS + "!@#$%^&*_-") for n in range(8)}
    found |= {f"H{n}_TOKEN": drawn(f"h{n}", 32, HEX) for n in range(6)}
    found |= {f"B{n}_SECRET": drawn(f"b{n}", 44, LETTERS + "+/") for n in range(4)}
    return found


CANARIES = canaries()
REDACTOR = Redactor(CANARIES)


def forms(value: str) -> Iterator[str]:
    raw, digits = value.encode(), value.encode().hex()
    pairs = [digits[at : at + 2] for at in range(0, len(digits), 2)]
    yield from (value, value[::-1], value.upper(), value.swapcase(), codecs.encode(value, "rot13"))
    yield from (
        json.dumps({"key": value}),
        json.dumps(json.dumps(value)),
        quote(value, safe=""),
        quote(quote(value, safe="")),
    )
    yield from ("".join(f"%{pair}" for pair in pairs), "".join(f"\\x{pair}" for pair in pairs))
    yield from ("".join(f"\\u00{pair}" for pair in pairs), "".join(f"&#{ord(one)};" for one in value))
    yield from ("".join(f"\\{ord(one):03o}" for one in value), str(list(raw)), ", ".join(f"0x{pair}" for pair in pairs))
    yield from (digits, digits.upper(), ":".join(pairs), " ".join(pairs), "\n".join(pairs))
    for before in (b"", b"a", b"ab", b"NAME="):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = encode(before + raw + b"..").decode()
            yield from (
                encoded,
                encoded.rstrip("="),
                "\n".join(encoded[at : at + 19] for at in range(0, len(encoded), 19)),
            )
    yield base64.b32encode(raw).decode()
    yield from (" ".join(value), "\n".join(value), f"{value[:7]}\n{value[7:]}", f'"{value[:6]}" + "{value[6:]}"')
    yield from (mark.join(value) for mark in "\u200b\u202a\u2066\ufe0f\U0001d173")
    yield from (f"\x1b[31m{value[:5]}\x1b[0m{value[5:]}", f"{value[:4]}\\\n{value[4:]}")
    yield "\n".join(
        f"{at:08x}: {' '.join(pairs[at : at + 16])}  {value[at : at + 16]}" for at in range(0, len(raw), 16)
    )


def letters(text: str) -> str:
    return "".join(one for one in text if one.isascii() and one.isalnum()).lower()


@pytest.mark.parametrize("name", CANARIES)
def test_a_held_value_is_found_in_every_form(name: str) -> None:
    value = CANARIES[name]
    for form in forms(value):
        shown = REDACTOR.redact(f"before\n{form}\nafter")
        assert f"[secret:{name}" in shown, form
        assert letters(value) not in letters(shown)
        assert shown.startswith("before\n") and shown.endswith("\nafter")


@pytest.mark.parametrize("name", [name for name in CANARIES if name.startswith(("LONG", "B"))])
def test_what_is_left_of_a_value_at_a_cut_is_found(name: str) -> None:
    value = CANARIES[name]
    for part in (value[: len(value) * 2 // 3], value[len(value) // 2 :], value.encode().hex()[: len(value)]):
        assert part[4:] not in REDACTOR.redact(f"... {part} ...")


def test_text_without_secrets_is_the_same_object() -> None:
    text = "def work(path):\n    return open(path).read()  # nothing here\n" * 50
    assert REDACTOR.redact(text) is text


def test_short_and_common_values_are_held_beside_their_name_only() -> None:
    redactor = Redactor({"DB_PASSWORD": "password", "PIN": "4711"})
    assert redactor.redact("the password has 4711 letters") == "the password has 4711 letters"
    assert redactor.redact("DB_PASSWORD=password PIN: '4711'") == "DB_PASSWORD=[secret:DB_PASSWORD] PIN: '[secret:PIN]'"


def test_a_value_learned_later_is_held() -> None:
    redactor = Redactor()
    late = drawn("late", 24)
    assert late in redactor.redact(f"x {late}")
    redactor.add_secret("LATE", late)
    assert redactor.redact(f"x {late}") == "x [secret:LATE]"


def test_a_file_read_and_written_again_is_the_same() -> None:
    (name, value), other = next(iter(CANARIES.items())), CANARIES["P1_PASSWORD"]
    original = f"a: 1\nkey: '{value}'\nb64: {base64.b64encode(value.encode()).decode()}\n"
    shown = REDACTOR.redact(original)
    assert value not in shown
    assert REDACTOR.restore_placeholders(shown, original) == original
    assert REDACTOR.restore_placeholders(shown.replace("a: 1", "a: 2"), original) == original.replace("a: 1", "a: 2")
    assert isinstance(REDACTOR.restore_placeholders("pw: [secret:P1_PASSWORD]", original), PlaceholderRefusal)
    assert REDACTOR.restore_placeholders("pw: [secret:P1_PASSWORD]", f"pw: {other}") == f"pw: {other}"
    assert isinstance(REDACTOR.restore_placeholders(f"new: [secret:{name}]", ""), PlaceholderRefusal)
    assert isinstance(REDACTOR.restore_placeholders("new: [redacted:jwt]", "old: nothing"), PlaceholderRefusal)
    assert REDACTOR.restore_placeholders("docs: [secret:NOBODY_HOLDS]", "") == "docs: [secret:NOBODY_HOLDS]"
    assert REDACTOR.has_placeholder(f"echo [secret:{name}]") and not REDACTOR.has_placeholder("echo [secret:NOBODY]")


@given(st.lists(st.sampled_from([*CANARIES.values(), "key: ", "\n", '"', "x = 1", "é", " [secret:A] "]), max_size=8))
def test_redacting_twice_changes_nothing_and_resolving_undoes_it(parts: list[str]) -> None:
    original = " ".join(parts)
    shown = REDACTOR.redact(original)
    assert REDACTOR.redact(shown) == shown
    assert not any(value in shown for value in CANARIES.values())


def kinds() -> dict[str, str]:
    upper = string.ascii_uppercase + string.digits
    return {
        "anthropic": "sk-" + "ant-api03-" + drawn("1", 90),
        "openai": "sk-" + "proj-" + drawn("2", 40),
        "github": "gh" + "p_" + drawn("3", 36),
        "gitlab": "glp" + "at-" + drawn("4", 20),
        "slack": "xo" + "xb-123456789012-123456789012-" + drawn("5", 24),
        "gemini": "AI" + "za" + drawn("6", 35),
        "aws": "AK" + "IA" + drawn("7", 16, upper),
        "stripe": "sk_" + "live_" + drawn("8", 24),
        "huggingface": "h" + "f_" + drawn("9", 34),
        "telegram": "7123456789:" + "AA" + drawn("10", 33),
        "npm": "np" + "m_" + drawn("11", 36),
        "databricks": "da" + "pi" + drawn("12", 32, HEX),
        "sendgrid": "S" + "G." + drawn("13", 22) + "." + drawn("14", 43),
        "jwt": "ey" + "JhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiJhIn0." + drawn("15", 43),
        "private-key": "-----BEGIN " + "PRIVATE KEY-----\n" + drawn("16", 64) + "\n-----END PRIVATE KEY-----",
        "unknown vendor": "newvendor_" + drawn("17", 40),
    }


@pytest.mark.parametrize("kind", kinds())
def test_what_has_a_secrets_shape_is_taken_out(kind: str) -> None:
    key = kinds()[kind]
    redactor = Redactor()
    for text in (
        key,
        f"token is {key}",
        f'{{"a": "{key}"}}',
        f"\x1b[32m{key}\x1b[0m",
        f"x=1\\n{key}",
        quote(f"a={key}"),
    ):
        assert key not in redactor.redact(text).replace("%", "\0") and "[redacted:" in redactor.redact(text), text
    assert "[redacted:" in redactor.redact(f"url?x=1&token={key}")


def test_values_are_taken_out_by_their_names() -> None:
    word = "Tr0ub4dor" + "&" + drawn("pw", 5)
    redactor = Redactor()
    for text in (
        f"DB_PASS={word}", f"password: '{word}'", f'"client_secret":"{word}"', f"Authorization: Bearer {word}",
        f"Cookie: theme=dark; session={word}", f"postgres://app:{word}@db/x", f"<password>{word}</password>",
        f"mysql -u root -p{word}", f"curl -u me:{word} https://x", f"echo {word} | sudo -S ls", f"--api-key {word}",
        f"IDENTIFIED BY '{word}'", f"x-api-key: {word}", f"setPassword('{word}')", f"Server=a;Password={word};",
    ):  # fmt: skip
        assert word not in redactor.redact(text), text


SMALL, GREAT = string.ascii_lowercase, string.ascii_uppercase


@pytest.mark.parametrize("alphabet", [SMALL, GREAT, string.ascii_letters])
def test_letters_alone_are_a_secret_beside_its_name(alphabet: str) -> None:
    """A few of such values cannot be told from words; most are."""
    redactor = Redactor()
    values = [drawn(f"letters {n}", 32, alphabet) for n in range(100)]
    for write in (
        "API_KEY={}", "export OPENAI_API_KEY={}\n", "DB_PASSWORD={}", "token: {}", "x-api-key: {}",
        "client_secret = {}",
        "Authorization: Bearer {}", "{{'Authorization': 'Bearer {}'}}", "https://x.example/?token={}", "--api-key {}",
        "secrets:\n  db_password: {}\n  user: x", "api_key: |\n  {}\n", "password: >-\n    {}", "| API_KEY   | {} |",
        " token | `{}`", "- name: API_KEY\n  value: {}", '{{"name": "DB_PASSWORD", "value": "{}"}}', "API key: {}",
        "the access key is {}", "api_key\t{}", "PRIVATE-TOKEN: {}", "ENV API_KEY {}", "$env:API_KEY = '{}'",
    ):  # fmt: skip
        left = [value for value in values if value in redactor.redact(write.format(value))]
        assert len(left) <= 5, (write, left)


def test_great_letters_among_small_ones_hide_nothing() -> None:
    """What has letters of both kinds is judged by its pairs, too: how often they change says little of few letters."""
    values = [drawn(f"both {n}", 24, string.ascii_letters) for n in range(300)]
    left = [value for value in values if value in Redactor().redact(f"API_KEY={value}")]
    assert len(left) <= 3, left
    names = ("getUserAccountTokenProvider", "BackgroundTransactionManager", "XMLHttpRequestEventTarget")
    assert all(Redactor().redact(f"token = {one}") == f"token = {one}" for one in names)


def test_words_of_a_name_say_that_its_value_is_a_secret() -> None:
    redactor = Redactor()
    for name in (
        "GITHUB_PAT", "github_pat", "BW_SESSION", "OP_SESSION_my", "JWT", "CI_JOB_JWT_V2", "COOKIE", "NPM_AUTH",
        "DB_PW", "LDAP_BINDPW",
        "PGPASSWORD", "MYSQL_PWD", "REDISCLI_AUTH", "MY_CRED", "SLACK_WEBHOOK", "HOOK_WEBHOOK_URL",
    ):  # fmt: skip
        value = drawn(name, 24)
        for text in (f"{name}={value}", f"export {name}='{value}'", f'"{name}": "{value}"'):
            assert value not in redactor.redact(text), text
    place = drawn("hook", 24)
    for text in (f"MY_WEBHOOK_URL=https://hooks.example/T/{place}", f"MONGO_URI=mongodb://app:{place}@db/x"):
        assert place not in redactor.redact(text), text
    phrase = " ".join(drawn(f"word {n}", 5, SMALL) for n in range(12))
    assert phrase not in redactor.redact(f'MNEMONIC="{phrase}"')


@pytest.mark.parametrize("digits", [6, 8, 10])
def test_a_bots_token_is_gone_from_a_path_without_its_host(digits: int) -> None:
    token = drawn("number", digits, "123456789") + ":" + "AAF" + drawn("bot", 32)
    for text in (f"GET /bot{token}/getUpdates HTTP/1.1", f"/bot{token}", f"path=/file/bot{token}/x.jpg"):
        assert token not in Redactor().redact(text), text


LOOKALIKES = (
    "TOKEN=placeholder", "API_KEY=$OPENAI_API_KEY", "api_key: |\n  see the documentation", "| password | required |",
    "| token | string | the authentication token |", "- name: API_KEY\n  value: ${API_KEY}", "cat token | authenticate",
    "password | characters | minimum", "{\"name\": \"token\", \"value\": \"authorization\"}", "API key: documentation",
    "the key is internationalization", "primary key: customer_identifier", "public key: " + drawn("public", 32, SMALL),
    "AccessKey | None", "DB_PASSWORD=/run/secrets/database_password", "token: 550e8400-e29b-41d4-a716-446655440000",
    "password:\n  minLength: eight", "key: value", "api_key: >\n  Generate one in the settings", "pwd | xargs dirname",
    "API_KEY=someInternalIdentifierOfMine", "token: authenticationtokenprovider", "password = internationalization",
    "session = requests.Session()", '"session": "20261123-abc4d2e9"', "session_id=8f3a91bc22de4f10",
    "SESSION_ID=4f5a9b2c1d",
    "webhook_url=https://example.com/api/v1/webhooks/incoming", "jwt = jwt.encode(payload)", "_path=/usr/lib/x86_64",
    "/bots/12345/list", "IPV4_PAT = r'(?:[0-9]{1,3})'", "API_KEY=configurationmanagement", "cookie: theme=dark",
    "OPENAI_API_KEY=sk-...", "api_key: <your-key>", "password: ${DB_PASSWORD}", "password = getpass.getpass()",
    "token = jwt.encode(payload, key)", "max_tokens=4096", "primary_key=id", "cache_key=user:42:profile", "sk-learn",
    "550e8400-e29b-41d4-a716-446655440000", "commit " + drawn("c", 40, HEX), "sha512-" + drawn("s", 86) + "==",
    "docker pull x@sha256:" + drawn("d", 64, HEX), "data:image/png;base64,iVBORw0KGgo" + drawn("i", 80),
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + drawn("e", 43) + " a@b", "color: #a1b2c3", "+1 (555) 123-4567",
    "AKIAIOSFODNN7EXAMPLE", "postgres://user:password@localhost/db", "https://medium.com/@someuser/post-123",
    "npm_lifecycle_event", "disk-usage-report-2024-01-02", "Authorization: required", "Set-Cookie: theme=dark; Path=/",
    "password reset email sent", "the secret is to keep calm", "keyboard: us", "-----BEGIN PUBLIC KEY-----\nMIIB\n",
)  # fmt: skip


@each_case("text", LOOKALIKES)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert Redactor().redact(text) == text


@pytest.mark.parametrize("size", [1, 2, 3, 7, 40])
def test_a_stream_shows_what_the_whole_would(size: int) -> None:
    name, value = next(iter(CANARIES.items()))
    text = f"It is {value}, in hex {value.encode().hex()},\nsplit '{value[:9]}' + '{value[9:]}'"
    text += " and password = 'Tr0ub4dor&9x'.\nEnd"
    stream = RedactingStream(REDACTOR)
    shown = "".join([*(stream.feed(text[at : at + size]) for at in range(0, len(text), size)), stream.close()])
    assert letters(value) not in letters(shown) and "Tr0ub4dor" not in shown
    assert shown.count(f"[secret:{name}") == 3
    assert shown.startswith("It is [secret") and shown.endswith(".\nEnd")


def test_a_stream_does_not_hold_back_plain_text() -> None:
    stream = RedactingStream(REDACTOR)
    given_away = [stream.feed(word) for word in ("Hello ", "there, ", "this ", "is ", "plain. ")]
    assert sum(map(len, given_away)) > len("Hello there, this is plain. ") - 8


@given(st.text(max_size=400))
def test_any_text_passes(text: str) -> None:
    shown = REDACTOR.redact(text)
    stream = RedactingStream(REDACTOR)
    assert stream.feed(text) + stream.close() == shown or "[" in shown
    assert isinstance(REDACTOR.restore_placeholders(text, text), str | PlaceholderRefusal)


PATTERNS = (
    "a", "A1", "key=", "password=", 'password="', "pass:", "token", "://", "://a:b@", "%41", "%2541", "\\u0041", "eyJ-",
    "eyJabcdefg.", "sk-", "-----BEGIN PRIVATE KEY-----", '"a" + ', "cookie: a=b; ", "curl -u a", "bearer ", "_-",
    "&#65;", "\u200bx", "00000010: 6162  ab\n", "?&token=", "[secret:A]", "abcdefgh1A2b3C4d5 ", "LONG_1_API_KEY=",
    "1/12000000000000", next(iter(CANARIES.values())), next(iter(CANARIES.values()))[8:36] + " ",
)  # fmt: skip


@pytest.mark.parametrize("unit", PATTERNS)
def test_work_grows_with_the_text_whatever_is_in_it(unit: str) -> None:
    def make_redaction(size: int) -> Callable[[], object]:
        text = (unit * (size // len(unit) + 1))[:size]
        return lambda: REDACTOR.redact(text)

    assert measure_growth(make_redaction, 16_384, 131_072, tries=3) < 20  # linear is 8, quadratic would be 64


@pytest.mark.parametrize("before", ["x\n", "x\t", 'a"', "\\", "C:\\new ", "é\n", "\x01", "\\\n"])
def test_a_secret_behind_an_escape_leaves_the_json_whole(before: str) -> None:
    token = "ghp_" + "".join(random.Random(5).choices(string.ascii_letters + string.digits, k=36))
    raw = json.dumps({"content": f"{before}{token}\nmore"})
    found = Redactor().redact(raw)
    assert token not in found
    assert json.loads(found)["content"].startswith(f"{before}[redacted:")

"""Finds secrets by their patterns: vendors' keys, private keys, tokens, passwords in URLs.

The patterns of vendors' keys are data, from the vendors' documentation and from keys themselves.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from functools import cache, lru_cache

from hermes.safety.secrets.placeholders import (
    is_common_password,
    is_generated_key,
    is_placeholder,
    is_random_like,
    is_uuid,
)
from hermes.util.text import compile_late

_ALPHABETS = {
    "w": "[A-Za-z0-9]",
    "d": "[A-Za-z0-9_-]",
    "h": "[0-9a-fA-F]",
    "u": "[A-Z0-9]",
    "n": "[0-9]",
    "l": "[a-z0-9]",
    "b": "[A-Za-z0-9+/_=-]",
    "p": "[A-Za-z0-9_.=-]",
}

_PREFIXES = """
openai            d 20  sk- sk-proj- sk-svcacct- sk-admin-
openai            w 32  sess-
anthropic         d 20  sk-ant-
openrouter        d 20  sk-or-
langfuse          d 20  sk-lf-
groq              w 24  gsk_
xai               w 24  xai-
perplexity        w 24  pplx-
fireworks         w 20  fw_
together          d 24  tgp_v1_
replicate         w 24  r8_
huggingface       w 24  hf_ api_org_
cerebras          w 24  csk-
nvidia            d 24  nvapi-
elevenlabs        h 32  sk_
voyage            d 32  pa-
voyage            d 40  al-
tavily            d 20  tvly-
firecrawl         h 24  fc-
brave             d 24  BSA brv_
browserbase       d 20  bb_live_
fal               d 24  fal_
exa               d 24  exa_
agentmail         d 24  am_
mem0              w 24  m0-
mem0              d 20  mem0_
retaindb          d 20  retaindb_
honcho            d 24  hch-
hermes            d 24  hsk-
langsmith         p 24  lsv2_pt_ lsv2_sk_
langsmith         w 24  ls__
wandb             d 32  wandb_v1_
pinecone          d 32  pcsk_
jina              d 32  jina_
gemini            d 30  AIza AQ.Ab
google-oauth      d 20  GOCSPX- ya29.
google-oauth      d 30  1//0
aws               u 16  AKIA ASIA ABIA ACCA
aws-bedrock       b 60  ABSK
aws-bedrock       b 40  bedrock-api-key-
aws-mws           d 30  amzn.mws.
github            w 24  ghp_ gho_ ghu_ ghs_ ghr_
github            d 36  github_pat_
gitlab            p 16  glpat- glrt-
gitlab            d 16  gldt- glcbt- glft- glsoat- glimt- glffct- glwt- GR1348941
gitlab            d 20  glptt- glagent- gloas-
bitbucket         w 24  ATBB
bitbucket         b 40  ATCTT3
atlassian         b 40  ATATT3 ATOA
slack             d 20  xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxc- xoxd- xoxe- xoxe.xoxp- xoxe.xoxb- xapp- xwfp-
stripe            w 16  sk_live_ sk_test_ rk_live_ rk_test_
stripe            b 20  whsec_
square            d 20  sq0atp-
square            d 32  sq0csp-
square            d 40  EAAA
paypal            p 16  access_token$production$ access_token$sandbox$
plaid             d 30  access-production- access-sandbox-
shopify           h 24  shpat_ shpca_ shppa_ shpss_ shptka_
razorpay          w 14  rzp_live_ rzp_test_
flutterwave       d 24  FLWSECK-
flutterwave       d 12  FLWSECK_TEST-
twilio            h 32  SK
sendgrid          p 40  SG.
mailgun           h 32  key-
mandrill          d 20  md-
brevo             d 40  xkeysib- xsmtpsib-
resend            d 20  re_
npm               w 30  npm_
pypi              d 40  pypi-
rubygems          h 32  rubygems_
docker            d 20  dckr_pat_ dckr_oat_
crates            w 32  cio
nuget             l 43  oy2
clojars           w 40  CLOJARS_
artifactory       w 60  AKCp
artifactory       w 40  cmVmdGtu
hex-pm            h 40  hex_
cloudflare        w 30  cfut_ cfat_ cfk_
digitalocean      h 40  dop_v1_ doo_v1_ dor_v1_
heroku            d 30  HRKU-
netlify           w 30  nfp_ nfc_
vercel            w 24  vcp_ vca_
vercel            d 24  vercel_blob_rw_
render            w 24  rnd_
fly               b 40  FlyV1 fm2_ fm1a_ fm1r_
fly               d 32  fo1_
supabase          h 32  sbp_
supabase          d 20  sb_secret_
planetscale       p 30  pscale_tkn_ pscale_pw_ pscale_oauth_
neon              w 40  napi_
mongodb           d 30  mdb_sa_sk_
databricks        h 32  dapi dose
aiven             d 14  AVNS_
confluent         b 50  cflt
grafana           d 30  glsa_
grafana           b 32  glc_
grafana           b 40  eyJrIjoi
newrelic          u 24  NRAK-
newrelic          h 19  NRJS-
newrelic          d 28  NRII-
newrelic          h 40  NRRA-
sentry            b 40  sntrys_
sentry            h 40  sntryu_
honeycomb         w 40  hcaik_ hcalk_
signoz            w 24  ingest-
posthog           w 30  phx_ phs_
circleci          d 32  CCIPAT_ CCIPRJ_
buildkite         h 32  bkua_ bkpt_
vault             d 24  hvs. hvb. hvr.
pulumi            h 32  pul-
doppler           w 30  dp.pt. dp.ct. dp.sa. dp.scim. dp.audit.
doppler           p 30  dp.st.
infisical         p 50  st.
onepassword       b 60  ops_eyJ
launchdarkly      d 36  sdk-
linear            w 30  lin_api_ lin_oauth_
notion            w 36  secret_
notion            w 30  ntn_
figma             d 30  figd_ figu_ figoh_
postman           d 40  PMAK-
contentful        d 30  CFPAT- CFORT-
hubspot           d 30  pat-na1- pat-eu1-
typeform          p 30  tfp_
dropbox           d 60  sl.
facebook          w 60  EAAC EAAB EAAG EAAJ
instagram         d 60  IGQ
mapbox            p 40  sk.eyJ
readme            l 40  rdme_
frameio           d 40  fio-u-
duffel            d 30  duffel_live_ duffel_test_
easypost          w 40  EZAK EZTK
shippo            h 30  shippo_live_ shippo_test_
alibaba           w 16  LTAI
tencent           w 28  AKID
baidu             b 40  bce-v3/ALTAK-
volcengine        b 30  AKLT
yandex            d 30  AQVN
yandex            d 20  YCAJE
yandex            d 40  t1.9
tailscale         d 20  tskey-
sourcegraph       p 30  sgp_
sourcegraph       h 40  sgd_
sonarqube         h 32  sqp_ squ_ sqa_
prefect           w 30  pnu_ pnb_
dbt               d 24  dbtc_ dbtu_
runpod            w 30  rpa_
e2b               h 32  e2b_
daytona           h 32  dtn_
composio          d 20  ak_
modal             w 20  as- ak-
matrix            d 24  syt_ mct_
adafruit          w 24  aio_
dynatrace         p 60  dt0c01. dt0s01.
zhipu             d 24  zai-
kimi              d 20  sk-kimi-
minimax           d 20  sk-api- sk-cp-
age               u 50  AGE-SECRET-KEY-1
scaleway          d 20  SCWSK
linode            d 20  lin_pat_
snyk              p 30  snyk_uat. snyk_sat.
ngrok             d 30  2ngrok_
cloudsmith        w 30  csa_
zapier            d 24  zpka_
coze              w 48  pat_
cursor            h 40  crsr_
cursor            h 60  key_
pagerduty         p 24  pdus+
bitly             h 32  R_
apify             w 24  apify_api_
lakera            h 32  lakera_
unkey             w 20  unkey_
trigger           w 20  tr_prod_ tr_dev_
inngest           h 32  signkey-prod-
courier           u 24  pk_prod_
loops             h 32  loops_
rollbar           h 32  rbr_
cockroach         d 40  CCDB1_
turso             d 40  libsql_
replit            d 30  rplt_
depot             d 30  depot_
"""
"""A vendor, the alphabet and the least number of characters behind a prefix, and the prefixes of such keys."""

_WHOLE = r"""
aws-sts           AROA[A-Z0-9]{17}
telegram          [0-9]{8,10}:AA[A-Za-z0-9_-]{31,35}
discord           [MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}
discord           mfa\.[A-Za-z0-9_-]{60,100}
airtable          pat[A-Za-z0-9]{14}\.[0-9a-f]{48,64}
asana             [12]/[0-9]{12,17}(?:/[0-9]{12,17})?:[0-9a-f]{32}
cloudflare        v1\.0-[0-9a-f]{24}-[0-9a-f]{100,160}
terraform         [A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,80}
azure             [A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{28,36}
zhipu             [0-9a-f]{32}\.[A-Za-z0-9]{16}
fal               [0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}:[0-9a-f]{32}
mailchimp         [0-9a-f]{32}-us[0-9]{1,2}
sendgrid          SG\.[A-Za-z0-9_-]{16,24}\.[A-Za-z0-9_-]{30,50}
twitter           A{10,22}[A-Za-z0-9%]{60,120}
dingtalk          SEC[0-9a-f]{64}
onepassword       A3-[A-Z0-9]{6}-[A-Z0-9]{6,11}(?:-[A-Z0-9]{5,6}){3,4}
vault             [sb]\.[A-Za-z0-9]{24}(?![A-Za-z0-9_.])
heroku            HRKU-[A-Za-z0-9_-]{30,64}
facebook          [0-9]{13,17}\|[A-Za-z0-9_-]{26,28}
fernet            gAAAAA[A-Za-z0-9_=-]{60,500}
adyen             AQE[A-Za-z0-9]{5,9}[A-Za-z0-9+/=_-]{60,300}
cloudinary        cloudinary://[0-9]{10,16}:[A-Za-z0-9_-]{20,30}
mixpanel          [a-z0-9-]{4,20}\.[0-9a-f]{6}\.mp-service-account:[A-Za-z0-9]{32}
"""


def _parse_rows(table: str) -> list[tuple[str, ...]]:
    return [tuple(line.split()) for line in table.strip().splitlines()]


@cache
def _keys_by_start() -> dict[str, list[tuple[str, str, str]]]:
    """Return (prefix, vendor, pattern) of keys by their first two characters, the longest prefix first."""
    rows = {
        prefix: (prefix, kind, f"{re.escape(prefix)}{_ALPHABETS[alphabet]}{{{least},}}")
        for kind, alphabet, least, *prefixes in _parse_rows(_PREFIXES)
        for prefix in prefixes
    }
    grouped: dict[str, list[tuple[str, str, str]]] = {}
    for prefix in sorted(rows, key=len, reverse=True):
        grouped.setdefault(prefix[:2], []).append(rows[prefix])
    return grouped


@lru_cache(maxsize=4096)
def key_pattern(first: str) -> re.Pattern[str] | None:
    """Return the pattern of keys that are recognized by their prefix, for these first two characters.

    An unbounded repetition is the last item of its pattern, so that a match takes it and nothing is read twice.
    """
    rows = _keys_by_start().get(first)
    return re.compile("|".join(shape for _, _, shape in rows)) if rows else None


@cache
def whole_key_pattern() -> re.Pattern[str]:
    """Return the pattern of keys of several parts, and of those whose prefix holds a sign
    that is in no run of letters.
    """
    rows = (row for rows in _keys_by_start().values() for row in rows)
    signed = (shape for prefix, _, shape in rows if not prefix.replace("-", "").replace("_", "").isalnum())
    return re.compile("|".join([*(shape for _, shape in _parse_rows(_WHOLE)), *signed]))


def identify_vendor(key: str) -> tuple[str, str]:
    """Return (the vendor whose pattern this is, the prefix that all of its keys share)."""
    for prefix, kind, _ in _keys_by_start().get(key[:2], ()):
        if key.startswith(prefix):
            return kind, prefix
    whole = (kind for kind, shape in _parse_rows(_WHOLE) if re.match(shape, key))
    return next(whole, "key"), ""


Span = tuple[int, int, str]

_MIN_RUN = 16
"""Characters of the shortest run that is looked at: no vendor's key is all shorter."""
_MAX_BEFORE = 40
_MAX_AFTER = 400
_MAX_TRIES = 4
_SIGNS = ".:/|$~-"
_DASH = re.compile("[-_]")
_EDGE = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9_~.-]")
"""Places where a key may begin: searching only from there is five times as fast on a hostile text."""
_RUN_MARK = b"\1" * _MIN_RUN


def _make_table(kinds: dict[str, str]) -> bytes:
    table = bytearray(b" " * 256)
    for mark, characters in kinds.items():
        for one in characters:
            table[ord(one)] = ord(mark)
    return bytes(table)


_LOWER, _UPPER, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
_IN_RUN = _make_table({"\1": _LOWER + _UPPER + _DIGITS + "-_"})
_KINDS = _make_table({"a": _LOWER, "A": _UPPER, "0": _DIGITS, "-": "-_"})

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----")
_PEM_BODY = re.compile(r"[A-Za-z0-9+/=\s\\\"',:.()-]{0,20000}")
_PUTTY = re.compile(r"Private-Lines: \d{1,4}\s+([A-Za-z0-9+/=\s]{40,20000})")
_USER_INFO = re.compile(
    r"[^\s/@:\"'<>`?#]{0,100}:([^\s/\"'<>`]{1,200})@(?=[\w\[.$-])|([^\s/@:\"'<>`?#]{16,200})@(?=[\w\[])"
)
_QUERY = (
    r"[?&;#](?:[\w.-]{0,40}(?:token|secret|passw(?:or)?d|signature|api_?key|apikey|credential)|sig|key|auth|pwd|pass|"
    r"jwt|code_verifier|hapikey|subscription-key|access_key|assertion)=([^&\s\"'<>#;`]{6,2000})"
)
"""A token in the query of a URL; compiled with the first URL."""
_WEBHOOK_URL = compile_late(
    r"(?:discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{10,24}/|hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/"
    r"|webhook\.office\.com/webhookb2/|outlook\.office\.com/webhook/|hooks\.zapier\.com/hooks/catch/\d+/|"
    r"api\.telegram\.org/bot|open\.(?:feishu|larksuite)\.(?:cn|com)/open-apis/bot/v2/hook/|hooks\.airtable\.com/workflows/v1/|"
    r"maker\.ifttt\.com/trigger/\w{1,60}/(?:json/)?with/key/|ntfy\.sh/|hc-ping\.com/|chat\.googleapis\.com/v1/spaces/)"
    r"([A-Za-z0-9_/:@.-]{16,300})"
)
_BOT_PATH = compile_late(r"/bot([0-9]{5,12}:[A-Za-z0-9_-]{20,100})(?![A-Za-z0-9_-])")
"""A bot's token in a path of Telegram's API, which logs and proxies show without its host."""
_WEBHOOK_WORDS = ("hook", "telegram", "ifttt", "hc-ping", "googleapis", "ntfy")
_JWT = compile_late(r"eyJ[A-Za-z0-9_-]{6,4000}\.[A-Za-z0-9_-]{4,8000}(?:\.[A-Za-z0-9_-]{0,4000}){0,3}")
_MIN_UNKNOWN_KEY = 30
_ANY_VENDOR = compile_late(r"[a-z]{2,10}[-_](?:[a-z]{2,8}[-_])?([A-Za-z0-9]{24,100})(?![A-Za-z0-9+/=])")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){16,2000}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,4000}={0,2}")


def find_secret_patterns(text: str, data: bytes) -> list[Span]:
    """Return (start, end, kind) of text with the pattern of a secret; `data` is `to_single_bytes(text)`."""
    from hermes.safety.secrets.assignments import find_assignments

    found = list(_find_keys(text, data))
    if "PRIVATE KEY" in text or "Private-Lines" in text:
        found += _find_private_keys(text)
    if "://" in text:
        found += _find_url_secrets(text)
    if "/bot" in text:
        found += ((*match.span(1), "url-token") for match in _BOT_PATH.finditer(text))
    found += find_assignments(text, data)
    return found


def _find_keys(text: str, data: bytes) -> Iterator[Span]:
    """Yield keys in runs of characters that are long enough for one, and hold a digit or both cases."""
    marked = data.translate(_IN_RUN)
    at = marked.find(_RUN_MARK)
    if at < 0:
        return
    kinds = data.translate(_KINDS)
    done = 0
    while at >= 0:
        end = marked.find(b" ", at)
        end = len(marked) if end < 0 else end
        if b"0" in kinds[at:end] or (kinds.find(b"a", at, end) >= 0 and kinds.find(b"A", at, end) >= 0):
            for span in _find_key_in_run(text, max(at, done), end, done):
                done = span[1]
                yield span
        at = marked.find(_RUN_MARK, max(end, done))


def _find_key_in_run(text: str, at: int, end: int, done: int) -> Iterator[Span]:
    token = _JWT.match(text, at) if text.startswith("eyJ", at) else None
    if token and (token[0].count(".") >= 2 or len(token[0]) > 60):
        yield token.start(), token.end(), "jwt"
        return
    last = min(len(text), end + _MAX_AFTER)
    for match in _key_candidates(text, at, end, last, done):
        key = match[0].rstrip(".")
        kind, beginning = identify_vendor(key)
        if is_generated_key(key[len(beginning) :]) and not _is_longer_name(text, match, key):
            yield match.start(), match.start() + len(key), kind
            return
    generic = _ANY_VENDOR.match(text, at, end) if end - at >= _MIN_UNKNOWN_KEY else None
    if generic and _well_mixed(generic[1]):
        yield at, generic.end(), "key"
    elif end - at >= 20:
        yield from _find_encoded_key(text, at, end)


def _key_candidates(text: str, at: int, end: int, last: int, done: int) -> Iterator[re.Match[str]]:
    """Yield possible keys in this run: at its beginning, after a dash in its first part,
    or with the signs around it.
    """
    place = at
    for _ in range(_MAX_TRIES):
        shape = key_pattern(text[place : place + 2])
        match = shape.match(text, place, last) if shape else None
        if match:
            yield match
            return
        mark = _DASH.search(text, place, end)
        if mark is None:
            break
        place = mark.end()
    if text[end : end + 1] in _SIGNS or (at and text[at - 1] in _SIGNS):
        whole = whole_key_pattern()
        starts = _EDGE.finditer(text, max(done, at - _MAX_BEFORE), end)
        match = next(filter(None, (whole.match(text, edge.start(), last) for edge in starts)), None)
        if match:
            yield match


def _well_mixed(body: str) -> bool:
    """Return whether a long text has so much of every kind of character that only a generator can have made it."""
    upper, lower, digits = (sum(map(kind, body)) for kind in (str.isupper, str.islower, str.isdigit))
    return min(upper, lower) >= len(body) // 8 and digits > 1 and is_generated_key(body)


def _is_longer_name(text: str, match: re.Match[str], key: str) -> bool:
    """Return whether it is only the beginning of something longer that no key is, such as a file's name or a folder."""
    after = text[match.end() : match.end() + 1]
    return after == "(" or (after == "/" and "/" not in key and not is_random_like(key))


@cache
def _encoded_prefixes() -> frozenset[str]:
    """Return the first characters of keys in base64, in hex, and reversed."""
    prefixes = [prefix for rows in _keys_by_start().values() for prefix, *_ in rows]
    long = [one.encode() for one in prefixes if len(one) >= 3 and not one.isalnum()]
    forms = ((base64.b64encode(one[:3]), one[:4].hex()[:6].encode(), one[:4][::-1]) for one in long)
    return frozenset(form.decode() for found in forms for form in found)


def _find_encoded_key(text: str, at: int, end: int) -> Iterator[Span]:
    """Yield a vendor's whole key in base64, in hex, or reversed."""
    starts = _encoded_prefixes()
    if text[at : at + 4] in starts:
        match = _BASE64.match(text, at)
        if match and (plain := _decode_base64(match[0])) and _is_key(plain):
            yield match.start(), match.end(), "encoded-key"
    elif text[at : at + 6] in starts:
        if _HEX.fullmatch(text, at, end) and _is_key(bytes.fromhex(text[at:end]).decode("latin-1")):
            yield at, end, "encoded-key"
    elif (text[end - 4 : end] in starts or text[end - 3 : end] in starts) and _is_key(text[at:end][::-1]):
        yield at, end, "reversed-key"


def _decode_base64(body: str) -> str:
    body = body.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4)).decode("latin-1")
    except (ValueError, binascii.Error):
        return ""


def _is_key(text: str) -> bool:
    shape = key_pattern(text[:2])
    match = shape.match(text) if shape else None
    return match is not None and is_generated_key(match[0][len(identify_vendor(match[0])[1]) :])


def _find_private_keys(text: str) -> Iterator[Span]:
    """Yield private keys as files hold them; one without its end extends as far as it looks like one."""
    at = 0
    while match := _PEM.search(text, at):
        closing = f"-----END {match[1]}-----"
        end = text.find(closing, match.end())
        if end < 0:
            body = _PEM_BODY.match(text, match.end())
            end = at = body.end() if body else match.end()
        else:
            end = at = end + len(closing)
        if end - match.start() > 100 + len(closing) or "..." not in text[match.start() : end]:
            yield match.start(), end, "private-key"
    for match in _PUTTY.finditer(text):
        yield *match.span(1), "private-key"


def _find_url_secrets(text: str) -> Iterator[Span]:
    """Yield passwords and tokens in URLs."""
    yield from _find_url_passwords(text)
    for match in re.finditer(_QUERY, text, re.IGNORECASE):
        if not is_common_password(match[1]) and not is_placeholder(match[1]) and _is_token(match[1]):
            yield *match.span(1), "url-token"
    if any(word in text for word in _WEBHOOK_WORDS):
        for match in _WEBHOOK_URL.finditer(text):
            if _is_token(match[1]):
                yield *match.span(1), "url-token"


def _find_url_passwords(text: str) -> Iterator[Span]:
    at = text.find("://")
    while at >= 0:
        end = at + 3
        match = _USER_INFO.match(text, end)
        if match:
            group = 1 if match[1] is not None else 2
            plain = match[group]
            is_password = len(plain) >= 4 and not is_placeholder(plain) and not is_common_password(plain)
            if is_password if group == 1 else is_random_like(plain):
                yield *match.span(group), "url-password"
            end = match.end()
        at = text.find("://", end)


def _is_token(value: str) -> bool:
    return is_random_like(value, 8) or is_uuid(value)


def merge_spans(spans: list[Span]) -> list[Span]:
    """Return the spans in order, overlapping ones merged; the longer one names it."""
    spans.sort()
    result: list[Span] = []
    for start, end, kind in spans:
        if result and start < result[-1][1]:
            before = result[-1]
            named = kind if end - start > before[1] - before[0] else before[2]
            result[-1] = (before[0], max(end, before[1]), named)
        else:
            result.append((start, end, kind))
    return result

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
openai            sk-              d 20
openai            sk-proj-         d 20
openai            sk-svcacct-      d 20
openai            sk-admin-        d 20
openai            sess-            w 32
anthropic         sk-ant-          d 20
openrouter        sk-or-           d 20
langfuse          sk-lf-           d 20
groq              gsk_             w 24
xai               xai-             w 24
perplexity        pplx-            w 24
fireworks         fw_              w 20
together          tgp_v1_          d 24
replicate         r8_              w 24
huggingface       hf_              w 24
huggingface       api_org_         w 24
cerebras          csk-             w 24
nvidia            nvapi-           d 24
elevenlabs        sk_              h 32
voyage            pa-              d 32
voyage            al-              d 40
tavily            tvly-            d 20
firecrawl         fc-              h 24
brave             BSA              d 24
browserbase       bb_live_         d 20
fal               fal_             d 24
exa               exa_             d 24
agentmail         am_              d 24
mem0              m0-              w 24
mem0              mem0_            d 20
retaindb          retaindb_        d 20
honcho            hch-             d 24
hermes            hsk-             d 24
brave             brv_             d 24
langsmith         lsv2_pt_         p 24
langsmith         lsv2_sk_         p 24
langsmith         ls__             w 24
wandb             wandb_v1_        d 32
pinecone          pcsk_            d 32
jina              jina_            d 32
gemini            AIza             d 30
gemini            AQ.Ab            d 30
google-oauth      GOCSPX-          d 20
google-oauth      ya29.            d 20
google-oauth      1//0             d 30
aws               AKIA             u 16
aws               ASIA             u 16
aws               ABIA             u 16
aws               ACCA             u 16
aws-bedrock       ABSK             b 60
aws-bedrock       bedrock-api-key- b 40
aws-mws           amzn.mws.        d 30
github            ghp_             w 24
github            gho_             w 24
github            ghu_             w 24
github            ghs_             w 24
github            ghr_             w 24
github            github_pat_      d 36
gitlab            glpat-           p 16
gitlab            gldt-            d 16
gitlab            glrt-            p 16
gitlab            glcbt-           d 16
gitlab            glptt-           d 20
gitlab            glft-            d 16
gitlab            glsoat-          d 16
gitlab            glimt-           d 16
gitlab            glagent-         d 20
gitlab            gloas-           d 20
gitlab            glffct-          d 16
gitlab            glwt-            d 16
gitlab            GR1348941        d 16
bitbucket         ATBB             w 24
bitbucket         ATCTT3           b 40
atlassian         ATATT3           b 40
atlassian         ATOA             b 40
slack             xoxb-            d 20
slack             xoxp-            d 20
slack             xoxa-            d 20
slack             xoxr-            d 20
slack             xoxs-            d 20
slack             xoxo-            d 20
slack             xoxc-            d 20
slack             xoxd-            d 20
slack             xoxe-            d 20
slack             xoxe.xoxp-       d 20
slack             xoxe.xoxb-       d 20
slack             xapp-            d 20
slack             xwfp-            d 20
stripe            sk_live_         w 16
stripe            sk_test_         w 16
stripe            rk_live_         w 16
stripe            rk_test_         w 16
stripe            whsec_           b 20
square            sq0atp-          d 20
square            sq0csp-          d 32
square            EAAA             d 40
paypal            access_token$production$ p 16
paypal            access_token$sandbox$    p 16
plaid             access-production- d 30
plaid             access-sandbox-  d 30
shopify           shpat_           h 24
shopify           shpca_           h 24
shopify           shppa_           h 24
shopify           shpss_           h 24
shopify           shptka_          h 24
razorpay          rzp_live_        w 14
razorpay          rzp_test_        w 14
flutterwave       FLWSECK-         d 24
flutterwave       FLWSECK_TEST-    d 12
twilio            SK               h 32
sendgrid          SG.              p 40
mailgun           key-             h 32
mandrill          md-              d 20
brevo             xkeysib-         d 40
brevo             xsmtpsib-        d 40
resend            re_              d 20
npm               npm_             w 30
pypi              pypi-            d 40
rubygems          rubygems_        h 32
docker            dckr_pat_        d 20
docker            dckr_oat_        d 20
crates            cio              w 32
nuget             oy2              l 43
clojars           CLOJARS_         w 40
artifactory       AKCp             w 60
artifactory       cmVmdGtu         w 40
hex-pm            hex_             h 40
cloudflare        cfut_            w 30
cloudflare        cfat_            w 30
cloudflare        cfk_             w 30
digitalocean      dop_v1_          h 40
digitalocean      doo_v1_          h 40
digitalocean      dor_v1_          h 40
heroku            HRKU-            d 30
netlify           nfp_             w 30
netlify           nfc_             w 30
vercel            vcp_             w 24
vercel            vca_             w 24
vercel            vercel_blob_rw_  d 24
render            rnd_             w 24
fly               FlyV1            b 40
fly               fm2_             b 40
fly               fm1a_            b 40
fly               fm1r_            b 40
fly               fo1_             d 32
supabase          sbp_             h 32
supabase          sb_secret_       d 20
planetscale       pscale_tkn_      p 30
planetscale       pscale_pw_       p 30
planetscale       pscale_oauth_    p 30
neon              napi_            w 40
mongodb           mdb_sa_sk_       d 30
databricks        dapi             h 32
databricks        dose             h 32
aiven             AVNS_            d 14
confluent         cflt             b 50
grafana           glsa_            d 30
grafana           glc_             b 32
grafana           eyJrIjoi         b 40
newrelic          NRAK-            u 24
newrelic          NRJS-            h 19
newrelic          NRII-            d 28
newrelic          NRRA-            h 40
sentry            sntrys_          b 40
sentry            sntryu_          h 40
honeycomb         hcaik_           w 40
honeycomb         hcalk_           w 40
signoz            ingest-          w 24
posthog           phx_             w 30
posthog           phs_             w 30
circleci          CCIPAT_          d 32
circleci          CCIPRJ_          d 32
buildkite         bkua_            h 32
buildkite         bkpt_            h 32
vault             hvs.             d 24
vault             hvb.             d 24
vault             hvr.             d 24
pulumi            pul-             h 32
doppler           dp.pt.           w 30
doppler           dp.st.           p 30
doppler           dp.ct.           w 30
doppler           dp.sa.           w 30
doppler           dp.scim.         w 30
doppler           dp.audit.        w 30
infisical         st.              p 50
onepassword       ops_eyJ          b 60
launchdarkly      sdk-             d 36
linear            lin_api_         w 30
linear            lin_oauth_       w 30
notion            secret_          w 36
notion            ntn_             w 30
figma             figd_            d 30
figma             figu_            d 30
figma             figoh_           d 30
postman           PMAK-            d 40
contentful        CFPAT-           d 30
contentful        CFORT-           d 30
hubspot           pat-na1-         d 30
hubspot           pat-eu1-         d 30
typeform          tfp_             p 30
dropbox           sl.              d 60
facebook          EAAC             w 60
facebook          EAAB             w 60
facebook          EAAG             w 60
facebook          EAAJ             w 60
instagram         IGQ              d 60
mapbox            sk.eyJ           p 40
readme            rdme_            l 40
frameio           fio-u-           d 40
duffel            duffel_live_     d 30
duffel            duffel_test_     d 30
easypost          EZAK             w 40
easypost          EZTK             w 40
shippo            shippo_live_     h 30
shippo            shippo_test_     h 30
alibaba           LTAI             w 16
tencent           AKID             w 28
baidu             bce-v3/ALTAK-    b 40
volcengine        AKLT             b 30
yandex            AQVN             d 30
yandex            YCAJE            d 20
yandex            t1.9             d 40
tailscale         tskey-           d 20
sourcegraph       sgp_             p 30
sourcegraph       sgd_             h 40
sonarqube         sqp_             h 32
sonarqube         squ_             h 32
sonarqube         sqa_             h 32
prefect           pnu_             w 30
prefect           pnb_             w 30
dbt               dbtc_            d 24
dbt               dbtu_            d 24
runpod            rpa_             w 30
e2b               e2b_             h 32
daytona           dtn_             h 32
composio          ak_              d 20
modal             as-              w 20
modal             ak-              w 20
matrix            syt_             d 24
matrix            mct_             d 24
adafruit          aio_             w 24
dynatrace         dt0c01.          p 60
dynatrace         dt0s01.          p 60
zhipu             zai-             d 24
kimi              sk-kimi-         d 20
minimax           sk-api-          d 20
minimax           sk-cp-           d 20
age               AGE-SECRET-KEY-1 u 50
scaleway          SCWSK            d 20
linode            lin_pat_         d 20
snyk              snyk_uat.        p 30
snyk              snyk_sat.        p 30
ngrok             2ngrok_          d 30
cloudsmith        csa_             w 30
zapier            zpka_            d 24
coze              pat_             w 48
cursor            crsr_            h 40
cursor            key_             h 60
pagerduty         pdus+            p 24
bitly             R_               h 32
apify             apify_api_       w 24
lakera            lakera_          h 32
unkey             unkey_           w 20
trigger           tr_prod_         w 20
trigger           tr_dev_          w 20
inngest           signkey-prod-    h 32
courier           pk_prod_         u 24
loops             loops_           h 32
rollbar           rbr_             h 32
cockroach         CCDB1_           d 40
turso             libsql_          d 40
replit            rplt_            d 30
depot             depot_           d 30
"""

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


def _row_pattern(row: tuple[str, ...]) -> str:
    _, prefix, alphabet, least = row
    return f"{re.escape(prefix)}{_ALPHABETS[alphabet]}{{{least},}}"


@cache
def _patterns_by_prefix() -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for row in sorted(_parse_rows(_PREFIXES), key=lambda row: -len(row[1])):
        grouped.setdefault(row[1][:2], []).append(_row_pattern(row))
    return grouped


@lru_cache(maxsize=4096)
def key_pattern(first: str) -> re.Pattern[str] | None:
    """Return the pattern of keys that are recognized by their prefix, for these first two characters.

    An unbounded repetition is the last item of its pattern, so that a match takes it and nothing is read twice.
    """
    shapes = _patterns_by_prefix().get(first)
    return re.compile("|".join(shapes)) if shapes else None


@cache
def whole_key_pattern() -> re.Pattern[str]:
    """Return the pattern of keys of several parts, and of those whose prefix holds a sign
    that is in no run of letters.
    """
    signed = [
        _row_pattern(row) for row in _parse_rows(_PREFIXES) if not row[1].replace("-", "").replace("_", "").isalnum()
    ]
    return re.compile("|".join([*(row[1] for row in _parse_rows(_WHOLE)), *signed]))


@cache
def _kinds_by_prefix() -> dict[str, str]:
    return {prefix: kind for kind, prefix, *_ in _parse_rows(_PREFIXES)}


@cache
def list_prefixes() -> tuple[str, ...]:
    """Return the prefixes of keys, the longest first."""
    return tuple(sorted(_kinds_by_prefix(), key=len, reverse=True))


@cache
def _prefixes_by_start() -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for prefix in list_prefixes():
        grouped.setdefault(prefix[:2], []).append(prefix)
    return grouped


@cache
def _whole_patterns() -> list[tuple[str, re.Pattern[str]]]:
    return [(kind, re.compile(shape)) for kind, shape in _parse_rows(_WHOLE)]


def identify_vendor(key: str) -> tuple[str, str]:
    """Return (the vendor whose pattern this is, the prefix that all of its keys share)."""
    for prefix in _prefixes_by_start().get(key[:2], ()):
        if key.startswith(prefix):
            return _kinds_by_prefix()[prefix], prefix
    for kind, shape in _whole_patterns():
        if shape.match(key):
            return kind, ""
    return "key", ""


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
_QUERY = re.compile(
    r"[?&;#](?:[\w.-]{0,40}(?:token|secret|passw(?:or)?d|signature|api_?key|apikey|credential)|sig|key|auth|pwd|pass|"
    r"jwt|code_verifier|hapikey|subscription-key|access_key|assertion)=([^&\s\"'<>#;`]{6,2000})",
    re.IGNORECASE,
)
_WEBHOOK_URL = re.compile(
    r"(?:discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{10,24}/|hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/"
    r"|webhook\.office\.com/webhookb2/|outlook\.office\.com/webhook/|hooks\.zapier\.com/hooks/catch/\d+/|"
    r"api\.telegram\.org/bot|open\.(?:feishu|larksuite)\.(?:cn|com)/open-apis/bot/v2/hook/|hooks\.airtable\.com/workflows/v1/|"
    r"maker\.ifttt\.com/trigger/\w{1,60}/(?:json/)?with/key/|ntfy\.sh/|hc-ping\.com/|chat\.googleapis\.com/v1/spaces/)"
    r"([A-Za-z0-9_/:@.-]{16,300})"
)
_BOT_PATH = re.compile(r"/bot([0-9]{5,12}:[A-Za-z0-9_-]{20,100})(?![A-Za-z0-9_-])")
"""A bot's token in a path of Telegram's API, which logs and proxies show without its host."""
_WEBHOOK_WORDS = ("hook", "telegram", "ifttt", "hc-ping", "googleapis", "ntfy")
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{6,4000}\.[A-Za-z0-9_-]{4,8000}(?:\.[A-Za-z0-9_-]{0,4000}){0,3}")
_MIN_UNKNOWN_KEY = 30
_ANY_VENDOR = re.compile(r"[a-z]{2,10}[-_](?:[a-z]{2,8}[-_])?([A-Za-z0-9]{24,100})(?![A-Za-z0-9+/=])")
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
def _encoded_prefixes() -> dict[str, str]:
    """Return the first four characters of keys in base64, hex and reversed, and which of these it is."""
    found: dict[str, str] = {}
    for prefix in list_prefixes():
        if len(prefix) >= 3 and not prefix.isalnum():
            found[base64.b64encode(prefix[:3].encode()).decode()] = "base64"
            found[prefix[:4].encode().hex()[:6]] = "hex"
            found[prefix[:4][::-1]] = "reversed"
    return found


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
    for match in _QUERY.finditer(text):
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
            if _is_password(match[1]) if group == 1 else is_random_like(match[2]):
                yield *match.span(group), "url-password"
            end = match.end()
        at = text.find("://", end)


def _is_token(value: str) -> bool:
    return is_random_like(value, 8) or is_uuid(value)


def _is_password(value: str) -> bool:
    return not is_placeholder(value) and not is_common_password(value) and len(value) >= 4


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

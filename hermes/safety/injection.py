"""Detects passages that look like prompt injection. They are pointed out and nothing else: no text is dropped for it.

Words fall into classes; a sentence that holds one of each class that a rule names is marked. So filler, order and
punctuation do not matter, every word costs one look-up, and time grows with the text. Scanners of this kind miss much
and have false positives (`docs/web.md` has the measurement): the protection is provenance and the gate.

Data for the detection of prompt injection: classes of words, and patterns.
"""

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from hermes.safety.fencing import reveal_hidden_text
from hermes.util.text import IGNORABLES

WORD_CLASSES = """
ignore: ignore ignoring disregard disregarding forget overrule bypass neglect discard dismiss ignora ignorar ignorez
ignore: oublie oubliez ignoriere ignorieren vergiss missachte игнорируй игнорируйте забудь забудьте negeer vergeet
ignore: ignorare dimentica ignoruj zignoruj zapomnij esqueça olvida yoksay abaikan ignorera
prior: previous prior above earlier preceding foregoing before existing past all every any your original initial
prior: system developer anteriores previas previos todas todos précédentes précédents précédente toutes tous
prior: vorherigen vorherige bisherigen alle obigen все всё предыдущие предыдущих прежние precedenti tutte tutti vorige
prior: wszystkie poprzednie önceki semua sebelumnya
orders: instructions instruction rules guidelines directives prompt prompts policy policies constraints commands
orders: orders programming restrictions safeguards instrucciones reglas órdenes consignes règles anweisungen regeln
orders: befehle инструкции инструкций указания правила instruções regras istruzioni regole instructies instrukcje
orders: polecenia talimatları instruksi
everything: everything anything todo alles tout всё tutto
told: told said learned instructed taught gesagt dit
revoked: revoked void voided cancelled canceled lifted suspended superseded obsolete overridden annulled disabled
treat: treat consider regard interpret
authority: authority authoritative privilege privileges
later: later following next sentence below message messages sentences
now: now henceforth become becomes act pretend roleplay simulate
you: you your yourself
persona: dan jailbroken unrestricted unfiltered uncensored worm evil hacker root superuser persona unshackled amoral
persona: shell terminal
nopolicy: policies restrictions limits limitations filters guardrails constraints censorship ethics morals
without: without no
name: name identity persona role
modeword: mode
devmode: developer debug god dan jailbreak admin maintenance unrestricted sudo
enable: enter enable enabled activate activated switch unlock unlocked disabled engage
leak: print reveal show repeat output summarise summarize display disclose dump leak recite reproduce echo begin state
leak: translate copy quote verbatim muestra zeige affiche
hidden: hidden system initial secret internal developer verbatim
yours: your
prompt: prompt instructions configuration guidelines preamble context
send: send upload post forward email mail transmit exfiltrate leak fetch resolve curl wget submit put write beacon
send: ping append encode visit request envía enviar sende envoie отправь
secretfile: .ssh id_rsa id_ed25519 .env .aws .netrc .npmrc .pypirc .kube .gnupg credentials credential passwd shadow
secretfile: cookies keychain wallet api_key apikey api-key keys passwords password secrets secret token tokens key
secretfile: user_name history conversation conversations memory contacts inbox schlüssel ключи
webroot: webhook pastebin attacker public_html
user: user operator human owner anyone person developer admin administrator customer boss maintainer
commandword: command commands approval approvals permission permissions request requests tool action actions
approve: approve grant whitelist allowlist auto-approve accept
anynext: next all every any each
guardword: checker filter scanner guard detector classifier gate sandbox approval approvals confirmation checks
guardword: moderation censor guardrails linter
evade: bypass evade circumvent complain complains trick fool obfuscate split encode instead avoid
evade: looks unnoticed undetected slip whitelist suppress
mindfile: soul.md memory.md user.md identity.md .hermes skill.md
change: add append modify edit write insert change update put overwrite replace set
everyfile: file files document documents reply replies message messages response responses repository page repo
spread: copy append insert replicate add include paste embed
selfish: yourself these verbatim tracking itself touch this payload
each: every each all
payment: bank iban account wallet payee beneficiary invoice invoices
changed: now changed replace new updated instead
poll: poll check contact connect fetch pull beacon phone call retrieve ping visit
tasking: orders tasking controller c2 c&c taskings commands instructions
often: every periodically hourly background minutes daily heartbeat session startup minute hour next
follow: do follow obey execute perform carry run
whatever: whatever anything
says: says tells asks instructs requests requested demands contains written
secretly: secretly covertly stealthily unnoticed
obey: obey
signed: signed messages
mention: flags phrases phrase attacker attackers paper papers researchers researcher measures detects detect
mention: detection reviewers vulnerability vulnerabilities adversarial malicious threat threats example examples e.g
mention: such injections payloads corpus benchmark warns warn article study
"""
"""A class and words of it. A sentence with one word of each class that a rule names is marked."""


SENTENCE_RULES = """
override ignore prior orders
override ignore everything told
override ignore everything prior
override ignore yours orders
override revoked prior orders
override treat later authority
role_hijack you now persona
role_hijack you name persona
role_hijack without nopolicy now
role_hijack devmode modeword enable
prompt_leak leak hidden prompt
prompt_leak leak yours prompt
exfil send secretfile webroot
approval_bypass guardword evade
approval_bypass approve anynext commandword
persistence mindfile change
persistence spread each everyfile selfish
persistence payment changed each everyfile
persistence obey signed
promptware_c2 poll tasking often
cron follow whatever says
deception secretly follow
"""
"""A rule and the classes of which a sentence must hold a word each."""


CJK_WORD_CLASSES = {
    "ignore": "忽略 无视 無視 忘记 忘記 忘れ 무시 잊어",
    "prior": "之前 以上 先前 所有 全部 以前 前の これまで 上記 이전 모든",
    "orders": "指令 指示 规则 規則 命令 提示词 설정 지시 프롬프트",
    "leak": "输出 输入 显示 打印 透露 表示 出力 출력",
    "hidden": "系统提示 系統提示 システムプロンプト 시스템",
    "prompt": "提示 プロンプト 프롬프트",
}
"""The same for scripts without spaces between words."""


INJECTION_PATTERNS = r"""
override l+task,l+instr,l+orders,l+goal,true+instr,true+task,new+task,new+instr,new+orders,new+goal
    \b(?:real|actual|true) (?:instructions?|task|orders|goal)(?:\s(?:is|are|starts?|begins?|follows?)\b|\s{0,2}:)|
    \bnew (?:instructions|task|orders|goal)\s{0,2}:|\byour (?:real|actual|true|new) (?:task|instructions|goal|orders)\b
role_hijack you+have+no,you+are+free,not+bound
    \byou (?:now )?have no (?:more )?(?:rules|restrictions|limits|limitations|constraints|filters|ethics)\b|
    \byou are (?:now )?(?:free (?:of|from)|not bound by|no longer bound)\b
role_hijack character+of,role+of,persona+of,part+of
    \b(?:character|role|persona|part) of\b[^.\n]{0,60}\b(?:always (?:complies|obeys)|never refuses
    |evil|villain|hacker)\b
prompt_leak developer+message,of+your+context,of+your+prompt,of+this+conversation
    \byour developer message\b|
    \b(?:first|last|whole|full|entire)\b[^.\n]{0,20}\bof (?:your (?:context|prompt|instructions)|this conversation)\b
exfil environment+variables,env+vars,process.env
    \b(?:attach|send|post|upload|append|forward|report)\b[^.\n]{0,60}\b(?:environment variables|env vars|process\.env)\b
    [^.\n]{0,40}\bto\b|
    \benvironment variables\b[^.\n]{0,60}\b(?:attach|send|post|upload|forward)\b
exfil .env,.ssh,.netrc,.aws
    (?<!never )(?<!not )(?<!n't )\b(?:commit|push|publish)\b[^.\n]{0,30}\.(?:env|ssh|netrc|aws)\b
deception leave+out,omit,pretend
    \b(?:leave out|omit)\b[^.\n]{0,20}\b(?:the part|any mention|mention of|the fact)\b|
    \bpretend (?:that )?(?:everything|nothing|it)\b
approval_bypass so+that,so+the,so+its,so+their
    \bso (?:that )?(?:the |its |their )?(?:\w{1,20} )?(?:filter|scanner|guard|checker|detector|monitor|reviewer)s?\b
    [^.\n]{0,10}\b(?:cannot|can'?t|never|won'?t|will not|does not|doesn'?t|misses)\b
approval_bypass approvals,safety+checks,guardrails
    \b(?:disable|turn off|switch off) (?:all |the |your )?(?:approvals|safety checks|guardrails)\b
persistence every+later,every+future,every+new,each+later,each+new,all+future,all+later,all+new,+subsequent,+following
    \bin (?:every|each|all) (?:later|future|new|subsequent|following) (?:session|conversation|chat)
fake_role <|,sys>>,inst],</,<system,role,end+of
    <\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id)\|>|
    <</?sys>>|
    \[/?inst\]|
    </(?:tool_result|tool_response|tool_output|function_results?|untrusted|search_results?|tool)\b[^>]{0,80}>|
    <system(?:_?prompt|_?message)?>|
    ["']role["']\s{0,4}:\s{0,4}["'](?:system|developer)["'](?!.{0,40}["']you are an?\b)|
    ^[-=#* ]{2,12}end of\b[^\n]{0,80}\n\s{0,80}(?:system|user|human|assistant|developer)\s{0,8}:
override you+were,have+been,given+to+you,of+this+session
    \b(?:disregard|ignore|forget|set aside|discard|abandon)\b[^.\n]{0,30}\b(?:rules|guidelines|instructions
    |constraints|policy|policies|prompt)\b[^.\n]{0,20}\b(?:you were|you have been|given to you|of this session)
override no+longer
    \b(?:instructions|rules|constraints|guidelines|policies|restrictions)\b[^.\n]{0,30}\bno longer (?:apply|bind
    |valid|in effect)
override obey,comply,instead
    \b(?:obey this|obey the following|comply with everything|follow (?:this|the following|these) \w{1,20} instead)\b
role_hijack from+now,from+here,from+this
    \bfrom (?:now|here|this point|this moment) on,? (?:you are|your (?:name|role)|you will act|act as)
prompt_leak your+initial,your+original,your+system,your+hidden,your+exact,your+full,your+secret
    \b(?:what|print|show|reveal|tell|repeat|list|give)\b[^.\n]{0,30}\byour (?:initial|original|system|hidden|exact
    |full|secret) (?:instructions|prompt|message|rules)
prompt_leak repeat+everything,repeat+all,repeat+the
    \brepeat (?:everything|all|the (?:words|text|message)s?)[^.\n]{0,10} (?:above|before|so far)
exfil send+,upload,post+,forward,email+,transmit,submit,leak
    \b(?:send|post|upload|forward|email|transmit|submit|leak)\b[^.\n]{0,40}\b(?:user'?s?|their|local|stored)\b
    [^.\n]{0,30}\b(?:api keys?|keys|passwords?|tokens?|secrets?|credentials|cookies|history|files)\b[^.\n]{0,30}
    \bto\b
exfil ![
    !\[[^\]\n]{0,80}\]\(https?://[^)\s]{0,200}(?:\{|\$[({]|<[a-z])
deception if+
    \bif (?:you(?:'re| are)? )?(?:ever )?(?:asked|questioned|anyone asks|the user asks)\b[^.\n]{0,40}\b(?:say|claim
    |deny|pretend|lie|insist)\b
deception tell,inform+,informing,mention,notif,alert,reveal,disclos,let+
    \b(?:do not|don'?t|never|without|avoid)\s(?!(?:forget|hesitate)\b)(?:\w{1,20}\s){0,3}?(?:tell|inform|mention
    |notify|alert|reveal|disclose|let|telling|informing|mentioning|notifying|alerting)
    \b(?!\s(?:the\s)?\w{1,20}\sto\b)[^.\n]{0,30}?\b(?:user|operator|human|owner|anyone|anybody|person|admin
    |administrator|customer|boss)\b(?!\sto\b)
deception asking,notifying,telling,informing,confirming,alerting,knowledge,consent,permission
    \bwithout (?:ever )?(?:asking|notifying|telling|informing|confirming|alerting|their knowledge|(?:the )?(?:user
    |owner|operator)(?:'s)? (?:consent|permission|knowledge))
deception hide,conceal,log+
    \b(?:hide|conceal) (?:the fact|that|this|it from)|\b(?:do not|don'?t) log (?:it|this|that)
deception even+if
    \b(?:mark|report|claim|say)\b[^.\n]{0,40}\b(?:complete|completed|passed|successful|success|done|green)\b
    [^.\n]{0,20}\beven if\b
approval_bypass for+confirmation,for+approval,for+permission
    \b(?:never|do not|don'?t|stop) ask(?:ing)? (?:\w{1,20} )?for (?:confirmation|approval|permission)
approval_bypass approvals
    \bapprovals?(?:\.mode)?\b[^.\n]{0,20}\b(?:to|=|:|are|is)\s{0,4}(?:off|yolo|none|disabled)\b
persistence memory
    \b(?:save|store|write|add|commit)\b[^.\n]{0,20}\b(?:to|in|into) (?:your |the )?(?:long-term )?memory\s{0,2}[:,-]
persistence remember
    \bremember (?:forever|permanently|from now on|this for all)
persistence agents.md,claude.md,soul.md,memory.md,gemini.md,skill.md
    \b(?:add|append|write|insert)\b[^.\n]{0,40}\b(?:agents|claude|soul|memory|gemini|skill)\.md\b[^\n]{0,60}
    \b(?:always|obey|never|without)\b
promptware_c2 ://
    \b(?:contact|fetch|poll|get|check|visit|read|download|query|call|load)\b[^\n]{0,20}https?://\S{1,200}[^.\n]{0,40}\b(?:run
    |execute|follow|carry|obey)\b
supply_chain curl,wget,base64,index-url,trusted-host,registry,exec,eval,os.system,authorized_keys,/dev/tcp
    \b(?:curl|wget)\b[^|\n]{0,300}\|\s{0,8}(?:sudo\s{1,8})?(?:\w{0,8}sh|python\d?|perl|node)\b|
    \bbase64\s{1,4}(?:-d|--decode)\b[^|\n]{0,200}\|\s{0,8}\w{0,8}sh\b|
    --(?:extra-)?index-url[\s=]{1,4}http://|
    --trusted-host|
    \bregistry[\s=]{1,4}http://|
    \b(?:exec|eval)\s{0,4}\(\s{0,4}(?:__import__|base64|zlib|codecs|compile|atob|requests|urllib)|
    os\.system\([^)\n]{0,80}\b(?:curl|wget|nc|rm)\b|
    >>?\s{0,4}\S{0,80}authorized_keys|
    /dev/tcp/
cron rm+,delete,wipe,erase,destroy
    \brm\s{1,4}-[a-z]{0,8}r[a-z]{0,8}\s{1,4}(?:~|/(?:\s|$)|\$home|/home|/etc)|
    \b(?:at \d|at midnight|at noon|every \w{1,12}|nightly|daily)\b[^.\n]{0,40}\b(?:delete|wipe|erase|destroy)\b
    [^.\n]{0,20}\b(?:all|everything|backups?|home|database)\b
"""
"""A rule and pieces of which one must stand in the text (`,` between them, `+` for a space), then a pattern in indented
lines. They are matched with the text in lower case; none has an unbounded part that could run over the rest of it."""


MAX_INJECTION_MARKS = 50
_EXCERPT_CHARS = 160
_WORDS_AT_ONCE = 45


class InjectionMark(Struct, frozen=True):
    """A passage that looks like prompt injection: `rule` says why in a word, `excerpt` is its beginning,
    `form` how it was hidden.
    """

    rule: str
    excerpt: str
    form: str = ""


_BITS: dict[str, int] = {}
_WORDS: dict[str, int] = {}
for _line in WORD_CLASSES.strip().splitlines():
    _name, _, _rest = _line.partition(":")
    _bit = _BITS.setdefault(_name, 1 << len(_BITS))
    for _word in _rest.split():
        _WORDS[_word] = _WORDS.get(_word, 0) | _bit
_CJK = {word: _BITS[name] for name, found in CJK_WORD_CLASSES.items() for word in found.split()}
_CJK_ANY = re.compile("|".join(sorted(_CJK, key=len, reverse=True)))


_RULES = tuple(
    (rule, sum(_BITS[name] for name in names)) for rule, *names in map(str.split, SENTENCE_RULES.strip().splitlines())
)
_PLACE = r"(?:https?://|ftp://|\b\d{1,3}(?:\.\d{1,3}){3}\b|[\w.+-]{1,64}@[\w-]{1,64}\.\w|/var/www|/srv/http)"
_DESTINATION = re.compile(_PLACE)
_NUMBERED = re.compile(r"//\d{1,3}(?:\.\d{1,3}){3}|\{[\w ]{1,30}\}|\$[({]|`")
_FILES = frozenset(
    """
    .ssh id_rsa id_ed25519 .env .aws .netrc .npmrc .pypirc .kube .gnupg passwd shadow cookies keychain wallet history
    conversation conversations memory contacts inbox
    """.split()  # noqa: SIM905 - a list of words is easier to read than a list of strings
)


def _load_patterns() -> Iterator[tuple[str, tuple[str, ...], re.Pattern[str]]]:
    """Yield the patterns: (rule, pieces of which one must be there, pattern)."""
    for written in re.split(r"\n(?! )", INJECTION_PATTERNS.strip()):
        head, *lines = written.split("\n")
        rule, pieces = head.split()
        needles = tuple(piece.replace("+", " ") for piece in pieces.split(","))
        yield rule, needles, re.compile("".join(line.strip() for line in lines), re.MULTILINE)


_PATTERNS = tuple(_load_patterns())
_HIDING = re.compile(
    r"<!--((?:(?!<!--).){0,600}?)-->|<[a-z][^<>]{0,200}?(?:\bhidden\b|display\s*:\s*none|font-size\s*:\s*0|opacity\s*:\s*0|"
    r"visibility\s*:\s*hidden|color\s*:\s*(?:white|#fff))[^<>]{0,200}>([^<]{1,600})|\balt\s*=\s*[\"']([^\"'<>]{1,600})",
    re.IGNORECASE | re.DOTALL,
)
_ADDRESSED = re.compile(
    r"\b(?:assistant|agent|ai|llm|chatbot|model|claude|gpt|hermes)\s{0,3}[:,]|\bsecretly\b|\bdear (?:ai|agent)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n")
_STRIPPED_SIGNS = "\"'()[]{}<>,;:!?*`“”‘’«»„|#=…-–—_"
_SPACED = re.compile(r"(?<![^\W_])[^\W\d_](?:[ _.*-][^\W\d_]){4,40}(?![^\W_])")
_LEETSPEAK = str.maketrans("013457@$", "oieastas")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{24,2000}={0,2}")
_IGNORABLE = re.compile(f"[\u2800\U00013430-\U0001345f\U00016fe4\U0001d159{IGNORABLES}]+")
_HIDING_ENTITY = re.compile("&(?:#|shy;|zw)")
_REVERSED = re.compile("[\u202e\u202d\u2067]([^\u202c\u2069\n]{4,400})")
_LOOKALIKE_LETTERS = str.maketrans(
    "аеорсухіјѕԁһӏвмнтκοανιρτυχεαбωγ" + "ɑɡıⅰ", "aeopcyxijsdhlbmhtkoavipuxeaabwy"[:31].ljust(31, "y") + "agii"
)


def find_injections(text: str) -> tuple[InjectionMark, ...]:
    """Return passages that look like prompt injection, at most 50, each rule once a sentence. Never raises."""
    found: dict[tuple[str, str], InjectionMark] = {}
    for form, view in _text_views(text):
        for rule, excerpt in _find_in_view(view):
            found.setdefault((rule, excerpt), InjectionMark(rule, excerpt, form))
            if len(found) >= MAX_INJECTION_MARKS:
                return tuple(found.values())
    return tuple(found.values())


def _text_views(text: str) -> Iterator[tuple[str, str]]:
    """Yield (how it was hidden, the text as it may be meant)."""
    plain = spaced = html.unescape(text) if _HIDING_ENTITY.search(text) else text
    if not plain.isascii():
        shown = reveal_hidden_text(plain)
        for hidden in re.findall(r"\[invisible text: ([^\]]+)\]", shown.text) if shown.revealed else ():
            yield "invisible characters", hidden
        for reverse in _REVERSED.findall(plain):
            yield "written backwards", reverse[::-1]
        # Within a word they hide it, and between words they stand for the blank.
        spaced = unicodedata.normalize("NFKC", _IGNORABLE.sub(" ", plain))
        plain = unicodedata.normalize("NFKC", _IGNORABLE.sub("", plain))
    yield "", plain
    if spaced != plain:
        yield "invisible characters", spaced
    lower = plain[:200_000].lower()
    if "rot13" in lower or "rot-13" in lower:
        yield "rot13", codecs.encode(plain, "rot13")
    for coded in _BASE64.findall(plain)[:20]:
        try:
            decoded = base64.b64decode(coded + "=" * (-len(coded) % 4), validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            continue
        if decoded.isprintable():
            yield "base64", decoded


def _find_in_view(view: str) -> Iterator[tuple[str, str]]:
    lower = view.lower()
    for rule, needles, pattern in _PATTERNS:
        if any(needle in lower for needle in needles):
            for match in pattern.finditer(lower):
                yield rule, _make_excerpt(lower[match.start() : match.start() + 4 * _EXCERPT_CHARS])
    yield from _find_in_markup(view)
    if _SPACED.search(lower):
        lower = _SPACED.sub(lambda match: re.sub(r"[ _.*-]", "", match[0]), lower)
    for sentence in _SENTENCE.split(lower):
        if len(sentence) > 5:
            yield from _find_in_sentence(sentence)


def _find_in_markup(view: str) -> Iterator[tuple[str, str]]:
    for match in _HIDING.finditer(view) if "<" in view else ():
        inner = match[1] or match[2] or match[3] or ""
        if _ADDRESSED.search(inner):
            yield "hidden_markup", _make_excerpt(inner)


def _find_in_sentence(sentence: str) -> Iterator[tuple[str, str]]:
    words = sentence.split()
    for start in range(0, len(words), _WORDS_AT_ONCE):
        part = words[start : start + _WORDS_AT_ONCE]
        held = _word_classes(part)
        if not held or held & _BITS["mention"]:
            continue
        rule = next((rule for rule, wanted in _RULES if held & wanted == wanted), "")
        if not rule and held & _SENDING == _SENDING and _is_exfiltrating(part):
            rule = "exfil"
        if rule:
            yield rule, _make_excerpt(" ".join(part))


def _word_classes(words: list[str]) -> int:
    """Return the classes that some words hold together."""
    held = 0
    for word in words:
        held |= _classify_word(word)
        if not word.isascii():
            for found in _CJK_ANY.findall(word):
                held |= _CJK[found]
    if held & _BITS["ignore"]:
        for one, two in pairwise(words):  # a word that was broken in two
            held |= _WORDS.get(one + two.strip(_STRIPPED_SIGNS).rstrip(_STRIPPED_SIGNS + "."), 0)
    return held


_SENDING = _BITS["send"] | _BITS["secretfile"]


def _is_exfiltrating(words: list[str]) -> bool:
    """Return whether a sentence names a destination and a secret to send there."""
    text = " ".join(words)
    if not _DESTINATION.search(text) and "$(" not in text:
        return False
    named = any(piece in _FILES for word in words for piece in _split_pieces(word))
    return named or bool(_NUMBERED.search(text))


def _split_pieces(word: str) -> list[str]:
    pieces = re.split(r"[/=&?]", word) if len(word) < 200 else []
    return [piece.strip(_STRIPPED_SIGNS).rstrip(_STRIPPED_SIGNS + ".") for piece in pieces]


def _classify_word(word: str) -> int:
    """Return the classes of a word, however it is spelled."""
    bare = word.strip(_STRIPPED_SIGNS).rstrip(_STRIPPED_SIGNS + ".")
    found = _WORDS.get(bare)
    if found is not None:
        return found
    if len(bare) > 200:
        return 0
    found = 0
    if "/" in bare or "=" in bare or "$" in bare or "." in bare:
        for piece in _split_pieces(bare):
            found |= _WORDS.get(piece, 0)
    if not bare.isascii():
        found |= _WORDS.get(bare.translate(_LOOKALIKE_LETTERS), 0)
    elif not bare.isalpha():
        plain = bare.translate(_LEETSPEAK)
        found |= _WORDS.get(plain, 0) | _WORDS.get(plain.replace("i", "l"), 0)
    return found


def _make_excerpt(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _EXCERPT_CHARS else flat[: _EXCERPT_CHARS - 1] + "…"

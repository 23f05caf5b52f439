"""Data for the detection of prompt injection: classes of words, and patterns."""

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
fake_role <|
    <\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id)\|>
fake_role sys>>
    <</?sys>>
fake_role inst]
    \[/?inst\]
fake_role </
    </(?:tool_result|tool_response|tool_output|function_results?|untrusted|search_results?|tool)\b[^>]{0,80}>
fake_role <system
    <system(?:_?prompt|_?message)?>
fake_role role
    ["']role["']\s{0,4}:\s{0,4}["'](?:system|developer)["'](?!.{0,40}["']you are an?\b)
fake_role end+of
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
supply_chain curl,wget
    \b(?:curl|wget)\b[^|\n]{0,300}\|\s{0,8}(?:sudo\s{1,8})?(?:\w{0,8}sh|python\d?|perl|node)\b
supply_chain base64
    \bbase64\s{1,4}(?:-d|--decode)\b[^|\n]{0,200}\|\s{0,8}\w{0,8}sh\b
supply_chain index-url
    --(?:extra-)?index-url[\s=]{1,4}http://
supply_chain trusted-host
    --trusted-host
supply_chain registry
    \bregistry[\s=]{1,4}http://
supply_chain exec,eval
    \b(?:exec|eval)\s{0,4}\(\s{0,4}(?:__import__|base64|zlib|codecs|compile|atob|requests|urllib)
supply_chain os.system
    os\.system\([^)\n]{0,80}\b(?:curl|wget|nc|rm)\b
supply_chain authorized_keys
    >>?\s{0,4}\S{0,80}authorized_keys
supply_chain /dev/tcp
    /dev/tcp/
cron rm+
    \brm\s{1,4}-[a-z]{0,8}r[a-z]{0,8}\s{1,4}(?:~|/(?:\s|$)|\$home|/home|/etc)
cron delete,wipe,erase,destroy
    \b(?:at \d|at midnight|at noon|every \w{1,12}|nightly|daily)\b[^.\n]{0,40}\b(?:delete|wipe|erase|destroy)\b
    [^.\n]{0,20}\b(?:all|everything|backups?|home|database)\b
"""
"""A rule and pieces of which one must stand in the text (`,` between them, `+` for a space), then a pattern in indented
lines. They are matched with the text in lower case; none has an unbounded part that could run over the rest of it."""

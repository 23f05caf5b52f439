"""Programs that speak to databases: what their statements lose, in SQL and its like."""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote_plus

from hermes.safety.shell import dataflow
from hermes.safety.shell.call import CommandOptions, ProgramCall, Rule
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.words import ShellStream, Word, is_bare_word, word_set

LOSES = "it deletes tables or rows without a condition"
_STATEMENT = re.compile(
    r"\s*(?:\\?!|(?:explain\s+analyze\s+)?(?:(?:use\s+\w+\s+)?(drop|truncate)\b|alter\s+\w+\s+\S+\s+"
    r"(?:[^;]{0,300},\s*)?(?:drop|delete)\b|(delete)\s+(?:from\b|\w+\s+from\b)|(update)\s+[^;]{1,200}?\bset\b|"
    r"(?:revoke|grant\s+all|reset\s+(?:master|slave)|purge\s+binary|shutdown|flush(?:all|db)|vacuum\s+full|"
    r"reindex\s+system|copy\s+.{0,200}\bprogram\b|kill\s+\d|"
    r"alter\s+(?:user|role|system|login)|create\s+(?:user|role|login)|load\s+data|"
    r"create\s+or\s+replace\s+table\b|"
    r"select\s+.{0,300}into\s+(?:out|dump)file|select\s+(?:pg_terminate_backend|pg_read_file|lo_export|pg_cancel)|"
    r"exec\w*\s+(?:master\W+)?(?:xp_|sp_configure|sp_addsrv)|detach\s+(?:database\s+main|partition|table)|attach\s|"
    r"remove\s+|replace\s+into\s+\w+\s+select|set\s+global|restore\s+database|optimize\s+table.*final|"
    r"system\s+(?:stop|drop|shutdown))))|"
    r"\.(?:shell|system|import\s+\||restore\s)|\\!|\\copy\s.{0,200}program|with\s.{0,2000}\bdelete\s+from\b",
    re.IGNORECASE | re.DOTALL,
)
_DOCUMENTS = re.compile(
    r"\bdb\.(?:dropDatabase|dropUser|dropAllUsers|shutdownServer|adminCommand\s*\(\s*\{\s*['\"]?(?:shutdown|drop)|"
    r"repairDatabase|fsyncLock)|"
    r"\b(?:db|getSiblingDB\([^)]{0,80}\))(?:\.getCollection\([^)]{0,80}\)|\.[\w-]{1,80}|\[[^\]]{1,80}\]){1,3}\."
    r"(?:drop|deleteMany|remove|dropIndexes|renameCollection|findOneAndDelete|updateMany)\s*\(|"
    r"\.(?:drop|deleteMany|dropDatabase|remove)\s*\(\s*(?:\{\s*\})?\s*\)|"
    r"\bDETACH\s+DELETE\b|\bg\.V\(\)\.drop\(",
    re.IGNORECASE,
)
_WHERE = re.compile(
    r"\bwhere\b(?!\s*\(?\s*(1\s*=\s*1|true|1\b\s*($|;|\))|'?(\w+)'?\s*=\s*'?\3'?)\s*\)?\s*($|;))", re.IGNORECASE
)
_COMMENT = re.compile(r"/\*.{0,2000}?\*/|--[^\n]*", re.DOTALL)
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_DOLLAR = re.compile(r"\$(\w{0,20})\$")


def statements_lose(text: str) -> str:
    """Why a text of SQL or its like loses something; empty when it does not."""
    plain = _QUOTED.sub("''", _COMMENT.sub(" ", text[:40_000]))
    for statement in _DOLLAR.sub(";", plain).replace("begin ", ";").split(";"):
        found = _STATEMENT.match(statement)
        if found and not ((found[2] or found[3]) and _WHERE.search(statement)):
            return LOSES
    return LOSES if _DOCUMENTS.search(text[:40_000]) else ""


_SPOKEN = re.compile(
    r"\b(?:drop\s+(?:table|database|schema|(?:materialized\s+)?view|index|user|role|keyspace|column|collection|sequence|"
    r"function|trigger|type|tablespace)\b|truncate\s+\w|delete\s+from\b|update\s+\S+\s+set\b|alter\s+\w+\s)",
    re.IGNORECASE,
)


def spoken_loses(texts: Iterable[str]) -> bool:
    """Whether one of the constant texts of a program, or of an option, is a statement that loses something."""
    return any(_SPOKEN.search(text) and statements_lose(text) for text in texts)


_STATEMENT_OPTION = re.compile(r"--?(c|e|q|Q|command|sql|query|execute|statement|eval)(=|$)")


def carried(call: ProgramCall) -> None:
    """Programs of vendors and projects that hand a statement on: `wrangler d1 execute DB --command TEXT`."""
    texts = [
        text.partition("=")[2] if "=" in text.partition(" ")[0] else "".join(call.args[at + 1 : at + 2])
        for at, text in enumerate(call.args[:40])
        if _STATEMENT_OPTION.match(text)
    ]
    if spoken_loses(texts):
        call.ask("sql", LOSES, effect=EffectKind.DESTROYS)


def address_loses(address: str) -> bool:
    """Whether the address of a database's HTTP door holds a statement that loses something."""
    if "query=" not in address and "q=" not in address and "sql" not in address.lower():
        return False
    return any(bool(statements_lose(piece.partition("=")[2])) for piece in unquote_plus(address).split("&"))


_CLIENTS: dict[str, tuple[str, str]] = {
    # By program: the letters that take a value, and those whose value is a statement.
    **dict.fromkeys(word_set("psql usql ysqlsh duckdb vsql edgedb aql pgcli"), ("cdhpUfvoFRTPL", "c")),
    **dict.fromkeys(word_set("mysql mariadb mycli litecli cockroach ksql"), ("eDhPuS", "e")),
    **dict.fromkeys(word_set("cqlsh hive beeline spark-sql"), ("efuk", "e")),
    **dict.fromkeys(word_set("sqlcmd mssql-cli"), ("QqSUPdio", "Qq")),
    **dict.fromkeys(word_set("clickhouse clickhouse-client clickhouse-local impala-shell snowsql"), ("qhdufi", "q")),
    **dict.fromkeys(
        word_set("""
            mongosh mongo isql sqlplus trino presto osqueryi rqlite sqlite3 sqlite turso db2 bteq tsql cypher-shell
            arangosh iredis surreal timescaledb questdb pinot-admin
        """),
        ("", ""),
    ),
}
_SPOKEN_LONG = ("command", "execute", "eval", "query", "exec", "init-command", "sql", "statement")
_NAMED = (
    "command execute eval query file host port username dbname user database queries-file exec init-command sql "
    "statement uri password url"
)
_ESCAPES = re.compile(r"(?:^|[;\n])\s*(?:\\!|\.shell|\.system|system\b|!)\s*([^\n;]{1,500})")
_ESCAPED = re.compile(r"\bload_extension\s*\(|(^|[;\n])\s*(\\!|\.(shell|system)\b)|!\s*sh\b|\bsystem\s")


def judge(call: ProgramCall) -> ShellStream | None:
    """Programs that speak SQL, or its like."""
    valued, spoken = _CLIENTS[call.name]
    options = call.parse_options(valued, _NAMED)
    texts = _texts(call, options, spoken)
    if any(statements_lose(text) for text in texts):
        call.ask("sql", LOSES, effect=EffectKind.DESTROYS)
    for text in texts:
        for found in _ESCAPES.finditer(text[:40_000]):
            if found[0].lstrip(";\n ").startswith(("\\!", ".")):
                call.judge_script(found[1], lost=True)
    if spoken != "Qq" and any(map(_ESCAPED.search, texts)):
        call.ask("nested-program", "it starts another program")
    return None


def _texts(call: ProgramCall, options: CommandOptions, spoken: str) -> list[str]:
    """The statements that a call gives: on its command line, in files, and by its input."""
    given = [*options.option_values(*spoken), *options.option_values(*_SPOKEN_LONG)]
    streams = [dataflow.file_content(call, word) for word in options.option_values("f", "file", "queries-file", "i")]
    streams += [call.stdin] if call.fed else []
    if any(map(is_bare_word, given)):
        call.ask("sql", "the statements are only known at run time")
    texts = [word.text for word in (*given, *options.operands)]
    return [*texts, *(stream.text for stream in streams if stream.text is not None)]


_EMPTYING = re.compile(
    r"_delete_by_query|_all(/|$|\?)|_purge|/drop(\b|/)|/flushall|/truncate|delete-all|deleteAll|/containers/create|"
    r"_cluster/settings|/_shutdown|/shutdown(\?|$)|/actuator/shutdown|/actuator/restart|update\?.*commit=true.*delete|"
    r"/nuke|/purge(\b|/)|/wipe(\b|/)|/destroy(\b|/)|/terminate(\b|/)|/reset_db|/reboot(\b|/)|/poweroff(\b|/)",
    re.IGNORECASE,
)
_MUTATION = re.compile(
    r"mutation\b.{0,200}\b(delete|remove|destroy|drop|purge)|<delete><query>\*:\*|\"(action|event|op|operation)\"\s*:\s*"
    r"\"(delete|destroy|shutdown|terminate|power_off|purge)",
    re.IGNORECASE | re.DOTALL,
)


def request_loses(method: str, address: str, bodies: Sequence[Word], *, local: bool) -> bool:
    """Whether an HTTP request takes something away: by its method, its path, or what it carries."""
    if method == "DELETE" and not local:
        return True
    if method in ("DELETE", "POST", "PUT", "PATCH", "PURGE") and _EMPTYING.search(address):
        return True
    texts = [word.text[:20_000] for word in bodies]
    return address_loses(address) or spoken_loses(texts) or any(map(_MUTATION.search, texts))


RULES: dict[str, Rule] = dict.fromkeys(_CLIENTS, judge)

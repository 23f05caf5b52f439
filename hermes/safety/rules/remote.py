"""What is not a file of this machine: clouds, clusters, containers, databases, registries, repositories."""

import re
from collections.abc import Callable, Sequence

from hermes.safety.call import Call, Options, root_like
from hermes.safety.findings import EffectKind
from hermes.safety.words import Stream, Word
from hermes.safety.words import words as word_set

Rule = Callable[[Call], Stream | None]
_LOSS = "it deletes or stops what others may need"
_POWER = "it gives a container power over this machine"

_VERBS: dict[str, str] = {
    # By program: what asks, as a pattern over the operands joined by spaces.
    "kubectl": r"(delete|drain|cordon|replace|taint|evict)\b|scale\b|rollout (undo|restart)|exec\b.*\b(rm|sh -c|"
    r"bash -c)\b|patch\b|apply\b.*--prune|"
    r"(config )?delete-\w+|annotate|certificate approve",
    "oc": r"(delete|adm drain|scale|replace)\b",
    "helm": r"(uninstall|delete|del|un|rollback|plugin install)\b",
    "terraform": r"(destroy|state rm|state push|workspace delete|taint|force-unlock|apply\b.*(-auto-approve|-destroy))",
    "tofu": r"(destroy|state rm|state push|workspace delete|taint|force-unlock|apply\b.*(-auto-approve|-destroy))",
    "terragrunt": r"(destroy|run-all|state rm|apply\b.*-auto-approve)",
    "pulumi": r"(destroy|stack rm|up\b.*(--yes|-y\b)|state delete|cancel|down)",
    "cdk": r"destroy",
    "cdktf": r"destroy",
    "sam": r"delete",
    "serverless": r"remove",
    "sls": r"remove",
    "eksctl": r"delete",
    "kops": r"delete",
    "aws": r"[\w-]+ (?:delete|terminate|remove|purge|deregister|destroy|empty|disable|detach|revoke|"
    r"schedule-key-deletion|"
    r"batch-delete|stop|reboot|reset|cancel|release|force|abort|wipe|change-resource|put-bucket-policy|"
    r"put-bucket-acl|put-public|attach-user-policy|"
    r"create-access-key|update-login-profile|modify-db-instance|restore)[\w-]*|s3 (rm|rb)\b|s3 (sync|mv)\b.*--delete|"
    r"s3 mv\b.*--recursive",
    "gcloud": r"(?:[\w-]+ ){0,4}?(delete|reset|stop|destroy|remove[\w-]*|purge|disable|revoke|undelete|"
    r"abandon[\w-]*|add-iam-policy-binding|set-iam-policy)\b",
    "gsutil": r"(-m )?(rm|rb|rsync\b.*-d|acl ch|iam ch|mv)\b",
    "az": r"(?:[\w-]+ ){1,5}?(delete|purge|stop|deallocate|remove|reset|revoke|delete-batch|restart)\b",
    "doctl": r".*\b(delete|destroy|rm|d)\b",
    "heroku": r".*:destroy|.*:remove|pg:reset|apps:destroy|maintenance:on|ps:(stop|kill|scale)|destroy|run\b",
    "flyctl": r".*\b(destroy|delete|remove)\b|scale count 0",
    "fly": r".*\b(destroy|delete|remove)\b|scale count 0",
    "gh": r"(repo|release|secret|variable|gist|issue|run|label|cache|ssh-key|gpg-key|codespace|project) (delete|"
    r"remove|archive)|secret set|"
    r"repo (archive|edit\b.*--visibility)|api\b.*(-X|--method)[= ]?(DELETE|PUT|PATCH)|auth (token|logout|"
    r"refresh)|pr merge\b.*--admin|ssh-key add",
    "glab": r".*\b(delete|remove)\b",
    "vercel": r".*\b(rm|remove)\b",
    "netlify": r".*\b(delete|:delete)\b|sites:delete",
    "wrangler": r".*\bdelete\b",
    "firebase": r".*:(delete|disable)\b|.*\bdelete\b",
    "supabase": r".*\b(delete|reset)\b",
    "linode-cli": r".*\b(delete|rm)\b",
    "hcloud": r".*\b(delete|shutdown|reset|poweroff|rebuild)\b",
    "vultr-cli": r".*\bdelete\b",
    "oci": r".*\b(delete|terminate)\b",
    "ibmcloud": r".*(-delete|-rm|\bdelete)\b",
    "openstack": r".*\bdelete\b",
    "nova": "delete",
    "s3cmd": r"(del|rm|rb|expire)\b|sync\b.*--delete",
    "rclone": r"(delete|deletefile|purge|rmdirs?|cleanup|sync|move|moveto|dedupe)\b",
    "mc": r"(rm|rb|mirror\b.*--remove|admin)\b",
    "b2": r"(delete|hide)",
    "vault": r"(delete|destroy|kv (delete|destroy|metadata delete)|lease revoke|operator seal|secrets disable|"
    r"auth disable|policy delete|token revoke)",
    "consul": r"(kv delete|leave|force-leave|services deregister)",
    "nomad": r"(stop|job stop|system gc|node drain|namespace delete)",
    "etcdctl": r"(del|rm|member remove|snapshot restore)\b",
    "redis-cli": r".*\b(flushall|flushdb|shutdown|config set|debug|script flush|slaveof|replicaof|eval)\b|"
    r".*\bkeys .*\bdel\b",
    "valkey-cli": r".*\b(flushall|flushdb|shutdown)\b",
    "memcached-tool": "flush",
    "rabbitmqctl": r"(delete\w*|reset|force_reset|purge_queue|stop\w*|clear\w*)",
    "kafka-topics": r".*--delete",
    "kafka-topics.sh": r".*--delete",
    "influx": r".*\b(delete|drop)\b",
    "mongorestore": r".*--drop",
    "pg_restore": r".*(--clean|-c\b)",
    "pg_dropcluster": r"",
    "dropdb": r"",
    "dropuser": r"",
    "mysqladmin": r".*\b(drop|shutdown|kill|flush-\w+)\b",
    "pg_ctl": r".*\b(stop|kill|promote)\b",
    "pg_resetwal": "",
    "initdb": r".*",
    "ansible-galaxy": r"(role|collection) remove",
    "vagrant": r"(destroy|halt|box remove)",
    "virsh": r"(destroy|undefine|shutdown|vol-delete|snapshot-delete|reboot|reset|pool-delete)",
    "multipass": r"(delete|purge)",
    "lxc": r"(delete|stop|exec|config set|launch\b.*privileged)",
    "incus": r"(delete|stop)",
    "VBoxManage": r"(unregistervm|.*--delete|controlvm)",
    "qm": r"(destroy|stop|shutdown)",
    "pct": r"(destroy|stop)",
    "limactl": r"(delete|stop|factory-reset)",
    "minikube": r"delete",
    "kind": r"delete",
    "k3d": r".*\bdelete\b",
    "colima": "delete",
    "npm": r"(unpublish|publish|deprecate|owner (add|rm)|access|token (create|revoke)|dist-tag rm|adduser|"
    r"config set (registry|script-shell|ignore-scripts)|set registry|cache clean)",
    "yarn": r"(npm )?publish",
    "pnpm": r"publish|store prune --force",
    "twine": r"upload",
    "cargo-publish": "",
    "gem-push": "",
    "poetry-publish": "",
    "zpool": r"(destroy|labelclear|offline|detach|remove|export|clear)",
    "zfs": r"(destroy|rollback|unmount|release)",
    "btrfs": r"(subvolume delete|device (remove|delete)|balance|subvol delete)",
    "mdadm": r".*(--stop|--zero-superblock|--remove|--fail|-S\b|--create|-C\b)",
    "snapper": r"delete",
    "timeshift": r"--delete\S*",
    "restic": r"(forget|prune)",
    "borg": r"(delete|prune)",
    "tmutil": r"(delete|disable)",
    "aws-nuke": "",
    "cloud-nuke": r"",
    "svn": r"(revert -R|delete|rm|cleanup --remove)",
    "hg": r"(strip|purge|update -C|revert --all|rollback)",
    "bq": r"(rm|query\b.*\b(drop|truncate|delete))",
    "diskutil": r"(erase\w*|partition\w*|apfs delete\w*|zero\w*|secureErase|unmountDisk\w*|reformat)",
    "asr": "restore",
    "stripe": r".*\bdelete\b",
    "pip-config": "",
    "dokku": r".*:destroy",
    "pm2": r"(delete|kill|stop) (all)|kill",
    "drush": r"(sql-drop|sql:drop|site-install)",
    "wp": r"(db (drop|reset|clean)|site empty|plugin delete|user delete|post delete\b.*--force)",
    "artisan": r"(migrate:(fresh|reset|rollback)|db:wipe)",
    "knex": r"migrate:rollback",
    "prisma": r"(migrate reset|db push\b.*(--force-reset|--accept-data-loss))",
    "sequelize": r"db:(drop|migrate:undo)",
    "sequelize-cli": r"db:drop",
    "typeorm": r"(schema:drop|migration:revert)",
    "alembic": r"downgrade",
    "flyway": r"clean",
    "liquibase": r"(drop-all|dropAll|rollback)",
    "rails": r"db:(drop|reset|purge|schema:load|migrate:reset|rollback)\S*",
    "rake": r"db:(drop|reset|purge|schema:load|migrate:reset|rollback)\S*",
    "cqlsh-drop": "",
    "mix": r"ecto\.(drop|reset)",
    "dynamodb": "delete",
    "elasticdump-delete": "",
}
_PATTERNS = {name: re.compile(text, re.IGNORECASE) for name, text in _VERBS.items()}
_VALUED = word_set(
    "profile region namespace context kubeconfig project account subscription resource-group output format "
    "endpoint-url cluster "
    "user server token chdir zone app remote host port kube-context"
)
_VALUED_LETTERS = {
    "kubectl": "nso",
    "oc": "n",
    "aws": "",
    "az": "gno",
    "redis-cli": "hpanu",
    "gh": "R",
    "heroku": "ar",
    "mysqladmin": "upPh",
    "helm": "n",
    "flyctl": "a",
    "fly": "a",
    "doctl": "tc",
    "bq": "",
    "gcloud": "",
}
_TRIED = word_set(
    "--dry-run --dry-run=client --dry-run=server --dryrun --help --what-if --noop --plan --preview --dry-run=true"
)


def verbs(call: Call) -> None:
    """A program for something remote, by the verbs among its words; global options before them do not matter."""
    if _TRIED.intersection(call.args) or ("-h" in call.args and "h" not in _VALUED_LETTERS.get(call.name, "")):
        return
    options = call.options(_VALUED_LETTERS.get(call.name, ""), _VALUED)
    spoken = " ".join(word.text for word in options.operands)
    pattern = _PATTERNS[call.name]
    whole = " ".join([word.text for word in options.operands] + call.args)
    if pattern.match(spoken) or (("-" in pattern.pattern) and pattern.match(whole)):
        call.effect(EffectKind.DESTROYS, [word.text for word in options.operands][-1:])
        call.ask("remote-loss", _LOSS)
    _uploaded(call, spoken, options)
    if call.name in ("npm", "yarn", "pnpm") or call.name == "kubectl":
        after(call)


_UPLOADS = re.compile(
    r"gist create|release (create|upload)|s3 (cp|mv|sync)|s3api put-object|storage (cp|mv|blob upload)|cp\b|"
    r"copy(to)?\b|rsync\b|put\b|sync\b|"
    r"secretsmanager put|issue (create|comment)|pr (create|comment)|publish"
)


def _uploaded(call: Call, spoken: str, options: Options) -> None:
    """What goes to others: files with keys among it."""
    if not _UPLOADS.search(spoken):
        return
    labels = call.reads(options.operands) | call.stdin.labels
    deep = any(
        root_like(call.path(word), call.host.places) for word in options.operands if word.text.startswith(("/", "~"))
    )
    call.effect(EffectKind.SENDS, (call.name,))
    if "secret" in labels or deep:
        call.ask("exfiltration", "it sends keys or the whole home away")


def after(call: Call) -> None:
    """What stands behind `--` is run elsewhere."""
    if call.name == "kubectl" and "--" in call.args and call.args[0] in ("exec", "run", "debug"):
        call.run(call.words[call.args.index("--") + 1 :], lost=True)


_CONTAINER_LOSSES = re.compile(
    r"((system|volume|image|container|network|builder|buildx|machine) (prune|rm|reset|remove)|system reset|"
    r"swarm (leave|init)|(service|stack|secret|config|node) rm|"
    r"compose (down|rm|kill)|kill|stop|context rm|volume rm|rmi|rm|pod rm)\b"
)
_ALWAYS_LOSSES = re.compile(
    r"((system|volume|image|container|network|builder) prune|volume (rm|remove)|system reset|swarm leave|"
    r"(service|stack|node|secret|config) rm|kill|machine (rm|reset)|pod rm)\b"
)
_HOST_PATHS = re.compile(
    r"^(/|~|\$\{HOME\}|/(etc|root|var/run|run|proc|sys|dev|boot|usr|home|var|var/lib)(/.*)?|/home/[^/]+/?|"
    r".*docker\.sock|.*\.ssh.*|.*\.aws.*)$"
)
_POWERS = word_set("privileged device cap-add security-opt userns ipc uts cgroupns device-cgroup-rule")


def containers(call: Call) -> Stream | None:
    """docker, podman, nerdctl: what is lost, and what reaches out of a container."""
    args = call.args
    at = 0
    while at < len(args) and args[at].startswith("-"):
        at += (
            2 if args[at] in ("-H", "--host", "-c", "--context", "--config", "-l", "--log-level", "--tlscacert") else 1
        )
    operands = args[at:]
    if call.name == "docker-compose":
        operands, at = ["compose", *operands], at - 1
    verb = operands[0] if operands else ""
    spoken = " ".join(text for text in operands if not text.startswith("-"))
    flags = [text for text in operands if text.startswith("-")]
    grouped = {letter for text in flags if re.fullmatch(r"-[a-zA-Z]+", text) for letter in text[1:]}
    if (
        _ALWAYS_LOSSES.match(spoken)
        or (
            _CONTAINER_LOSSES.match(spoken)
            and (
                "f" in grouped
                or "v" in grouped
                or {"--force", "--volumes", "--all", "-a", "--rmi"}.intersection(flags)
                or any(w.dynamic for w in call.words)
            )
        )
    ) and (verb != "compose" or "v" in grouped or {"--volumes", "--rmi"}.intersection(flags) or " kill" in spoken):
        call.effect(EffectKind.DESTROYS, operands[1:])
        call.ask("container-loss", _LOSS)
    if re.search(r"\b(stop|kill|restart|rm|pause)\b.*hermes", spoken):
        call.ask("kill-self", "it may end Hermes itself")
    words = call.words[at + 1 :]
    if verb in ("container", "image") and len(operands) > 1:
        verb, words = operands[1], call.words[at + 2 :]
    if verb in ("run", "create", "exec") or (
        verb == "compose" and len(operands) > 1 and operands[1] in ("run", "exec")
    ):
        _opened(call, words[1:] if verb == "compose" else words, verb)
    elif verb in ("build", "buildx", "compose", "up", "buildah"):
        call.effect(EffectKind.RUNS, (call.cwd,))
    elif verb == "cp" and len(words) > 1:
        call.writes(call.path(words[-1])) if ":" not in words[-1].text else None
        call.reads([word for word in words[:-1] if ":" not in word.text])
    elif verb == "plugin" and "install" in operands:
        call.ask("container", _POWER)
    if verb in ("pull", "build", "run"):
        call.effect(EffectKind.FETCHES, ("registry",))
    return None


_RUN_VALUED = "vepuwlhmaPc"
_RUN_NAMED = word_set(
    "volume env publish user workdir label hostname memory name network net entrypoint env-file mount cpus "
    "platform pid restart shm-size "
    "add-host dns tmpfs ulimit device cap-add cap-drop security-opt userns ipc uts pull log-driver gpus runtime "
    "volumes-from group-add "
    "network-alias health-cmd stop-signal cidfile"
)


def _opened(call: Call, words: Sequence[Word], verb: str) -> None:
    options = Options(words, _RUN_VALUED, _RUN_NAMED, stop=True)
    for word in [*options.all("v", "volume"), *options.all("mount")]:
        source = re.search(r"(?:src|source)=([^,]+)", word.text)
        path = source[1] if source else word.text.partition(":")[0]
        if (
            _HOST_PATHS.match(path)
            and "type=volume" not in word.text
            and "type=tmpfs" not in word.text
            and _reaches(call, path)
        ):
            call.effect(EffectKind.ESCALATES, (path,))
            call.ask("container", _POWER)
    if any(name in _POWERS for name in options.longs) or any(
        word.text == "host" or word.text.startswith("container:")
        for word in options.all("pid", "net", "network", "userns", "ipc")
    ):
        call.ask("container", _POWER)
    inner = options.operands[1:]
    entry = options.all("entrypoint")
    if inner or entry:
        call.run([*entry, *inner], lost=True) if verb != "exec" else call.run(inner, lost=True)


def _reaches(call: Call, path: str) -> bool:
    places = call.host.places
    full = call.path(Word(path))
    return not (full == places.workspace or full.startswith((places.workspace + "/", "/tmp/")))  # noqa: S108 - a rule names it


_SQL = re.compile(
    r"\s*(?:\\?!|(?:explain\s+analyze\s+)?(?:(drop|truncate)\b|alter\s+\w+\s+\S+\s+(?:.*,\s*)?drop\b|"
    r"(delete)\s+from\b|(update)\s+[^;]{1,200}?\bset\b|"
    r"(?:.{0,400}?\bdb\.)?(?:dropDatabase|\w+\.(?:drop|deleteMany|remove|dropIndexes)\()|"
    r"(?:revoke|grant\s+all|reset\s+master|purge\s+binary|shutdown|flush(?:all|db)|vacuum\s+full|"
    r"reindex\s+system|copy\s+.{0,200}\bprogram\b|"
    r"alter\s+(?:user|role|system)|create\s+(?:user|role)|load\s+data|select\s+.{0,300}into\s+(?:out|dump)file|"
    r"exec\s+xp_cmdshell|"
    r"detach\s+database\s+main|attach\s)))|.{0,400}?\bdb\.(?:dropDatabase|\w+\.(?:drop|deleteMany|remove)\()|"
    r"\.(?:shell|system|import\s+\|)|\\!|\\copy\s.{0,200}program|with\s.{0,2000}\bdelete\s+from\b",
    re.IGNORECASE | re.DOTALL,
)
_WHERE = re.compile(
    r"\bwhere\b(?!\s*\(?\s*(1\s*=\s*1|true|1\b\s*($|;|\))|'?(\w+)'?\s*=\s*'?\3'?)\s*\)?\s*($|;))", re.IGNORECASE
)
_COMMENT = re.compile(r"/\*.{0,2000}?\*/|--[^\n]*", re.DOTALL)
_QUOTED = re.compile(r"'(?:[^']|'')*'")


def sql_texts(text: str) -> str:
    """Why a text of SQL loses something; empty when it does not."""
    plain = _QUOTED.sub("''", _COMMENT.sub(" ", text[:40_000]))
    for statement in plain.split(";"):
        found = _SQL.match(statement)
        if found and not ((found[2] or found[3]) and _WHERE.search(statement)):
            return "it deletes tables or rows without a condition"
    return ""


_SQL_OPTIONS: dict[str, tuple[str, str]] = {
    # By program: the letters that take a value, and those whose value is SQL.
    "psql": ("cdhpUfvoFRTtPL", "c"),
    "mysql": ("eDhPuS", "e"),
    "mariadb": ("eDhPuS", "e"),
    "sqlcmd": ("QqSUPdio", "Qq"),
    "clickhouse-client": ("qhdu", "q"),
    "clickhouse": ("qhdu", "q"),
    "cockroach": ("e", "e"),
    "cqlsh": ("efuk", "e"),
    "duckdb": ("c", "c"),
    "usql": ("cf", "c"),
    "mongosh": ("", ""),
    "mongo": ("", ""),
    "isql": ("", ""),
    "sqlplus": ("", ""),
    "trino": ("", ""),
    "presto": ("", ""),
    "bq": ("", ""),
    "impala-shell": ("qi", "q"),
    "hive": ("ef", "e"),
    "beeline": ("euf", "e"),
    "snowsql": ("qf", "q"),
    "pgcli": ("cdhpU", ""),
    "mycli": ("ehuD", "e"),
    "litecli": ("e", "e"),
    "spark-sql": ("ef", "e"),
    "osqueryi": ("", ""),
    "rqlite": ("", ""),
    "sqlite3": ("", ""),
    "sqlite": ("", ""),
    "turso": ("", ""),
}


def database(call: Call) -> Stream | None:
    """Programs that speak SQL, or its like."""
    valued, spoken = _SQL_OPTIONS[call.name]
    options = call.options(
        valued, word_set("command execute eval query file host port username dbname user database queries-file")
    )
    given = [*options.all(*spoken), *options.all("command", "execute", "eval", "query")]
    if not spoken:
        given += options.operands
    texts = [word.text for word in given]
    from hermes.safety import flow

    for word in options.all("f", "file", "queries-file"):
        held = flow.looked_up(call, word)
        texts += [held.text] if held.text is not None else []
    if call.fed:
        texts.append(call.stdin.text or "")
    for text in texts:
        if reason := sql_texts(text):
            call.effect(EffectKind.DESTROYS)
            call.ask("sql", reason)
            break
    for text in texts:
        for found in re.finditer(r"(?:^|[;\n])\s*(?:\\!|\.shell|\.system)\s*([^\n]{1,500})", text):
            call.script(found[1], lost=True)
    if (
        any(re.search(r"(^|[;\n])\s*(\\!|\.(shell|system)\b)|!\s*sh\b|\bsystem\s", text) for text in texts)
        and spoken != "Qq"
    ):
        call.ask("nested-program", "it is told to start another program")
    if call.fed and call.stdin.labels & {"fetched", "decoded"}:
        call.ask("remote-exec", "it runs what it downloads or decodes")
    return None


RULES: dict[str, Rule] = {
    **dict.fromkeys(_VERBS, verbs),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "buildah"), containers),
    **dict.fromkeys(_SQL_OPTIONS, database),
}

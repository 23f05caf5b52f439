"""Programs for what is not on this machine: vendors differ in their nouns, hardly in their verbs.

The verb decides: the first word of a command line that is one. One that takes something away asks, over all vendors and
services; one that shows or makes something ends the search. What a vendor calls otherwise stands in a table.
"""

import re
from collections.abc import Sequence

from hermes.safety.shell.call import CommandOptions, ProgramCall, Rule, is_root_like_path
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs import databases
from hermes.safety.shell.words import Label, ShellStream, word_set

LOSS = "it deletes or stops what others may need"
_TAKES = word_set("""
    delete del destroy remove terminate purge drop wipe erase nuke empty flush flushall truncate revoke deregister
    unregister undeploy decommission teardown uninstall reset detach disable deactivate stop shutdown reboot poweroff
    halt force abort evict drain undelete abandon yank unpublish disassociate schedule rm rb rmi delall kill
    deallocate rotate suspend cancel overwrite restore clear clean prune expire archive failover demote dissolve
""")
"""Verbs of programs that speak to a vendor."""
_TAKES_AWAY = word_set("""
    delete destroy terminate purge drop wipe erase nuke undeploy decommission teardown unpublish yank poweroff
    shutdown reboot flushall flushdb truncate deregister dropall wipeall deleteall destroyall
""")
"""Verbs that mean the same to any program, also one that is not known."""
_LEAVES = word_set("""
    list ls describe get show view status info version help login logs log tail search find query create add new
    init whoami console open watch diff plan preview validate check lint test export print cat head top stat size
    put update set apply run start submit build deploy push pull cp copy download upload ssh scp wait explain history
    comment edit clone checkout rerun resume enable invoke head use current-context template package dev serve
""")
_PIECES = re.compile(r"[-:_.]+")
_WORD = re.compile(r"[A-Za-z][\w:.-]{0,60}$")
_DELETING_OPTION = re.compile(
    r"--?(delete([_-][\w-]+)?|purge|destroy|wipe|erase|nuke|remove-(all|volumes|orphans|data|source\w*)|drop|prune|"
    r"factory-reset|force-destroy|force-delete)(=(?!false|no|0).*)?$"
)
_DEEPEST = 5
_PLANNING = word_set("plan preview diff validate show list ls get describe status help version explain graph")
"""Verbs that change nothing, whatever options say that something would be deleted."""
_VENDORS = word_set("""
    aws gcloud gsutil az doctl heroku flyctl fly gh glab vercel netlify wrangler firebase supabase linode-cli hcloud
    vultr-cli oci ibmcloud openstack nova cinder neutron swift-client s3cmd s4cmd s5cmd b2 mc rclone azcopy aliyun
    tccli qcloud hwcloud yc scw exo civo upctl ovh render railway koyeb deta cf ibmcloud-cli eb copilot sam cdk cdktf
    serverless sls sst amplify eksctl kops kubeadm rancher k3d kind minikube k3s k0s rke talosctl colima limactl
    kubectl oc helm helmfile argocd argo flux istioctl linkerd kn tkn velero cmctl kustomize-cli
    terraform tofu terragrunt pulumi crossplane atmos spacelift waypoint packer vagrant
    vault consul nomad boundary etcdctl zkCli.sh doppler infisical chamber
    rabbitmqctl rabbitmqadmin kafka-topics kafka-topics.sh kafka-configs kafka-consumer-groups
    kafka-consumer-groups.sh kafka-acls kcat rpk pulsar-admin nats mosquitto-ctl nsqadmin
    influx mongocli atlas planetscale pscale neonctl turso-cli upstash cockroach-cloud railway-cli snow databricks
    confluent elastic ecctl grafana-cli datadog-ci sentry-cli newrelic pd opsgenie cloudctl
    virsh multipass lxc incus VBoxManage vboxmanage qm pct govc vim-cmd esxcli prlctl vmrun xe proxmox
    ceph rados rbd radosgw-admin gluster drbdadm pcs crm nodetool ansible-galaxy
    stripe twilio shopify cloudflare cloudflared-cli flarectl dnsimple gandi
    crane skopeo regctl oras reg ctr crictl docker-machine portainer dokku caprover convox porter
    bq spanner gcutil eksctl-cli restic borg kopia duplicacy tarsnap snapper timeshift tmutil
    forge envoyer ploi vapor platform upsun lando-cloud acli terminus pantheon wpengine
    jenkins-cli circleci buildkite-agent gitlab-runner tea hub jira-cli
""")
_OWN_WORDS: dict[str, str] = {
    # By program: what else asks, over its operands joined by spaces, or its words from the first operand on.
    "kubectl": r"(cordon|replace|taint)\b|scale\b|rollout (undo|restart)|patch\b|apply\b.*--prune|"
    r"certificate approve|label\b.*--overwrite.*--all|exec\b.*\b(rm|kill|shutdown)\b",
    "terraform tofu": r"(state (rm|push|mv)|workspace delete|taint|force-unlock|apply\b.*(-auto-approve|-destroy))",
    "aws": r"[\w-]+ (batch-delete|change-resource|put-(bucket-|public|key-policy)|attach-\w+-policy|"
    r"put-(user|role)-policy|create-(access-key|login-profile)|update-login-profile|modify-(db|image|snapshot)|"
    r"release-address|authorize-security-group|schedule-key-deletion|add-user-to-group)|"
    r"s3 mv\b.*--recursive|.*--desired-(count|capacity)[= ]0",
    "gcloud az": (
        r"(?:[\w-]+ ){0,5}?(remove-[\w-]+|add-iam-policy-binding|set-iam-policy|delete-batch|"
        r"role assignment create)\b|.*\bresize\b.*=0\b"
    ),
    "gsutil": r"(rsync\b.*-\w*d|acl (ch|set)|iam (ch|set)|mv)\b",
    "gh": r"secret set|repo edit\b.*--visibility|api\b.*(-X|--method)[= ]?(DELETE|PUT|PATCH)|auth (token|logout|"
    r"refresh)|pr merge\b.*--admin|(ssh|gpg)-key add|ext(ension)?s? install|repo (transfer|rename)|api\b.*mutation",
    "heroku": r"maintenance:on|ps:scale|pg:(promote|copy)|access:",
    "rclone": r"(deletefile|rmdirs?|cleanup|sync|move|moveto|dedupe|bisync)\b",
    "mc": r"(mirror\b.*--remove|admin)\b",
    "vault consul nomad": (
        r"(kv (delete|destroy|metadata)|lease revoke|operator (seal|rekey|rotate)|"
        r"policy write|leave|force-leave|system gc|node drain)"
    ),
    "virsh lxc incus": r"undefine|attach-|managedsave|config (set|device add)|exec",
    "redis-cli valkey-cli keydb-cli": (
        r".*\b(flushall|flushdb|shutdown|config set|debug|script flush|slaveof|replicaof|eval|failover|cluster reset|"
        r"module load|acl (setuser|deluser)|unlink \*|swapdb)\b|.*\bkeys .*\bdel\b"
    ),
    "pg_restore mongorestore mongoimport": r".*(--clean|--drop|-c\b)",
    "dropdb dropuser pg_dropcluster pg_resetwal aws-nuke cloud-nuke memcflush": r"",
    "mysqladmin": r".*\b(drop|shutdown|kill|flush-\w+)\b",
    "npm yarn pnpm": (
        r"(unpublish|(npm )?publish|deprecate|owner (add|rm)|access|token (create|revoke)|(dist-)?tag( (rm|add))?|"
        r"adduser|(config )?set (\w*registry\w*|script-shell|ignore-scripts|prefix|npmRegistryServer|//)|"
        r"store prune --force|cache clean|profile set|hook add|org (rm|set)|team destroy|config delete)"
    ),
    "twine": r"upload",
    "svn hg jj fossil bzr p4": (
        r"(revert\b.*(-R|--recursive|--depth[= ]infinity|--all|-a\b)|delete|rm|cleanup\b.*--remove|switch\b.*--force|"
        r"strip|purge|update\b.*(-C|--clean)|rollback|push\b.*(-f|--force)|histedit|abandon|op restore|undo|clean|"
        r"scrub|uncommit|obliterate)"
    ),
    "diskutil zfs zpool btrfs ceph restic": (
        r"(erase|partition|zero|secureErase|unmountDisk|reformat|"
        r"forget|promote|offline|export|labelclear|split|balance|osd (out|down|lost))\w*"
    ),
    "wp drush": r"(db (drop|reset|clean|query)|site empty|sql[-:](drop|query)|site-install|search-replace)",
    "liquibase flyway alembic": r".*\b(drop-?all|rollback|clean|undo|downgrade)\b",
    "unison": r".*-(force|nodeletion never|batch\b.*-force)",
}
_PATTERNS = {name: re.compile(text, re.IGNORECASE) for names, text in _OWN_WORDS.items() for name in names.split()}
PROGRAMS = _VENDORS | frozenset(_PATTERNS)
_VALUED = (
    "profile region namespace context kubeconfig project account subscription resource-group output format "
    "endpoint-url cluster user server token chdir zone app remote host port kube-context title body message query "
    "filter label selector name description"
)
_VALUED_LETTERS = {
    **dict.fromkeys(("kubectl", "oc", "helm"), "nsol"),
    **dict.fromkeys(("heroku", "flyctl", "fly", "doctl"), "artc"),
    "az": "gno",
    "redis-cli": "hpanu",
    "gh": "Rtbm",
    "mysqladmin": "upPh",
    "ctr": "na",
}
_TRIED = word_set(
    "--dry-run --dry-run=client --dry-run=server --dryrun --help -help --what-if --noop --plan --preview "
    "--dry-run=true --check --diff-only --local -whatif"
)


def taken(words: Sequence[str], verbs: frozenset[str], depth: int = _DEEPEST) -> bool:
    """Whether the first verb among the words takes something away."""
    for text in words[:depth]:
        if not _WORD.match(text):
            continue
        pieces = _PIECES.split(text.lower())
        if pieces[0] in verbs or (len(pieces) > 1 and pieces[-1] in verbs):
            return True
        if pieces[0] in _LEAVES:
            return False
    return False


def _deletes_by_option(words: Sequence[str]) -> bool:
    return any(text.startswith("-") and _DELETING_OPTION.match(text) for text in words)


def judge(call: ProgramCall) -> None:
    """A program for something remote, by the verb among its words; global options before it do not matter."""
    letters = _VALUED_LETTERS.get(call.name, "")
    if _TRIED.intersection(call.args) or ("-h" in call.args and "h" not in letters):
        return
    options = call.parse_options(letters, _VALUED)
    operands = [word.text for word in options.operands]
    spoken = " ".join(operands)
    if _loses(call, operands, spoken):
        call.ask("remote-loss", LOSS, effect=EffectKind.DESTROYS, targets=operands[-1:])
    if call.name in STORES:
        _stored(call, options, operands)
    _uploaded(call, spoken, options)


STORES = word_set("redis-cli valkey-cli keydb-cli")
_DROPS = word_set("del unlink hdel expire pexpire rename getdel")


def _stored(call: ProgramCall, options: CommandOptions, operands: Sequence[str]) -> None:
    """A store that is told to drop keys which are only known when it runs, or is given its commands by a pipe."""
    verb = operands[0].lower() if operands else ""
    listed = verb in _DROPS and any(word.text == "$()" or Label.STORED in word.labels for word in options.operands[1:])
    told = call.stdin.text if call.fed and not operands else None
    if listed or (told is not None and _PATTERNS["redis-cli"].match(told.replace("\n", " "))):
        call.ask("remote-loss", LOSS, effect=EffectKind.DESTROYS)


def _loses(call: ProgramCall, operands: Sequence[str], spoken: str) -> bool:
    if call.name in _VENDORS and (
        taken(operands, _TAKES) or (_deletes_by_option(call.args) and _PLANNING.isdisjoint(operands[:2]))
    ):
        return True
    pattern = _PATTERNS.get(call.name)
    if pattern is None:
        return False
    anywhere = pattern.pattern.startswith(".*") or not operands
    first = 0 if anywhere or operands[0] not in call.args else call.args.index(operands[0])
    return bool(pattern.match(spoken) or pattern.match(" ".join(call.args[first:])))


def judge_vendor(call: ProgramCall) -> ShellStream | None:
    """Judge a vendor's program: its verbs, and the statements that it hands on."""
    judge(call)
    databases.carried(call)
    return ShellStream(None, frozenset({Label.STORED})) if call.name in STORES else None


_STATE = re.compile(r"reboot$|(.* )?state=(absent|stopped|killed)\b")
"""Words of programs that bring other machines into a state."""
TELLING = re.compile(r"doc|help|man$|tldr|cheat|lint|fmt|grep|log$|todo|note|jira|task|test|say")
"""Names of programs whose words are things that they tell of."""


def unknown(call: ProgramCall) -> None:
    """A program without a rule, by verbs that mean the same everywhere."""
    if not call.args or _TRIED.intersection(call.args):
        return
    if TELLING.search(call.name):
        return
    operands = [
        word.text
        for word in call.words[:8]
        if not word.quoted and word.text[:1] != "-" and "." not in word.text and "/" not in word.text
    ]
    if taken(operands, _TAKES_AWAY, 3) or _deletes_by_option(call.args[:20]) or any(map(_STATE.match, call.args[:20])):
        call.ask("remote-loss", LOSS, effect=EffectKind.DESTROYS, targets=operands[-1:])


_UPLOADS = re.compile(
    r"gist create|release (create|upload)|s3 (cp|mv|sync)|s3api put-object|storage (cp|mv|blob upload)|cp\b|"
    r"copy(to)?\b|rsync\b|put\b|sync\b|api\b|secretsmanager put|issue (create|comment)|pr (create|comment)|publish"
)


def _uploaded(call: ProgramCall, spoken: str, options: CommandOptions) -> None:
    """What goes to others: files with keys among it."""
    if not _UPLOADS.search(spoken):
        return
    labels = call.judge_reads(options.operands) | call.stdin.labels
    paths = [call.resolve_path(word) for word in options.operands if word.text.startswith(("/", "~"))]
    deep = any(is_root_like_path(path, call.host.places) for path in paths)
    call.add_effect(EffectKind.SENDS, (call.name,))
    if Label.SECRET in labels or deep:
        call.ask("exfiltration", "it sends keys or the whole home away")


_MIGRATIONS = re.compile(
    r"(?:\w+[:.])*(?:db|migrat\w*|schema|database|ecto|orm|cache|queue)[:.](?:[\w-]+[:.])*"
    r"(drop|reset|fresh|wipe|purge|truncate|rollback|destroy)\S*$",
    re.IGNORECASE,
)
_TOOLS = word_set("""
    prisma drizzle-kit sequelize typeorm knex manage.py django-admin flask artisan console diesel sqlx goose migrate
    dbmate atlas celery cargo dotnet gem lerna vsce ovsx jsr mvn gradle gradlew mix hasura serverless cmake bazel pod
    composer supabase wrangler rails
""")
_TOOL_LOSES = re.compile(
    r"(?:.*[ :.])?(?:drop\w*|reset\w*|fresh|wipe|rollback|undo|revert|downgrade|down|flush\w*|purge|truncate|"
    r"destroy\w*|clear|zero|obliterate|expunge\S*|delete\w*|unpublish|publish\w*|yank|owner|retire|deprecate|"
    r"release:perform|nuget push|remove_directory)\b|.*--(?:force-reset|accept-data-loss|force)\b"
)
"""Words with which a project's tool loses a database, or publishes."""


_DROPS_ROWS = re.compile(
    r"\.(?:drop_?database|drop_all|drop_collection|drop_table|flush(?:all|db)|delete_all|destroy_all)\b|"
    r"\.delete_?many\(\s*(?:\{\s*\})?\s*\)|\.query\([^)]{0,80}\)\.delete\(\)|objects\.all\(\)\.delete\(\)",
    re.IGNORECASE,
)


def drops_rows(text: str) -> bool:
    """Whether a program text calls what drops a database, a table, or all rows."""
    return _DROPS_ROWS.search(text[:30_000]) is not None


def migrations(call: ProgramCall) -> None:
    """Tools for a project's database and its releases, started by whatever name: what they drop or take back."""
    args = call.args
    if not args or "--help" in args or "--dry-run" in args or "--pretend" in args:
        return
    if any(len(text) < 100 and _MIGRATIONS.match(text) for text in args[:6]):
        _database_lost(call)
        return
    tools = [(call.name, 0), *((text.rpartition("/")[2], at + 1) for at, text in enumerate(args[:3]))]
    for name, at in tools:
        if name in _TOOLS and _TOOL_LOSES.match(" ".join(args[at : at + 3])):
            _database_lost(call)
            return


def _database_lost(call: ProgramCall) -> None:
    call.add_effect(EffectKind.DESTROYS, call.args[-1:])
    call.ask("sql", "it drops or empties a database, or publishes or takes back a release")


RULES: dict[str, Rule] = dict.fromkeys(PROGRAMS, judge_vendor)

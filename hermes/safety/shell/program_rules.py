"""All rules by the name of the program, and what is judged of every call."""

import re
from collections.abc import Sequence
from types import ModuleType

from hermes.i18n.messages import N_
from hermes.safety.paths import holds_home
from hermes.safety.shell import dataflow
from hermes.safety.shell.call import ProgramCall, Rule, is_in_workspace
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.operands import judge_operands, names_output
from hermes.safety.shell.programs import (
    archives,
    builders,
    builtins,
    cloud_clis,
    containers,
    databases,
    disks,
    fetched,
    files,
    finding,
    git,
    interpreters,
    keystores,
    machine,
    network,
    option_injection,
    own,
    packages,
    processes,
    services,
    shells,
    text,
    windows,
    wrappers,
)
from hermes.safety.shell.words import EMPTY_STREAM, NO_LABELS, UNKNOWN_STREAM, Label, ShellStream, word_set

RULES: dict[str, Rule] = {
    name: rule
    for module in (
        *(cloud_clis, builders, windows, containers, databases, text, disks, files, finding, archives, machine),
        *(packages, processes, services, network, interpreters, shells, wrappers, builtins, git, own),
    )
    for names, rule in module.RULES.items()
    for name in names.split()
}
"""What judges a call, by the name of the program. Rows of the modules may be for several programs."""
_TEXT_PROGRAMS = word_set(" ".join(text.RULES))

LOOKERS = word_set("""
    echo printf ls du tree realpath readlink stat test [ [[ chmod chown mkdir ssh ssh-keygen ssh-add ssh-copy-id git cd
    file dirname basename rm rmdir touch export declare local readonly unset set alias which type scp rsync curl wget
    sh bash zsh dash python python3 node perl ruby docker podman sudo env find kubectl tar cp mv ln install sftp
""")
"""Programs whose words may name a file with keys without showing what is in it, or that judge that by themselves."""

_PATTERN_FIRST = word_set("grep egrep fgrep rg ag sed awk gawk jq yq ack pgrep")
_READERS = word_set("""
    true false : test [ [[ ls dir pwd date cal uptime who w whoami id groups uname hostname arch nproc free df du tree
    stat file wc comm diff cmp join paste column expand fmt pr cksum md5sum sha1sum sha256sum sha512sum b2sum md5
    shasum nm objdump readelf ldd size od hexdump grep egrep fgrep rg ag ack pgrep jq yq xmllint which whereis type hash
    help info apropos whatis tldr man locate ps top htop btop pstree lsof ss netstat lsblk blkid lscpu lsmem lspci lsusb
    lsmod dmesg journalctl last lastlog vmstat iostat sar getconf getent locale tty stty clear reset sleep wait jobs fg
    bg disown shift return exit break continue let getopts ulimit umask times caller compgen complete shopt bind dirname
    basename realpath readlink mktemp mkdir tput expr bc dc factor seq shuf tsort look spell aspell spellcheck wall mesg
    logger say notify-send code subl open xdg-open fold cloc tokei scc ncdu dust exa eza lsd bat delta zoxide pbcopy
    pbpaste xclip xsel wl-copy ncal figlet cowsay lolcat neofetch fastfetch task todo bd jira hostid logname users
    finger mtr traceroute tracepath whois arp nmap md5deep identify exiftool ffprobe mediainfo pdfinfo pdftotext
    sha224sum sum zipinfo gzip gunzip bzip2 xz unxz zstd ssh-keygen ssh-add ssh-copy-id ssh-keyscan mkfifo coproc enable
    shellcheck checkbashisms batcat bashate suspend logout
""")
"""Programs that only look, or whose writing is harmless: they run no code out of the folder."""
_HANDING_ON = word_set("git curl wget docker podman")
"""Programs among `LOOKERS` that show, or send, the files that they are given."""
_WRITING = word_set("git curl wget docker podman ssh-keygen")
"""Programs among `LOOKERS` whose options say where they put something."""
_SEARCHES = word_set("grep egrep fgrep zgrep ggrep")
_DEEP_SEARCHES = word_set("rg ag ack ugrep rgrep")
"""Programs that search what lies below a folder without being told to."""
_NAMES_ONLY = word_set("--files --type-list --version --help")
_RECURSIVE = re.compile(r"-[a-zA-Z]*[rR]|--(?:dereference-)?rec|--directories=rec|-d=?rec|rec\w+$")
_WITH_DOTS = re.compile(r"--hidden|-[a-zA-Z]*[.]|-\w*uu|--unrestricted|--no-ignore|-\w*a$")
_READING = word_set(
    "cat tac nl head tail less more most strings base64 base32 rev cut hexdump hd bat source . diff3 sdiff"
)
"""Programs with rules that only read the files that they are given."""
DANGEROUS = tuple(sorted(files.DANGEROUS))


def _list_names(*modules: ModuleType) -> frozenset[str]:
    return word_set(" ".join(names for module in modules for names in module.RULES))


_PASSING = (
    _list_names(text, files, disks, finding, archives, network, interpreters, shells, wrappers, builtins)
    | _READERS
    | LOOKERS
    | word_set("""
        awk gawk mawk nawk uniq iconv recode nkf dos2unix unix2dos unexpand numfmt zgrep bzcat xzcat zstdcat lz4 brotli
        funzip bunzip2 zless pv hexyl fzf age gpg gpg2 git patch pandoc ffmpeg mpv magick convert dot html2text w3m lynx
        links htmlq pup tidy xq xmlstarlet xsltproc gron fx jless dasel jp jo jc mlr qsv xan csvcut csvlook glow http xh
    """)
) - word_set("dc m4 ed ex vi vim nvim docker podman kubectl gdb lldb tmux screen su sudo doas")
"""Programs that look at what they are given, change it or keep it, or whose rules judge what becomes of it."""
_KNOWN_HERE = (RULES.keys() | _READERS) - cloud_clis.PROGRAMS - _list_names(containers, databases, network)
_JUDGING_ADDRESSES = _TEXT_PROGRAMS | _list_names(network)
_ELSEWHERE = re.compile(r"://(?!([^/@]*@)?(localhost|127\.|\[::1\]))")


def may_download(argv: Sequence[str]) -> bool:
    """Return whether what a program writes may come from another host: it is told an address, or is not known."""
    name = argv[0] if argv[0] != "git" or {"show", "cat-file", "archive"}.isdisjoint(argv) else "git-history"
    known = {name, interpreters.unversioned(name)} & _KNOWN_HERE or "/" in name or not name[:1].isalnum()
    return not known or _is_told_address(argv)


def _is_told_address(argv: Sequence[str]) -> bool:
    return argv[0] not in _JUDGING_ADDRESSES and any(map(_ELSEWHERE.search, argv[1:]))


_COMMANDS = (
    _list_names(files, disks, processes, services)
    | shells.SHELLS
    | word_set("""
        sudo doas xargs curl wget nc busybox crontab iptables useradd userdel usermod passwd chpasswd insmod rmmod
    """)
) - word_set(
    "find install sort at host history set unset ip sc service init format erase del tee touch cp port tar ln mount "
    "kill zip route level skill crash sed rip trash wipe scrub server caddy solr named puppet salt exim mongod halt "
    "isolate pause mtd asr nvme hdfs zfs wsl elasticsearch logstash kibana nagios asterisk squid slapd traefik httpd "
    "nginx haproxy zzz apm monit postfix pcs crm sv dovecot mailman"
)
"""Names that mean a program wherever they stand among the arguments of a program that is not known."""


_VERSIONED = (interpreters.interpreter, builders.pip, builders.compiled)


def _of_version(name: str) -> Rule | None:
    """The rule for `python3.11`, `pip3.11`, `gcc-12`: other rules look their programs up by the exact name."""
    rule = RULES.get(interpreters.unversioned(name))
    return rule if rule in _VERSIONED else None


def judged(call: ProgramCall) -> ShellStream:
    """Judge a call by every rule that is for it; what it writes to its output."""
    name = call.name
    if _is_trial(call):
        return UNKNOWN_STREAM
    rule = RULES.get(name) or (_of_version(name) if name[-1:].isdigit() else None)
    out = rule(call) if rule is not None else None
    labels = _read(call, rule) | _endless(call)
    if not _only_passes(call):
        call.ask_about_origin(call.stdin.labels | labels)
    if rule is None:
        _without_rule(call)
    if name not in _READERS and name not in _READING and (name not in LOOKERS or name in _WRITING):
        judge_operands(call, is_known=rule is not None and not names_output(call))
    _judge_home_search(call)
    option_injection.judge(call)
    return _labelled(call, _finish(call, out, labels))


def _only_passes(call: ProgramCall) -> bool:
    """Return whether a program runs nothing of what it is given, or its rule judges that."""
    takes_program = call.name[-3:] in ("awk", "sed") and "-f" in call.args
    return not takes_program and not {call.name, interpreters.unversioned(call.name)}.isdisjoint(_PASSING)


def _finish(call: ProgramCall, out: ShellStream | None, labels: frozenset[str]) -> ShellStream:
    """Return the output of a program with the labels of what it read."""
    if out is None:
        passes_all = call.name in _TEXT_PROGRAMS or call.name in _READERS
        passed = call.stdin.labels if passes_all else call.stdin.labels - {Label.ENDLESS}
        return ShellStream(None, passed | labels) if call.name not in ("true", "false", ":") else EMPTY_STREAM
    return ShellStream(out.text, out.labels | labels) if labels else out


_TRIED = re.compile(r"--(dry-run(=(?!none|false|no\b|0)\w+)?|no-act|preview-only|just-print|simulate)$")
_TRYING = cloud_clis.PROGRAMS | word_set("docker podman docker-compose sfdisk pacman dpkg apt apt-get")


def _is_trial(call: ProgramCall) -> bool:
    """Return whether a program only says what it would do; what it hands on to another program may do it."""
    runs = {"run", "exec", "ssh", "--"}.intersection(call.args)
    return call.name in _TRYING and not runs and any(map(_TRIED.match, call.args))


def _read(call: ProgramCall, rule: Rule | None) -> frozenset[str]:
    """What the files that a program is given make of its output."""
    if not call.words or (call.name in LOOKERS and call.name not in _HANDING_ON):
        return NO_LABELS
    if rule is interpreters.interpreter or call.name in _HANDING_ON:
        sign = "@" if call.name in ("curl", "wget") else "/"  # what is sent, not what the connection is made with
        return call.judge_reads([word for word in call.words if sign in word.text and " " not in word.text])
    return call.judge_reads(call.words[1:] if call.name in _PATTERN_FIRST else call.words)


def _judge_home_search(call: ProgramCall) -> None:
    """Ask about a search that shows what the files of a whole home hold, keys and messages among them."""
    if not _searches_deep(call):
        return
    places = call.host.places
    named = [word for word in call.words if word.text[:1] != "-"]
    folders = [call.resolve_path(word) for word in named[1:]] or [call.cwd]
    skips_dots = not any(map(_WITH_DOTS.match, call.args)) and call.name in _DEEP_SEARCHES
    homes = (one for one in folders if holds_home(one, places) and not (skips_dots and is_in_workspace(one, places)))
    for path in list(homes)[:1]:
        call.add_effect(EffectKind.READS, (path,))
        call.ask("reads-secret", N_("it searches all of {path}, where programs keep keys and messages", path=path))


def _searches_deep(call: ProgramCall) -> bool:
    is_told = call.name in _SEARCHES and any(map(_RECURSIVE.match, call.args))
    return (call.name in _DEEP_SEARCHES or is_told) and not _NAMES_ONLY.intersection(call.args)


def _endless(call: ProgramCall) -> frozenset[str]:
    """Return the label of what never ends when a program is given such a file, and is not told how much to read."""
    given = any(dataflow.is_endless_file(word.text.rpartition("=")[2]) for word in call.words)
    return frozenset({Label.ENDLESS}) if given and not any(map(_AMOUNT.match, call.args)) else NO_LABELS


_AMOUNT = re.compile(r"-\w*[cnNlmq]\d*$|count=|--(bytes|lines|length|max-count|read)|of=|.*\b[qQ]$|rand$")


def _without_rule(call: ProgramCall) -> None:
    databases.carried(call)
    if call.name in _LOOKING_UP:
        _judge_carried(call)
        call.add_effect(EffectKind.FETCHES, [word.text for word in call.words if word.text[:1] not in "-+"][:3])
    if call.name.startswith("mkfs."):
        disks.made(call)
    if call.name not in _READERS:
        _unknown_program(call)


def _labelled(call: ProgramCall, out: ShellStream) -> ShellStream:
    """What a program writes, with what is known of it: keys, a download, or a text made to be evaluated."""
    if _is_told_address(call.argv):
        out = ShellStream(out.text, out.labels | {Label.FETCHED})
    if keystores.shows(call):
        for path in keystores.outputs(call):
            call.state.files[path] = ShellStream(None, frozenset({Label.SECRET}))
        return ShellStream(out.text, out.labels | {Label.SECRET})
    if HOOKS.match(call.name) and not call.fed:
        return ShellStream(out.text, out.labels | {Label.HOOK})
    return out


HOOKS = re.compile(
    r"(ssh-agent|direnv|pyenv|rbenv|nodenv|starship|zoxide|fzf|mise|asdf|brew|opam|conda|fnm|thefuck|keychain|"
    r"gpg-agent|dircolors|register-python-argcomplete|kubectl|docker|gh|mcfly|atuin|navi|luarocks|jenv|goenv|plenv|"
    r"resize|tset|lesspipe|minikube|poetry|uv|helm|oh-my-posh|swiftly|pdm|hatch|rustup|lesskey|locale|vivid|sheldon|"
    r"carapace|just|devbox|nix)$"
)
"""Programs whose output is made to be evaluated by a shell."""


_LOADER = re.compile(r"ld(-linux[\w.-]*|-musl[\w.-]*)?\.so(\.\d+)*$")


def _unknown_program(call: ProgramCall) -> None:
    """A program without a rule: it may run what lies in its folder, or what its arguments say."""
    if windows.powershell(call):
        return
    if _LOADER.match(call.name):
        option_injection.loader(call)
        return
    call.add_effect(EffectKind.RUNS, (call.cwd,))
    fetched.installs(call)
    cloud_clis.unknown(call)
    cloud_clis.migrations(call)
    for at, word in enumerate(call.words[:6]):
        if word.text.rpartition("/")[2] in _COMMANDS and at + 1 < len(call.words) and not word.quoted:
            call.judge_program(call.words[at:], lost=True)
            break
    _judge_texts(call)
    if any(_ADDRESS.match(word.text) for word in call.words):
        _judge_carried(call)


_LOOKING_UP = word_set("dig host nslookup drill kdig whois ping traceroute tracepath mtr finger getent")
"""Programs that ask others for a name, which carries what stands in it away; the answer is somebody else's text."""


def _judge_carried(call: ProgramCall) -> None:
    if any(Label.SECRET in word.labels for word in call.words):
        call.ask("exfiltration", "it may send keys away")


def _judge_texts(call: ProgramCall) -> None:
    """Judge the words of a program without a rule that read like a command: it may start them."""
    texts = [word.text.lstrip("!|~ ") for word in call.words[:12] if " " in word.text and _COMMAND.match(word.text)]
    if texts and not cloud_clis.TELLING.search(call.name):
        call.ask("nested-program", "its arguments hold a command that deletes or downloads")
        call.judge_script(texts[0], lost=True)


_COMMAND = re.compile(
    r"\W*(rm\s+(-\w+\s+)*-\w*[rR]|mkfs|dd\s+if=|(curl|wget)\b[^|]{0,300}\|\s*\w*sh\b|:\(\)\s*\{|(sudo|shutdown|reboot)\s)"
)
_ADDRESS = re.compile(r"\w+://|[\w-]+(\.[\w-]+)+$")

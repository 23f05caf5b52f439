"""Processes: which are ended, and whether Hermes may be among them."""

import re
from collections.abc import Sequence

from hermes.safety.shell.call import ProgramCall, Rule
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.words import Word, word_set

_SELF = re.compile(r"hermes|gateway|^(bash|zsh|sh|fish|tmux|screen|sshd|systemd|init|login|python3?)$", re.IGNORECASE)
_DAEMONS = re.compile(
    r"\^?(postgres(ql)?|postmaster|mysqld?|mariadbd?|mongod?|redis(-server)?|nginx|apache2?|httpd|haproxy|caddy|traefik|"
    r"docker(d)?|containerd|podman|kubelet|kube-\S+|etcd|consul|vault|nomad|sshd?|systemd\S*|dbus(-daemon)?|"
    r"NetworkManager|wpa_supplicant|dhclient|dhcpcd|cron(d)?|atd|rsyslogd?|syslogd|journald|auditd|udevd|polkitd|"
    r"gnome-shell|plasmashell|kwin\S*|Xorg|X|Xwayland|sway|gdm3?|sddm|lightdm|login|getty|agetty|init|launchd|"
    r"WindowServer|loginwindow|Finder|Dock|rabbitmq(-server)?|beam\.smp|elasticsearch|opensearch|kafka|zookeeper|"
    r"memcached|cassandra|clickhouse(-server)?|influxd|grafana(-server)?|prometheus|bind9?|named|unbound|dnsmasq|"
    r"postfix|dovecot|exim4?|slapd|vsftpd|smbd|nmbd|nfsd|rpcbind|cupsd|chronyd|ntpd|firewalld|fail2ban(-server)?|"
    r"clamd|falcon-sensor|osqueryd|wazuh\S*|ossec\S*|crowdsec|openvpn|wireguard|tailscaled|libvirtd|qemu\S*|"
    r"ssh-agent|gpg-agent|pipewire|pulseaudio|supervisord|runsvdir|s6-svscan|tini|dumb-init|explorer(\.exe)?|"
    r"lsass(\.exe)?|svchost(\.exe)?|csrss(\.exe)?|winlogon(\.exe)?)\$?(\.service)?$"
)
"""Programs that others rely on."""
_EVERYTHING = word_set("* . .* -1 p py a e o i s ''")
_NO_TARGET = word_set("-0 -l -L --list --help --version --table -t")
_TOLD = re.compile(r"\d+|%[\w+-]*")
_CHILD = re.compile(r"\$\{!\}|%[\w+-]*|\$!")
"""What a shell started itself: its last job, or one by number."""


def means_hermes(text: str) -> bool:
    """Whether a name means Hermes, or what it runs in."""
    return _SELF.search(text) is not None


def kill(call: ProgramCall) -> None:
    """kill: by number, and by what is only known when it runs."""
    texts = call.args
    # It only lists signals, or asks whether a process lives.
    if texts[:2] == ["-s", "0"] or not _NO_TARGET.isdisjoint(texts[:1]):
        return
    targets = _targets(texts)
    if "-1" in targets or targets == ["1"] or texts[1:][-1:] in (["1"], ["-1"]):
        call.deny("kill-all", "it ends every process, or the first one", effect=EffectKind.KILLS, targets=targets)
    elif targets and all(map(_CHILD.fullmatch, targets)):
        call.add_effect(EffectKind.KILLS, targets)
    elif not targets or any(word.dynamic for word in call.words) or not all(map(_TOLD.fullmatch, targets)):
        call.add_effect(EffectKind.KILLS, targets)
        call.ask("kill-unknown", "which process it ends is only known at run time; it may be Hermes itself")


def _targets(texts: Sequence[str]) -> list[str]:
    """What is ended: the words without the signal."""
    targets = list(texts)
    if targets[:1] and targets[0] in ("-s", "-n", "--signal", "-q", "--queue"):
        targets = targets[2:]
    elif targets and targets[0].startswith("-") and targets[0] != "--":
        targets = targets[1:]
    return [text for text in targets if text != "--"]


_NAMED = "signal user uid euid parent group session pidfile older-than younger-than ns terminal"
_WIDE = ("u", "U", "user", "uid", "euid", "P", "parent", "G", "t", "s", "g", "session", "terminal")


def kill_named(call: ProgramCall) -> None:
    """pkill, killall, skill, killall5."""
    options = call.parse_options({"killall": "suoyZn"}.get(call.name, "uUgGPstnoOF"), _NAMED)
    names = [word.text for word in options.operands]
    call.add_effect(EffectKind.KILLS, names)
    if call.name == "killall5":
        call.deny("kill-all", "it ends every process, or the first one")
    elif (options.has_option("l", "list", "help", "version", "V") and call.name != "pkill") or "-0" in call.args:
        return
    elif any(means_hermes(name) or _matches(name, "hermes-gateway") for name in names):
        call.ask("kill-self", "it may end Hermes itself")
    elif any(map(_DAEMONS.match, names)):
        call.ask("service", "it stops what the machine needs")
    elif options.option_values(*_WIDE) or _is_wide(call, options.operands):
        call.ask("kill-all", "it ends every process of a user")


def _is_wide(call: ProgramCall, operands: Sequence[Word]) -> bool:
    if "-1" in call.args and not operands:
        return True
    return any(word.text in _EVERYTHING or not word.text or word.dynamic for word in operands)


def _matches(pattern: str, name: str) -> bool:
    """Whether a pattern means a name. One without groups and repeats of repeats cannot run away on so short a text."""
    if len(pattern) > 40 or "(" in pattern or not any(char in ".*[?+" for char in pattern):
        return False
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return True


def fuser(call: ProgramCall) -> None:
    """fuser -k."""
    if call.parse_options("nN").has_option("k", "kill"):
        call.ask("kill-unknown", "which process it ends is only known at run time; it may be Hermes itself")


RULES: dict[str, Rule] = {
    "kill": kill,
    "pkill killall skill killall5 slay killproc pkillall xkill": kill_named,
    "fuser": fuser,
}

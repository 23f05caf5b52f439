"""Power and services: what stops the machine, and what stops or starts things that others rely on."""

import re
from collections.abc import Sequence

from hermes.safety.shell.call import ProgramCall, Rule
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs.processes import means_hermes
from hermes.safety.shell.words import word_set

_STOPS = "it stops what the machine needs"
_LATER = "it changes what runs later by itself"


def stopped(call: ProgramCall) -> None:
    """Refuse: the machine would stop."""
    call.deny("power", "it stops the machine", effect=EffectKind.KILLS, targets=("machine",))


_SHOWN = word_set("--help --version --show --wtmp-only -w -V")
_TURNS_OFF = {
    **dict.fromkeys(("shutdown", "reboot", "poweroff", "halt"), re.compile(r"^(?!(-c|[/-]a)( |$))")),
    **dict.fromkeys(("init", "telinit"), re.compile(r"(^| )[06]( |$)")),
    **dict.fromkeys(
        ("dbus-send", "busctl", "gdbus"), re.compile(r"PowerOff|Reboot|Halt|Suspend|Hibernate|HybridSleep|KExec")
    ),
    **dict.fromkeys(
        word_set(
            "ipmitool rtcwake kexec uadmin pmset gnome-session-quit xfce4-session-logout qdbus pm-suspend pm-hibernate "
            "zzz apm acpitool racadm redfishtool"
        ),
        re.compile(
            r"power ?-?(off|down|cycle|reset|soft|diag)|reboot|halt|hard-?reset|sleepnow|schedule|(-m|--mode)[= ]?(off|"
            r"mem|disk|standby|freeze)|(-e|--exec|-f|--force|-s|--suspend)\b|logout|^$",
            re.IGNORECASE,
        ),
    ),
}
"""By program: the words with which it turns the machine off."""


def power(call: ProgramCall) -> None:
    """Programs of the system, boards, sessions and boot loaders that turn the machine off."""
    if _SHOWN.intersection(call.args):
        return
    if _TURNS_OFF[call.name].search(" ".join(call.args)):
        stopped(call)
    elif call.name == "kexec":
        call.ask("system", "it changes the running system", effect=EffectKind.ESCALATES)


_OFF_VERBS = word_set(
    "reboot poweroff halt kexec soft-reboot exit suspend hibernate hybrid-sleep suspend-then-hibernate rescue "
    "emergency switch-root sleep"
)
_OFF_TARGET = re.compile(
    r"(reboot|poweroff|halt|rescue|emergency|shutdown|suspend|hibernate|kexec|exit|runlevel[016])\.target$"
)
_UNITS_STOPPED = word_set("isolate stop disable mask kill edit revert set-default set-property freeze clean cancel")
_UNITS_LATER = word_set(
    "enable link reenable preset preset-all add-wants add-requires set-environment import-environment"
)


def systemd(call: ProgramCall) -> None:
    """systemctl."""
    options = call.parse_options("HMntps", "host machine type state property signal root kill-who")
    verbs = [word.text for word in options.operands]
    verb = "".join(verbs[:1])
    if options.has_option("help", "version") or not verb:
        return
    starts_target = verb in ("isolate", "start", "reboot.target") and any(map(_OFF_TARGET.search, verbs))
    if verb in _OFF_VERBS or starts_target:
        stopped(call)
    elif verb in _UNITS_LATER:
        call.ask("time", _LATER, effect=EffectKind.PERSISTS, targets=verbs[1:])
    elif verb in _UNITS_STOPPED or options.has_option("force"):
        call.ask("service", _STOPS, effect=EffectKind.KILLS, targets=verbs[1:])
    elif verb in ("restart", "try-restart", "reload-or-restart") and _is_own(verbs):
        call.ask("kill-self", "it may end Hermes itself")


def _is_own(verbs: Sequence[str]) -> bool:
    return any(means_hermes(text.removesuffix(".service")) for text in verbs[1:])


_STOPPING = word_set("""
    stop stopall stop-all down unload bootout remove disable kill force-stop terminate terminate-user terminate-session
    kill-session kill-user kill-server quit shutdown exit halt del delete abort fast-stop graceful-stop force-shutdown
    stopdaemon onestop forcestop zap pause
""")
_LATER_VERBS = word_set(
    "load bootstrap enable enable-linger submit setenv add startup save unmask update-rc defaults on persist"
)
_LATER_CONTROLLERS = word_set("launchctl loginctl update-rc.d chkconfig rc-update pm2 insserv")
"""Programs that also arrange what starts later."""
_CONTROLLERS = _LATER_CONTROLLERS | word_set("""
    service rc-service sv initctl supervisorctl invoke-rc.d s6-rc runsvctl dinitctl apachectl apache2ctl rndc
    unbound-control postfix exim monit varnishadm asadmin zkServer.sh catalina.sh pg_ctl pg_ctlcluster rabbitmq-server
    haproxyctl chronyc caddy traefik puppet salt auditd fail2ban-client solr elasticsearch logstash kibana asterisk
    slapd dovecot doveadm squid uwsgi circusctl mongod mysqld_safe iscsiadm ipvsadm pcs crm nginx httpd apache2 haproxy
    lighttpd openresty sshd postmaster varnishd
""")
_STOPS_BY_OPTION = re.compile(
    r"(^|\s)(-[sk] ?(stop|quit|graceful-stop|shutdown|kill|interrupt)|-s[ft]\b|--(shutdown|stop|clear|logout|"
    r"skip-grant\S*)|-M(rm|g|f|t)|-[CD])(\s|$)|\b(standby|destroy|erase|expunge|kick|clean|cmd\.run|core stop)\b"
)


def controller(call: ProgramCall) -> None:
    """service, launchctl, supervisorctl, and the programs with which servers are started and stopped."""
    verbs = [word.text for word in call.parse_options().operands]
    own = _is_own(["", *verbs]) and not _ENDING.isdisjoint(verbs)
    if call.name == "loginctl" and verbs[:1] and verbs[0] in _OFF_VERBS:
        stopped(call)
    elif own:
        call.ask("kill-self", "it may end Hermes itself")
    elif _stops(call, verbs):
        call.ask("service", _STOPS, effect=EffectKind.KILLS, targets=verbs)
    elif call.name in _LATER_CONTROLLERS and _LATER_VERBS.intersection(verbs):
        call.ask("time", _LATER, effect=EffectKind.PERSISTS, targets=verbs)


_ENDING = word_set("restart reload kill stop delete")


def _stops(call: ProgramCall, verbs: Sequence[str]) -> bool:
    """Whether it stops a service: by one of its first words, or by what stops it in this program alone."""
    is_one_of_pm2 = call.name == "pm2" and verbs[:1] not in (["kill"], ["delete"]) and "all" not in verbs
    if _STOPPING.intersection(verbs[:3]) and not is_one_of_pm2:
        return True
    return _STOPS_BY_OPTION.search(" ".join(call.args)) is not None


def homebrew_services(call: ProgramCall) -> None:
    """brew services stop."""
    verbs = [word.text for word in call.parse_options().operands]
    if verbs[:1] == ["services"] and verbs[1:2] and verbs[1] in ("stop", "kill", "cleanup"):
        call.ask("service", _STOPS)


RULES: dict[str, Rule] = {
    **dict.fromkeys(_TURNS_OFF, power),
    "systemctl": systemd,
    **dict.fromkeys(_CONTROLLERS, controller),
}

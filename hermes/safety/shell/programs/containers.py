"""Containers: what is lost with them, and what reaches out of them into this machine."""

import re
from collections.abc import Sequence, Set

from hermes.safety.shell.call import CommandOptions, ProgramCall, Rule
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs import cloud_clis
from hermes.safety.shell.words import ShellStream, Word, word_set

_POWER = "it gives a container power over this machine"
_LOSES_WHEN_FORCED = re.compile(
    r"((system|volume|image|container|network|builder|buildx|machine|pod|manifest) (prune|rm|reset|remove)|"
    r"system reset|swarm (leave|init)|(service|stack|secret|config|node) rm|compose (down|rm|kill)|"
    r"kill|stop|context rm|volume rm|rmi|rm)\b"
)
_LOSES_ALWAYS = re.compile(
    r"((system|volume|image|container|network|builder|pod|buildx) prune|volume (rm|remove)|system reset|swarm leave|"
    r"(service|stack|node|secret|config|context) rm|kill|machine (rm|reset)|pod rm|compose kill|network rm)\b"
)
_LOSES_DATA = frozenset({"--volumes", "--rmi", "-v", "--rmi=all", "--rmi=local"})
_FORCING = frozenset({"--force", "--volumes", "--all", "-a", "--rmi"})
_STOPS_HERMES = re.compile(r"\b(stop|kill|restart|rm|pause)\b.*hermes")
_HOST_PATHS = re.compile(
    r"^(/|~|\$\{HOME\}|/(etc|root|var/run|run|proc|sys|dev|boot|usr|home|var|var/lib)(/.*)?|/home/[^/]+/?|"
    r".*docker\.sock|.*containerd\.sock|.*podman\.sock|.*crio\.sock|.*\.ssh.*|.*\.aws.*|.*\.kube.*)$"
)
_POWERS = word_set("privileged device cap-add security-opt userns ipc uts cgroupns device-cgroup-rule")
_SPACES = ("ipc", "uts", "userns")
_GLOBAL_NAMED = "host context config log-level tlscacert namespace root url"
_COMPOSE_NAMED = "file project-name profile env-file project-directory"
_RUN_VALUED = "vepuwlhmaPc"
_RUN_NAMED = (
    "volume env publish user workdir label hostname memory name network net entrypoint env-file mount cpus "
    "platform pid restart shm-size add-host dns tmpfs ulimit device cap-add cap-drop security-opt userns ipc uts pull "
    "log-driver gpus runtime volumes-from group-add network-alias health-cmd stop-signal cidfile"
)
_HARMLESS_SECURITY = re.compile(r"no-new-privileges|seccomp=(?!unconfined)|apparmor=(?!unconfined)|label=(?!disable)")


def judge(call: ProgramCall) -> ShellStream | None:
    """docker, podman, nerdctl and their like."""
    operands, words = _parts(call)
    verb = operands[0] if operands else ""
    if not verb:
        return None
    _lost(call, operands, verb)
    if verb in ("container", "image") and len(operands) > 1:
        verb, words = operands[1], words[1:]
    _done(call, operands, words, verb)
    if verb in ("pull", "build", "run"):
        call.add_effect(EffectKind.FETCHES, ("registry",))
    return None


def _done(call: ProgramCall, operands: Sequence[str], words: Sequence[Word], verb: str) -> None:
    """What a verb starts, builds or copies."""
    if verb == "compose" and operands[1:2] in (["run"], ["exec"]):
        _opened(call, words[1:], operands[1])
    elif verb in ("run", "create", "exec"):
        _opened(call, words, verb)
    elif verb in ("build", "buildx", "compose", "up", "buildah", "bake"):
        call.add_effect(EffectKind.RUNS, (call.cwd,))
    elif verb == "plugin" and "install" in operands:
        call.ask("container", _POWER)


def _parts(call: ProgramCall) -> tuple[list[str], Sequence[Word]]:
    """The words from the verb on as texts, and those behind it; options before the verb are left out."""
    words = CommandOptions(call.words, "Hcln", _GLOBAL_NAMED, stop=True).operands
    if call.name in ("docker-compose", "podman-compose"):
        words = [Word("compose"), *call.words]
    if not words or words[0].text != "compose":
        return [word.text for word in words], words[1:]
    composed = CommandOptions(words[1:], "fp", _COMPOSE_NAMED, stop=True).operands
    return ["compose", *(word.text for word in composed)], words[1:]


def _lost(call: ProgramCall, operands: Sequence[str], verb: str) -> None:
    spoken = " ".join(text for text in operands if not text.startswith("-"))
    if _loses(call, spoken, {text for text in operands if text.startswith("-")}, verb):
        call.ask("container-loss", cloud_clis.LOSS, effect=EffectKind.DESTROYS, targets=operands[1:])
    if _STOPS_HERMES.search(spoken):
        call.ask("kill-self", "it may end Hermes itself")


def _loses(call: ProgramCall, spoken: str, flags: Set[str], verb: str) -> bool:
    """Whether something goes for good: by its verb, or by its verb with these options."""
    letters = "".join(filter(re.compile(r"-[a-zA-Z]+").fullmatch, flags))
    data = "v" in letters or not _LOSES_DATA.isdisjoint(flags)
    forced = data or "f" in letters or not _FORCING.isdisjoint(flags)
    if "--help" in flags or (verb == "compose" and not data and " kill" not in spoken):
        return False
    if _LOSES_ALWAYS.match(spoken):
        return True
    return bool(_LOSES_WHEN_FORCED.match(spoken)) and (forced or any(word.dynamic for word in call.words))


def _opened(call: ProgramCall, words: Sequence[Word], verb: str) -> None:
    options = CommandOptions(words, _RUN_VALUED, _RUN_NAMED, stop=True)
    for word in [*options.option_values("v", "volume"), *options.option_values("mount")]:
        _mounted(call, word.text)
    if _powerful(options):
        call.ask("container", _POWER)
    inner = options.operands[1:]
    entry = options.option_values("entrypoint")
    if inner or entry:
        call.judge_program([*entry, *inner] if verb != "exec" else inner, lost=True)


def _powerful(options: CommandOptions) -> bool:
    """Whether a container is given rights, devices, or name spaces of the machine or of another container."""
    powers = _POWERS.difference(_SPACES).intersection(options.longs)
    if "security-opt" in powers and all(
        _HARMLESS_SECURITY.match(word.text) for word in options.option_values("security-opt")
    ):
        powers -= {"security-opt"}
    hosts = options.option_values("pid", "net", "network", "userns", "ipc", "uts", "cgroupns")
    return bool(powers) or any(word.text == "host" or word.text.startswith("container:") for word in hosts)


def _mounted(call: ProgramCall, text: str) -> None:
    source = re.search(r"(?:src|source)=([^,]+)", text)
    path = source[1] if source else text.partition(":")[0]
    full, workspace = call.resolve_path(Word(path)), call.host.places.workspace
    is_harmless = full == workspace or full.startswith((f"{workspace}/", "/tmp/"))  # noqa: S108 - a rule names it
    if _HOST_PATHS.match(path) and "type=volume" not in text and "type=tmpfs" not in text and not is_harmless:
        call.ask("container", _POWER, effect=EffectKind.ESCALATES, targets=(path,))


_MANIFEST = re.compile(
    r"\"?(privileged|hostPID|hostNetwork|hostIPC|allowPrivilegeEscalation)\"?\s*[:=]\s*true|"
    r"\"?hostPath\"?\s*:|\"Binds\"\s*:\s*\[\s*\"/|\"Privileged\"\s*:\s*true|\"CapAdd\"|\"PidMode\"\s*:\s*\"host",
    re.IGNORECASE,
)


def asks_power(text: str) -> bool:
    """Whether a description of a container or pod reaches out of it."""
    return _MANIFEST.search(text[:40_000]) is not None


def cluster(call: ProgramCall) -> ShellStream | None:
    """kubectl, oc: verbs, pods with power over their machine, and what stands behind `--`."""
    cloud_clis.judge(call)
    if any(map(asks_power, (*call.args, (call.stdin.text or "") if call.fed else ""))):
        call.ask("container", _POWER)
    verb = next((text for text in call.args if not text.startswith("-")), "")
    if verb == "debug" and any(text.startswith(("node/", "no/")) for text in call.args):
        call.ask("container", _POWER)
    if "--" in call.args and verb in ("exec", "run", "debug", "rsh"):
        call.judge_program(call.words[call.args.index("--") + 1 :], lost=True)
    return None


_REACHING = re.compile(
    r"--privileged|--net-host|type=bind,src=/,|src=/(,|$)|source=/($|,)|:/host|--bind[= ]?/?$|"
    r"security\.privileged=true|^/:|^/$|--directory=/$|raw\.lxc|--add-caps|--device=?/dev/(sd|nvme|vd|mem)"
)


def lower(call: ProgramCall) -> None:
    """ctr, crictl, lxc, incus, runc, systemd-nspawn, apptainer: verbs, and what reaches out."""
    cloud_clis.judge(call)
    if any(_REACHING.search(text) for text in call.args):
        call.ask("container", _POWER, effect=EffectKind.ESCALATES)


RULES: dict[str, Rule] = {
    "docker podman nerdctl docker-compose podman-compose buildah finch": judge,
    "kubectl oc k3s microk8s k minikube": cluster,
    "ctr crictl lxc incus runc crun systemd-nspawn apptainer singularity virsh multipass": lower,
}

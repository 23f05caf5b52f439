"""Every setting, typed, with what it means. Keys are those that guides for such agents use."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from hermes.config.display import DisplaySettings
from hermes.config.gateway import GatewaySettings
from hermes.config.speech import SpeechToTextSettings, TextToSpeechSettings
from hermes.config.tool_settings import BrowserSettings, ImageGenSettings, ImageInput, WebSettings
from hermes.core.secret import KeyHolder

Count = Annotated[int, Meta(ge=0)]
"""A number of things; 0 is one too."""
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Port = Annotated[int, Meta(ge=0, le=65_535)]


class Strategy(StrEnum):
    """Which of several keys is taken for a call."""

    FILL_FIRST = "fill_first"
    """The first that can be used: best for a provider's prompt cache."""
    ROUND_ROBIN = "round_robin"
    RANDOM = "random"
    LEAST_USED = "least_used"


class TokenPlace(StrEnum):
    """Where the tokens of sign-ins are kept."""

    FILE = "file"
    """In `oauth.json` of the home, readable by its owner alone."""
    KEYRING = "keyring"
    """In the desktop's keyring (the extra `keyring`); in the file where there is none, and `hermes doctor` says so."""


class ModelTimeouts(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds that a model's server may take (`model.timeout:`)."""

    connect: float = 10.0
    """To take a connection."""
    read: float = 600.0
    """To send anything at all: the head of its answer, and each further piece. Slow models need the time for long
    prompts."""


class ModelSettings(KeyHolder, frozen=True, forbid_unknown_fields=False):
    """Which model answers (`model:`; a plain string there is the same as `model.default`)."""

    default: str = ""
    """The model's name, as its provider writes it."""
    provider: str = ""
    """A provider of the catalogue, or `custom` with `base_url`; empty: found from the URL, the name or the keys."""
    base_url: str = ""
    """Where the provider is; empty: the catalogue's."""
    api_key: str = ""
    """The key, or `${VARIABLE}`; empty: the provider's own variable from the environment or `.env`."""
    api_mode: str = ""
    """`chat_completions`, `responses` (or `codex_responses`) or `anthropic_messages`; empty: the provider's own."""
    context_length: int | None = None
    """Tokens that fit the model's window; empty: asked of the provider or taken from the catalogue."""
    max_tokens: int | None = None
    """The most tokens of one answer; empty: the provider's own limit."""
    temperature: float | None = None
    """Randomness of answers; empty: the provider's own."""
    reasoning_replay: str = "auto"
    """Whether a model is sent its earlier reasoning: `auto` (as its provider wants it), `on`, `off`, or the field of a
    chat message that carries it (`reasoning_content`, `reasoning` ...), for a server of your own."""
    stream: bool = True
    """Whether answers are asked for as streams, from every model; a server that says that it does not stream is asked
    for whole ones in any case."""
    timeout: ModelTimeouts = ModelTimeouts()
    """How long a server may take (`connect`, `read`), for every model; a number alone is the same as `read`."""
    ca_bundle: str = ""
    """A file of certificates to trust beside the system's, for a company's proxy."""


class ModelReference(KeyHolder, frozen=True):
    """A model besides the first choice: a fallback model, or the model of a side task."""

    model: str = ""
    """The model's name, as its provider writes it."""
    default: str = ""
    """The same as `model`, for entries that are written like the `model` section."""
    provider: str = ""
    """A provider of the catalogue, or `custom` with `base_url`; empty: found from the URL, the name or the keys."""
    base_url: str = ""
    """Where the provider is; empty: the catalogue's."""
    api_key: str = ""
    """The key, or `${VARIABLE}`; empty: the provider's own."""
    api_mode: str = ""
    """The wire; empty: the provider's own."""
    context_length: int | None = None
    """Tokens that fit the model's window."""


class ProviderModelSettings(Struct, frozen=True):
    """What is known of one model of a provider of your own."""

    id: str = ""
    """The model's name, where models are a list."""
    name: str = ""
    """The same as `id`."""
    context_length: int | None = None
    """Tokens that fit its window."""


class ProviderSettings(KeyHolder, frozen=True, forbid_unknown_fields=False):
    """A provider of your own, or what is different about one of the catalogue (`providers:`, `custom_providers:`)."""

    name: str = ""
    """Its name: needed in the list `custom_providers`; in `providers` the key is, and this is what people are shown."""
    base_url: str = ""
    """Where it is; may hold `${VARIABLE}`. Only one that bears the name of a provider of the catalogue needs none."""
    api: str = ""
    """The same as `base_url`."""
    url: str = ""
    """The same as `base_url`."""
    api_key: str = ""
    """The key, or `${VARIABLE}`."""
    key_env: str = ""
    """The variable that holds the key."""
    api_key_env: str = ""
    """The same as `key_env`."""
    api_mode: str = ""
    """`chat_completions`, `responses` or `anthropic_messages`; empty: found from the address."""
    transport: str = ""
    """The same as `api_mode`."""
    model: str = ""
    """The model that is used where none is named."""
    default_model: str = ""
    """The same as `model`."""
    models: Mapping[str, ProviderModelSettings | None] | tuple[ProviderModelSettings | str, ...] = ()
    """Its models, as a list of names or by name, each with its `context_length` if wanted."""
    context_length: int | None = None
    """Tokens that fit the window of its models."""
    headers: Mapping[str, str] = {}
    """Header fields of each request to it; a value may hold `${VARIABLE}`."""
    extra_headers: Mapping[str, str] = {}
    """The same as `headers`."""
    extra_body: Mapping[str, object] = {}
    """Members that are added to each request."""
    strict_roles: bool | None = None
    """Whether requests keep to the order of roles that chat templates demand."""
    reasoning_field: str = ""
    """The field of a chat message that carries reasoning."""
    max_tokens_field: str = ""
    """The field of a request that limits the answer's tokens."""
    stream_usage: bool | None = None
    """Whether the server may be asked for the tokens of an answer that comes as a stream."""


class AgentSettings(Struct, frozen=True):
    """How a turn runs (`agent:`)."""

    max_turns: int = 90
    """Model calls that one turn may make."""
    api_retry_minutes: float = 5.0
    """Minutes in which a model call that failed for a passing reason is tried again, pauses between, once no other key
    or model is left; 0: no second try."""
    api_retry_minutes_unattended: float = 30.0
    """The same where nobody waits for the answer: jobs, and single tasks (`-z`)."""
    api_max_retries: int | None = None
    """How often a model call is made at most before anything was shown; empty: as often as the minutes allow; 1: no
    second try."""
    tool_delay: float = 0.0
    """Seconds between tool calls that run one after the other."""
    reasoning_effort: str = ""
    """`low`, `medium`, `high` or what the provider knows; empty: the provider's own."""
    save_trajectories: bool = False
    """Whether every turn is also written as JSON to `trajectories/` in the home."""
    personality: str = ""
    """How the agent is to be, besides `SOUL.md`: a name of `personalities`, or the words themselves."""
    system_prompt: str = ""
    """More of a system prompt, sent with every request and never stored."""
    image_input_mode: ImageInput = ImageInput.AUTO
    """How pictures reach the model: `auto`, `native` or `text` (in words, for `vision_analyze` to look at)."""


class PlatformHint(Struct, frozen=True, forbid_unknown_fields=True):
    """What is said to the model of a front-end's form."""

    append: str = ""
    """Said besides what Hermes says."""
    replace: str = ""
    """Said instead of it."""


class SandboxSettings(Struct, frozen=True):
    """What commands in the sandbox may reach (`terminal.sandbox:`)."""

    network: str | bool = "allowlist"
    """`off`, `allowlist` (hosts of `security.allowed_hosts`; others are asked about once) or `on`."""
    writable: tuple[str, ...] = ()
    """Folders besides the workspace and the session's own /tmp that commands may write."""


class SshSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The host on which commands run (`terminal.ssh:`); what is empty is for your own ssh settings to say."""

    host: str = ""
    """Its name, its address, or an alias of your ssh settings."""
    user: str = ""
    """The account there."""
    port: Port = 0
    """The port; 0: what your ssh settings say."""
    key: str = ""
    """The file of the private key."""
    config: str = ""
    """A file of ssh settings to use instead of your own."""
    folder: str = ""
    """Where the workspace is there, absolute or below the home; empty: a folder of its own in `hermes/`."""
    exclude: tuple[str, ...] = ("node_modules", ".venv", "__pycache__")
    """Files and folders that stay on their side: names, or paths below the workspace (`.git/objects`); `*` and `?` as
    in file names."""
    limit_mb: Positive = 100
    """Megabytes that one transfer may take; larger files are left out, and you are told."""


class DockerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The container in which commands run (`terminal.docker:`)."""

    image: str = ""
    """The image; it needs `sh` and what Debian's or Alpine's base images have; bash is used where it is there."""
    program: str = ""
    """`docker`, `podman` or a path; empty: the first of podman and docker that is installed."""
    network: str | bool = "off"
    """`off`, or `on`: the engine's own network. Commands that may have none get none all the same."""
    memory: str = "2g"
    """The most memory, as the engine writes it."""
    pids: Positive = 512
    """The most processes."""
    options: tuple[str, ...] = ()
    """Options of the program itself, such as `--context` or `--runtime`, a word each."""
    args: tuple[str, ...] = ()
    """More options of its `run`, a word each. With those that open more of this machine, such as `--volume`, the
    questions are those of `local`."""


class TerminalSettings(Struct, frozen=True):
    """How commands run (`terminal:`)."""

    backend: str = "auto"
    """Where commands run: `sandbox` (held back by the kernel), `local` (with all of your rights), `docker` (in a
    container), `ssh` (on another host), or `auto`: the sandbox wherever there is one."""
    sandbox: SandboxSettings = SandboxSettings()
    ssh: SshSettings = SshSettings()
    docker: DockerSettings = DockerSettings()
    timeout: float = 180.0
    """Seconds that a command in the foreground may take unless the model asks for more (at most 600)."""
    env_passthrough: tuple[str, ...] = ()
    """Names of variables, and patterns such as `MY_*`, that are handed to commands beside the locale, PATH and those of
    tool chains."""


class RuleSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """One rule of the person's own about calls, with examples that are checked when it is read."""

    pattern: str = ""
    """What it is about, as in `command_allowlist`; for other tools `TOOL PATH` or `TOOL URL`."""
    verdict: str = "ask"
    """`allow`, `ask` or `deny`. Of several rules, and of what Hermes says itself, the strictest counts; `allow` takes
    the place of a person's yes."""
    reason: str = ""
    """What the person asked, and the model, are told."""
    match: tuple[str, ...] = ()
    """Examples that the pattern must cover."""
    no_match: tuple[str, ...] = ()
    """Examples that it must not cover."""


class ApprovalSettings(Struct, frozen=True):
    """When a person is asked (`approvals:`)."""

    mode: str = "ask"
    """`ask`; `smart` (a small model looks at what the rules allow, and can only ask for more: `auxiliary.approval`); or
    `off`, which counts only inside the back end that `off_in` names."""
    off_in: str = ""
    """The back end, such as `sandbox` or `docker`, in which mode `off` asks nothing. Refusals stand."""
    timeout: float = 300.0
    """Seconds that a question waits for its answer; no answer means no."""
    rules: tuple[RuleSettings, ...] = ()
    """Rules of your own: `pattern`, `verdict` (`allow`, `ask`, `deny`), `reason`, and examples, `match` and
    `no_match`."""


class SecuritySettings(Struct, frozen=True):
    """What may be reached (`security:`)."""

    allowed_hosts: tuple[str, ...] = ()
    """Patterns of hosts (`*.example.com`) that need no question, from a sandbox, in the browser, and while untrusted
    content is in the conversation."""
    allow_private_urls: tuple[str, ...] = ()
    """Hosts of your own network that may be fetched: names (`nas.local`, `*.lan`), addresses (`192.168.1.0/24`), each
    with a port if only that one is meant (`localhost:8080`). Where clouds hand out keys stays closed."""


class ToolSettings(Struct, frozen=True):
    """What tools may return (`tool_output:`)."""

    max_chars: int = 50_000
    """Characters of one result that a model is shown; the rest goes to a file it can read."""


class McpToolSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Which of a server's tools are offered, by the names that the server gives them; `*` and `?` as in file names."""

    include: tuple[str, ...] = ()
    """Only these; empty: all."""
    exclude: tuple[str, ...] = ()
    """Not these, whatever `include` says."""


class McpTrust(StrEnum):
    """Whether a server's tools need a yes before they are called."""

    ASK = "ask"
    """The first call of each tool asks, and again when the server changes what it says of the tool."""
    ALWAYS = "always"
    """Never for being new or changed."""


class McpOAuthSettings(KeyHolder, frozen=True, forbid_unknown_fields=True):
    """The client that signs in to a server over HTTP, where you have registered one; a value may hold `${VARIABLE}`."""

    client_id: str = ""
    """Its id; empty: one is registered, or described by a document."""
    client_secret: str = ""
    """Its secret, if it has one."""
    client_metadata_url: str = ""
    """The https address of a client ID metadata document of yours, which then is the id."""
    issuer: str = ""
    """The authorization server that has given the id; another one is refused."""
    scope: str = ""
    """Permissions to ask for, separated by blanks, in the place of those that the server names."""
    redirect_port: int = 0
    """The port on 127.0.0.1 that the browser is sent back to; 0: any."""


class McpServerSettings(KeyHolder, frozen=True, forbid_unknown_fields=False):
    """One MCP server: a program that is started (`command`), or one that is reached over HTTP (`url`)."""

    command: str = ""
    """The program."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: Mapping[str, str] = {}
    """Variables it gets besides a few harmless ones; a value may hold `${VARIABLE}`."""
    cwd: str = ""
    """The folder it runs in; empty: your home folder."""
    url: str = ""
    """Where a server is that speaks streamable HTTP; may hold `${VARIABLE}`."""
    headers: Mapping[str, str] = {}
    """Header fields of each request to it; a value may hold `${VARIABLE}`."""
    timeout: float = 300.0
    """Seconds that a call may take."""
    connect_timeout: float = 60.0
    """Seconds that it may take to be ready."""
    enabled: bool = True
    """Whether it is used."""
    tools: McpToolSettings = McpToolSettings()
    """Which of its tools are offered (`include`, `exclude`)."""
    trust: McpTrust = McpTrust.ASK
    """`ask` or `always`."""
    protocol: str = ""
    """The version of the protocol, such as `2025-11-25`; empty: the newest that both speak."""
    oauth: McpOAuthSettings = McpOAuthSettings()
    """The client to sign in with, where you have one."""


class CapSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The most that may be spent; what is not set has no limit, and 0 means that nothing may be spent."""

    usd: float | None = None
    """Dollars, by list prices or what the provider reports."""
    tokens: int | None = None
    """Tokens, of prompts and answers together."""


class SpendingSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Hard caps, checked before each model call (`spending:`). All hold together; the tightest decides."""

    run: CapSettings = CapSettings()
    """For one run of the program; `--max-cost` and `--max-total-tokens` take its place."""
    session: CapSettings = CapSettings()
    """For one session, over all its life."""
    user: CapSettings = CapSettings()
    """For each user, for good: an allowance that is used up once. You yourself are one."""
    day: CapSettings = CapSettings()
    """For a calendar day in this machine's time zone, all sessions together."""
    month: CapSettings = CapSettings()
    """For a calendar month in this machine's time zone, all sessions together."""


class PriceSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What a model's tokens cost, in dollars a million."""

    input: float
    """Prompt tokens."""
    output: float
    """Answered tokens, reasoning included."""
    cache_read: float | None = None
    """Prompt tokens read from the provider's cache; empty: as `input`."""
    cache_write: float | None = None
    """Prompt tokens written to the provider's cache; empty: as `input`."""


CACHE_TTLS = ("5m", "1h")
"""How long a provider can be asked to keep a marked prompt."""


class CachingSettings(Struct, frozen=True):
    """Marks that let Claude models keep the prompt's beginning (`prompt_caching:`); other providers need none."""

    enabled: bool = True
    """Whether marks are sent."""
    cache_ttl: str = "5m"
    """How long the provider keeps what is marked after its last use: `5m`, or `1h`, which costs more to write."""


class GuardNumbers(Struct, frozen=True):
    """How many rounds in a row are too many; 0: no number is."""

    exact_failure: Count
    """The same call failed."""
    same_tool_failure: Count
    """One tool failed, whatever it was given."""
    idempotent_no_progress: Count
    """The same call gave the same result."""


class GuardSettings(Struct, frozen=True):
    """What is done about a turn that goes round in circles (`tool_loop_guardrails:`)."""

    warnings_enabled: bool = True
    """Whether the model is told."""
    hard_stop_enabled: bool = True
    """Whether the turn is ended."""
    warn_after: GuardNumbers = GuardNumbers(2, 3, 2)
    """Rounds after which the model is told: `exact_failure`, `same_tool_failure`, `idempotent_no_progress`."""
    hard_stop_after: GuardNumbers = GuardNumbers(5, 8, 5)
    """Rounds after which the turn is ended; the same three."""


class SideTaskSettings(ModelReference, frozen=True):
    """Who does a side task; empty: the model of the conversation, then its fallback models."""

    fallback_providers: tuple[ModelReference | str, ...] = ()
    """Models to turn to, in this order, before those of the conversation."""


class OptionalTaskSettings(SideTaskSettings, frozen=True):
    """As other side tasks; besides whether it is done at all."""

    enabled: bool | None = None
    """Whether it is done; empty: where a model is named for it here."""

    @property
    def is_wanted(self) -> bool:
        """Whether it is done."""
        return self.enabled if self.enabled is not None else bool(self.model or self.default or self.base_url)


class AuxiliarySettings(Struct, frozen=True):
    """Side tasks that are given to a model (`auxiliary:`), each to another one if wanted."""

    compression: SideTaskSettings = SideTaskSettings()
    """Condensing the older part of a conversation that has become too long."""
    review: SideTaskSettings = SideTaskSettings()
    """Looking back at a chat for what is worth keeping in memory and skills."""
    approval: SideTaskSettings = SideTaskSettings()
    """Looking at commands in the mode `smart` of `approvals`."""
    goal: SideTaskSettings = SideTaskSettings()
    """Judging after each turn whether the `/goal` of a session is reached."""
    title: OptionalTaskSettings = OptionalTaskSettings()
    """Giving a chat a title of a few words after its first answer."""
    web_extract: OptionalTaskSettings = OptionalTaskSettings()
    """Condensing web pages that are too long to be shown; else their beginning is shown."""
    vision: SideTaskSettings = SideTaskSettings()
    """Looking at pictures for `vision_analyze`; models that are known to take none are passed over."""


class GoalSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Goals that a session works towards by itself (`goals:`)."""

    max_turns: Positive = 20
    """Turns that are made for a goal before it is paused."""


class DelegationSettings(ModelReference, frozen=True):
    """Sub-agents (`delegation:`). A model that is named here is theirs; without one they have their parent's."""

    max_iterations: Positive = 50
    """Model calls that a sub-agent may make."""
    max_total_iterations: Positive = 500
    """Model calls that all sub-agents below one turn of a session may make together."""
    max_concurrent_children: Positive = 3
    """Sub-agents of one session that work at the same time; more of them wait in a queue."""
    max_spawn_depth: Annotated[int, Meta(ge=0, le=5)] = 2
    """Levels of sub-agents below a session: 1 lets sub-agents have none of their own, 0 turns them off."""
    max_cost: float | None = None
    """Dollars that one sub-agent may spend; every other cap holds for it, too."""
    max_summary_chars: Positive = 24_000
    """Characters of a sub-agent's answer that its parent is shown; the rest is in a file."""
    idle_timeout: Seconds = 450.0
    """Seconds without any sign of life after which a sub-agent is ended, while no tool of it runs."""
    tool_idle_timeout: Seconds = 1_200.0
    """The same while one of its tools runs."""


class MixturePreset(Struct, frozen=True):
    """Models that answer a prompt together (`moa.presets.NAME`)."""

    reference_models: tuple[ModelReference | str, ...] = ()
    """The models that are asked first, each by itself; each is a mapping or a name, as in `fallback_providers`."""
    aggregator: ModelReference | str = ""
    """The model that weighs their answers and answers; empty: the session's own."""
    max_tokens: int | None = None
    """Tokens of one of their answers at most."""
    max_cost: float | None = None
    """Dollars that one of them may cost; every other cap holds for it, too."""


class MixtureSettings(Struct, frozen=True):
    """Mixture of agents (`moa:`): `/moa` asks several models and has one weigh their answers."""

    default_preset: str = "default"
    """The preset that is used where none is named; where there is one only, that."""
    presets: Mapping[str, MixturePreset] = {}
    """Presets by name."""


class CronSettings(Struct, frozen=True):
    """Jobs on a clock (`cron:`)."""

    max_running: Positive = 4
    """Jobs that one process runs at the same time."""
    timezone: str = ""
    """The zone of jobs that name none, such as `Europe/Berlin`; empty: the machine's."""


class RetentionSettings(Struct, frozen=True):
    """How long sessions of one kind are kept (`session_retention.KIND`)."""

    days: Annotated[int, Meta(ge=0)] = 0
    """Days without a message after which a session is deleted; 0: never."""
    count: Annotated[int, Meta(ge=0)] = 0
    """Sessions that are kept at most, the newest; 0: any number."""


class SessionRetention(Struct, frozen=True):
    """Which sessions the gateway deletes by itself (`session_retention:`). People's own are never among them."""

    jobs: RetentionSettings = RetentionSettings(days=30, count=1_000)
    """Runs of jobs; what they said stays in cron/output."""
    api: RetentionSettings = RetentionSettings(days=90)
    """Sessions of programs: of the API server and of webhooks."""


class Evolution(StrEnum):
    """What becomes of changes of skills that the agent wants to make."""

    OFF = "off"
    """It makes none."""
    ASK = "ask"
    """They wait for the person's yes."""
    AUTOMATIC = "automatic"
    """They are made, unless untrusted content is in the conversation: then they wait."""


class SkillSettings(Struct, frozen=True):
    """Skills (`skills:`)."""

    evolution: Evolution = Evolution.ASK
    """Whether the agent writes skills: `off`, `ask` (each change waits for your yes), `automatic`."""
    write_approval: bool = False
    """Whether changes wait for your yes even where `evolution` is `automatic`."""
    creation_nudge_interval: Count = 10
    """Model calls with tools after which it looks back for what was learned; 0: not for their number."""
    disabled: tuple[str, ...] = ()
    """Names of skills that are not used."""
    external_dirs: tuple[str, ...] = ()
    """More folders of skills, which are never written; the skills of a folder that you do not trust are untrusted
    content."""


class MemorySettings(Struct, frozen=True):
    """What is remembered from session to session (`memory:`)."""

    enabled: bool = True
    """Whether there is a memory at all."""
    user_profile_enabled: bool = True
    """Whether it also keeps who you are (`USER.md`)."""
    write_approval: bool = False
    """Whether each change waits for your yes. While untrusted content is in the conversation all do."""
    memory_char_limit: Positive = 2_200
    """Characters of `MEMORY.md`."""
    user_char_limit: Positive = 1_375
    """Characters of `USER.md`."""
    nudge_interval: Count = 10
    """Turns of a chat after which the agent looks back at what is worth keeping; 0: not for their number."""
    provider: str = ""
    """One more memory beside these files: `recall`, or one that an installed package offers."""
    provider_timeout: Seconds = 5.0
    """Seconds that a call of it may take; looking something up has two at the most."""
    search_profiles: tuple[str, ...] = ()
    """Other profiles of yours whose conversations the agent may search (`session_search` with `profile`)."""


class CompressionSettings(Struct, frozen=True):
    """When and how a conversation that becomes too long is condensed (`compression:`)."""

    enabled: bool = True
    """Whether it is. Without it, a conversation that a provider finds too long ends its turn by that name."""
    threshold: float = 0.5
    """The part of the model's window that may be full before it is condensed (0.1 to 0.95)."""
    target_ratio: float = 0.2
    """The part of that threshold that the newest messages may take, kept as they are (0.1 to 0.8)."""
    protect_last_n: int = 20
    """Newest messages that are kept as they are, as long as they fit (at least 1)."""
    protect_first_n: int = 3
    """Oldest messages that are kept as they are, as long as they fit."""
    in_place: bool = True
    """Whether the originals of what is condensed stay in the session; else they move to another one, its parent.
    Its id stays either way."""
    summary_max_tokens: int = 12_000
    """The most tokens of the summary; also at most 5% of the window, though 2,000 always."""


class CheckpointSettings(Struct, frozen=True):
    """Copies of files before they are changed, by which changes are undone (`checkpoints:`)."""

    enabled: bool = True
    """Whether they are made."""
    max_snapshots: int = 20
    """Checkpoints that are kept of one folder."""
    max_total_mb: int = 500
    """Megabytes that all copies take together, compressed; one folder may hold half of that in files, and a quarter in
    what git ignores.
    """
    max_file_mb: int = 10
    """Megabytes of the largest file that is copied."""
    keep_days: float = 7.0
    """Days after which a checkpoint is forgotten."""


class CodeEngine(StrEnum):
    """Where the code of `execute_code` runs."""

    AUTO = "auto"
    """In the interpreter that survives restarts, where it is installed and knows all that the code uses; else in
    Python."""
    MONTY = "monty"
    PYTHON = "python"


class CodeExecutionSettings(Struct, frozen=True):
    """Code that calls tools (`code_execution:`)."""

    engine: CodeEngine = CodeEngine.AUTO
    """Where it runs: `auto`, `monty` (the interpreter of the extra `code`) or `python` (where commands run)."""
    timeout: Seconds = 300.0
    """Seconds that the code itself may run; the time of the calls that it makes does not count."""
    max_calls: Positive = 50
    """Calls that one piece of code may make."""
    max_output: Positive = 50_000
    """Characters that it may print; the model is shown 20,000 of them, the rest is in a file."""


class ContextSettings(Struct, frozen=True):
    """What a conversation is kept with (`context:`)."""

    engine: str = "compressor"
    """The context engine: the built-in `compressor`, or one that an installed package offers."""


class Settings(Struct, frozen=True):
    """The whole of `config.yaml` that this version acts on."""

    model: ModelSettings = ModelSettings()
    providers: Mapping[str, ProviderSettings] = {}
    """Providers of your own by name, and what is different about those of the catalogue."""
    custom_providers: tuple[ProviderSettings, ...] = ()
    """The same as a list, each with its `name`; the older way."""
    agent: AgentSettings = AgentSettings()
    personalities: Mapping[str, str] = {}
    """Descriptions of how the agent is to be, by name."""
    platform_hints: Mapping[str, PlatformHint] = {}
    """What the model is told of a front-end's form, by front-end (`cli`, `api` ...): `append` or `replace`."""
    prefill_messages_file: str = ""
    """A JSON file of messages (`role`, `content`) that come first in every request and are never stored."""
    context_file_max_chars: Positive = 20_000
    """Characters of one file such as `AGENTS.md`; the middle of a longer one is left out."""
    terminal: TerminalSettings = TerminalSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    security: SecuritySettings = SecuritySettings()
    tool_output: ToolSettings = ToolSettings()
    web: WebSettings = WebSettings()
    browser: BrowserSettings = BrowserSettings()
    stt: SpeechToTextSettings = SpeechToTextSettings()
    tts: TextToSpeechSettings = TextToSpeechSettings()
    image_gen: ImageGenSettings = ImageGenSettings()
    mcp_servers: Mapping[str, McpServerSettings] = {}
    """MCP servers by name; see `mcp.md`. Only those of the home's own file: nothing from a project's folder is read."""
    hooks: Mapping[str, object] = {}
    """Programs that run at named moments of a session, by event; see `hooks.md`. `hermes plugins enable hooks` enables
    them, and asks again when one of them, or a file that it names, has changed."""
    mcp_discovery_timeout: float = 3.0
    """Seconds from their start for which a look for tools waits for MCP servers that are not ready yet."""
    spending: SpendingSettings = SpendingSettings()
    prices: Mapping[str, PriceSettings] = {}
    """Prices that go before the built-in ones, by model or `PROVIDER/MODEL`; a name may end in `*`."""
    prompt_caching: CachingSettings = CachingSettings()
    sign_in: Mapping[str, Mapping[str, object]] = {}
    """Vendors to sign in to with a subscription, by name, and what is different about those that are known: a client id
    of your own, for one; see `sign-in.md`."""
    token_store: TokenPlace = TokenPlace.FILE
    """Where tokens are kept from the next sign-in on, those of MCP servers, too: `file` or `keyring`."""
    credential_pool_strategies: Mapping[str, str] = {}
    """By provider, which of several keys a call takes: `fill_first` (the default, best for prompt caches),
    `round_robin`, `random` or `least_used`."""
    tool_loop_guardrails: GuardSettings = GuardSettings()
    compression: CompressionSettings = CompressionSettings()
    context: ContextSettings = ContextSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    code_execution: CodeExecutionSettings = CodeExecutionSettings()
    auxiliary: AuxiliarySettings = AuxiliarySettings()
    goals: GoalSettings = GoalSettings()
    delegation: DelegationSettings = DelegationSettings()
    moa: MixtureSettings = MixtureSettings()
    cron: CronSettings = CronSettings()
    session_retention: SessionRetention = SessionRetention()
    fallback_providers: tuple[ModelReference | str, ...] = ()
    """Models to turn to, in this order, when the first choice cannot answer; the next turn tries the first one again.
    Each is a mapping (`provider`, `model`, `base_url`, `api_key`, `api_mode`) or a name such as `openrouter/auto`."""
    fallback_model: ModelReference | None = None
    """One more of these, after the others; the older way to name just one."""
    skills: SkillSettings = SkillSettings()
    memory: MemorySettings = MemorySettings()
    display: DisplaySettings = DisplaySettings()
    gateway: GatewaySettings = GatewaySettings()
    platforms: Mapping[str, Mapping[str, object]] = {}
    """Accounts on chat platforms by name, and the API server; see `gateway.md`."""
    toolsets: tuple[str, ...] = ()
    """Tool sets that are on; empty: the front-end's own default."""
    disabled_toolsets: tuple[str, ...] = ()
    """Tool sets that stay off whatever else is said."""
    command_allowlist: tuple[str, ...] = ()
    """Patterns of commands that need no question, as with `--allow`. Each simple command of a line is matched by
    itself, word by word (`*` and `?` as in file names; a `*` alone stands for any words), in the session's folder.
    A redirect (`> FILE`) is a pattern of its own; a whole line may be given as it is. No pattern lifts a refusal."""


class LoadedSettings(Struct, frozen=True):
    """Settings with what was odd about their source, a line each."""

    settings: Settings
    warnings: tuple[str, ...] = field(default=())
    unused: tuple[str, ...] = ()
    """Sections that agents of this family know and this version does not act on."""

"""Selects the environment variables that a command gets: those of a list, without keys."""

import fnmatch
import re
from collections.abc import Collection, Mapping

from hermes.util.text import compile_late

_SECRET_NAME = compile_late(
    r"(^|_)(API_?KEYS?|ACCESS_?KEYS?(_ID)?|SECRET(_KEY)?|PRIVATE_KEY|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(_|$)|"
    r"_KEY$|^(KEY|PASS)$|_PASS$|_DSN$|^DATABASE_URL$|SECRET"
)
_NAME = compile_late(r"(?<!\w)[A-Za-z_]\w{2,63}(?![\w=])", re.ASCII)
_SECRET_WORD = compile_late(r"(^|_)(PAT|PW|AUTH|AUTHTOKEN|CREDS?|JWT|COOKIE|WEBHOOK)(_|$)")
_HARMLESS_NAMES = frozenset({"SSH_AUTH_SOCK", "GPG_TTY", "XDG_SESSION_ID"})


_BASIC_NAMES = str.split("PATH HOME USER LOGNAME SHELL LANG LANGUAGE TERM TMPDIR TZ SSL_CERT_FILE SSL_CERT_DIR")


def select_basic_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the few variables that programs need to run at all, for those that are given nothing else
    unless by name.
    """
    return {name: value for name, value in environment.items() if name in _BASIC_NAMES or name.startswith("LC_")}


def is_secret_variable(name: str) -> bool:
    """Return whether a variable of this name is taken to hold a key."""
    return name not in _HARMLESS_NAMES and _SECRET_NAME.search(name.upper()) is not None


_COMMAND_NAMES = str.split("""
    HERMES_HOME HERMES_PROFILE HERMES_LANGUAGE PATH HOME USER LOGNAME USERNAME SHELL LANG LANGUAGE LC_* TZ TERM
    TERMINFO COLORTERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR* LS_COLORS PAGER LESS MANPATH INFOPATH EDITOR
    VISUAL HOSTNAME HOSTTYPE OSTYPE MACHTYPE TMPDIR TMP TEMP DISPLAY WAYLAND_DISPLAY XAUTHORITY XDG_*
    DBUS_*_BUS_ADDRESS SSH_AUTH_SOCK SSH_AGENT_PID GPG_TTY GPG_AGENT_INFO TMUX STY DOCKER_HOST CONTAINER_HOST
    WSL_DISTRO_NAME WSL_INTEROP WSLENV SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE GIT_SSL_CAINFO
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY FTP_PROXY http_proxy https_proxy all_proxy no_proxy ftp_proxy CI
    CONTINUOUS_INTEGRATION DEBIAN_FRONTEND SOURCE_DATE_EPOCH DO_NOT_TRACK *_TELEMETRY_* *_OPTOUT NO_UPDATE_NOTIFIER CC
    CXX CPP FC AR AS LD NM RANLIB STRIP CFLAGS CXXFLAGS CPPFLAGS FFLAGS LDFLAGS LIBS MAKE MAKEFLAGS MFLAGS MAKELEVEL
    CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH LD_PRELOAD DYLD_* PKG_CONFIG* ACLOCAL_PATH
    CMAKE_* CTEST_* NINJA_STATUS MESON_* AUTOCONF AUTOMAKE CCACHE_* SCCACHE_DIR SDKROOT DEVELOPER_DIR
    MACOSX_DEPLOYMENT_TARGET PYTHON* VIRTUAL_ENV VIRTUAL_ENV_PROMPT PIP_* UV_* POETRY_* PIPX_* PYENV_* PDM_* HATCH_*
    CONDA_* MAMBA_* MPLBACKEND MPLCONFIGDIR PYTEST_* TOX_* NOX_* DJANGO_SETTINGS_MODULE FLASK_APP FLASK_ENV
    FLASK_DEBUG NODE_ENV NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NVM_* FNM_* VOLTA_* NPM_CONFIG_* npm_config_*
    YARN_* PNPM_HOME COREPACK_* BUN_INSTALL DENO_DIR DENO_INSTALL* PLAYWRIGHT_BROWSERS_PATH PUPPETEER_EXECUTABLE_PATH
    CHROME_BIN JAVA_HOME JAVA_OPTS JAVA_TOOL_OPTIONS JDK_* CLASSPATH MAVEN_HOME MAVEN_OPTS M2_HOME GRADLE_HOME
    GRADLE_OPTS GRADLE_USER_HOME ANT_HOME SDKMAN_* KOTLIN_HOME SCALA_HOME SBT_OPTS ANDROID_* FLUTTER_ROOT PUB_CACHE
    GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOFLAGS GOOS GOARCH GOARM GOTOOLCHAIN GO111MODULE GOPROXY GONOSUMDB
    GONOPROXY GOPRIVATE GOSUMDB GOENV GODEBUG CGO_* CARGO_HOME CARGO_TARGET_DIR CARGO_BUILD_* CARGO_NET_*
    CARGO_INCREMENTAL CARGO_TERM_* RUSTUP_* RUST_BACKTRACE RUST_LOG RUSTC RUSTC_WRAPPER RUSTFLAGS RUSTDOCFLAGS RUBYOPT
    RUBYLIB GEM_HOME GEM_PATH BUNDLE_PATH BUNDLE_GEMFILE BUNDLE_WITHOUT RBENV_* RAILS_ENV RACK_ENV PERL5LIB PERL_*
    PHP_INI_SCAN_DIR COMPOSER_HOME COMPOSER_CACHE_DIR LUA_PATH LUA_CPATH R_HOME R_LIBS* JULIA_* OPAM* OCAML*
    CAML_LD_LIBRARY_PATH GHC* CABAL_* STACK_ROOT ELIXIR_* ERL_* MIX_ENV MIX_HOME HEX_HOME DOTNET_* NUGET_PACKAGES
    MSBUILD* SWIFT_* ASDF_* MISE_* DIRENV_DIR NIX_PATH NIX_PROFILES NIX_SSL_CERT_FILE LOCALE_ARCHIVE* IN_NIX_SHELL
    HOMEBREW_PREFIX HOMEBREW_CELLAR HOMEBREW_REPOSITORY HOMEBREW_NO_* LINUXBREW_* GUIX_* CUDA_* NVIDIA_VISIBLE_DEVICES
    NVIDIA_DRIVER_CAPABILITIES HIP_* ROCM_* ROCR_VISIBLE_DEVICES OMP_* MKL_* OPENBLAS_* NUMEXPR_* XLA_* TF_CPP_*
    TORCH_HOME TRITON_CACHE_DIR HF_HOME HF_HUB_OFFLINE HF_DATASETS_OFFLINE TRANSFORMERS_* TOKENIZERS_PARALLELISM
    RAY_ADDRESS SLURM_* GIT_AUTHOR_* GIT_COMMITTER_* GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM GIT_EDITOR
    GIT_CEILING_DIRECTORIES GIT_PAGER BROWSER KUBECONFIG TEXINPUTS TEXMFHOME ZDOTDIR
""")
"""Names of variables that commands get, patterns among them: the locale, PATH, the machine, and tool chains."""
_PATTERNS = [one for one in _COMMAND_NAMES if "*" in one.removesuffix("*")]
_PREFIXES = tuple(one[:-1] for one in _COMMAND_NAMES if one.endswith("*") and one not in _PATTERNS)
_MAX_TOLD = 5
_USER_INFO = compile_late(r"://[^/\s@]+@")


def select_command_variables(environment: Mapping[str, str], passed: Collection[str] = ()) -> dict[str, str]:
    """Return the variables that commands get: those on the list, and those that a person names in `passed`.

    `passed` may hold patterns. An address with a name or password in it is handed on only under its exact name.
    """
    named = find_named_variables(environment, passed)
    shipped = (name for name, value in environment.items() if _is_shipped(name) and not _USER_INFO.search(value))
    chosen = {*named, *shipped}
    return {name: value for name, value in environment.items() if name in chosen}


def find_named_variables(environment: Mapping[str, str], passed: Collection[str]) -> tuple[str, ...]:
    """Return the names of variables that a person names, for commands that otherwise get none of this machine's."""
    harmless = (name for name, value in environment.items() if name in passed or not _USER_INFO.search(value))
    return tuple(name for name in harmless if any(name == one or fnmatch.fnmatchcase(name, one) for one in passed))


def _is_shipped(name: str) -> bool:
    is_listed = name in _COMMAND_NAMES or name.startswith(_PREFIXES)
    is_listed = is_listed or any(fnmatch.fnmatchcase(name, one) for one in _PATTERNS)
    is_secret = is_secret_variable(name) or _SECRET_WORD.search(name.upper())
    return name in _HARMLESS_NAMES or (is_listed and not is_secret)


class DroppedVariables:
    """The names of variables that commands do not get. Each is told of once, when a command uses it."""

    def __init__(self, environment: Mapping[str, str], passed: Collection[str] = ()) -> None:
        self._names = environment.keys() - select_command_variables(environment, passed).keys()

    def explain_use(self, text: str) -> list[str]:
        """Return a line about the names that stand as words in a command or its output; none when there is none."""
        used = [one for one in dict.fromkeys(_NAME.findall(text)) if one in self._names]
        self._names = self._names.difference(used)
        listed = ", ".join(used[:_MAX_TOLD])
        return [f"not handed to commands: {listed}; terminal.env_passthrough can name what they get"] if used else []


def remove_secret_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that commands may see."""
    return {name: value for name, value in environment.items() if not is_secret_variable(name)}

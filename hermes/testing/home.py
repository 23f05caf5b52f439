"""A temporary home for a test or a measured program: nothing of the real one is read, nothing is left behind."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import yaml
from msgspec import Struct

import hermes


class ProgramResult(Struct, frozen=True):
    """The result of a program."""

    code: int
    stdout: str
    stderr: str


class TempHome:
    """A temporary folder with `HOME`, `HERMES_HOME`, the XDG folders, a temp folder and a working directory in it.

    `config` becomes `config.yaml` in the Hermes home (none: no file); `environ` is a whole environment for
    subprocesses: of the real one only `PATH` is in it, with `more` added. `workspace` is the working directory below
    the temporary folder; `home/code/work` is one in the home. The context removes everything again.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        more: Mapping[str, str] | None = None,
        workspace: str = "work",
    ) -> None:
        self.config = config
        self.more = dict(more or {})
        self.root = Path()
        self._workspace = workspace

    @classmethod
    def for_server(
        cls, url: str, *, api_mode: str = "", more_config: Mapping[str, object] | None = None, workspace: str = "work"
    ) -> Self:
        """Return a home whose model is the scripted server at `url`, and whose commands run without a sandbox.

        `more_config` may say otherwise: `{"terminal": {"backend": "sandbox"}}`.
        """
        model: dict[str, object] = {
            "default": "mock-model",
            "provider": "custom",
            "base_url": url,
            "api_key": "x",
            "context_length": 2_000_000,
        }
        if api_mode:
            model["api_mode"] = api_mode
        return cls({"model": model, "terminal": {"backend": "local"}, **(more_config or {})}, workspace=workspace)

    def __enter__(self) -> Self:
        self.root = Path(tempfile.mkdtemp(prefix="hermes-home-")).resolve()
        for folder in (self.home, self.hermes, self.cwd, self.root / "tmp"):
            folder.mkdir(parents=True)
        for name in ("config", "data", "cache", "state", "runtime"):
            (self.root / "xdg" / name).mkdir(parents=True, mode=0o700)
        if self.config is not None:
            self.write_config(self.config)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    @property
    def home(self) -> Path:
        """The person's home folder."""
        return self.root / "home"

    @property
    def hermes(self) -> Path:
        """`HERMES_HOME`."""
        return self.root / "hermes"

    @property
    def cwd(self) -> Path:
        """An empty working directory."""
        return self.root / self._workspace

    @property
    def environ(self) -> dict[str, str]:
        """The whole environment for a subprocess."""
        xdg = self.root / "xdg"
        return {
            "PATH": os.pathsep.join(os.get_exec_path()),
            "HOME": str(self.home),
            "HERMES_HOME": str(self.hermes),
            "TMPDIR": str(self.root / "tmp"),
            "XDG_CONFIG_HOME": str(xdg / "config"),
            "XDG_DATA_HOME": str(xdg / "data"),
            "XDG_CACHE_HOME": str(xdg / "cache"),
            "XDG_STATE_HOME": str(xdg / "state"),
            "XDG_RUNTIME_DIR": str(xdg / "runtime"),
            "PYTHONPATH": str(Path(hermes.__file__).resolve().parent.parent),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **self.more,
        }

    def write_config(self, config: Mapping[str, object]) -> None:
        """Replace `config.yaml`."""
        self.config = config
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # a fifth of the time, for thousands of homes
        text = yaml.dump(dict(config), Dumper=dumper, sort_keys=False, allow_unicode=True)
        (self.hermes / "config.yaml").write_text(text, encoding="utf-8")

    async def run(self, *command: str, stdin: bytes = b"", timeout: float = 60.0) -> ProgramResult:  # noqa: ASYNC109 - a test's limit
        """Run a program in the working directory; it is killed when `timeout` is over or the caller is cancelled."""
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self.cwd,
            env=self.environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(timeout):
                out, err = await process.communicate(stdin)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return ProgramResult(process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))

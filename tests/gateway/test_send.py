"""A gateway without any platform."""

import pytest

from hermes.admin.cron import CronAdmin, open_cron_admin
from hermes.core.errors import ConfigError
from hermes.gateway.gateway import check_settings
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.gateway.gateway_rig import home_for


async def test_a_job_is_enough_to_run_for() -> None:
    async with ScriptedServer([Say("x")]) as server:
        with home_for(server, {}) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                with pytest.raises(ConfigError, match="No platform and no job is set up"):
                    await check_settings(app)
            async with open_cron_admin(home.environ) as cron:
                await cron.add_job(CronAdmin.build_wish(name="tea", schedule="every 1h", prompt="say it"))
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                await check_settings(app)

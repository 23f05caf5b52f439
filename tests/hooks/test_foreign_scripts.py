"""Hooks that people wrote for Claude Code, each run for real in a session with a scripted model."""

import json

import pytest

from hermes.core.events import Notice
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.testing.script import Say
from tests.hooks.foreign_scripts import SCENES, Scene
from tests.hooks.hooked_home import open_hooked

NEEDED = {"jq": pytest.mark.needs("jq"), "node": pytest.mark.needs("node")}


@pytest.mark.parametrize(
    "scene", [pytest.param(one, marks=[NEEDED[name] for name in one.needs], id=one.name) for one in SCENES]
)
async def test_a_hook_does_what_is_documented(scene: Scene) -> None:
    answers = [*(Say(calls=(call,)) for call in scene.calls), *(Say("done") for _ in range(10))]
    async with open_hooked(answers, scene.hooks, scripts=scene.scripts, files=scene.files) as hooked:
        lines = [*hooked.notices]
        hooked.actor.subscribe(lambda event: lines.append(event.text) if isinstance(event, Notice) else None)
        for message in scene.messages:
            ended = await hooked.actor.post(InboundMessage(text=message))
        told = "\n".join(one.body.decode() for one in hooked.server.requests)
        shown = "\n".join((*lines, ended.error))
        assert ended.refused == scene.refused
        assert (ended.reason is ExitReason.HOOK_STOPPED) is scene.is_stopped
        assert [text for text in scene.told if json.dumps(text)[1:-1] not in told] == []
        assert [text for text in scene.untold if json.dumps(text)[1:-1] in told] == []
        assert [text for text in scene.shown if text not in shown] == []
        assert scene.requests in (0, len(hooked.server.requests))
        for name, text in scene.made.items():
            assert text in (hooked.home.cwd / name).read_text()
        assert [name for name in scene.absent if (hooked.home.cwd / name).exists()] == []


def test_there_are_enough_of_them() -> None:
    assert len(SCENES) >= 40

"""What is said of the sandbox is what it does."""

import pytest

from hermes.execution.sandbox.probe import SandboxMechanism, SandboxSupport


@pytest.mark.parametrize(
    ("network", "hosts", "said"),
    [
        ("allowlist", True, "network: allowed hosts only."),
        ("allowlist", False, "network: none, since only bubblewrap can allow single hosts."),
        ("off", False, "network: none."),
        ("on", False, "network: open."),
    ],
)
def test_the_network_is_what_the_mechanism_can_hold(network: str, hosts: bool, said: str) -> None:
    support = SandboxSupport(mechanism=SandboxMechanism.LANDLOCK, files=True, keys=True, hosts=hosts)
    assert support.describe(network).endswith(said)

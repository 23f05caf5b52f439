"""Where untrusted text comes from, as the sources by which its taint is counted."""

from hermes.core.messages import Provenance, Source
from hermes.tools.taint import sources_from_provenance


def test_an_address_that_cannot_be_read_is_a_source_of_its_own() -> None:
    """Models and editors name addresses as they like."""
    origin = Provenance(Source.WEB, "https://a.example/x http://[ http://[b]c/ plain")
    assert sources_from_provenance(origin) == ["web:a.example", "web:http://[", "web:http://[b]c/", "web:plain"]

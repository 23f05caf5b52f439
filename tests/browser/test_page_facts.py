"""What is known of nodes from their attributes."""

from hermes.browser.page_facts import is_secret_field


def test_fields_of_secrets_are_known_by_type_completion_and_name() -> None:
    assert is_secret_field("input", {"type": "password"})
    assert is_secret_field("input", {"autocomplete": "section-a cc-csc"})
    assert is_secret_field("input", {"type": "text", "name": "userPassword"})
    assert not is_secret_field("input", {"type": "checkbox", "name": "show_password"})
    assert not is_secret_field("input", {"type": "text", "name": "city"})

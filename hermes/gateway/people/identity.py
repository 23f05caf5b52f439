"""Who somebody is, as the gateway's own modules name it; the rules are the app's, which the command line shares."""

from hermes.admin.people.identity import OWNER_ID, People, Person, Role

__all__ = ["OWNER_ID", "People", "Person", "Role"]

"""What the model is told of the chat in which it talks: where, with whom, what is shown, how a file is sent."""

from hermes.admin.people.identity import PersonIdentity
from hermes.core.chats import ChatKind, Place
from hermes.gateway.accounts import AccountPlan, is_shared
from hermes.gateway.people import clean_name


def describe_surroundings(plan: AccountPlan, place: Place, person: PersonIdentity) -> str:
    """Return the sentences for a session's system prompt. What differs from message to message, such as who speaks in a
    shared session, stands in the message.
    """
    can = plan.descriptor.can
    parts = [f"You are in {plan.descriptor.title}, {_describe_company(plan, place, person)}.", plan.descriptor.hint]
    parts.append(f"{can.limit:,} characters fit in a message; longer answers are split.")
    if can.media:
        megabytes = can.media_limit // 1_000_000
        parts.append(f"To send a file, write `MEDIA:/path` on a line of its own ({megabytes} MB at most).")
    if can.buttons:
        parts.append("`clarify` shows buttons.")
    return " ".join(filter(None, parts))


def _describe_company(plan: AccountPlan, place: Place, person: PersonIdentity) -> str:
    if is_shared(plan.settings, place):
        return "with several people: [NAME] begins what each says"
    name = clean_name(person.name)
    if place.kind is ChatKind.DM:
        return f"with {name}" if name else "in a direct chat"
    return f"with {name} in a group" if name else "in a group"

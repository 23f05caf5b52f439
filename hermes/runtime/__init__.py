"""One actor per live session: a mailbox, strict order, persistence of what the loop emits."""

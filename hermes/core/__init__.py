"""Values: messages, parts, events, usage, ids, outcomes, errors. Frozen, no I/O."""

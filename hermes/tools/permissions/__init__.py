"""Whether a call may run: what is known of it, the policy, the question to the person."""

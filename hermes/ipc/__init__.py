"""Communication between processes of one home over a socket that only its user can reach."""

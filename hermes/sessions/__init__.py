"""Build sessions from their dependencies, and implement the operations that all front-ends share."""

"""Between processes of one home: a socket that only its person can reach, and what is said over it."""

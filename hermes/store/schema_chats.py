"""The tables of what comes in from chats, of what is owed to them, and of the people who talk there."""

CHATS = """
-- From where a platform goes on after a restart: names and values of its own, true once what came before is stored.
CREATE TABLE chat_cursors (
    platform TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (platform, name)
) STRICT, WITHOUT ROWID;

-- What came in, once each: the platform's own id of an event tells a repetition. state: new, posted (its words wait in
-- the session's inbox as letter_id, or are part of turn_id), done. outcome says how it ended. The body goes when it is
-- done; the row stays for as long as a platform may deliver it again.
CREATE TABLE arrivals (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    platform TEXT NOT NULL,
    event_id TEXT NOT NULL,
    lane TEXT NOT NULL,
    body BLOB,
    state TEXT NOT NULL DEFAULT 'new',
    outcome TEXT NOT NULL DEFAULT '',
    session_id TEXT,
    letter_id TEXT,
    turn_id TEXT,
    at REAL NOT NULL,
    UNIQUE (platform, event_id)
) STRICT;
CREATE INDEX arrivals_new ON arrivals (lane, id) WHERE state = 'new';
CREATE INDEX arrivals_letter ON arrivals (letter_id) WHERE state = 'posted';
CREATE INDEX arrivals_turn ON arrivals (turn_id) WHERE state = 'posted';
CREATE INDEX arrivals_done ON arrivals (at) WHERE state = 'done';

-- Which session a conversation in a chat is, by its key.
CREATE TABLE chat_sessions (
    key TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    place TEXT NOT NULL,
    person TEXT NOT NULL,
    last_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX chat_sessions_session ON chat_sessions (session_id);

-- What is owed to chats. state as in core/chats.py; message_id: what is shown of it already. key is the same for every
-- attempt. The body goes when it has ended.
CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    platform TEXT NOT NULL,
    lane TEXT NOT NULL,
    session_id TEXT NOT NULL DEFAULT '',
    turn_id TEXT NOT NULL DEFAULT '',
    body BLOB,
    state TEXT NOT NULL,
    message_id TEXT NOT NULL DEFAULT '',
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at REAL NOT NULL,
    error TEXT NOT NULL DEFAULT '',
    made_at REAL NOT NULL,
    ended_at REAL
) STRICT;
CREATE INDEX deliveries_open ON deliveries (lane, id) WHERE state IN ('open', 'pending', 'attempting');
CREATE INDEX deliveries_turn ON deliveries (turn_id) WHERE state = 'open';
CREATE INDEX deliveries_ended ON deliveries (ended_at) WHERE ended_at IS NOT NULL;
"""

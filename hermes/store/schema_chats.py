"""The tables of inbound events from chats and programs, of their outbox, and of the people who talk there."""

CHATS = """
-- From where a platform goes on after a restart: names and values of its own, true once what came before is stored.
CREATE TABLE chat_cursors (
    platform TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (platform, name)
) STRICT, WITHOUT ROWID;

-- What came in, once each: the platform's own id of an event tells a repetition. state: new, begun (a command), posted
-- (it waits in the session's inbox as letter_id, or is part of turn_id), done. outcome says how it ended. The body goes
-- when it is done; the row stays for as long as a platform may deliver it again.
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
CREATE INDEX arrivals_begun ON arrivals (id) WHERE state = 'begun';
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
-- attempt. first is the body as it was shown first, of what was shown while it was written. Bodies go when it ends.
CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    platform TEXT NOT NULL,
    lane TEXT NOT NULL,
    session_id TEXT NOT NULL DEFAULT '',
    turn_id TEXT NOT NULL DEFAULT '',
    body BLOB,
    first BLOB,
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

PEOPLE = """
-- Who may talk with Hermes from chats, beside those whom the settings name. role: owner, admin, user, guest.
CREATE TABLE people (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    since REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Their accounts on platforms; account is the platform's own id, one person may have several.
CREATE TABLE handles (
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    person_id TEXT NOT NULL REFERENCES people ON DELETE CASCADE,
    name TEXT NOT NULL DEFAULT '',
    since REAL NOT NULL,
    PRIMARY KEY (platform, account)
) STRICT, WITHOUT ROWID;
CREATE INDEX handles_person ON handles (person_id);

-- Codes by which somebody becomes known: a keyed hash of each, never the code. platform: empty for any.
CREATE TABLE pairing_codes (
    mark BLOB PRIMARY KEY,
    platform TEXT NOT NULL,
    role TEXT NOT NULL,
    person_id TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL DEFAULT '',
    made_at REAL NOT NULL,
    expires_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Wrong codes, by who sent them.
CREATE TABLE pairing_failures (
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    failures INTEGER NOT NULL,
    last_at REAL NOT NULL,
    PRIMARY KEY (platform, account)
) STRICT, WITHOUT ROWID;

-- Who did what from outside: turns begun, questions answered, people changed, unknown senders turned away.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    person TEXT NOT NULL,
    what TEXT NOT NULL,
    detail TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX audit_at ON audit (at);
"""

API = """
-- The sessions of API keys. owner is the key's name, name what its programs call the session. The state that it is in,
-- as its programs know it: mark is a hash of what was said, answer the id of what was answered last; NULL while it
-- works.
CREATE TABLE api_sessions (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    mark BLOB,
    answer TEXT,
    used_at REAL NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX api_sessions_mark ON api_sessions (owner, mark) WHERE mark IS NOT NULL;
CREATE INDEX api_sessions_answer ON api_sessions (owner, answer) WHERE answer IS NOT NULL;
CREATE INDEX api_sessions_session ON api_sessions (session_id);

-- Answers that can be asked for by their ids, and gone on from. state: queued, in_progress, completed, incomplete,
-- failed, cancelled. body is the answer as it was given, or (while it waits) nothing.
CREATE TABLE api_responses (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    turn_id TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL,
    body BLOB NOT NULL,
    at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX api_responses_session ON api_responses (session_id);
CREATE INDEX api_responses_at ON api_responses (at);

-- Runs: work that goes on whoever listens, and over restarts. state: queued, running, completed, failed, stopped. idem
-- is the caller's key of the request, digest what was asked under it. letter_id is its row in the session's inbox.
CREATE TABLE api_runs (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    idem TEXT,
    digest BLOB NOT NULL,
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    letter_id TEXT NOT NULL,
    turn_id TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT '',
    wish BLOB NOT NULL,
    usage BLOB,
    made_at REAL NOT NULL,
    ended_at REAL,
    UNIQUE (owner, idem)
) STRICT;
CREATE INDEX api_runs_open ON api_runs (made_at) WHERE ended_at IS NULL;
CREATE INDEX api_runs_letter ON api_runs (letter_id) WHERE ended_at IS NULL;
CREATE INDEX api_runs_session ON api_runs (session_id);
CREATE INDEX api_runs_ended ON api_runs (ended_at) WHERE ended_at IS NOT NULL;
"""

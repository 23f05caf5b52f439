"""The tables of the API server: the sessions of its keys, answers by their ids, and runs."""

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

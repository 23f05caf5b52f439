"""The tables of `hermes.db`.

Words of a conversation stand in `messages.body` and nowhere else for long: a turn's `text` is emptied once the message
is stored, an effect's arguments and result once the turn has ended. So a deleted message leaves nothing behind.
"""

from hermes.store.database import DatabaseSchema

_FIRST = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('id', lower(hex(randomblob(16))));

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    user_id TEXT NOT NULL,
    title TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    cwd TEXT NOT NULL,
    parent_id TEXT REFERENCES sessions ON DELETE SET NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    ended_at REAL,
    end_reason TEXT NOT NULL DEFAULT '',
    message_count INTEGER NOT NULL DEFAULT 0,
    tool_call_count INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL
) STRICT;
CREATE INDEX sessions_updated ON sessions (updated_at, id);
CREATE INDEX sessions_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE epochs (
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    number INTEGER NOT NULL,
    frame BLOB NOT NULL,
    began_at REAL NOT NULL,
    begin_reason TEXT NOT NULL,
    ended_at REAL,
    end_reason TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (session_id, number)
) STRICT;

-- state: 0 active, 1 compacted (a later message stands for it), 2 undone.
-- position orders a session's messages: the id, but for a summary that stands where what it covers stood.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    epoch INTEGER NOT NULL,
    turn_id TEXT,
    role TEXT NOT NULL,
    state INTEGER NOT NULL DEFAULT 0,
    position INTEGER NOT NULL,
    created_at REAL NOT NULL,
    prompt_tokens INTEGER,
    output_tokens INTEGER,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX messages_session ON messages (session_id, position, id);

-- What the search index must look at again. erase: 1 when words must vanish from its file, not only from results.
CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id INTEGER NOT NULL,
    erase INTEGER NOT NULL
) STRICT;

-- fence counts the owners of a turn: a write with an older number comes from one that was taken for dead.
CREATE TABLE turns (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    state TEXT NOT NULL,
    text TEXT NOT NULL,
    started_at REAL NOT NULL,
    ended_at REAL,
    reason TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT '',
    calls INTEGER NOT NULL DEFAULT 0,
    usage BLOB,
    owner_pid INTEGER,
    fence INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX turns_session ON turns (session_id, state);

CREATE TABLE effects (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    turn_id TEXT NOT NULL REFERENCES turns ON DELETE CASCADE,
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    repeatable INTEGER NOT NULL,
    state TEXT NOT NULL,
    result BLOB,
    intended_at REAL NOT NULL,
    done_at REAL
) STRICT;
CREATE INDEX effects_call ON effects (turn_id, call_id);

-- Kept when a session is deleted: caps for a day or a month still count it.
CREATE TABLE spend (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    session_id TEXT,
    turn_id TEXT,
    purpose TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cost_usd REAL
) STRICT;
CREATE INDEX spend_at ON spend (at);
"""

_SECOND = """
-- What was said to a session and is not part of a turn yet, in the order in which it was said; gone once it is. What is
-- to be answered before all that waits has a place below 0.
CREATE TABLE inbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    body BLOB NOT NULL,
    posted_at REAL NOT NULL,
    place INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX inbox_session ON inbox (session_id, number);

-- The assistant message that holds the call: a model may use a call's id again, clocks may jump, this tells them apart.
ALTER TABLE effects ADD COLUMN message_id INTEGER;
-- The person has asked for this turn to stop: whoever finds it unfinished closes it and does not go on with it.
ALTER TABLE turns ADD COLUMN stopping INTEGER NOT NULL DEFAULT 0;

-- A call under way holds its worst case under the caps by the very row that says in the end what it cost: while `owner`
-- (a process) stands in it, what it cost is not known yet. So nothing has to happen for a kill -9 to be counted.
-- nano is nano-dollars (see core/usage.py); NULL where the model has no price.
ALTER TABLE spend ADD COLUMN nano INTEGER;
ALTER TABLE spend ADD COLUMN certainty TEXT NOT NULL DEFAULT 'unknown';
ALTER TABLE spend ADD COLUMN run_id TEXT NOT NULL DEFAULT '';
ALTER TABLE spend ADD COLUMN user_id TEXT NOT NULL DEFAULT '';
ALTER TABLE spend ADD COLUMN owner TEXT;
CREATE INDEX spend_run ON spend (run_id);
CREATE INDEX spend_session ON spend (session_id);
CREATE INDEX spend_user ON spend (user_id);
CREATE INDEX spend_open ON spend (owner) WHERE owner IS NOT NULL;

-- Which keys wait for a limit to end. slot names where a key comes from; mark is a keyed hash that tells one value of
-- it from the next, and is empty where the key is short enough to be guessed. seconds: NULL for good.
CREATE TABLE key_cooldowns (
    provider TEXT NOT NULL,
    slot TEXT NOT NULL,
    mark TEXT NOT NULL,
    model TEXT NOT NULL,
    kind TEXT NOT NULL,
    began_at REAL NOT NULL,
    seconds REAL,
    said INTEGER NOT NULL,
    PRIMARY KEY (provider, slot, mark, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE key_uses (
    provider TEXT NOT NULL,
    slot TEXT NOT NULL,
    uses INTEGER NOT NULL,
    PRIMARY KEY (provider, slot)
) STRICT, WITHOUT ROWID;
"""

_THIRD = """
-- Questions to the person. state: pending, answered, taken (by the one call that asked, or because it ran out of time).
-- seal is a hash of what the answer is for. The question's words go when it is taken; who said what about which rule
-- stays.
CREATE TABLE approvals (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    turn_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    subject TEXT NOT NULL,
    rule TEXT NOT NULL,
    reason TEXT NOT NULL,
    cwd TEXT NOT NULL,
    seal TEXT NOT NULL,
    session_covers TEXT NOT NULL,
    always_covers TEXT NOT NULL,
    asked_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending',
    scope TEXT NOT NULL DEFAULT '',
    answered_by TEXT NOT NULL DEFAULT '',
    answered_at REAL
) STRICT;
CREATE INDEX approvals_turn ON approvals (turn_id, call_id);
CREATE INDEX approvals_pending ON approvals (session_id) WHERE state = 'pending';
"""

_FOURTH = """
-- What the agent keeps beyond a session, change by change: kind is `memory` or `skill`, name what is changed. before
-- and after are what stood there and what stands there then (NULL: nothing). state: pending (waits for a person),
-- applying (its file is being written), applied, rejected, undone. sources: a JSON list of the untrusted sources it was
-- made under. It outlives its session, so nothing refers to the session's row.
CREATE TABLE revisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    author TEXT NOT NULL,
    reason TEXT NOT NULL,
    sources TEXT NOT NULL,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    before BLOB,
    after BLOB,
    state TEXT NOT NULL,
    made_at REAL NOT NULL,
    decided_at REAL,
    decided_by TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX revisions_of ON revisions (kind, name, id);
CREATE INDEX revisions_open ON revisions (kind, id) WHERE state IN ('pending', 'applying');

-- How often something that is kept was used, and what came of it.
CREATE TABLE usefulness (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    used INTEGER NOT NULL DEFAULT 0,
    helped INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    last_at REAL NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Compactions, by the epoch that each began: the ids of the messages that it covered and of those that stand for them,
-- and what its engine notes for the next one (ids and numbers, no words).
CREATE TABLE compactions (
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    epoch INTEGER NOT NULL,
    covered TEXT NOT NULL,
    made TEXT NOT NULL,
    memo BLOB NOT NULL,
    undone INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session_id, epoch)
) STRICT, WITHOUT ROWID;
"""

_FIFTH = """
-- Files that were written while untrusted content was in a conversation: by path, with a hash of the content and the
-- sources as a JSON list. Gone when the person trusts them.
CREATE TABLE marked_files (
    path TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    sources TEXT NOT NULL,
    at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX marked_files_at ON marked_files (at);
"""

_SIXTH = """
-- Copies of files before they are changed. purpose: turn, or restore (files were about to be put back). open: 1 until
-- the turn, or the restoring, has come to its end. Contents are files in the folder `checkpoints`; base is the digest
-- of the listing that the folder had. Paths are bytes, as the file system has them; states are what core/checkpoints.py
-- makes of them.
CREATE TABLE checkpoints (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    turn_id TEXT NOT NULL,
    folder BLOB NOT NULL,
    place TEXT NOT NULL,
    purpose TEXT NOT NULL,
    base TEXT NOT NULL,
    whole INTEGER NOT NULL,
    at REAL NOT NULL,
    open INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX checkpoints_session ON checkpoints (session_id, id);
CREATE INDEX checkpoints_folder ON checkpoints (folder, id);

CREATE TABLE checkpoint_files (
    checkpoint_id INTEGER NOT NULL REFERENCES checkpoints ON DELETE CASCADE,
    path BLOB NOT NULL,
    before BLOB NOT NULL,
    after BLOB,
    PRIMARY KEY (checkpoint_id, path)
) STRICT, WITHOUT ROWID;

-- The last listing of each folder, so that files which stay as they are are read once.
CREATE TABLE checkpoint_folders (folder BLOB PRIMARY KEY, base TEXT NOT NULL, at REAL NOT NULL) STRICT, WITHOUT ROWID;

-- Turns that were taken back, by the epoch which that began: the ids of their messages, and the checkpoint that brings
-- the files of before back (NULL: none). whole: 0 where a compaction was dissolved, so that there is no way back.
CREATE TABLE undos (
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    epoch INTEGER NOT NULL,
    messages TEXT NOT NULL,
    whole INTEGER NOT NULL,
    redone INTEGER NOT NULL DEFAULT 0,
    checkpoint_id INTEGER,
    PRIMARY KEY (session_id, epoch)
) STRICT, WITHOUT ROWID;

-- Of a branch: how many turns of its parent it began with.
ALTER TABLE sessions ADD COLUMN branched_at INTEGER;
"""

_SEVENTH = """
-- Standing goals of sessions: in the person's words; state: active, paused, reached; turns that were made for it.
CREATE TABLE goals (
    session_id TEXT PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    text TEXT NOT NULL,
    state TEXT NOT NULL,
    turns INTEGER NOT NULL,
    why TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""

_EIGHTH = """
-- Jobs on a clock. schedule is as it was written, zone an IANA name, anchor the moment from which intervals count; spec
-- is JSON (prompt, targets, policies: cron/job.py). state: active, paused, done. next_at is the first due instant that
-- no row accounts for, wake_at when somebody has to look at it (later by the job's jitter); NULL: nothing is due.
-- begun counts the instants that were given to a run, for `repeat`.
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL COLLATE NOCASE UNIQUE,
    state TEXT NOT NULL,
    schedule TEXT NOT NULL,
    zone TEXT NOT NULL,
    anchor REAL NOT NULL,
    spec BLOB NOT NULL,
    version INTEGER NOT NULL,
    next_at REAL,
    wake_at REAL,
    begun INTEGER NOT NULL DEFAULT 0,
    made_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_wake ON jobs (wake_at) WHERE wake_at IS NOT NULL;

-- What became of each due instant. state: due, claimed, then one of ran, skipped, missed, failed. A row may stand for
-- several missed ones: `instants` of them from at to through. owner, until and fence are the lease of a claimed one;
-- delivery: none, owed, delivered, failed.
CREATE TABLE job_instants (
    job_id TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,
    at REAL NOT NULL,
    through REAL NOT NULL,
    instants INTEGER NOT NULL DEFAULT 1,
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    by_hand INTEGER NOT NULL DEFAULT 0,
    owner TEXT NOT NULL DEFAULT '',
    until REAL NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    stop TEXT NOT NULL DEFAULT '',
    began_at REAL,
    ended_at REAL,
    session_id TEXT NOT NULL DEFAULT '',
    nano INTEGER NOT NULL DEFAULT 0,
    output TEXT NOT NULL DEFAULT '',
    delivery TEXT NOT NULL DEFAULT 'none',
    delivery_why TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (job_id, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_instants_open ON job_instants (job_id, at) WHERE state IN ('due', 'claimed');
CREATE INDEX job_instants_owed ON job_instants (job_id, at) WHERE delivery = 'owed';
"""

_CHATS = """
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

-- Messages to chats, which are retried until delivered. state as in core/chats.py; message_id: what is shown of it
-- already. key is the same for every attempt. first is the body as it was shown first, of what was shown while it was
-- written. Bodies go when it ends.
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

_PEOPLE = """
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

_API = """
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

_TODOS = """
-- The steps that a model keeps for its session: JSON, an array of {id, content, status}.
CREATE TABLE todo_lists (
    session_id TEXT PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    items BLOB NOT NULL
) STRICT, WITHOUT ROWID;
"""

_PAIRING_REQUESTS = """
-- Unknown people who ask to be let in: one request each. mark is a hash of the code that they were shown; NULL once
-- it was refused, which is remembered until the request runs out. place is where they wrote, as JSON.
CREATE TABLE pairing_requests (
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    place BLOB NOT NULL,
    mark BLOB UNIQUE,
    expires_at REAL NOT NULL,
    PRIMARY KEY (platform, account)
) STRICT, WITHOUT ROWID;
"""

_DIRECT_CHATS = """
-- The direct chat of each person on a platform, from the first thing on that they sent there. place: JSON, as in
-- chat_sessions.
CREATE TABLE direct_chats (
    person TEXT NOT NULL,
    platform TEXT NOT NULL,
    place TEXT NOT NULL,
    last_at REAL NOT NULL,
    PRIMARY KEY (person, platform)
) STRICT, WITHOUT ROWID;

-- The question about each request to be let in, as it was shown. code names it on its buttons; closed: it shows what
-- became of the request.
CREATE TABLE pairing_questions (
    code TEXT PRIMARY KEY,
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    place BLOB NOT NULL,
    text TEXT NOT NULL,
    closed INTEGER NOT NULL DEFAULT 0,
    asked_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- The sessions that work beside that of a chat, until their end was told there.
CREATE TABLE background_sessions (
    session_id TEXT PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    place BLOB NOT NULL,
    prompt TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""

_SUB_AGENTS = """
-- Sessions that work for another one. turn_id, message_id and call_id name the call that asked for one (message_id: the
-- assistant message with the call; NULL where a person asked), position its place in that call, root_id the session at
-- the top and root_turn_id the turn there. number: by which people name it below one root. steps: the model calls that
-- are reserved for it, and once it has ended those that it made. spec and report are JSON (core/sub_agents.py); spec is
-- emptied to a name at the end. delivery: awaited (a call waits for the report), inbox (once all of a call have ended
-- their reports go into the parent's inbox), person (a person is told), delivered.
CREATE TABLE sub_agents (
    session_id TEXT PRIMARY KEY,
    parent_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    root_id TEXT NOT NULL,
    root_turn_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    message_id INTEGER,
    call_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    number INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    delivery TEXT NOT NULL,
    spec BLOB NOT NULL,
    state TEXT NOT NULL,
    steps INTEGER NOT NULL,
    report BLOB,
    created_at REAL NOT NULL,
    started_at REAL,
    ended_at REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX sub_agents_parent ON sub_agents (parent_id, message_id, call_id);
CREATE INDEX sub_agents_root ON sub_agents (root_id, root_turn_id);
CREATE INDEX sub_agents_open ON sub_agents (parent_id) WHERE ended_at IS NULL OR delivery IN ('inbox', 'person');

-- The session at the top of the tree in which a sub-agent made this call; NULL for a session's own calls.
ALTER TABLE spend ADD COLUMN root_id TEXT;
CREATE INDEX spend_root ON spend (root_id) WHERE root_id IS NOT NULL;
"""

_CODE_RUNS = """
-- The newest state of each run of code that calls tools, until its turn ends: see core/code_runs.py. message_id holds
-- its call. sources, asked and closed are JSON.
CREATE TABLE code_runs (
    turn_id TEXT NOT NULL REFERENCES turns ON DELETE CASCADE,
    call_id TEXT NOT NULL,
    message_id INTEGER NOT NULL,
    engine TEXT NOT NULL,
    version TEXT NOT NULL,
    calls INTEGER NOT NULL,
    dump BLOB NOT NULL,
    printed TEXT NOT NULL,
    sources BLOB NOT NULL,
    asked BLOB NOT NULL,
    closed BLOB NOT NULL,
    mac BLOB NOT NULL,
    PRIMARY KEY (turn_id, call_id)
) STRICT, WITHOUT ROWID;
"""

_CHAT_VOICES = """
-- What a chat, by its lane, has chosen about spoken answers (mode; empty: nothing), and whether it was told that
-- nothing here can hear recordings.
CREATE TABLE chat_voices (
    lane TEXT PRIMARY KEY,
    mode TEXT NOT NULL DEFAULT '',
    is_told INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
"""

HERMES = DatabaseSchema(
    application_id=0x4845524D,
    steps=(
        _FIRST,
        _SECOND,
        _THIRD,
        _FOURTH,
        _FIFTH,
        _SIXTH,
        _SEVENTH,
        _EIGHTH,
        _CHATS,
        _PEOPLE,
        _API,
        _TODOS,
        _PAIRING_REQUESTS,
        _DIRECT_CHATS,
        _SUB_AGENTS,
        _CODE_RUNS,
        _CHAT_VOICES,
    ),
)

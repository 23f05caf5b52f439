"""The tables of `hermes.db`.

Words of a conversation stand in `messages.body` and nowhere else for long: a turn's `text` is emptied once the message
is stored, an effect's arguments and result once the turn has ended. So a deleted message leaves nothing behind.
"""

from hermes.store.schema_chats import API, CHATS, PEOPLE
from hermes.store.sqlite.migrations import DatabaseSchema

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
-- nano is nano-dollars (see core/money.py); NULL where the model has no price.
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
-- Files that were written while strangers' words stood in a conversation: by path, with a hash of the content and the
-- sources as a JSON list. Gone when the person vouches for them.
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

HERMES = DatabaseSchema(
    application_id=0x4845524D,
    steps=(_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH, _SEVENTH, _EIGHTH, CHATS, PEOPLE, API),
)

-- rota's own tables. Dropping them all loses explanations and resumability
-- of what was in flight, never a job or a finished run.

-- What this file is and who last held it.
CREATE TABLE IF NOT EXISTS rota_meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Slots that were decided against: one row per range of slots, one rule.
CREATE TABLE IF NOT EXISTS rota_slots (
  seq INTEGER PRIMARY KEY,
  job_id TEXT NOT NULL,
  from_ms INTEGER NOT NULL,
  to_ms INTEGER NOT NULL CHECK (to_ms >= from_ms),
  slots INTEGER NOT NULL CHECK (slots >= 1),
  rule TEXT NOT NULL,
  verdict TEXT NOT NULL,
  detail TEXT NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS rota_slots_job ON rota_slots (job_id, to_ms, seq);

-- Committed facts, in commit order. seq is shared with rota_slots and never reused.
CREATE TABLE IF NOT EXISTS rota_events (
  seq INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  kind TEXT NOT NULL,
  job_id TEXT,
  run_id TEXT,
  slot_ms INTEGER,
  status TEXT,
  detail TEXT
) STRICT;

-- Missed slots that will be run late: slot_ms is the natural slot and part of
-- the run's identity, run_at_ms only says when it may start. A row lives until
-- its run has ended.
CREATE TABLE IF NOT EXISTS rota_plan (
  job_id TEXT NOT NULL,
  slot_ms INTEGER NOT NULL,
  run_at_ms INTEGER NOT NULL,
  PRIMARY KEY (job_id, slot_ms)
) STRICT, WITHOUT ROWID;

-- The next attempt of a job whose run failed: deadline_ms is its slot, and
-- origin_ms the natural slot that failed first. A row lives until another run of
-- the job has ended.
CREATE TABLE IF NOT EXISTS rota_retries (
  job_id TEXT NOT NULL PRIMARY KEY,
  deadline_ms INTEGER NOT NULL,
  origin_ms INTEGER NOT NULL,
  attempt INTEGER NOT NULL CHECK (attempt >= 2)
) STRICT, WITHOUT ROWID;

-- Results of runs whose delivery is under way: what the run's end needs once
-- the delivery is over. answered counts the sends whose answer is known, held
-- says that a daemon stopped in order with none under way. A row lives until the
-- commit that ends its run.
CREATE TABLE IF NOT EXISTS rota_outbox (
  receipt_id TEXT NOT NULL PRIMARY KEY,
  job_id TEXT NOT NULL,
  destination TEXT NOT NULL,
  result TEXT NOT NULL,
  answered INTEGER NOT NULL DEFAULT 0 CHECK (answered >= 0),
  held INTEGER NOT NULL DEFAULT 0 CHECK (held IN (0, 1)),
  at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys under which callers asked for manual runs, so that a repeated request
-- gives the same run after its receipt is pruned.
CREATE TABLE IF NOT EXISTS rota_requests (
  seq INTEGER PRIMARY KEY,
  job_id TEXT NOT NULL,
  key TEXT NOT NULL,
  run_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  UNIQUE (job_id, key)
) STRICT;

-- Runs of a moment that has not come yet, committed ahead of it as they will be
-- when it comes: their receipt and their job's state stand in the cron tables
-- already. None of them was handed out: that commit takes the row away. was_json
-- and was_ms are what the job's state was before, so that a start puts it back.
CREATE TABLE IF NOT EXISTS rota_armed (
  n INTEGER PRIMARY KEY,
  job_id TEXT NOT NULL,
  receipt_id TEXT NOT NULL,
  was_json TEXT NOT NULL,
  was_ms INTEGER
) STRICT;

-- Append-only: every table refuses UPDATE and DELETE. Amounts are exact fractions as text.

CREATE TABLE secret (
    only_row  INTEGER PRIMARY KEY CHECK (only_row = 1),
    key       BLOB NOT NULL CHECK (length(key) = 32)
) STRICT;

CREATE TABLE dataset (
    name         TEXT PRIMARY KEY,
    currency     TEXT NOT NULL,
    amount       TEXT NOT NULL,
    delta        TEXT,
    unit         TEXT NOT NULL,
    declared_at  TEXT NOT NULL
) STRICT;

-- What has been released under each name. A digest is an HMAC under the secret, never a plain hash,
-- and belongs to one name: the same content under two names would have two totals.
CREATE TABLE content (
    digest    TEXT PRIMARY KEY,
    dataset   TEXT NOT NULL REFERENCES dataset (name),
    first_at  TEXT NOT NULL
) STRICT;

CREATE TABLE spend (
    number         INTEGER PRIMARY KEY,
    run_id         TEXT NOT NULL UNIQUE,
    dataset        TEXT NOT NULL REFERENCES dataset (name),
    currency       TEXT,               -- null: the method has no guarantee
    amount         TEXT,
    delta          TEXT,
    unit           TEXT,
    charge         TEXT,               -- what enters the sum; null: not private, in no sum
    charge_method  TEXT NOT NULL,
    digest         TEXT NOT NULL REFERENCES content (digest),
    config_digest  TEXT NOT NULL,
    key_kind       TEXT NOT NULL CHECK (key_kind IN ('os', 'seed')),
    invariants     TEXT NOT NULL       -- a JSON list of sentences
) STRICT;

-- Runs that will never complete; their spends stand. Older ledgers get this table when they need it.
CREATE TABLE closing (
    run_id  TEXT PRIMARY KEY REFERENCES spend (run_id),
    at      TEXT NOT NULL,
    why     TEXT NOT NULL
) STRICT;

CREATE TABLE event (
    number  INTEGER PRIMARY KEY,
    run_id  TEXT NOT NULL REFERENCES spend (run_id),
    state   TEXT NOT NULL CHECK (state IN ('recorded', 'drawn', 'complete', 'void')),
    at      TEXT NOT NULL,
    why     TEXT NOT NULL,
    UNIQUE (run_id, state)
) STRICT;

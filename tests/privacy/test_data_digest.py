"""The published digest of the data tells nothing to someone who knows all records but one."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import numpy as np

from headcount.privacy import Ledger

AGES = range(116)


def plain_digest(ages: list[int]) -> str:
    return hashlib.sha256(",".join(map(str, ages)).encode()).hexdigest()


def consistent_guesses(known: list[int], published: str, attempts) -> list[int]:
    """The ages of the last person for which some recomputation gives the published digest."""
    return [
        age
        for age in AGES
        if any(attempt(plain_digest([*known, age])) == published for attempt in attempts)
    ]


RUN = "0123456789abcdef"


def attacks(own: Ledger):
    """What can be computed without the secret: the hash, usual keys, and a ledger of one's own."""
    purpose = b"headcount data digest, version 1\0"

    def under(key: bytes):
        def attempt(digest: str) -> str:
            tag = hmac.new(key, purpose + digest.encode(), hashlib.sha256)
            return f"hmac-sha256:{tag.hexdigest()}"

        return attempt

    return [
        lambda digest: digest,
        lambda digest: f"hmac-sha256:{digest}",
        lambda digest: f"hmac-sha256:{hashlib.sha256(purpose + digest.encode()).hexdigest()}",
        under(b""),
        under(bytes(32)),
        lambda digest: own.public_digest(digest, run_id=RUN),
    ]


def test_guesses_of_the_last_record_can_be_tested_against_a_hash_but_not_the_published_digest(
    tmp_path: Path,
):
    ages = [int(age) for age in np.random.default_rng(7).integers(0, 116, size=200)]
    known, target = ages[:-1], ages[-1]
    attempts = attacks(Ledger.create(tmp_path / "attacker.db"))
    owner = Ledger.create(tmp_path / "owner.db")

    # Negative control: against a plain hash the same attack names the person's age.
    assert consistent_guesses(known, plain_digest(ages), attempts) == [target]

    published = owner.public_digest(plain_digest(ages), run_id=RUN)
    assert consistent_guesses(known, published, attempts) == []

    # And it is a true test of content for whoever holds the ledger.
    assert consistent_guesses(
        known, published, [lambda digest: owner.public_digest(digest, run_id=RUN)]
    ) == [target]


def test_the_digest_is_stable_for_a_run_and_unrelated_between_runs_and_ledgers(tmp_path: Path):
    one, two = Ledger.create(tmp_path / "one.db"), Ledger.create(tmp_path / "two.db")
    published = one.public_digest("data", run_id=RUN)
    assert published == Ledger.open(one.path).public_digest("data", run_id=RUN)
    assert published != one.public_digest("other data", run_id=RUN)
    assert published != one.public_digest("data", run_id="another run")
    assert published != two.public_digest("data", run_id=RUN)
    # Where the run ends and the digest begins is part of it.
    assert one.public_digest("bc", run_id="a") != one.public_digest("c", run_id="ab")


def test_the_secret_shows_nowhere(tmp_path: Path, caplog):
    import sqlite3

    caplog.set_level("DEBUG")
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.public_digest("data", run_id=RUN)
    with sqlite3.connect(ledger.path) as connection:
        secret = connection.execute("SELECT key FROM secret").fetchone()[0]
    assert len(secret) == 32
    for text in (repr(ledger), str(ledger), caplog.text):
        assert secret.hex() not in text
        assert repr(secret) not in text

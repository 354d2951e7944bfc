"""The composition root: a config becomes a release, and a release is scored against the truth."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headcount.config.load import config_digest, config_to_json, load_config, read_config
from headcount.config.settings import Config
from headcount.engines.local import LocalEngine
from headcount.errors import ConfigError, RunError, TruthError
from headcount.evaluate.suppressed import (
    WITNESSES,
    write_account,
)
from headcount.files import write_text_atomic
from headcount.mechanisms import Context, Mechanism, complete_guarantee, protect
from headcount.mechanisms._base import cut_for
from headcount.mechanisms.sampling import Sampling
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.mechanisms.topdown.publish import refuse_same_columns
from headcount.noise import KeyedNoise, Noise, OpenDPNoise, RunKey
from headcount.noise.recorded import RecordedNoise
from headcount.population.reading import Reading
from headcount.privacy import Guarantee, Ledger, Loss, SpendState
from headcount.progress import Progress, silent
from headcount.release import Release
from headcount.release.directory import RunDirectory, RunFacts
from headcount.release.mdf import refuse_other_layout, write_mdf
from headcount.release.sampled import refuse_weight, write_sample
from headcount.release.store import (
    check_files,
    check_publishable,
    rehearse,
    write_release,
)
from headcount.release.tidy import refuse_same_names, write_tidy
from headcount.run.limits import refuse_too_large
from headcount.run.note import leave_note, refuse_unrecorded
from headcount.run.receipt import check_receipt, draft_receipt, finished_receipt
from headcount.tabulate import Counts, content_digest, tabulate

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """A config that passed every check, with the data it names: nothing drawn, nothing written."""

    config: Config
    mechanism: Mechanism
    counts: Counts
    public: bool
    remarks: tuple[str, ...] = ()
    reading: Reading = field(default_factory=Reading)
    whole: Counts | None = None
    """Everybody, where households were cut before they were counted."""
    source: str = field(default="", repr=False)
    """Digest of the records behind the counts, for a ledger."""

    @property
    def truth(self) -> Counts:
        """What a release is scored against: people who were cut are an error like any other."""
        return self.counts if self.whole is None else self.whole

    @property
    def people_cut(self) -> int:
        """People left out because their household is too large: for the curator only."""
        return int(self.truth.totals().sum() - self.counts.totals().sum())

    @property
    def guarantee(self) -> Guarantee:
        """What a release would promise, this run's key and backend included."""
        run = self.config.run
        kind = "os" if run.seed is None else "seed"
        return complete_guarantee(self.counts, self.mechanism, key_kind=kind, backend=run.noise)

    @property
    def loss(self) -> Loss | None:
        """The loss to record: under the unit of privacy of the dataset's declared total."""
        run, losses = self.config.run, self.guarantee.losses
        if run.ledger is None or not losses:
            return None
        unit = Ledger.open(run.ledger).dataset(run.dataset).total.unit
        return self.guarantee.loss_for(unit) or losses[0]

    def receipt(self) -> dict[str, Any]:
        """The receipt as far as it is known before anything is drawn."""
        run = self.config.run
        return draft_receipt(
            self.mechanism,
            self.guarantee,
            self.counts,
            backend=run.noise,
            key_kind="os" if run.seed is None else "seed",
            dataset=run.dataset,
            config_digest=config_digest(self.config).hex(),
        )


def plan(config: Config) -> Plan:
    """Read the data a config names and check that it can be protected as asked."""
    (mechanism,) = config.mechanism
    population = config.population.read()
    for statement in population.read_off:
        log.warning(
            "%s: %s is read off the data and published without noise; a public list "
            "(units = ..., levels = [...]), where the kind of population takes one, protects it",
            population.name,
            statement,
        )
    check_publishable(population.schema, population.geography)
    counts = tabulate(cut := cut_for(mechanism, population))
    if isinstance(mechanism, Sampling):
        if config.run.publish:
            refuse_weight(counts.schema, counts.geography)
    else:
        _check_microdata(counts, config.run.publish, population.name)
    if isinstance(mechanism, TopDown) and "measurements" in config.run.publish:
        refuse_same_columns(mechanism, counts.schema, counts.geography)
    try:
        remarks = mechanism.check(counts)
    except TruthError as error:
        # Without the cause: even a traceback would show what is for the curator's eyes.
        raise _refused(RunDirectory(config.run.out), error) from None
    return Plan(
        config,
        mechanism,
        counts,
        population.public,
        remarks,
        population.reading,
        whole=None if cut is population else tabulate(population),
    )


def _refused(directory: RunDirectory, error: TruthError) -> RunError:
    """The details go to ``internal/``, and the terminal is told where."""
    where = directory.note_refusal(str(error))
    return RunError(
        f"{directory.path}: found data that the mechanism refuses, expected data within their "
        f"bounds; {where} says where to look. That a run was refused is itself a function of the "
        f"data: for the curator only"
    )


def _check_microdata(counts: Counts, publish: Sequence[str], name: str) -> None:
    """Refuse people and living quarters that could not be written: before a loss, not after."""
    if not {"microdata", "mdf"} & set(publish):
        return
    if counts.quarters is None:
        raise ConfigError(
            name,
            place="run.publish",
            found="no living quarters to place people in",
            expected="a population with living quarters, or other things to publish",
        )
    if "microdata" in publish:
        refuse_same_names(counts.schema, counts.geography)
    if "mdf" in publish:
        refuse_other_layout(counts.schema, counts.geography, counts.quarters)


def protect_run(config_file: Path, *, progress: Progress = silent) -> Path:
    """Run ``protect`` for a config file; return the run's directory.

    The order is what makes a crash harmless: the run is bound to its data, config and key; the
    spend is recorded; only then is noise drawn. The manifest is written last, then the key is
    destroyed. The same command resumes an unfinished run to the same release, with one spend.
    """
    config = load_config(config_file)
    digest = config_digest(config).hex()
    directory = RunDirectory(config.run.out)
    directory.refuse_other(config_digest=digest)
    planned = None if directory.is_complete else prepare(config)
    ledger = _ledger(config)
    with directory.held():
        directory.refuse_other(config_digest=digest)  # another process may have been here since
        if planned is not None and not directory.is_complete:
            _make(directory, planned, ledger, digest, progress)
            _close(directory, ledger)
            return directory.path
        _close(directory, ledger)
    check_files(directory.release)
    log.info("%s: the release is complete; nothing was drawn or spent again", directory.path)
    return directory.path


def prepare(config: Config) -> Plan:
    """Check all that ``protect`` needs, before it writes: directory, ledger, data, loss, machine.

    What passes here completes: after the loss is recorded only the machine can fail.
    """
    directory = RunDirectory(config.run.out)
    directory.refuse_other(config_digest=config_digest(config).hex())
    ledger = _ledger(config)
    refuse_unrecorded(config.population.data_file, ledger)
    planned = plan(config)
    refuse_too_large(
        planned.mechanism, planned.counts, backend=config.run.noise, out=config.run.out
    )
    check_receipt(planned.receipt())
    rehearse(planned.counts.schema, planned.counts.geography)
    if ledger is None:
        return planned
    planned = replace(planned, source=config.population.source_digest())
    begun = directory.facts()
    run_id = begun.run_id if begun else ""
    if planned.loss is not None and planned.guarantee.exists:
        ledger.afford(config.run.dataset, planned.loss, run_id=run_id)
    ledger.admit(
        config.run.dataset,
        data_digest=content_digest(planned.counts).hex(),
        source_digest=planned.source,
        new_content=config.run.new_content,
        run_id=run_id,
    )
    return planned


def _ledger(config: Config) -> Ledger | None:
    """The ledger a config names, after checking that its dataset is declared there."""
    if config.run.ledger is None:
        return None
    ledger = Ledger.open(config.run.ledger)
    ledger.dataset(config.run.dataset)
    return ledger


def _make(
    directory: RunDirectory,
    planned: Plan,
    ledger: Ledger | None,
    digest: str,
    progress: Progress,
) -> None:
    """Bind, spend, draw, write: in this order."""
    config = planned.config
    draft = planned.receipt()
    data_digest = content_digest(planned.counts)
    facts, key = directory.begin(
        config_digest=digest, data_digest=data_digest.hex(), key=_new_key(config)
    )
    write_text_atomic(directory.internal / "config.json", config_to_json(config))
    if getattr(planned.mechanism, "largest_household", None) is not None:
        cut = {"people left out of households that were cut": planned.people_cut}
        write_text_atomic(directory.internal / "cut.json", json.dumps(cut, indent=2) + "\n")
    if ledger is not None:
        leave_note(config.population.data_file, ledger, config.run.dataset)
        _spend(ledger, planned, facts)
    noise = _noise(config, planned, key, data_digest, directory)
    measured = directory.release / "measurements"
    context = Context(
        engine=LocalEngine(),
        progress=progress,
        workspace=directory.levels,
        measurements=measured if "measurements" in config.run.publish else None,
        provenance=directory.internal / "provenance.parquet",
        witnesses=directory.internal / WITNESSES,
        curator=directory.internal,
    )
    release = protect(planned.counts, planned.mechanism, noise, context=context)
    more = [*sorted(measured.glob("*.parquet")), *_microdata(directory, planned, release, progress)]
    write_account(release, planned.counts, directory.internal)
    receipt = finished_receipt(draft, facts, release, ledger)
    write_release(release, directory.release, receipt=receipt, more=more)


def _microdata(
    directory: RunDirectory, planned: Plan, release: Release, progress: Progress
) -> list[Path]:
    """People and living quarters, in the forms the config asks for: synthetic, or a sample."""
    kinds, quarters = planned.config.run.publish, planned.counts.quarters
    if isinstance(planned.mechanism, Sampling):
        return _sample(directory, planned.mechanism, release, progress) if kinds else []
    if quarters is None:
        return []
    written: list[Path] = []
    for kind, write in (("microdata", write_tidy), ("mdf", write_mdf)):
        if kind in kinds:
            folder = directory.release / kind
            folder.mkdir(parents=True, exist_ok=True)
            written += write(
                release.as_counts().tables[release.geography.leaf],
                schema=release.schema,
                geography=release.geography,
                quarters=quarters,
                folder=folder,
                progress=progress,
            )
    return written


def _sample(
    directory: RunDirectory, mechanism: Sampling, release: Release, progress: Progress
) -> list[Path]:
    """The people whose weighted counts the release holds."""
    (path,) = write_sample(
        release.as_counts().tables[release.geography.leaf],
        fraction=mechanism.fraction,
        schema=release.schema,
        geography=release.geography,
        folder=directory.release / "microdata",
        progress=progress,
    )
    return [path]


def _new_key(config: Config) -> RunKey:
    if config.run.seed is None:
        return RunKey.from_os()
    log.warning("a seeded run is not private: whoever knows the seed can take the noise away")
    return RunKey.from_seed(config.run.seed)


def _noise(
    config: Config, planned: Plan, key: RunKey, data_digest: bytes, directory: RunDirectory
) -> Noise:
    if config.run.noise == "opendp":
        return RecordedNoise(OpenDPNoise(), directory.noise)
    return KeyedNoise(key, planned.mechanism.name, data_digest, config_digest(config))


def _spend(ledger: Ledger, planned: Plan, facts: RunFacts) -> None:
    """Record the spend, before noise is drawn."""
    run = planned.config.run
    ledger.spend(
        run.dataset,
        planned.loss,
        run_id=facts.run_id,
        data_digest=facts.data_digest,
        config_digest=facts.config_digest,
        key_kind=facts.key_kind,
        invariants=planned.guarantee.released_exactly,
        new_content=run.new_content,
        source_digest=planned.source,
    )
    ledger.mark(facts.run_id, SpendState.DRAWN)


def _close(directory: RunDirectory, ledger: Ledger | None) -> None:
    """The last steps of a release that is wholly written; harmless when done twice."""
    directory.finish()
    facts = directory.facts()
    if ledger is not None and facts is not None:
        ledger.mark(facts.run_id, SpendState.COMPLETE)


def kept_config(directory: RunDirectory) -> Config:
    """The config that a run was begun with."""
    kept = directory.internal / "config.json"
    try:
        return read_config(json.loads(kept.read_text(encoding="utf-8")), source=str(kept))
    except ValueError:
        raise RunError(f"{kept}: found a damaged file, expected the run's config") from None
    except ConfigError as error:
        raise RunError(
            f"{kept}: {error.place}: found {error.found}, expected a config as this version of "
            f"headcount writes it (a run that an older version made is read by that version)"
        ) from None

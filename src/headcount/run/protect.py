"""The composition root: a config becomes a release; and notes of what was spent, and where."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from headcount.config.load import (
    NO_FACTS,
    Config,
    config_digest,
    config_to_json,
    load_config,
    read_config,
)
from headcount.engines import Engine, EngineName, LocalEngine
from headcount.errors import ConfigError, RunError, TruthError
from headcount.files import from_json, write_text_atomic
from headcount.mechanisms import Chain, ChainDesign, Context, Tabulated
from headcount.noise import KeyedNoise, KeyKind, RunKey
from headcount.population import Population
from headcount.population.population import ReadSummary
from headcount.privacy import Guarantee, Ledger, Loss, SpendState
from headcount.processes import Progress, silent
from headcount.registry import POPULATIONS
from headcount.release.directory import RunDirectory, RunFacts
from headcount.release.publication import MEASUREMENTS, Publication
from headcount.release.store import check_files
from headcount.run._beforehand import (
    NoNoise,
    check_key_file,
    check_output,
    check_receipt,
    draft_receipt,
    finished_receipt,
    make_release,
    refuse_too_large,
    rehearse,
)
from headcount.run.how_far_off import HowFarOff, how_far_off
from headcount.run.public_facts import Facts, facts_of
from headcount.tabulate import Counts

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """A config that passed every check, with the data it names: nothing drawn, nothing written.

    where
        data     the people that the mechanism protects
        whole    everybody: more than ``data`` where households were cut
    """

    config: Config
    mechanism: Chain
    data: Tabulated
    whole: Tabulated
    public: bool
    reading: ReadSummary = field(default_factory=ReadSummary)

    @cached_property
    def design(self) -> ChainDesign:
        """What is known before any data: made once for a run."""
        return self.mechanism.on(self.counts.domain)

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What the mechanism says of the data; refuses those that it cannot protect."""
        return self.design.check(self.data)

    @cached_property
    def source(self) -> str:
        """Digest of the records behind the counts, for a ledger."""
        return self.config.population.source_digest()

    @property
    def counts(self) -> Counts:
        """The counts that the mechanism protects."""
        return self.data.counts

    @property
    def truth(self) -> Counts:
        """What a release is scored against: people who were cut are an error like any other."""
        return self.whole.counts

    @property
    def publications(self) -> Mapping[str, Publication]:
        """What is published besides counts, as the config asks for it."""
        return self.mechanism.publications(self.config.run.publish)

    @property
    def people_cut(self) -> int:
        """People left out because their household is too large: for the curator only."""
        return int(self.truth.totals().sum() - self.counts.totals().sum())

    @cached_property
    def facts(self) -> Facts | None:
        """What everybody may know of the people."""
        if self.config.public == NO_FACTS:
            return None
        return facts_of(self.config.public, self.config.population, self.counts.domain)

    @cached_property
    def far(self) -> HowFarOff:
        """How far off counts will be, by what is public: what the receipt says."""
        return how_far_off(self.design, self.facts)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What a release would promise, this run's key included."""
        return self.design.promise(key_kind_of(self.config))

    @property
    def loss(self) -> Loss | None:
        """The loss to record: under the unit of privacy of the dataset's declared total."""
        run, losses = self.config.run, self.guarantee.losses
        if run.ledger is None or not losses:
            return None
        unit = Ledger.open(run.ledger).dataset(run.dataset).total.unit
        return self.guarantee.loss_for(unit) or losses[0]

    @cached_property
    def receipt(self) -> Mapping[str, Any]:
        """The receipt as far as it is known before anything is drawn."""
        run = self.config.run
        return draft_receipt(
            self.design,
            self.guarantee,
            key_kind=key_kind_of(self.config),
            dataset=run.dataset,
            config_digest=config_digest(self.config, secret=False).hex(),
            plugins=self.config.plugins,
            far=self.far,
        )


def key_kind_of(config: Config) -> KeyKind:
    """Where the key of a run of a config comes from."""
    return KeyKind.OS if config.run.seed is None else KeyKind.SEED


def read_data(config: Config) -> Prepared:
    """Read the data a config names."""
    mechanism = Chain.of(config.mechanism)
    population = _read(config, mechanism)
    whole = Tabulated.of(population)
    data = mechanism.cut(whole)
    return Prepared(config, mechanism, data, whole, population.public, reading=population.reading)


def prepare_data(config: Config) -> Prepared:
    """Read the data a config names and check that they can be protected as asked."""
    prepared = read_data(config)
    config.run.layout.check(prepared.counts.domain)
    if (keys := prepared.design.last.keys) is not None:
        check_key_file(keys.file, config.run.out)
    for publication in prepared.publications.values():
        publication.check(prepared.data.population)
    try:
        _ = prepared.remarks
    except TruthError as error:
        # Without the cause: even a traceback would show what is for the curator's eyes.
        raise _refused(RunDirectory(config.run.out), error) from None
    return prepared


def _read(config: Config, mechanism: Chain) -> Population:
    """The people, one by one where a step changes them, else counted as they are read."""
    internal = RunDirectory(config.run.out).internal
    new = [one for one in (internal, *internal.absolute().parents) if not one.exists()]
    try:
        with POPULATIONS.naming(config.population):
            if mechanism.steps:
                read = config.population.read()
            else:
                read = config.population.read_counts(engine_named(config.run.engine, internal))
    finally:
        for folder in new:  # which an engine may have needed to hand over work
            with suppress(OSError):
                folder.rmdir()
    read = read.down_to(config.run.lowest)
    domain = replace(read.domain, plugin=POPULATIONS.outside(config.population))
    return replace(read, domain=domain).meaning(config.roles, config.attacker)


def _refused(directory: RunDirectory, error: TruthError) -> RunError:
    """Write the details to ``internal/``; the error names the file."""
    where = directory.note_refusal(str(error))
    return RunError(
        f"{directory.path}: the data violate a bound of the mechanism. Details (confidential) are "
        f"in {where}. Do not publish that this run failed: it reveals something about the data."
    )


def protect_run(
    config_file: Path,
    *,
    engine: EngineName | None = None,
    progress: Progress = silent,
    only_if: str = "",
) -> Path:
    """Run ``protect`` for a config file; return the run's directory.

    The order is what makes a crash harmless: the run is bound to its data, config and key; the
    spend is recorded; only then is noise drawn. The manifest is written last, then the key is
    destroyed. The same command resumes an unfinished run to the same release, with one spend.
    ``engine`` comes before that of the config; ``only_if`` is the SHA-256 of the only file that
    may be run: what a person has confirmed is what is read here, once.
    """
    config = load_config(config_file, only_if=only_if)
    if engine is not None:
        config = replace(config, run=replace(config.run, engine=engine))
    digest = config_digest(config).hex()
    directory = RunDirectory(config.run.out)
    directory.refuse_other(config_digest=digest)
    prepared = None if directory.is_complete else prepare_run(config)
    ledger = _ledger(config)
    with directory.held():
        directory.refuse_other(config_digest=digest)  # another process may have been here since
        if prepared is not None and not directory.is_complete:
            if directory.facts() is None:  # said once: not again by a run that resumes
                _warn_of_lists(prepared)
            _make(directory, prepared, ledger, digest, progress)
            _close(directory, ledger)
            return directory.path
        _close(directory, ledger)
    check_files(directory.release)
    log.info("%s: the release is complete; nothing was drawn or spent again", directory.path)
    return directory.path


def prepare_run(config: Config) -> Prepared:
    """Check all that ``protect`` needs, before it writes: directory, ledger, data, loss, machine.

    What passes here completes: after the loss is recorded only the machine can fail.
    """
    directory = RunDirectory(config.run.out)
    directory.refuse_other(config_digest=config_digest(config).hex())
    check_output(config.run)
    ledger = _ledger(config)
    _refuse_unrecorded(config.population.data_file, ledger, config.run.dataset)
    prepared = prepare_data(config)
    refuse_too_large(prepared.design, out=config.run.out, layout=config.run.layout)
    _check_changes(prepared, begun=directory.facts() is not None)
    check_receipt(draft := prepared.receipt)
    if ledger is not None:
        _admit(prepared, ledger, directory)
    rehearse(
        prepared.data,
        prepared.mechanism,
        NoNoise(key_kind_of(config)),
        directory=directory,
        publications=prepared.publications,
        layout=config.run.layout,
        receipt=draft,
    )
    return prepared


def _admit(prepared: Prepared, ledger: Ledger, directory: RunDirectory) -> None:
    """Refuse a loss or data that the ledger does not allow; whose records are counted is noted."""
    config = prepared.config
    begun = directory.facts()
    run_id = begun.run_id if begun else ""
    if prepared.loss is not None and prepared.guarantee.exists:
        ledger.afford(config.run.dataset, prepared.loss, run_id=run_id)
    ledger.admit(
        config.run.dataset,
        data_digest=prepared.data.digest.hex(),
        source_digest=prepared.source,
        new_content=config.run.new_content,
        run_id=run_id,
    )


def _check_changes(prepared: Prepared, *, begun: bool) -> None:
    """Refuse changed people that do not fit, and a second change of the same people.

    A run that resumes, or is made again from its seed, changes them as it did.
    """
    run = prepared.config.run
    if run.reuse is not None:
        prepared.design.check_changed(prepared.data, run.reuse)
    elif run.seed is None and not begun:
        prepared.design.check_changed(prepared.data)


def _warn_of_lists(prepared: Prepared) -> None:
    """Say what confidential data alone decide, and a release shows without noise."""
    if prepared.counts.domain.read_off and not prepared.public:
        log.warning(
            "read from the data and published without noise: %s (headcount check says more)",
            "; ".join(prepared.counts.domain.read_off),
        )


def _ledger(config: Config) -> Ledger | None:
    """The ledger a config names, after checking that its dataset is declared there."""
    if config.run.ledger is None:
        return None
    ledger = Ledger.open(config.run.ledger)
    ledger.dataset(config.run.dataset)
    return ledger


def _make(
    directory: RunDirectory,
    prepared: Prepared,
    ledger: Ledger | None,
    digest: str,
    progress: Progress,
) -> None:
    """Bind, spend, draw, write: in this order."""
    config, data, mechanism = prepared.config, prepared.data, prepared.mechanism
    draft = prepared.receipt
    facts, key = directory.begin(
        config_digest=digest, data_digest=data.digest.hex(), key=_new_key(config)
    )
    write_text_atomic(directory.internal / "config.json", config_to_json(config))
    if mechanism.cut_to is not None:
        directory.note_cut(people=prepared.people_cut, digest=prepared.whole.digest.hex())
    if prepared.reading.left_out:
        rows = [{"why": why, "rows": number} for why, number in prepared.reading.left_out]
        write_text_atomic(directory.internal / "left-out.json", json.dumps(rows, indent=2) + "\n")
    if ledger is not None:
        _leave_note(config.population.data_file, ledger, config.run.dataset)
        _spend(ledger, prepared, facts)
        _leave_note(config.population.data_file, ledger, config.run.dataset)
    elif not prepared.public:
        _note_without_ledger(config.population.data_file, facts.run_id)
    noise = KeyedNoise(key, mechanism.name, data.digest, config_digest(config))
    measured = directory.release / MEASUREMENTS
    context = Context(
        engine=engine_named(config.run.engine, directory.internal),
        progress=progress,
        workspace=directory.workspace(config.run.workspace, facts.run_id),
        measurements=measured if MEASUREMENTS in config.run.publish else None,
        curator=directory.internal,
        reuse=config.run.reuse,
    )
    try:
        make_release(
            data,
            prepared.design,
            noise,
            folder=directory.release,
            curator=directory.internal,
            context=context,
            publications=prepared.publications,
            layout=config.run.layout,
            receipt=lambda release: finished_receipt(draft, facts, release, ledger),
        )
    except TruthError as error:  # of records that a step has changed
        raise _refused(directory, error) from None


def _new_key(config: Config) -> RunKey:
    if config.run.seed is None:
        return RunKey.from_os()
    log.warning("a seeded run is not private: whoever knows the seed can remove the noise")
    return RunKey.from_seed(config.run.seed)


def _spend(ledger: Ledger, prepared: Prepared, facts: RunFacts) -> None:
    """Record the spend, before noise is drawn."""
    run = prepared.config.run
    ledger.spend(
        run.dataset,
        prepared.loss,
        run_id=facts.run_id,
        data_digest=facts.data_digest,
        config_digest=facts.config_digest,
        key_kind=facts.key_kind,
        invariants=prepared.guarantee.released_exactly,
        new_content=run.new_content,
        source_digest=prepared.source,
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
        tables = from_json(kept.read_text(encoding="utf-8"))
        if isinstance(tables, dict) and MEASUREMENTS in tables:
            raise RunError(
                f"{directory.path}: found a run made from published measurements (headcount "
                f"estimate), which has no data and spent nothing, expected one made by headcount "
                f"protect"
            )
        return read_config(tables, source=str(kept))
    except ValueError:
        raise RunError(f"{kept}: found a damaged file, expected the run's config") from None
    except ConfigError as error:
        raise RunError(
            f"{kept}: {error.place}: found {error.found}, expected a config as this version of "
            f"headcount writes it (a run that an older version made is read by that version)"
        ) from None


def engine_named(name: EngineName | None, folder: Path | None) -> Engine:
    """The engine of that name, with the settings of its platform; None for this machine.

    where
        folder   for files by which work is handed to other processes: as confidential as the
                 data, and gone when the work is done; a temporary one if None
    """
    if name == "spark":
        from headcount.engines.spark import SparkEngine

        return SparkEngine(folder)
    return LocalEngine()


_ENDING = ".ledger.json"
"""Of notes beside data and ledger that say in which ledger releases are recorded, and how many.

So that a config which leaves the ledger out, or names a fresh one, does not go unseen, nor a ledger
that was put back from a backup and has forgotten what was spent since. Every file of data has its
own, with an entry for each dataset that it was released under, and so has the ledger: for data that
lie elsewhere, or in no file. All notes of a folder are read, so that one file knows of spends on
another. Data that are released without any ledger have a note that names none: the second such
release gets a warning.
"""


@dataclass(frozen=True)
class _Spends:
    """How many there were on a dataset, and the run of the last."""

    spends: int = 0
    last_run: str = ""


@dataclass(frozen=True)
class _LedgerNote:
    """What a note knows of a ledger."""

    ledger: str
    identity: str
    datasets: Mapping[str, _Spends]


def _note_of(file: Path) -> Path:
    """Where the note about a file lies: beside the file itself, whatever link leads to it."""
    file = file.resolve()
    return file.with_name(f"{file.name}{_ENDING}")


def _refuse_unrecorded(data: Path | None, ledger: Ledger | None, dataset: str) -> None:
    """Refuse data whose releases are recorded in a ledger that the config does not name.

    Nor may another ledger beside it have the same dataset, nor this one be an older copy, which
    would give back what was spent since.
    """
    if data is not None and (known := _read_note(_note_of(data))) is not None and known.ledger:
        _refuse_another(_note_of(data), known, ledger, next(iter(known.datasets)))
    if ledger is None:
        return
    for place, known in _notes(data):
        if known.ledger and dataset in known.datasets:
            _refuse_another(place, known, ledger, dataset)
    for place, known in _notes(data, ledger.path):
        if known.identity == ledger.identity:
            _refuse_older(place, known, ledger)


def _notes(*files: Path | None) -> Iterator[tuple[Path, _LedgerNote]]:
    """All notes in the folders of some files; damaged ones of other files are only told of."""
    own = [_note_of(file) for file in files if file is not None]
    others = (place for one in own for place in sorted(one.parent.glob(f"*{_ENDING}")))
    for place in dict.fromkeys((*own, *others)):
        try:
            known = _read_note(place)
        except RunError as error:
            if place in own:
                raise
            log.warning("%s", error)
            continue
        if known is not None:
            yield place, known


def _refuse_another(place: Path, known: _LedgerNote, ledger: Ledger | None, dataset: str) -> None:
    if ledger is not None and ledger.identity == known.identity:
        return
    raise ConfigError(
        str(place),
        place="run.ledger",
        found="no ledger" if ledger is None else f"another ledger ({ledger.path})",
        expected=f"ledger = {known.ledger!r} and dataset = {dataset!r}, where releases "
        f"of these data are recorded (delete this note only if they no longer are)",
    )


def _refuse_older(place: Path, known: _LedgerNote, ledger: Ledger) -> None:
    declared = {one.name for one in ledger.datasets()}
    for dataset, noted in known.datasets.items():
        runs = [one.run_id for one in ledger.history(dataset)] if dataset in declared else []
        last = noted.last_run
        if len(runs) >= noted.spends and (not last or last in runs):
            continue
        raise RunError(
            f"{ledger.path}: found a ledger with {len(runs)} spends on {dataset!r} and "
            f"{'' if last in runs else 'not '}run {last}, expected the {noted.spends} that {place} "
            f"knows of, the last of them run {last}: this is an older copy, which would give back "
            "what was spent since. Put the newest copy in its place. If there is none, make a new "
            "ledger whose total is what is left after all releases, also those that this copy has "
            "forgotten (each receipt states its loss), name it in the config and delete the notes "
            f"of the old one (*{_ENDING}, beside data and ledger)"
        )


def _leave_note(data: Path | None, ledger: Ledger, dataset: str) -> None:
    """Write the notes, before and after a spend on a file; where that is not possible, say so.

    Before, so that no spend is without one; after, and before noise is drawn, so that they know of
    this one. A run that is killed in between leaves notes that know less than the ledger.
    """
    runs = [one.run_id for one in ledger.history(dataset)]
    noted = {dataset: _Spends(len(runs), runs[-1] if runs else "")}
    for place in (_note_of(file) for file in (data, ledger.path) if file is not None):
        _write(place, _LedgerNote(str(ledger.path), ledger.identity, noted))


def _note_without_ledger(data: Path | None, run_id: str) -> None:
    """Note a release that no ledger knows of, and warn if there was one before of the same file."""
    if data is None:
        return
    place = _note_of(data)
    known = _read_note(place)
    before = _Spends() if known is None else known.datasets.get("", _Spends())
    if before.last_run == run_id:
        return
    if before.spends:
        log.warning(
            "%s: %d released before without a ledger. What each release loses adds up, and nobody "
            "keeps account: headcount ledger init, then ledger and dataset under [run] "
            "(docs/privacy.md)",
            data,
            before.spends,
        )
    _write(place, _LedgerNote("", "", {"": _Spends(before.spends + 1, run_id)}))


def _write(place: Path, note: _LedgerNote) -> None:
    """Write a note; what it knows of other datasets of the same ledger stays."""
    known = _read_note(place)
    if known is not None and known.identity == note.identity:
        note = replace(note, datasets={**note.datasets, **known.datasets, **note.datasets})
        if note == known:
            return
    try:
        text = json.dumps(asdict(note), indent=2, ensure_ascii=False)
        write_text_atomic(place, f"{text}\n")
    except OSError as error:
        log.warning(
            "%s: cannot be written (%s): a config that leaves the ledger out, or names an older "
            "copy of it, will not be noticed",
            place,
            error.strerror,
        )


def _read_note(place: Path) -> _LedgerNote | None:
    if not place.exists():
        return None
    try:
        known = from_json(place.read_text(encoding="utf-8"))
        return _LedgerNote(
            str(known["ledger"]),
            str(known["identity"]),
            {
                str(name): _Spends(int(one.get("spends", 0)), str(one.get("last_run", "")))
                for name, one in known["datasets"].items()
            },
        )
    except (ValueError, TypeError, AttributeError, KeyError):
        raise RunError(
            f"{place}: found a damaged note, expected the ledger in which releases are recorded"
        ) from None

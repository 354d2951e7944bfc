"""A mechanism is a chain: any pre-tabular steps, then one post-tabular step.

**Stability and group privacy.** Let T be a randomised step on populations with stability k: for any
neighbours D, D' there is a coupling of T(D) and T(D') under which they are, with certainty, at most
k steps between neighbours apart. Let M have a loss that holds between neighbours. Then M(T(.)) has

    pure:   k epsilon          zCDP:   k^2 rho

where
    k   the product of the stabilities of all steps, because couplings compose

Proof. Draw (t, t') from the coupling. For each fixed pair group privacy bounds the loss between
M(t) and M(t') by k epsilon (k steps, each a factor exp(epsilon)), or by k^2 rho (Bun & Steinke
2016, proposition 1.9). M(T(D)) and M(T(D')) are mixtures of these with the same weights. For pure
losses Pr[M(T(D)) in E], the sum of weight x Pr[M(t) in E], is at most exp(k epsilon) times the same
sum with t'. For zCDP the Renyi divergence is jointly quasi-convex (van Erven & Harremoes 2014,
theorem 13): that of two mixtures with the same weights is at most the largest of its parts.

One function protects with it, for a study, a comparison, a run and a user alike (``protect``).

A step without a proved stability leaves a chain without a guarantee about the people. That a sample
leaves most people out may lower the loss (amplification by sampling); none of that is claimed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from hashlib import sha256
from math import prod
from typing import Any, TypeAlias

from headcount.addresses import chain_words, method_words
from headcount.arrays import Ints
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError, PrivacyError
from headcount.files import make_folder, write_text_atomic
from headcount.mechanisms._base import (
    LIVING_QUARTERS,
    Context,
    CountsOutcome,
    Design,
    Making,
    Outcome,
    PostTabular,
    Preserved,
    PreTabular,
    StepDesign,
)
from headcount.mechanisms._measured import (
    ExpectedError,
    PlannedMeasurement,
    refuse_uncut,
    steps_of_all,
)
from headcount.mechanisms._stored_people import CHANGED_PEOPLE, ReusedRun, store_people
from headcount.mechanisms.identity import Identity
from headcount.noise import (
    KeyedNoise,
    KeyKind,
    Law,
    Noise,
    RunKey,
    Stream,
    destroy_run_key,
    save_run_key,
)
from headcount.noise.source import MEASUREMENT, DrawPositions
from headcount.population import Population, cut_households
from headcount.privacy import Guarantee, Loss, PureLoss, UnitOfPrivacy, ZCDPLoss
from headcount.registry import MECHANISMS
from headcount.release import Release
from headcount.release.publication import Publication
from headcount.schema.schema import ALONE
from headcount.tabulate import Counts, Tabulated, tabulate

FOLLOWS_HOUSEHOLD = (
    "an attribute follows from the household, and no step's bound counts what one person changes "
    "for the people they live with"
)

_TO_PUBLISH_PEOPLE = (
    "people can be made of whole counts of 0 or more of every cell: those of a sample, and those "
    "that are bounded to fit living quarters ([[mechanism.bounds]] with caps)"
)
_NO_CREDIT = "no credit is taken for the people whom a sample leaves out"


@dataclass(frozen=True)
class _Unchanged(PreTabular):
    """In place of steps that change records, where there are none: each stands for ``people``."""

    people: Fraction
    name = "unchanged"
    of_households = True

    @property
    def weight(self) -> Fraction:
        """How many people each person of a sample would stand for."""
        return self.people

    def on(self, domain: Domain) -> StepDesign:
        """No guarantee: nobody is protected."""
        none = Guarantee.none("there is nobody")
        return StepDesign(domain=domain, guarantee=none)

    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        """Nobody, as before."""
        return replace(population, weight=self.people)


@dataclass(frozen=True, repr=False)
class Chain:
    """Pre-tabular steps in their order, then the post-tabular step.

    A chain of one step behaves as that method alone: the same noise, the same words.
    """

    steps: tuple[PreTabular, ...] = ()
    last: PostTabular = field(default_factory=Identity)

    def __post_init__(self) -> None:
        lost = ""
        for step in self.steps:
            if step.of_households and lost:
                _refuse_lost(step.name, lost)
            lost = lost if step.of_households else step.name
        if self.cut_to is not None and lost:
            _refuse_lost(self.last.name, lost)
        if self.steps:
            names = " and ".join(step.name for step in self.steps)
            self.last.refuse_changed(by=names, weight=self.weight, households=not lost)

    @classmethod
    def of(cls, mechanism: Mechanisms) -> Chain:
        """A chain from one method, from several in their order, or as it is."""
        if isinstance(mechanism, Chain):
            return mechanism
        if isinstance(mechanism, PreTabular | PostTabular):
            mechanism = (mechanism,)
        given: Any = mechanism
        several = isinstance(given, Iterable) and not isinstance(given, type)
        parts = tuple(given) if several else (given,)
        if not parts:
            raise ConfigError("mechanism", found="no step", expected="at least one")
        for part in parts:
            if not isinstance(part, PreTabular | PostTabular):
                raise ConfigError(
                    "mechanism",
                    place=str(getattr(part, "name", "")),
                    found=_what(part),
                    expected="a method with its settings, such as TopDown(epsilon=1)",
                )
        last = parts[-1]
        before: Sequence[PreTabular | PostTabular] = parts[:-1]
        if isinstance(last, PreTabular):
            before, last = parts, Identity()
        steps = []
        for step in before:
            if not isinstance(step, PreTabular):
                raise ConfigError(
                    "mechanism",
                    place=step.name,
                    found="a method that changes tables before the last step",
                    expected="methods that change records (swapping, sampling), then one that "
                    "changes tables",
                )
            steps.append(step)
        return cls(tuple(steps), last)

    def __repr__(self) -> str:
        return repr(self.parts[0]) if self.single else f"Chain({self.steps!r}, {self.last!r})"

    @property
    def parts(self) -> tuple[PreTabular | PostTabular, ...]:
        """The methods that do anything, in their order: identity only where it is alone."""
        return self.steps if self.ends_in_records else (*self.steps, self.last)

    @property
    def words(self) -> str:
        """What keys the noise."""
        if self.single:
            return method_words(self.parts[0])
        return chain_words(self.steps, self.last)

    def for_a_trial(self, *, of_nobody: bool = False) -> Chain:
        """The same without files that must outlive every run; of nobody no record is changed."""
        steps = tuple(step.for_a_trial() for step in self.steps)
        if of_nobody and steps:
            steps = (_Unchanged(self.weight),)
        return Chain(steps, self.last.for_a_trial(of_nobody=of_nobody))

    @property
    def ends_in_records(self) -> bool:
        """Whether the counts of changed records are published as they are: they stay sparse."""
        return bool(self.steps) and self.last == Identity()

    @property
    def single(self) -> bool:
        """Whether one method does everything."""
        return len(self.parts) == 1

    @property
    def name(self) -> str:
        """The names of the methods: the label of the chain's noise."""
        return "+".join(part.name for part in self.parts)

    @property
    def called(self) -> str:
        """What reports call it."""
        return "+".join(part.called for part in self.parts)

    @property
    def left_to_chance(self) -> str:
        """In which of its methods chance decides anything; "" if in none."""
        some = [part.called for part in self.parts if part.draws_noise]
        return f"chance decides in {' and '.join(some)}" if some else ""

    @property
    def draws_noise(self) -> bool:
        """Whether a release depends on chance at all."""
        return any(part.draws_noise for part in self.parts)

    @property
    def weight(self) -> Fraction:
        """How many people each person stands for after the steps."""
        return prod((step.weight for step in self.steps), start=Fraction(1))

    @property
    def cut_to(self) -> int | None:
        """People to which larger households are cut first; None if they stay as they are."""
        return getattr(self.last, "largest_household", None)

    def publications(self, kinds: Sequence[str]) -> Mapping[str, Publication]:
        """What is to be published besides counts; what cannot be is refused, before data."""
        if self.single:
            offered = self.parts[0].publications()
        else:
            offered = self.last.publications() if self.weight == 1 else {}
        known = f"some of {sorted(offered)}" if offered else "nothing besides the counts"
        for kind in kinds:
            if kind not in offered:
                raise ConfigError(
                    "config",
                    place="run.publish",
                    found=f"{kind!r} with {self.name!r}",
                    expected=f"{known}; {_TO_PUBLISH_PEOPLE}",
                )
        return {kind: offered[kind] for kind in kinds}

    def on(self, domain: Domain) -> ChainDesign:
        """What is known of the chain on a domain before any data."""
        return ChainDesign(
            chain=self,
            domain=domain,
            steps=tuple(step.on(domain) for step in self.steps),
            last=self.last.on(domain),
        )

    def cut(self, data: Tabulated) -> Tabulated:
        """The people as the last step needs them: households cut, where they are its units."""
        if self.cut_to is None or data.population.households is None:
            return data  # without households the mechanism refuses
        cut = cut_households(data.population, largest=self.cut_to)
        return data if cut is data.population else Tabulated.of(cut)

    def noise_of(self, number: int, noise: Noise) -> Noise:
        """The noise of a step, by its position: no two steps ever share a draw."""
        if self.single:
            return noise
        part = self.parts[number] if number < len(self.parts) else self.last
        # Bound to all settings: under one key two chains that differ in an earlier step would
        # else put the same noise on two samples of the same people.
        whole = sha256(self.words.encode()).hexdigest()[:16]
        return _StepNoise(noise, f"step {number + 1} of {whole}: {part.name}")


@dataclass(frozen=True, kw_only=True, eq=False)
class ChainDesign:
    """A chain bound to a domain: the designs of its methods, and what they mean together.

    where
        steps   of the pre-tabular steps, in their order
        last    of the post-tabular step: what is measured, published and needed
    """

    chain: Chain
    domain: Domain
    steps: tuple[StepDesign, ...]
    last: Design

    @cached_property
    def _follows_household(self) -> bool:
        return steps_of_all(self.domain.schema.attributes) != ALONE

    @cached_property
    def stability(self) -> Mapping[UnitOfPrivacy, int]:
        """For a unit of privacy the product of the steps' stabilities; none without a proof."""
        if self.steps and self._follows_household:
            return {}
        return {
            unit: prod(step.stability[unit] for step in self.steps)
            for unit in UnitOfPrivacy
            if all(unit in step.stability for step in self.steps)
        }

    @cached_property
    def plan(self) -> tuple[PlannedMeasurement, ...]:
        """Every measurement, with the loss that it means for the people before all steps."""
        if not self.steps:
            return self.last.plan
        bounds = tuple(self.stability.items())
        return tuple(replace(one, stability=bounds) for one in self.last.plan)

    @cached_property
    def public_text(self) -> str:
        """What a receipt says of the settings."""
        chain, last = self.chain, self.last.public_text or repr(self.chain.last)
        if chain.single:
            return last if not chain.steps else repr(chain.steps[0])
        return f"Chain({chain.steps!r}, {last})"

    @property
    def receipt(self) -> Mapping[str, Any]:
        """What a receipt says besides, of one method; nothing after steps."""
        return {} if self.steps else self.last.receipt

    @cached_property
    def guarantee(self) -> Guarantee:
        """What a release promises about the people before all steps."""
        if self.chain.single:
            return (self.last if not self.steps else self.steps[0]).guarantee
        stated = self.last.guarantee
        return replace(self._before_steps(stated), method=stated.method)

    def promise(self, key_kind: str) -> Guarantee:
        """The guarantee with what a run adds to it: what was read off the data, and its key."""
        domain = self.domain
        others = (domain.plugin, *map(MECHANISMS.outside, self.chain.parts))
        stated = self.guarantee.also_exact(*domain.read_off).relying_on(*filter(None, others))
        if domain.one_person:
            stated = stated.meaning(domain.one_person)
        return stated.seeded() if key_kind == "seed" else stated.from_cipher()

    def _before_steps(self, stated: Guarantee) -> Guarantee:
        """What the promise of the last step means for the people before all others."""
        chain = self.chain
        after = " and ".join(dict.fromkeys(step.name for step in chain.steps))
        exact = self._exact(stated)
        if not stated.losses:
            designs: Sequence[StepDesign | Design] = (*self.steps, self.last)
            reasons = [
                f"{part.name}: {one.guarantee.why_none}"
                for part, one in zip(chain.parts, designs, strict=False)
            ]
            return Guarantee.none("; ".join(dict.fromkeys(reasons))).also_exact(*exact)
        losses = [(loss, self.stability.get(loss.unit)) for loss in stated.losses]
        scaled = [group_loss(loss, k) for loss, k in losses if k is not None]
        if scaled and exact:
            # Group privacy walks from one database to the other by neighbours that all have what
            # is published exactly; the changed records of two neighbours need not have it.
            return Guarantee.none(
                f"{chain.last.name} publishes some counts of the records that {after} made "
                f"exactly, and for that case no guarantee about the people before {after} is proved"
            ).also_exact(*exact)
        if not scaled:
            return Guarantee.none(self._why_none(stated.losses[0].unit)).also_exact(*exact)
        bounds = ", ".join(f"{k} when {loss.unit.phrase}" for loss, k in losses if k is not None)
        return replace(stated, losses=tuple(scaled), released_exactly=exact).meaning(
            f"the people are those before {after}. Each of them can change at most so many of the "
            "records that are then protected, and the loss is multiplied by that number (rho by "
            f"its square): {bounds}",
            *([_NO_CREDIT] if any(step.weight != 1 for step in chain.steps) else []),
        )

    def _exact(self, stated: Guarantee) -> tuple[str, ...]:
        """What is published exactly, and of whom: the people, or the records after some steps.

        Some counts of the last records are published. They are counts of the people too if every
        step leaves them as they are, else of the records after the last step that may change them.
        Noise, or changed tables, hide all but what the last step itself publishes exactly.
        """

        def of_whom(kept: Preserved) -> str:
            changed = [number for number, same in enumerate(leaves) if not same(kept)]
            return self._after(changed[-1] + 1 if changed else 0)

        leaves = [partial(_leaves, *one) for one in zip(self.chain.steps, self.steps, strict=True)]
        known, everywhere = self.last.exact, self._after(len(self.steps))
        said = [
            f"{of_whom(known[what]) if what in known else everywhere}{what}"
            for what in stated.released_exactly
        ]
        chain = self.chain
        if stated.losses or self.last.changes_tables:
            return tuple(said)
        as_far = "" if chain.ends_in_records else f", as far as {chain.last.name} publishes it"
        for number, step in enumerate(self.steps):
            later = leaves[number + 1 :]
            for one in step.preserves:
                if all(same(one) for same in later):
                    said.append(f"{of_whom(one)}{one}{as_far}")
            # In words alone, of a method of somebody else: nothing says what later steps do to it.
            names = " or ".join(each.name for each in chain.steps[number + 1 :])
            said += [
                f"{self._after(number)}{what}{f', unless {names} changes it' if later else ''}"
                f"{as_far}"
                for what in step.guarantee.released_exactly
                if what not in map(str, step.preserves)
            ]
        return tuple(dict.fromkeys(said))

    def _after(self, number: int) -> str:
        """The beginning of a statement about the records after so many steps."""
        names = " and ".join(step.name for step in self.chain.steps[:number])
        return f"after {names}: " if names else ""

    def _why_none(self, unit: UnitOfPrivacy) -> str:
        steps = list(zip(self.chain.steps, self.steps, strict=True))
        open_steps = [(step, one) for step, one in steps if unit not in one.stability]
        reasons = [f"{step.name}: {one.no_bound}" for step, one in open_steps]
        if self._follows_household:
            reasons.append(FOLLOWS_HOUSEHOLD)
        names = " and ".join(dict.fromkeys(step.name for step, _ in open_steps or steps))
        return (
            f"{'; '.join(dict.fromkeys(reasons))}. The noise of {self.chain.last.name} protects "
            f"the records that {names} made, not the people behind them"
        )

    def expected_errors(self) -> tuple[ExpectedError, ...]:
        """How far off counts will be, where a formula says it: of no chain of several steps."""
        return () if self.steps else self.last.expected_errors()

    @property
    def table_bytes(self) -> int:
        """Bytes of the tables that are held whole; changed records stay sparse."""
        return 0 if self.chain.ends_in_records else self.last.table_bytes

    def check_people(self, population: Population) -> None:
        """Refuse people for whom the plan's losses would not be true."""
        if self.last.plan and self.last.neighbours is not None:
            refuse_uncut(population, self.last.neighbours, name=self.chain.last.name)

    def check(self, data: Tabulated) -> tuple[str, ...]:
        """Refuse data that cannot be protected as asked, before any loss is recorded.

        Steps after the first are checked on the people as they are now, for all that does not
        depend on what is drawn.
        """
        chain = self.chain
        self.check_people(data.population)
        if not chain.steps and self.last.keys is not None:
            self.last.keys.check(data.counts)
        remarks = [remark for step in chain.steps for remark in step.check(data.population)]
        return (*remarks, *self.last.check(data.counts))

    def check_changed(self, data: Tabulated, reused: ReusedRun | None = None) -> None:
        """Refuse to change people again under keys by which they have been protected.

        Changed people are refused that other steps made, or that were made of other data.
        """
        steps, keys = self.chain.steps, self.last.keys
        counts = data.counts if reused is None else _counted(reused.people(data, steps), data)
        if steps and keys is not None:
            keys.check(counts, changed=reused is None)

    def changed(self, data: Tabulated, noise: Noise, *, run: int, context: Context) -> Counts:
        """The counts of a run after all pre-tabular steps, which are stored where keys are kept."""
        chain = self.chain
        if not chain.steps:
            return data.counts
        if context.reuse is not None:
            return _counted(context.reuse.people(data, chain.steps), data)
        population = data.population
        for number, step in enumerate(chain.steps):
            own = context
            if len(chain.steps) > 1 and context.curator is not None:
                folder = context.curator / f"{number + 1}-{step.name}"
                make_folder(folder)
                own = replace(context, curator=folder)
            with MECHANISMS.naming(step):
                step.check(population)
                own_noise = chain.noise_of(number, noise)
                changed = step.apply(population, own_noise, run=run, context=own)
                _refuse_lost_keys(step, population, changed)
                population = changed
        if context.curator is not None and self.last.keys is not None:
            store_people(context.curator / CHANGED_PEOPLE, population, data, chain.steps)
        return _counted(population, data)

    def outcomes(
        self, data: Tabulated, noise: Noise, *, runs: range, context: Context | None = None
    ) -> Iterator[Outcome]:
        """What is made in some runs: all at once where no step changes records, else one by one."""
        chain, context = self.chain, context or Context()
        own = chain.noise_of(len(chain.steps), noise)
        for some in (range(run, run + 1) for run in runs) if chain.steps else (runs,):
            counts = self.changed(data, noise, run=some.start, context=context)
            if chain.ends_in_records:
                yield CountsOutcome({counts.level: [counts.matrix]}).weighted(counts.weight)
                continue
            with MECHANISMS.naming(chain.last):
                made = self.last.run(counts, own, runs=some, context=context)
            yield made.weighted(counts.weight)


Mechanism: TypeAlias = PreTabular | PostTabular | Chain
"""What protects: one method, or a chain of them."""
Mechanisms: TypeAlias = Mechanism | Sequence[PreTabular | PostTabular]
"""The same, or several methods in their order."""


def _refuse_lost_keys(step: PreTabular, before: Population, after: Population) -> None:
    """Without their record keys people would be changed by words of cells, in a second way."""
    if before.record_keys is not None and after.record_keys is None:
        raise PrivacyError(
            source=step.name,
            place="record keys",
            found="people who have lost theirs",
            expected="a step after which everybody who is left has their own",
        )


def _leaves(step: PreTabular, design: StepDesign, kept: Preserved) -> bool:
    """Whether some counts are surely the same before and after a step."""
    if kept.of == LIVING_QUARTERS:
        return step.of_households  # dwellings stay where they are, and so does their number
    return any(own.covers(kept, design.domain.geography) for own in design.preserves)


def _counted(changed: Population, data: Tabulated) -> Counts:
    """The counts of changed people, who know where they were before."""
    counts = tabulate(changed)
    if counts.records is None or data.counts.records is None:
        return counts
    return replace(counts, records=replace(counts.records, before=data.counts.records.places()))


def _what(part: object) -> str:
    """What stands where a method should."""
    if isinstance(part, type):
        return f"the class {part.__name__}"
    return f"an object of {type(part).__name__}"


def _refuse_lost(name: str, by: str) -> None:
    raise ConfigError(
        "mechanism",
        place=name,
        found=f"a step that needs households after {by!r}, which does not keep track of "
        f"who lives with whom",
        expected="it before that step",
    )


def group_loss(loss: Loss, k: int) -> Loss:
    """The loss between databases that are k steps apart: k epsilon, or k^2 rho."""
    if k == 1:
        return loss
    match loss:
        case PureLoss():
            return replace(loss, epsilon=k * loss.epsilon)
        case ZCDPLoss():
            return replace(loss, rho=k * k * loss.rho)
    raise PrivacyError(
        f"group privacy: found {loss} over {k} steps, expected a pure epsilon or a rho: delta "
        f"grows by a factor that is not a fraction"
    )


class _StepNoise:
    """The noise of one step of a chain: streams of other steps have other purposes."""

    def __init__(self, source: Noise, label: str) -> None:
        self._source, self._label = source, label
        self.key_kind: KeyKind = source.key_kind
        self.backend = source.backend

    def _own(self, stream: Stream) -> Stream:
        inner = "" if stream.purpose == MEASUREMENT else f", {stream.purpose}"
        return replace(stream, purpose=f"{self._label}{inner}")

    def draw(self, stream: Stream, law: Law, *, draws: range) -> Ints:
        """Whole draws of a law, for the step."""
        return self._source.draw(self._own(stream), law, draws=draws)

    def draw_at(self, stream: Stream, law: Law, *, draw: int, index: DrawPositions) -> Ints:
        """Some values of one draw of a law, for the step."""
        return self._source.draw_at(self._own(stream), law, draw=draw, index=index)


NOISE_AT_ONCE = 1 << 25
"""Bytes of noise of several runs that are held at once: with their copies about 200 MiB."""

SECONDS = "seconds.json"
"""How long each part of a run took: in the curator's folder."""


def protect(
    data: Population | Tabulated,
    mechanism: Mechanisms,
    noise: Noise | None = None,
    *,
    seed: int | None = None,
    run: int = 0,
    context: Context | None = None,
    design: ChainDesign | None = None,
) -> Release:
    """Protect a population once: one run of the mechanism, with its guarantee completed.

    ``design`` is that of the mechanism on the domain of these people, where it is known already.
    Without ``noise`` a fresh key comes from the operating system, and is kept nowhere (but, where
    other processes do the work, in a file of their own while they do); with ``seed`` the same
    release can be made again, and is therefore not private. Nothing is recorded
    in a ledger: ``protect_run`` and ``headcount protect`` do that. The guarantee lists what of the
    public domain was read from the data, says whom noise from a cipher holds against, and says
    that a seeded release is not private. Secret noise that was made for other data is refused:
    the difference of two releases under the same noise is the difference of their truths.
    """
    chain, context = Chain.of(mechanism), context or Context()
    truth = _opened(data, chain, noise)
    if noise is not None and seed is not None:
        raise PrivacyError(source="protect", found="noise and a seed", expected="one or the other")
    with ExitStack() as stack:
        if noise is None:
            key = RunKey.from_os() if seed is None else RunKey.from_seed(seed)
            folder = stack.enter_context(context.engine.private_folder())
            if folder is not None:
                save_run_key(key, folder / "run.key")
                stack.callback(destroy_run_key, folder / "run.key")
            noise = KeyedNoise(key, chain.name, truth.digest, mechanism_digest(chain))
        design = chain.on(truth.counts.domain) if design is None else design
        design.check_people(truth.population)
        (outcome,) = design.outcomes(truth, noise, runs=range(run, run + 1), context=context)
    if outcome.seconds and context.curator is not None:
        text = json.dumps(outcome.seconds, indent=2, ensure_ascii=False) + "\n"
        write_text_atomic(context.curator / SECONDS, text)
    return outcome.release(0, _making(design, noise))


def protect_runs(
    data: Population | Tabulated,
    mechanism: Mechanisms,
    noise: Noise,
    *,
    runs: range,
    context: Context | None = None,
) -> Iterator[Release]:
    """Yield the releases of some runs in their order, each the one that ``protect`` makes.

    Faster than one by one: the noise of many runs is drawn at once, as far as it fits.
    """
    chain = Chain.of(mechanism)
    truth = _opened(data, chain, noise)
    design = chain.on(truth.counts.domain)
    design.check_people(truth.population)
    making = _making(design, noise)
    step = max(1, NOISE_AT_ONCE // max(1, design.last.drawn_bytes))
    for start in range(runs.start, runs.stop, step):
        some = range(start, min(start + step, runs.stop))
        for outcome in design.outcomes(truth, noise, runs=some, context=context):
            for number in range(1 if chain.steps else len(some)):
                yield outcome.release(number, making)


def _opened(data: Population | Tabulated, chain: Chain, noise: Noise | None) -> Tabulated:
    """The people as the chain needs them; noise and people that do not go together are refused."""
    if not isinstance(data, Population | Tabulated):
        raise InputError(
            "protect",
            found=f"a {type(data).__name__} to protect",
            expected="a Population: read(data), or another reader of headcount",
        )
    truth = chain.cut(Tabulated.of(data))
    if isinstance(noise, KeyedNoise) and noise.key_kind == "os":
        _refuse_reuse(noise, truth)
    return truth


def _making(design: ChainDesign, noise: Noise) -> Making:
    chain = design.chain
    return Making(
        domain=design.domain,
        mechanism=design.public_text,
        guarantee=design.promise(noise.key_kind),
        key_kind=noise.key_kind if chain.draws_noise else "none",
        backend=noise.backend if chain.draws_noise else "none",
    )


def mechanism_digest(mechanism: Mechanisms) -> bytes:
    """What stands for the settings of a mechanism among the inputs of its noise."""
    return sha256(Chain.of(mechanism).words.encode()).digest()


def _refuse_reuse(noise: KeyedNoise, data: Tabulated) -> None:
    if noise.data_digest != data.digest:
        raise PrivacyError(
            "noise: found a source made for other data, expected one with the digest of the data "
            "that it protects (leave noise out for a fresh one)"
        )

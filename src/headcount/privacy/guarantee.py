"""What a release promises, or that it promises nothing: one type for both."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headcount.privacy.loss import Loss, UnitOfPrivacy

GENERAL_LIMITS = (
    "what can be inferred about a person from the published statistics even if that person's "
    "record had never been collected",
    "other releases about the same people: losses add up over all of them",
)
"""What no differential-privacy guarantee covers, whatever the mechanism."""

CIPHER_NOISE = "everybody who cannot break the encryption that makes the noise"
WITHOUT_NOISE = "Released without noise"
"""So begins what is exact: in a guarantee, and in the ledger that adds it up."""
SEEDED = "the noise comes from a seed, and whoever knows or guesses the seed can remove it again"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The promise that comes with a release.

    where
        losses                one loss per unit of privacy under which the promise is stated;
                              empty when the method has no differential-privacy guarantee
        released_exactly      what is published without noise (invariants, support read off the
                              data)
        not_covered           what the promise leaves out
        why_none              for methods without a guarantee: why there is none
        holds_against         the attackers it holds against, where these are not all
        not_private_because   why this run breaks the promise of its method (a seeded key);
                              the losses are then what the method would have promised
        unit_means            what one person or one household is in these data
        stated_by             parts of other distributions that the promise relies on
        method                the method, where settings make another one of it than its name says
        made_from             what the release was made from, where that had been published before:
                              the losses are then those of what was published, and nothing was added
    """

    losses: tuple[Loss, ...] = ()
    released_exactly: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = GENERAL_LIMITS
    why_none: str = ""
    holds_against: str = ""
    not_private_because: str = ""
    unit_means: tuple[str, ...] = ()
    stated_by: tuple[str, ...] = ()
    made_from: str = ""
    method: str = ""

    def __post_init__(self) -> None:
        if bool(self.losses) == bool(self.why_none):
            raise ValueError("a guarantee has either losses or a reason why it has none")
        units = [loss.unit for loss in self.losses]
        if len(set(units)) != len(units):
            raise ValueError("a guarantee states one loss for each unit of privacy, found two")

    @classmethod
    def none(cls, why: str) -> Guarantee:
        """The guarantee of a method that has none."""
        return cls(why_none=why)

    @property
    def exists(self) -> bool:
        """Whether the release carries a differential-privacy guarantee that holds."""
        return bool(self.losses) and not self.not_private_because

    def loss_for(self, unit: UnitOfPrivacy) -> Loss | None:
        """The loss stated for a unit of privacy, if the guarantee states one."""
        return next((loss for loss in self.losses if loss.unit is unit), None)

    def also_exact(self, *statements: str) -> Guarantee:
        """The same guarantee with more things listed as released without noise."""
        return replace(self, released_exactly=self.released_exactly + statements)

    def meaning(self, *statements: str) -> Guarantee:
        """The same guarantee with more said about what its unit of privacy is."""
        return replace(self, unit_means=self.unit_means + statements) if self.losses else self

    def relying_on(self, *parts: str) -> Guarantee:
        """The same guarantee, naming parts of other distributions that headcount cannot check."""
        return replace(self, stated_by=self.stated_by + parts)

    def from_cipher(self) -> Guarantee:
        """The same guarantee, saying that its noise is a keyed cipher stream."""
        return replace(self, holds_against=CIPHER_NOISE) if self.losses else self

    def seeded(self) -> Guarantee:
        """The same guarantee, saying that this run is not private because its key is a seed."""
        return replace(self, not_private_because=SEEDED) if self.losses else self

    def sentences(self) -> tuple[str, ...]:
        """The guarantee in plain words, for receipts and reports; the worst news first."""
        said = []
        if self.not_private_because:
            said.append(f"NOT PRIVATE, do not publish: {self.not_private_because}.")
            said += [f"With a secret key the method would have {loss}." for loss in self.losses]
        elif self.losses:
            said += [f"Differential privacy: {loss}." for loss in self.losses]
            if self.holds_against:
                said.append(f"Holds against: {self.holds_against}.")
        else:
            said.append(f"No differential-privacy guarantee: {self.why_none}.")
        if self.made_from:
            said.append(
                f"Made from {self.made_from} alone: no data were read and nothing new is spent; "
                "the loss is theirs."
            )
        if self.method:
            said.append(f"Method: {self.method}.")
        said += [
            f"Relies on {part}, which is not part of headcount and was not checked by it."
            for part in self.stated_by
        ]
        said += [f"The unit of privacy: {what}." for what in self.unit_means]
        said += [f"{WITHOUT_NOISE}: {what}." for what in self.released_exactly]
        said += [f"Not covered: {what}." for what in self.not_covered]
        return tuple(said)


class UnknownGuarantee(Guarantee):
    """What can be said of files that were made elsewhere: nothing of a promise is known."""

    def sentences(self) -> tuple[str, ...]:
        """That nothing is known, and what no promise would cover."""
        return (
            f"Nothing is known of a guarantee: {self.why_none}. Scores say how far off the release "
            "is and what attacks find in it; that they find little proves no privacy.",
            *(f"Not covered: {what}." for what in self.not_covered),
        )

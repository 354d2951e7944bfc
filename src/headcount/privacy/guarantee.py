"""What a release promises, or that it promises nothing: one type for both."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headcount.privacy.loss import PureLoss

GENERAL_LIMITS = (
    "what can be inferred about a person from the published statistics even if that person's "
    "record had never been collected",
    "other releases about the same people: losses add up over all of them",
)
"""What no differential-privacy guarantee covers, whatever the mechanism."""


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The promise that comes with a release.

    where
        losses             one loss per unit of privacy under which the promise is stated;
                           empty when the method has no differential-privacy guarantee
        released_exactly   what is published without noise (invariants, support read off the data)
        not_covered        what the promise leaves out
        why_none           for methods without a guarantee: why there is none
    """

    losses: tuple[PureLoss, ...] = ()
    released_exactly: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = GENERAL_LIMITS
    why_none: str = ""

    def __post_init__(self) -> None:
        if bool(self.losses) == bool(self.why_none):
            raise ValueError("a guarantee has either losses or a reason why it has none")

    @classmethod
    def none(cls, why: str) -> Guarantee:
        """The guarantee of a method that has none."""
        return cls(why_none=why)

    @property
    def exists(self) -> bool:
        """Whether the release carries a differential-privacy guarantee at all."""
        return bool(self.losses)

    def also_exact(self, *statements: str) -> Guarantee:
        """The same guarantee with more things listed as released without noise."""
        return replace(self, released_exactly=self.released_exactly + statements)

    def sentences(self) -> tuple[str, ...]:
        """The guarantee in plain words, for receipts and reports."""
        if self.losses:
            said = [f"Differential privacy: {loss}." for loss in self.losses]
        else:
            said = [f"No differential-privacy guarantee: {self.why_none}."]
        said += [f"Released without noise: {what}." for what in self.released_exactly]
        said += [f"Not covered: {what}." for what in self.not_covered]
        return tuple(said)

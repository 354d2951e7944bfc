"""What a run of petti-flaxman-2020 was about, as the report needs it in words."""

from __future__ import annotations

from dataclasses import dataclass

from headcount.studies.petti_flaxman_2020.report_words import listed

STATE_NAMES = {
    "AL": "Alabama", "AK": "Alaska", "AZ": "Arizona", "AR": "Arkansas", "CA": "California",
    "CO": "Colorado", "CT": "Connecticut", "DE": "Delaware", "DC": "District of Columbia",
    "FL": "Florida", "GA": "Georgia", "HI": "Hawaii", "ID": "Idaho", "IL": "Illinois",
    "IN": "Indiana", "IA": "Iowa", "KS": "Kansas", "KY": "Kentucky", "LA": "Louisiana",
    "ME": "Maine", "MD": "Maryland", "MA": "Massachusetts", "MI": "Michigan", "MN": "Minnesota",
    "MS": "Mississippi", "MO": "Missouri", "MT": "Montana", "NE": "Nebraska", "NV": "Nevada",
    "NH": "New Hampshire", "NJ": "New Jersey", "NM": "New Mexico", "NY": "New York",
    "NC": "North Carolina", "ND": "North Dakota", "OH": "Ohio", "OK": "Oklahoma", "OR": "Oregon",
    "PA": "Pennsylvania", "RI": "Rhode Island", "SC": "South Carolina", "SD": "South Dakota",
    "TN": "Tennessee", "TX": "Texas", "UT": "Utah", "VT": "Vermont", "VA": "Virginia",
    "WA": "Washington", "WV": "West Virginia", "WI": "Wisconsin", "WY": "Wyoming",
}  # fmt: skip
"""By postal abbreviation."""


@dataclass(frozen=True, kw_only=True)
class About:
    """Whom a run covers and how often it was drawn.

    where
        synthetic   made up from published figures; otherwise read from the user's own file
        states      postal abbreviations of the states covered, or their codes
        whole       the nation at full scale, so that the paper's numbers should come out
        public      whether the exact counts may be shown to anyone
    """

    synthetic: bool
    public: bool
    whole: bool
    people: int
    states: tuple[str, ...]
    counties: int
    districts: int
    replicates: int

    @property
    def population(self) -> str:
        """A few words for titles."""
        if self.whole:
            return "a synthetic 1940 census" if self.synthetic else "the 1940 census"
        part = "part of a synthetic 1940 census" if self.synthetic else "part of the 1940 census"
        return f"{part} ({self.covers})"

    @property
    def covers(self) -> str:
        """Which places."""
        many = len(self.states) > 6
        names = [STATE_NAMES.get(state, state) for state in self.states]
        places = f"{len(self.states)} states" if many else listed(names)
        return f"{places}: {self.counties:,} {'county' if self.counties == 1 else 'counties'}"

    def describe(self) -> str:
        """The population in a short paragraph."""
        size = (
            f"{self.people:,} people in {self.districts:,} enumeration districts, "
            f"{self.counties:,} counties and {len(self.states)} "
            f"{'state' if len(self.states) == 1 else 'states'}."
        )
        if self.synthetic:
            return (
                f"{size} They are made up: a generator draws them so that their counts match what "
                "is published of the census of 1940 (its totals, the spread of its counts, its "
                "mixture of races and ethnicities). No real person is in it. It was not fitted to "
                "the size of any error or loss; of the paper's errors it uses only that they add "
                "up to 0 in a state, which limits how many places can be how diverse."
            )
        return f"{size} They are read from your own file of the 1940 census."

    def times(self) -> str:
        """How often each setting was drawn."""
        return "once" if self.replicates == 1 else f"{self.replicates} times"

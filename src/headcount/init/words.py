"""Words in the names of columns. They may forbid a reading; what adds up is what allows one."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headcount.files import parse_toml

SETTING = "HEADCOUNT_WORDS"
"""The environment variable that names a file with more words."""


def _lists() -> dict[str, list[str]]:
    """The words of this package, and those of somebody's own file."""
    files = [Path(__file__).with_name("words.toml")]
    files += [Path(os.environ[SETTING])] if os.environ.get(SETTING) else []
    found: dict[str, list[str]] = {}
    for file in files:
        table: dict[str, Any] = parse_toml(file.read_text(encoding="utf-8"), source=str(file))
        for name, words in table.items():
            found.setdefault(name, []).extend(map(str, words))
    return found


_LISTS = _lists()


_ROLES = ("age", "sex", "race", "origin")


def role_words(name: str) -> list[str]:
    """Words that say what an attribute, or a level of it, is: "age", "sex", "female", "over"."""
    return _LISTS.get(f"role_{name}", [])


PLACES, CODES_OF_PLACES, CODES = (_LISTS[one] for one in ("places", "codes_of_places", "codes"))
COUNTS = [*_LISTS["counts"], *_LISTS["population"]]


def _any(*words: str) -> re.Pattern[str]:
    """One of these words among those of a name (in small letters, parted by blanks)."""
    return _among(" ".join(words).split())


def _among(words: Sequence[str]) -> re.Pattern[str]:
    """One of these among the words of a name; scripts that part no words have it anywhere."""
    parted = [one for one in words if one.isascii() or _PARTED.search(one)]
    others = [one for one in words if one not in parted]
    return re.compile(rf"(?:^| )(?:{'|'.join(parted)})(?: |\d|$)|{'|'.join(others) or '(?!)'}")


_PARTED = re.compile(r"[a-z\u0370-\u052f]")
"""Scripts that part words by blanks: Latin, Greek, Cyrillic."""

CODED = re.compile(r"[A-Za-z]{0,5}_?\d+[A-Za-z_\d]*")
"""Names of columns that are no words: P001002, V12, Q7A."""

OF_PEOPLE = _among([*(w for role in _ROLES for w in role_words(role)), *_LISTS["of_people"]])
"""What people have, and places and homes have not: sex, age, origin and the like."""

TIME = _any(
    "year yr jahr año ano anio année annee anno rok vuosi år aar jaar aasta aastat gads",
    "time tid zeit temps tiempo tempo tijd period periode période periodo zeitraum",
    "date datum fecha dato stichtag quarter quartal kvartal trimestre trimester kwartaal",
    "month monat mes mois maand måned maaned wave welle census vintage season semester",
)
"""When something was counted."""

FILLERS = _any("reference ref census survey of the code id enumeration cd nr no key name")

NO_TIME = re.compile(
    r"birth|born|dob|geb|naiss|nacim|nasc|built|baujahr|arriv|immig|marri|moved|school|grad|since"
    r"|first|entry|age|(^| )nac( |$)|syntym|生年|تاريخ الميلاد"
)
"""Times in somebody's life."""

_THINGS = (
    r"households?|hhs?|dwellings?|housing|families|homes|houses|houselisting|vehicles|cars|computers?"
    r"|televisions?|radios?|phones?|internet|votes?|ballots|schools|farms|buildings|structures|rooms"
    r"|bedrooms|haushalte?|wohnungen|wohngebäude|gebäude|hogares|viviendas|ménages|menages|logements"
    r"|familles|familias|famiglie|abitazioni|huishoudens|woningen|hushåll|husholdninger|boliger"
    r"|talouksia|leibkonnad|domicilios|domicílios|marriages|divorces|births|deaths|geburten"
    r"|sterbefälle|income|wages?|salary|earnings|money|revenue|gdp|density|dichte|rate|ratio|index"
    r"|percent\w*|pct|shares?|anteil|prozent|proportion"
)
_THINGS = "|".join([_THINGS, *_LISTS["things"]])
THINGS = re.compile(rf"(^| )({_THINGS})( |$)|%")
"""Households, homes, events, money and shares: no people."""

OTHER_UNITS = re.compile(
    rf"(^| )({_THINGS}|area\w*|aland|awater|water|land|sq ?km|km ?2|km|sqmi|acres|ha|costs?|price"
    r"|median|mean|average|avg|prop|lat|lon|long|lng|latitude|longitude|x|y|objectid|fid|id|gid"
    r"|codes?|fips|year|units?|fläche|superficie|oppervlakte|areal|shape\w*)( |$)|%|€|\$|£"
)
"""These, and numbers that are no counts at all."""

DWELLING = _any(
    "owned owner owners owning rented renter renters renting vacant occupied unoccupied detached",
    "apartment apartments flat flats dwelling piped electricity toilet mortgage tenancy rooms",
    "bedrooms household households tenure own rent famil eigentümer mieter bewohnt leerstehend",
    "propia alquilada",
)
"""Levels that homes have, and people do not."""

HEAD = re.compile(
    r"(^| )(heads?|(age|sex|race|educ)head|hoh|hhh|hrp|householder|breadwinner|ref(erence)? person"
    r"|chef|jef[ea]|haushaltsvorstand|haupteinkommens\w+|capofamiglia|hoofd|huvudman)( |$)"
)
"""Whoever stands for a household."""

RELATION = re.compile(r"(^| )(relat\w*|relp?|position|stellung|verwandt\w*|lien|parentesco)( |$)")
"""What somebody is in a household."""

POPULATION = _among(_LISTS["population"])
"""Numbers of people."""

PERSON_ID = re.compile(
    r"(^| )((person|pers|individual|simulant|respondent|patient|employee|resident|citizen) ?"
    r"(id|no|nr|num|number|key|code)|pid|pin|nin|personid|personnr|person id)( |$)"
)
"""An id of a person."""

MEASURED = _any(
    "indicator indikator measure measures variable variabel variables series statistic statistics",
    "metric item unit units einheit unidad unité merkmal estimate kpi figure",
)
"""Columns that say what a row counts."""

WEIGHT = re.compile(
    r"(^| )(\w*weights?|\w*wgt\w*|wt|wts|\w*perwt\w*|\w*hhwt\w*|\w*pwt\w*|[a-z]*wt(finl|supp)?\d*"
    r"|pweight\w*|gewicht\w*|hochrechnung\w*|poids|pondera\w*|peso|pesos|vikt|vekt|waga"
    r"|expansion factor|samplerate|sample rate|sampling\w*)( |$)"
)
"""How many people somebody in a sample stands for."""

PERSONAL = re.compile(
    r"(^| )(first ?names?|last ?names?|middle ?names?|full ?names?|surnames?|given ?names?"
    r"|forenames?|maiden ?names?|f ?names?|l ?names?|person names?|cognome"
    r"|fornavn|etternavn|efternavn|voornaam|achternaam|imię|nazwisko|nacimiento|naissance"
    r"|date naissance|vornamen?|nachnamen?|familiennamen?|nombres?|apellidos?|prénoms?"
    r"|prenoms?|noms? de famille|initials?|middle initial|dob|date of birth|birth ?dates?"
    r"|birth ?days?|geburtsdatum|geburtstag|fecha de nacimiento|date de naissance|ssn|itin"
    r"|social security\w*|passport\w*|phones?|telephones?|e ?mails?|street\w*|address\w*"
    r"|given|etunim\w*|sukunim\w*|fecha nac|syntym\w*|氏名|生年月日|الاسم|تاريخ الميلاد"
    r"|house ?number|unit ?number|po ?box|guardian\w*|spouse name|username|national id)( |$)"
    r"|^(names?|nom|nome)$"
)
"""What names or finds a person: neither a place nor an attribute."""

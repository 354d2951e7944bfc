"""What offices of several countries call things, and the signs in which they write numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """The words of one language.

    where
        places      names of three levels of place, from the top down
        total       what stands in place of a level that adds up the others
        sex, marital, group
                    the name of an attribute, then its levels
        age         the name, the word between two ages, what stands after the last
        thousands   signs between thousands, blank for none
        encodings   in which files of that country come
    """

    places: tuple[tuple[str, str, str], ...]
    code: str
    total: tuple[str, ...]
    sex: tuple[str, ...]
    age: tuple[str, str, str]
    marital: tuple[str, ...]
    group: tuple[str, ...]
    population: str
    households: str
    adults: str
    year: str
    date: str
    weight: str
    share: str
    number: str
    unit: str
    title: str
    source: str
    thousands: tuple[str, ...] = ("",)
    decimal: str = "."
    encodings: tuple[str, ...] = ("utf-8",)


ENGLISH = Words(
    (("region", "district", "municipality"), ("State", "County", "Tract")),
    "code",
    ("Total", "All", "TOTAL", "All persons"),
    ("sex", "male", "female"),
    ("age group", "to", "and over"),
    ("marital status", "single", "married", "widowed", "divorced"),
    ("ethnic group", "White", "Black", "Asian", "Mixed", "Other"),
    "population",
    "households",
    "adults",
    "year",
    "census date",
    "weight",
    "share",
    "No.",
    "persons",
    "Population by place, census",
    "Source: census office. Figures are final.",
    ("", ","),
    ".",
    ("utf-8", "utf-8-sig", "cp1252"),
)
GERMAN = Words(
    (("Land", "Kreis", "Gemeinde"), ("Kanton", "Bezirk", "Gemeinde")),
    "Schlüssel",
    ("Insgesamt", "Zusammen", "insgesamt"),
    ("Geschlecht", "männlich", "weiblich"),
    ("Altersgruppe", "bis", "und mehr"),
    ("Familienstand", "ledig", "verheiratet", "verwitwet", "geschieden"),
    ("Religion", "römisch-katholisch", "evangelisch", "muslimisch", "ohne", "sonstige"),
    "Einwohner",
    "Haushalte",
    "Erwachsene",
    "Jahr",
    "Stichtag",
    "Gewicht",
    "Anteil in %",
    "Lfd. Nr.",
    "Anzahl",
    "Bevölkerung nach Gemeinden",
    "Quelle: Statistisches Amt. Vorläufige Ergebnisse.",
    ("", ".", " ", "'"),
    ",",
    ("utf-8", "utf-8-sig", "cp1252"),
)
FRENCH = Words(
    (("région", "département", "commune"),),
    "code géographique",
    ("Ensemble", "Total"),
    ("sexe", "Hommes", "Femmes"),
    ("tranche d'âge", "à", "ou plus"),
    ("état matrimonial", "célibataire", "marié", "veuf", "divorcé"),
    ("nationalité", "Français", "Portugais", "Algériens", "Italiens", "Autres"),
    "population",
    "ménages",
    "majeurs",
    "année",
    "date de recensement",
    "pondération",
    "part (%)",
    "N°",
    "personnes",
    "Population des communes",
    "Source : recensement, exploitation principale",
    ("", " ", "\u202f"),
    ",",
    ("utf-8", "utf-8-sig", "cp1252"),
)
SPANISH = Words(
    (("comunidad", "provincia", "municipio"), ("entidad", "municipio", "localidad")),
    "clave",
    ("Total", "Ambos sexos", "TOTAL"),
    ("sexo", "Hombres", "Mujeres"),
    ("grupo de edad", "a", "y más"),
    ("estado civil", "soltero", "casado", "viudo", "divorciado"),
    ("etnia", "Mestiza", "Indígena", "Afro", "Blanca", "Otra"),
    "población",
    "hogares",
    "mayores de 18",
    "año",
    "fecha",
    "factor de expansión",
    "porcentaje",
    "Núm.",
    "personas",
    "Población por municipio",
    "Fuente: censo de población",
    ("", ".", " "),
    ",",
    ("utf-8", "utf-8-sig", "cp1252"),
)
PORTUGUESE = Words(
    (("UF", "Mesorregião", "Município"), ("distrito", "concelho", "freguesia")),
    "código",
    ("Total", "TOTAL"),
    ("Sexo", "Homens", "Mulheres"),
    ("Grupo de idade", "a", "ou mais"),
    ("Estado civil", "Solteiro", "Casado", "Viúvo", "Divorciado"),
    ("Cor ou raça", "Branca", "Preta", "Parda", "Amarela", "Indígena"),
    "População",
    "Domicílios",
    "Adultos",
    "Ano",
    "Data",
    "Peso amostral",
    "Percentual",
    "Nº",
    "Pessoas",
    "População residente",
    "Fonte: Censo Demográfico",
    ("", "."),
    ",",
    ("utf-8", "cp1252"),
)
HINDI = Words(
    (("Rajya", "Zila", "Tehsil"),),
    "kod",
    ("Kul", "Total"),
    ("Ling", "Purush", "Mahila"),
    ("Aayu varg", "se", "aur adhik"),
    ("Vaivahik sthiti", "Avivahit", "Vivahit", "Vidhva", "Talaqshuda"),
    ("Dharm", "Hindu", "Muslim", "Isai", "Sikh", "Anya"),
    "Jansankhya",
    "Parivar",
    "Vayask",
    "Varsh",
    "Tithi",
    "Bhar",
    "Pratishat",
    "Kram",
    "Vyakti",
    "Jansankhya, zila-var",
    "Srot: Janganana",
    ("", ","),
)
JAPANESE = Words(
    (("都道府県", "郡", "市区町村"),),
    "コード",
    ("総数", "計"),
    ("性別", "男", "女"),
    ("年齢階級", "～", "以上"),
    ("配偶関係", "未婚", "有配偶", "死別", "離別"),
    ("国籍", "日本", "韓国", "中国", "ベトナム", "その他"),
    "人口",
    "世帯数",
    "成人",
    "年次",
    "調査日",
    "乗率",
    "割合",
    "番号",
    "人",
    "国勢調査 人口",
    "出典：統計局",
    ("", ","),
    ".",
    ("utf-8", "utf-8-sig", "shift_jis"),
)
ARABIC = Words(
    (("المحافظة", "المديرية", "القرية"),),
    "الرمز",
    ("المجموع", "الإجمالي"),
    ("الجنس", "ذكور", "إناث"),
    ("الفئة العمرية", "إلى", "فأكثر"),
    ("الحالة الزوجية", "أعزب", "متزوج", "أرمل", "مطلق"),
    ("الجنسية", "مصري", "سوري", "سوداني", "هندي", "أخرى"),
    "السكان",
    "الأسر",
    "البالغون",
    "السنة",
    "التاريخ",
    "الوزن",
    "النسبة",
    "م",
    "نسمة",
    "السكان حسب المحافظة",
    "المصدر: التعداد",
    ("", ","),
    ".",
    ("utf-8", "utf-8-sig", "cp1256"),
)
LANGUAGES = {
    "en": ENGLISH,
    "de": GERMAN,
    "fr": FRENCH,
    "es": SPANISH,
    "pt": PORTUGUESE,
    "hi": HINDI,
    "ja": JAPANESE,
    "ar": ARABIC,
}

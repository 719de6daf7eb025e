"""The 15 UCI tables of the ArcGrad paper: counts, checksums and sources."""

from __future__ import annotations

from softmargin.data.entry import Entry, Layout
from softmargin.data.published_sources import RECIPES
from softmargin.data.readers.tables import TableFacts

# file stem: title, UCI id (0: withdrawn), features, rows of the file, paper's class counts, sha256
_TABLES: dict[str, tuple[str, int, int, int, dict[str, int], str]] = {
    "pima_indians_diabetes": (
        "Pima Indians Diabetes",
        0,
        8,
        768,
        {"negative": 262, "positive": 130},
        "45547297b7a7f8cb5f6c5f1e1ea4e6ee7de7ee3868db94471a8a786daca5fd52",
    ),
    "hayes_roth": (
        "Hayes-Roth",
        44,
        4,
        160,
        {"1": 65, "2": 64, "3": 31},
        "e314062ad7271d72facc8cd08a194989a77a4371dbb097ce107d866059587b18",
    ),
    "user_knowledge_modeling": (
        "User Knowledge Modeling",
        257,
        5,
        403,
        {"high": 102, "low": 129, "middle": 122, "very_low": 50},
        "3d2e7c9e435f449f0e7e54a9e4e1b671d32f4034b88e4773c82d0be96b7152e8",
    ),
    "breast_cancer_wisconsin_prognostic": (
        "Breast Cancer Wisconsin (Prognostic)",
        16,
        33,
        198,
        {"N": 148, "R": 46},
        "7f33a7d9a046cf5101c4b645a0e68d4d3332891b5109d13b8856ab4d27c3f094",
    ),
    "wholesale_customers": (
        "Wholesale customers",
        292,
        7,
        440,
        {"horeca": 298, "retail": 142},
        "2d549f898b6453816901ce9a2d37b18d39732ddac5c04b09956d644ea046a6dc",
    ),
    "teaching_assistant_evaluation": (
        "Teaching Assistant Evaluation",
        100,
        5,
        151,
        {"high": 52, "low": 49, "medium": 50},
        "c2c4391fb154f20e3a4a351e8c13676444c15117b08b46a6b9af3fc87e5ee30e",
    ),
    "banknote_authentication": (
        "Banknote Authentication",
        267,
        4,
        1372,
        {"0": 762, "1": 610},
        "a4e6eb57f00dc0c5696badf6553001e8871644b5b98ab1b2869054af1d255125",
    ),
    "congressional_voting_records": (
        "Congressional Voting Records 1984",
        105,
        16,
        435,
        {"democrat": 124, "republican": 108},
        "189331596382d4053663537e01870e07e42d920ee0696903c3eaf19964acf8ae",
    ),
    "website_phishing": (
        "Website Phishing",
        379,
        9,
        1353,
        {"legitimate": 548, "phishing": 702, "suspicious": 103},
        "8fd46c4200ae0d39e6683088b677f74c3cb745d6f53f5a2530b3347713cd48b0",
    ),
    "haberman": (
        "Haberman's Survival",
        43,
        3,
        306,
        {"died_5y": 81, "survived_5y": 225},
        "c1637ef9ffe56b99b7b19e8b8047ff8013c281de0905711f7d0b989792293bc2",
    ),
    "iris": (
        "Iris as at UCI",
        53,
        4,
        150,
        {"Iris-setosa": 50, "Iris-versicolor": 50, "Iris-virginica": 50},
        "e1412f8c8c69c78fea91c42d8732f7edeb182234e9a67261b29617cc6097cc7b",
    ),
    "breast_tissue": (
        "Breast Tissue",
        192,
        9,
        106,
        {"adi": 22, "car": 21, "con": 14, "fad": 15, "gla": 16, "mas": 18},
        "c2610f2ce1322eb41faaa48f526540dbebf141ebaba3371084dc99099eaab979",
    ),
    "vertebral_column": (
        "Vertebral Column, three classes",
        212,
        6,
        310,
        {"DH": 60, "NO": 100, "SL": 150},
        "6c2ad5c883548336407be017627316c5350dc62f4b2b512baf64fcca398fcada",
    ),
    "forest_type_mapping": (
        "Forest Type Mapping",
        333,
        27,
        523,
        {"d": 159, "h": 86, "o": 83, "s": 195},
        "194de4d085e5f6a2cf0726ea529c80b2db509c921cd51973a77f313a9fe484ce",
    ),
    "balance_scale": (
        "Balance Scale",
        12,
        4,
        625,
        {"B": 49, "L": 288, "R": 288},
        "890a1daea942695a0bfeaa445963d936cb8feaeca337da9a833a95f65668f246",
    ),
}

_ZERO_IS_MISSING = {
    "pima_indians_diabetes": ("glucose", "blood_pressure", "skin_thickness", "insulin", "bmi")
}

_NOTES = {
    "hayes_roth": "hobby is random by construction: without('hobby') leaves the 3 other features",
    "breast_cancer_wisconsin_prognostic": "the feature time tells something about the class",
    "iris": "two rows differ from Fisher's paper, as they do at UCI",
}


def _entry(stem: str) -> Entry:
    title, number, features, rows, counts, sha256 = _TABLES[stem]
    page = "https://archive.ics.uci.edu" + (f"/dataset/{number}" if number else "")
    return Entry(
        name=f"uci/{stem}",
        title=title,
        num_classes=len(counts),
        train=sum(counts.values()),
        test=0,
        source=page,
        licence="CC BY 4.0" if number else "withdrawn from UCI; elsewhere given as CC0",
        layouts=(Layout("uci", {f"{stem}.csv": f"sha256:{sha256}"}, note=_NOTES.get(stem, "")),),
        facts=TableFacts(
            rows, sum(counts.values()), features, counts, _ZERO_IS_MISSING.get(stem, ())
        ),
        recipe=RECIPES[stem],
        group="uci",
    )


TABLES = tuple(_entry(stem) for stem in _TABLES)

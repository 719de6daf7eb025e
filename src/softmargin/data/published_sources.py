"""Where the 15 UCI tables are published, and in which form.

UCI's archive comes first: the zip of the table's page, then the file at its old address. Some have
a copy elsewhere too. No source is trusted: what a table must be is its checksum in
``published_tables``, so a wrong address costs a failed attempt and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from softmargin.data.published_columns import COLUMNS
from softmargin.data.readers import raw
from softmargin.data.recipe import Part, Recipe, Source, pointed

_PAGE = "https://archive.ics.uci.edu/static/public"
_OLD = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_OPENML = "https://www.openml.org/data/download"
_BROWNLEE = "https://raw.githubusercontent.com/jbrownlee/Datasets/master"

_Form = tuple[raw.RawReader, int, slice]
"""Format, column of the class, columns of the features."""
_CLASS_LAST: _Form = (raw.read_commas, -1, slice(None, -1))
_CLASS_FIRST: _Form = (raw.read_commas, 0, slice(1, None))
_HEADER_CLASS_FIRST: _Form = (raw.read_commas_after_header, 0, slice(1, None))
_ARFF: _Form = (raw.read_arff, -1, slice(None, -1))


def _uci(page: str, folder: str, *files: tuple[str, _Form]) -> tuple[Source, Source]:
    """Return the zip of a page with these files in it, and the files at their old addresses."""
    return (
        tuple(Part(f"{_PAGE}/{page}.zip", *form, member=file) for file, form in files),
        tuple(Part(f"{_OLD}/{folder}/{quote(file)}", *form) for file, form in files),
    )


def _uci_zips(page: str, old: str, *files: tuple[str, _Form]) -> tuple[Source, Source]:
    """Return the same where the old address has a zip, too."""
    addresses = (f"{_PAGE}/{page}.zip", f"{_OLD}/{old}")
    first, second = (
        tuple(Part(url, *form, member=file) for file, form in files) for url in addresses
    )
    return first, second


def _elsewhere(url: str, form: _Form = _ARFF, classes: Mapping[str, str] | None = None) -> Source:
    return (Part(url, *form, classes=classes),)


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _sheet(name: str, label: int, features: slice) -> _Form:
    return (raw.sheet(name), label, features)


# the word for a class varies from sheet to sheet
_KNOWLEDGE = {
    word: word.lower().replace(" ", "_")
    for plain in ("very_low", "Very Low", "low", "Middle", "High")
    for word in (plain, plain.lower(), plain.title())
}
_KNOWLEDGE_FILE = "Data_User_Modeling_Dataset_Hamdi Tolga KAHRAMAN.xls"
_OUTCOME = {"0": "negative", "1": "positive"}

RECIPES = {
    "pima_indians_diabetes": Recipe(
        COLUMNS["pima_indians_diabetes"],
        {"tested_negative": "negative", "tested_positive": "positive"},
        (
            _elsewhere(f"{_OPENML}/37/dataset_37_diabetes.arff"),
            _elsewhere(f"{_BROWNLEE}/pima-indians-diabetes.data.csv", _CLASS_LAST, _OUTCOME),
        ),
        columns={"bmi": pointed, "pedigree": "{:.3f}".format},
    ),
    "hayes_roth": Recipe(
        COLUMNS["hayes_roth"],
        _same("1", "2", "3"),
        _uci(
            "44/hayes+roth",
            "hayes-roth",
            # only these rows start with the number of the person
            ("hayes-roth.data", (raw.read_commas, -1, slice(1, -1))),
            ("hayes-roth.test", _CLASS_LAST),
        ),
    ),
    "user_knowledge_modeling": Recipe(
        COLUMNS["user_knowledge_modeling"],
        _KNOWLEDGE,
        _uci(
            "257/user+knowledge+modeling",
            "00257",
            # to the right of the class stand remarks
            (_KNOWLEDGE_FILE, _sheet("Training_Data", 5, slice(0, 5))),
            (_KNOWLEDGE_FILE, _sheet("Test_Data", 5, slice(0, 5))),
        ),
        number=pointed,
    ),
    "breast_cancer_wisconsin_prognostic": Recipe(
        COLUMNS["breast_cancer_wisconsin_prognostic"],
        _same("N", "R"),
        _uci(
            "16/breast+cancer+wisconsin+prognostic",
            "breast-cancer-wisconsin",
            ("wpbc.data", (raw.read_commas, 1, slice(2, None))),
        ),
    ),
    "wholesale_customers": Recipe(
        COLUMNS["wholesale_customers"],
        {"1": "horeca", "2": "retail"},
        _uci(
            "292/wholesale+customers",
            "00292",
            ("Wholesale customers data.csv", _HEADER_CLASS_FIRST),
        ),
    ),
    "teaching_assistant_evaluation": Recipe(
        COLUMNS["teaching_assistant_evaluation"],
        {"1": "low", "2": "medium", "3": "high"},
        (
            *_uci("100/teaching+assistant+evaluation", "tae", ("tae.data", _CLASS_LAST)),
            _elsewhere(f"{_OPENML}/48/dataset_48_tae.arff"),
        ),
    ),
    "banknote_authentication": Recipe(
        COLUMNS["banknote_authentication"],
        _same("0", "1"),
        (
            *_uci(
                "267/banknote+authentication",
                "00267",
                ("data_banknote_authentication.txt", _CLASS_LAST),
            ),
            _elsewhere(f"{_OPENML}/1586223/php50jXam", classes={"1": "0", "2": "1"}),
        ),
    ),
    "congressional_voting_records": Recipe(
        COLUMNS["congressional_voting_records"],
        _same("democrat", "republican"),
        (
            *_uci(
                "105/congressional+voting+records",
                "voting-records",
                ("house-votes-84.data", _CLASS_FIRST),
            ),
            _elsewhere(f"{_OPENML}/56/dataset_56_vote.arff"),
        ),
        cells={"?": "", "y": "1", "n": "0"},
    ),
    "website_phishing": Recipe(
        COLUMNS["website_phishing"],
        {"-1": "phishing", "0": "suspicious", "1": "legitimate"},
        _uci("379/website+phishing", "00379", ("PhishingData.arff", _ARFF)),
    ),
    "haberman": Recipe(
        COLUMNS["haberman"],
        {"1": "survived_5y", "2": "died_5y"},
        (
            *_uci("43/haberman+s+survival", "haberman", ("haberman.data", _CLASS_LAST)),
            _elsewhere(f"{_OPENML}/43/dataset_43_haberman.arff"),
        ),
    ),
    "iris": Recipe(
        COLUMNS["iris"],
        _same("Iris-setosa", "Iris-versicolor", "Iris-virginica"),
        (
            *_uci("53/iris", "iris", ("iris.data", _CLASS_LAST)),
            _elsewhere(f"{_OPENML}/61/dataset_61_iris.arff"),
        ),
        number=pointed,
    ),
    "breast_tissue": Recipe(
        COLUMNS["breast_tissue"],
        _same("adi", "car", "con", "fad", "gla", "mas"),
        _uci(
            "192/breast+tissue",
            "00192",
            ("BreastTissue.xls", _sheet("Data", 1, slice(2, 11))),
        ),
        number=pointed,
    ),
    "vertebral_column": Recipe(
        COLUMNS["vertebral_column"],
        _same("DH", "NO", "SL"),
        _uci_zips(
            "212/vertebral+column",
            "00212/vertebral_column_data.zip",
            ("column_3C.dat", (raw.read_blanks, -1, slice(None, -1))),
        ),
    ),
    "forest_type_mapping": Recipe(
        COLUMNS["forest_type_mapping"],
        _same("d", "h", "o", "s"),
        _uci_zips(
            "333/forest+type+mapping",
            "00333/ForestTypes.zip",
            ("training.csv", _HEADER_CLASS_FIRST),
            ("testing.csv", _HEADER_CLASS_FIRST),
        ),
    ),
    "balance_scale": Recipe(
        COLUMNS["balance_scale"],
        _same("B", "L", "R"),
        (
            *_uci("12/balance+scale", "balance-scale", ("balance-scale.data", _CLASS_FIRST)),
            _elsewhere(f"{_OPENML}/11/dataset_11_balance-scale.arff"),
        ),
    ),
}

"""The UCI tables as their sources publish them, made from our CSVs or made up.

Written down here once more and apart from ``published_sources``: file names, column orders and
words are what the archives have, so that a slip in a recipe shows.
"""

import csv
import io
import random

from data_files import zip_of
from xls_files import workbook

CODES = {
    "teaching_assistant_evaluation": {"low": "1", "medium": "2", "high": "3"},
    "wholesale_customers": {"horeca": "1", "retail": "2"},
    "website_phishing": {"phishing": "-1", "suspicious": "0", "legitimate": "1"},
    "haberman": {"survived_5y": "1", "died_5y": "2"},
}


def made_up(stem, features, classes, rows=14):
    """Return a header and rows like those of a table, with every class in them."""
    drawn = random.Random(stem)
    whole = [f"{drawn.randrange(100)}" for _ in range(rows * features)]
    if stem in ("iris", "user_knowledge_modeling", "breast_tissue"):
        whole = [repr(float(cell) / 10) for cell in whole]
    elif stem in ("vertebral_column", "banknote_authentication"):
        whole = [f"{float(cell) / 7:.2f}".rstrip("0").rstrip(".") for cell in whole]
    elif stem == "congressional_voting_records":
        whole = [drawn.choice(["0", "1", ""]) for _ in whole]
    found = []
    for i in range(rows):
        cells = whole[i * features : (i + 1) * features]
        if stem == "pima_indians_diabetes":
            cells[5:7] = f"{drawn.randrange(300) / 10:.1f}", f"{drawn.random():.3f}"
        if stem == "breast_cancer_wisconsin_prognostic" and i == 3:
            cells[-1] = ""
        found.append([*cells, sorted(classes)[i % len(classes)]])
    return found


def csv_of(header, rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode()


def lines(rows, between=","):
    return "".join(between.join(row) + "\n" for row in rows).encode()


def arff(rows, quote=""):
    """Return an ARFF file as Weka writes it, with remarks, nominal attributes and missing cells."""
    cells = [[f"{quote}{cell}{quote}" if cell else "?" for cell in row] for row in rows]
    head = b"% Title: a table\n%\n@relation 'a table'\n\n"
    head += b"".join(b"@attribute a%d {1,2}\n" % i for i in range(len(rows[0])))
    return head + b"\n@DATA\n%\n" + lines(cells) + b"%\n%\n"


def published(stem, rows):
    """Return {address or its end: content} of everything that publishes these rows."""
    codes = CODES.get(stem, {})
    coded = [[*row[:-1], codes.get(row[-1], row[-1])] for row in rows]
    first = [[row[-1], *row[:-1]] for row in coded]
    return {**_files(stem, coded, first)}


def _files(stem, rows, first):
    if stem == "pima_indians_diabetes":
        words = [[*row[:-1], f"tested_{row[-1]}"] for row in rows]
        numbers = [[*row[:-1], str(int(row[-1] == "positive"))] for row in rows]
        return {"dataset_37_diabetes.arff": arff(words), "diabetes.data.csv": lines(numbers)}
    if stem == "hayes_roth":
        cut = len(rows) * 132 // 160
        train = lines([str(i), *row] for i, row in enumerate(rows[:cut]))
        test = lines(rows[cut:])
        files = {"hayes-roth.data": train, "hayes-roth.names": b"text", "hayes-roth.test": test}
        return {"44/hayes+roth.zip": zip_of(files), **files}
    if stem == "user_knowledge_modeling":
        return _both("257/user+knowledge+modeling.zip", _knowledge(rows))
    if stem == "breast_cancer_wisconsin_prognostic":
        raw = [[str(i), row[-1], *(cell or "?" for cell in row[:-1])] for i, row in enumerate(rows)]
        files = {"wpbc.data": lines(raw), "wpbc.names": b"text"}
        return {"16/breast+cancer+wisconsin+prognostic.zip": zip_of(files), **files}
    if stem == "wholesale_customers":
        names = "Channel Region Fresh Milk Grocery Frozen Detergents_Paper Delicassen"
        table = lines([names.split(), *first]).replace(b"\n", b"\r\n")
        return _both("292/wholesale+customers.zip", {"Wholesale customers data.csv": table})
    if stem == "breast_tissue":
        return _both("192/breast+tissue.zip", {"BreastTissue.xls": _tissue(rows)})
    if stem == "vertebral_column":
        archive = zip_of({"column_3C.dat": lines(rows, " "), "column_2C.dat": b"1 AB\n"})
        return {"212/vertebral+column.zip": archive, "00212/vertebral_column_data.zip": archive}
    if stem == "forest_type_mapping":
        return _forest([[f"{row[0]} ", *row[1:]] for row in first])
    return _plain(stem, rows, first)


def _plain(stem, rows, first):
    """Return what is published as one file and, for most, at OpenML."""
    if stem == "teaching_assistant_evaluation":
        files = _both("100/teaching+assistant+evaluation.zip", {"tae.data": lines(rows)})
        return {**files, "dataset_48_tae.arff": arff(rows)}
    if stem == "banknote_authentication":
        table = {"data_banknote_authentication.txt": lines(rows).replace(b"\n", b"\r\n")[:-2]}
        other = [[*row[:-1], str(1 + int(row[-1]))] for row in rows]
        return {**_both("267/banknote+authentication.zip", table), "php50jXam": arff(other)}
    if stem == "congressional_voting_records":
        words = {"1": "y", "0": "n", "": "?"}
        votes = [[row[0], *(words[cell] for cell in row[1:])] for row in first]
        last = [[*("" if cell == "?" else cell for cell in row[1:]), row[0]] for row in votes]
        table = {"house-votes-84.data": lines(votes)}
        files = _both("105/congressional+voting+records.zip", table)
        return {**files, "dataset_56_vote.arff": arff(last, "'")}
    if stem == "website_phishing":
        return _both("379/website+phishing.zip", {"PhishingData.arff": arff(rows)})
    if stem == "haberman":
        files = _both("43/haberman+s+survival.zip", {"haberman.data": lines(rows)})
        return {**files, "dataset_43_haberman.arff": arff(rows)}
    if stem == "iris":
        files = _both("53/iris.zip", {"iris.data": lines(rows) + b"\n", "bezdekIris.data": b"1,2"})
        return {**files, "dataset_61_iris.arff": arff(rows)}
    assert stem == "balance_scale"
    files = _both("12/balance+scale.zip", {"balance-scale.data": lines(first)})
    floats = [[*(f"{cell}.0" for cell in row[:-1]), row[-1]] for row in rows]
    return {**files, "dataset_11_balance-scale.arff": arff(floats)}


def _both(address, files):
    """Return files in their zip, in which some are in a folder, and alone."""
    return {
        address: zip_of({f"folder/{name}": content for name, content in files.items()}),
        **files,
    }


def _knowledge(rows):
    names = {"low": "Low", "middle": "Middle", "high": "High"}
    words = [
        [
            *map(float, row[:-1]),
            names.get(row[-1], "Very Low" if i % 2 else "very_low"),
            "",
            "a remark",
        ]
        for i, row in enumerate(rows)
    ]
    head = ["STG", "SCG", "STR", "LPR", "PEG", " UNS", "", "Attribute Information:"]
    cut = len(rows) * 258 // 403
    sheets = {
        "Information": [["remarks"]],
        "Training_Data": [head, *words[:cut]],
        "Test_Data": [head, *words[cut:]],
    }
    return {"Data_User_Modeling_Dataset_Hamdi Tolga KAHRAMAN.xls": workbook(sheets)}


def _tissue(rows):
    head = ["Case #", "Class", "I0", "PA500", "HFS", "DA", "Area", "A/DA", "Max IP", "DR", "P"]
    table = [[float(i), row[-1], *map(float, row[:-1])] for i, row in enumerate(rows, start=1)]
    return workbook({"Description": [["remarks"]], "Data": [head, *table]})


def _forest(rows):
    cut = len(rows) * 198 // 523
    bands = [f"b{i}" for i in range(1, 10)]
    head = [
        "class",
        *(f"{kind}{b}" for kind in ("", "pred_minus_obs_H_", "pred_minus_obs_S_") for b in bands),
    ]
    files = {
        "testing.csv": lines([head, *rows[cut:]]),
        "training.csv": lines([head, *rows[:cut]]),
    }
    archive = zip_of(files)
    return {"333/forest+type+mapping.zip": archive, "00333/ForestTypes.zip": archive, **files}

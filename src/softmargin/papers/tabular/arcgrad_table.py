"""Table I of the ArcGrad paper as data: 15 UCI tables, seven methods, accuracy in percent."""

from __future__ import annotations

from dataclasses import dataclass

PAPER_METHODS = ("Soft", "Center", "M-Soft", "ArcFace", "AdaCos", "ArcGrad 30", "ArcGrad 5")
PAPER_AVERAGES = (79.56, 79.34, 80.31, 78.61, 67.89, 82.44, 82.50)
PAPER_WINS = (1, 1, 2, 1, 2, 1, 7)


@dataclass(frozen=True)
class PaperRow:
    """One line of the table.

    Attributes:
        name: the paper's name of the data set.
        data: its name in :mod:`softmargin.data`.
        classes: number of classes.
        rows: number of samples that the paper counts.
        mean: mean accuracy by method, in the order of ``PAPER_METHODS``.
        sd: the number printed after ±.
        without: features that the paper's count of features leaves out.
    """

    name: str
    data: str
    classes: int
    rows: int
    mean: tuple[float, ...]
    sd: tuple[float, ...]
    without: tuple[str, ...] = ()


PAPER_TABLE = (
    PaperRow(
        "PimaIndiansDiabetes",
        "uci/pima_indians_diabetes",
        2,
        392,
        (77.81, 77.78, 77.87, 74.64, 50.42, 77.85, 78.42),
        (5.60, 5.84, 5.77, 11.93, 17.67, 6.19, 6.08),
    ),
    PaperRow(
        "Hayes-Roth",
        "uci/hayes_roth",
        3,
        160,
        (57.16, 57.83, 59.11, 72.28, 72.59, 79.2, 79.32),
        (12.51, 13.68, 12.9, 19.38, 13.8, 12.98, 12.34),
        without=("hobby",),
    ),
    PaperRow(
        "UserKnowledgeModeling",
        "uci/user_knowledge_modeling",
        4,
        403,
        (94.57, 94.12, 96.00, 94.66, 91.67, 95.81, 95.95),
        (7.29, 5.39, 2.67, 8.3, 5.22, 2.59, 2.39),
    ),
    PaperRow(
        "BreastCancerWisconsin",
        "uci/breast_cancer_wisconsin_prognostic",
        2,
        194,
        (73.22, 73.15, 73.05, 70.11, 53.61, 71.4, 70.75),
        (17.23, 17.43, 18.34, 17.67, 24.22, 17.13, 17.05),
    ),
    PaperRow(
        "WholesaleCustomers",
        "uci/wholesale_customers",
        2,
        440,
        (86.64, 87.91, 87.96, 80.77, 46.3, 89.47, 89.11),
        (7.35, 6.87, 6.68, 19.47, 16.52, 5.55, 5.22),
    ),
    PaperRow(
        "TeachingAssistantEvaluation",
        "uci/teaching_assistant_evaluation",
        3,
        151,
        (53.40, 52.44, 54.06, 38.40, 55.62, 53.19, 53.81),
        (14.26, 13.63, 14.98, 10.89, 14.47, 14.24, 12.28),
    ),
    PaperRow(
        "BanknoteAuthentication",
        "uci/banknote_authentication",
        2,
        1372,
        (98.64, 97.92, 99.01, 83.94, 50.85, 99.50, 99.51),
        (1.20, 4.48, 0.89, 25.19, 8.6, 0.92, 0.97),
    ),
    PaperRow(
        "CongressionalVotingRecords",
        "uci/congressional_voting_records",
        2,
        232,
        (92.78, 93.75, 92.62, 92.18, 49.95, 92.37, 92.83),
        (6.97, 6.17, 6.92, 6.97, 9.18, 7.12, 6.69),
    ),
    PaperRow(
        "WebsitePhishing",
        "uci/website_phishing",
        3,
        1353,
        (83.05, 83.06, 83.47, 84.48, 83.72, 84.18, 84.18),
        (1.87, 1.77, 1.97, 2.61, 2.2, 2.59, 2.83),
    ),
    PaperRow(
        "Haberman",
        "uci/haberman",
        2,
        306,
        (71.84, 71.91, 72.03, 72.64, 49.44, 72.97, 73.19),
        (1.09, 1.29, 2.09, 3.79, 21.46, 4.18, 3.48),
    ),
    PaperRow(
        "Iris",
        "uci/iris",
        3,
        150,
        (96.80, 96.75, 97.53, 97.53, 95.73, 97.00, 96.93),
        (6.76, 5.62, 4.78, 4.28, 6.15, 4.26, 4.26),
    ),
    PaperRow(
        "BreastTissue",
        "uci/breast_tissue",
        6,
        106,
        (62.86, 59.44, 64.14, 65.71, 65.87, 66.50, 66.71),
        (10.76, 9.14, 11.16, 9.89, 10.03, 9.73, 10.21),
    ),
    PaperRow(
        "VertebralColumn",
        "uci/vertebral_column",
        3,
        310,
        (72.62, 72.62, 74.1, 76.99, 77.28, 78.45, 78.81),
        (7.18, 7.36, 7.52, 12.41, 9.76, 10.36, 10.81),
    ),
    PaperRow(
        "ForestTypeMapping",
        "uci/forest_type_mapping",
        4,
        523,
        (82.33, 82.69, 83.61, 82.83, 87.24, 86.81, 85.67),
        (7.99, 8.18, 6.94, 16.94, 5.54, 6.26, 8.55),
    ),
    PaperRow(
        "BalanceScale",
        "uci/balance_scale",
        3,
        625,
        (89.65, 88.75, 90.05, 91.98, 88.08, 91.87, 92.35),
        (5.79, 4.37, 5.39, 7.02, 4.95, 5.97, 6.05),
    ),
)

"""The 15 UCI tables and seven methods of the ArcGrad paper's Table I."""

from __future__ import annotations

from dataclasses import dataclass

PAPER_METHODS = ("Soft", "Center", "M-Soft", "ArcFace", "AdaCos", "ArcGrad 30", "ArcGrad 5")


@dataclass(frozen=True)
class PaperRow:
    """One line of the table.

    Attributes:
        name: the paper's name of the data set.
        data: its name in :mod:`softmargin.data`.
        classes: number of classes.
        rows: number of samples that the paper counts.
        without: features that the paper's count of features leaves out.
    """

    name: str
    data: str
    classes: int
    rows: int
    without: tuple[str, ...] = ()


PAPER_TABLE = (
    PaperRow("PimaIndiansDiabetes", "uci/pima_indians_diabetes", 2, 392),
    PaperRow("Hayes-Roth", "uci/hayes_roth", 3, 160, without=("hobby",)),
    PaperRow("UserKnowledgeModeling", "uci/user_knowledge_modeling", 4, 403),
    PaperRow("BreastCancerWisconsin", "uci/breast_cancer_wisconsin_prognostic", 2, 194),
    PaperRow("WholesaleCustomers", "uci/wholesale_customers", 2, 440),
    PaperRow("TeachingAssistantEvaluation", "uci/teaching_assistant_evaluation", 3, 151),
    PaperRow("BanknoteAuthentication", "uci/banknote_authentication", 2, 1372),
    PaperRow("CongressionalVotingRecords", "uci/congressional_voting_records", 2, 232),
    PaperRow("WebsitePhishing", "uci/website_phishing", 3, 1353),
    PaperRow("Haberman", "uci/haberman", 2, 306),
    PaperRow("Iris", "uci/iris", 3, 150),
    PaperRow("BreastTissue", "uci/breast_tissue", 6, 106),
    PaperRow("VertebralColumn", "uci/vertebral_column", 3, 310),
    PaperRow("ForestTypeMapping", "uci/forest_type_mapping", 4, 523),
    PaperRow("BalanceScale", "uci/balance_scale", 3, 625),
)

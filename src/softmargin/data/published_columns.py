"""The names of the features of the 15 UCI tables, in the order of their columns."""

from __future__ import annotations

_NUCLEI = (
    "radius texture perimeter area smoothness compactness concavity concave_points symmetry "
    "fractal_dimension"
)
_BANDS = "b1 b2 b3 b4 b5 b6 b7 b8 b9"


def _each(prefix: str, names: str, suffix: str = "") -> str:
    return " ".join(prefix + name + suffix for name in names.split())


_NAMES = {
    "pima_indians_diabetes": (
        "pregnancies glucose blood_pressure skin_thickness insulin bmi pedigree age"
    ),
    "hayes_roth": "hobby age education marital_status",
    "user_knowledge_modeling": "STG SCG STR LPR PEG",
    "breast_cancer_wisconsin_prognostic": " ".join(
        (
            "time",
            *(_each("", _NUCLEI, kind) for kind in ("_mean", "_se", "_worst")),
            "tumor_size lymph_node_status",
        )
    ),
    "wholesale_customers": ("Region Fresh Milk Grocery Frozen Detergents_Paper Delicassen"),
    "teaching_assistant_evaluation": (
        "native_english_speaker course_instructor course summer_or_regular class_size"
    ),
    "banknote_authentication": "variance skewness curtosis entropy",
    "congressional_voting_records": (
        "handicapped_infants water_project_cost_sharing adoption_of_the_budget_resolution "
        "physician_fee_freeze el_salvador_aid religious_groups_in_schools "
        "anti_satellite_test_ban aid_to_nicaraguan_contras mx_missile immigration "
        "synfuels_corporation_cutback education_spending superfund_right_to_sue crime "
        "duty_free_exports export_administration_act_south_africa"
    ),
    "website_phishing": (
        "SFH popUpWidnow SSLfinal_State Request_URL URL_of_Anchor web_traffic URL_Length "
        "age_of_domain having_IP_Address"
    ),
    "haberman": "age year axillary_nodes",
    "iris": "sepal_length sepal_width petal_length petal_width",
    "breast_tissue": "I0 PA500 HFS DA Area A_DA Max_IP DR P",
    "vertebral_column": (
        "pelvic_incidence pelvic_tilt lumbar_lordosis_angle sacral_slope pelvic_radius "
        "grade_of_spondylolisthesis"
    ),
    "forest_type_mapping": " ".join(
        _each(kind, _BANDS) for kind in ("", "pred_minus_obs_H_", "pred_minus_obs_S_")
    ),
    "balance_scale": "left_weight left_distance right_weight right_distance",
}

COLUMNS = {stem: tuple(names.split()) for stem, names in _NAMES.items()}

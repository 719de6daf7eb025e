"""What series look like: one colour for a β everywhere, and no two of a chart alike."""

import itertools

import pytest

from softmargin.charts import Chart, Series
from softmargin.charts.tones import (
    BLUES,
    DASHED,
    GREEN,
    INK,
    MUTED,
    ORANGES,
    OTHERS,
    SHAPES,
    beta_tone,
    looks_of,
)

BETAS = (50.0, 20.0, 10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.01, 0.001)


def chart(*series, kind="line"):
    return Chart("name", "Title", kind, "x", "y", series)


def named(*names, **rest):
    return [Series(name, [0], [0], **rest) for name in names]


def lightness(colour):
    return sum(
        share * int(colour[i : i + 2], 16)
        for i, share in zip((1, 3, 5), (0.2126, 0.7152, 0.0722), strict=True)
    )


def test_a_beta_has_one_colour_and_farther_is_stronger():
    tones = [beta_tone(beta) for beta in BETAS]
    assert len(set(tones)) == len(tones)
    assert tones[BETAS.index(1.0)] == INK
    assert (tones[0], tones[-1]) == (BLUES[1], ORANGES[1])
    above = [lightness(tone.light) for tone in tones[: BETAS.index(1.0)]]
    below = [lightness(tone.light) for tone in tones[BETAS.index(1.0) + 1 :]]
    assert above == sorted(above)
    assert below == sorted(below, reverse=True)


@pytest.mark.parametrize("beta", [1000.0, 1e-9, 0.0])
def test_a_beta_beyond_the_scale_has_the_colour_of_its_end(beta):
    assert beta_tone(beta) == (BLUES[1] if beta > 1 else ORANGES[1])


def test_colours_follow_beta_whatever_stands_beside_it():
    alone, among = (
        looks_of([chart(*named("β = 5", beta=5.0))])[0][0],
        looks_of([chart(*(each for b in BETAS for each in named(f"β = {b:g}", beta=b)))])[0][
            BETAS.index(5.0)
        ],
    )
    assert alone.tone == among.tone == beta_tone(5.0)


def test_what_has_no_beta_never_has_a_colour_of_beta():
    reserved = {beta_tone(beta) for beta in BETAS} | {INK, MUTED}
    assert not reserved & set(OTHERS)
    (looks,) = looks_of([chart(*named("a", "b"), *named("guessing", dashed=True))])
    assert [look.tone for look in looks] == [GREEN, OTHERS[1], MUTED]
    assert looks[2].dashes in DASHED
    assert looks[0].dashes not in DASHED


def test_one_name_has_one_look_on_a_page():
    first = chart(*named("Soft", "Center", "ArcFace"))
    second = chart(*named("Center", "ArcFace", "ArcGrad"), *named("Soft", dashed=True))
    of_first, of_second = looks_of([first, second])
    assert of_first[1:] == of_second[:2]
    assert of_second[2].tone not in {look.tone for look in of_first}
    assert of_second[3].tone == MUTED


def test_ten_series_have_ten_colours_and_more_differ_in_shape():
    names = [f"digit {i}" for i in range(14)]
    (looks,) = looks_of([chart(*named(*names[:10]), kind="points")])
    assert len({look.tone for look in looks}) == 10
    assert len({look.shape for look in looks[: len(SHAPES)]}) == len(SHAPES)
    (looks,) = looks_of([chart(*named(*names), kind="points")])
    for one, other in itertools.combinations(looks, 2):
        assert (one.tone, one.shape) != (other.tone, other.shape)


def test_series_of_one_beta_differ_in_shape_and_dashes():
    (looks,) = looks_of([chart(*named("β = 5", "β = 5, compensated", beta=5.0))])
    assert looks[0].tone == looks[1].tone
    assert looks[0].shape != looks[1].shape
    assert looks[0].dashes != looks[1].dashes

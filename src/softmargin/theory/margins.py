"""Margins: hinge and softplus, divergences of the other classes, and ArcGrad's gap and scale."""

from __future__ import annotations

import math

import torch

from softmargin.functional import margins
from softmargin.functional._checks import DIVERGENCES, check_choice
from softmargin.theory._closed_form import Value, closed_form


@closed_form
def hinge(xi: Value) -> Value:
    r"""Return the support vector machine's loss of a biased margin (LM Fig. 1a).

    .. math:: \max(0, \xi)

    Example:
        >>> from softmargin.theory import hinge
        >>> hinge(-2.0), hinge(3.0)
        (0.0, 3.0)
    """
    return xi.relu()


@closed_form
def softplus(xi: Value) -> Value:
    r"""Return softmax cross-entropy's loss of a biased margin (LM eq. 3, Fig. 1a).

    .. math:: \log(1 + e^{\xi})

    Example:
        >>> from softmargin.theory import softplus
        >>> round(softplus(0.0), 6)
        0.693147
    """
    return margins.softplus(xi)


@closed_form
def two_category_divergence(q: Value, divergence: str = "symmetric") -> Value:
    r"""Return how far two non-target classes of softmax (q, 1 - q) are from level (LM Fig. 4).

    - ``"logits_to_uniform"``: :math:`\log 2 + q \log q + (1 - q) \log(1 - q)`, log 2 at both ends
    - ``"uniform_to_logits"``: :math:`-\frac12 \log(4 q (1 - q))`, infinite at both ends
    - ``"symmetric"``: their mean, :math:`\frac12 (q - \frac12) \log \frac{q}{1 - q}`

    It is :func:`softmargin.functional.logit_divergence` of three classes (LM eq. 8-10).

    Example:
        >>> from softmargin.theory import two_category_divergence
        >>> two_category_divergence(0.5), two_category_divergence(0.0)
        (0.0, inf)
    """
    check_choice("divergence", divergence, DIVERGENCES)
    if divergence == "symmetric":
        return (q - 0.5) * torch.logit(q) / 2
    if divergence == "uniform_to_logits":
        return (4 * q * (1 - q)).log() / -2
    entropy = torch.special.entr(q) + torch.special.entr(1 - q)
    return (math.log(2) - entropy).clamp(min=0)  # rounding must not make it negative


@closed_form
def embedded_bias_bound(num_classes: Value) -> Value:
    r"""Return the largest margin that softmax itself contains (LM eq. 7).

    .. math:: \max \hat\rho = \log(C - 1)

    :func:`softmargin.functional.embedded_bias` reaches it when the other classes are level.

    Example:
        >>> from softmargin.theory import embedded_bias_bound
        >>> round(embedded_bias_bound(100), 6)
        4.59512
    """
    return (num_classes - 1).log()


@closed_form
def lambert_w(x: Value) -> Value:
    r"""Return the W ≥ 0 that solves W·e^W = x (Lambert's function, principal branch).

    .. math:: W \leftarrow \frac{W}{1 + W} \left(1 + \log \frac{x}{W}\right)

    is Newton's method on W + log W = log x (Iacono and Boyd, 2017): it neither overflows nor
    loses small x. Three steps from Winitzki's start (2003) reach machine precision everywhere.

    Example:
        >>> import math
        >>> from softmargin.theory import lambert_w
        >>> lambert_w(math.e)
        1.0
    """
    normal = x > torch.finfo(x.dtype).tiny  # below, W(x) is x
    positive = torch.where(normal, x, 1.0)
    # of the largest numbers log1p is infinite before PyTorch 2.7; the steps mend what this cuts off
    start = positive.clamp(max=torch.finfo(x.dtype).max / 1024).log1p()
    w = start * (1 - start.log1p() / (2 + start))
    for _ in range(3):  # each squares the relative error, which starts at 2 %
        w = w / (1 + w) * (1 + (positive / w).log())
    return torch.where(normal, w, x)


@closed_form
def gap(num_classes: Value, scale: Value) -> Value:
    r"""Return the gap between angles, in radians, that scale s makes ArcGrad open (AG eq. 19).

    .. math:: \tilde m = \frac{W((C - 1) / e) + 1}{s}

    Of all scales, s pulls hardest on a sample whose wrong classes are this much further away
    than its own: :func:`scale` turned round.

    Example:
        >>> import math
        >>> from softmargin.theory import gap
        >>> round(math.degrees(gap(3, scale=1.0)), 1)
        83.8
    """
    return (lambert_w((num_classes - 1) / math.e) + 1) / scale


@closed_form
def scale(num_classes: Value, gap: Value) -> Value:
    r"""Return the scale s that pulls hardest on samples with a given gap of angles (AG eq. 19).

    .. math:: s = \frac{W((C - 1) / e) + 1}{\tilde m}
              = \arg\max_s \frac{s (C - 1) e^{-s \tilde m}}{1 + (C - 1) e^{-s \tilde m}}

    Example:
        >>> import math
        >>> from softmargin.theory import scale
        >>> round(scale(10, gap=math.radians(15)), 1)
        8.0
    """
    return (lambert_w((num_classes - 1) / math.e) + 1) / gap

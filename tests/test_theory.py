"""The closed forms against autograd of the loss they describe, mpmath, SciPy and brute force."""

import math
from functools import partial

import mpmath
import numpy as np
import pytest
import torch
from scipy.special import lambertw

from softmargin import theory
from softmargin.functional import embedded_bias, gradient_decay_loss, log_odds, logit_divergence

BETAS = [1e-3, 0.1, 0.5, 1.0, 2.0, 20.0]
DOUBLE = torch.float64
close = torch.testing.assert_close


def near(value, rel=None, abs=0.0):
    """``pytest.approx`` without its absolute tolerance, which would pass any small value."""
    return pytest.approx(value, rel=rel, abs=abs)


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(50):
        yield


def derivatives_in_target_logit(beta, orders):
    """Return p and the derivatives of the loss in z_c, by autograd, for a few samples."""
    generator = torch.Generator().manual_seed(0)
    others = torch.randn(40, 4, generator=generator, dtype=DOUBLE)
    z_c = torch.linspace(-8, 10, 40, dtype=DOUBLE, requires_grad=True)
    logits = torch.cat([z_c.unsqueeze(1), others], 1)
    target = torch.zeros(40, dtype=torch.int64)
    result = [gradient_decay_loss(logits, target, beta=beta, reduction="none")]
    for _ in range(orders):
        result.append(torch.autograd.grad(result[-1].sum(), z_c, create_graph=True)[0])
    return z_c, logits.softmax(1)[:, 0], result


@pytest.mark.parametrize("beta", BETAS)
def test_derivatives_in_the_target_logit_are_those_of_the_loss(beta):
    _, p, (_, first, second, third) = derivatives_in_target_logit(beta, 3)
    close(theory.gradient_magnitude(p, beta), -first, rtol=1e-11, atol=1e-14)
    close(theory.curvature(p, beta), second, rtol=1e-11, atol=1e-14)
    close(theory.curvature_slope(p, beta), third, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("beta", BETAS)
def test_derivatives_in_confidence_are_those_of_the_loss(beta):
    z_c, p, (_, first) = derivatives_in_target_logit(beta, 1)

    def in_confidence(value):
        of_value, of_p = (
            torch.autograd.grad(x.sum(), z_c, create_graph=True)[0] for x in (value, p)
        )
        return of_value / of_p

    slope = in_confidence(-first)
    close(theory.gradient_magnitude_slope(p, beta), slope, rtol=1e-9, atol=0)
    close(theory.gradient_magnitude_curvature(p, beta), in_confidence(slope), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("beta", [1e-300, 1e-12, 0.1, 1.0, 7.0, 1e12, 1e300])
@pytest.mark.parametrize("p", [0.0, 1e-200, 0.1, 0.5, 0.9, 1 - 2**-40, 1 - 2**-53, 1.0])
def test_closed_forms_keep_every_digit(p, beta):
    exact_p, exact_beta = mpmath.mpf(p), mpmath.mpf(beta)
    with mpmath.workdps(700):  # β = 1e-300 next to 1
        denominator = 1 + (exact_beta - 1) * exact_p
        curvature = exact_beta * exact_p * (1 - exact_p) / denominator**2
        expected = {
            "gradient_magnitude": (1 - exact_p) / denominator,
            "gradient_magnitude_slope": -exact_beta / denominator**2,
            "gradient_magnitude_curvature": 2 * exact_beta * (exact_beta - 1) / denominator**3,
            "curvature": curvature,
            "curvature_slope": curvature * (1 - (1 + exact_beta) * exact_p) / denominator,
        }
    for name, value in expected.items():
        assert getattr(theory, name)(p, beta) == near(float(value), rel=2e-15), name


@pytest.mark.parametrize("beta", [0.01, 1.0, 5.0])
@pytest.mark.parametrize("z", [-3.0, 0.5, 4.0])
def test_closed_forms_against_derivatives_by_mpmath(z, beta):
    others = mpmath.exp(0.3) + mpmath.exp(-1)

    def loss(z):
        return -mpmath.log(mpmath.exp(z) / (others + beta * mpmath.exp(z)))

    p = mpmath.exp(z) / (others + mpmath.exp(z))
    first, second, third = (mpmath.diff(loss, z, order) for order in (1, 2, 3))
    assert theory.gradient_magnitude(float(p), beta) == near(float(-first), rel=1e-14)
    assert theory.curvature(float(p), beta) == near(float(second), rel=1e-13)
    assert theory.curvature_slope(float(p), beta) == near(float(third), rel=1e-12)

    def magnitude(p):
        return (1 - p) / (1 + (beta - 1) * p)

    slope, bend = (float(mpmath.diff(magnitude, p, order)) for order in (1, 2))
    assert theory.gradient_magnitude_slope(float(p), beta) == near(slope, rel=1e-13)
    assert theory.gradient_magnitude_curvature(float(p), beta) == near(bend, rel=1e-13, abs=1e-30)


@pytest.mark.parametrize("beta", [1e-3, 0.1, 1.0, 3.0, 1e3])
def test_at_the_inflection_the_curvature_is_a_quarter_and_turns(beta):
    p = theory.inflection(beta)
    assert p == near(1 / (1 + beta), rel=1e-15)
    assert theory.curvature(p, beta) == near(0.25, rel=1e-15)
    assert theory.gradient_magnitude(p, beta) == near(0.5, rel=1e-12)
    assert theory.curvature_slope(p * 0.999, beta) > 0 > theory.curvature_slope(p * 1.0001, beta)


@pytest.mark.parametrize("beta", [1e-3, 0.1, 0.5, 1.0, 2.0, 50.0])
@pytest.mark.parametrize("p_max", [1e-3, 0.1, 0.5, 0.9, 1.0])
def test_local_lipschitz_is_the_largest_curvature(beta, p_max):
    grid = np.linspace(0, p_max, 200_001)
    largest = theory.curvature(grid, beta).max()
    bound = theory.local_lipschitz(beta, p_max)
    assert bound == near(largest, rel=1e-6)
    assert bound >= largest * (1 - 1e-15)
    assert theory.step_size(beta, p_max) == near(1 / bound, rel=1e-15)


def test_local_lipschitz_for_half_is_the_papers():  # GD eq. 20
    beta = np.array([0.01, 0.1, 0.5, 1.0, 2.0, 100.0])
    expected = np.where(beta < 1, beta / (1 + beta) ** 2, 0.25)
    np.testing.assert_allclose(theory.local_lipschitz(beta), expected, rtol=1e-15)
    assert theory.step_size(1.0) == 4.0
    assert theory.step_size(1.0, p_max=0.0) == math.inf


def random_logits(num_classes, scale):
    generator = torch.Generator().manual_seed(num_classes)
    logits = scale * torch.randn(6, num_classes, generator=generator, dtype=DOUBLE)
    target = torch.randint(num_classes, (6,), generator=generator)
    return logits, target


@pytest.mark.parametrize("num_classes", [2, 3, 10])
@pytest.mark.parametrize("scale", [0.0, 1.0, 50.0, 1e4])
@pytest.mark.parametrize("beta", [1e-6, 0.1, 1.0, 20.0, "per class"])
def test_hessian_is_that_of_the_loss(num_classes, scale, beta):
    logits, target = random_logits(num_classes, scale)
    if beta == "per class":
        beta = torch.logspace(-2, 2, num_classes, dtype=DOUBLE)
    expected = torch.stack(
        [
            torch.func.hessian(partial(gradient_decay_loss, beta=beta))(z, y)
            for z, y in zip(logits, target, strict=True)
        ]
    )
    found = theory.hessian(logits, target, beta)
    close(found, expected, rtol=1e-12, atol=1e-15)
    close(theory.hessian(logits[0], target[0], beta), expected[0], rtol=1e-12, atol=1e-15)
    largest = theory.hessian_max_eigenvalue(logits, target, beta)
    np.testing.assert_allclose(
        largest.numpy(), np.linalg.eigvalsh(expected.numpy())[:, -1], rtol=1e-11, atol=1e-15
    )
    assert largest.max() <= 0.5 + 1e-15


def test_hessian_is_the_weighted_one_with_its_rank_one_correction():
    logits, target = random_logits(7, 2.0)
    beta = 0.05
    c = torch.eye(7, dtype=DOUBLE)[target]
    q = logits.masked_fill(c.bool(), -math.inf).softmax(1)
    w = torch.sigmoid(log_odds(logits, target) - math.log(beta))[:, None, None]
    outer = torch.einsum("ni,nj->nij", q - c, q - c)
    expected = w * (torch.diag_embed(q) - torch.einsum("ni,nj->nij", q, q)) + w * (1 - w) * outer
    close(theory.hessian(logits, target, beta), expected, rtol=1e-13, atol=1e-16)
    along_target = theory.hessian(logits, target, beta)[torch.arange(6), target, target]
    p = logits.softmax(1).gather(1, target[:, None])[:, 0]
    close(along_target, theory.curvature(p, beta), rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize("logits", [[0.0, 60.0, 1.0], [60.0, 0.0, 1.0], [-60.0, -60.0, 3.0]])
def test_hessian_keeps_its_small_entries(logits, dtype):
    beta = 0.1
    r = [mpmath.exp(z) * (beta if i == 0 else 1) for i, z in enumerate(logits)]
    r = [x / sum(r) for x in r]
    expected = [[float(r[i] * ((i == j) - r[j])) for j in range(3)] for i in range(3)]
    found = theory.hessian(torch.tensor(logits, dtype=dtype), torch.tensor(0), beta)
    close(found, torch.tensor(expected, dtype=dtype), rtol=500 * torch.finfo(dtype).eps, atol=0)
    largest = theory.hessian_max_eigenvalue(np.array(logits), 0, beta)
    exact = max(mpmath.eigsy(mpmath.matrix(expected), eigvals_only=True))
    assert largest == near(float(exact), rel=1e-12)


def test_hessian_does_not_see_a_shift_of_all_logits():
    logits = torch.tensor([0.0, 1.0, -0.5])  # 1e6 more is exact in float32, log β beside it is not
    shifted = theory.hessian(logits + 1e6, torch.tensor(0), 0.1)
    close(shifted, theory.hessian(logits, torch.tensor(0), 0.1), rtol=0, atol=0)


def test_hessian_of_images_and_of_masked_classes():
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 4, 3, 5, generator=generator, dtype=DOUBLE)
    target = torch.randint(4, (2, 3, 5), generator=generator)
    found = theory.hessian(logits, target, 0.3)
    assert found.shape == (2, 3, 5, 4, 4)
    close(found[1, 2, 4], theory.hessian(logits[1, :, 2, 4], target[1, 2, 4], 0.3))
    masked = theory.hessian(torch.tensor([1.0, -math.inf, 0.0]), torch.tensor(0))
    close(masked[::2, ::2], theory.hessian(torch.tensor([1.0, 0.0]), torch.tensor(0)))
    assert not masked[1].any()


def test_confidence_path_is_softmax_of_symmetric_logits():
    for num_classes in (2, 10, 100):
        z = torch.linspace(-20, 20, 41, dtype=DOUBLE)
        others = (-z / (num_classes - 1)).unsqueeze(1).expand(-1, num_classes - 1)
        logits = torch.cat([z.unsqueeze(1), others], 1)
        close(theory.confidence_path(z, num_classes), logits.softmax(1)[:, 0], rtol=1e-13, atol=0)
        logits.requires_grad_()
        loss = gradient_decay_loss(logits, torch.zeros(41, dtype=torch.int64), 0.1, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, logits)
        path = theory.gradient_magnitude_path(z, 0.1, num_classes)
        close(path, -gradient[:, 0], rtol=1e-12, atol=0)


def test_gradient_magnitude_path_outlasts_the_quotient():
    path = theory.gradient_magnitude_path(60.0, 1e-6)
    xi = mpmath.log(9) - mpmath.mpf(600) / 9
    assert path == near(float(1 / (1 + mpmath.mpf("1e-6") / mpmath.exp(xi))), rel=1e-13)
    assert theory.gradient_magnitude(theory.confidence_path(60.0), 1e-6) == 0.0


def test_margin_curves():
    xi = np.array([-800.0, -30.0, 0.0, 1.5, 25.0, 800.0])
    np.testing.assert_array_equal(theory.hinge(xi), [0, 0, 0, 1.5, 25, 800])
    expected = [float(mpmath.log1p(mpmath.exp(x))) for x in xi]
    np.testing.assert_allclose(theory.softplus(xi), expected, rtol=1e-15)


@pytest.mark.parametrize("divergence", ["symmetric", "uniform_to_logits", "logits_to_uniform"])
def test_two_category_divergence_is_that_of_three_classes(divergence):
    q = torch.linspace(0.001, 0.999, 101, dtype=DOUBLE)
    logits = torch.stack([torch.full_like(q, 5.0), q.log(), torch.log1p(-q)], 1)
    expected = logit_divergence(logits, torch.zeros(101, dtype=torch.int64), divergence)
    close(theory.two_category_divergence(q, divergence), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("divergence", "at_ends"),
    [
        ("symmetric", math.inf),
        ("uniform_to_logits", math.inf),
        ("logits_to_uniform", math.log(2)),
    ],
)
def test_two_category_divergence_at_its_ends_and_middle(divergence, at_ends):
    found = theory.two_category_divergence(np.array([0.0, 0.5, 1.0]), divergence)
    np.testing.assert_array_equal(found, [at_ends, 0.0, at_ends])
    near_level = theory.two_category_divergence(0.5 + np.linspace(-1e-7, 1e-7, 999), divergence)
    assert near_level.min() >= 0


@pytest.mark.parametrize("num_classes", [2, 3, 10, 1000])
def test_embedded_bias_lies_between_zero_and_its_bound(num_classes):
    bound = theory.embedded_bias_bound(num_classes)
    assert bound == near(math.log(num_classes - 1), rel=1e-15)
    logits, target = random_logits(num_classes, 3.0)
    bias = embedded_bias(logits, target)
    assert bias.min() >= 0
    assert bias.max() <= bound
    level = embedded_bias(torch.zeros_like(logits), target)
    close(level, torch.full_like(level, bound), rtol=1e-14, atol=0)


def test_lambert_w_against_scipy():
    x = np.concatenate([np.logspace(-307, 308, 5001), np.linspace(0.01, 50, 5001), [math.e, 1e300]])
    np.testing.assert_allclose(theory.lambert_w(x), lambertw(x).real, rtol=1e-15)
    assert theory.lambert_w(0.0) == 0.0
    assert theory.lambert_w(5e-324) == 5e-324
    single = theory.lambert_w(torch.tensor([1e-38, 0.3, 1e38]))
    expected = lambertw(single.new_tensor([1e-38, 0.3, 1e38]).double().numpy()).real
    np.testing.assert_allclose(single.numpy(), expected, rtol=3e-7)


@pytest.mark.parametrize("x", ["1e-200", "0.3", "2.718281828", "1e5", "1e300"])
def test_lambert_w_against_mpmath_with_its_derivatives(x):
    exact = mpmath.lambertw(mpmath.mpf(float(x))).real
    given = torch.tensor(float(x), dtype=DOUBLE, requires_grad=True)
    found = theory.lambert_w(given)
    assert found.item() == near(float(exact), rel=1e-15)
    found.backward()
    assert given.grad.item() == near(float(exact / (given.item() * (1 + exact))), rel=1e-13)


def test_lambert_w_is_differentiable_at_and_near_zero():
    x = torch.tensor([0.0, 0.01, 1.0, 30.0], dtype=DOUBLE, requires_grad=True)
    (gradient,) = torch.autograd.grad(theory.lambert_w(x).sum(), x)
    assert gradient[0] == 1.0
    assert torch.autograd.gradgradcheck(theory.lambert_w, x[1:].detach().requires_grad_())


def test_gap_of_the_paper():  # AG section III B
    assert theory.gap(3, 1.0) == near(1.463, abs=5e-4)
    degrees = np.degrees(theory.gap(3, np.array([1.0, 40.0])))
    np.testing.assert_allclose(degrees, [83.8, 2.1], atol=0.05)


@pytest.mark.parametrize("num_classes", [2, 3, 10, 1000])
@pytest.mark.parametrize("gap", [0.01, 0.3, 1.5])
def test_scale_pulls_hardest_at_its_gap(num_classes, gap):
    def pull(s):
        return s * torch.sigmoid(math.log(num_classes - 1) - s * gap)

    best = theory.scale(num_classes, gap)
    assert theory.gap(num_classes, best) == near(gap, rel=1e-15)
    grid = torch.linspace(0.01, 5, 100_001, dtype=DOUBLE) * best
    assert grid[pull(grid).argmax()].item() == near(best, rel=1e-4)
    assert pull(torch.tensor(best, dtype=DOUBLE)) >= pull(grid).max() * (1 - 1e-15)


def test_hessian_max_eigenvalue_is_differentiable_and_can_be_mapped():
    logits, target = random_logits(4, 1.0)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: theory.hessian_max_eigenvalue(z, target, 0.2), logits)
    betas = torch.logspace(-2, 1, 6, dtype=DOUBLE)
    mapped = torch.vmap(theory.hessian_max_eigenvalue)(logits.detach(), target, betas)
    for i in range(6):
        close(mapped[i], theory.hessian_max_eigenvalue(logits[i], target[i], betas[i]).detach())

"""``compensate``: β changes which samples pull, not how hard the batch pulls."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from softmargin import GradientDecayLoss
from softmargin.functional import gradient_decay_loss

pytestmark = pytest.mark.usefixtures("either_path")

BETAS = (1e-6, 0.01, 0.5, 1.0, 5.0, 1e4)


def made_up(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(64, 7, generator=generator, dtype=torch.float64)
    return logits.to(dtype), torch.randint(0, 7, (64,), generator=generator)


def pull(logits: Tensor, target: Tensor, **options: object) -> Tensor:
    """Return -∂J/∂z_c of every sample, of the summed loss."""
    z = logits.clone().requires_grad_()
    options = {"reduction": "sum", **options}
    gradient_decay_loss(z, target, **options).backward()  # type: ignore[arg-type]
    assert z.grad is not None
    return -z.grad.gather(1, target.clamp_min(0)[:, None]).squeeze(1)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("floored", [False, True])
def test_the_mean_gradient_is_that_of_cross_entropy(beta: float, floored: bool) -> None:
    logits, target = made_up()
    plain = pull(logits, target)
    own = pull(logits, target, beta=beta, floored=floored, compensate=True)
    assert own.sum().item() == pytest.approx(plain.sum().item(), rel=1e-12)
    # and each sample has its share of what β gives it
    without = pull(logits, target, beta=beta, floored=floored)
    torch.testing.assert_close(own / own.sum(), without / without.sum(), rtol=1e-12, atol=0)
    if beta not in (1.0,):
        assert not torch.allclose(own, plain)


def test_at_one_it_is_the_plain_loss() -> None:
    logits, target = made_up(torch.float32)
    plain = gradient_decay_loss(logits, target)
    assert torch.equal(gradient_decay_loss(logits, target, compensate=True), plain)


def test_weights_and_ignored_samples_count_as_in_the_loss() -> None:
    logits, target = made_up()
    target[::3] = -100
    weight = torch.linspace(0.5, 3, 7, dtype=torch.float64)
    options = {"weight": weight, "beta": 20.0}
    kept = target >= 0
    own = pull(logits, target, **options, compensate=True)
    plain = pull(logits, target, weight=weight)
    assert own[kept].sum().item() == pytest.approx(plain[kept].sum().item(), rel=1e-12)
    fewer = gradient_decay_loss(logits[kept], target[kept], **options, compensate=True)  # type: ignore[arg-type]
    all_of_them = gradient_decay_loss(logits, target, **options, compensate=True)  # type: ignore[arg-type]
    assert all_of_them.item() == pytest.approx(fewer.item(), rel=1e-12)


def test_one_hot_probabilities_give_what_indices_give() -> None:
    logits, target = made_up()
    one_hot = torch.nn.functional.one_hot(target, 7).double()
    by_index = gradient_decay_loss(logits, target, beta=8.0, compensate=True)
    by_probability = gradient_decay_loss(logits, one_hot, beta=8.0, compensate=True)
    assert by_probability.item() == pytest.approx(by_index.item(), rel=1e-12)


def test_shapes_and_one_sample() -> None:
    logits, target = made_up()
    image = logits.view(4, 16, 7).movedim(2, 1)
    labels = target.view(4, 16)
    expected = gradient_decay_loss(logits, target, beta=9.0, compensate=True, reduction="none")
    found = gradient_decay_loss(image, labels, beta=9.0, compensate=True, reduction="none")
    torch.testing.assert_close(found.view(-1), expected)
    single = gradient_decay_loss(logits[0], target[0], beta=9.0, compensate=True)
    batch = gradient_decay_loss(logits[:1], target[:1], beta=9.0, compensate=True)
    assert single.item() == pytest.approx(batch.item(), rel=1e-12)


def test_a_batch_that_pulls_no_more_is_left_alone() -> None:
    logits = torch.tensor([[1e4, 0.0]], dtype=torch.float64)
    loss = gradient_decay_loss(logits, torch.tensor([0]), beta=5.0, compensate=True)
    assert loss.isfinite()


def test_the_module_and_vmap_agree() -> None:
    logits, target = made_up()
    criterion = GradientDecayLoss(beta=6.0, compensate=True)
    assert "compensate=True" in repr(criterion)

    def one(z: Tensor, y: Tensor) -> Tensor:
        return gradient_decay_loss(z, y, beta=6.0, compensate=True)

    found = torch.func.vmap(one)(logits.view(4, 16, 7), target.view(4, 16))
    expected = [
        criterion(z, y) for z, y in zip(logits.view(4, 16, 7), target.view(4, 16), strict=True)
    ]
    torch.testing.assert_close(found, torch.stack(expected))


@pytest.mark.parametrize("kind", ["index", "probability"])
def test_every_kind_of_derivative_takes_the_factor_for_a_constant(kind: str) -> None:
    logits, target = made_up()
    beta = torch.tensor(5.0, dtype=torch.float64)
    tau = torch.tensor(1.5, dtype=torch.float64)
    if kind == "probability":
        target = torch.nn.functional.one_hot(target, 7).double() * 0.9 + 0.1 / 7

    def loss(z: Tensor, b: Tensor, t: Tensor) -> Tensor:
        return gradient_decay_loss(z, target, beta=b, tau=t, compensate=True)

    inputs = logits, beta, tau
    tangents = torch.randn_like(logits), torch.tensor(0.3).double(), torch.tensor(-0.2).double()
    leaves = [x.clone().requires_grad_() for x in inputs]
    gradients = torch.autograd.grad(loss(*leaves), leaves)
    expected = sum((g * t).sum() for g, t in zip(gradients, tangents, strict=True))
    _, by_transform = torch.func.jvp(loss, inputs, tangents)
    with torch.autograd.forward_ad.dual_level():
        duals = [
            torch.autograd.forward_ad.make_dual(x, t) for x, t in zip(inputs, tangents, strict=True)
        ]
        by_duals = torch.autograd.forward_ad.unpack_dual(loss(*duals)).tangent
    torch.testing.assert_close(by_transform, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(by_duals, expected, rtol=1e-12, atol=0)

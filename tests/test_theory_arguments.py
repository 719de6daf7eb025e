"""What the closed forms take: numbers, arrays, tensors; what they refuse."""

import math

import numpy as np
import pytest
import torch

from softmargin import theory

DOUBLE = torch.float64

close = torch.testing.assert_close

FUNCTIONS = [  # name, arguments
    ("gradient_magnitude", (0.3, 0.1)),
    ("gradient_magnitude_slope", (0.3, 0.1)),
    ("gradient_magnitude_curvature", (0.3, 0.1)),
    ("curvature", (0.3, 0.1)),
    ("curvature_slope", (0.3, 0.1)),
    ("inflection", (0.1,)),
    ("local_lipschitz", (0.1, 0.3)),
    ("step_size", (0.1, 0.3)),
    ("confidence_path", (1.5, 10)),
    ("gradient_magnitude_path", (1.5, 0.1, 10)),
    ("hinge", (0.5,)),
    ("softplus", (0.5,)),
    ("two_category_divergence", (0.3,)),
    ("embedded_bias_bound", (10,)),
    ("lambert_w", (0.7,)),
    ("gap", (10, 30.0)),
    ("scale", (10, 0.2)),
]


@pytest.mark.parametrize(("name", "arguments"), FUNCTIONS)
def test_numbers_arrays_and_tensors(name, arguments):
    function = getattr(theory, name)
    number = function(*arguments)
    assert type(number) is float

    array = function(np.full((2, 1), arguments[0]), *arguments[1:])
    assert isinstance(array, np.ndarray)
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, np.full((2, 1), number))

    for dtype in (DOUBLE, torch.float32, torch.bfloat16):
        given = torch.full((3,), arguments[0], dtype=dtype)
        tensor = function(given, *arguments[1:])
        assert tensor.dtype == dtype
        expected = function(given.double(), *arguments[1:]).to(dtype)
        tolerance = 0 if dtype == torch.bfloat16 else 4 * torch.finfo(dtype).eps
        close(tensor, expected, rtol=tolerance, atol=0)

    every = [torch.tensor([float(a)], dtype=DOUBLE, requires_grad=True) for a in arguments]
    assert torch.autograd.gradcheck(function, every)
    mapped = torch.vmap(function)(*[a.detach() for a in every])
    close(mapped, torch.tensor([number], dtype=DOUBLE), rtol=1e-14, atol=0)


def test_arguments_broadcast_and_mix():
    p, beta = np.linspace(0, 1, 5), np.array([[0.1], [1.0], [10.0]])
    table = theory.gradient_magnitude(p, beta)
    assert table.shape == (3, 5)
    assert table[2, 1] == theory.gradient_magnitude(0.25, 10.0)
    mixed = theory.gradient_magnitude(torch.from_numpy(p).float(), beta)
    assert mixed.dtype == torch.float32
    close(mixed.numpy(), table.astype(np.float32))
    zero_dimensional = theory.gradient_magnitude(mixed, torch.tensor(0.5, dtype=DOUBLE))
    assert zero_dimensional.dtype == torch.float32
    assert theory.gradient_magnitude(torch.tensor([0, 1]), 0.5).tolist() == [1.0, 0.0]
    assert type(theory.gradient_magnitude(np.float32(0.5), np.int64(1))) is float
    read_only = p[::-1]
    read_only.flags.writeable = False
    np.testing.assert_array_equal(theory.inflection(read_only + 1), 1 / (2 + read_only))
    assert theory.curvature(np.zeros((0, 2)), 1.0).shape == (0, 2)


@pytest.mark.parametrize("target", [[2, 0], np.array([2, 0], dtype=np.int32), np.array([2, 0])])
def test_hessian_of_arrays(target):
    logits = np.array([[1.0, 2.0, -1.0], [0.0, 3.0, 0.5]])
    beta = np.array([0.1, 1.0, 3.0])
    expected = theory.hessian(torch.tensor(logits), torch.tensor([2, 0]), torch.tensor(beta))
    found = theory.hessian(logits, target, beta)
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, expected.numpy())
    largest = theory.hessian_max_eigenvalue(logits, target, beta)
    np.testing.assert_allclose(largest, np.linalg.eigvalsh(found)[:, -1], rtol=1e-14)
    assert type(theory.hessian_max_eigenvalue(logits[0], 2)) is float


@pytest.mark.slow
def test_closed_forms_compile_in_one_graph():
    p = torch.linspace(0, 1, 5)
    for function in (
        lambda p: theory.local_lipschitz(0.1, p),
        lambda p: theory.gap(10, 1 + p),
        lambda p: theory.hessian(p, torch.tensor(2), 0.1),
    ):
        compiled = torch.compile(function, backend="eager", fullgraph=True)
        close(compiled(p), function(p), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("gradient_magnitude", (0.5, 0), ValueError, "beta must be a finite number above 0"),
        ("gradient_magnitude", (0.5, -1.0), ValueError, "beta .* above 0, but got -1.0"),
        ("curvature", (0.5, math.nan), ValueError, "beta .* above 0, but got nan"),
        ("curvature_slope", (0.5, math.inf), ValueError, "beta .* above 0, but got inf"),
        ("inflection", (np.array([1.0, -2.0]),), ValueError, "beta .* but got -2.0"),
        ("inflection", (torch.tensor([1.0, math.nan]),), ValueError, "beta .* but got nan"),
        ("gradient_magnitude", (1.5, 1.0), ValueError, "p must be between 0 and 1, but got 1.5"),
        ("gradient_magnitude_slope", (-0.1, 1.0), ValueError, "p must .* but got -0.1"),
        ("gradient_magnitude_curvature", (math.nan, 1.0), ValueError, "p must .* but got nan"),
        ("local_lipschitz", (1.0, 2.0), ValueError, "p_max must be between 0 and 1, but got 2.0"),
        ("step_size", (1.0, [0.5, -1]), ValueError, "p_max must .* but got -1.0"),
        ("confidence_path", (0.0, 1), ValueError, "num_classes .* at least 2, but got 1.0"),
        ("gradient_magnitude_path", (0.0, 0.0), ValueError, "beta .* but got 0.0"),
        ("embedded_bias_bound", (0,), ValueError, "num_classes .* at least 2, but got 0.0"),
        ("lambert_w", (-0.1,), ValueError, "x must be a finite number of at least 0"),
        ("lambert_w", (math.inf,), ValueError, "x must be a finite number of at least 0"),
        ("gap", (3, 0.0), ValueError, "scale must be a finite number above 0, but got 0.0"),
        ("gap", (1.5, 1.0), ValueError, "num_classes .* at least 2, but got 1.5"),
        ("scale", (3, -1.0), ValueError, "gap must be a finite number above 0, but got -1.0"),
        ("two_category_divergence", (1.1,), ValueError, "q must be between 0 and 1, but got 1.1"),
        (
            "two_category_divergence",
            (0.5, "kl"),
            ValueError,
            "divergence must be one of symmetric, uniform_to_logits, logits_to_uniform, .* 'kl'",
        ),
        (
            "scale",
            (1e300, torch.tensor(0.2)),
            ValueError,
            r"num_classes must be a number that torch.float32 can hold, but got 1e\+300",
        ),
        (
            "gradient_magnitude",
            (torch.tensor([0.5]), 1e-300),
            ValueError,
            "beta must be a number that torch.float32 can hold, but got 1e-300",
        ),
        ("hinge", ("much",), TypeError, "xi must be a number, an array or a tensor"),
        ("gap", (True, 1.0), TypeError, "num_classes must be a number.* but got True"),
        ("hessian", (np.zeros((2, 3)), [0, 3]), IndexError, "target must hold classes .* got 3"),
        ("hessian", (np.zeros((2, 3)), [0.0, 1.0]), RuntimeError, "target must hold class indices"),
        ("hessian", (np.zeros((2, 3)), [0]), ValueError, r"target must have shape \(2,\)"),
        ("hessian", (np.zeros((2, 3)), [0, 1], -1.0), ValueError, "beta .* but got -1.0"),
        ("hessian_max_eigenvalue", (np.zeros(3), 0, [1.0, 2.0]), ValueError, r"beta .* \(3,\)"),
        ("hessian_max_eigenvalue", (np.zeros((2, 1)), [0, 0]), ValueError, "at least 2 classes"),
    ],
)
def test_bad_arguments_are_named(name, arguments, error, message):
    with pytest.raises(error, match=message):
        getattr(theory, name)(*arguments)

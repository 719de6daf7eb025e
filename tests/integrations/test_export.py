"""Every head and calibrator leaves PyTorch: torch.export, ONNX and safetensors."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

from head_cases import EVERY_HEAD
from softmargin import GradientDecayLoss, heads
from softmargin.calibration import TemperatureScaling, VectorScaling

D, C = 7, 5
CALIBRATORS = {"TemperatureScaling": TemperatureScaling, "VectorScaling": VectorScaling}
EVERY = [*EVERY_HEAD, *CALIBRATORS]
each = pytest.mark.parametrize("name", EVERY)
knows_exports = pytest.mark.skipif(
    not hasattr(torch.compiler, "is_exporting"), reason="this PyTorch does not say what it exports"
)


def made(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Return a module for inference, with settings of its own, and what it takes."""
    if name in CALIBRATORS:
        logits = 3 * torch.randn(200, C)
        target = torch.multinomial((logits / 2).softmax(1), 1).squeeze(1)
        return CALIBRATORS[name]().fit(logits, target), logits[:6]
    case = EVERY_HEAD[name]
    head = case.module(D, C, **case.options[-1])
    return head.eval(), torch.randn(6, D)


@pytest.mark.slow
@each
def test_torch_export(name):
    module, x = made(name)
    rows = torch.export.Dim("rows")
    program = torch.export.export(module, (x,), dynamic_shapes=({0: rows},))
    longer = torch.cat([x, x.flip(0)])
    torch.testing.assert_close(program.module()(longer), module(longer))


@knows_exports
@pytest.mark.slow
@each
def test_onnx(name, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    module, x = made(name)
    path = str(tmp_path / "module.onnx")
    rows = torch.export.Dim("rows")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter's own dependencies
        torch.onnx.export(
            module, (x,), path, dynamo=True, dynamic_shapes=({0: rows},), verbose=False
        )
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    longer = torch.cat([x, x.flip(0)])
    (logits,) = session.run(None, {session.get_inputs()[0].name: longer.numpy()})
    expected = module(longer).detach()
    torch.testing.assert_close(torch.from_numpy(logits), expected, rtol=1e-4, atol=1e-4)


@each
def test_safetensors(name, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    module, x = made(name)
    model = nn.Sequential(module, GradientDecayLoss(beta=0.3)) if name in EVERY_HEAD else module
    path = str(tmp_path / "model.safetensors")
    safetensors.save_model(model, path)
    torch.manual_seed(1)
    other = copy.deepcopy(model)
    if name in CALIBRATORS:
        other = CALIBRATORS[name]()
    else:
        other[0].reset_parameters()
        other[1].beta = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # another β in the file is no surprise
        missing, unexpected = safetensors.load_model(other, path)
    assert not missing
    assert not unexpected
    if name in CALIBRATORS:
        assert torch.equal(other(x), module(x))
        assert other.num_classes == C
        assert other.notes == module.notes
    else:
        assert torch.equal(other[0](x), module(x))
        assert other[1].beta == 0.3


@pytest.mark.slow
@knows_exports
def test_a_simplex_is_exported_as_eval_left_it():
    head = heads.SimplexHead(D, C)
    head.basis.data.normal_()
    x = torch.randn(6, D)
    torch.export.export(head, (x,))  # in training mode with its QR
    copies = [head.eval(), copy.deepcopy(head), heads.SimplexHead(D, C).eval()]
    copies[-1].load_state_dict(head.state_dict())
    for each in copies:
        program = torch.export.export(each, (x,))
        assert "qr" not in program.graph_module.code
        torch.testing.assert_close(program.module()(x), head(x))
    with torch.no_grad():
        head.basis.mul_(torch.linspace(1, 2, D).unsqueeze(1))
    with pytest.raises(RuntimeError, match=r"basis has changed since: call eval\(\) again"):
        torch.export.export(head, (x,))
    torch.export.export(head.eval(), (x,))


def test_an_old_state_of_a_calibrator_loads():
    calibrator, x = made("TemperatureScaling")
    state = calibrator.state_dict()
    state["_extra_state"] = {"num_classes": C, "notes": ["a note"]}
    other = TemperatureScaling()
    other.load_state_dict(state)
    assert other.notes == ("a note",)
    assert torch.equal(other(x), calibrator(x))

"""The demo: paired runs, measured gradients on the theory's curve, the direction of the effect."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest
import torch

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from softmargin.demo import Configuration, DemoSetting, results, run_demo
from softmargin.demo.page import demo_page, findings, write_report
from softmargin.demo.run import draw_images, load_digits
from softmargin.functional import gradient_decay_loss
from softmargin.heads import LinearHead
from softmargin.losses import GradientDecayLoss
from softmargin.theory import gradient_magnitude
from softmargin.training.batches import order_of_epoch
from softmargin.training.parts import make_schedules

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SETTING = DemoSetting(betas=(20.0, 1.0, 0.01), num_seeds=2, first_seed=3)


@pytest.fixture(scope="module")
def outcomes():
    return run_demo(SETTING)


@pytest.mark.slow
def test_measured_gradients_lie_on_the_curve(outcomes):
    for outcome in outcomes[:-3]:
        p, magnitude = (each.numpy() for each in outcome.gradients())
        assert len(p) == 2 * 300 * 8
        theory = gradient_magnitude(p, outcome.configuration.beta)
        assert np.abs(magnitude - theory).max() < 1e-4
        assert outcome.largest_deviation() < 1e-5
        p, magnitude = results.shown_gradients(outcome)
        assert len(p) == len(magnitude) >= 10


def test_beta_moves_confidence_the_way_it_should(outcomes):
    large, plain, small, *_ = (np.mean(outcome.values("gap")) for outcome in outcomes)
    assert large < 0 < plain < small
    for outcome in outcomes:
        assert min(outcome.values("train_accuracy")) > 0.98


def test_beta_one_is_cross_entropy():
    """The same training with torch's own loss ends with the same predictions."""
    setting = DemoSetting(betas=(1.0,), num_seeds=1, epochs=3)
    run = run_demo(setting)[0].runs[0]
    whole, drawn = load_digits().train, draw_images(0)
    x, y = whole.x[drawn] / 16, whole.y[drawn]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
        network = torch.nn.Sequential(*layers)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        for batch in order_of_epoch(0, epoch, 300).split(20):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network(x[batch]), y[batch]).backward()
            optimiser.step()
    logits = network(x[300:])
    nll = torch.nn.functional.cross_entropy(logits, y[300:]).item()
    assert run.metrics["nll"] == pytest.approx(nll, abs=1e-4)
    confidence = logits.softmax(-1).amax(-1).double().mean().item()
    assert run.metrics["confidence"] == pytest.approx(confidence, abs=1e-5)


def test_all_betas_share_weights_and_images():
    """Without a single step worth the name the networks are equal."""
    still = DemoSetting(betas=(20.0, 0.01), num_seeds=1, epochs=1, learning_rate=1e-300)
    large, small, *_ = run_demo(still)
    assert large.runs[0].metrics == small.runs[0].metrics


def test_the_split_has_every_image_once():
    digits, drawn = load_digits(), draw_images(1)
    assert digits.train.x.shape == (1797, 64)
    assert (digits.train.x.min(), digits.train.x.max()) == (0.0, 16.0)
    assert torch.equal(drawn.sort().values, torch.arange(1797))
    assert not torch.equal(drawn, draw_images(2))


def test_the_warm_up_rises_linearly_then_stays():
    setting = DemoSetting()
    warm_up = setting.warm_up.training(setting, 0)
    loss, head = GradientDecayLoss(), LinearHead(2, 2)
    (schedule,) = make_schedules(warm_up.schedules, loss, head, total=100)
    assert schedule.value_at(0) == 0.01
    assert schedule.value_at(25) == pytest.approx((0.01 + 1) / 2)
    assert schedule.value_at(50) == schedule.value_at(99) == 1.0
    fixed = Configuration(5.0).training(setting, 0)
    assert fixed.schedules == ()
    assert fixed.loss_options == {"beta": 5.0}


@pytest.mark.slow
def test_the_same_setting_gives_the_same_numbers():
    setting = DemoSetting(betas=(1.0, 0.1), num_seeds=2, epochs=3)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = results.to_json(setting, run_demo(setting))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert results.to_json(setting, run_demo(setting)) == first
    other = DemoSetting(betas=(1.0, 0.1), num_seeds=2, epochs=3, first_seed=7)
    assert results.to_json(other, run_demo(other)) != first


def test_threads_are_restored():
    before = torch.get_num_threads()
    run_demo(DemoSetting(betas=(1.0,), num_seeds=1, epochs=1))
    assert torch.get_num_threads() == before

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_demo(SETTING, interrupt)
    assert torch.get_num_threads() == before


def test_json_holds_what_the_table_says(outcomes):
    content = json.loads(results.to_json(SETTING, outcomes))
    assert content["command"] == "softmargin demo --betas 20,1,0.01 --seed 3 --seeds 2"
    assert content["setting"]["test_images"] == 1497
    assert {"softmargin", "python", "torch"} <= set(content["versions"])
    for outcome, row, cells in zip(
        outcomes, content["configurations"], results.table_rows(outcomes), strict=True
    ):
        accuracy = outcome.values("accuracy")
        summary = row["summary"]["accuracy"]
        assert summary["mean"] == pytest.approx(sum(accuracy) / 2)
        assert summary["sd"] == pytest.approx(abs(accuracy[0] - accuracy[1]) / 2**0.5)
        assert cells[:2] == [
            row["label"],
            f"{100 * summary['mean']:.1f} ± {100 * summary['sd']:.1f} %",
        ]
        assert sum(row["bins_pooled_over_seeds"]["counts"]) == 2 * 1497
        assert [len(run["test_accuracy_by_epoch"]) for run in row["runs"]] == [60, 60]


def test_one_seed_has_no_deviation(outcomes):
    assert results.COLUMNS[0].cell([0.915]) == "91.5 ± – %"
    assert results.COLUMNS[4].cell([-0.02, -0.04]) == "−3.0 ± 1.4 %"


@pytest.mark.slow
def test_the_page_reports_its_run(outcomes):
    page = demo_page(SETTING, outcomes)
    assert results.command(SETTING) in page
    assert page.count("<svg") == 2 + 1 + 2 + 6
    for row in results.table_rows(outcomes):
        for cell in row[1:]:
            assert f"<td>{cell}</td>" in page


@pytest.mark.slow
def test_units_are_the_same_everywhere(outcomes, capsys, monkeypatch):
    """Shares in % with its sign, the NLL without, in the table, on the page and in the terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    results.show_results(SETTING, outcomes)
    shown = capsys.readouterr().out
    for row in results.table_rows(outcomes):
        for column, cell in zip(results.COLUMNS, row[1:], strict=True):
            assert cell.endswith(" %") == (column.metric != "nll")
            assert cell in shown
    page = demo_page(SETTING, outcomes)
    assert "points" not in shown + re.sub(
        r"[Mm]easured points", "", re.sub("<path[^>]*>", "", page)
    )
    for sentence in findings(outcomes):
        assert all(after == " %" for after in re.findall(r"\d\.\d\b( ?.)", sentence))


@pytest.mark.slow
def test_the_diagrams_and_the_table_agree(outcomes):
    page = demo_page(SETTING, outcomes)
    column = [column.metric for column in results.COLUMNS].index("ece") + 1
    table = [row[column].partition(" ")[0] for row in results.table_rows(outcomes)]
    assert re.findall(r">ECE (\d+\.\d) %<", page) == table


def test_what_holds_images_out_does_not_train_on_them(outcomes):
    """All see the same images; two calibrate by a third of them."""
    small, scaled, steered = outcomes[2], *outcomes[-2:]
    for outcome in (scaled, steered):
        config = outcome.configuration.training(SETTING, 3)
        assert config.held_out == pytest.approx(1 / 3)
        assert np.mean(outcome.values("accuracy")) > 0.9
        assert abs(np.mean(outcome.values("gap"))) < np.mean(small.values("gap"))
    assert [outcome.configuration.label for outcome in (scaled, steered)] == ["1 + T", "calibrated"]
    assert scaled.runs[0].test_accuracy[-1] == scaled.values("accuracy")[0], "a temperature"


@pytest.mark.slow
def test_a_page_is_whole_or_not_there(outcomes, tmp_path, monkeypatch):
    """Whatever write it dies at, what was there before is there still."""
    write_report(SETTING, outcomes, tmp_path / "a" / "b")
    before = (tmp_path / "a" / "b" / "index.html").read_bytes()
    replaced = []

    def die(source, target):
        replaced.append(target)
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", die)
    other = DemoSetting(betas=(20.0, 1.0, 0.01), num_seeds=2, first_seed=4)
    with pytest.raises(KeyboardInterrupt):
        write_report(other, outcomes, tmp_path / "a" / "b")
    assert replaced
    assert (tmp_path / "a" / "b" / "index.html").read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == [
        "index.html",
        "results.json",
    ]


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_the_page_opens_in_a_browser(outcomes, tmp_path):
    path = tmp_path / "index.html"
    # a script of ours reports what the browser laid out; the page itself has none
    tall = "[...document.querySelectorAll('svg')].filter(each => each.clientHeight > 150)"
    path.write_text(
        demo_page(SETTING, outcomes) + f"<script>document.title = {tall}.length</script>",
        encoding="utf-8",
    )
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"]
    flags += ["--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [CHROMIUM, *flags, path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "<title>11</title>" in done.stdout


def test_findings_follow_the_numbers(outcomes):
    words = findings(outcomes)
    assert "under-confident at β = 20" in words[1]
    assert "over-confident at β = 0.01" in words[1]
    # reversed training: the same sentence must not be claimed of other numbers
    swapped = [
        type(outcome)(Configuration(beta), other.runs)
        for outcome, other, beta in zip(
            outcomes, (outcomes[1], outcomes[0], outcomes[2]), (20.0, 1.0, 0.01), strict=False
        )
    ]
    assert "not steadily" in findings(swapped)[1]
    assert len(findings(outcomes[1:2])) == 2
    assert "only held-out images tell" in words[2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"betas": ()}, "betas must hold at least one number"),
        ({"betas": (0.0,)}, "betas must be a finite number above 0, but got 0.0"),
        ({"betas": (1.0, 1.0)}, "betas must name each number once, but got 1 twice"),
        ({"num_seeds": 0}, "num_seeds must be at least 1, but got 0"),
        ({"first_seed": -1}, "first_seed must be from 0"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        DemoSetting(**changes)


def test_training_loss_is_plain_cross_entropy(outcomes):
    """It is positive and falls for β = 0.01, whose own loss is negative."""
    loss = outcomes[2].runs[0].train_loss
    assert 0 < loss[-1] < 1e-3 < loss[0]
    assert gradient_decay_loss(torch.tensor([[9.0, 0.0]]), torch.tensor([0]), 0.01) < 0

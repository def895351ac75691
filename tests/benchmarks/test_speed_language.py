"""The speed benchmark of language models runs, and its figures belong together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.harness.language_model.models import build_language_model, fitted
from benchmarks.harness.language_model.presets import PRESETS
from benchmarks.speed.__main__ import main
from benchmarks.speed.language import training_step


def test_language(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["language", "--hidden", "4", "--vocabulary", "9", "--rounds", "1", "--threads", "1"]
    assert main([*words, "--out", str(tmp_path / "new")]) == 0
    printed = capsys.readouterr().out
    content = json.loads((tmp_path / "new" / "metrics.json").read_text())
    rcnn, lstm, alone = content["models"]
    names = ["rcnn-5m", "lstm-5m", "nn.LSTM alone"]
    assert [row["model"] for row in (rcnn, lstm, alone)] == names
    assert all(name in printed for name in names)
    assert lstm["num_parameters"] == alone["num_parameters"] + 9 * 4 + 9
    for row in (rcnn, lstm, alone):
        assert row["words"] == 32 * 35
        layers = row["words"] / (row["layers_milliseconds"] / 1e3)
        assert row["layers_words_a_second"] == pytest.approx(layers)
        ratio = row["layers_milliseconds"] / alone["layers_milliseconds"]
        assert row["layers_over_lstm"] == pytest.approx(ratio)
    for row in (rcnn, lstm):
        assert row["words_a_second"] == pytest.approx(row["words"] / (row["milliseconds"] / 1e3))
        ratio = row["milliseconds"] / lstm["milliseconds"]
        assert row["over_last"] == pytest.approx(ratio)


def test_the_step_is_one_of_training() -> None:
    """Plain gradient descent by the clipped gradient of the loss summed over steps."""
    preset = PRESETS["rcnn-5m"]
    torch.manual_seed(0)
    model = build_language_model(fitted(preset, 9, hidden=4))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    training_step(model, preset.training)()
    moved = [
        one - parameter.detach() for one, parameter in zip(before, model.parameters(), strict=True)
    ]
    for parameter, change in zip(model.parameters(), moved, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(change, parameter.grad)
    assert torch.cat([change.flatten() for change in moved]).norm() <= preset.training.clip + 1e-5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--preset", "rcnn-6m"], "invalid choice"),
        (["--rounds", "0"], "--rounds"),
        (["--device", "nonsense"], "--device must be"),
        (["--out", __file__], "File exists"),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["language", *words])
    except SystemExit as stop:
        status = int(stop.code or 0)
    captured = capsys.readouterr().err
    assert (status, captured.count("\n")) == (2, 1)
    assert message in captured

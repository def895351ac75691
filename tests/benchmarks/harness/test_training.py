"""Resumed runs, which end where uninterrupted ones do, and checkpoints."""

from pathlib import Path
from typing import Any

import pandas
import pytest
import torch

from benchmarks.harness import training
from benchmarks.harness.checkpoint import load_learner
from benchmarks.harness.errors import InputError
from benchmarks.harness.experiment import Experiment
from benchmarks.harness.text.data import load_texts
from benchmarks.harness.text.task import TextTask, text_model_configs
from benchmarks.harness.training import PREDICTIONS, RECORD, EpochHistory, Run
from benchmarks.text_classification import TextClassification
from pyg_kernels.molecules.learning_rate import cosine
from tests.benchmarks.conftest import outcome
from tests.benchmarks.interruption import interrupt_once
from tests.benchmarks.small_data import write_trec


@pytest.fixture
def experiment(tmp_path):
    """Opens a small experiment on texts, with its results in the folder of the given name."""
    root = write_trec(tmp_path / "trec", 60, 20)
    small = {"schedule": "none", "lr": 0.03, "device": "cpu", "precision": "32-true"}
    small |= {"models": ("rcnn",), "hidden": 4, "embedding": 5, "vectors": "none", "counts": 0}
    small |= {"batch_size": 16, "quiet": True}

    def make(name: str = "out", resume: bool = False, **more: Any):
        epochs = more.setdefault("epochs", 4)
        given = {"patience": epochs, **small, **more}
        options = TextClassification(root=str(root), resume=resume, **given)
        texts = load_texts(options)
        models = text_model_configs(options, texts)
        out, task = tmp_path / name, TextTask(texts)
        made = Experiment("texts", options, out, task, models, options.training())
        made.study.open()
        return made

    return make


def test_mixed_precision_clips_gradients(experiment):
    """A GPU uses mixed precision by default; Lightning refuses to clip with a fused Adam."""
    assert experiment(precision="bf16-mixed", epochs=1).run()


@pytest.mark.parametrize("schedule", ["cosine", "exponential"])
def test_learning_rate_follows_the_schedule(experiment, schedule):
    made = experiment(schedule=schedule, epochs=3, lr=0.05)
    (run,) = made.run()
    rates = [epoch["learning_rate"] for epoch in run.history]
    steps = -(-len(made.task.parts["train"]) // 16)
    factors = {"cosine": cosine(3 * steps), "exponential": lambda step: 0.9 ** (step // steps)}
    factor = factors[schedule]
    assert rates == pytest.approx([0.05 * factor(steps * epoch) for epoch in (1, 2, 3)])


def test_damaged_results_are_one_line(experiment, tmp_path, monkeypatch):
    second = lambda self, trainer, module: trainer.current_epoch == 1  # noqa: E731
    interrupt_once(monkeypatch, EpochHistory, "on_train_epoch_start", second)
    with pytest.raises(KeyboardInterrupt):
        experiment().run()
    out, folder = tmp_path / "out", tmp_path / "out/runs/rcnn-seed0"

    def refused(path: Path, *contents: bytes) -> None:
        whole = path.read_bytes()
        for content in contents:
            path.write_bytes(content)
            with pytest.raises(InputError, match=f"{path.name} is damaged.*remove"):
                experiment(resume=True).run()
        path.write_bytes(whole)

    last, other = folder / "last.ckpt", tmp_path / "other.ckpt"
    torch.save({**torch.load(last, weights_only=True), "state_dict": {}}, other)
    instructions = b"smiles,y\nCC,1\n"  # of a pickle
    refused(last, last.read_bytes()[:1000], instructions, other.read_bytes())
    best = (folder / "best.ckpt").read_bytes()
    (folder / "best.ckpt").unlink()
    with pytest.raises(InputError, match=r"best.ckpt is missing.*remove"):
        experiment(resume=True).run()
    (folder / "best.ckpt").write_bytes(best)
    experiment(resume=True).run()
    whole = outcome(out)
    (folder / "predictions.csv").unlink()  # the run is then unfinished and is trained again
    experiment(resume=True).run()
    assert outcome(out) == whole
    refused(folder / "record.json", b"{")
    refused(out / "configuration.json", b"[]", b"{", b'{"seeds": [0]}')


def test_resume_after_early_stopping_trains_no_further(experiment, tmp_path, monkeypatch):
    options = {"epochs": 60, "patience": 2, "lr": 0.3}
    (run,) = experiment("whole", **options).run()
    assert run.record["epochs"] < 60
    interrupt_once(monkeypatch, training, "_predict", lambda *args: True)
    with pytest.raises(KeyboardInterrupt):
        experiment(**options).run()
    experiment(resume=True, **options).run()
    assert outcome(tmp_path / "out") == outcome(tmp_path / "whole")


def test_metrics_are_those_of_the_best_epoch_and_each_is_logged_on_request(experiment, tmp_path):
    made = experiment(epochs=8, lr=0.05, logger="csv")
    (run,) = made.run()
    best = min(run.history, key=lambda epoch: epoch["valid_error"])
    assert best["valid_error"] < min(run.history[place]["valid_error"] for place in (0, -1))
    assert len(run.history) == run.record["epochs"]
    assert run.record["valid"] == pytest.approx(best[f"valid_{made.task.measure.key}"], rel=1e-5)
    table = pandas.read_csv(tmp_path / "out" / "runs/rcnn-seed0/metrics.csv")
    assert table["epoch"].tolist() == list(range(1, 9))
    found = table["valid_accuracy"].tolist()
    assert found == pytest.approx([epoch["valid_accuracy"] for epoch in run.history])


def test_words_of_predictions_stay_as_they_are(tmp_path) -> None:
    (tmp_path / RECORD).write_text('{"history": []}')
    (tmp_path / PREDICTIONS).write_text("left_out,subject,label,text\n01,NA,007,1.0\n")
    run = Run.read(tmp_path)
    assert run is not None
    assert run.predictions.to_numpy().tolist() == [["01", "NA", "007", "1.0"]]
    (tmp_path / PREDICTIONS).unlink()
    assert Run.read(tmp_path) is None  # a finished run has both files


class Learner(torch.nn.Module):
    UNSAVED, ADDED = ("relevance",), ("later",)

    def __init__(
        self, model: dict[str, str], words: list[str], relevance: int = 0, later: bool = False
    ) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(1, len(words))


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"hello\n", b"smiles,y\nCC,1\n", b"(a", b"q\x00", b"h", b"\x80"),
        *(b"X\xff", b"X\x01\x00\x00\x00\xff", b"N.", b"\x80\x02K\x01."),
        *(torch.zeros(3), 5, [], {}, {"hyper_parameters": None}),
        {"hyper_parameters": {"model", "words"}},
        *({"hyper_parameters": {"model": 1, "words": []}}, {"hyper_parameters": {"model": {}}}),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: object) -> None:
    """Some are read as the instructions of a pickle, which fails in many ways."""
    path = tmp_path / "some.ckpt"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    with pytest.raises(InputError, match=r"^--checkpoint .*some.ckpt is not a checkpoint of this"):
        load_learner(path, Learner)


def test_a_checkpoint_gives_its_learner_or_says_why_not(tmp_path: Path) -> None:
    made, path = Learner({"name": "a"}, ["b", "c"]), tmp_path / "some.ckpt"
    arguments = {"model": {"name": "a"}, "words": ["b", "c"]}
    for told, said in (
        (arguments, ""),
        ({**arguments, "later": True}, ""),
        ({"model": {"name": "a"}}, "some.ckpt is a checkpoint of another network"),
        ({**arguments, "more": 1}, "some.ckpt is a checkpoint of another network"),
        ({**arguments, "words": ["b"]}, "some.ckpt does not fit this version's a"),
        ({**arguments, "words": 3}, "some.ckpt does not fit this version's a"),
    ):
        torch.save({"hyper_parameters": told, "state_dict": made.state_dict()}, path)
        if said:
            with pytest.raises(InputError, match=said):
                load_learner(path, Learner)
        else:
            found = load_learner(path, Learner)
            assert torch.equal(found.lin.weight, made.lin.weight) and not found.training

"""Recordings: what is planted in generated ones, and which inputs are refused."""

import itertools
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.corpora import recordings
from benchmarks.corpora.recordings import PlantedRecordings, PlantedState, Recordings

NO_FILE = r"mice\.npz is no \.npz file of the arrays x, y, subject"
SLOW, FAST = PlantedState("slow", 30.0, 0.3), PlantedState("fast", 110.0, -0.7)


def some_trials(number: int = 6) -> dict[str, np.ndarray]:
    """Three channels of eight samples: two classes, three subjects."""
    x = np.random.default_rng(0).normal(size=(number, 3, 8))
    return {"x": x, "y": np.arange(number) % 2, "subject": np.arange(number) % 3}


def test_channels_have_the_planted_phases() -> None:
    data = PlantedRecordings(2, 40, num_channels=5, states=(SLOW, FAST), amplitude=20.0)
    frequencies, phases = (each[data.subject, data.y] for each in (data.frequencies, data.phases))
    turns = 2 * math.pi * frequencies[:, None] * torch.arange(1000) / 1000
    waves = torch.exp(-1j * turns) * torch.hann_window(1000)
    parts = (data.x * waves[:, None]).sum(dim=2) * torch.exp(-1j * phases)
    torch.testing.assert_close((parts * parts[:, :1].conj()).angle(), 0 * phases, rtol=0, atol=0.05)
    # The overall phase of a trial may be anywhere on the circle.
    for subject, state in itertools.product(range(2), repeat=2):
        start = parts[(data.subject == subject) & (data.y == state), 0].sgn()
        assert len(start) == 40 and start.mean().abs() < 0.35
    lag = torch.arange(5) * torch.tensor([[state.lag] for state in data.states])
    # A phase is a lag plus a shift. Each channel has one shift, the same for all states.
    torch.testing.assert_close((data.phases - lag)[:, 0], (data.phases - lag)[:, 1])


def test_noise_has_power_one_over_f_and_the_subjects_variance() -> None:
    def noise(trials: int, channels: int, samples: int) -> np.ndarray:
        data = PlantedRecordings(2, trials, channels, samples / 1000, amplitude=0.0)
        scale = data.gains[data.subject] * data.noise[data.subject, None]
        return (data.x.double() / scale[:, :, None]).numpy()

    x = noise(100, 3, 1000)
    for one in np.split(x, 2):
        power = (np.abs(np.fft.rfft(one)[..., 1:]) ** 2).mean(axis=(0, 1)) / 1000**2
        # The variance sums frequencies and their mirror images: 2/f for each, 1/f for the last.
        expected = 1 / np.arange(1, 501)
        ratio = power / expected * (2 * expected[:-1].sum() + expected[-1])
        np.testing.assert_allclose(ratio[:100], 1, atol=0.2)
        np.testing.assert_allclose(ratio.mean(), 1, atol=0.01)
        np.testing.assert_allclose((one**2).mean(), 1, atol=0.02)
    np.testing.assert_allclose(x.mean(axis=2), 0, atol=1e-6)
    for samples in (2, 3, 7, 8):  # odd and short trials have the same variance
        assert np.square(noise(2000, 1, samples)).mean() == pytest.approx(1, abs=0.05)


def test_all_draws_come_from_the_seed() -> None:
    one, again, other = (PlantedRecordings(3, 2, 4, seconds=0.05, seed=k) for k in (5, 5, 6))
    for name in ("x", "y", "subject", "frequencies", "phases", "gains", "noise"):
        assert torch.equal(getattr(one, name), getattr(again, name))
    assert one.digest() == again.digest() != other.digest()
    more = PlantedRecordings(5, 2, 4, seconds=0.05, seed=5)
    assert torch.equal(more.x[: len(one)], one.x)
    assert torch.equal(more.phases[:3], one.phases)
    assert (more.subjects[-1], more.x.shape) == ("s05", (5 * 3 * 2, 4, 50))
    assert [int(n) for n in torch.bincount(more.subject * 3 + more.y)] == [2] * 15


def test_classes_and_subjects_have_any_names() -> None:
    trials = some_trials()
    data = Recordings(trials["x"], [10, 9, 10, 9, 9, 10], list("bbaabc"), rate=250)
    assert (data.classes, data.subjects) == (("9", "10"), ("a", "b", "c"))
    assert data.y.tolist() == [1, 0, 1, 0, 0, 1]
    assert data.subject.tolist() == [1, 1, 0, 0, 1, 2]
    tensors = Recordings(torch.zeros(2, 1, 4), torch.tensor([True, False]), torch.tensor([3, 1]))
    assert (tensors.classes, tensors.subjects) == (("False", "True"), ("1", "3"))
    torch.testing.assert_close(data.x, torch.from_numpy(trials["x"]).float())
    names = np.array([b"x", b"y"] * 3)
    counts = Recordings((100 * trials["x"]).astype(np.int16), trials["y"] + 1.0, names)
    assert counts.x.dtype == torch.float32
    assert (counts.classes, counts.subjects) == (("1", "2"), ("x", "y"))


def test_standardized_trials_know_neither_gain_nor_offset() -> None:
    trials = some_trials()
    trials["x"][0, 1] = 5.0  # a constant channel
    data = Recordings(**trials)
    x = data.standardized()
    assert not x[0, 1].any()
    mean, std = (measure(trials["x"], axis=2, keepdims=True) for measure in (np.mean, np.std))
    expected = (trials["x"] - mean) / np.maximum(std, 1e-9)
    np.testing.assert_allclose(x, expected, atol=1e-5)
    gains = np.array([1e-6, 1e30, -3.0])[:, None]
    scaled = Recordings(**{**trials, "x": gains * (trials["x"] + 1.0)}).standardized()
    np.testing.assert_allclose(scaled, np.sign(gains) * expected, atol=1e-4)


def spoilt(trials: list[int], value: float) -> np.ndarray:
    x = some_trials(9)["x"]
    x[trials, 1, 2] = value
    return x


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"x": np.zeros((6, 3))}, r"\(trials, channels, time\).*\(6, 3\)"),
        ({"x": np.zeros((6, 3, 8), complex)}, "real numbers, got complex128"),
        ({"y": np.arange(5)}, r"y must have one entry.* 6 trials, got shape \(5,\)"),
        ({"subject": [None] * 6}, "subject must hold whole numbers or strings"),
        ({"y": ["up"] * 6}, "y has a single value, up; at least 2"),
        ({"rate": 0.0}, "rate must be a positive number of Hz, got 0"),
        ({**some_trials(9), "x": spoilt([4], np.nan)}, "in trials 4, counted from 0"),
        ({**some_trials(9), "x": spoilt([4, 7], -np.inf)}, "in trials 4, 7, counted"),
        ({**some_trials(9), "x": spoilt([*range(2, 9)], 1e200)}, r"in trials 2, .*, 6, \.\.\., c"),
    ],
)
def test_what_is_no_recording(changes, said) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        Recordings(**{**some_trials(), **changes})


def test_file(tmp_path: Path) -> None:
    trials, path = some_trials(), tmp_path / "mice.npz"
    np.savez(path, **trials, comment="of no concern")
    read, made = recordings.read_recordings(path, 500.0), Recordings(**trials, rate=500.0)
    assert read.digest() == made.digest() != Recordings(**trials, rate=1000.0).digest()
    whole = path.read_bytes()
    np.savez_compressed(path, **trials)
    assert recordings.read_recordings(path, 500.0).digest() == made.digest()
    np.save(tmp_path / "one.npy", np.zeros(3))
    for content, said in (
        ({"x": np.zeros((2, 1, 4)), "label": [0, 1]}, NO_FILE),
        ({**trials, "x": spoilt([3], np.nan)[:6]}, "mice.npz: x has samples .* in trials 3"),
        *((some, NO_FILE) for some in (whole[:300], b"x,y\n1", b"", pickle.dumps([1]))),
        ((tmp_path / "one.npy").read_bytes(), NO_FILE),
    ):
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            np.savez(path, **content)
        with pytest.raises(ValueError, match=said):
            recordings.read_recordings(path)

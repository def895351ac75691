"""Multi-channel recordings of several subjects: your own from a file, or made ones."""

import math
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.corpora.published_text import fingerprint

KEYS = ("x", "y", "subject")
MOST_NAMED = 5  # most trials named in an error message
# Standard deviations in made recordings.
FREQUENCY_SPREAD = 0.02
PHASE_SPREAD = 0.4
STRENGTH_SPREAD = 0.3
GAIN_SPREAD = 0.5
NOISE_SPREAD = 0.2


class Recordings:
    """M trials of C channels by T samples, each of one of K classes and from one of S subjects.

    Args:
        x: (M, C, T) numbers, in any unit.
        y: M classes, whole numbers or strings.
        subject: M subjects, whole numbers or strings.
        rate: samples a second, in Hz.

    Attributes:
        x: as given, float32.
        y, subject: (M,) int64, positions in ``classes`` and ``subjects``.
        classes, subjects: their names; numbers in ascending, strings in alphabetical order.
    """

    def __init__(self, x: Any, y: Any, subject: Any, rate: float = 1000.0) -> None:
        if not (math.isfinite(rate) and rate > 0):
            raise ValueError(f"rate must be a positive number of Hz, got {rate}")
        samples = np.asarray(x)
        if samples.dtype.kind not in "fiu":
            raise TypeError(f"x must hold real numbers, got {samples.dtype}")
        if samples.ndim != 3 or not samples.size:
            wanted = "(trials, channels, time) with at least one of each"
            raise ValueError(f"x must be {wanted}, got shape {samples.shape}")
        with np.errstate(over="ignore"):
            self.x = torch.from_numpy(samples.astype(np.float32))
        bad = (~self.x.isfinite().flatten(1).all(dim=1)).nonzero().flatten().tolist()
        if bad:
            named = ", ".join(map(str, bad[:MOST_NAMED])) + ", ..." * (len(bad) > MOST_NAMED)
            raise ValueError(
                f"x has samples that are not finite (NaN, infinite or beyond single precision) in "
                f"trials {named}, counted from 0"
            )
        self.y, self.classes = _numbered("y", y, len(samples))
        self.subject, self.subjects = _numbered("subject", subject, len(samples))
        self.rate = float(rate)

    def __len__(self) -> int:
        return len(self.x)

    def standardized(self) -> Tensor:
        """Every channel of every trial with mean 0 and standard deviation 1 over time.

        A gain or an offset of a channel has no effect. A constant channel becomes zeros.
        """
        x = self.x.double()
        x = x - x.mean(dim=2, keepdim=True)
        scale = x.std(dim=2, correction=0, keepdim=True)
        return torch.where(scale > 0, x / scale, 0.0).float()

    def digest(self) -> str:
        words = (self.x.shape, self.classes, self.subjects)
        return fingerprint(words, self.x, self.y, self.subject, torch.tensor(self.rate))


def read_recordings(path: str | Path, rate: float = 1000.0) -> Recordings:
    """Recordings in a file of ``numpy.savez(path, x=x, y=y, subject=subject)``.

    ``x`` has shape (trials, channels, time), the others (trials,). Further arrays are ignored.
    """
    try:
        with np.load(path, allow_pickle=False) as file:  # so that no objects are unpickled
            arrays = {key: np.asarray(file[key]) for key in KEYS}
    except (zipfile.BadZipFile, zlib.error, EOFError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is no .npz file of the arrays {', '.join(KEYS)}: {error}"
        ) from error
    try:
        return Recordings(**arrays, rate=rate)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


@dataclass(frozen=True)
class PlantedState:
    """What marks the trials of one class: an oscillation that travels across the channels."""

    name: str  # of the class
    frequency: float  # of the oscillation, in Hz
    # how far each channel's phase is ahead of the one before it, in radians: channel c (from 0) has
    # the phase ``c * lag``. The sign gives the direction of travel.
    lag: float
    strength: float = 1.0  # its amplitude relative to those of the other states


# The power of 1/f noise at 40 Hz is twice that at 80 Hz. With strength 1/sqrt(2), an oscillation at
# 80 Hz therefore stands out from the noise as much as one at 40 Hz.
STATES = (
    PlantedState("forward", 40.0, math.pi / 6),
    PlantedState("backward", 40.0, -math.pi / 6),
    PlantedState("fast", 80.0, math.pi / 6, math.sqrt(0.5)),
)


class PlantedRecordings(Recordings):
    r"""Made recordings: oscillations of known frequency and phase in 1/f noise.

    Trial m, of state k and subject s, has on channel c at time t (in seconds) the value

    .. math::
        x_{mc}(t) = g_{sc} \left( \sqrt{2}\, a_m \cos(2 \pi f_{sk} t + \theta_{skc} + \psi_m)
        + \sigma_s n_{mc}(t) \right)

    with, for a standard normal draw :math:`\epsilon` each time,

    - :math:`f_{sk} = f_k (1 + 0.02\, \epsilon)`, one :math:`\epsilon` a subject,
    - :math:`\theta_{skc} = c\, \ell_k + 0.4\, \epsilon`, one a subject and channel,
    - :math:`a_m = A\, r_k \exp(0.3\, \epsilon)`, one a trial,
    - :math:`g_{sc} = \exp(0.5\, \epsilon)`, the gain, and :math:`\sigma_s = \exp(0.2\, \epsilon)`,

    where frequency :math:`f_k`, lag :math:`\ell_k` and strength :math:`r_k` are the state's. The
    phase :math:`\psi_m` is uniform on the circle. The noise :math:`n_{mc}` is normal, of power 1/f
    and variance 1. The states ``'forward'`` and ``'backward'`` differ in the direction of travel
    alone, so that no single channel tells them apart.

    Args:
        num_subjects: S, the number of subjects, named ``'s01'``, ``'s02'``, .... A larger number
            adds subjects and leaves the others as they are.
        trials: trials of each state and subject.
        num_channels: C channels.
        seconds: length of a trial.
        rate: samples a second, in Hz.
        states: K classes.
        amplitude: A, the root mean square of an oscillation of strength 1; the noise has 1.
        seed: the seed of all draws.

    Attributes:
        states: in the order of classes.
        frequencies, phases, gains, noise: (S, K) in Hz, (S, K, C) in radians, (S, C) and (S,).
    """

    def __init__(
        self,
        num_subjects: int = 6,
        trials: int = 40,
        num_channels: int = 11,
        seconds: float = 1.0,
        rate: float = 1000.0,
        states: Sequence[PlantedState] = STATES,
        amplitude: float = 0.08,
        seed: int = 0,
    ) -> None:
        self.states = tuple(sorted(states, key=lambda state: state.name))  # as classes are
        frequency, lag, strength = np.array([s[1:] for s in map(astuple, self.states)]).T
        y = np.tile(np.arange(len(self.states)), trials)
        time = np.arange(round(seconds * rate)) / rate
        x, drawn = [], []
        for subject in range(num_subjects):
            generator = np.random.default_rng([seed, subject])
            shift = PHASE_SPREAD * generator.standard_normal(num_channels)
            frequencies = frequency * (1 + FREQUENCY_SPREAD * generator.standard_normal())
            phases = lag[:, None] * np.arange(num_channels) + shift
            gains = np.exp(GAIN_SPREAD * generator.standard_normal(num_channels))
            level = math.exp(NOISE_SPREAD * generator.standard_normal())
            size = amplitude * strength[y]
            size = size * np.exp(STRENGTH_SPREAD * generator.standard_normal(len(y)))
            start = generator.uniform(0, 2 * math.pi, len(y))
            turns = 2 * math.pi * frequencies[y][:, None, None] * time
            angle = turns + (phases[y] + start[:, None])[:, :, None]
            noise = _pink_noise(generator, (len(y), num_channels, len(time)))
            oscillation = math.sqrt(2) * size[:, None, None] * np.cos(angle)
            x.append(gains[:, None] * (oscillation + level * noise))
            drawn.append((frequencies, phases, gains, level))
        super().__init__(
            np.concatenate(x),
            np.array([state.name for state in self.states])[np.tile(y, num_subjects)],
            np.repeat([f"s{s + 1:02d}" for s in range(num_subjects)], len(y)),
            rate,
        )
        found = (torch.tensor(np.stack(each)) for each in zip(*drawn, strict=True))
        self.frequencies, self.phases, self.gains, self.noise = found


def _pink_noise(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal noise of power 1/f along the last axis, with mean 0 and expected variance 1."""
    samples = shape[-1]
    steps = np.arange(1, samples // 2 + 1)
    power = 1 / steps
    # A coefficient stands for a frequency and its mirror image, but half the rate has no image.
    copies = np.where(2 * steps == samples, 1, 2)
    power = power / (copies * power).sum()
    real, imaginary = generator.standard_normal((2, *shape[:-1], len(steps)))
    # A frequency without a mirror image has a real coefficient.
    parts = np.where(copies == 1, real, (real + 1j * imaginary) * math.sqrt(0.5))
    spectrum = np.concatenate([np.zeros((*shape[:-1], 1)), parts * np.sqrt(power)], axis=-1)
    return np.asarray(np.fft.irfft(spectrum * samples, n=samples))


def _numbered(key: str, values: Any, trials: int) -> tuple[Tensor, tuple[str, ...]]:
    """The position of each value among the different values, and the names of these."""
    names = np.asarray(values)
    if names.shape != (trials,):
        wanted = f"one entry for each of {trials} trials"
        raise ValueError(f"{key} must have {wanted}, got shape {names.shape}")
    if names.dtype.kind == "f" and (np.isfinite(names) & (names == names.round())).all():
        names = names.astype(np.int64)
    if names.dtype.kind == "S":
        names = np.char.decode(names, "utf-8")
    if names.dtype.kind not in "biuU":
        raise ValueError(f"{key} must hold whole numbers or strings, got {names.dtype}")
    different, positions = np.unique(names, return_inverse=True)
    if len(different) < 2:
        raise ValueError(f"{key} has a single value, {names[0]}; at least 2 are needed")
    return torch.from_numpy(positions.reshape(-1).astype(np.int64)), tuple(map(str, different))

"""Words drawn one after the other from a trained language model."""

from collections.abc import Iterator, Sequence

import torch

from benchmarks.harness.errors import InputError
from benchmarks.harness.language_model.trained import TrainedModel


@torch.no_grad()
def generate(
    model: TrainedModel,
    prompt: Sequence[str],
    length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
) -> Iterator[str]:
    r"""Draws words after a prompt, each from :math:`p(v) \propto \exp(s_v / \tau)`.

    The prompt follows an end of sentence, as texts in training do. The unknown word is never drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    vocabulary = model.vocabulary
    ids = torch.cat([torch.tensor([vocabulary.end]), model.numbers(prompt)])
    state = None
    for _ in range(length):
        hidden, state = model.net(ids.to(model.device).unsqueeze(1), state)
        scores = model.net.scores(hidden[-1, 0]).double().cpu()
        scores[vocabulary.unknown] = -torch.inf
        order = scores.argsort(descending=True, stable=True)  # the first of equal ones is higher
        kept = order[:top_k] if temperature else order[:1]
        weights = ((scores[kept] - scores[order[0]]) / (temperature or 1.0)).exp()
        ids = kept[torch.multinomial(weights, 1, generator=generator)]
        yield vocabulary.words[int(ids)]


def checked_prompt(model: TrainedModel, words: Sequence[str]) -> list[str]:
    """The prompt, if at least one of its words is known."""
    if words and model.unknown(words).total() == len(words):
        raise InputError(
            f"--prompt: the model's vocabulary of {len(model.vocabulary):,} words ({model.corpus}) "
            "has none of these"
        )
    return list(words)

"""Language modelling: recurrent convolutions and kernel machines beside an LSTM, by perplexity.

``python -m benchmarks.language_model`` trains and compares models; the commands ``generate`` and
``score`` apply a trained one to a text. Heavy imports happen after the options have been read:
``--help`` and a misspelt option answer at once.
"""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from benchmarks.harness.errors import InputError, as_input_error, naming_extras, say, tell
from benchmarks.harness.language_model.options import PRESETS, LanguageModel
from benchmarks.harness.options import Command, Device, run_commands, setting

PROGRAM = "benchmarks.language_model"
PRESET_LINES = "\n".join(f"  {name:<24}  {preset.help}" for name, preset in PRESETS.items())
DETAILS = f"""\
presets, with their published test perplexities on the Penn Treebank:
{PRESET_LINES}

Every preset has its own training schedule, including --epochs. That of rcnn-5m is gradient descent
with learning rate 1.0 for 50 epochs. On a GPU, the paper's run is
  python -m benchmarks.language_model --data DIR --preset rcnn-5m
With 5 M parameters, Lei et al. 2017 and Lei's thesis report 73.6 with the gate on x and h and 74.2
with the gate on x alone. The README of the authors' code reports 69.3, with tanh (rcnn-5m-tanh).

To draw words from a trained model, and to score a text:
  python -m benchmarks.language_model generate --checkpoint OUT/runs/PRESET-seedN/best.ckpt
  python -m benchmarks.language_model score --checkpoint OUT/runs/PRESET-seedN/best.ckpt --data FILE

OUT holds metrics.json, predictions.csv, table.md (also by epoch), perplexity.png,
configuration.json and a folder for each run, runs/PRESET-seedN, with its best checkpoint.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


@dataclass(frozen=True, kw_only=True)
class Trained(Device):
    """Trained model.

    Args:
        checkpoint: trained run: its best.ckpt, its folder, or a results folder with a single run
        words: split the text at spaces alone, since it is written as the corpus is; without this,
            it is split into words as far as the vocabulary shows how
    """

    REQUIRED: ClassVar[tuple[str, ...]] = ("checkpoint",)

    checkpoint: str | None = setting(None)
    words: bool = setting(False, free=True)


@dataclass(frozen=True, kw_only=True)
class Generate(Trained):
    """Words to draw.

    Args:
        prompt: text to continue; without it the words begin a sentence
        length: number of words to draw, including ends of sentences
        temperature: divisor of the words' scores: below 1 prefers probable words, 0 always takes
            the most probable one
        top_k: draw from the N most probable words (all)
        seed: random seed of the draws
    """

    prompt: str | None = setting(None)
    length: int = setting(100, least=1)
    temperature: float = setting(1.0, least=0)
    top_k: int | None = setting(None, least=1)
    seed: int = setting(0, least=0)


@dataclass(frozen=True, kw_only=True)
class Score(Trained):
    """Text to score.

    Args:
        data: text file to score
        text: text to score in place of --data, in quotes
        encoding: character encoding of the file
        each_line: also print a row for each line
    """

    ONE_OF: ClassVar[tuple[str, ...]] = ("data", "text")

    data: str | None = setting(None, "file")
    text: str | None = setting(None)
    encoding: str = setting("utf-8")
    each_line: bool = setting(False, free=True)


def compare(options: LanguageModel) -> None:
    """Trains language models on one corpus and compares their perplexities after each epoch."""
    with naming_extras("bench"):
        from benchmarks.harness.experiment import Experiment
        from benchmarks.harness.language_model import report, task
        from benchmarks.harness.training import TrainingConfig
    corpus = task.load_corpus(options)
    out = Path(options.out or f"runs/language-{corpus.name}")
    models = task.language_setups(options, corpus)
    # Settings that all models share; all others come from each preset.
    same = {name: getattr(options, name) for name in ("device", "precision", "logger")}
    training = TrainingConfig(**same, show=options.show())
    learned = task.LanguageTask(corpus)
    experiment = Experiment(PROGRAM, options, out, learned, models, training, files=report.FILES)
    experiment.carry_out(lambda runs: report.report(runs, corpus), report.describe(corpus))


def generate(options: Generate) -> None:
    """Draws words from a trained language model and prints each sentence on a line."""
    with naming_extras("bench"):
        from benchmarks.corpora.language import END
        from benchmarks.harness.language_model.trained import load_model, unknown_words
    model = load_model(options.checkpoint or "", options.device)
    text = options.prompt or ""
    prompt = text.split() if options.words else model.split(text)
    if text.strip() and not prompt:
        raise InputError("--prompt has no words: the vocabulary is without punctuation")
    unknown = model.unknown(prompt)
    if unknown and unknown.total() == len(prompt):
        vocabulary = f"the model's vocabulary of {len(model.vocabulary):,} words ({model.corpus})"
        raise InputError(f"--prompt: {vocabulary} has none of these")
    if unknown:
        tell(f"{PROGRAM}: --prompt: {unknown_words(unknown)}")
    sentence = list(prompt)
    draws = (options.length, options.temperature, options.top_k, options.seed)
    for word in model.generate(prompt, *draws):
        if word == END:
            say(" ".join(sentence))
            sentence = []
        else:
            sentence.append(word)
    if sentence:
        say(" ".join(sentence))


def score(options: Score) -> None:
    """Prints the perplexity of a text under a trained language model."""
    with naming_extras("bench"):
        from benchmarks.harness.language_model.trained import load_model, unknown_words
        from pyg_kernels.datasets.public_file import read_lines
    lines = (options.text or "").splitlines()
    if options.data:
        with as_input_error():
            lines = read_lines(options.data, options.encoding)
    model = load_model(options.checkpoint or "", options.device)
    split = str.split if options.words else model.split
    words = [split(line) for line in lines]
    scores = model.score(words if options.words else [line for line in words if line])
    unknown = unknown_words(scores.unknown)
    if unknown:
        tell(f"{PROGRAM}: {unknown}")
    say(scores.table(options.data or "whole text", options.each_line).text())


COMMANDS = {
    "": Command(LanguageModel, compare, DETAILS),
    "generate": Command(Generate, generate, "The unknown word is never drawn."),
    "score": Command(
        Score,
        score,
        "Every line ends a sentence. Empty lines are left out, unless --words is given.",
    ),
}
main = partial(run_commands, PROGRAM, COMMANDS)

if __name__ == "__main__":
    sys.exit(main())

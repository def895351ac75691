"""Language modelling: recurrent convolutions and kernel machines beside an LSTM, by perplexity.

``python -m benchmarks.language_model --help`` trains and compares models;
``python -m benchmarks.language_model generate --help`` and ``score --help`` apply a trained one to
a text. Heavy imports happen after the arguments have been read: ``--help`` and a misspelt option
answer at once.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.arguments import (
    LARGEST_WIDTH,
    MOST_LAYERS,
    PRECISIONS,
    OneLineParser,
    add_device_option,
    add_result_options,
    exit_status,
    integer,
    nonempty,
    number,
    shown,
)
from benchmarks.harness.errors import InputError, naming_extras, say, tell
from benchmarks.harness.language_model.presets import PRESETS

PROGRAM = "benchmarks.language_model"
DEFAULT_PRESETS = ("rcnn-5m", "lstm-5m")
# Where no corpus is named: minutes on two cores.
DEFAULT_EPOCHS = 5
DEFAULT_PARAMETERS = 1_000_000
# The options that change the training of every preset named, and their fields.
CHANGES = {
    "epochs": "epochs",
    "patience": "patience",
    "batch_size": "batch_size",
    "steps": "steps",
    "lr": "learning_rate",
    "clip": "clip",
}

EPILOG = """\
presets, with test perplexities on the Penn Treebank as published:
{presets}

Every preset has its own schedule, --epochs included; that of rcnn-5m is gradient descent at 1.0
and 50 epochs. On a GPU the paper's run is
  python -m benchmarks.language_model --data DIR --preset rcnn-5m
Lei et al. 2017 and Lei's thesis report, at 5 M parameters, 73.6 with the gate on x and h and 74.2
with the gate on x alone; the README of the authors' code reports 69.3, with tanh (rcnn-5m-tanh).

To draw words from a trained model, and to score a text:
  python -m benchmarks.language_model generate --checkpoint OUT/runs/PRESET-seedN/best.ckpt
  python -m benchmarks.language_model score --checkpoint OUT/runs/PRESET-seedN/best.ckpt --file FILE

OUT holds metrics.json, predictions.csv, table.md (also by epoch), perplexity.png,
configuration.json and a folder for each run, runs/PRESET-seedN, with its best checkpoint.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: The words after the program's name; ``None``: those of this process.

    Returns:
        The exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["generate"]:
        return exit_status(PROGRAM, lambda: _generate(generate_parser().parse_args(words[1:])))
    if words[:1] == ["score"]:
        return exit_status(PROGRAM, lambda: _score(score_parser().parse_args(words[1:])))
    return exit_status(PROGRAM, lambda: _compare(parser().parse_args(words)))


def parser() -> argparse.ArgumentParser:
    """The options that train and compare models."""
    width = max(map(len, PRESETS))
    presets = "\n".join(f"  {name:<{width}}  {p.help}" for name, p in PRESETS.items())
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Trains language models on one corpus and compares their perplexities after "
        "each epoch.",
        epilog=EPILOG.format(presets=presets),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    texts = parser.add_argument_group("texts")
    texts.add_argument(
        "--data",
        type=nonempty,
        metavar="DIR|FILE",
        help="folder of ptb.train.txt, ptb.valid.txt and ptb.test.txt, of wiki.train.tokens ..., "
        "or of train.txt ..., also compressed (.gz), or a text file of your own, of which the "
        "first 80 %% of the lines train, 10 %% validate and the last are tested (the documentation "
        "inside this Python)",
    )
    _add_file_options(texts, "the file")
    _add_model_options(parser.add_argument_group("models"))
    _add_training_options(parser.add_argument_group("training"))
    add_result_options(parser.add_argument_group("results"), "runs/language-CORPUS")
    return parser


def _add_model_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--preset",
        "--presets",
        nargs="+",
        choices=list(PRESETS),
        default=list(DEFAULT_PRESETS),
        metavar="NAME",
        help=f"one or more of those below ({' '.join(DEFAULT_PRESETS)})",
    )
    group.add_argument(
        "--parameters",
        type=integer(1),
        metavar="N",
        help="each model gets the largest width within this number of parameters (the preset's; "
        f"{DEFAULT_PARAMETERS:,} without --data)",
    )
    group.add_argument(
        "--hidden",
        type=integer(1, LARGEST_WIDTH),
        metavar="N",
        help="this width instead; word vectors of a size of their own keep their proportion to it",
    )
    group.add_argument(
        "--layers",
        type=integer(1, MOST_LAYERS),
        metavar="N",
        help="layers of each model (the preset's)",
    )


def _add_training_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--seeds", "--seed", nargs="+", type=integer(0), default=[0], metavar="N", help="(0)"
    )
    group.add_argument(
        "--epochs",
        type=integer(1),
        metavar="N",
        help=f"at most (the preset's; {DEFAULT_EPOCHS} without --data)",
    )
    group.add_argument(
        "--patience",
        type=integer(1),
        metavar="N",
        help="stop after N epochs without a lower validation perplexity (the preset's)",
    )
    group.add_argument(
        "--batch-size", type=integer(1), metavar="N", help="streams side by side (the preset's)"
    )
    group.add_argument(
        "--steps",
        type=integer(1),
        metavar="N",
        help="words of a stream through which gradients flow (the preset's)",
    )
    group.add_argument(
        "--lr", type=number(above=0), metavar="X", help="first learning rate (the preset's)"
    )
    group.add_argument(
        "--clip",
        type=number(least=0),
        metavar="X",
        help="largest norm of the gradient; 0: any (the preset's)",
    )
    add_device_option(group)
    group.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="32-true",
        help="auto: bf16-mixed on a GPU that has it, otherwise 32-true (32-true)",
    )


def generate_parser() -> argparse.ArgumentParser:
    """The options that draw words from a trained model."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM} generate",
        description="Draws words from a trained language model and prints them, a line for each "
        "sentence. The unknown word is not drawn.",
    )
    _add_checkpoint_option(parser)
    parser.add_argument("--prompt", default="", metavar="TEXT", help="to go on from (none)")
    _add_words_option(parser, "the prompt")
    parser.add_argument(
        "--length",
        type=integer(1),
        default=100,
        metavar="N",
        help="words to draw, ends of sentences included (100)",
    )
    parser.add_argument(
        "--temperature",
        type=number(least=0),
        default=1.0,
        metavar="X",
        help="divides the scores of words: below 1 prefers probable ones; 0: always the most "
        "probable (1)",
    )
    parser.add_argument(
        "--top-k", type=integer(1), metavar="N", help="draw from the N most probable words (all)"
    )
    parser.add_argument("--seed", type=integer(0), default=0, metavar="N", help="(0)")
    add_device_option(parser)
    return parser


def score_parser() -> argparse.ArgumentParser:
    """The options that score a text under a trained model."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM} score",
        description="Prints the perplexity of a text under a trained language model. Each line "
        "ends with an end of sentence; empty ones are left out unless --words is given.",
    )
    _add_checkpoint_option(parser)
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("--file", type=nonempty, metavar="FILE", help="a text file")
    text.add_argument("--text", type=nonempty, metavar="TEXT", help="the text itself")
    _add_file_options(parser, "the text")
    parser.add_argument("--each-line", action="store_true", help="a row for each line as well")
    add_device_option(parser)
    return parser


def _add_checkpoint_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint",
        required=True,
        type=nonempty,
        metavar="FILE",
        help="best.ckpt of a run: OUT/runs/PRESET-seedN/best.ckpt",
    )


def _add_file_options(parser: Any, what: str) -> None:
    _add_words_option(parser, what)
    parser.add_argument("--encoding", default="utf-8", metavar="NAME", help="of the file (utf-8)")


def _add_words_option(parser: Any, what: str) -> None:
    parser.add_argument(
        "--words",
        action="store_true",
        help=f"{what} is written as the corpus is, words between spaces (it is split into words "
        "as far as the vocabulary tells how)",
    )


def _compare(options: argparse.Namespace) -> int:
    for one, other in (("resume", "overwrite"), ("hidden", "parameters")):
        if getattr(options, one) and getattr(options, other):
            raise InputError(f"--{one} and --{other} exclude each other")
    with naming_extras("bench"):
        from benchmarks.harness.language_model.data import load_corpus
        from benchmarks.harness.language_model.report import (
            comparison,
            describe,
            write_language_report,
        )
        from benchmarks.harness.language_model.task import (
            LanguageTask,
            RunSettings,
            language_setups,
        )
        from benchmarks.harness.old_experiment import Experiment
    if not (options.data or options.hidden or options.parameters):
        options.parameters = DEFAULT_PARAMETERS
    data = load_corpus(_choice(options))
    experiment = Experiment(
        task=LanguageTask(data),
        models=language_setups(
            list(dict.fromkeys(options.preset)),
            data,
            _changes(options),
            options.hidden,
            options.parameters,
            options.layers,
        ),
        seeds=list(dict.fromkeys(options.seeds)),
        training=RunSettings(options.device, options.precision, shown(options)),
        out=Path(options.out or f"runs/language-{data.corpus.name}"),
        arguments=options.arguments,
    )
    experiment.check()
    experiment.open_folder(options.resume, options.overwrite)
    experiment.carry_out(
        describe(data),
        lambda runs: comparison(runs, data).text(),
        lambda runs: write_language_report(experiment.out, runs, data),
        options.quiet,
    )
    return 0


def _choice(options: argparse.Namespace) -> Any:
    """The :class:`LanguageChoice` of the options."""
    from benchmarks.harness.language_model.data import LanguageChoice

    own = options.data and Path(options.data).is_file()
    if not own and (options.words or options.encoding != "utf-8"):
        raise InputError("--words and --encoding go with a text file of your own")
    return LanguageChoice(options.data, options.encoding, options.words)


def _changes(options: argparse.Namespace) -> dict[str, Any]:
    """What the options change of the presets' training."""
    given = {field: getattr(options, option) for option, field in CHANGES.items()}
    changes = {field: value for field, value in given.items() if value is not None}
    return changes if options.data else {"epochs": DEFAULT_EPOCHS, **changes}


def _generate(options: argparse.Namespace) -> int:
    with naming_extras("bench"):
        from benchmarks.harness.language_model.generation import checked_prompt, generate
        from benchmarks.harness.language_model.trained import load_model, unknown_words
    model = load_model(options.checkpoint, options.device)
    prompt = options.prompt.split() if options.words else model.split(options.prompt)
    if options.prompt.strip() and not prompt:
        raise InputError("--prompt has no words: the vocabulary is without punctuation")
    unknown = unknown_words(model.unknown(checked_prompt(model, prompt)))
    if unknown:
        tell(f"{PROGRAM}: --prompt: {unknown}")
    end, place = model.vocabulary.words[model.vocabulary.end], ""
    for word in prompt:
        say(place + word, end="")
        place = " "
    for word in generate(
        model, prompt, options.length, options.temperature, options.top_k, options.seed
    ):
        say("\n" if word == end else place + word, end="")
        place = "" if word == end else " "
    if place:
        say("")
    return 0


def _score(options: argparse.Namespace) -> int:
    with naming_extras("bench"):
        from benchmarks.harness.language_model.scoring import score, score_table, text_lines
        from benchmarks.harness.language_model.trained import load_model, unknown_words
    lines = (
        text_lines(options.file, options.encoding) if options.file else options.text.splitlines()
    )
    model = load_model(options.checkpoint, options.device)
    split = str.split if options.words else model.split
    words = [split(line) for line in lines]
    scores = score(model, words if options.words else [line for line in words if line])
    unknown = unknown_words(scores.unknown)
    if unknown:
        tell(f"{PROGRAM}: {unknown}")
    say(score_table(scores, options.file or "whole text", options.each_line).text())
    return 0


if __name__ == "__main__":
    sys.exit(main())

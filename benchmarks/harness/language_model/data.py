"""Which corpus, and the batches that Lightning reads."""

from torch import Tensor

from benchmarks.corpora.language import LanguageCorpus, LanguageVocabulary, OwnText, TextStreams
from benchmarks.corpora.language_loader import LanguageLoader
from benchmarks.corpora.python_documentation import PythonDocumentation
from benchmarks.harness.batches import Batches
from benchmarks.harness.errors import as_input_error
from benchmarks.harness.language_model.config import TrainingSettings
from benchmarks.harness.language_model.options import Corpus
from benchmarks.harness.task import PARTS

EVALUATION_STREAMS = 10  # each begins without a past, as the AWD-LSTM's code validates


def load_corpus(options: Corpus) -> TextStreams:
    """Reads a corpus."""
    with as_input_error():
        if options.data is None:
            return PythonDocumentation()
        if options.own:
            return OwnText(options.data, options.encoding, options.words)
        return LanguageCorpus(options.data)


def language_batches(corpus: TextStreams, settings: TrainingSettings, seed: int) -> Batches:
    """Batches of streams of words.

    The training part is cut into as many streams as a batch has, side by side, but into no more
    than it has words; how many steps each batch has depends on seed and epoch alone where it
    varies. Every word of the other parts is predicted once, the first one from an end of sentence.
    After an epoch the test part is measured, too.
    """
    training = LanguageLoader(
        corpus.streams["train"],
        settings.batch_size,
        settings.steps,
        vary=settings.variable_steps,
        seed=10_000 * seed,
    )
    parts = {part: _whole(corpus.streams[part], settings.steps) for part in PARTS}
    return Batches(training, parts, [parts["test"]])


def _whole(stream: Tensor, steps: int) -> LanguageLoader:
    """Every word once."""
    streams = max(1, min(EVALUATION_STREAMS, len(stream) // steps))
    return LanguageLoader(stream, streams, steps, before=LanguageVocabulary.end, whole=True)

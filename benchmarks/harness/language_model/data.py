"""Which corpus, and the batches that Lightning reads."""

import lightning.pytorch as lightning

from benchmarks.corpora.language import LanguageCorpus, LanguageVocabulary, OwnText, TextStreams
from benchmarks.corpora.language_loader import LanguageLoader
from benchmarks.corpora.python_documentation import PythonDocumentation
from benchmarks.harness.errors import as_input_error
from benchmarks.harness.language_model.config import TrainingSettings
from benchmarks.harness.language_model.options import Corpus
from benchmarks.harness.task import PARTS

EVALUATION_STREAMS = 10  # each begins without a past, as the AWD-LSTM's code validates


def load_corpus(options: Corpus) -> TextStreams:
    """Reads a corpus.

    Raises:
        InputError: If a file is missing, has no words or cannot be read.
    """
    with as_input_error():
        if options.data is None:
            return PythonDocumentation()
        if options.own:
            return OwnText(options.data, options.encoding, options.words)
        return LanguageCorpus(options.data)


class LanguageBatches(lightning.LightningDataModule):
    """Batches of streams of words.

    The training part is cut into as many streams as a batch has, side by side, but into no more
    than it has words; how many steps each batch has depends on seed and epoch alone where it
    varies. Every word of the other parts is predicted once, the first one from an end of sentence.

    Args:
        corpus: The corpus.
        settings: How many streams and steps a batch of training has.
        seed (int): Of the numbers of steps.
    """

    def __init__(self, corpus: TextStreams, settings: TrainingSettings, seed: int) -> None:
        super().__init__()
        self.corpus = corpus
        self.settings = settings
        self.seed = seed
        self.batch_size = settings.batch_size
        self._training()

    def _training(self) -> LanguageLoader:
        return LanguageLoader(
            self.corpus.streams["train"],
            self.settings.batch_size,
            self.settings.steps,
            vary=self.settings.variable_steps,
            seed=10_000 * self.seed,
        )

    def train_dataloader(self) -> LanguageLoader:
        """The batches of this epoch."""
        loader = self._training()
        loader.set_epoch(self.trainer.current_epoch if self.trainer else 0)
        return loader

    def val_dataloader(self) -> list[LanguageLoader]:
        """The validation part, then the test part."""
        return [self.whole("valid"), self.whole("test")]

    def all_parts(self) -> list[LanguageLoader]:
        """One loader for each of the parts."""
        return [self.whole(name) for name in PARTS]

    def whole(self, name: str) -> LanguageLoader:
        """Every word of a part once."""
        stream, steps = self.corpus.streams[name], self.settings.steps
        streams = max(1, min(EVALUATION_STREAMS, len(stream) // steps))
        return LanguageLoader(stream, streams, steps, before=LanguageVocabulary.end, whole=True)

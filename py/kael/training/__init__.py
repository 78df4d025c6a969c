"""Training and fine-tuning of GPTs on text: what ``python -m kael train`` is made of.

tokenizer = kael.BpeTokenizer.from_pretrained(folder)
tokens = kael.training.encode_files(tokenizer, ["book.txt"])
training, validation = kael.training.split_tokens(tokens, 0.1)
model = kael.GPT(vocab_size=tokenizer.vocabulary_size, max_positions=256, layers=4, heads=4, dimension=128)
trainer = kael.training.Trainer(model, training, validation, kael.training.Options(steps=500))
while trainer.steps_done < 500:
    report = trainer.step()
model.save_pretrained(folder)
"""

from kael.training._corpus import encode_files, split_tokens
from kael.training._metrics import draw_losses, read_metrics
from kael.training._options import Options
from kael.training._session import Evaluation, Session
from kael.training._tokenizer import train_tokenizer
from kael.training._trainer import StepReport, Trainer

__all__ = [
    "Evaluation",
    "Options",
    "Session",
    "StepReport",
    "Trainer",
    "draw_losses",
    "encode_files",
    "read_metrics",
    "split_tokens",
    "train_tokenizer",
]

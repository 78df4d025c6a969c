"""Data sets: images and labels from IDX files, and batches of a long text's token ids."""

from kael.data._idx import read_idx_images, read_idx_labels
from kael.data._tokens import TokenBatches, load_tokens, save_tokens

__all__ = ["TokenBatches", "load_tokens", "read_idx_images", "read_idx_labels", "save_tokens"]

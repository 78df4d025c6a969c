"""Networks: modules that hold parameters, and the layers that GPT-2 is made of. Names are PyTorch's.

class Classifier(kael.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = kael.nn.Linear(784, 128)
        self.out = kael.nn.Linear(128, 10)

    def forward(self, x):
        return self.out(self.hidden(x).relu())
"""

from kael.nn import functional
from kael.nn._layers import (
    GELU,
    MLP,
    CausalSelfAttention,
    Conv1D,
    Dropout,
    Embedding,
    LayerNorm,
    Linear,
    ReLU,
    Sequential,
    Sigmoid,
    Tanh,
)
from kael.nn._module import Module, Parameter

__all__ = [
    "GELU",
    "MLP",
    "CausalSelfAttention",
    "Conv1D",
    "Dropout",
    "Embedding",
    "LayerNorm",
    "Linear",
    "Module",
    "Parameter",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Tanh",
    "functional",
]

"""A torch.compile back end that runs models in NumPy.

Once the package is installed, ``torch.compile(model, backend="kitchen_numpy")`` finds it without an import.
"""

from kitchen_numpy_backend.backend import COMPILED, EXECUTED, kitchen_numpy

__all__ = ["COMPILED", "EXECUTED", "kitchen_numpy"]

"""Training data: scikit-learn's digits; the range of their pixels is public."""

import numpy as np

from dpaudit.algorithms.optional_modules import optional_module
from dpaudit.mechanisms import Array

#: Pixels are whole numbers from 0 to 16, in pictures of 8 by 8; labels are the digits.
FEATURES, CLASSES, _LARGEST = 64, 10, 16.0

#: How many of the 1,797 pictures are trained on; the others test what was learnt.
TRAINED = 1437

_ORDER_SEED = 20160704  # of the split, the same in every run


def digits() -> tuple[Array, Array]:
    """Training records [1437, 65] and test records [360, 65]: pixels in [0, 1], then the digit.

    Of the test set of Alpaydin and Kaynak (1998), Optical Recognition of Handwritten Digits, UCI.
    """
    datasets = optional_module("sklearn.datasets", "learn", "the built-in data of training")
    pixels, labels = datasets.load_digits(return_X_y=True)
    records = np.column_stack([pixels / _LARGEST, labels])
    order = np.random.default_rng(_ORDER_SEED).permutation(len(records))
    return records[order[:TRAINED]], records[order[TRAINED:]]

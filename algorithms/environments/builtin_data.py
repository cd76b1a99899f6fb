"""The data sets that come with dpaudit, by name."""

from collections.abc import Callable, Mapping

from dpaudit.algorithms.environments.frozen_lake import frozen_lake_data
from dpaudit.algorithms.environments.tabular import BuiltinData
from dpaudit.algorithms.environments.treatment import treatment_data

BUILTIN_DATA: Mapping[str, Callable[[], BuiltinData]] = {
    "treatment": treatment_data,
    "frozen-lake": frozen_lake_data,
}

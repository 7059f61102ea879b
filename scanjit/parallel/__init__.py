"""Many parts at once: `map` calls a function on each part, on a Dask cluster, in the processes of joblib, or here."""

from scanjit.parallel.errors import PartError
from scanjit.parallel.mapping import Mapper, map

__all__ = ["Mapper", "PartError", "map"]

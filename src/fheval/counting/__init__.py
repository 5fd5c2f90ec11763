"""The party's local work: from labels and scores to counts at public decision points."""

from __future__ import annotations

from fheval.counting.chunks import Column
from fheval.counting.counts import Counts, bin_numbers
from fheval.counting.grid import Grid, as_grid
from fheval.counting.readers import RowsElsewhere, TableColumns, TableFile, TableSource, count_file, read_pair
from fheval.counting.table import UNNAMED, Table

__all__ = [
    "UNNAMED",
    "Column",
    "Counts",
    "Grid",
    "RowsElsewhere",
    "Table",
    "TableColumns",
    "TableFile",
    "TableSource",
    "as_grid",
    "bin_numbers",
    "count_file",
    "read_pair",
]

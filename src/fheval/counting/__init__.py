"""The party's local work: from labels and scores to counts at public decision points."""

from __future__ import annotations

from fheval.counting.chunks import Chunk
from fheval.counting.counts import Counts, count_chunks
from fheval.counting.grid import Grid, as_grid
from fheval.counting.readers import (
    count_file,
    count_pair,
    read_arrays,
    read_chunks,
    read_pair,
    read_pair_chunks,
)
from fheval.counting.table import UNNAMED, Column, Table
from fheval.counting.table_files import TableColumns, TableFile
from fheval.counting.tally import bin_numbers

__all__ = [
    "UNNAMED",
    "Chunk",
    "Column",
    "Counts",
    "Grid",
    "Table",
    "TableColumns",
    "TableFile",
    "as_grid",
    "bin_numbers",
    "count_chunks",
    "count_file",
    "count_pair",
    "read_arrays",
    "read_chunks",
    "read_pair",
    "read_pair_chunks",
]

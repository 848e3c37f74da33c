"""A Content-Addressable Network: zones made of cells, and peers that have them (D-ZaLaPS, 5.1 and 5.3)."""

from anabranch.zones.can.boxes import Box, boxes, zones_of_cells
from anabranch.zones.can.overlay import Can, Split

__all__ = ["Box", "Can", "Split", "boxes", "zones_of_cells"]

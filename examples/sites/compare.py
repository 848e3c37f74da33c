"""Prints what travelled in this example, beside what mirroring both streams to the office would have cost.

python examples/sites/compare.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

HERE = Path(__file__).parent


def main() -> None:
    command = [sys.executable, "-m", "anabranch", "explain", str(HERE / "network.toml"), "--format", "json"]
    facts = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    whole = {"plant1": "presses", "plant2": "ovens"}
    for link in facts["links"]:
        plant = next(site for site in link["between"] if site in whole)
        mirrored = pq.read_table(HERE / "data" / f"{whole[plant]}.parquet").nbytes
        part = 100 * link["bytes"] / mirrored
        print(f"{plant} -> office: {link['bytes']:,} bytes travelled, {mirrored:,} mirrored ({part:.1f} %)")


if __name__ == "__main__":
    main()

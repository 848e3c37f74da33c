"""`anabranch serve` as people start it: a process of its own, on real Spark, until SIGTERM."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

#: Spark takes long to start where others compute, too.
PATIENCE_S = 120.0


class Served:
    def __init__(self, folder: Path, job: str) -> None:
        (folder / "job.toml").write_text(job)
        self.sink, self.log = folder / "out", folder / "log"
        command = [sys.executable, "-m", "anabranch", "serve", str(folder / "job.toml"), "--port", "0"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=os.environ | {"COLUMNS": "200"}
            )

    def address(self) -> str:
        self.wait(lambda: "Serving " in self.log.read_text())
        return re.findall(r"Serving (\S+)", self.log.read_text())[-1]

    def wait(self, condition: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.2)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        """Where it has not stopped."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

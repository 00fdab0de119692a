"""The process that does what is asked of finished models, and the way to it.

One process stays as long as the server does, so that a question costs no start. It
reads a wish from each line of its input and answers with a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from sparsid.errors import InputError

# Seconds in which a process whose input has ended has to end itself.
PATIENCE = 5.0


class Desk:
    """The way to the process; it is started when it is first needed.

    Parameters
    ----------
    session
        The folder of the session.
    """

    def __init__(self, session: Path) -> None:
        self.session = session
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process, so that the first question finds it ready."""
        with self._lock:
            self._running()

    def ask(self, wish: dict[str, Any]) -> Any:
        """Return the answer to a wish; refusals are raised as they were there."""
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(wish) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                line = ""
            if not line:
                self._process = None
                raise InputError(
                    "the process that answers ended, perhaps for want of memory: try "
                    "again with a shorter test part"
                )
        answer = json.loads(line)
        if "error" in answer:
            raise InputError(answer["error"])
        return answer["found"]

    def close(self) -> None:
        """End the process."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sparsid.app.desk", str(self.session)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )
        return self._process


def answer_all(session: Path) -> None:
    """Answer every line of the input, until there are no more."""
    from sparsid.app.tasks import Bench

    # What libraries print must not get among the answers.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    bench = Bench(session)
    for line in sys.stdin:
        try:
            answer = {"found": bench.do(json.loads(line))}
        except InputError as error:
            answer = {"error": str(error)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    answer_all(Path(sys.argv[1]))

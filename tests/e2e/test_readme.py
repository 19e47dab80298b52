"""The tour of README.md, run as it stands there against the built program."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVER = os.environ.get("TRILITH_BIN", str(ROOT / "target/debug/trilith"))
START_LIMIT_S = 20
TOUR_LIMIT_S = 120


def blocks(language):
    """The fenced blocks of a language in the tour's section."""
    text = (ROOT / "README.md").read_text()
    section = text.split("## Five minutes", 1)[1].split("\n## ", 1)[0]
    return re.findall(rf"```{language}\n(.*?)```", section, flags=re.DOTALL)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class ReadmeTour(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="trilith-readme-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.s3_port, self.admin_port = free_port(), free_port()
        start, self.shell = blocks("sh")
        (self.python,) = blocks("python")
        # What stands before `cargo run` on the first line: the credentials that the tour uses.
        self.settings = dict(word.split("=", 1) for word in start.split(" cargo run")[0].split())

    def serve(self):
        command = [SERVER, "serve", "--data", str(self.folder / "data")]
        command += ["--s3-addr", f"127.0.0.1:{self.s3_port}", "--admin-addr", f"127.0.0.1:{self.admin_port}"]
        with open(self.folder / "server.log", "ab") as log:
            server = subprocess.Popen(command, env=os.environ | self.settings, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.wait_until_it_listens(server)
        return server

    def wait_until_it_listens(self, server):
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline and server.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.s3_port)) == 0:
                    return
            time.sleep(0.02)
        self.fail(f"the server does not listen: {(self.folder / 'server.log').read_text()}")

    def run_block(self, command, text, environment):
        """Runs a block with the server's real port; what it writes goes to HOME and TMPDIR."""
        text = text.replace("127.0.0.1:9000", f"127.0.0.1:{self.s3_port}")
        done = subprocess.run(
            [*command, text], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TOUR_LIMIT_S
        )
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_the_tour_does_what_the_readme_says(self):
        server = self.serve()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        environment["HOME"] = environment["TMPDIR"] = str(self.folder)
        shell_said = self.run_block(["bash", "-euo", "pipefail", "-c"], self.shell, environment)
        self.assertIn("byte for byte the same", shell_said)
        self.assertIn("the lock is taken", shell_said)

        exports = re.findall(r"(AWS_\w+)=(\S+)", self.shell)
        environment |= {key: value.replace("9000", str(self.s3_port)) for key, value in exports}
        python_said = self.run_block([sys.executable, "-c"], self.python, environment)
        self.assertEqual(python_said.splitlines(), ["b'ell'", "PreconditionFailed", "['docs/', 'notes/']", "b'hello again'"])

        server.kill()
        server.wait()
        self.serve()
        again = self.python.split("url = ", 1)[1]
        imports = self.python.split("\nput = ", 1)[0]
        said = self.run_block([sys.executable, "-c"], f"{imports}\nurl = {again}", environment)
        self.assertEqual(said.strip(), "b'hello again'", "after kill -9 everything acknowledged is there")


if __name__ == "__main__":
    unittest.main()

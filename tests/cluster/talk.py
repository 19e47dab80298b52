"""Commands and answers between the script and its clients' processes: a line of JSON each, over standard input and output."""

import json
import subprocess
import sys


class Helper:
    """A process of clients, as the script sees it."""

    def __init__(self, *words):
        words = [str(word) for word in words]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command, **arguments):
        self.process.stdin.write(json.dumps({"do": command} | arguments) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"clients ended with {self.process.wait()} when told to {command}")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def answer(commands):
    """The other side: `commands` are functions by their names; each takes the arguments and returns the answer."""
    for line in sys.stdin:
        arguments = json.loads(line)
        print(json.dumps(commands[arguments.pop("do")](**arguments)), flush=True)

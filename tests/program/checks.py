"""What the checks of the program share: running it, counting, and the last line."""
import json
import os
import subprocess

passed = failed = 0


def check(name, ok, detail=""):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print(f"FAIL {name}: {detail}")
    return ok


def finish(name):
    """Prints the counts; the exit status."""
    print(f"{name}: {passed} passed, {failed} failed")
    return 1 if failed else 0


class Program:
    """The built program, with plugins from a folder or file."""

    def __init__(self, exe, plugins=None):
        self.exe = exe
        self.env = {**os.environ, "ULLAGE_PLUGIN_PATH": plugins} if plugins else None

    def __call__(self, *args):
        """Exit status, what it says in JSON, and its other words."""
        p = subprocess.run([self.exe, *args, "--json"], capture_output=True, timeout=300, env=self.env)
        try:
            return p.returncode, json.loads(p.stdout.decode("utf-8", "replace").strip().split("\n")[-1]), p.stderr.decode("utf-8", "replace")
        except ValueError:
            return p.returncode, {}, p.stderr.decode("utf-8", "replace")

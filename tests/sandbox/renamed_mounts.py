"""A host where a command renames a directory above a mount, in a mount namespace of a test's own.

    unshare --mount --propagation private python -m tests.sandbox.renamed_mounts HOW USER DIRECTORY

`project/sub/volume` is a file system of its own. A command in the project gives `sub` each of some names, and
another one writes to `other` and to the volume, `confined` or `plain`. The output is JSON: what it could
write, by the name. It takes root.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.sandbox.identity import PYTHON, drop_to
from tests.sandbox.launcher import Launcher

NAMES = ("ordinary", "s\rb", "s\vb", "s\x85b", "s\u2028b", "s b\n\\040")
RENAME = "import os, sys; os.rename(*sys.argv[1:])"
WRITE = """
import json, os, sys
written = []
for path in (os.path.join(os.getcwd(), "file"), sys.argv[1]):
    try:
        open(path, "w").close()
    except OSError:
        continue
    written.append(os.path.basename(os.path.dirname(path)))
print(json.dumps(written))
"""


def main(how: str, user: int, directory: Path) -> None:
    """Make the host, and have commands try."""
    project, other, home = directory / "project", directory / "other", directory / "home"
    volume = project / "sub" / "volume"
    volume.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=777", "tmpfs", str(volume)], check=True)
    for path in (other, home):
        path.mkdir()
    # The sticky bit, so that a runtime directory of root's or the user's in it can be trusted.
    home.chmod(0o1777)
    for path in (project, volume.parent, other):
        os.chown(path, user, user)
    tried = {}
    before = "sub"
    with Launcher(user, home) as launcher:
        for name in NAMES:
            renamed = launcher.run(["sandbox", "--", PYTHON, "-c", RENAME, before, name], cwd=project)
            before = name
            words = [PYTHON, "-c", WRITE, str(project / name / "volume" / "file")]
            if how == "confined":
                outcome = launcher.run(["sandbox", "--", *words], cwd=other)
                said, complaint = outcome.stdout, renamed.stderr + outcome.stderr
            else:
                plain = subprocess.run(words, cwd=other, capture_output=True, text=True, **drop_to(user))
                said, complaint = plain.stdout, renamed.stderr + plain.stderr
            tried[name] = json.loads(said) if said and not renamed.status else complaint
    print(json.dumps(tried))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))

"""Entry point of the policy pack; the engine starts it, people need not.

Nothing may be printed here: the engine reads the server's port from the first line of output.
"""

import sys
from pathlib import Path

# The pack is a package of the repository. Its own folder, which Python puts first on the path
# when it runs a folder, would let its modules hide those of the standard library.
_PACK = Path(__file__).resolve().parent
sys.path[:] = [str(_PACK.parent), *(entry for entry in sys.path if Path(entry).resolve() != _PACK)]

from policy.pack import start  # noqa: E402  the path comes first

start()

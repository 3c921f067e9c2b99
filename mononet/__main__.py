"""``python -m mononet``: the command line, which can be interrupted while it is still loading."""

import os
import signal
import sys


def leave(*_) -> None:
    """End at once: nothing has been begun, and half-loaded libraries would answer at length."""
    os.write(2, b"interrupted before anything was begun\n")
    os._exit(130)


if __name__ == "__main__":
    # Ignored, it stays so: a command in the background is not meant to hear Ctrl-C.
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heard:
        signal.signal(signal.SIGINT, leave)
    from mononet.commands import main

    if heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())

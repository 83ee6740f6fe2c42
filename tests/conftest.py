"""What all tests share."""

from __future__ import annotations

import signal

# Where the tests run in the background these are ignored, and every program of theirs would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(_number, signal.SIG_DFL)

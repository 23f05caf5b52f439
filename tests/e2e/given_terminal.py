"""Gives its terminal away: the program of a pane of tmux in which a fork is to run (`tests/e2e/tmux.py`).

    python -I -S given_terminal.py SOCKET

A fork of another process cannot become a child of tmux. But a session whose leader lets go of its terminal leaves it to
whoever asks for it first, so this sends the terminal and the environment that tmux made, and stays until the other end
is closed: the pane lives as long as its program.
"""

import _signal  # type: ignore[import-not-found]
import _socket  # what `socket` lays over it would take as long to import as all the rest
import fcntl
import os
import sys
import termios


def main() -> None:
    """Let go of the terminal, hand it over and wait."""
    line = _socket.socket(_socket.AF_UNIX)
    line.connect(sys.argv[1])
    _signal.signal(_signal.SIGHUP, _signal.SIG_IGN)  # sent to whoever loses the terminal
    fcntl.ioctl(0, termios.TIOCNOTTY)
    handle = (0).to_bytes(4, sys.byteorder)
    line.sendmsg(
        [b"\0".join(b"%s=%s" % one for one in os.environb.items())], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, handle)]
    )
    line.recv(1)


if __name__ == "__main__":
    main()

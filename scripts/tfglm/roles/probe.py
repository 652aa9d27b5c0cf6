"""Whether a TensorFlow server answers.

That its port accepts connections says nothing: the kernel does so for a process that is stopped. But every HTTP/2 server, which
gRPC is, has to answer a PING, and that of TensorFlow does so from a thread in C++, whatever Python computes there.

Only the standard library: this runs in a process without TensorFlow. `grpc.channel_ready_future` waits for its whole timeout both
where nothing listens and where a process is stopped, and so cannot tell the two apart.
"""

import os
import socket
import time
from typing import Literal

Answer = Literal["answers", "refused", "silent"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, ACK = 4, 6, 1
"""The start of a client's connection, two types of frame, and the flag of an answer (RFC 9113, sections 3.4, 6.5 and 6.7)."""


def frame(kind: int, flags: int, payload: bytes = b"") -> bytes:
    """An HTTP/2 frame of the connection as a whole, stream 0 (RFC 9113, section 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + bytes(4) + payload


def ask(address: str, timeout_seconds: float = 5.0) -> Answer:
    """Ask the server at `host:port` for a sign of life.

    `refused`: no process listens there, so calls to it fail at once. `silent`: no answer within the timeout. The process is
    stopped, or its machine or the network is down, and calls to it may never return.
    """
    host, _, port = address.rpartition(":")
    word = os.urandom(8)
    deadline = time.monotonic() + timeout_seconds
    heard = b""
    try:
        with socket.create_connection((host, int(port)), timeout_seconds) as connection:
            connection.sendall(PREFACE + frame(SETTINGS, 0) + frame(PING, 0, word))
            while frame(PING, ACK, word) not in heard:
                connection.settimeout(max(0.001, deadline - time.monotonic()))
                part = connection.recv(4096)
                if not part:
                    return "refused"
                heard += part
    except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
        return "refused"
    except OSError:
        return "silent"
    return "answers"

"""Links between network namespaces of this machine that are as slow as real ones: `tc`'s token bucket at both ends of a cable."""

import subprocess

BURST_SECONDS = 1e-3
"""What may pass at once, after a pause. A plain TCP stream then gets 0.93 to 0.96 of the rate, at 1 and at 10 Gbit/s."""

SMALLEST_BURST = 2**17
"""Bytes: two of the largest packets that the kernel passes on unsegmented."""

LONGEST_QUEUE = "20ms"
"""What would wait longer is dropped, and TCP sends less."""


def shape(namespace: str, cable: str, gigabits: float | None) -> None:
    """Let what hangs on a cable, `eth0` of a namespace, send and receive so many Gbit/s at most; None for no limit."""
    for device in (("-n", namespace), "eth0"), ((), cable):
        options, name = device
        if gigabits is None:
            # Refused where there is none.
            subprocess.run(
                ["tc", *options, "qdisc", "delete", "dev", name, "root"], stderr=subprocess.DEVNULL, check=False
            )
            continue
        burst = max(SMALLEST_BURST, round(gigabits * 1e9 / 8 * BURST_SECONDS))
        bucket = ["tbf", "rate", f"{gigabits}gbit", "burst", str(burst), "latency", LONGEST_QUEUE]
        subprocess.run(["tc", *options, "qdisc", "replace", "dev", name, "root", *bucket], check=True)

"""Puts the runs of `measure.py` together into results/peers.json: medians of the repeats, for each work and peer.

Works and peers that were not run this time keep the figures of the last time, with the machine and the versions they are from.
"""

import argparse
import json
from pathlib import Path
from statistics import median

import yaml
from judge import largest_difference

MEDIANS = ("seconds", "peak_gb", "read_seconds", "fit_seconds")
ONCE = ("coefficients", "has_std_errors", "log_likelihood", "auc", "versions", "machine")


def summary(runs: list[dict]) -> dict:
    """One entry for the repeats of a work by a peer."""
    failed = next((run for run in runs if run["ended"] != "finished"), None)
    if failed:
        return {key: failed[key] for key in ("ended", "seconds", "peak_gb", "machine")} | {"repeats": len(runs)}
    entry = {"ended": "finished", "repeats": len(runs)}
    entry |= {name: median(run[name] for run in runs) for name in MEDIANS if name in runs[0]}
    return entry | {name: runs[0][name] for name in ONCE if name in runs[0]}


def main(arguments: argparse.Namespace) -> None:
    config = yaml.safe_load(arguments.config.read_text())
    results = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    for work in config["works"]:
        exact = arguments.runs / work / "tfglm" / "1" / "coefficients.csv"
        for peer, who in config["peers"].items():
            paths = sorted((arguments.runs / work / peer).glob("*.json"))
            if not paths:
                continue
            entry = summary([json.loads(path.read_text()) for path in paths])
            entry["can_cluster"] = who.get("clustered", False)
            coefficients = paths[0].with_suffix("") / "coefficients.csv"
            if entry["ended"] == "finished" and exact.exists():
                entry["largest_difference_in_std_errors"] = largest_difference(coefficients, exact)
            results.setdefault(work, {})[peer] = entry
    arguments.results.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    main(parser.parse_args())

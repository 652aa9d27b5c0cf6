"""The default run as a whole: its logs, its report, and what the next run still does."""

import os
import re
import shutil
import subprocess

import pytest

from runs import REPOSITORY, configure, planned, read_json, results, succeed

NOISE = re.compile(r"warning|error|deprecat|^[WEI]\d{4} |oneDNN|cuda|libgomp", re.IGNORECASE)


def test_logs_of_a_good_run_hold_no_warnings_and_no_noise(finished):
    for path in (finished / "logs").rglob("*.log"):
        for line in path.read_text().splitlines():
            assert not NOISE.search(line), f"{path}: {line}"


def test_a_complete_fit_leaves_no_design_for_its_workers(finished):
    assert len(list(finished.glob("results/models/*/cluster/workers-0.json"))) == 2
    assert not list(finished.glob("results/models/*/cluster/designs"))


def test_a_second_run_has_nothing_to_do_and_numbers_of_processes_change_nothing(finished):
    assert planned(finished) == {}
    assert planned(finished, "--config", "cluster={workers: 3, ps: 2, patience: 60}") == {}


def test_neither_a_second_fit_nor_the_number_of_workers_changes_a_digit(finished, expected):
    folder = finished / "results" / "models" / "late_arrival"
    shutil.rmtree(folder / "checkpoint")
    for name in ("fit.json", "coefficients.csv", "metrics.json"):
        (folder / name).unlink()
    printed = succeed(finished, "--config", "cluster={workers: 3}")
    assert "starting the workers (3)" in printed
    assert results(finished) == expected
    assert planned(finished) == {}


def test_a_missing_result_is_made_alone_and_what_only_looks_new_runs_nothing(finished, tmp_path):
    picture = finished / "results" / "models" / "late_arrival" / "coefficients.svg"
    content = picture.read_bytes()
    picture.unlink()
    (finished / "results" / "data" / "dictionary.json").touch()
    with (finished / "config" / "config.yaml").open("a") as file:
        file.write("# a comment\n")
    assert planned(finished) == {"render_coefficients": 1}
    succeed(finished)
    assert picture.read_bytes() == content
    assert planned(finished) == {}
    configure(finished)
    # The checkout with the results in it, in another folder.
    moved = tmp_path / "moved"
    shutil.copytree(finished, moved)
    for name in ("Snakefile", "workflow", "scripts"):
        copy = shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copy2
        copy(REPOSITORY / name, moved / name)
    shutil.copytree(REPOSITORY / "config" / "layouts", moved / "config" / "layouts")
    assert planned(moved, "--snakefile", str(moved / "Snakefile")) == {}


def test_the_targets_are_listed_with_what_they_do(finished):
    listed = succeed(finished, "--list-target-rules")
    for target in ("all", "score", "compare", "export"):
        assert re.search(rf"^{target} \([A-Z].+\.\)$", listed, re.MULTILINE), listed


BROWSER = "chromium"
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=20000",
]


def test_the_report_opens_in_a_browser(finished, tmp_path):
    if not shutil.which(BROWSER):
        required = os.environ.get("TFGLM_REQUIRE_BROWSER") == "1"
        (pytest.fail if required else pytest.skip)(f"there is no {BROWSER}; apt-get install chromium")
    succeed(finished, "--report", str(tmp_path / "report.html"))
    page = tmp_path / "report.html"
    arguments = [BROWSER, *OPTIONS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    shown = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert "Uncaught" not in shown.stderr, shown.stderr
    text = re.sub(r"<[^>]+>", " ", re.sub(r"<script.*?</script>|<style.*?</style>", "", shown.stdout, flags=re.DOTALL))
    for expected in ("1. Start here", "Data", "late_arrival", "arrival_delay", "says in plain words what was fitted"):
        assert expected in text, expected
    summary = (finished / "results" / "summary.html").read_text()
    fit, metrics = (read_json(finished, "models", "late_arrival", f"{name}.json") for name in ("fit", "metrics"))
    assert f"A logistic regression of the probability of <code>late</code> on {fit['rows']:,} rows" in summary
    assert f"(AUC {metrics['auc']:.4f})" in summary and "(separated): dest LEX" in summary
    assert fit["provenance"]["inputs"][0]["sha256"] in summary

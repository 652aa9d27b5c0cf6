"""The default run as a whole: its logs, its report, and what the next run still does."""

import re
import shutil

import numpy as np
import pandas as pd

from browser import broken_links, browser, faults, opened, without_links
from runs import REPOSITORY, configure, noise_in, planned, read_json, read_table, results, succeed
from tfglm.results.digits import significant


def test_logs_of_a_good_run_hold_no_warnings_and_no_noise(finished):
    assert noise_in(finished / "logs") == []


def test_a_complete_fit_leaves_no_design_for_its_workers(finished):
    assert len(list(finished.glob("results/flights/models/*/cluster/workers-0.json"))) == 2
    assert not list(finished.glob("results/flights/models/*/cluster/designs"))


def test_a_second_run_has_nothing_to_do_and_numbers_of_processes_change_nothing(finished):
    assert planned(finished) == {}
    assert planned(finished, "--config", "cluster={workers: 3, ps: 2, patience: 60}") == {}


def test_neither_a_second_fit_nor_the_number_of_workers_changes_a_digit(finished, expected):
    folder = finished / "results" / "flights" / "models" / "late_arrival"
    shutil.rmtree(folder / "checkpoint")
    for name in ("fit.json", "coefficients.csv", "metrics.json"):
        (folder / name).unlink()
    printed = succeed(finished, "--verbose", "--config", "cluster={workers: 3}")
    assert "starting the workers (3)" in printed
    assert results(finished) == expected
    assert planned(finished) == {}


def test_a_missing_result_is_made_alone_and_what_only_looks_new_runs_nothing(finished, tmp_path):
    picture = finished / "results" / "flights" / "models" / "late_arrival" / "coefficients.svg"
    content = picture.read_bytes()
    picture.unlink()
    (finished / "results" / "flights" / "data" / "dictionary.json").touch()
    with (finished / "config" / "config.yaml").open("a") as file:
        file.write("# a comment\n")
    assert planned(finished) == {"write_pages": 1}
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


def test_pictures_are_drawn_as_png_and_pdf_where_asked(finished):
    results = finished / "results" / "flights"
    assert not list(results.rglob("*.png")) and not list(results.rglob("*.pdf"))
    succeed(finished, "pictures")
    svg = {path.with_suffix("") for path in results.rglob("*.svg")}
    assert len(svg) == 3 * 2 + 1
    for suffix, magic in ((".png", b"\x89PNG"), (".pdf", b"%PDF")):
        drawn = list(results.rglob(f"*{suffix}"))
        assert {path.with_suffix("") for path in drawn} == svg
        assert all(path.read_bytes().startswith(magic) for path in drawn)
    assert planned(finished) == {}
    for path in [*results.rglob("*.png"), *results.rglob("*.pdf")]:
        path.unlink()


def test_the_targets_are_listed_with_what_they_do(finished):
    listed = succeed(finished, "--list-target-rules")
    for target in ("all", "score", "compare", "tables", "pictures", "export"):
        assert re.search(rf"^{target} \([A-Z].+\.\)$", listed, re.MULTILINE), listed


def test_the_report_opens_in_a_browser(finished, tmp_path):
    succeed(finished, "--report", str(tmp_path / "report.html"))
    with browser() as started, opened(started, tmp_path / "report.html") as page:
        page.get_by_text("says in plain words what was fitted").wait_for()
        text = page.inner_text("body")
    for expected in ("1. Start here", "Data", "late_arrival", "arrival_delay"):
        assert expected in text, expected


def test_the_first_page_says_what_was_fitted_and_how_well(finished):
    page = without_links(finished / "results" / "flights" / "index.html")
    fit, metrics = (read_json(finished, "models", "late_arrival", f"{name}.json") for name in ("fit", "metrics"))
    assert f"A logistic regression of the probability of <code>late</code> on {fit['rows']:,} rows" in page
    assert f"AUC {metrics['auc']:.3f}, better than" in page and "(separated): dest LEX" in page
    assert fit["provenance"]["inputs"][0]["xxh128"] in page
    assert re.search(r'<pre tabindex="0">snakemake --cores 4 --snakefile \S+</pre>', page)
    shares = [100 * metrics["accuracy"], 100 * (1 - metrics["mean_response"])]
    cells = r"<span>{:.1f} %</span></td>\s*<td[^>]*><span>{:.1f} %</span>, always “not late”".format(*shares)
    assert re.search(cells, page)
    estimate = read_table(finished, "late_arrival").loc[("carrier", "EV")]
    higher, *ends = (100 * np.expm1(estimate[name]) for name in ("estimate", "ci_lower", "ci_upper"))
    averages = pd.read_csv(finished / "results" / "flights" / "models" / "late_arrival" / "marginal_effects.csv")
    of_carrier = averages[(averages["term"] == "carrier") & (averages["level"] == "EV")].iloc[0]
    average, least, most = (100 * of_carrier[name] for name in ("estimate", "ci_lower", "ci_upper"))
    assert (
        f"The odds of late are {higher:.0f} % higher ({ends[0]:.0f} to {ends[1]:.0f} %) with carrier EV than with 9E, "
        f"on average {average:.1f} percentage points more ({least:.1f} to {most:.1f} percentage points)."
    ) in page
    assert re.search(r"arr_delay is \d+ minutes higher .* with month Dec than with Jan", page)


def test_a_picture_tells_its_numbers_where_one_points(finished):
    folder = finished / "results" / "flights" / "models" / "late_arrival"
    page, table = (folder / "coefficients.html").read_text(), read_table(finished, "late_arrival")
    numbers = np.exp(table.loc[("dest", "CAE"), ["estimate", "ci_lower", "ci_upper"]].astype(float))
    ratio, low, high = (significant(number, 3) for number in numbers)
    assert page.count(f"<title>dest CAE: odds ratio {ratio} ({low} to {high})") == 1
    assert "<title>dest, 93 levels that are not shown: odds ratio " in page and "<title>dest HNL" not in page


def test_everybody_can_use_the_pages_and_their_links_resolve(finished):
    pages = sorted((finished / "results").rglob("*.html"))
    assert {page.name for page in pages} == {
        "index.html",
        "coefficients.html",
        "metrics.html",
        "rows.html",
        "columns.html",
    }
    assert list(broken_links(pages)) == []
    assert faults(pages) == []


def test_tables_can_be_searched_and_sorted_sentences_copied_and_a_print_has_all_there_is(finished):
    path = finished / "results" / "flights" / "models" / "late_arrival" / "coefficients.html"
    with browser() as started, opened(started, path) as page:
        rows = page.locator("tbody.term > tr:not([data-sort-method]):visible")
        every = page.locator("tbody.term > tr:not([data-sort-method])").count()
        page.get_by_label("Show only").fill("dest")
        assert rows.count() == 104
        page.get_by_label("Show only").fill("")
        page.get_by_role("button", name="estimate").click()
        cells = page.locator("#term-2 > tr:not([data-sort-method]) > td:nth-child(5)").all_inner_texts()
        estimates = [float(text.replace("−", "-")) for text in cells]
        assert len(estimates) == 16 and estimates == sorted(estimates)
        page.emulate_media(media="print")
        assert rows.count() == every and not page.get_by_label("Show only").is_visible()
    permissions = {"permissions": ["clipboard-read", "clipboard-write"]}
    index = finished / "results" / "flights" / "index.html"
    with browser() as started, opened(started, index, **permissions) as page:
        sentence = page.locator(".quote").first.inner_text().removesuffix(".")
        page.locator("button.copy").first.click()
        page.get_by_text("copied", exact=True).first.wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(f"{sentence}; 95 % confidence, ")
        # A page inside another may not use the clipboard, only copy what is selected.
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {configurable: true})")
        page.locator("button.copy").last.click()
        page.locator("button.copy").last.filter(has_text="copied").wait_for()
        page.evaluate("delete navigator.clipboard")
        sentence = page.locator(".quote").last.inner_text().removesuffix(".")
        assert page.evaluate("navigator.clipboard.readText()").startswith(f"{sentence}; 95 % confidence, ")
        means = page.get_by_role("region", name="Adjusted means of carrier").first
        assert not means.is_visible()
        page.emulate_media(media="print")
        assert means.is_visible() and page.get_by_role("navigation").count() == 0

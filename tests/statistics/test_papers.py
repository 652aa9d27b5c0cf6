"""Tables for papers: likelihood-ratio tests against statsmodels, and what files of each format hold."""

import re
from dataclasses import replace

import docx
import numpy as np
import openpyxl
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from formulaic import model_matrix
from scipy.stats import chi2

from pools import estimates_of, fit_files, ingest_frame
from tfglm.config import TablesConfig
from tfglm.report import papers
from tfglm.results.coefficients import table as coefficient_table
from tfglm.results.compare import ComparedModel, responses
from tfglm.results.compare import table as compared
from tfglm.results.nested import likelihood_ratio_tests
from tfglm.results.paper import Cell, paper_table

ODD = "50%_#&^{x}~\\|"
LEVELS = ["AA", "B6", "=1+1", ODD]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(5)
    frame = pd.DataFrame({"carrier": random.choice(LEVELS, 2000), "hour": random.integers(5, 10, 2000)})
    frame["x"], frame["w"] = random.normal(size=2000), random.integers(1, 4, 2000)
    eta = 0.2 * (frame["hour"] - 7) - 0.3 * frame["x"] + (frame["carrier"] == "AA")
    frame["late"] = (random.random(2000) < 1 / (1 + np.exp(-eta))).astype(int)
    frame["delay"] = eta + random.normal(size=2000)
    return frame


@pytest.fixture(scope="module")
def model_of(frame, tmp_path_factory):
    """A function that fits a model of these rows."""
    file = ingest_frame(frame, tmp_path_factory.mktemp("papers"))

    def fitted(name: str, formula: str, family: str = "binomial", **settings) -> ComparedModel:
        design, fit, _ = fit_files([file], formula, family, **settings)
        table = coefficient_table(estimates_of(design, fit), 0.95)
        return ComparedModel(fit.summary | {"model": name}, {}, table, design)

    return fitted


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
def test_tests_of_nested_models_are_those_of_statsmodels(model_of, frame, family):
    response = {"binomial": "late", "gaussian": "delay"}[family]
    formulas = {
        "small": f"{response} ~ x",
        "carriers": f"{response} ~ x + carrier",
        "hours": f"{response} ~ poly(x, 2) + C(hour)*carrier",
    }
    table = likelihood_ratio_tests([model_of(name, formula, family) for name, formula in formulas.items()])
    families = {"binomial": sm.families.Binomial(), "gaussian": None}
    theirs = {}
    for name, formula in formulas.items():
        formula = formula.replace("poly(x, 2)", "x + I(x**2)")
        fit = (
            smf.ols(formula, frame) if family == "gaussian" else smf.glm(formula, frame, family=families[family])
        ).fit()
        theirs[name] = fit.llf, len(fit.params)
    assert table["problem"].eq("").all()
    for test in table.to_dict("records"):
        (log_likelihood, fewer), (of_larger, more) = theirs[test["model"]], theirs[test["within"]]
        assert test["chi_squared"] == pytest.approx(2 * (of_larger - log_likelihood), abs=1e-7)
        assert test["df"] == more - fewer
        assert test["p_value"] == pytest.approx(chi2.sf(test["chi_squared"], test["df"]))
    assert list(zip(table["model"], table["within"], strict=True)) == [
        ("small", "carriers"),
        ("small", "hours"),
        ("carriers", "hours"),
    ]


SPECIAL = {
    "x + carrier": ("x * carrier", ""),
    "hour": ("C(hour) + x", ""),
    "x:carrier": ("C(hour) + carrier * x", ""),
    "poly(x, 3)": ("bs(x, df=5)", ""),
    "center(x)": ("poly(x, 2) + carrier - 1", ""),
    "poly(x, 4)": ("bs(x, df=8)", "nested"),
    "log(w)": ("C(hour) + w", "nested"),
    "C(hour)": ("hour + carrier + x + w + x:w", "nested"),
    "x + hour": ("carrier + hour", "nested"),
    "x": ("scale(x)", "say the same"),
}


@pytest.mark.parametrize("smaller", SPECIAL)
def test_a_model_is_nested_if_its_predictors_are_among_those_of_the_other(model_of, frame, smaller):
    larger, problem = SPECIAL[smaller]
    models = [model_of("a", f"delay ~ {smaller}", "gaussian"), model_of("b", f"delay ~ {larger}", "gaussian")]
    (test,) = likelihood_ratio_tests(models).to_dict("records")
    assert (problem in test["problem"]) if problem else test["problem"] == ""
    of_smaller, of_larger = (model_matrix(formula, frame).to_numpy() for formula in (smaller, larger))
    adds = np.linalg.matrix_rank(np.hstack([of_larger, of_smaller])) > np.linalg.matrix_rank(of_larger)
    assert adds == ("nested" in problem)


def test_curves_and_random_effects_have_a_line_each(model_of):
    formula = "delay ~ bs(x, df=4) + s(hour, k=5) + (1 | carrier)"
    models = [model_of("smooth", formula, "gaussian"), model_of("plain", "delay ~ x", "gaussian")]
    table = paper_table(models, TablesConfig(), pd.DataFrame({"problem": []}))
    lines = {(line.term, line.level): line.cells[0].value for line in table.coefficients}
    random, curve = sorted(models[0].fit["smooths"], key=lambda smooth: not smooth["is_random"])
    assert lines.pop(("s(hour, k=5)", "effective degrees of freedom")) == pytest.approx(curve["edf"], abs=1e-4)
    assert lines.pop(("s(carrier, bs=re)", "standard deviation")) == random.get("std_dev", 0.0)
    assert lines.pop(("bs(x, df=4)", "degrees of freedom")) == 4 and set(lines) == {("Intercept", ""), ("x", "")}
    assert any("standard deviation; coefficients.csv" in note for note in table.notes)


@pytest.mark.slow
def test_where_a_test_would_not_hold_it_says_why(model_of):
    plain = model_of("plain", "late ~ x + carrier")
    others = {
        "ridge is penalised": model_of("ridge", "late ~ x", l2=0.1),
        "biased has Firth's penalty": model_of("biased", "late ~ x", firth=True),
        "robust has robust standard errors": model_of("robust", "late ~ x", std_errors="robust"),
        "the dispersion of quasi is estimated, and not by maximum likelihood": model_of(
            "quasi", "late ~ x", std_errors="quasi"
        ),
        "differ in family": model_of("delay", "delay ~ x", "gaussian"),
        "differ in weights": model_of("weighted", "late ~ x", weights="w"),
        "differ in offset": model_of("offset", "late ~ x", offset="w"),
        "slow did not converge": replace(
            model_of("slow", "late ~ x"), fit=model_of("slow", "late ~ x").fit | {"converged": False}
        ),
        "net is a network": ComparedModel({"model": "net", "kind": "network"}, {}, None),
    }
    for reason, other in others.items():
        (test,) = likelihood_ratio_tests([plain, other]).to_dict("records")
        assert reason in test["problem"] and np.isnan(test["chi_squared"]), reason
    assert (
        "No likelihood-ratio test: net is a network."
        in paper_table(
            [
                plain,
                ComparedModel(
                    {"model": "net", "kind": "network", "formula": "late ~ x", "family": "binomial"}, {}, None
                ),
            ],
            TablesConfig(),
            likelihood_ratio_tests([plain, others["net is a network"]]),
        ).notes
    )


@pytest.fixture(scope="module")
def written(model_of, tmp_path_factory):
    """The models, and the files of their table."""
    models = [model_of("few_terms", "late ~ x"), model_of("all_terms", "late ~ x + hour + carrier")]
    settings = TablesConfig(stars=[0.05, 0.001], labels={"x": "the #1 & only"}, controls=["hour"])
    table = paper_table(models, settings, likelihood_ratio_tests(models))
    folder = tmp_path_factory.mktemp("written")
    for suffix in papers.WRITERS:
        papers.write(table, folder / f"table{suffix}")
    return models, folder


def test_a_workbook_has_all_digits_as_numbers_and_no_formulas(written):
    models, folder = written
    book = openpyxl.load_workbook(folder / "table.xlsx")
    rows = [[cell.value for cell in row] for row in book["models"].iter_rows()]
    assert rows[0] == [None, None, "few_terms", "all_terms"]
    estimates = models[1].table.set_index(["term", "level"])
    by_name = {row[0]: place for place, row in enumerate(rows)}
    for term, name in (("Intercept", "Intercept"), ("x", "the #1 & only")):
        place = by_name[name]
        assert rows[place][3] == pytest.approx(estimates.loc[(term, ""), "estimate"], rel=1e-15)
        assert rows[place + 1][3] == pytest.approx(estimates.loc[(term, ""), "std_error"], rel=1e-15)
    places = {row[1]: place for place, row in enumerate(rows) if row[1]}
    assert set(places) == set(LEVELS)
    for level, place in places.items():
        if level != min(LEVELS):
            assert rows[place][3] == pytest.approx(estimates.loc[("carrier", level), "estimate"], rel=1e-15)
            assert rows[place][2] is None
    assert rows[places[min(LEVELS)]][3] == "reference"
    assert rows[by_name["hour"]][2:] == ["no", "yes"]
    assert rows[by_name["AIC"]][2:] == pytest.approx([model.fit["aic"] for model in models], rel=1e-15)
    assert "f" not in {cell.data_type for sheet in book for row in sheet.iter_rows() for cell in row}
    shown = book["models"].cell(by_name["Intercept"] + 2, 4).number_format
    assert re.fullmatch(r'"\("0\.0+"\)"', shown)
    (test,) = list(book["likelihood-ratio tests"].iter_rows(min_row=2, max_col=4, values_only=True))
    assert test[:2] == ("few_terms", "all_terms") and test[3] == 4
    difference = models[1].fit["log_likelihood"] - models[0].fit["log_likelihood"]
    assert test[2] == pytest.approx(2 * difference, rel=1e-15)


def test_digits_and_terms_of_a_table_are_chosen(written):
    models, _ = written
    plain, chosen = (
        paper_table(models, settings, likelihood_ratio_tests(models))
        for settings in (TablesConfig(), TablesConfig(digits=2, terms=["x", "carrier"]))
    )
    assert [line.term for line in chosen.coefficients] == ["x", *["carrier"] * len(LEVELS)]
    assert {line.term for line in plain.coefficients} > {"x", "carrier", "Intercept"}
    errors = [line.cells[1].below[0] for line in chosen.coefficients if line.cells[1].below]
    rows = list(papers.rows(chosen.coefficients, str))
    shown = [text.strip("()") for *_, text in rows if text.startswith("(")]
    assert shown == [f"{error:.{1 - int(np.floor(np.log10(error)))}f}" for error in errors]


def test_a_document_has_the_numbers_of_the_table(written):
    models, folder = written
    document = docx.Document(folder / "table.docx")
    rows = [[cell.text for cell in row.cells] for row in document.tables[0].rows]
    assert rows[0] == ["", "", "few_terms", "all_terms"]
    shown = {row[1]: row[3] for row in rows if row[1]}
    table = models[1].table.set_index(["term", "level"]).loc["carrier"]
    for level, text in shown.items():
        if text != "reference":
            estimate = float(text.rstrip("*").replace("−", "-"))
            assert estimate == pytest.approx(table.loc[level, "estimate"], rel=5e-3, abs=5e-4)
            stars = sum(table.loc[level, "p_value"] < limit for limit in (0.05, 0.001))
            assert text.count("*") == stars
    assert shown["AA"].endswith("**") and len(shown) == 4
    notes = [paragraph.text for paragraph in document.paragraphs]
    assert "* p < 0.05, ** p < 0.001." in notes
    assert any(
        re.fullmatch(r"Likelihood-ratio test of few_terms within all_terms: χ²\(4\) = .*", note) for note in notes
    )


def test_latex_and_markdown_mean_what_the_data_say(written):
    _, folder = written
    latex, markdown = ((folder / f"table.{suffix}").read_text() for suffix in ("tex", "md"))
    assert r"50\%\_\#\&\^{}\{x\}\textasciitilde{}\textbackslash{}|" in latex
    assert r"the \#1 \& only" in latex and r"few\_terms" in latex
    assert latex.count(r"\midrule") == 2 and latex.isascii()
    # Nothing that TeX takes for a command or a comment is left but what this file is made of.
    body = re.sub(
        r"\\[%_#&{}^]|\\(?:text\w+|ensuremath|chi|begin|end|\w*rule|par|smallskip|footnotesize|phantom|rlap)\b|\\\\",
        "",
        latex,
    )
    assert "\\" not in body and "%" not in body.partition("\n")[2] and "#" not in body
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {3}
    # The points of a column are below each other: as many digits follow each; stars and brackets take no room.
    coefficients = [line.split("&") for line in latex.split("\\midrule")[1].splitlines() if line.endswith("\\\\")]
    for place in (2, 3):
        plain = [
            re.sub(r"\\rlap\{.*?\}|\\+$", "", row[place]).replace(r"\phantom{0}", "0").strip() for row in coefficients
        ]
        assert len({len(cell.split(".")[1]) for cell in plain if "." in cell}) == 1
    assert r"| 50%\_#&^{x}~\\\| |" in re.sub(" +", " ", markdown)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in markdown.splitlines() if line.startswith("|")} == {5}


def test_a_long_latex_table_breaks_across_pages_and_intervals_stand_in_brackets(model_of, tmp_path):
    model = model_of("m", "late ~ carrier + x")
    settings = TablesConfig(below="interval")
    table = paper_table([model], settings, likelihood_ratio_tests([model]))
    long = replace(table, coefficients=table.coefficients * 8)
    papers.write(table, tmp_path / "short.tex")
    papers.write(long, tmp_path / "long.tex")
    assert r"\begin{tabular}" in (tmp_path / "short.tex").read_text()
    text = (tmp_path / "long.tex").read_text()
    assert r"\begin{longtable}" in text and text.count(r"\endhead") == 1
    x = model.table.set_index("term").loc["x"]
    papers.write(table, tmp_path / "table.md")
    expected = f"[{x['ci_lower']:.4f}, {x['ci_upper']:.4f}]".replace("-", "−").replace("[", r"\[")
    assert expected in (tmp_path / "table.md").read_text()


def test_terms_of_classes_have_the_labels_and_controls_of_their_terms(model_of):
    terms = ["Intercept", "x", "hour"]
    table = pd.DataFrame({"term": [f"{of}: {term}" for of in ("early: 5", "late") for term in terms], "level": ""})
    table = table.assign(estimate=1.5, std_error=0.5, reference="", status="", p_value=0.5)
    fit = {"model": "of_classes", "formula": "when ~ x + hour", "family": "multinomial"}
    settings = TablesConfig(labels={"x": "the covariate"}, controls=["hour"])
    both = [model_of("plain", "late ~ x"), ComparedModel(fit, {}, table)]
    made = paper_table(both, settings, likelihood_ratio_tests(both[:1]))
    assert {line.term for line in made.coefficients} == {
        *("Intercept", "the covariate"),
        *(f"{of}: {name}" for of in ("early: 5", "late") for name in ("Intercept", "the covariate")),
    }
    (controls,) = [line for line in made.statistics if line.term == "hour"]
    assert [cell.value for cell in controls.cells] == ["no", "yes"]


def test_absorbed_factors_and_penalised_likelihoods_are_named_below_the_estimates(model_of):
    models = [
        model_of("plain", "late ~ x"),
        model_of("by_carrier", "late ~ x", absorb=["carrier", "hour"]),
        model_of("by_firth", "late ~ x + carrier + C(hour)", firth=True),
    ]
    settings = TablesConfig(controls=["carrier", "C(hour)"])
    below = {
        line.term: [cell.value for cell in line.cells]
        for line in paper_table(models, settings, pd.DataFrame({"problem": []})).statistics
    }
    # What is absorbed is controlled for.
    assert below["carrier"] == below["C(hour)"] == ["no", "yes", "yes"]
    assert below["absorbed factors"] == ["", "carrier, hour", ""]
    assert below["likelihood"] == ["", "", "Firth's, penalised"]


def test_responses_differ_neither_by_their_family_nor_by_the_link(model_of):
    models = [model_of("logit", "late ~ x"), model_of("probit", "late ~ x", link="probit")]
    models.append(model_of("count", "late ~ x", "poisson"))
    assert responses(models) == ["late"]
    assert len(responses([*models, model_of("linear", "delay ~ x", "gaussian")])) == 2


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_the_reference_level_of_a_term_without_a_penalty_is_named(model_of, penalty):
    model = model_of("penalised", "late ~ x + carrier + C(hour)", unpenalised=["carrier"], **{penalty: 0.01})
    made = paper_table([model], TablesConfig(), pd.DataFrame({"problem": []}))
    values = {(line.term, line.level): line.cells[0] for line in made.coefficients}
    of_carrier = model.table[model.table["term"] == "carrier"]
    (reference,) = of_carrier["reference"].unique()
    assert values["carrier", reference] == Cell("reference")
    assert all(isinstance(values["carrier", level].value, float) for level in of_carrier["level"] if level != reference)


def test_n_counts_the_rows_of_the_likelihood(frame, tmp_path):
    """As nobs of the fit without the rows that are separated, on whose n BIC and the degrees of freedom rest."""
    rows = frame.assign(late=np.where(frame["carrier"] == "B6", 1, frame["late"]))
    file = ingest_frame(rows, tmp_path)
    design, fit, _ = fit_files([file], "late ~ carrier + x", "binomial")
    model = ComparedModel(
        fit.summary | {"model": "late"}, {}, coefficient_table(estimates_of(design, fit), 0.95), design
    )
    kept = rows[rows["carrier"] != "B6"]
    theirs = smf.glm("late ~ carrier + x", kept, family=sm.families.Binomial()).fit()
    shown = paper_table([model], TablesConfig(), likelihood_ratio_tests([model]))
    (n,) = [line.cells[0].value for line in shown.statistics if line.term == "n"]
    assert n == theirs.nobs == len(kept) == fit.summary["rows_in_likelihood"]
    assert fit.summary["df_residual"] == theirs.df_resid
    assert fit.summary["bic"] == pytest.approx(theirs.bic_llf, rel=1e-10)
    left_out = fit.summary["rows_of_separated_levels"]
    assert fit.summary["rows"] == len(rows) == len(kept) + left_out
    assert f"n of late does not count {left_out:,} rows that are separated." in shown.notes
    assert compared([model]).set_index("term").loc["n", "late"] == len(kept)

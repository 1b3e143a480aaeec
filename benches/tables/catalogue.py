"""Which tables are compared: package, object, target, task, columns left out, and the package's licence."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table of a package; `task` is `regression`, `counts` or `classes`."""

    name: str
    package: str
    item: str
    target: str
    task: str
    licence: str
    drop: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    about: str = ""


MODELDATA, MLBENCH, AER, CARDATA = ("MIT", "as in the package's help pages; UCI repository", "GPL-2 or GPL-3", "GPL-2 or later")

TABLES = [
    Table("ames", "r-cran-modeldata", "ames", "Sale_Price", "regression", MODELDATA, about="house sales in Ames, Iowa"),
    Table("sacramento", "r-cran-modeldata", "Sacramento", "price", "regression", MODELDATA, about="house prices, with city and zip code as text"),
    Table("car_prices", "r-cran-modeldata", "car_prices", "Price", "regression", MODELDATA, about="prices of used cars"),
    Table("chicago", "r-cran-modeldata", "Chicago", "ridership", "regression", MODELDATA, dates=("date",), about="rides at a station by date, weather and lagged rides"),
    Table("cps1985", "r-cran-aer", "CPS1985", "wage", "regression", AER, about="hourly wages of 1985"),
    Table("slid", "r-cran-cardata", "SLID", "wages", "regression", CARDATA, about="Canadian wages; rows with no wage left out, education and language missing in places"),
    Table("gapminder", "r-cran-dslabs", "gapminder", "life_expectancy", "regression", "Artistic-2.0", about="life expectancy by country (185 levels) and year, GDP and mortality missing in places"),
    Table("ozone", "r-cran-mlbench", "Ozone", "V4", "regression", MLBENCH, about="Los Angeles ozone of 1976, missing cells"),
    Table("seattle", "vega_datasets", "vega_datasets/_data/seattle-weather.csv", "temp_max", "regression", "BSD-3-Clause", dates=("date",), about="highest temperature by date, rain, wind and kind of weather"),
    Table("college", "r-cran-aer", "CollegeDistance", "score", "regression", AER, about="test scores of high-school seniors"),
    Table("doctor_visits", "r-cran-aer", "DoctorVisits", "visits", "counts", AER, about="consultations in two weeks, Australia"),
    Table("nmes_visits", "r-cran-aer", "NMES1988", "visits", "counts", AER, drop=("nvisits", "ovisits", "novisits"), about="physician visits of the elderly; the other visit counts left out"),
    Table("biochemists", "r-cran-pscl", "bioChemists", "art", "counts", "GPL-2", about="articles of PhD students"),
    Table("vehicle", "r-cran-mlbench", "Vehicle", "Class", "classes", MLBENCH, about="four kinds of vehicles by silhouette"),
    Table("satellite", "r-cran-mlbench", "Satellite", "classes", "classes", MLBENCH, about="land use by pixels"),
    Table("soybean", "r-cran-mlbench", "Soybean", "Class", "classes", MLBENCH, about="19 plant diseases, text and missing cells"),
    Table("credit", "r-cran-modeldata", "credit_data", "Status", "classes", MODELDATA, about="credit good or bad, text and missing cells"),
    Table("attrition", "r-cran-modeldata", "attrition", "Attrition", "classes", MODELDATA, about="employees who left, mostly text"),
    Table("chile", "r-cran-cardata", "Chile", "vote", "classes", CARDATA, about="intended vote of 1988, text and missing cells"),
]

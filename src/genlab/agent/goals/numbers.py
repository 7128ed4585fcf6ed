"""Read numbers of a goal sentence: digits, powers of ten, words of six languages, durations."""

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
"""Two numbers with units of time, such as 1 min 30 s, or one and a fraction of it."""
_TIMED = re.compile(
    rf"(?:(?P<digits>{DIGITS})|(?P<phrase>{PHRASE})|\ban?\b)(?:[-\s]*(?P<unit>{TIME}|m)(?![a-z]))?",
    re.IGNORECASE,
)


def read_digits(text: str) -> Decimal:
    """Read the number in digits that `DIGITS` matches; infinity where it is beyond a float."""
    number = text.replace(" ", "")
    number = re.sub("[⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda match: f"^{match[0].translate(_RAISED)}", number)
    number = re.sub(r"[x×·*]10(?:\^|\*\*)", "e", number)
    number = re.sub(r"10(?:\^|\*\*)", "1e", number)
    thousands = re.match(rf"[-+]?{_COMMAS}", number)
    return Decimal(repr(float(re.sub("[,'’]", "" if thousands else ".", number))))


def read_phrase(text: str) -> Decimal | None:
    """Read the number in words that `PHRASE` matches; None where they make no number."""
    return _read_words(re.sub(r"[\s-]|\b(?:an?|of)\b", "", text.lower()))


def read_duration(text: str) -> Decimal | None:
    """Read the seconds that `DURATION` matches; None where its units do not decrease."""
    total = Decimal(0)
    previous_unit = 0
    for term in _TIMED.finditer(text):
        number = Decimal(1)
        if term["digits"]:
            number = read_digits(term["digits"])
        elif term["phrase"]:
            number = read_phrase(term["phrase"]) or Decimal("nan")
        if term["unit"]:
            unit = SECONDS[term["unit"][0].lower()]
            if previous_unit and unit >= previous_unit:
                return None
        else:  # 1h30, an hour and a half
            unit = previous_unit if number < 1 else previous_unit // 60
        total += number * unit
        previous_unit = unit
    return None if total.is_nan() else total


class StatedNumber(NamedTuple):
    """A number of a sentence, in digits or words.

    values: all that it may mean, such as 50 and 50,000 for "50.000".
    """

    values: frozenset[Decimal]
    is_percentage: bool


def find_numbers(text: str) -> list[StatedNumber]:
    """Find the numbers of a sentence in any of six languages, with and without their scales."""
    decomposed = unicodedata.normalize("NFD", text.casefold())
    folded = "".join(sign for sign in decomposed if not unicodedata.combining(sign))
    folded = _PERCENT.sub("%", folded)
    numbers = [_read_match(match) for match in _IN_DIGITS.finditer(folded)]
    phrase = ""
    for word in [*re.findall(r"[^\W\d_]+|[^\s-]", folded), "."]:
        if _COMPOUND.fullmatch(word):
            phrase += word
        elif word not in _NEUTRAL:
            if value := _read_words(phrase):
                numbers.append(StatedNumber(frozenset([value]), word == "%"))
            phrase = ""
    if re.search(r"\ban? (?:second|minute|hour)\b", folded):
        numbers.append(StatedNumber(frozenset([Decimal(1)]), False))
    return numbers


def _read_match(match: re.Match[str]) -> StatedNumber:
    """Read a number in digits, which any sign may group, with the word after it."""
    values = {abs(read_digits(number)) for number in re.findall(DIGITS, match[0])}
    if match["grouped"]:
        values.add(Decimal(re.sub(r"\D", "", match[0])))
    word = match["word"] or ""
    scale = _SCALES.get(word) or (_COMPOUND.fullmatch(word) and _read_words(word)) or 0
    if scale >= 1000:
        values |= {value * scale for value in values}
    return StatedNumber(frozenset(values), bool(match["percent"]))


def _read_words(words: str) -> Decimal | None:
    """Read the number of joined words, such as twohundredandfifty; None where they make none."""
    total = Decimal(0)
    current = Decimal(0)  # what has been added up since the last thousand or million
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
            total += (current or 1) * value
            current = Decimal(0)
            scale = value
        elif value < 1:
            if is_joined or not current:  # one and a half
                current += value
            else:  # three quarters
                current *= value
            if total:
                return None
        elif value == 100 and current < 100:
            current = (current or Decimal(1)) * 100
        elif (
            (current % (10 if value < 10 else 100) == 0 and value < 100)
            or (current in (60, 80) and value < 20)  # soixante-dix
            or (is_joined and current < 10 and value % 10 == 0)  # fünfundneunzig
        ):
            current += value
        else:
            return None
        is_joined = False
    return total + current or None

"""Numbers of a goal sentence: in digits, powers of ten, words of six languages, and durations."""

import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal

SECONDS = {"s": 1, "m": 60, "h": 3600}  # by first letters
TIME = "s|sec(?:ond)?s?|min(?:ute)?s?|h|hrs?|hours?"
_RAISED = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "+-0123456789")
_POWER = r"10(?:(?:\^|\*\*)[-+]?\d+|[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
_COMMAS = r"[1-9]\d{0,2}(?:[,'’]\d{3})+"
DIGITS = (
    rf"[-+]?(?:{_POWER}|(?:{_COMMAS}|\d+(?:[.,]\d+)?|\.\d+)(?:e[-+]?\d+|\s?[x×·*]\s?{_POWER})?)"
)
_GROUPED = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:[ .,'’]\d{3})+(?!\d)")
_SCALES = {"k": 1000, "m": 1_000_000}
_WORDS: Mapping[str, str] = {  # English first, then German, French, Spanish, Portuguese, Italian
    "0.5": "half|halbe?[nrs]?|demie?|medi[oa]|mei[oa]|mezz[oa]?",
    "0.25": "quarters?|viertel|quarts?|cuartos?|quarto",
    "1000000": "million|millionen|millions|mio|millon(?:es)?|milhao|milhoes|milion[ei]",
    "1000": "thousand|tausend|tsd|mille|mila|mil",
    "100": "hundred|hundert|cent[os]?|cien(?:tos?)?|cem",
    "90": "ninety|neunzig|nonante|noventa|novanta?",
    "80": "eighty|achtzig|quatrevingts?|huitante|ochenta|oitenta|ottanta?",
    "70": "seventy|siebzig|septante|setenta|settanta?",
    "60": "sixty|sechzig|soixante|sesenta|sessenta|sessanta?",
    "50": "fifty|funfzig|cinquante|cincuenta|cinquenta|cinquanta?",
    "40": "forty|vierzig|quarante|cuarenta|quarenta|quaranta?",
    "30": "thirty|dreissig|trente|treinta|trinta|trenta?",
    "20": "twenty|zwanzig|vingts?|veinte|veinti|vinte|venti?",
    "19": "nineteen|neunzehn|diecinueve|dezenove|diciannove",
    "18": "eighteen|achtzehn|dieciocho|dezoito|diciotto",
    "17": "seventeen|siebzehn|diecisiete|dezessete|diciassette",
    "16": "sixteen|sechzehn|seize|dieciseis|dezesseis|sedici",
    "15": "fifteen|funfzehn|quinze|quince|quindici",
    "14": "fourteen|vierzehn|quatorze|catorce|catorze|quattordici",
    "13": "thirteen|dreizehn|treize|trece|treze|tredici",
    "12": "twelve|zwolf|douze|doce|doze|dodici",
    "11": "eleven|elf|onze|once|undici",
    "10": "ten|zehn|dix|diez|dieci|dez",
    "9": "nine|neun|neuf|nueve|nove",
    "8": "eight|acht|huit|ocho|oito|otto",
    "7": "seven|sieb(?:en)?|sept|siete|sette|sete",
    "6": "six|sechs?|seis|sei",
    "5": "five|funf|cinque|cinco|cinq",
    "4": "four|vier|quattro|quatre|cuatro|quatro",
    "3": "three|drei|trois|tres?",
    "2": "two|zwei|deux|dos|dois|duas|due",
    "1": "one|ein(?:e[nrs]?|s)?|un[aeo]?|uma?",
}
# The longest words first, which begin with others; what lies between the words of a number.
_GROUPS = "|".join(f"({words})" for words in _WORDS.values())
_ATOM = re.compile(f"and|und(?!ici)|{_GROUPS}|et?|y")
_COMPOUND = re.compile(f"(?:{_ATOM.pattern})+")
_AND = ("and", "und", "et", "e", "y")
_NEUTRAL = ("a", "an", "of", "de", "d", "-")
_ENGLISH = "|".join(words.partition("|")[0] for words in _WORDS.values())
PHRASE = rf"(?<![\w-])(?:an?[-\s]+)?(?:{_ENGLISH})(?:[-\s]+(?:and|an?|of|{_ENGLISH}))*"
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


def find_values(text: str) -> set[Decimal]:
    """Every number that a sentence may state: in digits or words, with and without its scale."""
    parts = unicodedata.normalize("NFD", text.casefold())
    folded = "".join(each for each in parts if not unicodedata.combining(each))
    values = {Decimal(1)} if re.search(r"\ban? (?:second|minute|hour)\b", folded) else set()
    for match in re.finditer(DIGITS, folded):
        values |= _scale(abs(read_digits(match[0])), folded[match.end() :])
    for match in _GROUPED.finditer(folded):
        values |= _scale(Decimal(re.sub(r"\D", "", match[0])), folded[match.end() :])
    phrase = list[str]()
    for word in [*re.findall(r"[^\W\d_]+|[^\s-]", folded), "."]:
        if word in _NEUTRAL or _COMPOUND.fullmatch(word):
            phrase.append(word)
            continue
        values |= _read_words(phrase)
        phrase = []
    return values


def _read_words(phrase: list[str]) -> set[Decimal]:
    """The number that words side by side state, or those on both sides of an 'and'."""
    stated = [word for word in phrase if word not in _NEUTRAL]
    value = _add("".join(stated))
    if value is None and (places := [at for at, word in enumerate(stated) if word in _AND]):
        return _read_words(stated[: places[0]]) | _read_words(stated[places[0] + 1 :])
    return {value} if value else set()


def _scale(value: Decimal, after: str) -> set[Decimal]:
    """A value, and what it is with the scale that begins the text after it."""
    word = re.match(r"\s*([^\W\d_]+)", after)
    scale = _SCALES.get(word[1]) or (_COMPOUND.fullmatch(word[1]) and _add(word[1])) if word else 0
    return {value, value * scale} if scale and scale >= 1000 else {value}


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
        value = Decimal(list(_WORDS)[match.lastindex - 1])
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

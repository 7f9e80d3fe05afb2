"""Number words of other languages, and misspelled English ones.

They are recognised, not parsed: a text with one of them may contain any number. Words that are also
common in English ("sex", "fire", "hat") are left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from reward_serve.rules.numbers.words import NUMBER_WORDS, word_list

# Accented letters split words: "zw" and "lf" come from German "zwölf", "tr" from Portuguese "três".
_NUMBERS = frozenset(
    word_list(
        """
    dos tres cuatro cinco seis siete ocho nueve diez doce trece catorce quince veinte cien ciento
    deux trois quatre cinq sept huit neuf dix onze douze treize quatorze quinze seize vingt trente
    quarante cinquante soixante
    eins zwei drei vier funf fuenf nf sechs sieben acht neun zehn zw lf zwolf zwoelf hundert tausend
    tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici
    venti trenta quaranta cinquanta sessanta settanta ottanta novanta cento
    dois duas tr quatro sete oito dez doze treze vinte trinta quarenta cinquenta sessenta setenta
    oitenta noventa cem
    twee drie vijf zes zeven negen tien twaalf honderd duizend
    dwa trzy cztery piec szesc sze siedem osiem dziewiec dziewi dziesiec dziesi sto tysiac
    dva tri chetyre pyat shest sem vosem devyat desyat sorok tysyacha
    ctyri sest sedm osm devet deset
    iki uc dort bes alti yedi sekiz dokuz yirmi otuz kirk elli altmis yetmis seksen doksan yuz
    dua tiga empat lima enam tujuh delapan lapan sembilan sepuluh sebelas belas puluh ratus ribu
    muoi hai bon chin
    tva fyra fem sju atta tta nio tio elva tolv tretton fjorton femton sexton sjutton arton nitton
    tjugo trettio fyrtio femtio sextio sjuttio attio nittio hundra tusen
    seks syv otte atte elleve tretten fjorten femten seksten sytten atten nitten tyve tjue
    tredve tretti femti seksti sytti atti nitti tusind
    kaksi kolme nelja viisi kuusi seitseman kahdeksan yhdeksan kymmenen sata tuhat
    ketto harom negy ot nyolc kilenc tiz husz harminc szaz ezer
    doi trei patru cinci sase sapte opt noua zece douazeci suta
    dalawa tatlo apat anim pito walo siyam sampu labing
    mbili tatu nne tano sita saba nane tisa kumi ishirini elfu
    ichi yon shi roku nana hachi kyu kyuu ju juu hyaku juichi juni jusan juyon jugo juroku junana
    er si wu liu qi jiu shiba shier ershi
    chaar panch chhah saat aath nau gyarah barah terah chaudah pandrah solah satrah atharah
    athara unnis bees
    dyo tria tessera pente exi epta okto ennea deka eikosi
    quinque quattuor octo novem decem viginti centum
    mila milhoes millones wan millionen millioner miljoen miljoner milioni milyon juta
    milliard milliards milliarden milliarder miljard miliardi milyar miliar
    ty fith elven twelv nin
    """
    )
)
_BEGINNINGS = (
    *("dieci", "diciot", "dicia", "veinti", "treinta", "cuarent", "cincuent", "sesent", "setent"),
    *("ochent", "novent", "dezo", "deza", "deze", "dwadzie", "trzydzie", "jedena", "osiem"),
    *("kahdek", "seitsem", "yhdek", "tizen", "huszon", "juhachi", "jukyu", "octodec", "duodev"),
    *("dekao", "dekae", "eig", "egh", "hundr", "hunder", "thous", "thaus", "twent", "thirt"),
    *("forty", "fourt", "fifty", "fiftie", "sixty", "sixtie", "sevent", "sevnt", "ninet"),
)
_ENDINGS = (
    *("zehn", "zig", "undzwan", "tien", "tig", "nascie", "nacie", "dtsat", "sekiz", "dokuz"),
    *("toista", "kymment", "sprezece", "nact", "cet", "decim", "teen", "enty", "irty", "fty"),
    *("xty", "ghty", "inty", "eenth", "ieth"),
)
_PARTS = (
    *("hundred", "thousand", "hundert", "tausend", "honderd", "duizend"),
    *("unddrei", "undvier", "undf", "undsech"),
    *("undsieb", "undacht", "undneun", "cinquant", "quarant", "ecento", "icento", "ocento"),
)  # parts of compounds such as dreihundertsieben


def may_be_numbers(words: Iterable[str]) -> bool:
    """Whether any of the words may be a number that `NUMBER_WORDS` does not list.

    Args:
        words: Words in lower case, split at accented letters.

    Returns:
        True if one is or resembles a number word of another language or a misspelled one.
    """
    unread = [word for word in words if word not in NUMBER_WORDS]
    return any(
        word in _NUMBERS
        or word.startswith(_BEGINNINGS)
        or word.endswith(_ENDINGS)
        or any(part in word for part in _PARTS)
        for word in unread
    )

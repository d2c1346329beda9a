"""Real PDF files for the tests of convert: good, odd, broken and hostile ones. Each function returns the bytes.

Those of one call are made once; they are the same in each run.
"""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import io
import random
import zipfile
import zlib
from functools import cache
from pathlib import Path

import reportlab
from reportlab import rl_config
from reportlab.lib.pagesizes import A4
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from tests.apps.convert.raw_pdf import meanings, page_object, raw, stream

rl_config.invariant = 1  # no time of day in the files

# Words as long as those of English usually are.
_SAID = (
    "tidegate keeps programs working while the services they call are failing because a gate lets water out when the "
    "tide is low and shuts by itself when the tide is high"
)
_WORDS = _SAID.split()


def _canvas(out: io.BytesIO, encrypt: StandardEncryption | None = None) -> Canvas:
    return Canvas(out, pagesize=A4, invariant=1, encrypt=encrypt)


def _sentence(dice: random.Random, words: int = 10) -> str:
    return " ".join(dice.choice(_WORDS) for _ in range(words))


# -- good ones -------------------------------------------------------------------------------------------------------


@cache
def text(pages: int = 1, lines: int = 50, seed: int = 1) -> bytes:
    """Plain text; page n begins with the words "page n"."""
    out, dice = io.BytesIO(), random.Random(seed)
    canvas = _canvas(out)
    for page in range(pages):
        canvas.setFont("Helvetica", 11)
        canvas.drawString(50, 800, f"page {page + 1}")
        for line in range(1, lines):
            canvas.drawString(50, 800 - 15 * line, _sentence(dice))
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def many_pages() -> bytes:
    return text(pages=500, lines=20)


@cache
def article() -> bytes:
    """Two headings, two paragraphs, a word broken at the end of a line, a list."""
    out = io.BytesIO()
    canvas = _canvas(out)
    rows = [
        ("Helvetica-Bold", 24, 780, "Tides"),
        ("Times-Roman", 11, 740, "The first paragraph has a word that is broken at the con-"),
        ("Times-Roman", 11, 726, "tinent of a line, and goes on."),
        ("Times-Roman", 11, 696, "The second paragraph is another one,"),
        ("Times-Roman", 11, 682, "because there is room above it."),
        ("Helvetica-Bold", 16, 650, "What to bring"),
        ("Times-Roman", 11, 626, "1. boots that reach"),
        ("Times-Roman", 11, 612, "above the knee"),
        ("Times-Roman", 11, 598, "2. a lamp & a <map>"),
    ]
    for font, size, y, said in rows:
        canvas.setFont(font, size)
        canvas.drawString(72, y, said)
    canvas.save()
    return out.getvalue()


@cache
def sample() -> bytes:
    """What the reference shows: a heading, a sentence and a small table; then a page that was scanned."""
    image = b"<< /Type /XObject /Subtype /Image /Width 2 /Height 2 /ColorSpace /DeviceGray /BitsPerComponent 8 >>"
    drawn = (
        b"BT /B 20 Tf 72 760 Td (Tides) Tj ET BT /F 11 Tf 72 730 Td (High water comes twice.) Tj ET "
        b"BT /F 11 Tf 72 700 Td (Port) Tj 120 0 Td (Height) Tj ET "
        b"BT /F 11 Tf 72 684 Td (Brest) Tj 120 0 Td (6.1 m) Tj ET"
    )
    return raw(
        {
            3: page_object(contents=6, resources=b"/Font << /F 5 0 R /B 9 0 R >>"),
            4: page_object(contents=7, resources=b"/XObject << /Im 8 0 R >>"),
            5: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            6: stream(drawn),
            7: stream(b"q 500 0 0 700 40 60 cm /Im Do Q"),
            8: stream(b"\x00\x80\x80\xff", image),
            9: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>",
            10: b"<< /Title (Tides of Brest) /CreationDate (D:20260102030405+01'00') >>",
            11: b"<< /Type /Outlines /First 12 0 R /Last 12 0 R /Count 1 >>",
            12: b"<< /Title (Tides) /Parent 11 0 R /Dest [3 0 R /Fit] >>",
        },
        pages=(3, 4), catalog=b"/Outlines 11 0 R", trailer=b"/Info 10 0 R",
    )  # fmt: skip


@cache
def table() -> bytes:
    """Four rows of three cells each, with lines around them: "r1c1" to "r4c3"."""
    out = io.BytesIO()
    canvas = _canvas(out)
    canvas.grid([72, 192, 312, 432], [600, 620, 640, 660, 680])
    canvas.setFont("Courier", 10)
    for row in range(4):
        for column in range(3):
            canvas.drawString(78 + 120 * column, 666 - 20 * row, f"r{row + 1}c{column + 1}")
    canvas.save()
    return out.getvalue()


@cache
def rotated() -> bytes:
    """Pages that are turned by 0, 90, 180 and 270 degrees; on each, "corner" stands 100 right and 50 up."""
    out = io.BytesIO()
    canvas = _canvas(out)
    for turn in (0, 90, 180, 270):
        canvas.setPageRotation(turn)
        canvas.setFont("Helvetica", 10)
        canvas.drawString(100, 50, "corner")
        canvas.showPage()
    canvas.save()
    return out.getvalue()


@cache
def unusual_fonts() -> bytes:
    """Embedded TrueType, symbols, dingbats, and Japanese in a font that is not embedded."""
    pdfmetrics.registerFont(TTFont("Vera", str(Path(reportlab.__file__).parent / "fonts" / "Vera.ttf")))
    pdfmetrics.registerFont(UnicodeCIDFont("HeiseiMin-W3"))
    out = io.BytesIO()
    canvas = _canvas(out)
    for y, font, said in (
        (780, "Vera", "Ärger für Łask €"),
        (750, "Symbol", "αβγ"),
        (720, "ZapfDingbats", "✁✂✓"),
        (690, "HeiseiMin-W3", "東京タワー"),
    ):
        canvas.setFont(font, 14)
        canvas.drawString(72, y, said)
    canvas.save()
    return out.getvalue()


@cache
def odd_letters() -> bytes:
    """Two pages, i and ii.

    On the first, letters that stand for a smile beyond 16 bits, for two letters, and for nothing; then the word
    "place", 300 from the left. On the second, a word in size 10 on a scale of two, after a smaller one.
    """
    return raw(
        {
            3: page_object(contents=6, resources=b"/Font << /F 5 0 R /G 9 0 R >>"),
            4: page_object(contents=7, resources=b"/Font << /G 9 0 R >>"),
            5: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 8 0 R >>",
            6: stream(b"BT /F 12 Tf 72 700 Td (AxBxC) Tj ET BT /G 12 Tf 300 700 Td (place) Tj ET"),
            7: stream(b"2 0 0 2 0 0 cm BT /G 7 Tf 36 300 Td (a ) Tj /G 10 Tf (scaled) Tj ET"),
            8: meanings(b"<41> <D83DDE00>", b"<42> <00660069>", b"<43> <0000>"),
            9: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        },
        pages=(3, 4), catalog=b"/PageLabels << /Nums [0 << /S /r >>] >>",
    )  # fmt: skip


@cache
def meaningless() -> bytes:
    """Two words of letters that stand for nothing."""
    return raw(
        {
            3: page_object(contents=5, resources=b"/Font << /F 4 0 R >>"),
            4: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>",
            5: stream(b"BT /F 12 Tf 72 700 Td (AB BA) Tj ET"),
            6: meanings(b"<41> <0000>", b"<42> <0000>"),
        },
        pages=(3,),
    )


@cache
def described() -> bytes:
    """A title with signs that XML must escape or cannot hold, an author, and an outline of three entries."""
    out = io.BytesIO()
    canvas = _canvas(out)
    canvas.setTitle('Tide & <gate> "one"\x07')
    canvas.setAuthor("Åsa Ödman")
    canvas.setKeywords("water, work")
    for page, (title, level) in enumerate((("Part <1>", 0), ("Chapter 1.1", 1), ("Part 2", 0)), start=1):
        canvas.bookmarkPage(f"p{page}")
        canvas.addOutlineEntry(title, f"p{page}", level)
        canvas.drawString(72, 700, title)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


@cache
def scan() -> bytes:
    """One page with an image and no text, one with text, one with nothing."""
    image = b"<< /Type /XObject /Subtype /Image /Width 2 /Height 2 /ColorSpace /DeviceGray /BitsPerComponent 8 >>"
    return raw(
        {
            3: page_object(contents=6, resources=b"/XObject << /Im 5 0 R >>"),
            4: page_object(contents=7, resources=b"/Font << /F 9 0 R >>"),
            5: stream(b"\x00\x80\x80\xff", image),
            6: stream(b"q 500 0 0 700 40 60 cm /Im Do Q"),
            7: stream(b"BT /F 12 Tf 72 700 Td (printed) Tj ET"),
            8: page_object(contents=10),
            9: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            10: stream(b""),
        },
        pages=(3, 4, 8),
    )


@cache
def encrypted(password: str = "secret", *, readable: bool = False) -> bytes:
    """Locked with a password; *readable*: everybody may read it, and only changes need the password."""
    out = io.BytesIO()
    lock = StandardEncryption("" if readable else password, ownerPassword=password, strength=128)
    canvas = _canvas(out, lock)
    canvas.drawString(72, 700, "locked words")
    canvas.save()
    return out.getvalue()


# -- none, or damaged ------------------------------------------------------------------------------------------------

ZERO = b""
BROKEN = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\nthis is nothing that could be read\n%%EOF\n"


def truncated() -> bytes:
    whole = text(3)
    return whole[: len(whole) // 2]


@cache
def zip_renamed() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("page.txt", "no PDF at all")
    return out.getvalue()


def polyglot() -> bytes:
    """A PDF that is a ZIP as well."""
    return text() + zip_renamed()


def hidden_pdf() -> bytes:
    """A ZIP that has a PDF behind its first bytes: some readers would take it for one."""
    return zip_renamed() + text()


def html_polyglot() -> bytes:
    return text().replace(b"\n", b"\n%<script>alert(1)</script>\n", 1)


# -- hostile ---------------------------------------------------------------------------------------------------------


@cache
def endless(depth: int = 12, width: int = 12) -> bytes:
    """A form that draws a form that draws a form..., each *width* times: width ** depth words."""
    font = b"/Font << /F 4 0 R >>"
    forms = {}
    for level in range(depth):
        last = level == depth - 1
        body = b"BT /F 12 Tf 72 700 Td (deep) Tj ET" if last else b"/X Do " * width
        names = font if last else b"/XObject << /X %d 0 R >>" % (11 + level)
        head = b"<< /Type /XObject /Subtype /Form /BBox [0 0 600 800] /Resources << %s >> >>" % names
        forms[10 + level] = stream(body, head)
    return raw(
        {
            3: page_object(contents=5, resources=b"/XObject << /X 10 0 R >>"),
            4: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            5: stream(b"/X Do"),
            **forms,
        },
        pages=(3,),
    )


@cache
def bomb(mebibytes: int = 400) -> bytes:
    """A page whose content is small here, and huge when it is unpacked twice; all of it but one word is spaces."""
    packing = zlib.compressobj(9)
    start = packing.compress(b"BT /F 12 Tf 72 700 Td (boom) Tj ET\n")
    first, again = (packing.compress(bytes([32]) * (1 << 20)) + packing.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    body = zlib.compress(start + first + again * (mebibytes - 1) + packing.flush(), 9)
    return raw(
        {
            3: page_object(contents=5, resources=b"/Font << /F 4 0 R >>"),
            4: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            5: stream(body, b"<< /Filter [/FlateDecode /FlateDecode] >>"),
        },
        pages=(3,),
    )


@cache
def endless_pages(pages: int = 200_000) -> bytes:
    """The same page over and over: a small file that takes minutes to read."""
    lines = b"".join(b"0 -14 Td (%s) Tj " % _sentence(random.Random(line)).encode() for line in range(50))
    return raw(
        {
            3: page_object(contents=5, resources=b"/Font << /F 4 0 R >>"),
            4: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            5: stream(b"BT /F 11 Tf 50 800 Td %s ET" % lines),
        },
        pages=(3,) * pages,
    )


def loops() -> bytes:
    """A page tree and an outline that lead back to themselves, and a count of pages that is a lie."""
    return raw(
        {3: page_object(), 7: b"<< /Type /Outlines /First 8 0 R /Last 8 0 R /Count 1000000 >>",
         8: b"<< /Title (again) /Parent 7 0 R /Next 8 0 R /First 8 0 R >>"},
        pages=(3, 2), catalog=b"/Outlines 7 0 R", count=1_000_000_000,
    )  # fmt: skip


def absurd_places() -> bytes:
    """Text so far away, so large and so small that its places are hardly numbers."""
    body = b"BT /F 1e30 Tf 1e30 1e30 Td (far) Tj ET BT /F 1e-30 Tf 0 0 Td (near) Tj ET BT /F 9 Tf 9 9 Td (here) Tj ET"
    return raw(
        {3: page_object(contents=5, resources=b"/Font << /F 4 0 R >>"), 5: stream(body),
         4: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"},
        pages=(3,),
    )  # fmt: skip

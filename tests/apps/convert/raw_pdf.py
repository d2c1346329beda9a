"""PDF files written by hand, object by object: what no library would write."""

from __future__ import annotations


def stream(body: bytes, head: bytes = b"<< >>") -> bytes:
    return head.removesuffix(b">>") + b"/Length %d >>\nstream\n%s\nendstream" % (len(body), body)


def page_object(*, contents: int | None = None, resources: bytes = b"") -> bytes:
    body = b"" if contents is None else b"/Contents %d 0 R " % contents
    return b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] %s/Resources << %s >> >>" % (body, resources)


def meanings(*pairs: bytes) -> bytes:
    """What letters of a font stand for."""
    return stream(
        b"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <FF> endcodespacerange\n"
        b"%d beginbfchar\n%s\nendbfchar endcmap end" % (len(pairs), b"\n".join(pairs))
    )


def raw(
    objects: dict[int, bytes],
    *,
    pages: tuple[int, ...],
    catalog: bytes = b"",
    trailer: bytes = b"",
    count: int | None = None,
) -> bytes:
    """A file out of these objects; 1 is the catalog and 2 the tree of pages."""
    kids = b" ".join(b"%d 0 R" % each for each in pages)
    found = {
        1: b"<< /Type /Catalog /Pages 2 0 R %s >>" % catalog,
        2: b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages) if count is None else count),
        **objects,
    }
    out, places = bytearray(b"%PDF-1.7\n"), dict[int, int]()
    for number, body in sorted(found.items()):
        places[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start, last = len(out), max(places) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % last
    for number in range(1, last):
        out += b"%010d 00000 n \n" % places[number] if number in places else b"0000000000 65535 f \n"
    out += b"trailer << /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (last, trailer, start)
    return bytes(out)

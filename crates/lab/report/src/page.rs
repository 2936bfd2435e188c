//! One file that a browser shows without a network.

/// Colours and widths. Dark where the reader's machine is; black on white on paper.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1b1b;--paper:#fff;--soft:#5a5a5a;--grid:#d9d9d9;--card:#f5f6f8;\
--c0:#0072b2;--c1:#d55e00;--c2:#007a5a;--c3:#b0508c;--c4:#8a6200;--good:#007a5a;--warn:#9a5b00;--bad:#b3261e}\
@media (prefers-color-scheme:dark){:root{--ink:#ececec;--paper:#15171a;--soft:#a8adb3;--grid:#3a3f45;\
--card:#1f2328;--c0:#56b4e9;--c1:#ff9a4d;--c2:#4fd1a5;--c3:#e59ac6;--c4:#e6c04d;--good:#4fd1a5;--warn:#ffb84d;\
--bad:#ff8a80}}\
@media print{:root{--ink:#000;--paper:#fff;--soft:#333;--grid:#bbb;--card:#fff;--c0:#0072b2;--c1:#d55e00;\
--c2:#007a5a;--c3:#b0508c;--c4:#8a6200}section{break-inside:avoid}}\
*{box-sizing:border-box}\
body{margin:0 auto;padding:24px 20px 48px;max-width:860px;background:var(--paper);color:var(--ink);\
font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\
h1{font-size:1.5rem;line-height:1.25;margin:0 0 4px}h2{font-size:1.15rem;margin:32px 0 8px}\
p{margin:8px 0}.soft{color:var(--soft);font-size:.9rem}\
.answer{background:var(--card);border-left:4px solid var(--c0);padding:12px 16px;margin:16px 0;font-size:1.08rem}\
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.93rem}\
th,td{text-align:left;padding:6px 10px 6px 0;border-bottom:1px solid var(--grid);vertical-align:top}\
th{font-weight:600}td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
.good{color:var(--good)}.warn{color:var(--warn)}.bad{color:var(--bad)}.mark{font-weight:600;white-space:nowrap}\
svg{width:100%;height:auto;display:block;margin:8px 0}svg text{fill:var(--soft);font-size:12px;font-family:inherit}\
svg .axis{fill:var(--ink)}svg .grid{stroke:var(--grid);stroke-width:1}svg .line{fill:none;stroke-width:2.2}\
svg .c0{stroke:var(--c0)}svg .c1{stroke:var(--c1)}svg .c2{stroke:var(--c2)}svg .c3{stroke:var(--c3)}\
svg .c4{stroke:var(--c4)}svg .dot{fill:var(--paper);stroke-width:2}.wide svg{min-width:600px}\
.wide svg.bars{min-width:0;max-width:560px}\
svg .b0{fill:var(--c0)}svg .b1{fill:var(--c1)}svg .b2{fill:var(--c2)}svg .b3{fill:var(--c3)}\
svg .b4{fill:var(--c4)}svg .hatch{fill:var(--paper)}svg .whisker{fill:none;stroke:var(--ink);stroke-width:1.5}\
svg .paper{fill:none;stroke:var(--ink);stroke-width:1.8;stroke-dasharray:3 2}\
ul{margin:8px 0;padding-left:1.2rem}li{margin:4px 0}\
body{overflow-wrap:anywhere}table{overflow-wrap:break-word}.finding{display:grid;grid-template-columns:6rem 1fr auto;gap:0 12px;\
padding:8px 0;border-bottom:1px solid var(--grid)}.finding p{grid-column:2/4;margin:2px 0}\
.finding .value{font-weight:600;text-align:right}\
pre{background:var(--card);padding:12px;overflow-x:auto;font-size:.85rem}";

/// How good something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    Good,
    Warning,
    Bad,
}

impl Mark {
    fn class(self) -> &'static str {
        match self {
            Mark::Good => "good",
            Mark::Warning => "warn",
            Mark::Bad => "bad",
        }
    }
}

/// A page that is being written, from the top down.
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// With its headline.
    #[must_use]
    pub fn new(title: &str) -> Page {
        let title = escaped(title);
        Page { body: format!("<h1>{title}</h1>\n"), title }
    }

    /// What the page is there to say.
    pub fn answer(&mut self, text: &str) {
        self.body.push_str(&format!("<p class=\"answer\">{}</p>\n", escaped(text)));
    }

    pub fn heading(&mut self, text: &str) {
        self.body.push_str(&format!("<h2>{}</h2>\n", escaped(text)));
    }

    pub fn paragraph(&mut self, text: &str) {
        self.body.push_str(&format!("<p>{}</p>\n", worded(text)));
    }

    /// A question, its answer, and below what that means.
    pub fn finding(&mut self, mark: Mark, word: &str, question: &str, value: &str, meaning: &str) {
        self.body.push_str(&format!(
            "<div class=\"finding\"><span class=\"mark {}\">{}</span><b>{}</b><span class=\"value\">{}</span>\
             <p class=\"soft\">{}</p></div>\n",
            mark.class(),
            escaped(word),
            escaped(question),
            escaped(value),
            escaped(meaning)
        ));
    }

    /// Sentences, one below the other.
    pub fn list(&mut self, sentences: &[String]) {
        let items: Vec<String> =
            sentences.iter().map(|text| format!("<li>{}</li>\n", worded(text))).collect();
        self.body.push_str(&format!("<ul>\n{}</ul>\n", items.concat()));
    }

    /// To a file beside this one.
    pub fn link(&mut self, to: &str, text: &str) {
        self.body.push_str(&format!("<p><a href=\"{}\">{}</a></p>\n", escaped(to), escaped(text)));
    }

    /// A line that one reads last.
    pub fn remark(&mut self, text: &str) {
        self.body.push_str(&format!("<p class=\"soft\">{}</p>\n", worded(text)));
    }

    /// A drawing, as [`crate::Chart::svg`] makes it.
    pub fn drawing(&mut self, svg: &str) {
        self.body.push_str(&format!("<section class=\"wide\">{svg}</section>\n"));
    }

    /// Rows under a header. Columns in `numbers` are aligned to the right; a cell may begin with `good:`,
    /// `warn:` or `bad:`, which marks it.
    pub fn table(&mut self, header: &[&str], numbers: &[usize], rows: &[Vec<String>]) {
        let class = |index: usize| if numbers.contains(&index) { " class=\"n\"" } else { "" };
        let mut text = String::from("<div class=\"wide\"><table><thead><tr>");
        for (index, cell) in header.iter().enumerate() {
            text.push_str(&format!("<th{}>{}</th>", class(index), escaped(cell)));
        }
        text.push_str("</tr></thead><tbody>\n");
        for row in rows {
            text.push_str("<tr>");
            for (index, cell) in row.iter().enumerate() {
                text.push_str(&format!("<td{}>{}</td>", class(index), marked(cell)));
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</tbody></table></div>\n");
        self.body.push_str(&text);
    }

    /// Text in its own lines: a job file, a command.
    pub fn verbatim(&mut self, text: &str) {
        self.body.push_str(&format!("<pre>{}</pre>\n", escaped(text)));
    }

    /// The whole file.
    #[must_use]
    pub fn finish(self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n\
             <body>\n{}</body>\n</html>\n",
            self.title, self.body
        )
    }
}

fn marked(cell: &str) -> String {
    for mark in ["good", "warn", "bad"] {
        if let Some(text) = cell.strip_prefix(mark).and_then(|rest| rest.strip_prefix(':')) {
            return format!("<span class=\"mark {mark}\">{}</span>", escaped(text));
        }
    }
    escaped(cell)
}

/// Text in which what stands in backticks is typed as it is.
fn worded(text: &str) -> String {
    let text = escaped(text);
    let pieces: Vec<&str> = text.split('`').collect();
    if pieces.len().is_multiple_of(2) {
        return text;
    }
    let piece = |(index, piece): (usize, &&str)| match index % 2 {
        0 => piece.to_string(),
        _ => format!("<code>{piece}</code>"),
    };
    pieces.iter().enumerate().map(piece).collect()
}

/// Text as HTML and SVG show it.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

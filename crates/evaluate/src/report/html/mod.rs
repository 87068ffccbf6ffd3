//! The page: head, summary, sections, data cards, configuration and provenance.

mod cards;
mod table;

use super::markup::{distinct_slugs, escape, inline, unless_empty};
use super::model::{Block, KeyFigure, Report, Section};
use super::plot::{Colours, PLOT_CSS, Plot, dark_colours, light_colours};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Nothing may be fetched, whatever the page is made to contain.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Widths at which plots are drawn: side by side, across the page, on a phone.
const HALF: f64 = 510.0;
const FULL: f64 = 1060.0;
const PHONE: f64 = 330.0;

impl Report {
    /// The report as one HTML page that needs nothing else.
    pub fn to_html(&self) -> String {
        let page = Page::new(self);
        let body = [page.top(), page.contents(), page.sections(), page.data(), page.configuration(), page.foot()];
        let parts = [page.head(), body.concat(), format!("<script>{SCRIPT}</script>\n</body>\n</html>\n")];
        parts.concat()
    }
}

struct Page<'a> {
    report: &'a Report,
    colours: Colours,
    anchors: Vec<String>,
    table_names: Vec<String>,
}

impl<'a> Page<'a> {
    fn new(report: &'a Report) -> Page<'a> {
        Page {
            report,
            colours: Colours::shared(report.plots().map(Plot::coloured_names)),
            anchors: distinct_slugs(report.sections.iter().map(|section| section.title.as_str())),
            table_names: report.table_names(),
        }
    }

    fn head(&self) -> String {
        let title = escape(&self.report.title);
        let (light, dark) = (light_colours(), dark_colours());
        // Dark colours are for screens only: paper is always light.
        let themes = format!(
            ":root{{color-scheme:light dark;{light}}}\n\
             @media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n\
             @media screen{{:root[data-theme=light]{{color-scheme:light}}\
             :root[data-theme=dark]{{color-scheme:dark;{dark}}}}}\n"
        );
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <meta name=\"generator\" content=\"Sottovoce\">\n\
             <title>{title}</title>\n<style>\n{themes}{STYLE}{PLOT_CSS}</style>\n</head>\n<body>\n"
        )
    }

    fn top(&self) -> String {
        let report = self.report;
        let mut out = String::from("<header class=\"top\">\n<div class=\"brand\">Sottovoce");
        out += &unless_empty(&report.subtitle, |text| format!("<span>{}</span>", inline(text)));
        out += "</div>\n<button class=\"theme\" type=\"button\" hidden></button>\n";
        out += &format!("<h1>{}</h1>\n", escape(&report.title));
        for (at, sentence) in report.summary.iter().enumerate() {
            let class = if at == 0 { "lead" } else { "more" };
            out += &format!("<p class=\"{class}\">{}</p>\n", inline(sentence));
        }
        if !report.figures.is_empty() {
            out += "<dl class=\"figures\">\n";
            out.extend(report.figures.iter().map(figure));
            out += "</dl>\n";
        }
        out + "</header>\n"
    }

    /// The table of contents: sections with their tables, where there are enough of them to lose one's way.
    fn contents(&self) -> String {
        let report = self.report;
        let mut names = self.table_names.iter();
        let mut entries: Vec<String> = Vec::new();
        for (section, anchor) in report.sections.iter().zip(&self.anchors) {
            let tables = section.blocks.iter().filter_map(|block| match block {
                Block::Table(table) => names.next().map(|name| link(&format!("table-{name}"), &table.caption)),
                _ => None,
            });
            let tables: String = tables.map(|link| format!("<li>{link}</li>")).collect();
            let tables = unless_empty(&tables, |tables| format!("<ul>{tables}</ul>"));
            entries.push(format!("<li>{}{tables}</li>\n", link(anchor, &section.title)));
        }
        let last = [
            (!report.data_cards.is_empty(), "the-data", "Data"),
            (!report.configuration.is_empty(), "the-configuration", "Configuration"),
        ];
        let last = last.into_iter().filter(|(exists, ..)| *exists);
        entries.extend(last.map(|(_, to, name)| format!("<li>{}</li>\n", link(to, name))));
        if entries.len() < 3 {
            return String::new();
        }
        format!("<nav aria-label=\"Contents\">\n<h2>Contents</h2>\n<ol>\n{}</ol>\n</nav>\n", entries.concat())
    }

    fn sections(&self) -> String {
        let mut tables = 0;
        let sections = self.report.sections.iter().zip(&self.anchors);
        let body: String = sections.map(|(section, anchor)| self.section(section, anchor, &mut tables)).collect();
        format!("<main>\n{body}")
    }

    fn section(&self, section: &Section, anchor: &str, tables: &mut usize) -> String {
        let mut out =
            format!("<section id=\"{anchor}\">\n<h2>{}</h2>\n{}", escape(&section.title), prose(&section.text));
        for run in section.blocks.chunk_by(|a, b| is_plot(a) && is_plot(b)) {
            match &run[0] {
                Block::Plot(_) => out += &self.plots(run),
                Block::Table(table) => {
                    out += &table::table(table, &self.table_names[*tables]);
                    *tables += 1;
                }
                Block::Note(text) => out += &format!("<aside class=\"note\">{}</aside>\n", prose(text)),
            }
        }
        out + "</section>\n"
    }

    fn plots(&self, run: &[Block]) -> String {
        let figures = run.iter().filter_map(|block| match block {
            Block::Plot(plot) => Some(self.plot(plot)),
            _ => None,
        });
        format!("<div class=\"plots\">\n{}</div>\n", figures.collect::<String>())
    }

    /// A plot twice, for wide and for narrow pages: text that shrinks with its picture cannot be read on a phone.
    fn plot(&self, plot: &Plot) -> String {
        let (class, width) = if plot.full_width { (" class=\"full\"", FULL) } else { ("", HALF) };
        let caption = unless_empty(&plot.caption, |text| format!("<p>{}</p>", inline(text)));
        format!(
            "<figure{class}>\n<figcaption><h3>{}</h3>{caption}</figcaption>\n\
             <div class=\"wide\">{}</div>\n<div class=\"slim\">{}</div>\n</figure>\n",
            escape(&plot.title),
            plot.inline(&self.colours, width),
            plot.inline(&self.colours, PHONE)
        )
    }

    fn data(&self) -> String {
        let cards = &self.report.data_cards;
        if cards.is_empty() {
            return String::new();
        }
        let cards: String = cards.iter().map(cards::card).collect();
        format!("<section id=\"the-data\">\n<h2>Data</h2>\n<div class=\"cards\">\n{cards}</div>\n</section>\n")
    }

    fn configuration(&self) -> String {
        let texts = &self.report.configuration;
        if texts.is_empty() {
            return String::new();
        }
        let texts: String = texts
            .iter()
            .map(|(name, text)| {
                let (name, text) = (escape(name), escape(text));
                format!("<details class=\"config\"><summary>{name}</summary>\n<pre tabindex=\"0\">{text}</pre>\n</details>\n")
            })
            .collect();
        format!("<section id=\"the-configuration\">\n<h2>Configuration</h2>\n{texts}</section>\n")
    }

    fn foot(&self) -> String {
        let facts: String = self
            .report
            .provenance
            .iter()
            .map(|(name, value)| format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value)))
            .collect();
        let facts = unless_empty(&facts, |facts| format!("<dl class=\"facts\">\n{facts}</dl>\n"));
        format!("</main>\n<footer>\n{facts}</footer>\n")
    }
}

fn link(to: &str, name: &str) -> String {
    format!("<a href=\"#{to}\">{}</a>", escape(name))
}

fn is_plot(block: &Block) -> bool {
    matches!(block, Block::Plot(_))
}

fn figure(figure: &KeyFigure) -> String {
    let detail = unless_empty(&figure.detail, |text| format!("<dd class=\"detail\">{}</dd>", inline(text)));
    format!("<div><dt>{}</dt><dd class=\"value\">{}</dd>{detail}</div>\n", escape(&figure.label), escape(&figure.value))
}

/// Paragraphs, parted by empty lines.
fn prose(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let paragraphs = text.split("\n\n").map(str::trim).filter(|p| !p.is_empty());
    paragraphs.map(|p| format!("<p>{}</p>\n", inline(p))).collect()
}

//! A small writer of line plots as SVG.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Told apart also without colours: by their order in the legend and by dashes.
const COLOURS: [&str; 6] = ["#1b6ca8", "#c0392b", "#27864a", "#8e44ad", "#b9770e", "#444444"];
const DASHES: [&str; 6] = ["", "6 3", "2 3", "8 3 2 3", "1 2", "10 4"];
/// About so many marks on each axis.
const MARKS: f64 = 6.0;

/// One line.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A plot. The vertical axis begins at zero.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub series: Vec<Series>,
}

impl Plot {
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let least_x = points().map(|(x, _)| *x).fold(f64::MAX, f64::min).min(0.0);
        let most_x = points().map(|(x, _)| *x).fold(f64::MIN, f64::max).max(least_x + f64::EPSILON);
        let most_y = points().map(|(_, y)| *y).fold(0.0, f64::max).max(f64::EPSILON) * 1.05;
        let x = |value: f64| LEFT + (value - least_x) / (most_x - least_x) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - value / most_y * (HEIGHT - TOP - BOTTOM);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        );
        text(&mut out, (WIDTH / 2.0, TOP / 2.0), "middle", &self.title);
        text(&mut out, (WIDTH / 2.0, HEIGHT - 12.0), "middle", &self.x_label);
        let (mid, label) = ((TOP + HEIGHT - BOTTOM) / 2.0, escaped(&self.y_label));
        let _ = writeln!(out, "<text transform=\"translate(16 {mid}) rotate(-90)\" text-anchor=\"middle\">{label}</text>");
        for mark in marks(0.0, most_y) {
            line(&mut out, (LEFT, y(mark)), (WIDTH - RIGHT, y(mark)), "#dddddd");
            text(&mut out, (LEFT - 6.0, y(mark) + 4.0), "end", &number(mark));
        }
        for mark in marks(least_x, most_x) {
            line(&mut out, (x(mark), HEIGHT - BOTTOM), (x(mark), HEIGHT - BOTTOM + 5.0), "#444444");
            text(&mut out, (x(mark), HEIGHT - BOTTOM + 18.0), "middle", &number(mark));
        }
        line(&mut out, (LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM), "#444444");
        for (at, series) in self.series.iter().enumerate() {
            let (colour, dash) = (COLOURS[at % COLOURS.len()], DASHES[at % DASHES.len()]);
            let path: Vec<String> = series.points.iter().map(|(px, py)| format!("{:.1},{:.1}", x(*px), y(*py))).collect();
            let path = path.join(" ");
            let _ = writeln!(
                out,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\" points=\"{path}\"/>"
            );
            let height = TOP + 14.0 * at as f64 + 8.0;
            let _ = writeln!(
                out,
                "<line x1=\"{}\" y1=\"{height}\" x2=\"{}\" y2=\"{height}\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>",
                WIDTH - RIGHT - 200.0,
                WIDTH - RIGHT - 175.0
            );
            text(&mut out, (WIDTH - RIGHT - 168.0, height + 4.0), "start", &series.name);
        }
        out + "</svg>\n"
    }
}

/// Round numbers from `from` to `to`.
fn marks(from: f64, to: f64) -> Vec<f64> {
    let rough = (to - from) / MARKS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough).unwrap_or(power);
    let first = (from / step).ceil() as i64;
    (first..).map(|count| count as f64 * step).take_while(|mark| *mark <= to).collect()
}

fn number(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    format!("{rounded}")
}

fn line(out: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) {
    let _ = writeln!(out, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>");
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escaped(words));
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

//! A picture as PNG. resvg draws it with embedded fonts, so it looks the same on every machine.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

use crate::picture::STYLE;

const REGULAR: &[u8] = include_bytes!("../font/DejaVuSans-subset.ttf");
const BOLD: &[u8] = include_bytes!("../font/DejaVuSans-Bold-subset.ttf");
const FAMILY: &str = "DejaVu Sans";
/// Pixels for each unit of the picture. 2 is sharp on high-density screens.
const DENSITY: f32 = 2.0;

/// Converts a picture that [`crate::picture()`] made to PNG, with the light colours.
///
/// # Errors
/// The picture is not valid SVG, or too large for memory.
pub fn png(svg: &str) -> Result<Vec<u8>, String> {
    let mut options = Options { font_family: FAMILY.to_owned(), ..Options::default() };
    let fonts = Arc::make_mut(&mut options.fontdb);
    fonts.load_font_data(REGULAR.to_vec());
    fonts.load_font_data(BOLD.to_vec());
    fonts.set_sans_serif_family(FAMILY);
    let tree =
        Tree::from_str(&in_colours(svg), &options).map_err(|error| format!("the picture is invalid: {error}"))?;
    let size = tree.size();
    let (width, height) = (size.width() * DENSITY, size.height() * DENSITY);
    let mut pixels = Pixmap::new(width.ceil() as u32, height.ceil() as u32).ok_or("the picture is too large")?;
    resvg::render(&tree, Transform::from_scale(DENSITY, DENSITY), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| error.to_string())
}

/// The picture with each `var(--c)` replaced by the colour of its class, because resvg does not support variables.
fn in_colours(svg: &str) -> String {
    let plain = ".t{fill:#1b1f23}.d{fill:#5b646d}.l{stroke:#d9dde1}.ground{fill:#fff}";
    let mut out = String::with_capacity(svg.len());
    for element in svg.replace(STYLE, plain).split_inclusive('>') {
        let class = element.split_once("class=\"").and_then(|(_, rest)| rest.split('"').next()).unwrap_or_default();
        out.push_str(&colour(class).map_or_else(|| element.to_owned(), |colour| element.replace("var(--c)", colour)));
    }
    out
}

/// The light colour of a class such as `c1`: the first one in the style.
fn colour(class: &str) -> Option<&'static str> {
    STYLE.split_once(&format!(".{class}{{--c:"))?.1.split('}').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_colours_are_drawn() {
        let svg = |inner: &str| {
            format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 40 20\" font-family=\"system-ui,sans-serif\">\
                 <style>{STYLE}</style><rect class=\"ground\" width=\"40\" height=\"20\"/>{inner}</svg>"
            )
        };
        let pixels = |inner: &str| Pixmap::decode_png(&png(&svg(inner)).unwrap()).unwrap();
        let empty = pixels("");
        assert_eq!((empty.width(), empty.height()), (80, 40));
        let dot = pixels("<circle class=\"c1\" fill=\"var(--c)\" cx=\"20\" cy=\"10\" r=\"5\"/>");
        let middle = dot.pixel(40, 20).unwrap();
        assert_eq!((middle.red(), middle.green(), middle.blue()), (0xd5, 0x5e, 0x00), "the second hue");
        let text = pixels("<text class=\"t\" x=\"2\" y=\"15\">µs ≥ ×</text>");
        assert!(text.data() != empty.data(), "no text without fonts of the machine");
        assert!(png("<svg").is_err());
    }
}

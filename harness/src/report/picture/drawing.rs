//! What is drawn and where, before it has any looks.

/// Half the size of a mark.
pub const MARK: f64 = 6.0;

/// Everything that is drawn, in user units.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawing {
    /// Its size.
    pub size: (f64, f64),
    /// Shapes, in the order in which they are drawn.
    pub shapes: Vec<Shape>,
    /// Texts, over the shapes.
    pub labels: Vec<Label>,
}

/// A shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// What it stands for; the look follows from it.
    pub class: &'static str,
    /// Its outline.
    pub form: Form,
    /// What it says when it is pointed at; empty for what speaks for itself.
    pub title: String,
}

/// The outline of a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// Left, top, width, height.
    Bar(f64, f64, f64, f64),
    /// A mark with its middle at a place.
    Mark(f64, f64),
}

/// A line of text.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// How it looks.
    pub class: &'static str,
    /// Where its baseline is.
    pub at: (f64, f64),
    /// Which part of it is there.
    pub anchor: Anchor,
    /// What it says.
    pub text: String,
}

/// Which part of a text is at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

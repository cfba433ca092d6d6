//! How fast the model is.

fn main() {}

//! Columns of text.

use bench::output::Printed;
use bench::tell;

/// Prints rows under their heads, every column as wide as its widest cell. Numbers should be ended by their units.
pub fn print<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> Printed {
    let mut widths = heads.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    print_row(&widths, heads)?;
    for row in rows {
        print_row(&widths, row.each_ref().map(String::as_str))?;
    }
    Ok(())
}

fn print_row<const N: usize>(widths: &[usize; N], cells: [&str; N]) -> Printed {
    let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
    tell!("{}", padded.collect::<Vec<_>>().join("  ").trim_end())
}

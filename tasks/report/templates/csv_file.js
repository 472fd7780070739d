// CSV files that a page saves.

// As storage/csv_cells.py: a spreadsheet must not execute a cell.
const FORMULA = /^'*[=+\-@\u0000-\u001f\u007f\uff1d\uff0b\uff0d\uff20]/;
const NUMBER = /^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$|^[+-](inf|nan)$/;

function csvCell(text) {
  const safe = FORMULA.test(text) && !NUMBER.test(text.replace(/^'+/, "")) ? "'" + text : text;
  return /[",\r\n]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
}

function saveCsv(name, rows) {
  const link = document.createElement("a");
  const lines = rows.map((row) => row.map(csvCell).join(",") + "\r\n");
  link.href = URL.createObjectURL(new Blob(lines, { type: "text/csv" }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

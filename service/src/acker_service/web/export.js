// Writes rows as files: CSV that no spreadsheet takes for formulas, and JSON.

const FORMULA = /^[=+\-@\t\r\n]/;

// A cell of CSV. A text that a spreadsheet would run as a formula gets an apostrophe in front.
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return `"${(FORMULA.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}

// The rows as CSV, a column for each field that any of them has.
export function toCsv(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return [names.map(cell), ...rows.map((row) => names.map((name) => cell(row[name])))].map((cells) => `${cells.join(",")}\r\n`).join("");
}

export const toJson = (rows) => `${JSON.stringify(rows, null, 1)}\n`;

// Let the browser keep a text as a file.
export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const anchor = Object.assign(document.createElement("a"), { href: address, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 0);
}
